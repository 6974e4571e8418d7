"""docs/spark.md, "Cluster mode": `boatswain spark-submit` from outside the cluster, beside the boatswain of deploy/spark."""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import time
import zipfile

from cluster import equal, kill, run, say, until

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
BOATSWAIN = ROOT / "target/debug/boatswain"
CLUSTER = ROOT / "scripts/cluster"
MASTER = "spark+boatswain+https://etl-driver.spark.svc:7117"
EXECUTORS = 4
# What every submission has.
NEEDED = {
    "spark.kubernetes.namespace": "spark",
    "spark.kubernetes.container.image": "localhost/spark:1",
    "spark.kubernetes.authenticate.driver.serviceAccountName": "word-count",
    "spark.kubernetes.driver.request.cores": "100m",
    "spark.kubernetes.executor.request.cores": "100m",
    "spark.boatswain.executor.agent": "/usr/bin/boatswain-agent",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.log.level": "WARN",
}


APPLICATION = {
    "apiVersion": "sparkoperator.k8s.io/v1beta2",
    "kind": "SparkApplication",
    "metadata": {"name": "pi", "namespace": "spark"},
    "spec": {
        "type": "Python",
        "mode": "cluster",
        "image": "localhost/spark:1",
        "sparkVersion": "4.3.0",
        "mainApplicationFile": "local:///opt/spark/examples/src/main/python/pi.py",
        "arguments": ["4"],
        "sparkConf": {"spark.boatswain.executor.agent": "/usr/bin/boatswain-agent"},
        "driver": {"cores": 1, "coreRequest": "100m", "memory": "512m", "serviceAccount": "word-count"},
        "executor": {"instances": 2, "cores": 1, "coreRequest": "100m", "memory": "512m"},
    },
}


class Submission:
    """A `boatswain spark-submit` in the background; what it prints is in files."""

    def __init__(self, space, name, *arguments):
        self.out, self.err = space.folder / f"{name}.out", space.folder / f"{name}.err"
        command = [BOATSWAIN, "spark-submit", *arguments]
        say("$", *command)
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err)

    def end(self, seconds=180):
        """Its exit code, and what it has printed."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"not within {seconds} s:\n{self.err.read_text()}") from None
        return code, self.out.read_text(), self.err.read_text()


def words(*settings):
    return [word for key, value in settings for word in ("--conf", f"{key}={value}")]


def files(folder):
    """What the application needs of the submitter's machine."""
    (folder / "text.txt").write_text("the quick brown fox\njumps over the lazy dog\n" * 500)
    (folder / "splitting.py").write_text("def split(line):\n    return line.split()\n")
    with zipfile.ZipFile(folder / "stop.zip", "w") as archive:
        archive.writestr("words.txt", "lazy\n")
    settings = "".join(f"{key} {value}\n" for key, value in NEEDED.items())
    (folder / "spark.conf").write_text(settings + "spark.executor.memory 9g\n")


def twenty_arguments(space, rng, wanted):
    """With most of spark-submit's options, and a killed executor."""
    folder = space.folder
    files(folder)
    arguments = [
        *("--master", MASTER, "--deploy-mode", "cluster", "--name", "Count words"),
        *("--properties-file", folder / "spark.conf", "--load-spark-defaults", "--verbose"),
        *("--num-executors", str(EXECUTORS), "--executor-memory", "512m", "--executor-cores", "1"),
        *("--driver-memory", "512m", "--driver-cores", "1", "--driver-java-options", "-Dwho=driver"),
        *("--driver-class-path", "/opt/spark/jars/adapter.jar", "--driver-library-path", "/usr/lib"),
        *("--py-files", folder / "splitting.py", "--files", folder / "text.txt"),
        *("--archives", f"{folder / 'stop.zip'}#stop"),
        *("--repositories", "https://repo.example", "--exclude-packages", "org.example:none"),
        *("--conf", "spark.kubernetes.executor.label.team=words", "-c", "spark.executorEnv.MODE=count"),
        *("--conf", "spark.kubernetes.driver.annotation.example/owner=words", HERE / "cluster_mode_app.py", "3"),
    ]
    submitted = Submission(space, "twenty-arguments", *map(str, arguments))
    before = until("four executors run", lambda: all_run(space))
    pod = space.pod(sorted(before)[0])
    equal(pod["metadata"]["labels"]["team"], "words", "the executors' label:")
    (driver,) = space.pods("app.kubernetes.io/component=spark-driver")
    equal(driver["metadata"]["annotations"]["example/owner"], "words", "the driver's annotation:")
    name = driver["metadata"]["name"]
    until("Spark has all of them", lambda: len(space.in_spark(name)) == EXECUTORS)
    victim = rng.choice(sorted(before))
    kill(space.pod(victim))
    until("it is replaced", lambda: victim not in space.executors() and all_run(space))
    code, out, err = submitted.end()
    equal(code, 0, f"the exit code:\n{err}\n{out}")
    counted = {word: int(count) for count, word in re.findall(r"^ +(\d+) (\w+)$", out, re.MULTILINE)}
    equal(counted, {word: count for word, count in wanted.items() if word != "lazy"}, "words:")
    number = victim.rsplit("-", 1)[1]
    assert re.search(rf"Lost executor {number} .*Exited: ended with exit 137 \(SIGKILL\)", out), out
    nothing_is_left(space)


