"""The arguments of dask-kubernetes' KubeCluster, as keys of a profile.

One that means the same here is taken with its name. One that has no meaning here is refused, with what to use instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from boatswain.operations import NewProfile, ProfileEnv

# The keys of a profile for what Kubernetes requests and limits; other resources are the same in both.
AMOUNTS = {
    "cpu": ("cpu", "cpu_limit"),
    "memory": ("memory", "memory_limit"),
    "ephemeral-storage": ("ephemeral_storage", "ephemeral_storage_limit"),
}
OF_RESOURCES = {"resources", *(key for keys in AMOUNTS.values() for key in keys)}
# Kubernetes' sources of a variable, and the keys of a profile for their fields.
SOURCES = {
    "secretKeyRef": {"name": "secret", "key": "key", "optional": "optional"},
    "configMapKeyRef": {"name": "config_map", "key": "key", "optional": "optional"},
    "fieldRef": {"fieldPath": "field"},
    "resourceFieldRef": {"resource": "resource"},
}
ONLY_IN_POD = "only with scheduler='cluster': a scheduler in this process ends with it, and its cluster too"
MODES = ("CREATE_OR_CONNECT", "CREATE_ONLY", "CONNECT_ONLY")
INSTEAD = {
    "jupyter": "use scheduler_options={'jupyter': True}",
    "port_forward_cluster_ip": "leave it out: the scheduler is in this process, where the workers have to reach it",
    "scheduler_forward_port": "use scheduler_options={'dashboard_address': ':8787'}",
    "scheduler_service_type": "use scheduler_options={'host': …, 'port': …}: the scheduler listens in this process",
}
# What is so in any case.
SO_ANYWAY = {"jupyter": False, "port_forward_cluster_ip": False}


def refuse(function: str, others: Mapping[str, Any]) -> None:
    """Refuses arguments that KubeCluster has and this one has not. Values are not shown: a spec may have secrets."""
    for name, value in others.items():
        if name not in INSTEAD:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        if value is not None and value is not SO_ANYWAY.get(name):
            raise ValueError(f"{name}: {INSTEAD[name]}")


def mode_of(create_mode: Any) -> str:
    """Its name, of dask-kubernetes' CreateMode too."""
    mode = str(getattr(create_mode, "value", create_mode))
    if mode not in MODES:
        raise ValueError(f"create_mode: has to be one of {', '.join(MODES)}")
    return mode


def check_namespace(namespace: str, server: str | None) -> None:
    """The workers run in the driver's namespace, so another one is refused. It is known from a Service's name alone."""
    host = (urlsplit(server).hostname or "") if server else ""
    if host.split(".")[1:3] != [namespace, "svc"]:
        raise ValueError(
            f"namespace: the workers run in that of the boatswain, and {server or 'a local one'} is not known to be in "
            f"{namespace}: name one there, such as https://etl-driver.{namespace}.svc:7117, or leave the namespace out"
        )


def profile_keys(
    *,
    image: str | None = None,
    env: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None,
    resources: Mapping[str, Mapping[str, Any]] | None = None,
    worker_command: str | Sequence[str] | None = None,
    profile: Mapping[str, Any] | None = None,
) -> NewProfile:
    """The keys of a profile; `profile` has those that KubeCluster has no arguments for."""
    keys: dict[str, Any] = {}
    if image:
        keys["image"] = image
    if env:
        keys["env"] = environment(env)
    if resources:
        keys |= amounts(resources)
    if worker_command:
        keys["command"] = worker_command.split() if isinstance(worker_command, str) else list(worker_command)
    given = dict(profile or {})
    if twice := sorted(keys.keys() & given.keys()):
        raise ValueError(f"profile: {', '.join(twice)} is given by another argument too: give it once")
    return cast(NewProfile, given | keys)


def environment(env: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> dict[str, str | ProfileEnv]:
    """Of a mapping, or of a list as a container has it in Kubernetes."""
    if isinstance(env, Mapping):
        return dict(env)
    return {entry["name"]: entry.get("value") or _source(entry) for entry in env}


def _source(entry: Mapping[str, Any]) -> str | ProfileEnv:
    sources = entry.get("valueFrom")
    if not sources:
        return ""
    for source, keys in SOURCES.items():
        fields = sources.get(source, {})
        if len(sources) == 1 and fields and fields.keys() <= keys.keys():
            return cast(ProfileEnv, {keys[field]: value for field, value in fields.items()})
    possible = ", ".join(f"{source} ({', '.join(keys)})" for source, keys in SOURCES.items())
    raise ValueError(f"env: the source of {entry['name']} is not one of {possible}")


def amounts(resources: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Requests and limits, as a container has them in Kubernetes."""
    if not isinstance(resources, Mapping) or not all(isinstance(one, Mapping) for one in resources.values()):
        raise TypeError("resources: has to be such as {'requests': {'memory': '2Gi'}, 'limits': {'memory': '4Gi'}}")
    if unknown := sorted(resources.keys() - {"requests", "limits"}):
        raise ValueError(f"resources: has requests and limits, but not {', '.join(unknown)}")
    keys: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for place, kind in enumerate(("requests", "limits")):
        for name, amount in resources.get(kind, {}).items():
            if name in AMOUNTS:
                keys[AMOUNTS[name][place]] = amount
            elif str(others.setdefault(name, amount)) != str(amount):
                raise ValueError(f"resources: Kubernetes takes the same amount of {name} as request and limit only")
    return keys | {"resources": others} if others else keys
