"""A Dask scheduler that is an executor: boatswain starts it, in a pod of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from distributed.core import rpc

from boatswain.client import AsyncClient, BoatswainError
from boatswain.operations import NewProfile, Profile

# Who is named as the one who ends executors.
WHO = "dask"
# Dask's own. In the embedded cluster all pods have the addresses of one machine, so two clusters need other ones.
PORT, DASHBOARD = 8786, 8787
# Seconds between two looks at a scheduler that starts.
LOOK = 0.2
# The status of an answer that refuses a profile for one of its name.
CONFLICT = 409
# What of the workers' profile is the scheduler's too.
SHARED = (
    "image",
    "pull_policy",
    "pull_secrets",
    "env",
    "template",
    "security",
    "service_account",
    "node_selector",
    "tolerations",
)


class SchedulerPod:
    """The profile of a scheduler, and the one executor that it has.

    A scheduler that ends has lost what its workers do, and its successor has another address: so it has none.
    """

    def __init__(
        self,
        profile: str,
        keys: NewProfile,
        command: Sequence[str],
        options: Mapping[str, Any],
        ttl: str | None,
    ) -> None:
        self.profile = profile
        # Whether this process has started it, and keeps it.
        self.is_kept = False
        options = {"port": PORT, "dashboard_address": f":{DASHBOARD}", **options}
        self._port = int(options["port"])
        self.description: NewProfile = {key: keys[key] for key in SHARED if key in keys}  # type: ignore[literal-required]
        self.description |= {"executors": 1, "max_executors": 1, "command": [*command, *_arguments(options)]}
        if ttl:
            self.description["ttl"] = ttl

    async def start(self, driver: AsyncClient, seconds: float = 0) -> None:
        """Once more, it shows that this process lives. For `add_profile` see there."""
        await add_profile(driver, self.profile, self.description, seconds)
        self.is_kept = True

    async def address(self, driver: AsyncClient, seconds: float) -> str:
        """Where it listens, as soon as it does."""
        why, now = "it is requested", asyncio.get_running_loop().time
        until = now() + seconds
        while now() < until:
            found = (await driver.executors(profile=self.profile))["executors"]
            here = [one for one in found if one["state"] == "running" and one.get("ip")]
            if here:
                address = f"tcp://{here[0]['ip']}:{self._port}"
                why = f"nothing answers at {address}"
                if await _answers(address):
                    return address
            elif found:
                why = f"it is {found[0]['state']}: {found[0].get('why', '')}"
            await asyncio.sleep(LOOK)
        raise BoatswainError(f"the scheduler did not start within {seconds:.0f} s: {why}")


async def add_profile(driver: AsyncClient, name: str, profile: NewProfile, seconds: float) -> None:
    """An earlier one of this name, whose cluster is closed, may take these seconds to be gone."""
    now = asyncio.get_running_loop().time
    until = now() + seconds
    while True:
        try:
            await driver.put_profile(name, profile)
            return
        except BoatswainError as refusal:
            if refusal.status != CONFLICT or now() > until:
                raise
            if not is_removed((await driver.status())["profiles"].get(name)):
                raise refusal from None
        await asyncio.sleep(LOOK)


async def remove_profile(driver: AsyncClient, name: str) -> None:
    """Its executors end now. The target first, so that none is replaced."""
    await driver.put_target(name, 0)
    ids = [one["executor"] for one in (await driver.executors(profile=name))["executors"]]
    if ids:
        await driver.kill(ids, force=True, replace=False, by=WHO)
    await driver.delete_profile(name)


def is_removed(profile: Profile | None) -> bool:
    return profile is None or profile.get("removing", False)


async def _answers(address: str) -> bool:
    try:
        async with rpc(address, timeout=2) as scheduler:
            await asyncio.wait_for(scheduler.identity(), 5)
    except (OSError, asyncio.TimeoutError):
        return False
    return True


def _arguments(options: Mapping[str, Any]) -> list[str]:
    """Those of `dask scheduler`, by the names of its keyword arguments."""
    arguments: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        arguments.append(f"--{name.replace('_', '-')}")
        if value is not True:
            arguments.append(str(value))
    return arguments
