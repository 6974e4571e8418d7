"""Dask clusters whose workers are executors of a boatswain driver.

    from boatswain.dask import BoatswainCluster

    with BoatswainCluster(n_workers=4) as cluster, cluster.get_client() as client:
        cluster.adapt(minimum=1, maximum=12)

Dask decides how many workers it wants and which are to go. boatswain starts them, replaces those that are lost, and says
why each one ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import pathlib
import re
import sys
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any

import yaml
from distributed import Scheduler
from distributed.core import Status, rpc
from distributed.deploy import Adaptive, Cluster
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.metrics import time
from distributed.protocol import pickle
from distributed.utils import Log, silence_logging_cmgr

from boatswain.client import AsyncClient, BoatswainError, Living
from boatswain.cluster_spec import arguments_of, make_cluster_spec, make_worker_spec, worker_arguments
from boatswain.kubecluster import ONLY_IN_POD, OF_RESOURCES, check_namespace, mode_of, profile_keys, refuse
from boatswain.local import LocalBoatswain, binary
from boatswain.operations import Event, Executor, NewProfile
from boatswain.scheduler_pod import WHO, SchedulerPod, add_profile, is_removed, remove_profile

# Seconds between two calls that show a driver that this process lives: with `app.ttl` (see local.TTL), and to keep the profile.
CALL_EVERY = 8.0
# A driver removes the profile of a process that has not called for so long. An event loop may be busy for some calls.
TTL = "1m"
# Seconds for one request to the driver, with its repetitions.
ANSWER = 15.0
# Seconds after which a driver is asked again for workers that a stream's first message lacks, and the longest between two
# such questions.
SECOND_LOOK, LONGEST_LOOK = 1.0, 10.0
# The agent leaves a worker alone that is to be decommissioned, until its data has moved and it is killed.
LEFT_ALONE = ["--decommission-command", "true", "--"]
# The worker group that a cluster begins with, and that `adapt` scales.
DEFAULT = "default"
# Between a cluster's name and that of one of its groups. No name has it, so a cluster "a" takes nothing of one called "a-b".
OF = "--"


__all__ = ["BoatswainCluster", "make_cluster_spec", "make_worker_spec"]


class BoatswainAdaptive(Adaptive):
    """Dask's own, but the workers exit when boatswain tells them to: one that exits by itself is replaced."""

    async def scale_down(self, workers: Iterable[str]) -> None:
        await self.cluster.scale_down(workers)

    async def workers_to_close(self, target: int) -> list[str]:
        """Those of the default group that are missed the least. With target 0 the scheduler names all, in this order."""
        here = self.plan & self.observed
        names = await super().workers_to_close(target=0)
        return [name for name in names if name in here][: max(0, len(here) - target)]


class EndsWorkers(SchedulerPlugin):
    """Ends the workers before a scheduler that ends tells them to exit, because those that exit by themselves are replaced."""

    def __init__(self, cluster: BoatswainCluster) -> None:
        self._cluster = cluster

    async def before_close(self) -> None:
        await self._cluster._end_workers()


@dataclasses.dataclass
class Group:
    """Workers of one kind. They have a profile of their own."""

    name: str
    profile: str
    # Another process keeps the profile of a cluster that this one has connected to.
    description: NewProfile | None
    wanted: int = 0
    # Why the driver requests no more of them: they failed too often.
    failed: str | None = None


