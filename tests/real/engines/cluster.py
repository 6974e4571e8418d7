"""What the engines' tests do to a real cluster: by kubectl, helm and, from below, by containerd."""

import json
import os
import pathlib
import subprocess
import time

STATE = pathlib.Path(os.environ["CLUSTER_STATE"])


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def until(what, condition, seconds=180):
    """Waits for a true value and returns it."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        value = condition()
        if value:
            say(f"{what} (after {time.monotonic() - began:.1f} s)")
            return value
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def equal(found, wanted, what=""):
    assert found == wanted, f"{what} {found} instead of {wanted}"


def run(*command, given=None, fails=False):
    """Its output. Without `fails` it has to succeed."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300, check=False)
    assert fails or done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


ASK_SPARK = """
import json, urllib.request
def read(path):
    return json.load(urllib.request.urlopen("http://localhost:4040/api/v1/applications" + path, timeout=5))
print(*(one["id"] for one in read("/" + read("")[0]["id"] + "/executors") if one["id"] != "driver"))
"""


class Namespace:
    """A namespace of the cluster, and a folder for what is to be seen there."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = pathlib.Path(folder) / name
        self.folder.mkdir(parents=True, exist_ok=True)

    def kubectl(self, *arguments, given=None, fails=False):
        return run("kubectl", "--namespace", self.name, *arguments, given=given, fails=fails)

    def create(self):
        run("kubectl", "create", "namespace", self.name)

    def delete(self):
        run("kubectl", "delete", "namespace", self.name, "--ignore-not-found", "--timeout=240s")

    def apply(self, *objects):
        self.kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def pods(self, selector):
        """Those that do not terminate, the oldest first."""
        found = json.loads(self.kubectl("get", "pods", "-l", selector, "-o", "json"))["items"]
        found = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return sorted(found, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def executors(self):
        """The uids of the executors whose containers run, by their names."""
        found = self.pods("boatswain.dev/role=executor")
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found if running(pod)}

    def pod(self, name):
        return json.loads(self.kubectl("get", "pod", name, "-o", "json"))

    def in_spark(self, pod):
        """The ids of the executors that have registered with the Spark driver in this pod. Spark knows no others' ends."""
        return self.kubectl("exec", pod, "--", "python3", "-c", ASK_SPARK, fails=True).split()

    def show(self, name, *arguments):
        """Keeps for people what a command prints, and returns it."""
        shown = self.kubectl(*arguments, fails=True)
        (self.folder / name).write_text(f"$ kubectl --namespace {self.name} {' '.join(arguments)}\n{shown}")
        return shown


def running(pod):
    states = pod["status"].get("containerStatuses", [])
    return bool(states) and all("running" in state["state"] for state in states)


def kill(pod):
    """Kills the container of a pod, as the kernel does for want of memory: nobody is asked or told."""
    (state,) = pod["status"]["containerStatuses"]
    container = state["containerID"].removeprefix("containerd://")
    socket = STATE / pod["spec"]["nodeName"] / "containerd.sock"
    run("ctr", "--address", str(socket), "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", container)