def exit_code(space):
    """A program's own exit code is the command's."""
    program = space.folder / "exit.py"
    program.write_text("import sys\nprint('says this', flush=True)\nsys.exit(3)\n")
    submitted = Submission(space, "exit-code", "--master", MASTER, *words(*NEEDED.items()), str(program))
    code, out, err = submitted.end()
    equal((code, "says this\n" in out, "ended with exit code 3" in err), (3, True, True), f"{out}{err}")
    nothing_is_left(space)


def api_server_is_away(space):
    """Each line of the log is printed once, although the connection breaks and the API server is away for a while."""
    program = space.folder / "lines.py"
    program.write_text("import time\nfor n in range(100):\n    print('line', n, flush=True)\n    time.sleep(0.2)\n")
    submitted = Submission(space, "api-server-away", "--master", MASTER, *words(*NEEDED.items()), str(program))
    until("it has begun", lambda: "line 20\n" in submitted.out.read_text())
    run(CLUSTER, "kill", "apiserver")
    time.sleep(5)
    run(CLUSTER, "start", "apiserver")
    code, out, err = submitted.end()
    equal(code, 0, f"the exit code:\n{err}")
    found = [int(number) for number in re.findall(r"^line (\d+)$", out, re.MULTILINE)]
    equal(found, list(range(100)), f"lines:\n{err}")
    assert "waiting for " in err, err
    nothing_is_left(space)


def interrupted(space):
    """Ctrl-C ends the application."""
    program = str(ROOT / "deploy/spark/word_count.py")
    settings = words(*NEEDED.items(), ("spark.executor.memory", "512m"), ("spark.executor.instances", EXECUTORS))
    submitted = Submission(space, "interrupted", "--master", MASTER, *settings, program)
    until("four executors run", lambda: all_run(space))
    submitted.process.send_signal(signal.SIGINT)
    code, _, err = submitted.end()
    equal(code, 130, f"the exit code:\n{err}")
    nothing_is_left(space)


def unwatched(space):
    """Nobody waits: the application runs by itself, and is deleted as a whole."""
    program = space.folder / "hello.py"
    program.write_text("print('hello')\n")
    settings = words(*NEEDED.items(), ("spark.kubernetes.submission.waitAppCompletion", "false"))
    code, _, err = Submission(space, "unwatched", "--master", MASTER, *settings, str(program)).end()
    equal(code, 0, f"the exit code:\n{err}")
    name = re.search(r"delete job (\S+)", err).group(1)
    space.kubectl("wait", f"job/{name}", "--for=condition=complete", "--timeout=240s")
    equal(space.kubectl("logs", f"job/{name}").splitlines()[-1], "hello", "the log:")
    space.kubectl("delete", "job", name)
    nothing_is_left(space)


def spark_application(space):
    """A SparkApplication becomes manifests."""
    application = space.folder / "application.yaml"
    application.write_text(json.dumps(APPLICATION))
    manifests = run(BOATSWAIN, "convert", "--master", MASTER, application)
    (space.folder / "application-manifests.yaml").write_text(manifests)
    space.kubectl("apply", "-f", "-", given=manifests)
    space.kubectl("wait", "job/pi", "--for=condition=complete", "--timeout=240s")
    log = space.kubectl("logs", "job/pi")
    assert "Pi is roughly 3.1" in log, log
    space.kubectl("delete", "-f", "-", given=manifests)
    nothing_is_left(space)


