"""Counts the words of a folder of texts with executors that boatswain keeps alive.

    python3 examples/word-count/count.py [FOLDER]

Needs Python and a build of boatswain (cargo build --release), and nothing else: boatswain brings a cluster along, in
which an executor is a process. This is the application's side: it starts a cluster and the driver, says how many executors
it wants, hands out pieces of text, loses an executor on purpose and sees its replacement come, kills the driver and starts
another one, checks the result, and ends.
"""

import collections
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

EXECUTORS = 3
LINES = 40
# Seconds that a piece takes, so that there is something to see.
EFFORT = 0.15
PATIENCE = 120


def say(*words):
    print(*words, flush=True)


class Work:
    """The pieces of text: those to be counted, who has which, and what was counted."""

    def __init__(self, texts):
        self.lock = threading.Lock()
        self.pieces = [
            "\n".join(lines[at : at + LINES])
            for lines in (text.splitlines() for text in texts)
            for at in range(0, len(lines), LINES)
        ]
        self.waiting = collections.deque(range(len(self.pieces)))
        self.given = {}
        self.counts = {}
        self.pids = {}
        self.by = collections.Counter()

    def give(self, executor, pid):
        """A piece for this executor, or none for now."""
        with self.lock:
            self.pids[executor] = pid
            if not self.waiting:
                return {"piece": None}
            piece = self.waiting.popleft()
            self.given[piece] = executor
            return {"piece": piece, "text": self.pieces[piece], "effort": EFFORT}

    def take(self, executor, piece, counts):
        """What an executor has counted. Of a piece that was counted twice one result is as good as the other."""
        with self.lock:
            self.given.pop(piece, None)
            if piece not in self.counts:
                self.by[executor] += 1
                self.counts[piece] = collections.Counter(counts)
            return {}

    def lost(self, living):
        """Whoever has a piece and lives no longer will not count it: somebody else gets it."""
        with self.lock:
            again = [piece for piece, executor in self.given.items() if executor not in living]
            for piece in again:
                del self.given[piece]
                if piece not in self.counts:
                    self.waiting.append(piece)
            return again

    def done(self):
        with self.lock:
            return len(self.counts)

    def busy(self):
        """An executor that has a piece, and its process."""
        with self.lock:
            executor = next(iter(self.given.values()), None)
            return executor, self.pids.get(executor)

    def total(self):
        return sum(self.counts.values(), collections.Counter())


def serve(work):
    """Where executors get their pieces; the address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/piece":
                answer = work.give(body["executor"], body["pid"])
            else:
                answer = work.take(body["executor"], body["piece"], body["counts"])
            text = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


class Cluster:
    """A cluster of this application's own, whose pods are processes of this machine."""

    def __init__(self, directory):
        self.kubeconfig = directory / "kubeconfig"
        self.log = directory / "cluster.log"
        command = [binary(), "dev-cluster", "--token-file", str(directory / "cluster-token")]
        command += ["--kubeconfig", str(self.kubeconfig)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log.open("wb"))
        until("the cluster is there", self.is_there)

    def is_there(self):
        if self.process.poll() is not None:
            raise SystemExit(f"the cluster has exited:\n{self.log.read_text()}")
        return self.kubeconfig.exists()

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Driver:
    """A boatswain of this application's own, and its API."""

    def __init__(self, directory, cluster, application):
        token_file = directory / "token"
        self.log = directory / "driver.log"
        # Where executors and the application find it, also when it was started again.
        self.api, sessions = (f"127.0.0.1:{port}" for port in free_ports(2))
        settings = {
            "app.id": f"word-count-{os.getpid()}",
            "cluster.kubeconfig": cluster.kubeconfig,
            "api.listen": self.api,
            "api.token_file": token_file,
            "backend.listen": sessions,
            "profiles.default.command": json.dumps([binary(), "agent", "--slots", "1", "--", "python3"]),
            "profiles.default.args": json.dumps([str(HERE / "executor.py")]),
            "profiles.default.env.WORD_COUNT_URL": application,
            "log.format": "json",
        }
        self.command = [binary(), "run", "--config", str(HERE / "boatswain.toml")]
        for key, value in settings.items():
            self.command += ["--set", f"{key}={value}"]
        self.start()
        self.token = token_file.read_text().split()[0]

    def start(self):
        self.process = subprocess.Popen(self.command, stderr=self.log.open("wb"))
        until("the driver serves its API", self.serves)

    def serves(self):
        if self.process.poll() is not None:
            raise SystemExit(f"the driver has exited:\n{self.log.read_text()}")
        return '"the API is listening"' in self.log.read_text()

    def kill(self):
        """It is gone without a word, as where its machine fails."""
        self.process.kill()
        self.process.wait()

    def ask(self, method, path, body=None):
        request = urllib.request.Request(
            f"http://{self.api}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}"},
        )
        began = time.monotonic()
        while True:
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                # It starts, and does not know its executors yet.
                again = error.headers.get("Retry-After")
                if not again or time.monotonic() - began > PATIENCE:
                    raise
                time.sleep(float(again))

    def want(self, executors):
        self.ask("PUT", "/v1/targets", {"targets": {"default": executors}})

    def executors(self):
        """The executors that live, by id."""
        return {view["executor"]: view for view in self.ask("GET", "/v1/executors")["executors"]}

    def registered(self):
        return {n for n, view in self.executors().items() if view.get("session")}

    def story(self, executor):
        """What happened to an executor, in words."""
        events = self.ask("GET", f"/v1/executors/{executor}")["events"]
        return ", ".join(event["event"] for event in events)

    def end(self):
        """The application is over; the driver's exit code."""
        try:
            self.ask("POST", "/v1/application/end", {"exit_code": 0})
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


