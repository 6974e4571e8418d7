import os
import pathlib
import signal
import time

import pytest

import boatswain


def until(what, condition, seconds=60):
    """Waits for a true value and returns it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def processes(part):
    """The ids of the processes that have this part in their command line, without the agents around them."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if not entry.name.isdigit():
                continue
            line = (entry / "cmdline").read_bytes()
            if part.encode() in line and b"agent" not in line.split(b"\0")[:2]:
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def kill_one(part, rng):
    if found := processes(part):
        os.kill(rng.choice(found), signal.SIGKILL)


@pytest.fixture
def local():
    driver = boatswain.LocalBoatswain()
    yield driver
    driver.close()
