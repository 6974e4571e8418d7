"""What the scenarios share: a boatswain to talk to, Spark sessions, executors' processes, Spark's event log."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import time
import urllib.request

BOATSWAIN = os.environ.get("BOATSWAIN", "boatswain")
WAIT = 90
FRUGAL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
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


def reachable(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


class Boatswain:
    """A driver on an embedded cluster, in its process or apart, that can be killed and started again."""

    def __init__(self, directory, apart=False, tls=False, settings=()):
        self.directory = pathlib.Path(directory)
        self.address = f"127.0.0.1:{free_port()}"
        self.tls = None
        self.token = self.directory / "token"
        self.processes = []
        config = [
            'profiles.default = { executors = 0, command = ["/bin/true"] }',
            'allocation.scale_down = "pending-only"',
            f'api = {{ listen = "{self.address}", token_file = "{self.token}" }}',
            f'backend = {{ listen = "127.0.0.1:{free_port()}", registration = "optional", auth = "derived", key_file = "{self.directory}/key" }}',
        ]
        if apart:
            self.start_cluster()
            config.append(f'cluster.kubeconfig = "{self.directory}/kubeconfig"')
        else:
            config += ['cluster.mode = "embedded"', f'embedded.state_dir = "{directory}/state"']
        config += settings
        if tls:
            config.append('tls = { generate = true, names = ["127.0.0.1"] }')
        (self.directory / "boatswain.toml").write_text("\n".join(config) + "\n")
        self.driver = self.start_driver()
        if tls:
            self.trust()
        until("boatswain answers", self.answers)

    def start_cluster(self):
        port = free_port()
        arguments = ["--listen", f"127.0.0.1:{port}", "--token-file", f"{self.directory}/cluster-token"]
        arguments += ["--kubeconfig", f"{self.directory}/kubeconfig", "--state-dir", f"{self.directory}/state"]
        self.start("cluster", "dev-cluster", *arguments)
        self.cluster = f"127.0.0.1:{port}"
        until("the cluster is there", lambda: reachable(port) and (self.directory / "kubeconfig").exists())

    def trust(self):
        """Gets the CA that the driver has made."""
        url = f"http://{self.cluster}/api/v1/namespaces/default/configmaps/boatswain-executor"
        token = (self.directory / "cluster-token").read_text().split()[0]

        def authority():
            try:
                request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return json.load(answer)["data"].get("ca.crt")
            except OSError:
                return None

        (self.directory / "ca.crt").write_text(until("the driver's CA is there", authority))
        self.tls = ssl.create_default_context(cafile=str(self.directory / "ca.crt"))

    def start(self, name, *arguments):
        with (self.directory / f"{name}.log").open("ab") as log:
            started = subprocess.Popen([BOATSWAIN, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.processes.append(started)
        return started

    def start_driver(self):
        return self.start("boatswain", "run", "--config", str(self.directory / "boatswain.toml"))

    def run(self):
        self.driver = self.start_driver()
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
        scheme = "https" if self.tls else "http"
        request = urllib.request.Request(f"{scheme}://{self.address}{path}", method=method)
        request.add_header("Authorization", f"Bearer {self.token.read_text().split()[0]}")
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data, timeout=10, context=self.tls) as answer:
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
def spark(jar, directory, master, *, on=None, conf=()):
    """A Spark context with further settings in `conf`; `on` is the boatswain whose token it needs."""
    from pyspark.sql import SparkSession

    events = pathlib.Path(directory) / "events"
    events.mkdir(exist_ok=True)
    settings = {
        "spark.jars": str(jar),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.boatswain.binary": BOATSWAIN,
        # JVMs that start with little work: a dozen of them share two cores.
        "spark.driver.extraJavaOptions": f"{FRUGAL} -Djava.io.tmpdir={directory}",
        "spark.executor.extraJavaOptions": FRUGAL,
    }
    if on:
        settings["spark.boatswain.tokenFile"] = str(on.token)
    settings.update(conf)
    builder = SparkSession.builder.appName("Word count").master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session.sparkContext
    finally:
        session.stop()


@contextlib.contextmanager
def history_server(directory):
    """Spark's own, for the event logs of the directory; gives its port."""
    port = free_port()
    settings = f"-Dspark.history.fs.logDirectory=file://{directory}/events -Dspark.history.ui.port={port}"
    environment = dict(os.environ, SPARK_HISTORY_OPTS=f"{settings} {FRUGAL}", SPARK_DAEMON_MEMORY="256m")
    command = [f"{os.environ['SPARK_HOME']}/bin/spark-class", "org.apache.spark.deploy.history.HistoryServer"]
    with (pathlib.Path(directory) / "history.log").open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
    try:
        yield port
    finally:
        server.terminate()
        server.wait()


def get(url):
    """The JSON at a URL; None as long as there is none."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)
    except OSError:
        return None


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
        if os.path.basename(words[0]) == "java" and sc.applicationId in words and "--executor-id" in words:
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
    """Why executors were removed, by id; each only once."""
    events = events_of(directory, "SparkListenerExecutorRemoved")
    reasons = {int(event["Executor ID"]): event["Removed Reason"] for event in events}
    equal(len(reasons), len(events))
    return reasons


def equal(found, wanted):
    assert found == wanted, f"{found} instead of {wanted}"
