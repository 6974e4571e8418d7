"""Spark's own Kubernetes backend, whose client is fabric8's: what boatswain stands in for, on the same cluster."""

import json
import time

from cluster import equal, kill, running, say, until

WANTED = 2
ROLE = "spark-role=executor"

# What the entrypoint of Spark's image does with "executor".
POD = {
    "spec": {
        "containers": [
            {
                "name": "executor",
                "command": [
                    "/bin/sh",
                    "-c",
                    "cd /tmp; env | sed -n 's/^SPARK_JAVA_OPT_[0-9]*=//p' > options; exec java @options -Xmx$SPARK_EXECUTOR_MEMORY"
                    ' -cp "$SPARK_HOME/jars/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend'
                    ' --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES"'
                    ' --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP"'
                    ' --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"',
                ],
            }
        ]
    }
}


def rights(space):
    """What Spark's documentation asks for its driver."""
    rules = [{"apiGroups": [""], "resources": ["pods", "services", "configmaps", "persistentvolumeclaims"], "verbs": ["*"]}]
    api = {"apiGroup": "rbac.authorization.k8s.io"}
    space.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "engine"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "engine"}, "rules": rules},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "engine"},
            "roleRef": api | {"kind": "Role", "name": "engine"},
            "subjects": [{"kind": "ServiceAccount", "name": "engine"}],
        },
    )


def submission(space):
    """The command of the engine's pod."""
    settings = {
        "spark.driver.host": f"engine.{space.name}.svc",
        "spark.driver.bindAddress": "0.0.0.0",
        # Executors would be given the address above.
        "spark.kubernetes.executor.useDriverPodIP": "false",
        "spark.kubernetes.driver.pod.name": "engine",
        "spark.kubernetes.namespace": space.name,
        "spark.kubernetes.container.image": "localhost/engines:1",
        "spark.kubernetes.executor.podTemplateFile": "/application/executor.json",
        "spark.kubernetes.executor.request.cores": "100m",
        # So that people can read their logs.
        "spark.kubernetes.executor.deleteOnTermination": "false",
        "spark.executor.instances": str(WANTED),
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.log.level": "WARN",
    }
    confs = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    master = "k8s://https://kubernetes.default.svc"
    return ["/opt/spark/bin/spark-submit", "--master", master, *confs, "/application/spark_app.py"]


def run_all(space):
    found = {pod["metadata"]["labels"]["spark-exec-id"]: pod for pod in space.pods(ROLE) if running(pod)}
    return found if len(found) == WANTED else None


def scenario(space, results):
    """Counts words while one of two executors is killed; `results` as in run.py."""
    try:
        until("the undisturbed run is over", lambda: results(space) >= 0, 300)
        before = until("all executors run", lambda: run_all(space))
        time.sleep(1)
        number = min(before)
        kill(before[number])
        say("killed", number)
        until("it is replaced", lambda: number not in (run_all(space) or before))
        counted = results(space)
        until("words are counted with the other one", lambda: results(space) > counted + 1)
        space.kubectl("exec", "engine", "--", "touch", "/tmp/stop")
        until("the application has ended", lambda: space.pod("engine")["status"]["phase"] != "Running")
        equal(space.pod("engine")["status"]["phase"], "Succeeded", "the application:")
        until("no executor is left", lambda: not any(running(pod) for pod in space.pods(ROLE)))
        (said,) = [line for line in space.kubectl("logs", "engine").splitlines() if line.startswith("lost ")]
        equal(list(json.loads(said.removeprefix("lost "))), [number], "lost:")
    finally:
        space.show("pods", "get", "pods", "-o", "wide")
        space.show("engine-log", "logs", "engine")
        space.show("executors-log", "logs", "-l", ROLE, "--prefix", "--tail=40")
