"""Ray clusters whose nodes are executors of a boatswain driver, by Ray's own autoscaler: version 1 and 2, unmodified.

    provider:
        type: external
        module: boatswain.ray.NodeProvider
        server: https://etl-driver.jobs.svc:7117
        token_file: /var/run/secrets/boatswain/token

Ray decides how many nodes of each type it wants and which are to go. A node type is a profile, and a node is an executor.
boatswain starts them, replaces those that are lost, and says why each one ended.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, cast

from ray.autoscaler.node_launch_exception import NodeLaunchException
from ray.autoscaler.node_provider import NodeProvider as Provider
from ray.autoscaler.tags import (
    NODE_KIND_HEAD,
    NODE_KIND_WORKER,
    STATUS_UNINITIALIZED,
    STATUS_UP_TO_DATE,
    TAG_RAY_LAUNCH_REQUEST,
    TAG_RAY_NODE_KIND,
    TAG_RAY_NODE_STATUS,
    TAG_RAY_USER_NODE_TYPE,
)
from ray.util import get_node_ip_address

from boatswain.client import BoatswainError, Client, Unreachable
from boatswain.operations import Executor, NewProfile

# Who asks, for the driver's log and for the reasons of ends.
WHO = "ray"
# Seconds for one request to the driver, with its repetitions. The autoscaler's round waits for it.
ANSWER = 15.0
# For how many seconds nodes stay wanted that were launched and are not there yet. Version 1 launches what it lacks anew each
# round (5 s). Version 2 waits, and then launches anew: before that they must not be wanted any more.
WANTED_BY_V1 = 15.0
WANTED_BY_V2 = 0.9 * float(os.environ.get("RAY_AUTOSCALER_RECONCILE_REQUEST_STATUS_TIMEOUT_S") or 600)
# What Ray would otherwise do itself, by SSH or in threads of its own.
SWITCHES = ("disable_node_updaters", "disable_launch_config_check", "foreground_node_launch")
# The head's id and type, by which version 2 recognizes it. Ray's own names.
HEAD_ID, HEAD_TYPE = "RAY_CLOUD_INSTANCE_ID", "RAY_NODE_TYPE_NAME"

logger = logging.getLogger(__name__)


class NodeProvider(Provider):
    """Ray's `provider: {type: external, module: boatswain.ray.NodeProvider}`.

    Not a BatchingNodeProvider: that sends what a round has decided in `post_process`, which version 2 never calls.

    A profile's target is what Ray wants of it: the nodes that it has seen, and those that it has launched and not seen yet.
    So where boatswain has replaced a lost executor, Ray finds a node of that type that it has not launched, counts it, and
    launches none; and where Ray is faster, the target is the same as before. No loss is replaced twice.

    Keys of the provider's section: `server`, `token_file` and `ca_file` as `boatswain.Client` has them; `profiles`, if the
    driver has executors that are not Ray's; `head_ip`, if the head was started with a `--node-ip-address` of its own; and
    Ray's `use_node_id_as_ip`, where several nodes share an address.
    """

    def __init__(self, provider_config: dict[str, Any], cluster_name: str) -> None:
        super().__init__(provider_config, cluster_name)
        if off := [switch for switch in SWITCHES if provider_config.get(switch) is not True]:
            raise ValueError(f"provider: {', '.join(off)} has to be true: boatswain starts the nodes, and Ray on them")
        if missing := [name for name in (HEAD_ID, HEAD_TYPE) if not os.environ.get(name)]:
            raise ValueError(
                f"{', '.join(missing)} is not set: start the head with {HEAD_ID}=head and with {HEAD_TYPE}= the "
                "head_node_type of the autoscaler's configuration"
            )
        self._head, self._head_type = os.environ[HEAD_ID], os.environ[HEAD_TYPE]
        self._head_ip: str = provider_config.get("head_ip") or get_node_ip_address()  # type: ignore[no-untyped-call]
        self._profiles: list[str] | None = provider_config.get("profiles")
        # It would write a line for each request into the autoscaler's log.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._driver = Client(
            provider_config.get("server"),
            token_file=provider_config.get("token_file"),
            ca_file=provider_config.get("ca_file"),
            timeout=ANSWER,
        )
        # Version 2 launches and terminates in threads. The client is for one at a time.
        self._lock = threading.RLock()
        # The nodes that Ray has seen last; None before the first time.
        self._nodes: dict[str, Executor] | None = None
        # By type: until when each node is waited for that was launched and not seen yet, the oldest first.
        self._awaited: dict[str, list[float]] = {}
        # Those that Ray has terminated, until the driver lists them no more.
        self._ending: set[int] = set()
        self._away = False

    # What there is.

    def non_terminated_nodes(self, tag_filters: dict[str, str]) -> list[str]:
        with self._lock:
            try:
                self._look()
                self._away = False
            except BoatswainError as error:
                # Version 1 ends for good after some exceptions, and a driver may be away for longer.
                if self._nodes is None or not (isinstance(error, Unreachable) or error.status == 503):
                    raise
                self._away = True
                logger.warning("boatswain gives no answer, and nothing is scaled: %s", error)
            ids = [self._head, *(self._nodes or ())]
            return [id for id in ids if tag_filters.items() <= self.node_tags(id).items()]

    def safe_to_scale(self) -> bool:
        return not self._away

    def is_running(self, node_id: str) -> bool:
        return self.node_tags(node_id).get(TAG_RAY_NODE_STATUS) == STATUS_UP_TO_DATE

    def is_terminated(self, node_id: str) -> bool:
        return node_id != self._head and node_id not in (self._nodes or {})

    def node_tags(self, node_id: str) -> dict[str, str]:
        if node_id == self._head:
            kind, profile, status = NODE_KIND_HEAD, self._head_type, STATUS_UP_TO_DATE
        else:
            executor = self._executor(node_id)
            kind, profile, status = NODE_KIND_WORKER, executor["profile"], _status(executor)
        return {TAG_RAY_NODE_KIND: kind, TAG_RAY_USER_NODE_TYPE: profile, TAG_RAY_NODE_STATUS: status}

    def set_node_tags(self, node_id: str, tags: dict[str, str]) -> None:
        """Ray's own progress in setting a node up, which boatswain does."""

    def internal_ip(self, node_id: str) -> str:
        """By it version 1 recognizes a node. One without a pod has none yet."""
        if node_id == self._head:
            return self._head_ip
        return node_id if self.provider_config.get("use_node_id_as_ip") else self._executor(node_id).get("ip", "")

    def external_ip(self, node_id: str) -> str:
        return self.internal_ip(node_id)

    def _executor(self, node_id: str) -> Executor:
        return (self._nodes or {})[node_id]

    def _look(self) -> None:
        """Asks the driver, so nothing here has to be right after a restart of Ray's head or of boatswain."""
        found = {one["executor"]: one for one in self._driver.executors()["executors"] if self._is_ours(one["profile"])}
        living = {id: one for id, one in found.items() if one["state"] not in ("leaving", "ended")}
        self._ending &= found.keys()
        if self._ending & living.keys():
            self._kill(self._ending & living.keys())
        nodes = {str(id): one for id, one in living.items() if id not in self._ending}
        self._settle(nodes)
        self._nodes = nodes

    def _is_ours(self, profile: str) -> bool:
        return self._profiles is None or profile in self._profiles

    def _settle(self, nodes: dict[str, Executor]) -> None:
        """Lowers targets to what Ray wants: an executor that was lost and is not replaced yet is Ray's to launch."""
        now = time.monotonic()
        for profile, deadlines in self._awaited.items():
            came = len(_of(profile, nodes).keys() - (self._nodes or {}).keys())
            self._awaited[profile] = [deadline for deadline in deadlines[came:] if deadline > now]
        targets = self._driver.targets()["targets"] if self._awaited else {}
        for profile, deadlines in self._awaited.items():
            wanted = len(_of(profile, nodes)) + len(deadlines)
            if targets.get(profile, 0) > wanted:
                self._driver.put_target(profile, wanted)

    # What Ray wants.

    def create_node(self, node_config: dict[str, Any], tags: dict[str, str], count: int) -> None:
        """Raises the target. A `node_config` is a profile by its keys; without one the driver has a profile of that name."""
        profile = tags[TAG_RAY_USER_NODE_TYPE]
        # Version 2 says which request of its own it is for, and does not ask again soon. What version 1 lacks it asks for.
        repeated = TAG_RAY_LAUNCH_REQUEST not in tags
        with self._lock:
            awaited = [] if repeated else self._awaited.get(profile, [])
            self._awaited[profile] = awaited
            if not self._is_ours(profile):
                raise NodeLaunchException("no profile", f"add the node type {profile} to the provider's profiles", None)
            here = [id for id in _of(profile, self._nodes or {}) if int(id) not in self._ending]
            wanted = len(here) + len(awaited) + count
            try:
                if node_config:
                    self._driver.put_profile(profile, cast(NewProfile, {**node_config, "executors": 0}))
                self._driver.put_target(profile, wanted)
            except BoatswainError as error:
                raise NodeLaunchException((error.code or "no answer")[:19], str(error), sys.exc_info()) from error
            until = time.monotonic() + (WANTED_BY_V1 if repeated else WANTED_BY_V2)
            self._awaited[profile] = awaited + [until] * count

    def terminate_node(self, node_id: str) -> None:
        self.terminate_nodes([node_id])

    def terminate_nodes(self, node_ids: Iterable[str]) -> None:
        """Kills executors and lowers the targets in one step, so that none is replaced. Ray has drained them."""
        with self._lock:
            ids = {int(id) for id in node_ids if id != self._head}
            self._ending |= ids
            try:
                self._kill(ids)
            except BoatswainError as error:
                # They are gone for Ray, and the next look repeats it.
                logger.warning("executors %s are ended when boatswain answers: %s", sorted(ids), error)

    def _kill(self, ids: set[int]) -> None:
        """Those that leave already are not counted twice, so it can be repeated."""
        if ids:
            self._driver.kill(sorted(ids), force=True, replace=False, by=WHO)


def _of(profile: str, nodes: dict[str, Executor]) -> dict[str, Executor]:
    return {id: one for id, one in nodes.items() if one["profile"] == profile}


def _status(executor: Executor) -> str:
    """Ray's word for it, or what it waits for."""
    return STATUS_UP_TO_DATE if executor["state"] in ("running", "uncertain") else executor.get("why") or STATUS_UNINITIALIZED
