"""Kueue, its queues, and drivers that it lets have executors."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.append(str(HERE.parent / "engines"))

from cluster import Namespace, kill, run, say  # what the engines' tests do to a cluster
from picture import draw
from watch import Watch

BINARY = ROOT / "target/debug/boatswain"
IMAGE = "localhost/boatswain-test:1"
SYSTEM = "kueue-system"
CONTROLLER = "deployment/kueue-controller-manager"
# The longest wait for a condition: far longer than anything here takes, even with all cores busy.
PATIENCE = 240

# Executors that exist in the API server only: the flavor brings them to KWOK's nodes.
FAKE = f"""
[profiles.default]
image = "{IMAGE}"
command = ["/bin/sh"]
cpu = "1"
memory = "1Mi"
"""
# Executors in containers, under the agent.
REAL = f"""
[profiles.default]
image = "{IMAGE}"
command = ["/bin/sh", "-c"]
args = ["trap 'sleep 2; exit 0' TERM; while true; do sleep 1 & wait $!; done"]
cpu = "10m"
memory = "16Mi"
termination_grace = "3s"
[agent]
inject = "init"
image = "{IMAGE}"
[backend]
listen = "0.0.0.0:PORT"
url = "http://10.88.0.1:PORT"
plain_http = true
"""
COMMON = """
[app]
name = "NAME"
id = "NAME"
[cluster]
namespace = "NAMESPACE"
[profiles.default]
[scheduling]
queue = "kueue"
queue_name = "QUEUE"
[api]
listen = "127.0.0.1:PORT"
token_file = "FOLDER/NAME.token"
"""


def resource(kind, name, spec, namespace=None):
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta, "spec": spec}


class Kueue:
    """The controller, by its own chart."""

    def __init__(self, chart):
        self.chart = chart

    def install(self):
        image = {"repository": "localhost/kueue", "tag": "1", "pullPolicy": "Never"}
        manager = {"image": image, "resources": {"requests": {"cpu": "100m"}}}
        values = {"controllerManager": {"manager": manager, "readinessProbe": {"initialDelaySeconds": 1}}}
        command = ["helm", "install", "kueue", str(self.chart), "--namespace", SYSTEM, "--create-namespace", "--values", "-"]
        run(*command, given=json.dumps(values))
        self.ready()

    def ready(self):
        """The controller writes its certificate into a Secret, which the kubelet mounts again once its pod changes."""
        end = time.monotonic() + 150
        while not self.answers():
            assert time.monotonic() < end, run("kubectl", "-n", SYSTEM, "describe", "pods", fails=True)
            for pod in self.pods():
                run("kubectl", "-n", SYSTEM, "annotate", "--overwrite", "pod", pod["metadata"]["name"], f"looked={time.time()}", fails=True)
            time.sleep(1)

    @staticmethod
    def answers():
        """Whether its webhooks do."""
        flavor = resource("ResourceFlavor", "probe", {})
        return "probe" in run("kubectl", "create", "--dry-run=server", "-f", "-", given=json.dumps(flavor), fails=True)

    @staticmethod
    def pods():
        return json.loads(run("kubectl", "-n", SYSTEM, "get", "pods", "-o", "json"))["items"]

    def kill(self):
        """kill -9 of the container; the kubelet starts it again."""
        for pod in self.pods():
            kill(pod)

    @staticmethod
    def scale(replicas):
        run("kubectl", "-n", SYSTEM, "scale", CONTROLLER, f"--replicas={replicas}")

    @staticmethod
    def uninstall():
        """With its CRDs and all objects, of which some have finalizers that nobody is left to remove."""
        run("helm", "uninstall", "kueue", "--namespace", SYSTEM)
        end = time.monotonic() + 60
        while "kueue.x-k8s.io" in run("kubectl", "get", "crd", "-o", "name"):
            assert time.monotonic() < end, "Kueue's CRDs stay"
            for kind in ("clusterqueues", "resourceflavors"):
                for name in run("kubectl", "get", kind, "-o", "name", fails=True).split():
                    run("kubectl", "patch", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}', fails=True)
            time.sleep(0.5)


class Scenario:
    """A namespace with queues and drivers, a folder with a transcript, a picture and what kubectl shows."""

    ports = iter(range(7200, 7400))

    def __init__(self, name, title, limit, out):
        self.name, self.title = name, title
        self.space = Namespace(f"kueue-{name}", out)
        self.folder = self.space.folder
        self.began = time.time()
        self.lines = []
        self.drivers = {}
        self.space.delete()
        self.space.create()
        self.watch = Watch(self.space.name, limit)

    # --- what is told ---

    def tell(self, words):
        say(f"{self.name}: {words}")
        self.lines.append(f"{time.time() - self.began:7.1f} s  {words}")

    def do(self, words, *command, given=None, fails=False):
        """Something that is done to the cluster; the picture shows when."""
        self.watch.marks.append((time.time(), words))
        self.tell(words)
        if command:
            self.lines.append(f"           $ {' '.join(map(str, command))}")
            return run(*command, given=given, fails=fails)
        return ""

    def show(self, *command):
        """Adds what a command prints."""
        shown = run(*map(str, command), fails=True)
        self.lines += [f"           $ {' '.join(map(str, command))}", *(f"           | {line}" for line in shown.splitlines())]
        return shown

    def look(self):
        """What people see now: of boatswain, and of Kueue."""
        for driver in self.drivers.values():
            driver.show()
        columns = "NAME:.metadata.name,COUNT:.spec.podSets[0].count,MIN:.spec.podSets[0].minCount"
        columns += ",ADMITTED:.status.admission.podSetAssignments[0].count,RECLAIMED:.status.reclaimablePods[0].count"
        columns += ",ACTIVE:.spec.active,CONDITIONS:.status.conditions[?(@.status==\"True\")].type"
        self.show("kubectl", "-n", self.space.name, "get", "workloads", "-o", f"custom-columns={columns}")

    def until(self, what, condition, seconds=PATIENCE):
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > seconds:
                self.look()
                raise AssertionError(f"not within {seconds} s: {what}")
            time.sleep(0.1)
        self.tell(f"{what} (after {time.monotonic() - began:.1f} s)")

    def run_(self, seconds=PATIENCE, **wanted):
        """Waits until exactly so many executors run, of each application."""
        words = ", ".join(f"{app} has {count} executors" for app, count in wanted.items())

        def all_run():
            return all(self.watch.running(app) == count == len(self.watch.pods(app)) for app, count in wanted.items())

        self.until(words, all_run, seconds)

    def stays(self, seconds, **wanted):
        """For so long exactly so many pods are there."""
        for _ in range(int(seconds / 0.2)):
            found = {app: len(self.watch.pods(app)) for app in wanted}
            assert found == wanted, f"{found} instead of {wanted}"
            time.sleep(0.2)
        self.tell(f"for {seconds} s: {wanted}")

    # --- what there is ---

    def flavor(self, fake=True):
        """Executors get to KWOK's nodes by the flavor alone."""
        taint = {"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}
        spec = {"nodeLabels": {"type": "kwok"}, "tolerations": [taint]} if fake else {}
        self.apply(resource("ResourceFlavor", self.name, spec))

    def queue(self, name, cpu, cohort=None, local=None, **policies):
        """A ClusterQueue, and its LocalQueue."""
        self.apply(self.cluster_queue(name, cpu, cohort, **policies))
        self.apply(resource("LocalQueue", local or name, {"clusterQueue": f"{self.name}-{name}"}, self.space.name))

    def cluster_queue(self, name, cpu, cohort=None, **policies):
        quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "100Gi"}]
        flavor = {"name": self.name, "resources": quotas}
        spec = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [flavor]}],
            "preemption": policies,
        }
        if cohort:
            spec["cohortName"] = f"{self.name}-{cohort}"
        return resource("ClusterQueue", f"{self.name}-{name}", spec)

    def apply(self, *objects):
        """Kueue's webhooks may be away: its controller ends itself where the API server is slow to renew its lease."""
        began = time.monotonic()
        while True:
            try:
                return self.space.apply(*objects)
            except AssertionError:
                if time.monotonic() - began > PATIENCE:
                    raise
            time.sleep(1)

    def driver(self, name, queue, executors, sets=(), real=False):
        driver = Driver(self, name, queue, executors, sets, real)
        self.drivers[name] = driver
        driver.start()
        return driver

    # --- the end ---

    def finish(self):
        """Ends the drivers, and checks what the watch has seen."""
        self.look()
        for driver in self.drivers.values():
            driver.end()
        self.until("no pod is left", lambda: not self.watch.now["pods"])
        self.until("no Workload is left", lambda: not self.watch.now["workloads"])
        broken = self.watch.broken()
        assert not broken, f"{len(broken)} promises broken, such as: {broken[:5]}"
        self.tell(f"never more than {self.watch.most()} pods at {len(self.watch.events)} changes of pods and Workloads")

    def close(self, failed=None):
        """Writes down everything, whatever happened."""
        if failed:
            self.tell(f"FAILED: {failed}")
        self.watch.close()
        for driver in self.drivers.values():
            driver.kill()
            self.lines += ["", f"The log of {driver.name}:", *driver.short_log()]
        (self.folder / "transcript.txt").write_text("\n".join([self.title, *self.lines]) + "\n")
        self.space.show("workloads-describe", "describe", "workloads")
        self.space.show("events", "events")
        if self.watch.events:
            (self.folder / "pods.svg").write_text(draw(self.watch, self.drivers, self.title))


