"""What the scenarios share: a boatswain to talk to, Spark sessions, executors' processes, Spark's event log."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.request

BOATSWAIN = os.environ.get("BOATSWAIN", "boatswain")
WAIT = 90
TEXT = ["the quick brown fox", "jumps over the lazy dog"] * 500
COUNTS = {"the": 1000, "quick": 500, "brown": 500, "fox": 500, "jumps": 500, "over": 500, "lazy": 500, "dog": 500}


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def until(what, condition, seconds=WAIT):
    """Waits for a true value and returns it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            say(what)
            return value
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Boatswain:
    """A driver on an embedded cluster, in its process or apart, that can be killed and started again."""

    def __init__(self, directory, apart=False, settings=()):
        self.directory = pathlib.Path(directory)
        self.address = f"127.0.0.1:{free_port()}"
        self.token = self.directory / "token"
        self.processes = []
        config = [
            'profiles.default = { executors = 0, command = ["/bin/true"] }',
            'allocation.scale_down = "pending-only"',
            f'api = {{ listen = "{self.address}", token_file = "{self.token}" }}',
            f'backend = {{ listen = "127.0.0.1:{free_port()}", registration = "optional", auth = "derived", key_file = "{self.directory}/key" }}',
            'log.level = "info"',
            *settings,
        ]
        if apart:
            kubeconfig = self.directory / "kubeconfig"
            cluster = ["dev-cluster", "--listen", f"127.0.0.1:{free_port()}", "--token-file", f"{directory}/cluster-token"]
            self.start("cluster", *cluster, "--kubeconfig", str(kubeconfig), "--state-dir", f"{directory}/state")
            until("the cluster is there", kubeconfig.exists)
            config.append(f'cluster.kubeconfig = "{kubeconfig}"')
        else:
            config += ['cluster.mode = "embedded"', f'embedded.state_dir = "{directory}/state"']
        (self.directory / "boatswain.toml").write_text("\n".join(config) + "\n")
        self.run()

    def start(self, name, *arguments):
        with (self.directory / f"{name}.log").open("ab") as log:
            started = subprocess.Popen([BOATSWAIN, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.processes.append(started)
        return started

    def run(self):
        self.driver = self.start("boatswain", "run", "--config", str(self.directory / "boatswain.toml"))
        until("boatswain answers", self.answers)

    def kill(self):
        self.driver.kill()
        self.driver.wait()

    def answers(self):
        try:
            return self.call("GET", "/v1/targets")
        except OSError:
            return None

    def call(self, method, path, body=None):
        request = urllib.request.Request(f"http://{self.address}{path}", method=method)
        request.add_header("Authorization", f"Bearer {self.token.read_text().split()[0]}")
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data, timeout=10) as answer:
            return json.load(answer)

    def executors(self):
        return self.call("GET", "/v1/executors")["executors"]

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def boatswain(directory, **settings):
    started = Boatswain(directory, **settings)
    try:
        yield started
    finally:
        started.close()


@contextlib.contextmanager
def spark(jar, directory, master, *, on=None, **settings):
    """A Spark session; `settings` are spark.* with `_` for `.`, or a dict `conf`."""
    from pyspark.sql import SparkSession

    events = pathlib.Path(directory) / "events"
    events.mkdir(exist_ok=True)
    conf = {
        "spark.jars": str(jar),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.boatswain.binary": BOATSWAIN,
    }
    if on:
        conf["spark.boatswain.tokenFile"] = str(on.token)
    conf.update(settings.pop("conf", {}))
    builder = SparkSession.builder.appName("Word count").master(master)
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session.sparkContext
    finally:
        session.stop()


def word_count(sc, partitions=48, seconds=0.3):
    """The counts, by tasks that take this long each."""

    def words(line):
        return line.split()

    def slowly(lines):
        time.sleep(seconds)
        return lines

    pairs = sc.parallelize(TEXT, partitions).mapPartitions(slowly).flatMap(words).map(lambda word: (word, 1))
    return pairs.reduceByKey(lambda one, other: one + other, 4)


def registered(sc):
    """How many executors Spark has."""
    return sc._jsc.sc().getExecutorMemoryStatus().size() - 1


def executor_pids(sc):
    """Executors' ids and the pids of their JVMs."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if words[0].endswith("/java") and sc.applicationId in words and "--executor-id" in words:
            found[int(words[words.index("--executor-id") + 1])] = int(entry.name)
    return found


def kill_executors(sc, ids):
    pids = executor_pids(sc)
    for number in ids:
        os.kill(pids[number], signal.SIGKILL)
    say("killed", *ids)


def events_of(directory, name):
    """Spark's own record of what happened: the events of this name in the event log."""
    found = []
    for file in (pathlib.Path(directory) / "events").iterdir():
        for line in file.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == name:
                found.append(event)
    return found


def removed(directory):
    """Why executors were removed, by id."""
    events = events_of(directory, "SparkListenerExecutorRemoved")
    return {int(event["Executor ID"]): event["Removed Reason"] for event in events}


def equal(found, wanted):
    assert found == wanted, f"{found} instead of {wanted}"