def binary():
    """The program: the one that is named, the newest build, or the one on the path."""
    builds = [ROOT / "target" / kind / "boatswain" for kind in ("release", "debug")]
    builds = sorted((b for b in builds if b.exists()), key=lambda b: -b.stat().st_mtime)
    return os.environ.get("BOATSWAIN") or str(builds[0] if builds else "boatswain")


def free_ports(count):
    """Ports on which nobody listens."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports


def until(what, look):
    """Waits until there is something to return."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        if found := look():
            return found
        time.sleep(0.1)
    raise SystemExit(f"waited in vain until {what}")


def run(driver, work):
    say(f"{len(work.pieces)} pieces to count, {EXECUTORS} executors wanted")
    driver.want(EXECUTORS)
    there = until("all have registered", lambda: enough(driver.registered()))
    say("registered:", *sorted(there))

    until("a third is counted", lambda: work.done() * 3 > len(work.pieces))
    victim, process = until("one is at work", lambda: work.busy() if work.busy()[1] else None)
    say(f"executor {victim} is killed with a piece in its hands")
    os.kill(process, signal.SIGKILL)
    until("it is gone", lambda: victim not in driver.executors())
    # An end is told when the record has it.
    until("its end is told", lambda: driver.story(victim).endswith("ended"))
    say(f"executor {victim} was:", driver.story(victim))
    again = work.lost(driver.executors())
    say("given to somebody else:", *again)
    there = until("there are as many as before", lambda: enough(driver.registered()))
    say("registered:", *sorted(there))

    until("half is counted", lambda: work.done() * 2 > len(work.pieces))
    driver.kill()
    done = work.done()
    say(f"the driver is killed: {done} pieces are counted")
    until("they go on without it", lambda: work.done() >= min(done + EXECUTORS, len(work.pieces)))
    say(f"without a driver: {work.done() - done} more")
    driver.start()
    again = until("they have found the new driver", lambda: enough(driver.registered()))
    say("the driver is started again, registered:", *sorted(again))
    if again != there:
        raise SystemExit("other executors than before")

    until("all is counted", lambda: work.done() == len(work.pieces))
    shares = ", ".join(f"{n}: {count}" for n, count in sorted(work.by.items()))
    say(f"all is counted, pieces by executor: {shares}")
    driver.want(0)
    until("nobody is left", lambda: not driver.executors())
    say("nobody is left")


def enough(executors):
    return executors if len(executors) == EXECUTORS else None


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    files = sorted({*folder.glob("*.md"), *folder.glob("*.txt"), *folder.glob("docs/*.md")})
    texts = [file.read_text(errors="replace") for file in files]
    if not texts:
        raise SystemExit(f"no texts (*.md, *.txt) in {folder}")
    work = Work(texts)
    with tempfile.TemporaryDirectory() as directory:
        cluster = Cluster(pathlib.Path(directory))
        try:
            driver = Driver(pathlib.Path(directory), cluster, serve(work))
            try:
                run(driver, work)
                code = driver.end()
            finally:
                driver.process.terminate()
                driver.process.wait()
        finally:
            # Whatever went wrong: nothing stays behind, for executors end with their node.
            cluster.stop()
    expected = collections.Counter(re.findall(r"[a-z]+", "\n".join(texts).lower()))
    if work.total() != expected:
        raise SystemExit("the counts are wrong")
    common = ", ".join(f"{word} {count}" for word, count in expected.most_common(5))
    say(f"{sum(expected.values())} words, the counts are right; the most common: {common}")
    say(f"the driver has ended with {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