def refused(space):
    """What cannot be followed is named, and nothing is made."""
    code, _, err = Submission(space, "refused", "--master", "k8s://x", "--supervise", "local:///a.py").end()
    equal(code, 64, f"the exit code:\n{err}")
    assert "--supervise: " in err and "--master k8s://x: " in err, err
    settings = words(*NEEDED.items())
    master = MASTER.replace("etl-driver", "other")
    code, _, err = Submission(space, "no-service", "--master", master, *settings, "local:///a.py").end()
    equal((code, "there is no Service other in namespace spark" in err), (1, True), err)
    nothing_is_left(space)


# A volume that all pods share, on a cluster of one node.
SHARED = [
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "shared"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "shared",
            "hostPath": {"path": "/tmp/boatswain-shared", "type": "DirectoryOrCreate"},
        },
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "shared"},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "shared", "resources": {"requests": {"storage": "1Gi"}}},
    },
]
# As docs/spark.md, "Storage and credentials", has them.
STORAGE = {
    "spark.kubernetes.executor.secretKeyRef.AWS_ACCESS_KEY_ID": "s3:key",
    "spark.kubernetes.executor.secrets.keytab": "/etc/keytab",
    "spark.kubernetes.driver.volumes.persistentVolumeClaim.shared.mount.path": "/shared",
    "spark.kubernetes.driver.volumes.persistentVolumeClaim.shared.options.claimName": "shared",
    "spark.kubernetes.executor.volumes.persistentVolumeClaim.shared.mount.path": "/shared",
    "spark.kubernetes.executor.volumes.persistentVolumeClaim.shared.options.claimName": "shared",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.fallbackStorage.path": "file:///shared/fallback/",
    "spark.storage.decommission.replicationReattemptInterval": "1s",
}


def storage(space):
    """Secrets, a shared volume, and shuffled data that outlives the executors that made it."""
    folder = pathlib.Path("/tmp/boatswain-shared")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    folder.chmod(0o777)
    space.apply(*SHARED)
    space.kubectl("create", "secret", "generic", "s3", "--from-literal=key=from-a-secret")
    space.kubectl("create", "secret", "generic", "keytab", "--from-literal=user.keytab=a-keytab")
    settings = words(*NEEDED.items(), *STORAGE.items(), ("spark.executor.instances", 2), ("spark.executor.memory", "512m"))
    program = str(HERE / "storage_app.py")
    submitted = Submission(space, "storage", "--master", MASTER, *map(str, settings), program)
    until("it has shuffled", lambda: "shuffled\n" in submitted.out.read_text())
    before = set(space.executors())
    token = space.folder / "token"
    audience = "--audience=boatswain.dev/spark/etl"
    token.write_text(space.kubectl("create", "token", "word-count", audience))
    token.chmod(0o600)
    authority = space.folder / "ca.crt"
    authority.write_text(space.kubectl("get", "configmap", "etl-executor", "-o", r"jsonpath={.data.ca\.crt}"))
    ids = [name.rsplit("-", 1)[1] for name in sorted(before)]
    run(BOATSWAIN, "decommission", *ids, "--app", "etl", "-n", "spark", "--token-file", token, "--ca-file", authority)
    until("others are there", lambda: len(set(space.executors()) - before) == 2 and not before & set(space.executors()))
    (folder / "go").touch()
    code, out, err = submitted.end()
    equal(code, 0, f"the exit code:\n{err}\n{out}")
    assert "executors see from-a-secret a-keytab\n" in out, out
    assert "sum 499500 of 1000\n" in out, f"something was computed again:\n{out}"
    space.kubectl("delete", "secret/s3", "secret/keytab", "pvc/shared", "pv/shared")
    nothing_is_left(space)


def scenario(space, rng, wanted):
    refused(space)
    exit_code(space)
    twenty_arguments(space, rng, wanted)
    api_server_is_away(space)
    interrupted(space)
    unwatched(space)
    storage(space)
    spark_application(space)


def all_run(space):
    found = space.executors()
    return found if len(found) == EXECUTORS else None


def nothing_is_left(space):
    selector = "app.kubernetes.io/component=spark-driver"
    until("nothing is left", lambda: not space.kubectl("get", "job,service,secret,pod", "-l", selector, "-o", "name"))
    until("no executor is left", lambda: not space.pods("boatswain.dev/role=executor"))
