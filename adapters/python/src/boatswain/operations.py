"""The requests of the HTTP API, and the JSON of their bodies and answers.

Made by generate.py from the driver's OpenAPI document. Do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import NotRequired

# By the names of the status: one number for each time, 0 where there was no such profile.
Columns = dict[str, list[int]]


# An executor's id.
Id = int


PauseCause = Literal["crash-loop", "gang-missed", "quota-exceeded", "template-refused", "right-missing", "credentials-refused", "namespace-unusable", "queued", "requests-fail"]


Reason = Literal["Exited", "OomKilled", "ProbeFailed", "StartFailed", "Rejected", "Evicted", "Preempted", "Disrupted", "NodeLost", "Deleted", "Mislabelled", "Killed", "Decommissioned", "NodeLeaving", "ScaledDown", "HeartbeatTimeout", "Disconnected", "Unreachable", "Abandoned", "RegistrationTimeout", "PendingTimeout", "TemplateRefused", "Missing", "Lost", "Stuck", "NotCreated"]


# How many executors of each profile are wanted.
TargetMap = dict[str, int]


# Who asks, for people: it is in logs, events and loss reasons.
Who = str | None


# Everyone who was named, in one of four places.
class CommandOutcome(TypedDict):
    # They were going already; one that was given time is hurried by a kill.
    already_leaving: list[Id]
    # They have something to do and were spared.
    busy: list[Id]
    # They go because of it.
    leaving: list[Id]
    targets: TargetMap
    # There are none, or not any more.
    unknown: list[Id]


# What an executor is made of, in the terms of Kubernetes.
class Container(TypedDict):
    image: NotRequired[str]
    # By resource.
    limits: NotRequired[dict[str, str]]
    # By resource.
    requests: NotRequired[dict[str, str]]


# The numbers of the status every 10 s, of the last hour, since the driver's start at most.
class CountsHistory(TypedDict):
    profiles: dict[str, Columns]
    # The oldest first.
    times: list[str]


class Decommission(TypedDict):
    by: NotRequired[Who]
    executors: list[Id]
    # Whether others take their place; their targets fall otherwise.
    replace: NotRequired[bool | None]
    # How long they may take, as 30s or 1h 30m; backend.decommission_timeout otherwise.
    within: NotRequired[str | None]


# That the driver has reason to doubt itself, and gives nobody up.
class Degraded(TypedDict):
    for_seconds: int
    why: str


class Demand(TypedDict):
    profiles: dict[str, ProfileDemand]


# Which program the driver is, and where its executors are.
class Driver(TypedDict):
    # The URL of the Kubernetes API server, or `in this process`.
    api_server: str
    namespace: str
    # Since its process was started.
    up_seconds: int
    version: str


class End(TypedDict):
    exit_code: NotRequired[int]


class Ending(TypedDict):
    # What the driver exits with, where nothing goes wrong.
    exit_code: int


# Something that happened. What more it has follows from its name.
class Event(TypedDict):
    # Where the application reaches the executor.
    address: NotRequired[str]
    # How many executors the driver has found.
    adopted: NotRequired[int]
    # Who asked for it.
    by: NotRequired[str]
    # Whether the application caused the end.
    by_application: NotRequired[bool]
    # How its node is paid for, such as spot, if nodes are watched.
    capacity_type: NotRequired[str]
    cause: NotRequired[PauseCause]
    # The exit code that an executor has announced.
    code: NotRequired[int]
    event: Literal["began", "target-changed", "silent", "removing", "removed", "failed", "memory-grown", "reset", "ready", "degraded", "recovered", "paused", "unpaused", "held", "resumed", "ending", "adopted", "requested", "pending", "running", "promoted", "registered", "disabled", "enabled", "exiting", "uncertain", "leaving", "not-created", "ended"]
    executor: NotRequired[Id]
    # How many executors there are when the application may begin; `living`, the first message of a
    # stream, lists them.
    executors: NotRequired[Any]
    # Of an executor, or of the driver that ends.
    exit_code: NotRequired[int]
    # Whether the end counts as a failure.
    failure: NotRequired[bool]
    id: str
    # Of this executor, or of a profile's new ones, as a Kubernetes quantity.
    memory_limit: NotRequired[str]
    node: NotRequired[str]
    pod: NotRequired[str]
    profile: NotRequired[str]
    reason: NotRequired[Reason]
    session: NotRequired[int]
    slots: NotRequired[int]
    # The state in which the executor was adopted.
    state: NotRequired[str]
    target: NotRequired[int]
    targets: NotRequired[TargetMap]
    time: str
    usage: NotRequired[Usage]
    # How many were waited for then.
    wanted: NotRequired[int]
    # The reason as text.
    why: NotRequired[str]
    # Its node's zone, if nodes are watched.
    zone: NotRequired[str]


# What the cluster knows of the executor's pod; null without api.evidence, or without a pod.
class Evidence(TypedDict):
    # Its last lines.
    log: list[str]
    # Whether the log is that of the container's run before the present one.
    log_of_previous_run: bool
    # What could not be read, and why.
    missing: list[str]
    pod: str
    warnings: list[PodWarning]


class Executor(TypedDict):
    # For how long this driver has known of it.
    age_seconds: int
    # How its node is paid for, such as spot, if nodes are watched.
    capacity_type: NotRequired[str]
    executor: Id
    # Which start of the driver asked for it.
    incarnation: int
    # Its pod's address.
    ip: NotRequired[str]
    node: NotRequired[str]
    # How it is known that its node is about to leave the cluster, if nodes are watched.
    node_leaves: NotRequired[str]
    # Whether its node is ready, if nodes are watched.
    node_ready: NotRequired[bool]
    pod: NotRequired[str]
    profile: str
    session: NotRequired[Session]
    state: Literal["requested", "unanswered", "pending", "running", "uncertain", "leaving", "ended"]
    # What it waits for.
    why: NotRequired[str]
    # Its node's zone, if nodes are watched.
    zone: NotRequired[str]


class ExecutorHistory(TypedDict):
    events: list[Event]
    evidence: Evidence | None
    executor: Id
    left_out_after_the_first: int
    now: Executor | None


class Executors(TypedDict):
    executors: list[Executor]
    # Only if there are more: the last one, for `after`.
    more_after: NotRequired[Id]


class Held(TypedDict):
    held: Holding


class Hold(TypedDict):
    by: NotRequired[Who]


# That the executors are held, and what is wanted again when they are not.
class Holding(TypedDict):
    # Who asked for it; missing where the application was silent for too long.
    by: NotRequired[str]
    targets: TargetMap


class Kill(TypedDict):
    by: NotRequired[Who]
    executors: list[Id]
    # Whether those that have something to do are killed as well.
    force: NotRequired[bool]
    # Whether others take their place; their targets fall otherwise.
    replace: NotRequired[bool]


class Loss(TypedDict):
    executor: Id
    profile: str
    reason: Reason
    time: str
    why: str


# A profile by the keys of [profiles.NAME] in the configuration. It is kept in the application record, a
# ConfigMap: no place for secrets.
class NewProfile(TypedDict):
    # a pod's affinity with the fields of Kubernetes: nodeAffinity, podAffinity, podAntiAffinity
    affinity: NotRequired[Mapping[str, Any]]
    annotations: NotRequired[Mapping[str, str]]
    args: NotRequired[list[str]]
    claims: NotRequired[list[ProfileClaim]]
    command: NotRequired[list[str]]
    # cores as Kubernetes writes them, such as "500m" or "2", in steps of 1m
    cpu: NotRequired[str | float]
    # cores as Kubernetes writes them, such as "500m" or "2", in steps of 1m
    cpu_limit: NotRequired[str | float]
    deletion_cost: NotRequired[int]
    env: NotRequired[Mapping[str, str | ProfileEnv]]
    # bytes as Kubernetes writes them, such as "10Gi"
    ephemeral_storage: NotRequired[str | float]
    # bytes as Kubernetes writes them, such as "10Gi"
    ephemeral_storage_limit: NotRequired[str | float]
    executors: NotRequired[int]
    # an image, such as "registry.example/engine:1.2"
    image: NotRequired[str]
    labels: NotRequired[Mapping[str, str]]
    max_executors: NotRequired[int]
    max_pending: NotRequired[int]
    # bytes as Kubernetes writes them, such as "512Mi" or "2Gi", at least 1Mi
    memory: NotRequired[str | float]
    memory_growth: NotRequired[float]
    memory_in_place: NotRequired[bool]
    # bytes as Kubernetes writes them, such as "512Mi" or "2Gi", at least 1Mi
    memory_limit: NotRequired[str | float]
    # bytes as Kubernetes writes them, such as "512Mi" or "2Gi", at least 1Mi
    memory_max: NotRequired[str | float]
    memory_overhead_factor: NotRequired[float]
    # bytes as Kubernetes writes them, such as "512Mi" or "2Gi", at least 1Mi
    memory_overhead_min: NotRequired[str | float]
    min_available: NotRequired[int]
    min_executors: NotRequired[int]
    node_selector: NotRequired[Mapping[str, str]]
    pre_stop: NotRequired[list[str]]
    # a Kubernetes name: lowercase letters, digits, inner dashes and dots
    priority_class: NotRequired[str]
    pull_policy: NotRequired[Literal["Always", "IfNotPresent", "Never"]]
    pull_secrets: NotRequired[list[str]]
    resources: NotRequired[Mapping[str, str | float]]
    # a Kubernetes name: lowercase letters, digits, inner dashes and dots
    runtime_class: NotRequired[str]
    # a Kubernetes name: lowercase letters, digits, inner dashes and dots
    scheduler_name: NotRequired[str]
    scheduling_gates: NotRequired[list[str]]
    security: NotRequired[ProfileSecurity]
    # a Kubernetes name: lowercase letters, digits, inner dashes and dots
    service_account: NotRequired[str]
    slots: NotRequired[int]
    spares: NotRequired[int]
    # a path in quotes
    template: NotRequired[str]
    # a container's name: lowercase letters, digits and inner dashes
    template_container: NotRequired[str]
    # a duration in whole seconds from 1s to 1day, such as "30s" or "1h 30m"
    termination_grace: NotRequired[str]
    tolerations: NotRequired[list[ProfileToleration]]
    topology_spread: NotRequired[list[ProfileTopologySpread]]
    # Without a request that renews it for so long, such as 1m, the profile is removed.
    ttl: NotRequired[str]
    volumes: NotRequired[list[ProfileVolume]]


# That no more are asked for, though they are wanted, or one at a time.
class Pause(TypedDict):
    # When one is tried again; missing while one is, and while it waits for its queue.
    again_in_seconds: NotRequired[int]
    cause: PauseCause
    for_seconds: int
    # A refusal is in the API server's words.
    why: str


# A Kubernetes Event of type Warning about the pod.
class PodWarning(TypedDict):
    count: int
    message: str
    reason: str
    # When it was observed last.
    time: NotRequired[str]


# One target over several profiles.
class Pool(TypedDict):
    # The preferred one first.
    profiles: list[PoolProfile]
    # How many of all its profiles are wanted.
    target: int


class PoolProfile(TypedDict):
    # Until more of it are tried.
    again_in_seconds: NotRequired[int]
    # How many would be, if there were room for all.
    preferred: int
    profile: str
    # How many are requested of it.
    target: int
    # How many are tried in addition, to learn whether there is room again.
    trying: int


class Problem(TypedDict):
    # What it is, in one word.
    code: str
    # Where in the request it is.
    field: NotRequired[str]
    # What to do about it.
    hint: NotRequired[str]
    # What it is, for people.
    message: str


class Profile(TypedDict):
    container: NotRequired[Container]
    # Why the profile has failed, until it is reset or removed.
    failed: NotRequired[str]
    # To how much the memory limit of new executors has grown after OomKilled, as a Kubernetes quantity;
    # until the profile is reset or removed.
    grown_memory: NotRequired[str]
    # How many are on their way out; they do not count.
    leaving: int
    paused: NotRequired[Pause]
    # How many have a pod that does not run yet.
    pending: int
    # How many have an account with the driver.
    registered: int
    # Whether the profile is being removed.
    removing: NotRequired[bool]
    # How many were asked for and have no pod yet.
    requested: int
    running: int
    # How many are wanted.
    target: int
    # How many were asked for without an answer.
    unanswered: int
    # Of how many it cannot be told at the moment whether they run.
    uncertain: int
    waiting_for: list[Waiting]


class ProfileClaim(TypedDict):
    access_modes: NotRequired[list[Literal["ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany"]]]
    annotations: NotRequired[Mapping[str, str]]
    data_source: NotRequired[ProfileDataSource]
    labels: NotRequired[Mapping[str, str]]
    # a path in the container, such as "/data"
    mount_path: NotRequired[str]
    # lowercase letters, digits and inner dashes, such as "data"
    name: NotRequired[str]
    owner: NotRequired[Literal["application", "executor"]]
    # bytes as Kubernetes writes them, such as "512Mi" or "10Gi", at least 1Mi
    size: NotRequired[str | float]
    # a storage class's name, such as "fast"
    storage_class: NotRequired[str]
    # a Kubernetes name: lowercase letters, digits, inner dashes and dots
    volume_attributes_class: NotRequired[str]


class ProfileDataSource(TypedDict):
    kind: NotRequired[Literal["VolumeSnapshot", "PersistentVolumeClaim"]]
    # a Kubernetes name: lowercase letters, digits, inner dashes and dots
    name: NotRequired[str]


class ProfileDemand(TypedDict):
    # The nodes that executors requested from now on prefer, with weights, such as how much of the work
    # has its data there.
    nodes: NotRequired[dict[str, int]]
    # Work that waits for a slot.
    pending: int
    # Work that has one.
    running: int


class ProfileEnv(TypedDict):
    config_map: NotRequired[str]
    field: NotRequired[str]
    key: NotRequired[str]
    optional: NotRequired[bool]
    resource: NotRequired[str]
    secret: NotRequired[str]


class ProfileSecurity(TypedDict):
    capabilities: NotRequired[list[str]]
    drop_capabilities: NotRequired[bool]
    fs_group: NotRequired[int]
    privilege_escalation: NotRequired[bool]
    privileged: NotRequired[bool]
    read_only_root: NotRequired[bool]
    run_as_group: NotRequired[int]
    run_as_non_root: NotRequired[bool]
    run_as_user: NotRequired[int]
    # "RuntimeDefault", "Unconfined" or "Localhost/FILE"
    seccomp: NotRequired[str]
    service_account_token: NotRequired[bool]


class ProfileToleration(TypedDict):
    effect: NotRequired[Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]]
    # a taint's key, such as dedicated or node.kubernetes.io/unreachable
    key: NotRequired[str]
    operator: NotRequired[Literal["Equal", "Exists"]]
    # a duration in whole seconds from 0s to 11months 30days 3h 50m 24s, such as "30s" or "1h 30m"
    tolerate_for: NotRequired[str]
    # a taint's value: at most 63 letters, digits, dashes, dots and underscores
    value: NotRequired[str]


class ProfileTopologySpread(TypedDict):
    # the key of a node's label, such as topology.kubernetes.io/zone
    key: NotRequired[str]
    max_skew: NotRequired[int]
    uneven: NotRequired[Literal["DoNotSchedule", "ScheduleAnyway"]]


class ProfileVolume(TypedDict):
    # the name of a claim that exists; claims that each executor gets anew are [[profiles.NAME.claims]]
    claim: NotRequired[str]
    # a Kubernetes name: lowercase letters, digits, inner dashes and dots
    config_map: NotRequired[str]
    empty_dir: NotRequired[bool]
    # a path on the node that begins with a slash, without ..
    host_path: NotRequired[str]
    # DirectoryOrCreate, Directory, FileOrCreate, File, Socket, CharDevice or BlockDevice
    host_path_type: NotRequired[str]
    medium: NotRequired[Literal["Disk", "Memory"]]
    # a path in the container that begins with a slash and has no colon
    mount_path: NotRequired[str]
    # lowercase letters, digits and inner dashes; names that begin with boatswain- are boatswain's own
    name: NotRequired[str]
    optional: NotRequired[bool]
    read_only: NotRequired[bool]
    # a Kubernetes name: lowercase letters, digits, inner dashes and dots
    secret: NotRequired[str]
    # bytes as Kubernetes writes them, such as "10Gi"
    size_limit: NotRequired[str | float]
    # a path within the volume, without a slash first and without ..
    sub_path: NotRequired[str]


# That the API server refuses writes of one kind.
class RefusedWrite(TypedDict):
    for_seconds: int
    # With its subresource, such as `workloads/status`.
    resource: str
    verb: Literal["create", "update", "patch", "delete"]
    # The API server's words, or the right that is missing and the rule that would grant it.
    why: str


# What an executor that has registered says of itself.
class Session(TypedDict):
    # Where the application reaches it.
    address: NotRequired[str]
    attributes: NotRequired[dict[str, str]]
    # How many of its slots have work; null if it has not said.
    busy_slots: int | None
    heard_seconds_ago: int
    log_url: NotRequired[str]
    # Its own figures.
    metrics: NotRequired[dict[str, float]]
    # Its number.
    session: int
    # How many pieces of work it does at a time.
    slots: int
    state: Literal["connected", "asking", "disabled"]
    usage: NotRequired[Usage]


class Status(TypedDict):
    # Whether the driver has taken over, and knows what is there.
    adopted: bool
    # The application's id.
    app: str
    degraded: NotRequired[Degraded]
    driver: NotRequired[Driver]
    held: NotRequired[Holding]
    # Which start of the driver this is.
    incarnation: int
    # The executors that ended last, the newest first.
    losses: list[Loss]
    pools: NotRequired[dict[str, Pool]]
    profiles: dict[str, Profile]
    # Whether the application may begin.
    ready: bool
    # What the API server has refused for long, and is tried again.
    refused_writes: NotRequired[list[RefusedWrite]]
    time: str


class Target(TypedDict):
    executors: int


class Targets(TypedDict):
    targets: TargetMap


class TokenRight(TypedDict):
    right: Literal["read", "full"]


# What an executor's container uses.
class Usage(TypedDict):
    # On average since the heartbeat before; missing in the first.
    cpu_cores: NotRequired[float]
    # Without the page cache that the kernel takes back first.
    memory_bytes: int
    # Beyond it the container is killed; missing without a limit.
    memory_limit_bytes: NotRequired[int]
    # What 99 % of the heartbeats had as cores or fewer.
    p99_cpu_cores: NotRequired[float]
    # The highest memory of all heartbeats.
    peak_memory_bytes: NotRequired[int]


# How many executors wait for the same.
class Waiting(TypedDict):
    executors: int
    why: str


class Wanted(TypedDict):
    wanted: TargetMap


def segment(value: Any) -> str:
    """A value as one segment of a path."""
    return quote(str(value), safe="")


def query(**values: str | None) -> str:
    """The query of a path, with the values that are given."""
    given = {name: value for name, value in values.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


class Operations:
    """Requests that wait for their answers."""

    def _call(self, method: str, path: str, body: Any) -> Any:
        raise NotImplementedError

    def end(self, *, exit_code: int | None = None) -> Ending:
        """Ends the application; the driver exits with its code"""
        return self._call("POST", "/v1/application/end", {"exit_code": exit_code})

    def hand_over(self) -> Ending:
        """Ends this driver and leaves the executors to its successor"""
        return self._call("POST", "/v1/application/hand-over", {})

    def hold(self, *, by: Who | None = None) -> Held:
        """Decommissions all executors, and keeps the targets for a later resume"""
        return self._call("POST", "/v1/application/hold", {"by": by})

    def resume(self) -> Targets:
        """Restores the targets from before the hold"""
        return self._call("POST", "/v1/application/resume", {})

    def demand(self, profiles: dict[str, ProfileDemand]) -> Wanted:
        """Reports the demand, for autoscaling"""
        return self._call("POST", "/v1/demand", {"profiles": profiles})

    def executors(self, *, ip: str | None = None, profile: str | None = None, state: str | None = None, after: str | None = None, limit: str | None = None) -> Executors:
        """The executors that live"""
        return self._call("GET", f"/v1/executors{query(ip=ip, profile=profile, state=state, after=after, limit=limit)}", None)

    def decommission(self, executors: list[Id], *, by: Who | None = None, replace: bool | None = None, within: str | None = None) -> CommandOutcome:
        """Decommissions executors: they finish their work and exit"""
        return self._call("POST", "/v1/executors/decommission", {"executors": executors, "by": by, "replace": replace, "within": within})

    def kill(self, executors: list[Id], *, by: Who | None = None, force: bool | None = None, replace: bool | None = None) -> CommandOutcome:
        """Kills executors"""
        return self._call("POST", "/v1/executors/kill", {"executors": executors, "by": by, "force": force, "replace": replace})

    def executor(self, id: Id) -> ExecutorHistory:
        """The history of a live executor, or of one of the last that ended"""
        return self._call("GET", f"/v1/executors/{segment(id)}", None)

    def counts(self) -> CountsHistory:
        """The executors of each profile by state over the last hour, every 10 s"""
        return self._call("GET", "/v1/history/counts", None)

    def delete_profile(self, profile: str) -> Targets:
        """Removes a profile that was added; its executors finish their work and exit"""
        return self._call("DELETE", f"/v1/profiles/{segment(profile)}", None)

    def put_profile(self, profile: str, body: NewProfile) -> Targets:
        """Adds a profile; an existing one cannot be changed"""
        return self._call("PUT", f"/v1/profiles/{segment(profile)}", body)

    def reset(self, profile: str) -> Targets:
        """Lets a profile that has failed begin anew"""
        return self._call("POST", f"/v1/profiles/{segment(profile)}/reset", {})

    def status(self) -> Status:
        """The driver's state: targets, executors by state, what they wait for, the last losses"""
        return self._call("GET", "/v1/status", None)

    def targets(self) -> Targets:
        """How many executors are wanted"""
        return self._call("GET", "/v1/targets", None)

    def put_targets(self, targets: TargetMap) -> Targets:
        """Sets the targets of all named profiles, or of none if one is invalid"""
        return self._call("PUT", "/v1/targets", {"targets": targets})

    def put_target(self, profile: str, executors: int) -> Targets:
        """Sets the target of one profile"""
        return self._call("PUT", f"/v1/targets/{segment(profile)}", {"executors": executors})

    def token(self) -> TokenRight:
        """What the token of this request may do"""
        return self._call("GET", "/v1/token", None)


