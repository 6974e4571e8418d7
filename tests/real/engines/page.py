"""docs/spark.md, "In a cluster" and "Cluster mode", step by step: deploy/spark as it is, but for the names of the images."""

import json
import pathlib
import re
import shutil

import cluster_mode
from boatswain import DRIVER
from cluster import equal, kill, run, until

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORDS = {"brown": 500, "dog": 500, "fox": 500, "jumps": 500, "lazy": 500, "over": 500, "quick": 500, "the": 1000}
EXECUTORS = 4


def with_images(folder):
    """A copy in which `images:` names those that the cluster has."""
    shutil.copytree(ROOT / "deploy/spark", folder, dirs_exist_ok=True)
    file = folder / "kustomization.yaml"
    text = file.read_text()
    for name in ("boatswain", "spark"):
        text, changed = re.subn(
            rf"(newName: )registry\.example/{name}(\n  newTag: ).*", rf'\1localhost/{name}\g<2>"1"', text
        )
        equal(changed, 1, f"the image of {name}:")
    file.write_text(text)
    return str(folder)


def scenario(space, rng):
    folder = with_images(space.folder / "deploy")
    space.delete()
    space.create()
    key = space.folder / "key"
    key.write_text(f"{rng.getrandbits(256):064x}")
    space.kubectl("create", "secret", "generic", "boatswain-secrets", f"--from-file=key={key}")
    space.kubectl("apply", "-k", folder)
    try:
        before = until("four executors run", lambda: all_run(space))
        until("Spark has all four", lambda: len(space.in_spark("job/word-count")) == EXECUTORS)
        victim = sorted(before)[-1]
        kill(space.pod(victim))
        until("it is replaced", lambda: victim not in space.executors() and all_run(space))
        until("the application has ended", lambda: ended(space))
    finally:
        space.show("application-log", "logs", "job/word-count")
        space.show("boatswain-log", "logs", "-l", DRIVER, "--tail=-1")
        space.show("pods", "get", "pods", "-o", "wide")
    log = space.kubectl("logs", "job/word-count")
    equal(space.kubectl("get", "job", "word-count", "-o", "jsonpath={.status.succeeded}"), "1", "succeeded:")
    found = {word: int(count) for count, word in re.findall(r"^ +(\d+) (\w+)$", log, re.MULTILINE)}
    equal(found, WORDS, "words:")
    number = victim.rsplit("-", 1)[1]
    assert re.search(rf"Lost executor {number} .*Exited: ended with exit 137 \(SIGKILL\)", log), log
    until("no executor is left", lambda: not space.pods("boatswain.dev/role=executor"))
    cluster_mode.scenario(space, rng, WORDS)
    run("kubectl", "delete", "-k", folder, "--timeout=240s")
    until("nothing is left", lambda: not pods(space))


def all_run(space):
    found = space.executors()
    return found if len(found) == EXECUTORS else None


def ended(space):
    status = json.loads(space.kubectl("get", "job", "word-count", "-o", "json"))["status"]
    return status.get("succeeded") or status.get("failed")


def pods(space):
    return json.loads(space.kubectl("get", "pods", "-o", "json"))["items"]
