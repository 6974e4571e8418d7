"""The clients against a real boatswain."""

import asyncio
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import httpx
import pytest
from conftest import processes, until

import boatswain
from boatswain import operations

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import generate  # noqa: E402

SLEEPER = {"executors": 0, "command": ["sleep", "1000"]}


def test_the_operations_are_those_of_the_drivers_document(local):
    document = httpx.get(f"{local.server}/openapi.json").json()
    with open(operations.__file__) as file:
        assert file.read() == generate.generate(document), "run generate.py: see its first lines"


def test_executors_are_scaled_listed_explained_and_killed(local):
    with boatswain.Client(local.server, token_file=local.token_file) as driver:
        assert driver.put_profile("small", SLEEPER)["targets"]["small"] == 0
        assert driver.put_target("small", 2)["targets"]["small"] == 2
        until("both run", lambda: [one["state"] for one in driver.executors()["executors"]] == ["running"] * 2)
        outcome = driver.kill([1, 99], force=True, replace=False)
        assert (outcome["leaving"], outcome["unknown"], outcome["targets"]["small"]) == ([1], [99], 1)
        until("its end", lambda: driver.executor(1)["now"] is None)
        assert driver.executor(1)["events"][-1]["reason"] == "Killed"


def test_a_refusal_says_what_is_wrong_and_what_to_do(local):
    with boatswain.Client(local.server, token_file=local.token_file) as driver:
        with pytest.raises(boatswain.BoatswainError, match="there is no profile none") as refused:
            driver.put_target("none", 1)
    assert (refused.value.status, refused.value.code, refused.value.field) == (422, "refused", "targets.none")


def test_a_profile_is_removed(local):
    with boatswain.Client(local.server, token_file=local.token_file) as driver:
        driver.put_profile("gone", SLEEPER)
        driver.put_target("gone", 1)
        until("it runs", lambda: driver.status()["profiles"]["gone"]["running"] == 1)
        assert "gone" not in driver.delete_profile("gone")["targets"]
        until("it is removed", lambda: "gone" not in driver.status()["profiles"])
        with pytest.raises(boatswain.BoatswainError, match="there is no profile gone") as refused:
            driver.delete_profile("gone")
    assert refused.value.status == 404


def test_a_request_is_repeated_until_the_driver_answers(tmp_path):
    with boatswain.Client("http://127.0.0.1:9", timeout=0.5) as driver:
        began = time.monotonic()
        with pytest.raises(boatswain.Unreachable):
            driver.status()
    assert time.monotonic() - began > 0.2


def test_a_replaced_token_is_read_again(local, tmp_path):
    token = tmp_path / "token"
    token.write_text("wrong\n")
    with boatswain.Client(local.server, token_file=token) as driver:
        with pytest.raises(boatswain.BoatswainError, match="token"):
            driver.status()
        token.write_text("# the new one\n" + local.token_file.read_text())
        assert driver.status()["ready"] in (True, False)


def test_events_go_on_where_they_were(local):
    with boatswain.Client(local.server, token_file=local.token_file) as driver:
        driver.put_profile("small", SLEEPER)
        events = driver.events()
        assert next(events)["event"] == "living"
        driver.put_target("small", 1)
        first = next(event for event in events if event["event"] == "requested")
        events.close()
        events = driver.events(after=first["id"])
        assert next(event for event in events if event["event"] == "running")["executor"] == first["executor"]
        events.close()


def test_the_asynchronous_client_does_the_same(local):
    async def run():
        async with boatswain.AsyncClient(local.server, token_file=local.token_file) as driver:
            await driver.put_profile("small", SLEEPER)
            await driver.put_target("small", 1)
            async for event in driver.events(after="1-0"):
                if event["event"] == "running":
                    return event["profile"]

    assert asyncio.run(run()) == "small"


def test_a_local_boatswain_ends_when_its_process_is_killed():
    script = """
import time, boatswain.local
boatswain.local.TTL = 1.0
local = boatswain.local.LocalBoatswain()
driver = boatswain.Client(local.server, token_file=local.token_file)
driver.put_profile("small", {"executors": 0, "command": ["sleep", "7654321"]})
driver.put_target("small", 2)
print("started", flush=True)
while True:
    driver.targets()
    time.sleep(0.3)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=dict(os.environ))
    threading.Timer(60, process.kill).start()
    assert process.stdout.readline() == b"started\n"
    until("its executors run", lambda: len(processes("7654321")) >= 2 + 1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until("nothing is left", lambda: not processes("7654321"))
