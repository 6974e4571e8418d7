"""Spark applications with dynamic allocation, each with a boatswain whose executors wait for quota."""

import base64

from world import HERE, Namespace

PROGRAM = HERE.parent / "engines/spark_app.py"
# Of 0.3 s each: more than 30 executors are done with in a second, so that Spark asks for more.
TASKS = 300
SETTINGS = {
    "spark.boatswain.tokenFile": "/application/token",
    "spark.boatswain.image": "localhost/engines:1",
    "spark.driver.bindAddress": "0.0.0.0",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.decommission.enabled": "true",
    "spark.executor.memory": "460m",
    "spark.executor.memoryOverhead": "100m",
    "spark.kubernetes.executor.request.cores": "100m",
    # JVMs that start with little work: many of them share few cores.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.log.level": "WARN",
}


class Application:
    """A boatswain in the scenario's queue, and the Spark driver that asks it for executors, in a pod of another namespace."""

    def __init__(self, here, of, name, most, priority):
        self.here, self.name = here, name
        sets = [f"scheduling.queue_priority={priority}", "backend.registration=optional", "allocation.scale_down=pending-only"]
        self.boatswain = here.driver(name, "team", 0, sets, real=True)
        token = here.folder / f"{name}.token"
        here.until(f"{name} answers", token.exists)
        self.space = Namespace(f"{here.space.name}-{name}", of.out)
        self.space.delete()
        self.space.create()
        settings = SETTINGS | {"spark.dynamicAllocation.maxExecutors": str(most)}
        confs = " ".join(f"--conf '{key}={value}'" for key, value in settings.items())
        master = f"spark+boatswain+http://10.88.0.1:{self.boatswain.port}"
        submit = f"exec /opt/spark/bin/spark-submit --master {master} --driver-class-path /application/adapter.jar {confs}"
        submit += f" --conf spark.driver.host=$POD_IP /application/spark_app.py {TASKS}"
        files = {"adapter.jar": of.jar, "spark_app.py": PROGRAM, "token": token}
        self.apply(["/bin/sh", "-c", submit], {key: path.read_bytes() for key, path in files.items()})

    def apply(self, command, files):
        container = {
            "name": "spark",
            "image": "localhost/engines:1",
            "command": command,
            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "volumeMounts": [{"name": "application", "mountPath": "/application"}],
        }
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "containers": [container],
            "volumes": [{"name": "application", "configMap": {"name": "application"}}],
        }
        data = {key: base64.b64encode(content).decode() for key, content in files.items()}
        self.here.do(f"{self.name}: spark-submit")
        self.space.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "application"}, "binaryData": data},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "spark"}, "spec": spec},
        )

    def lines(self):
        return self.space.kubectl("logs", "spark", fails=True).splitlines()

    def finish(self):
        """After the round in which it is, the application ends. Each of its rounds has to have the first one's result."""
        self.here.do(f"{self.name} may end")
        self.space.kubectl("exec", "spark", "--", "touch", "/tmp/stop")
        self.here.until(f"{self.name} has ended", lambda: self.phase() in ("Succeeded", "Failed"))
        lines = self.lines()
        (self.here.folder / f"{self.name}-spark.log").write_text("\n".join(lines))
        assert self.phase() == "Succeeded", "\n".join(lines[-40:])
        equal = lines.count("equal")
        assert equal and "DIFFERENT" not in lines, lines[-40:]
        self.here.tell(f"{self.name}: {equal} rounds with the result of the first one")
        self.here.until(f"{self.name} has no executor", lambda: not self.here.watch.pods(self.name))
        self.space.delete()

    def phase(self):
        return self.space.pod("spark")["status"].get("phase")
