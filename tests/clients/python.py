"""What a program does by the official Python client, on the cluster of KUBECONFIG: lists, watches, creates, patches,
deletes, over a watch that the server ends.

Prints a line for each thing that works; ends with an error at the first that does not.
"""

import base64

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = "python-client"


def pod(name, labels=None):
    container = {"name": "main", "image": "localhost/debian:1", "command": ["sh", "-c", "echo up; exec sleep 600"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {"app": "demo"}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]},
    }


def expect(what, holds):
    if not holds:
        raise AssertionError(what)
    print("works:", what)


def refused(status, call):
    try:
        call()
    except ApiException as error:
        return error.status == status
    return False


def session(core, namespace):
    created = core.create_namespaced_pod(namespace, pod("a"))
    expect("a pod is created", created.metadata.uid)
    expect("a second of its name is refused", refused(409, lambda: core.create_namespaced_pod(namespace, pod("a"))))

    # A watch from nowhere in particular tells of what is there, then of what happens; it ends by itself and goes on
    # from where it ended.
    watcher = watch.Watch()
    running = False
    for event in watcher.stream(core.list_namespaced_pod, namespace, timeout_seconds=30):
        if event["object"].status.phase == "Running":
            running = True
            watcher.stop()
    expect("a watch tells when the pod runs", running)
    last = watcher.resource_version
    core.create_namespaced_pod(namespace, pod("b"))
    again = watch.Watch()
    seen = []
    for event in again.stream(
        core.list_namespaced_pod, namespace, resource_version=last, timeout_seconds=30, label_selector="app=demo"
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if ("ADDED", "b") in seen:
            again.stop()
    expect("the next watch goes on where the last one ended", ("ADDED", "b") in seen and ("ADDED", "a") not in seen)

    # This one the server ends, once the time is over for which it was asked.
    third = watch.Watch()
    core.patch_namespaced_pod("a", namespace, {"metadata": {"labels": {"seen": "yes"}}})
    for event in third.stream(core.list_namespaced_pod, namespace, field_selector="metadata.name=a", timeout_seconds=2):
        labels = event["object"].metadata.labels
    expect("a patch is seen", labels.get("seen") == "yes")

    first = core.list_namespaced_pod(namespace, limit=1)
    rest = core.list_namespaced_pod(namespace, limit=1, _continue=first.metadata._continue)
    names = [item.metadata.name for item in first.items + rest.items]
    expect("a list is read page by page", names == ["a", "b"] and rest.metadata._continue is None)
    expect("a log is read", "up" in core.read_namespaced_pod_log("a", namespace))

    core.create_namespaced_secret(namespace, {"metadata": {"name": "s"}, "stringData": {"k": "v"}})
    secret = core.read_namespaced_secret("s", namespace)
    expect("a secret is kept", base64.b64decode(secret.data["k"]) == b"v")
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "m"}, "data": {"k": "v"}})
    config_map = core.read_namespaced_config_map("m", namespace)
    config_map.data["k"] = "w"
    core.replace_namespaced_config_map("m", namespace, config_map)
    expect("an old version is refused", refused(409, lambda: core.replace_namespaced_config_map("m", namespace, config_map)))

    core.delete_namespaced_pod("a", namespace)
    gone = watch.Watch()
    for event in gone.stream(core.list_namespaced_pod, namespace, timeout_seconds=30):
        if (event["type"], event["object"].metadata.name) == ("DELETED", "a"):
            gone.stop()
            break
    expect("a pod that was deleted is gone", refused(404, lambda: core.read_namespaced_pod("a", namespace)))
    core.delete_collection_namespaced_pod(namespace, grace_period_seconds=0)
    expect("all pods are deleted at once", not core.list_namespaced_pod(namespace).items)


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    session(core, NAMESPACE)
    version = client.VersionApi().get_code()
    groups = {group.name for group in client.ApisApi().get_api_versions().groups}
    expect("it says what it is", version.major == "1" and "coordination.k8s.io" in groups)


main()