class AsyncOperations:
    """Requests to await."""

    async def _call(self, method: str, path: str, body: Any) -> Any:
        raise NotImplementedError

    async def end(self, *, exit_code: int | None = None) -> Ending:
        """Ends the application; the driver exits with its code"""
        return await self._call("POST", "/v1/application/end", {"exit_code": exit_code})

    async def hand_over(self) -> Ending:
        """Ends this driver and leaves the executors to its successor"""
        return await self._call("POST", "/v1/application/hand-over", {})

    async def hold(self, *, by: Who | None = None) -> Held:
        """Decommissions all executors, and keeps the targets for a later resume"""
        return await self._call("POST", "/v1/application/hold", {"by": by})

    async def resume(self) -> Targets:
        """Restores the targets from before the hold"""
        return await self._call("POST", "/v1/application/resume", {})

    async def demand(self, profiles: dict[str, ProfileDemand]) -> Wanted:
        """Reports the demand, for autoscaling"""
        return await self._call("POST", "/v1/demand", {"profiles": profiles})

    async def executors(self, *, ip: str | None = None, profile: str | None = None, state: str | None = None, after: str | None = None, limit: str | None = None) -> Executors:
        """The executors that live"""
        return await self._call("GET", f"/v1/executors{query(ip=ip, profile=profile, state=state, after=after, limit=limit)}", None)

    async def decommission(self, executors: list[Id], *, by: Who | None = None, replace: bool | None = None, within: str | None = None) -> CommandOutcome:
        """Decommissions executors: they finish their work and exit"""
        return await self._call("POST", "/v1/executors/decommission", {"executors": executors, "by": by, "replace": replace, "within": within})

    async def kill(self, executors: list[Id], *, by: Who | None = None, force: bool | None = None, replace: bool | None = None) -> CommandOutcome:
        """Kills executors"""
        return await self._call("POST", "/v1/executors/kill", {"executors": executors, "by": by, "force": force, "replace": replace})

    async def executor(self, id: Id) -> ExecutorHistory:
        """The history of a live executor, or of one of the last that ended"""
        return await self._call("GET", f"/v1/executors/{segment(id)}", None)

    async def counts(self) -> CountsHistory:
        """The executors of each profile by state over the last hour, every 10 s"""
        return await self._call("GET", "/v1/history/counts", None)

    async def delete_profile(self, profile: str) -> Targets:
        """Removes a profile that was added; its executors finish their work and exit"""
        return await self._call("DELETE", f"/v1/profiles/{segment(profile)}", None)

    async def put_profile(self, profile: str, body: NewProfile) -> Targets:
        """Adds a profile; an existing one cannot be changed"""
        return await self._call("PUT", f"/v1/profiles/{segment(profile)}", body)

    async def reset(self, profile: str) -> Targets:
        """Lets a profile that has failed begin anew"""
        return await self._call("POST", f"/v1/profiles/{segment(profile)}/reset", {})

    async def status(self) -> Status:
        """The driver's state: targets, executors by state, what they wait for, the last losses"""
        return await self._call("GET", "/v1/status", None)

    async def targets(self) -> Targets:
        """How many executors are wanted"""
        return await self._call("GET", "/v1/targets", None)

    async def put_targets(self, targets: TargetMap) -> Targets:
        """Sets the targets of all named profiles, or of none if one is invalid"""
        return await self._call("PUT", "/v1/targets", {"targets": targets})

    async def put_target(self, profile: str, executors: int) -> Targets:
        """Sets the target of one profile"""
        return await self._call("PUT", f"/v1/targets/{segment(profile)}", {"executors": executors})

    async def token(self) -> TokenRight:
        """What the token of this request may do"""
        return await self._call("GET", "/v1/token", None)
