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
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from distributed import Scheduler
from distributed.core import Status, rpc
from distributed.deploy import Adaptive, Cluster
from distributed.metrics import time
from distributed.protocol import pickle
from distributed.utils import Log

from boatswain.client import AsyncClient, BoatswainError
from boatswain.local import LocalBoatswain, binary

# Seconds between two calls that show a driver that this process lives: with `app.ttl` (see local.TTL), and to keep the profile.
CALL_EVERY = 8.0
# A driver removes the profile of a process that has not called for so long. An event loop may be busy for some calls.
TTL = "1m"
# Seconds for one request to the driver, with its repetitions.
ANSWER = 15.0
# Seconds after which a driver is asked again for workers that a stream's first message lacks, and the longest between two
# such questions.
SECOND_LOOK, LONGEST_LOOK = 1.0, 10.0
WHO = "dask"
# The agent leaves a worker alone that is to be decommissioned, until its data has moved and it is killed.
LEFT_ALONE = ["--decommission-command", "true", "--"]


class BoatswainAdaptive(Adaptive):
    """Dask's own, but the workers exit when boatswain tells them to: one that exits by itself is replaced."""

    async def scale_down(self, workers: Iterable[str]) -> None:
        await self.cluster.scale_down(workers)


class BoatswainCluster(Cluster):
    """A cluster of Dask workers.

    Parameters
    ----------
    server : URL of the driver's API. Without it a boatswain with its embedded cluster is started on this machine, and
        ends with this cluster.
    n_workers : how many workers are wanted at first.
    profile : keys of the workers' profile, as in the driver's configuration: `image`, `memory`, `cpu`, `env` and so on.
        `command` replaces the command of the workers, to which the scheduler's address and the options are added.
    nthreads, worker_options : of each worker; the options are those of `dask worker`.
    agent : the command of boatswain's agent in the workers' image, such as `["/usr/bin/boatswain-agent"]`. With it a worker
        that an operator or a drain decommissions has time to move its data. A local boatswain brings its own.
    scheduler : address of a scheduler that runs already. Without it one is started in this process, with
        `scheduler_options` (`host`, `port`, `dashboard_address` and so on).
    token_file, ca_file : as `boatswain.Client` has them.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        n_workers: int = 0,
        profile: Mapping[str, Any] | None = None,
        nthreads: int = 1,
        worker_options: Sequence[str] = (),
        agent: Sequence[str] = (),
        scheduler: str | None = None,
        scheduler_options: Mapping[str, Any] | None = None,
        token_file: Any = None,
        ca_file: Any = None,
        name: str | None = None,
        asynchronous: bool = False,
        loop: Any = None,
        quiet: bool = True,
    ) -> None:
        self._server = server
        self._token_file, self._ca_file = token_file, ca_file
        self._wanted = n_workers
        self._keys = dict(profile or {})
        self._options = ["--nthreads", str(nthreads), "--no-nanny", "--death-timeout", "60", *worker_options]
        self._agent = list(agent)
        self._scheduler_given = scheduler
        self._scheduler_options = dict(scheduler_options or {})
        self.scheduler: Scheduler | None = None
        self._local: LocalBoatswain | None = None
        self._tasks: list[asyncio.Task[None]] = []
        # Executors that are requested or run, and are not to go.
        self._living: set[int] = set()
        # Those that this process has retired.
        self._retired: set[int] = set()
        # Why the driver requests no more workers: they failed too often.
        self._failed: str | None = None
        super().__init__(name=name, asynchronous=asynchronous, loop=loop, quiet=quiet)
        # A profile cannot be changed, and this one has the scheduler's address: the cluster's name makes it unique.
        self._profile = "dask-" + re.sub("[^a-z0-9]+", "-", self.name.lower()).strip("-")[:40]
        self._starting = asyncio.Lock()
        # The driver's target and `_wanted` change together.
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

    async def _start(self) -> None:
        if self._server is None:
            self._local = await asyncio.to_thread(LocalBoatswain, "dask")
            self._scheduler_options.setdefault("host", "127.0.0.1")
        server, token_file = self._server, self._token_file
        if self._local is not None:
            server, token_file = self._local.server, self._local.token_file
        self._driver = AsyncClient(server, token_file=token_file, ca_file=self._ca_file, timeout=ANSWER)
        address = self._scheduler_given
        if address is None:
            self.scheduler = await Scheduler(**{"port": 0, "dashboard_address": ":0", **self._scheduler_options})
            address = self.scheduler.address
        self.scheduler_comm = rpc(address)
        await super()._start()
        self._description = self._described(address)
        await self._driver.put_profile(self._profile, self._description)
        self._tasks = [asyncio.ensure_future(self._follow()), asyncio.ensure_future(self._call())]
        await self._set_target(self._wanted)

    def _described(self, address: str) -> dict[str, Any]:
        """The workers' profile. Kubernetes puts the executor's id into the worker's name."""
        keys = dict(self._keys)
        command, agent = ["dask", "worker"], self._agent
        if self._local is not None:
            command, agent = [sys.executable, "-m", "dask", "worker"], agent or [binary(), "agent"]
        command = [*agent, *LEFT_ALONE] * bool(agent) + list(keys.pop("command", command))
        name = f"{self._profile}-$(BOATSWAIN_EXECUTOR_ID)"
        return {"ttl": TTL, **keys, "executors": 0, "command": [*command, address, "--name", name, *self._options]}

    def _name_of(self, id: int) -> str:
        return f"{self._profile}-{id}"

    def _ids_of(self, names: Iterable[str]) -> list[int]:
        ids = (str(name).removeprefix(self._profile + "-") for name in names)
        return sorted(int(id) for id in ids if id.isdigit())

    # What Adaptive asks for.

    @property
    def plan(self) -> set[str]:
        return {self._name_of(id) for id in self._living}

    requested = plan

    @property
    def workers(self) -> set[str]:
        """For the number of wanted workers in the widget."""
        return self.plan

    def adapt(self, Adaptive: Any = BoatswainAdaptive, **options: Any) -> Any:
        return super().adapt(Adaptive=Adaptive, **options)

    def scale(self, n: int) -> Any:
        """Scales to n workers. Those that go move their data to others first."""
        return self.sync(self._scale, n)

    async def _scale(self, n: int) -> None:
        surplus = len(self.plan) - n
        if surplus <= 0:
            await self._set_target(n)
            return
        going = sorted(self.plan - self.observed, reverse=True)[:surplus]
        if len(going) < surplus:
            going += await self.scheduler_comm.workers_to_close(target=n, attribute="name")
        await self._retire(going)

    def scale_down(self, workers: Iterable[str]) -> Any:
        """Retires these workers, by name: what they hold moves to others, then boatswain ends them."""
        return self.sync(self._retire, list(workers))

    async def _set_target(self, n: int) -> None:
        async with self._changing:
            self._wanted = n
            await self._driver.put_target(self._profile, n)

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
            self._living.difference_update(ids)
            self._wanted = outcome["targets"].get(self._profile, self._wanted)

    # What happens to the executors.

    async def _follow(self) -> None:
        """Keeps the set of living executors."""
        try:
            async for event in self._driver.events():
                if event["event"] == "living":
                    self._set_failed(event.get("failed", {}).get(self._profile))
                    self._living = await self._confirmed(event)
                elif event.get("profile") == self._profile and event["event"] in ("failed", "reset"):
                    self._set_failed(event.get("why"))
                elif event.get("profile") == self._profile and "executor" in event:
                    self._happened(event)
        except BoatswainError as error:
            self._log(f"no events any more: {error}")

    def _set_failed(self, why: str | None) -> None:
        before, self._failed = self._failed, why
        if why and not before:
            self._log(f"boatswain starts no more workers, they fail too often: {why}")
            self._tasks.append(asyncio.ensure_future(self._fail_tasks()))

    async def _fail_tasks(self) -> None:
        """No worker comes any more, so what waits for one would wait for ever. A scheduler elsewhere has no such request."""
        while self._failed and self.scheduler is not None:
            error = RuntimeError(f"boatswain starts no more workers, they fail too often: {self._failed}")
            stimulus = f"boatswain-failed-{time()}"
            done: dict[Any, Any] = {}
            for task in [*self.scheduler.queued, *self.scheduler.unrunnable]:
                done |= self.scheduler.transition(
                    task.key, "erred", exception=pickle.dumps(error), cause=task.key, stimulus_id=stimulus
                )
            self.scheduler.transitions(done, stimulus_id=stimulus)
            await asyncio.sleep(SECOND_LOOK)

    def _ours(self, executors: Iterable[Mapping[str, Any]], *, staying: bool) -> set[int]:
        ours = (one for one in executors if one["profile"] == self._profile)
        return {one["executor"] for one in ours if not staying or one["state"] not in ("leaving", "ended")}

    async def _confirmed(self, event: dict[str, Any]) -> set[int]:
        """The living ones of a stream's first message.

        The driver is asked again before a loss is believed that the message does not explain: one that has just started,
        or one of an earlier release, may not know its executors yet.
        """
        executors = event["executors"]
        told = self._ours(executors, staying=False) | {end["executor"] for end in event.get("ended", ())}
        pause = SECOND_LOOK
        while self._living - self._retired - told:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK)
            with contextlib.suppress(BoatswainError):
                # In this order: what is listed after the adoption is all that lives.
                if (await self._driver.status())["adopted"]:
                    executors = (await self._driver.executors())["executors"]
                    break
        return self._ours(executors, staying=True)

    def _happened(self, event: dict[str, Any]) -> None:
        id, what = event["executor"], event["event"]
        if what in ("requested", "adopted"):
            self._living.add(id)
        elif what in ("leaving", "ended", "not-created"):
            self._living.discard(id)
        if what == "leaving" and id not in self._retired and self._name_of(id) in self.observed:
            # Someone else decommissions it: an operator, or a drain of its node.
            self._tasks.append(asyncio.ensure_future(self._empty(id)))
        if what == "ended" and id not in self._retired:
            self._log(f"{self._name_of(id)} ended: {event.get('reason')}: {event.get('why', '')}")

    async def _empty(self, id: int) -> None:
        self._log(f"{self._name_of(id)} is to go: its data moves")
        # If one of these fails, it goes when its time is over.
        with contextlib.suppress(OSError, BoatswainError):
            names = [self._name_of(id)]
            if await self.scheduler_comm.retire_workers(names=names, remove=False, close_workers=False):
                await self._driver.kill([id], force=True, replace=True, by=WHO)

    async def _call(self) -> None:
        """Shows the driver that this process lives, and repeats what had no answer, or was undone while it was silent."""
        while True:
            await asyncio.sleep(CALL_EVERY)
            self._tasks = [task for task in self._tasks if not task.done()]
            try:
                if left := sorted(self._retired & self._living):
                    await self._end(left)
                if self._failed:
                    # It is refused, and keeps the profile for an operator who resets it.
                    with contextlib.suppress(BoatswainError):
                        await self._driver.put_profile(self._profile, self._description)
                    continue
                async with self._changing:
                    await self._driver.put_profile(self._profile, self._description)
                    await self._driver.put_target(self._profile, self._wanted)
            except BoatswainError as error:
                self._log(f"boatswain: {error}")

    async def _close(self) -> None:
        if self.status == Status.closed:
            return
        if self._adaptive is not None:
            self._adaptive.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if hasattr(self, "_driver"):
            await self._end_workers()
            await self._driver.close()
        if self.scheduler is not None:
            await self.scheduler.close()
        await super()._close()
        if self._local is not None:
            await asyncio.to_thread(self._local.close)

    async def _get_logs(self, cluster: bool = True, scheduler: bool = True, workers: Any = True) -> Any:
        logs = await super()._get_logs(cluster=cluster, scheduler=scheduler, workers=workers)
        if cluster and self._local is not None:
            logs["boatswain"] = Log(self._local.log_file.read_text(errors="replace"))
        return logs

    async def _end_workers(self) -> None:
        """The target first, so that none is replaced."""
        try:
            await self._driver.put_target(self._profile, 0)
            executors = (await self._driver.executors())["executors"]
            ids = [one["executor"] for one in executors if one["profile"] == self._profile]
            if ids:
                await self._driver.kill(ids, force=True, replace=False, by=WHO)
            await self._driver.delete_profile(self._profile)
        except BoatswainError as error:
            self._log(f"the workers may stay until their --death-timeout: {error}")
