"""What mypy finds in programs that use the client."""

import pathlib

import pytest

mypy = pytest.importorskip("mypy.api")

PROGRAM = """
import boatswain
from boatswain.dask import BoatswainCluster

env = {"LANG": "C"}
workers: boatswain.NewProfile = {"image": "engine:2", "env": env, "security": {"run_as_user": 1000}}
BoatswainCluster(n_workers=2, profile={"pull_policy": "Always"}).add_worker_group("high", profile=workers)
with boatswain.Client() as driver:
    driver.put_profile("small", {"executors": 0, "memory": "1Gi", "ttl": "1m", "env": {"A": {"field": "status.hostIP"}}})
    for event in driver.events():
        if event["event"] == "living":
            print([one["state"] for one in event["executors"]], event["failed"].get("small"))
        elif event["event"] == "ended":
            print(event["executor"] + 1, event["reason"] == "OomKilled", event["why"], event["exit_code"])


async def follow() -> None:
    async with boatswain.AsyncClient() as driver:
        async for event in driver.events():
            if event["event"] == "target-changed":
                print(await driver.put_target("small", event["target"]))
"""

TYPOS = {
    '"Always"': '"Allways"',
    'n_workers=2': 'n_workers="2"',
    '"memory": "1Gi"': '"memroy": "1Gi"',
    '"ttl": "1m"': '"ttl": 60',
    '"run_as_user": 1000': '"run_as_usr": 1000',
    '"field": "status.hostIP"': '"feild": "status.hostIP"',
    '== "ended"': '== "ende"',
    '== "OomKilled"': '== "OOMKilled"',
    'event["why"]': 'event["reson"]',
    'one["state"]': 'one["status"]',
    'event["executors"]': 'event["executers"]',
    'event["target"]': 'event["targets"]',
}


def found(program: str, tmp_path: pathlib.Path) -> str:
    file = tmp_path / "program.py"
    file.write_text(program)
    cache = pathlib.Path(__file__).parents[1] / "target/mypy"
    # Dask itself has few types.
    return mypy.run(["--strict", "--follow-imports=silent", "--cache-dir", str(cache), str(file)])[0]


def test_a_right_program_has_no_error(tmp_path):
    assert "Success" in found(PROGRAM, tmp_path)


@pytest.mark.parametrize("right", TYPOS)
def test_a_typo_is_found(right, tmp_path):
    assert PROGRAM.count(right) == 1
    wrong = PROGRAM.replace(right, TYPOS[right])
    (line,) = [number for number, line in enumerate(wrong.splitlines(), 1) if TYPOS[right] in line]
    assert f"program.py:{line}: error" in found(wrong, tmp_path)