class Driver:
    """A boatswain outside of a pod, with the rights that `boatswain manifests` prints and no others."""

    def __init__(self, scenario, name, queue, executors, sets, real):
        self.scenario, self.name = scenario, name
        self.folder, self.port = scenario.folder, next(Scenario.ports)
        self.sets = [f"profiles.default.executors={executors}", *sets]
        self.process = None
        self.config = self.folder / f"{name}.toml"
        self.log_file = self.folder / f"{name}.log"
        text = COMMON.replace("[profiles.default]\n", REAL if real else FAKE)
        values = {"NAMESPACE": scenario.space.name, "NAME": name, "QUEUE": queue, "FOLDER": str(self.folder)}
        # The API and the executors are served at one port.
        if real:
            text = text.replace('listen = "127.0.0.1:PORT"', 'listen = "0.0.0.0:PORT"\nplain_http = true')
        for key, value in values.items():
            text = text.replace(key, value)
        self.config.write_text(text.replace("PORT", str(self.port)))
        self.log_file.write_text("")
        self.account()

    def account(self):
        printed = run(str(BINARY), "manifests", "--config", str(self.config), "--image", IMAGE, "--name", self.name)
        parsed = run("kubectl", "create", "--dry-run=client", "-o", "json", "-f", "-", given=printed)
        items, position, decoder = [], 0, json.JSONDecoder()
        while position < len(parsed.rstrip()):
            found, position = decoder.raw_decode(parsed, position)
            items += found.get("items", [found])
            position += len(parsed[position:]) - len(parsed[position:].lstrip())
        kinds = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
        rights = [item for item in items if item["kind"] in kinds]
        for role in rights:
            if role["kind"] == "Role":  # outside of a pod it deletes the record itself
                role["rules"].append({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]})
        self.scenario.apply(*rights)
        admin = json.loads(run("kubectl", "config", "view", "--raw", "-o", "json"))
        token = self.scenario.space.kubectl("create", "token", self.name, "--duration=2h").strip()
        admin["users"][0]["user"] = {"token": token}
        (self.folder / f"{self.name}.kubeconfig").write_text(json.dumps(admin))

    def start(self):
        command = [str(BINARY), "run", "--config", str(self.config)]
        for one in self.sets:
            command += ["--set", one]
        self.scenario.do(f"{self.name} starts")
        self.scenario.lines.append(f"           $ boatswain {' '.join(command[1:])}")
        with self.log_file.open("a") as log:
            there = os.environ | {"KUBECONFIG": str(self.folder / f"{self.name}.kubeconfig")}
            self.process = subprocess.Popen(command, env=there, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def ask(self, *words):
        arguments = ["--server", f"http://127.0.0.1:{self.port}", "--token-file", str(self.folder / f"{self.name}.token")]
        return run(str(BINARY), words[0], *arguments, *words[1:], fails=True)

    def show(self):
        self.scenario.lines.append(f"           $ boatswain status    # of {self.name}")
        shown = self.ask("status")
        self.scenario.lines += [f"           | {line}" for line in shown.splitlines()]
        return shown

    def scale(self, executors):
        self.scenario.do(f"{self.name} wants {executors}")
        self.ask("scale", f"default={executors}")

    def end(self):
        """`boatswain stop`: it has to end well."""
        assert self.process.poll() is None, f"{self.name} has ended: {self.process.returncode}"
        self.ask("stop")
        code = self.process.wait(60)
        self.scenario.tell(f"{self.name} has ended with {code}")
        assert code == 0, f"{self.name} ended with {code}"

    def lines(self, message=""):
        """What it has logged."""
        found = [json.loads(line) for line in self.log_file.read_text().splitlines() if line.startswith("{")]
        return [line for line in found if message in line.get("message", "")]

    def short_log(self):
        """Without what is said of each executor while all goes well."""
        usual = ("executor requested", "executor running", "executor registered")
        return [line for line in self.log_file.read_text().splitlines() if not any(f'"{words}"' in line for words in usual)]

    def says(self, what, words, seconds=PATIENCE):
        """Waits until `boatswain status` has these words."""
        self.scenario.until(what, lambda: words in " ".join(self.ask("status").split()), seconds)
        self.show()

    def logs(self, message, seconds=PATIENCE, count=1):
        self.scenario.until(f"{self.name} logs: {message}", lambda: len(self.lines(message)) >= count, seconds)
        self.scenario.lines += [f"           | {json.dumps(line)}" for line in self.lines(message)[-3:]]

    def ends(self, reason):
        """The executors that ended for this reason."""
        return [line for line in self.lines("executor ended") if line["reason"] == reason]


