#!/usr/bin/env python3
"""Spark, Dask and Ray with executors in containers, on the adapters, with a boatswain that the chart has installed.

    run.py [spark] [dask] [kubecluster] [sessions] [fabric8] [growth] [ray] [page] [--restarts N] [--kills N] [--rotations N] [--seed N] --jar adapters/spark's --out FOLDER

`tests/real/run engines` starts it in a cluster that has the images. An application counts words while executors are
killed (--kills), and boatswain itself again and again (--restarts): every result has to be that of the undisturbed run,
and no executor may be lost but those that were killed. FOLDER has what `kubectl logs`, `describe` and `events` show.
For `sessions` see sessions.py, for `page` page.py; by name only `fabric8`, see own_backend.py, `growth`, see growth.py,
and `ray`, see ray_workers.py.
"""

import argparse
import base64
import json
import pathlib
import random
import time

import growth
import own_backend
import page
import ray_workers
import sessions
from boatswain import DEPLOYMENT, DRIVER, configuration, install, restart
from cluster import Namespace, equal, kill, say, until

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
WANTED = 4
# Whom to trust, as boatswain's executors are told.
AUTHORITY = {"configMap": {"name": "etl-executor", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}


def application(space, command, files, sources, env=None, image="localhost/engines:1"):
    """The engine's own driver: a pod with a name in the DNS, which has these files and, at /boatswain, those of the sources."""
    container = {
        "name": "engine",
        "image": image,
        "command": command,
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "PYTHONPATH", "value": "/opt/python:/application"},
            *({"name": name, "value": value} for name, value in (env or {}).items()),
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}},
        "volumeMounts": [
            {"name": "application", "mountPath": "/application"},
            {"name": "boatswain", "mountPath": "/boatswain"},
        ],
    }
    items = [{"key": name.replace("/", "-"), "path": name} for name in files]
    labels = {"engine": "driver"}
    pod = {
        "serviceAccountName": "engine",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        "volumes": [
            {"name": "application", "configMap": {"name": "application", "items": items}},
            {"name": "boatswain", "projected": {"sources": sources}},
        ],
    }
    content = {name.replace("/", "-"): base64.b64encode(content).decode() for name, content in files.items()}
    space.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "application"}, "binaryData": content},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "engine"},
            "spec": {"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": True},
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "engine", "labels": labels}, "spec": pod},
    )


def spark(space, jar, program="spark_app.py", own=None):
    """spark-submit, as its service account, with these settings of the application's own."""
    audience = {"serviceAccountToken": {"audience": f"boatswain.dev/{space.name}/etl", "path": "token", "expirationSeconds": 600}}
    settings = {
        "spark.boatswain.caFile": "/boatswain/ca.crt",
        "spark.boatswain.tokenFile": "/boatswain/token",
        "spark.boatswain.image": "localhost/engines:1",
        "spark.driver.host": f"engine.{space.name}.svc",
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.executor.instances": str(WANTED),
        "spark.executor.memory": "512m",
        "spark.kubernetes.executor.request.cores": "100m",
        # JVMs that start with little work: several of them share few cores.
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.log.level": "WARN",
    } | (own or {})
    confs = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    master = f"spark+boatswain+https://etl-driver.{space.name}.svc:7117"
    command = ["/opt/spark/bin/spark-submit", "--master", master, "--driver-class-path", "/application/adapter.jar"]
    files = {"adapter.jar": jar.read_bytes(), program: (HERE / program).read_bytes()}
    application(space, [*command, *confs, f"/application/{program}"], files, [AUTHORITY, audience])


def dask(space, jar):
    server = f"https://etl-driver.{space.name}.svc:7117"
    python(space, ["dask_app.py", server, "/boatswain/token", "/boatswain/ca.crt"])


def python(space, command, env=None):
    """A Python program of this folder, with a token of the API's."""
    token = {"secret": {"name": "etl-boatswain-secrets", "items": [{"key": "tokens", "path": "token"}]}}
    package = ROOT / "adapters/python/src/boatswain"
    files = {f"boatswain/{file.name}": file.read_bytes() for file in package.glob("*.py")}
    files[command[0]] = (HERE / command[0]).read_bytes()
    application(space, ["python3", f"/application/{command[0]}", *command[1:]], files, [AUTHORITY, token], env)


