"""boatswain, installed by its chart in a namespace, and ended again and again."""

import json
import pathlib
import secrets
import time

from cluster import equal, kill, run, running, until

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEPLOYMENT = "deployment/etl-boatswain"
DRIVER = "app.kubernetes.io/name=boatswain"


def configuration(caller, executors=0, command=("/bin/true",), registration="optional"):
    """As docs/spark.md has it. The engines choose which executors go, and bring their own profiles."""
    return {
        "app": {"name": "etl"},
        "allocation": {"scale_down": "pending-only"},
        "failures": {"max": 1000},
        "profiles": {"default": {"executors": executors, "image": "localhost/engines:1", "command": list(command)}},
        "api": {
            "listen": "0.0.0.0:7117",
            "token_file": "/etc/boatswain-secrets/tokens",
            "service_accounts": {caller: "full"},
        },
        "backend": {
            "listen": "0.0.0.0:7078",
            "key_file": "/etc/boatswain-secrets/key",
            "registration": registration,
            "service_selector": {"app.kubernetes.io/name": "boatswain"},
        },
        "agent": {"inject": "init", "image": "localhost/boatswain:1", "decommission_command": "true"},
        "tls": {"generate": True},
    }


def install(space, config):
    """With the rights that the chart gives it and no others."""
    space.delete()
    space.create()
    random_values = {"tokens": secrets.token_hex(24), "key": secrets.token_hex(24)}
    space.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "engine"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "etl-boatswain-secrets"}, "stringData": random_values},
    )
    values = {"kind": "deployment", "image": {"repository": "localhost/boatswain", "tag": "1"}, "config": config}
    file = space.folder / "values.json"
    file.write_text(json.dumps(values))
    run("helm", "install", "etl", str(ROOT / "deploy/chart"), "--namespace", space.name, "--values", str(file))
    until("boatswain is ready", lambda: driver(space) and ready(driver(space)))


def driver(space):
    found = space.pods(DRIVER)
    return found[-1] if found else None


def ready(pod):
    return running(pod) and all(state["ready"] for state in pod["status"]["containerStatuses"])


def log(space):
    """What the present driver has logged."""
    lines = space.kubectl("logs", driver(space)["metadata"]["name"], fails=True).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def adopted(space):
    """How many executors this driver has adopted, and how many it has lost, once it says so."""
    for said in log(space):
        if said["message"] == "executors adopted":
            return said.get("found"), said.get("lost")
    return None


def restart(space, rng, executors):
    """`kill -9` of boatswain. The kubelet restarts a container once without delay; then its pod is replaced."""
    pod = driver(space)
    first = pod["status"]["containerStatuses"][0]["restartCount"] == 0
    kill(pod)
    if not first:
        space.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")

    def another():
        now = driver(space)
        if now is None or not running(now):
            return False
        was = pod["status"]["containerStatuses"][0]["containerID"]
        return now["status"]["containerStatuses"][0]["containerID"] != was

    until("another boatswain runs", another)
    equal(until("it has adopted", lambda: adopted(space)), (executors, 0), "found and lost:")
    time.sleep(rng.random())