class BoatswainCluster(Cluster):
    """A cluster of Dask workers. What dask-kubernetes' KubeCluster has too has the same name and meaning.

    Parameters
    ----------
    server : URL of the driver's API, or BOATSWAIN_SERVER. Without it a boatswain with its embedded cluster is started on
        this machine, and ends with this cluster.
    n_workers : how many workers are wanted at first.
    image, env, resources, worker_command : of the workers. `env` is a mapping, or a list as a container has it in
        Kubernetes; so are the `requests` and `limits` of `resources`. To the command the scheduler's address and the
        options are added.
    profile : further keys of the workers' profile, as in the driver's configuration, such as `node_selector`.
    namespace : of the driver, and so of the workers; another one is refused.
    idle_timeout : after so many seconds without work the scheduler ends, and the workers with it.
    nthreads, worker_options : of each worker; the options are those of `dask worker`. Those in its command come first.
    agent : the command of boatswain's agent in the workers' image, such as `["/usr/bin/boatswain-agent"]`. With it a worker
        that an operator or a drain decommissions has time to move its data. A local boatswain brings its own.
    scheduler : "cluster": an executor of its own, in a pod, to which this process connects; or the address of one that runs
        already. Without it one is started in this process, with `scheduler_options` (`host`, `port`, `dashboard_address`
        and so on).
    create_mode, shutdown_on_close : with scheduler="cluster": whether a cluster of this name is created or connected to
        (`CREATE_OR_CONNECT`, `CREATE_ONLY`, `CONNECT_ONLY`), and whether it ends with this process.
    resource_timeout : how many seconds a cluster of this name that was closed may take to be gone, and then the scheduler
        to start.
    custom_cluster_spec : a DaskCluster, as `make_cluster_spec` makes it, or the path of one in YAML: what of it is not given
        by another argument.
    token_file, ca_file : as `boatswain.Client` has them.
    quiet : whether nothing is printed, and of the scheduler's log warnings only.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        name: str | None = None,
        n_workers: int = 0,
        image: str | None = None,
        env: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None,
        resources: Mapping[str, Mapping[str, Any]] | None = None,
        worker_command: str | Sequence[str] | None = None,
        profile: NewProfile | None = None,
        namespace: str | None = None,
        idle_timeout: float | None = None,
        nthreads: int = 1,
        worker_options: Sequence[str] = (),
        agent: Sequence[str] = (),
        scheduler: str | None = None,
        scheduler_options: Mapping[str, Any] | None = None,
        create_mode: Any = "CREATE_OR_CONNECT",
        shutdown_on_close: bool = True,
        resource_timeout: float = 60,
        custom_cluster_spec: Mapping[str, Any] | str | None = None,
        token_file: Any = None,
        ca_file: Any = None,
        asynchronous: bool = False,
        loop: Any = None,
        quiet: bool = True,
        **others: Any,
    ) -> None:
        refuse(type(self).__name__, others)
        if custom_cluster_spec is not None:
            if isinstance(custom_cluster_spec, str):
                custom_cluster_spec = yaml.safe_load(pathlib.Path(custom_cluster_spec).read_text())
            of = arguments_of(custom_cluster_spec)
            name, n_workers = name or of.get("name"), n_workers or of.get("n_workers", 0)
            image, env, resources = image or of.get("image"), env or of.get("env"), resources or of.get("resources")
            worker_command, idle_timeout = worker_command or of.get("worker_command"), idle_timeout or of.get("idle_timeout")
            profile = of.get("profile", {}) | (profile or {})
            scheduler_options = of.get("scheduler_options", {}) | (scheduler_options or {})
        self._in_pod = scheduler == "cluster"
        self._create_mode, self._ends, self._start_within = mode_of(create_mode), shutdown_on_close, resource_timeout
        if not self._in_pod and (self._create_mode != "CREATE_OR_CONNECT" or not self._ends):
            raise ValueError(f"create_mode, shutdown_on_close: {ONLY_IN_POD}")
        if scheduler is not None and not self._in_pod and idle_timeout:
            raise ValueError("idle_timeout: a scheduler elsewhere has its own: dask scheduler --idle-timeout")
        self._server = server or os.environ.get("BOATSWAIN_SERVER")
        if namespace is not None:
            check_namespace(namespace, self._server)
        if idle_timeout and not self._ends:
            raise ValueError("idle_timeout: nobody would end the workers: leave it out, or shutdown_on_close=False")
        if self._server is None and not self._ends:
            raise ValueError("shutdown_on_close: a local boatswain ends with this process: name a server")
        self._token_file, self._ca_file = token_file, ca_file
        self._n_workers = n_workers
        self._keys = profile_keys(image=image, env=env, resources=resources, worker_command=worker_command, profile=profile)
        self._options = {"--nthreads": [str(nthreads)], "--no-nanny": [], "--death-timeout": ["60"]}
        self._worker_options = list(worker_options)
        self._agent = list(agent)
        self._scheduler_given = scheduler
        options = {} if self._in_pod else {"port": 0, "dashboard_address": ":0"}
        self._scheduler_options = {**options, "idle_timeout": idle_timeout, **(scheduler_options or {})}
        self.scheduler: Scheduler | None = None
        self._pod: SchedulerPod | None = None
        # The task that closes a cluster whose scheduler has ended.
        self._lost: asyncio.Task[None] | None = None
        self._local: LocalBoatswain | None = None
        self._silenced = contextlib.ExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        # By their profiles.
        self._groups: dict[str, Group] = {}
        # The profiles of executors that are requested or run, and are not to go.
        self._living: dict[int, str] = {}
        # Those that this process has retired.
        self._retired: set[int] = set()
        super().__init__(name=name, asynchronous=asynchronous, loop=loop, quiet=quiet)
        # A profile cannot be changed, and this one has the scheduler's address: the cluster's name makes it unique.
        self._profile = f"dask-{_label(self.name, 40)}"
        self._starting = asyncio.Lock()
        # A group's target and its `wanted` change together.
        self._changing = asyncio.Lock()
        if not self.called_from_running_loop:
            self._loop_runner.start()
            try:
                self.sync(self._start)
            except BaseException:
                self.sync(self._close)
                self._loop_runner.stop()
                raise

    def __await__(self) -> Any:
        async def started() -> BoatswainCluster:
            async with self._starting:
                if self.status == Status.created:
                    await self._start()
            return self

        return started().__await__()

    @classmethod
    def from_name(cls, name: str, server: str | None = None, **options: Any) -> BoatswainCluster:
        """Connects to a cluster whose scheduler is in a pod. It goes on when this process ends, or closes it."""
        options = {"shutdown_on_close": False, **options}
        return cls(server, name=name, scheduler="cluster", create_mode="CONNECT_ONLY", **options)

    async def _start(self) -> None:
        if self.quiet:
            self._silenced.enter_context(silence_logging_cmgr(logging.WARNING))
        if self._server is None:
            self._local = await asyncio.to_thread(LocalBoatswain, "dask")
            self._server, self._token_file = self._local.server, self._local.token_file
            self._scheduler_options.setdefault("host", "127.0.0.1")
        self._driver = AsyncClient(self._server, token_file=self._token_file, ca_file=self._ca_file, timeout=ANSWER)
        address = self._scheduler_given
        if self._in_pod:
            address = await self._scheduler_in_pod()
        elif address is None:
            self.scheduler = await Scheduler(**self._scheduler_options)
            self.scheduler.add_plugin(EndsWorkers(self))
            address = self.scheduler.address
        self.scheduler_comm = rpc(address)
        await super()._start()
        if self._groups:
            self._log(f"connected to {self.name}: {', '.join(group.name for group in self._groups.values())}")
        else:
            await self._add(DEFAULT, self._profile, self._keys, self._n_workers)
        self._tasks = [asyncio.ensure_future(self._follow()), asyncio.ensure_future(self._call())]
        self._log(f"{self.scheduler_address} waits for workers; dashboard: {self.dashboard_link}")

    async def _scheduler_in_pod(self) -> str:
        """Its address. The worker groups of a cluster that is there already become this one's."""
        command, _ = self._commands("scheduler")
        ttl = TTL if self._ends else None
        self._pod = SchedulerPod(f"{self._profile}{OF}scheduler", self._keys, command, self._scheduler_options, ttl)
        profiles = (await self._driver.status())["profiles"]
        is_there = not is_removed(profiles.get(self._pod.profile))
        if is_there and self._create_mode == "CREATE_ONLY":
            raise BoatswainError(f"there is a cluster {self.name} already")
        if not is_there and self._create_mode == "CONNECT_ONLY":
            raise BoatswainError(f"there is no cluster {self.name}")
        if is_there:
            here = {profile for profile, shown in profiles.items() if not is_removed(shown)}
            of = {profile: self._group_name(profile) for profile in here - {self._pod.profile}}
            self._groups = {
                profile: Group(name, profile, None, profiles[profile]["target"]) for profile, name in of.items() if name
            }
        else:
            await self._pod.start(self._driver, self._start_within)
        return await self._pod.address(self._driver, self._start_within)

    def _group_name(self, profile: str) -> str | None:
        """Of a profile of this cluster."""
        if profile == self._profile:
            return DEFAULT
        cluster, _, group = profile.partition(OF)
        return group if cluster == self._profile else None

    def _commands(self, what: str) -> tuple[list[str], list[str]]:
        """Dask's command, and the agent's."""
        if self._local is None:
            return ["dask", what], self._agent
        return [sys.executable, "-m", "dask", what], self._agent or [binary(), "agent"]

    async def _add(self, name: str, profile: str, keys: NewProfile, n: int) -> None:
        group = Group(name, profile, self._described(profile, keys))
        await add_profile(self._driver, profile, group.description, self._start_within)
        self._groups[profile] = group
        await self._set_target(group, n)

    def _described(self, profile: str, keys: NewProfile) -> NewProfile:
        """The workers' profile. Kubernetes puts the executor's id into the worker's name."""
        command, agent = self._commands("worker")
        command = keys.get("command", command)
        given = {word.partition("=")[0] for word in command}
        options = [word for option, values in self._options.items() if option not in given for word in (option, *values)]
        name = f"{profile}-$(BOATSWAIN_EXECUTOR_ID)"
        command = [*command, self.scheduler_address, "--name", name, *options, *self._worker_options]
        ttl = {"ttl": TTL} if self._ends else {}
        return {**ttl, **keys, "executors": 0, "command": [*agent, *LEFT_ALONE] * bool(agent) + command}

    def _group(self, name: str) -> Group:
        groups = {group.name: group for group in self._groups.values()}
        if name not in groups:
            raise ValueError(f"there is no worker group {name}: there are {', '.join(groups) or 'none, the cluster has ended'}")
        return groups[name]

    def _names(self, profile: str) -> set[str]:
        return {f"{profile}-{id}" for id, of in self._living.items() if of == profile}

    def _ids_of(self, names: Iterable[str]) -> list[int]:
        parts = (str(name).rpartition("-") for name in names)
        return sorted(int(id) for profile, _, id in parts if profile in self._groups and id.isdigit())

    # What Adaptive asks for.

    @property
    def plan(self) -> set[str]:
        return self._names(self._profile)

    requested = plan

    @property
    def workers(self) -> set[str]:
        """For the number of wanted workers in the widget."""
        return set().union(*map(self._names, self._groups))

    def adapt(self, minimum: Any = None, maximum: Any = None, *, Adaptive: Any = BoatswainAdaptive, **options: Any) -> Any:
        """Scales the default worker group by the work that there is."""
        return super().adapt(Adaptive=Adaptive, minimum=minimum, maximum=maximum, **options)

    def scale(self, n: int, worker_group: str = DEFAULT) -> Any:
        """Scales to n workers. Those that go move their data to others first."""
        return self.sync(self._scale, n, worker_group)

    async def _scale(self, n: int, worker_group: str = DEFAULT) -> None:
        group = self._group(worker_group)
        plan = self._names(group.profile)
        if len(plan) > n:
            going = sorted(plan - self.observed, reverse=True)
            if len(going) < len(plan) - n:
                # Of all groups, those that are missed the least first.
                named = await self.scheduler_comm.workers_to_close(target=0, attribute="name")
                going += [name for name in named if name in plan and name not in going]
            await self._retire(going[: len(plan) - n])
            # The driver lowers the target by those that go, but more may be wanted than there were.
            n = max(n, len(self._names(group.profile)))
        await self._set_target(group, n)

    def add_worker_group(
        self,
        name: str,
        n_workers: int = 3,
        image: str | None = None,
        resources: Mapping[str, Mapping[str, Any]] | None = None,
        worker_command: str | Sequence[str] | None = None,
        env: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None,
        custom_spec: Mapping[str, Any] | None = None,
        *,
        profile: NewProfile | None = None,
    ) -> Any:
        """Adds workers of another kind. What is not given is the cluster's."""
        if custom_spec is not None:
            of = worker_arguments(custom_spec, "custom_spec")
            n_workers, worker_command = of.get("n_workers", n_workers), worker_command or of.get("worker_command")
            image, env, resources = image or of.get("image"), env or of.get("env"), resources or of.get("resources")
            profile = of.get("profile", {}) | (profile or {})
        keys = profile_keys(image=image, env=env, resources=resources, worker_command=worker_command, profile=profile)
        inherited = {key: value for key, value in self._keys.items() if not (resources and key in OF_RESOURCES)}
        return self.sync(self._add_worker_group, name, n_workers, inherited | keys)

    async def _add_worker_group(self, name: str, n: int, keys: NewProfile) -> None:
        profile = f"{self._profile}{OF}{_label(name, 16)}"
        if name == DEFAULT or profile in self._groups:
            raise ValueError(f"there is a worker group {name} already: choose another name")
        await self._add(name, profile, keys, n)

    def delete_worker_group(self, name: str) -> Any:
        """Ends the workers of a group, after their data has moved to others."""
        return self.sync(self._delete_worker_group, name)

    async def _delete_worker_group(self, name: str) -> None:
        group = self._group(name)
        if name == DEFAULT:
            raise ValueError("the default worker group ends with the cluster: scale(0) ends its workers")
        await self._scale(0, name)
        async with self._changing:
            del self._groups[group.profile]
        await self._remove(group)

    def scale_down(self, workers: Iterable[str]) -> Any:
        """Retires these workers, by name: what they hold moves to others, then boatswain ends them."""
        return self.sync(self._retire, list(workers))

    async def _set_target(self, group: Group, n: int) -> None:
        async with self._changing:
            group.wanted = n
            await self._driver.put_target(group.profile, n)

    async def _retire(self, names: Sequence[str]) -> None:
        here = [name for name in names if name in self.observed]
        moved: set[str] = set()
        if here:
            # Closing them is boatswain's: a worker that exits by itself is replaced.
            retired = await self.scheduler_comm.retire_workers(names=here, remove=False, close_workers=False)
            moved = {worker["name"] for worker in retired.values()}
            for name in sorted(set(here) - moved):
                self._log(f"{name} stays: what it holds cannot be moved")
        ids = self._ids_of(moved | (set(names) - set(here)))
        if not ids:
            return
        self._retired.update(ids)
        await self._end(ids)

    async def _end(self, ids: list[int]) -> None:
        """Lowers the target in the same step. For those that leave already it changes nothing, so it can be repeated."""
        async with self._changing:
            outcome = await self._driver.kill(ids, force=True, replace=False, by=WHO)
            for id in ids:
                self._living.pop(id, None)
            for profile, group in self._groups.items():
                group.wanted = outcome["targets"].get(profile, group.wanted)

    # What happens to the executors.

    async def _follow(self) -> None:
        """Keeps the living executors."""
        try:
            async for event in self._driver.events():
                if event["event"] == "living":
                    for profile, group in self._groups.items():
                        self._set_failed(group, event.get("failed", {}).get(profile))
                    self._living = await self._confirmed(event)
                elif self._pod is not None and event.get("profile") == self._pod.profile:
                    if event["event"] == "ended":
                        self._log(f"the scheduler ended, and the cluster with it: {event.get('reason')}: {event.get('why', '')}")
                        self._lost = asyncio.ensure_future(self._close())
                elif group := self._groups.get(event.get("profile", "")):
                    if event["event"] in ("failed", "reset"):
                        self._set_failed(group, event.get("why"))
                    elif "executor" in event:
                        self._happened(event)
        except BoatswainError as error:
            self._log(f"no events any more: {error}")

    def _set_failed(self, group: Group, why: str | None) -> None:
        before, group.failed = group.failed, why
        if why and not before:
            self._log(f"boatswain starts no more workers of group {group.name}, they fail too often: {why}")
            self._tasks.append(asyncio.ensure_future(self._fail_tasks()))

    async def _fail_tasks(self) -> None:
        """Where no worker comes of any group, what waits would wait for ever. A scheduler elsewhere has no such request."""
        while self.scheduler is not None and self._groups and all(group.failed for group in self._groups.values()):
            why = self._groups[self._profile].failed
            error = RuntimeError(f"boatswain starts no more workers, they fail too often: {why}")
            stimulus = f"boatswain-failed-{time()}"
            done: dict[Any, Any] = {}
            for task in [*self.scheduler.queued, *self.scheduler.unrunnable]:
                done |= self.scheduler.transition(
                    task.key, "erred", exception=pickle.dumps(error), cause=task.key, stimulus_id=stimulus
                )
            self.scheduler.transitions(done, stimulus_id=stimulus)
            await asyncio.sleep(SECOND_LOOK)

    def _ours(self, executors: Iterable[Executor], *, staying: bool) -> dict[int, str]:
        ours = (one for one in executors if one["profile"] in self._groups)
        return {one["executor"]: one["profile"] for one in ours if not staying or one["state"] not in ("leaving", "ended")}

    async def _confirmed(self, event: Living) -> dict[int, str]:
        """The living ones of a stream's first message.

        The driver is asked again before a loss is believed that the message does not explain: one that has just started,
        or one of an earlier release, may not know its executors yet.
        """
        executors = event["executors"]
        told = self._ours(executors, staying=False).keys() | {end["executor"] for end in event.get("ended", ())}
        pause = SECOND_LOOK
        while self._living.keys() - self._retired - told:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK)
            with contextlib.suppress(BoatswainError):
                # In this order: what is listed after the adoption is all that lives.
                if (await self._driver.status())["adopted"]:
                    executors = (await self._driver.executors())["executors"]
                    break
        return self._ours(executors, staying=True)

    def _happened(self, event: Event) -> None:
        id, what, profile = event["executor"], event["event"], event["profile"]
        name = f"{profile}-{id}"
        if what in ("requested", "adopted", "promoted"):
            self._living[id] = profile
        elif what in ("leaving", "ended", "not-created"):
            self._living.pop(id, None)
        if what == "leaving" and id not in self._retired and name in self.observed:
            # Someone else decommissions it: an operator, or a drain of its node.
            self._tasks.append(asyncio.ensure_future(self._empty(id, name)))
        if what == "ended" and id not in self._retired:
            self._log(f"{name} ended: {event.get('reason')}: {event.get('why', '')}")

    async def _empty(self, id: int, name: str) -> None:
        self._log(f"{name} is to go: its data moves")
        # If one of these fails, it goes when its time is over.
        with contextlib.suppress(OSError, BoatswainError):
            if await self.scheduler_comm.retire_workers(names=[name], remove=False, close_workers=False):
                await self._driver.kill([id], force=True, replace=True, by=WHO)

    async def _call(self) -> None:
        """Shows the driver that this process lives, and repeats what had no answer, or was undone while it was silent."""
        while True:
            await asyncio.sleep(CALL_EVERY)
            self._tasks = [task for task in self._tasks if not task.done()]
            if left := sorted(self._retired & self._living.keys()):
                await self._attempt(self._end(left))
            if self._pod is not None and self._pod.is_kept:
                await self._attempt(self._pod.start(self._driver))
            for group in list(self._groups.values()):
                await self._attempt(self._renew(group))

    async def _attempt(self, request: Awaitable[None], without: str = "boatswain") -> None:
        try:
            await request
        except BoatswainError as error:
            self._log(f"{without}: {error}")

    async def _renew(self, group: Group) -> None:
        async with self._changing:
            if group.profile not in self._groups or group.description is None:
                return
            if group.failed:
                # It is refused, and keeps the profile for an operator who resets it.
                with contextlib.suppress(BoatswainError):
                    await self._driver.put_profile(group.profile, group.description)
                return
            await self._driver.put_profile(group.profile, group.description)
            await self._driver.put_target(group.profile, group.wanted)

    async def _close(self) -> None:
        if self.status == Status.closed:
            return
        await self._end_workers()
        if self.scheduler is not None:
            await self.scheduler.close()
        if self._pod is not None and self._ends:
            await self._attempt(remove_profile(self._driver, self._pod.profile), "the scheduler may stay")
        await super()._close()
        if hasattr(self, "_driver"):
            await self._driver.close()
        if self._local is not None:
            await asyncio.to_thread(self._local.close)
        self._silenced.close()

    async def _get_logs(self, cluster: bool = True, scheduler: bool = True, workers: Any = True) -> Any:
        logs = await super()._get_logs(cluster=cluster, scheduler=scheduler, workers=workers)
        if cluster and self._local is not None:
            logs["boatswain"] = Log(self._local.log_file.read_text(errors="replace"))
        return logs

    async def _end_workers(self) -> None:
        """Of all groups. What this process does for them ends before."""
        if self._adaptive is not None:
            self._adaptive.stop()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not self._ends:
            return
        while self._groups:
            _, group = self._groups.popitem()
            await self._attempt(self._remove(group), f"{group.profile}: workers may stay until their --death-timeout")

    async def _remove(self, group: Group) -> None:
        self._living = {id: profile for id, profile in self._living.items() if profile != group.profile}
        await remove_profile(self._driver, group.profile)


def _label(text: str, longest: int) -> str:
    """A part of a profile's name."""
    return re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")[:longest].rstrip("-")