def ray(space, rng, of):
    """Ray's head is the application's pod; its autoscalers, one after the other."""
    package = ROOT / "adapters/python/src/boatswain"
    files = {f"boatswain/{file.name}": file.read_bytes() for file in package.glob("*.py")}
    files |= {name: (HERE / name).read_bytes() for name in ("ray_app.py",)}
    files["autoscaler.yaml"] = (ROOT / "deploy/ray/autoscaler.yaml").read_bytes()
    token = {"secret": {"name": "etl-boatswain-secrets", "items": [{"key": "tokens", "path": "token"}]}}
    for version in (1, 2):
        install(space, ray_workers.configuration(space))
        env = ray_workers.environment(version)
        application(space, ray_workers.command(space), files, [AUTHORITY, token], env, ray_workers.IMAGE)
        try:
            ray_workers.scenario(space, rng, of, results)
        finally:
            shown(space)


def kubecluster(space):
    """The examples of dask-kubernetes, by the class of the adapter."""
    install(space, configuration(f"{space.name}/engine"))
    server = f"https://etl-driver.{space.name}.svc:7117"
    env = {"BOATSWAIN_SERVER": server, "BOATSWAIN_TOKEN_FILE": "/boatswain/token", "BOATSWAIN_CA_FILE": "/boatswain/ca.crt"}
    python(space, ["kubecluster_app.py"], env)
    try:
        until("the examples are over", lambda: space.pod("engine")["status"].get("phase") in ("Succeeded", "Failed"), 600)
        equal(space.pod("engine")["status"]["phase"], "Succeeded", "the examples:")
        until("no executor is left", lambda: not space.pods("boatswain.dev/role=executor"))
    finally:
        shown(space)
    said = [line.removeprefix("example ") for line in space.kubectl("logs", "engine").splitlines() if line.startswith("example ")]
    say(f"{len(said)} examples: {', '.join(said)}")


def grow(space, jar):
    """A Spark job that needs more memory than its executors have at first."""

    def start(profile):
        own = {
            "spark.executor.instances": str(growth.EXECUTORS),
            "spark.executor.memoryOverhead": "128m",
            "spark.boatswain.profile": json.dumps(profile),
        }
        spark(space, jar, "growth_app.py", own)

    growth.scenario(space, start)


def fabric8(space):
    """Spark on Kubernetes without boatswain."""
    space.delete()
    space.create()
    own_backend.rights(space)
    files = {"executor.json": json.dumps(own_backend.POD).encode(), "spark_app.py": (HERE / "spark_app.py").read_bytes()}
    application(space, own_backend.submission(space), files, [])
    own_backend.scenario(space, results)


ENGINES = {"spark": spark, "dask": dask}


def results(space):
    """How often the application has counted since the undisturbed run; each result has to be that run's."""
    lines = space.kubectl("logs", "engine", fails=True).splitlines()
    assert "DIFFERENT" not in lines, "another result than the undisturbed run's"
    if space.pod("engine")["status"].get("phase") == "Failed":
        raise AssertionError("the application has failed:\n" + "\n".join(lines[-40:]))
    return lines.count("equal") if any(line.startswith("undisturbed ") for line in lines) else -1


def all_run(space):
    found = space.executors()
    return found if len(found) == WANTED else None


def all_are_registered(space):
    """Also with the engine, which knows nothing of an executor that is killed before."""
    found = all_run(space)
    lines = [line for line in space.kubectl("logs", "engine").splitlines() if line.startswith("here ")]
    here = set(json.loads(lines[-1].removeprefix("here "))) if lines else set()
    return found if found and {name.rsplit("-", 1)[1] for name in found} == here else None


