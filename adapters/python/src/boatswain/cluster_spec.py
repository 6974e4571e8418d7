"""dask-kubernetes' DaskCluster objects: made as there, and read as arguments of BoatswainCluster.

Of a pod's fields those are read that a profile has keys for. All others are refused by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

INSTEAD = "is no key of a profile here: use profile=, whose `template` may name a pod template of the driver"
DASK = {"dask-worker": ["dask", "worker"], "dask-scheduler": ["dask", "scheduler"]}


def make_worker_spec(
    image: str | None = None,
    n_workers: int | None = 3,
    resources: Mapping[str, Any] | None = None,
    env: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None,
    worker_command: str | Sequence[str] = "dask-worker",
    cluster_name: str | None = None,
) -> dict[str, Any]:
    """The workers of a DaskCluster, or of another group."""
    command = worker_command.split() if isinstance(worker_command, str) else list(worker_command)
    return {"replicas": n_workers, "spec": {"containers": [_container("worker", image, command, env, resources)]}}


def make_cluster_spec(
    name: str,
    image: str | None = None,
    n_workers: int | None = None,
    resources: Mapping[str, Any] | None = None,
    env: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None,
    worker_command: str | Sequence[str] = "dask-worker",
    scheduler_service_type: str = "ClusterIP",
    idle_timeout: float = 0,
    jupyter: bool = False,
) -> dict[str, Any]:
    """A DaskCluster, to be changed and given as custom_cluster_spec."""
    command = ["dask-scheduler", "--host", "0.0.0.0", *["--jupyter"] * jupyter]
    return {
        "apiVersion": "kubernetes.dask.org/v1",
        "kind": "DaskCluster",
        "metadata": {"name": name},
        "spec": {
            "idleTimeout": idle_timeout,
            "worker": make_worker_spec(image, n_workers, resources, env, worker_command),
            "scheduler": {
                "spec": {"containers": [_container("scheduler", image, command, env, resources)]},
                "service": {"type": scheduler_service_type},
            },
        },
    }


def _container(
    name: str,
    image: str | None,
    args: list[str],
    env: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None,
    resources: Mapping[str, Any] | None,
) -> dict[str, Any]:
    variables = [{"name": key, "value": value} for key, value in env.items()] if isinstance(env, Mapping) else env
    return {"name": name, "image": image, "args": args, "env": variables, "resources": resources}


def arguments_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of BoatswainCluster that a DaskCluster stands for. Those that it says nothing of are missing."""
    of, worker = spec["spec"], worker_arguments(spec["spec"]["worker"], "custom_cluster_spec: spec.worker")
    containers = of.get("scheduler", {}).get("spec", {}).get("containers", [{}])
    given = {
        "name": spec.get("metadata", {}).get("name"),
        "idle_timeout": of.get("idleTimeout"),
        "scheduler_options": _options(containers[0].get("args") or []),
        **worker,
    }
    return {name: value for name, value in given.items() if value}


def worker_arguments(worker: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The arguments that a DaskCluster's workers stand for."""
    where = f"{where}.spec"
    pod = dict(worker["spec"])
    containers = pod.pop("containers")
    if len(containers) != 1:
        raise ValueError(f"{where}.containers: has to be one: another one {INSTEAD}")
    container = dict(containers[0])
    for ignored in ("name", "ports"):
        container.pop(ignored, None)
    command = [*(container.pop("command", None) or []), *(container.pop("args", None) or [])]
    given = {
        "n_workers": worker.get("replicas"),
        "worker_command": _worker_command(command),
        **{name: container.pop(name, None) for name in ("image", "env", "resources")},
        "profile": _keys(container, OF_CONTAINER, f"{where}.containers[0]") | _keys(pod, OF_POD, where),
    }
    return {name: value for name, value in given.items() if value}


def _worker_command(command: list[str]) -> list[str]:
    """Without the name, which boatswain gives, and the addresses of dashboards, of which Dask's own are as good."""
    words = [*DASK.get(command[0], command[:1]), *command[1:]] if command else []
    for option, with_value in (("--name", True), ("--dashboard-address", True), ("--dashboard", False)):
        while option in words:
            at = words.index(option)
            del words[at : at + 1 + with_value]
    return words


def _options(command: list[str]) -> dict[str, Any]:
    """Of `dask scheduler`, by the names of the scheduler's own arguments. Where it listens is said otherwise."""
    options: dict[str, Any] = {}
    words = iter(command[2:] if command[:1] == ["dask"] else command[1:])
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--jupyter":
            options["jupyter"] = True
        elif name in ("--host", "--port", "--dashboard-address", "--idle-timeout"):
            value = value if equals else next(words, "")
            if name != "--host":
                options[name[2:].replace("-", "_")] = int(value) if value.isdigit() else value
        else:
            raise ValueError(f"custom_cluster_spec: spec.scheduler: {word} is not understood: use scheduler_options=")
    return options


def _keys(fields: Mapping[str, Any], known: Mapping[str, tuple[str, Callable[[Any], Any]]], where: str) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for field, value in fields.items():
        if value in (None, [], {}):
            continue
        if field not in known:
            raise ValueError(f"{where}.{field}: {INSTEAD}")
        name, read = known[field]
        keys[name] = read(value)
    return keys


def _as_it_is(value: Any) -> Any:
    return value


def _toleration(toleration: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(toleration)
    seconds = found.pop("tolerationSeconds", None)
    return found if seconds is None else {**found, "tolerate_for": f"{seconds}s"}


OF_CONTAINER = {"imagePullPolicy": ("pull_policy", _as_it_is)}
OF_POD: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "affinity": ("affinity", _as_it_is),
    "imagePullSecrets": ("pull_secrets", lambda secrets: [secret["name"] for secret in secrets]),
    "nodeSelector": ("node_selector", _as_it_is),
    "priorityClassName": ("priority_class", _as_it_is),
    "runtimeClassName": ("runtime_class", _as_it_is),
    "schedulerName": ("scheduler_name", _as_it_is),
    "serviceAccountName": ("service_account", _as_it_is),
    "terminationGracePeriodSeconds": ("termination_grace", lambda seconds: f"{seconds}s"),
    "tolerations": ("tolerations", lambda tolerations: [_toleration(one) for one in tolerations]),
}