def kill_executors(space, count, rng):
    """Executors' containers, one after the other, in the middle of the work. Returns their ids."""
    killed = []
    for _ in range(count):
        before = until("all executors are registered", lambda: all_are_registered(space))
        time.sleep(1 + 2 * rng.random())
        victim = rng.choice(sorted(before))
        kill(space.pod(victim))
        killed.append(victim.rsplit("-", 1)[1])
        say("killed", victim)
        until("it is gone", lambda: victim not in space.executors())
    until("all are replaced", lambda: all_run(space))
    return killed


def restart_often(space, count, rng):
    """boatswain, while the application works. No executor may be lost."""
    before = until("all executors run", lambda: all_run(space))
    for number in range(count):
        say(f"kill -9 of boatswain, {number + 1} of {count}")
        restart(space, rng, WANTED)
        equal(space.executors(), before, "executors:")


def finish(space):
    """Ends the application. Returns what it says of executors that were lost."""
    space.kubectl("exec", "engine", "--", "touch", "/tmp/stop")
    until("the application has ended", lambda: space.pod("engine")["status"]["phase"] != "Running")
    said = [line for line in space.kubectl("logs", "engine").splitlines() if line.startswith("lost ")]
    equal(space.pod("engine")["status"]["phase"], "Succeeded", "the application:")
    assert results(space) > 0
    until("no executor is left", lambda: not space.pods("boatswain.dev/role=executor"))
    return json.loads(said[-1].removeprefix("lost "))


def shown(space):
    """What people see with kubectl of boatswain and of the application."""
    space.show("pods", "get", "pods", "-o", "wide")
    space.show("events", "events")
    space.show("engine-log", "logs", "engine")
    space.show("boatswain-log", "logs", DEPLOYMENT)
    space.show("boatswain-describe", "describe", "pod", "-l", DRIVER)


def shown_of_kills(space, killed):
    """The same of executors: one that runs, and those that were killed."""
    name = sorted(space.executors())[-1]
    described = space.show("executor-describe", "describe", "pod", name)
    assert "boatswain.dev/app-id" in described and "localhost/engines:1" in described, described
    space.show("executor-log", "logs", name)
    events = space.show("events-of-kills", "events")
    for number in killed:
        assert f"Pod/etl-exec-{number} " in events, f"no event is about executor {number}"
    log = space.show("boatswain-log-of-kills", "logs", DEPLOYMENT)
    ends = [json.loads(line) for line in log.splitlines() if '"executor ended"' in line]
    equal(sorted(str(end["executor"]) for end in ends), sorted(killed), "ended by the log:")
    assert all((end["reason"], end["exit_code"]) == ("Exited", 137) for end in ends), ends


def scenario(engine, space, rng, of):
    install(space, configuration(f"{space.name}/engine"))
    ENGINES[engine](space, of.jar)
    try:
        until("the undisturbed run is over", lambda: results(space) >= 0, 300)
        killed = kill_executors(space, of.kills, rng)
        shown_of_kills(space, killed)
        restart_often(space, of.restarts, rng)
        lost = finish(space)
    finally:
        shown(space)
    equal(sorted(lost), sorted(killed), "lost:")
    assert all("SIGKILL" in why for why in lost.values()), lost
    say(f"{engine}: {of.kills} executors killed, {of.restarts} times boatswain")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="*", default=[*ENGINES, "kubecluster", "sessions", "page"], help="of these")
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--rotations", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--jar", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    of = parser.parse_args()
    say("seed", of.seed)
    for engine in of.engines:
        began = time.monotonic()
        # The page has a namespace of its own.
        space = Namespace("spark" if engine == "page" else f"engines-{engine}", of.out)
        rng = random.Random(of.seed)
        if engine == "sessions":
            sessions.scenario(space, rng, of)
        elif engine == "fabric8":
            fabric8(space)
        elif engine == "growth":
            grow(space, of.jar)
        elif engine == "ray":
            ray(space, rng, of)
        elif engine == "kubecluster":
            kubecluster(space)
        elif engine == "page":
            page.scenario(space, rng)
        else:
            scenario(engine, space, rng, of)
        space.delete()
        say(f"{engine} took {time.monotonic() - began:.0f} s")


main()
