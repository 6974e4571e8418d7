"""Ray's own autoscalers, unmodified, with nodes that are executors of a real boatswain."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
import yaml
from conftest import free_port, processes, until

import boatswain

ray = pytest.importorskip("ray")
from ray.autoscaler.node_launch_exception import NodeLaunchException  # noqa: E402

from boatswain.ray import NodeProvider  # noqa: E402

EXAMPLE = pathlib.Path(__file__).parents[3] / "deploy/ray/autoscaler.yaml"
# Several nodes on one machine: each takes ports that are free, and has a number, by which version 1 knows it.
SHARES = ["--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0", "--object-store-memory=100000000"]
NODE = [
    *("env", "RAY_CLOUD_INSTANCE_ID=$(BOATSWAIN_EXECUTOR_ID)", "RAY_NODE_TYPE_NAME=$(BOATSWAIN_PROFILE)"),
    *("ray", "start", "--block", "--num-cpus=1", "--disable-usage-stats", *SHARES),
    '--resources={"NODE_ID_AS_RESOURCE": $(BOATSWAIN_EXECUTOR_ID)}',
]
PATH = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"


class Head:
    """Ray's head, with an autoscaler of this version."""

    def __init__(self, version, directory, driver):
        port, self.log = free_port(), directory / "head.log"
        # Its sockets' paths have to be short.
        self.files = tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True)
        self.address = f"{ray.util.get_node_ip_address()}:{port}"
        config = yaml.safe_load(EXAMPLE.read_text()) | {"idle_timeout_minutes": 0.15}
        config["provider"] |= {"server": f"http://{driver.address}", "token_file": str(driver.token_file)}
        config["provider"] |= {"ca_file": None, "use_node_id_as_ip": True}
        command = [*NODE, f"--address={self.address}", f"--temp-dir={self.files.name}/$(BOATSWAIN_EXECUTOR_ID)"]
        profile = {"command": command, "env": {"PATH": PATH, "HOME": str(directory)}}
        worker = config["available_node_types"]["worker"]
        worker |= {"resources": {"CPU": 1}, "node_config": profile}
        (directory / "ray.yaml").write_text(yaml.safe_dump(config))
        options = [f"--port={port}", "--num-cpus=0", "--include-dashboard=false"]
        options += ["--disable-usage-stats", f"--autoscaling-config={directory}/ray.yaml", f"--temp-dir={self.files.name}"]
        env = {"PATH": PATH, "HOME": str(directory), "PYTHONPATH": os.environ["PYTHONPATH"], "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
        env |= {"RAY_CLOUD_INSTANCE_ID": "head", "RAY_NODE_TYPE_NAME": "head", "RAY_enable_autoscaler_v2": str(version - 1)}
        # A raylet that is gone is missed soon; one that is slow has the usual time.
        env |= {"RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "500"}
        with self.log.open("wb") as log:
            command = ["ray", "start", "--head", "--block", *options, *SHARES]
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def runs(self):
        assert self.process.poll() is None, self.log.read_text()
        return "Running subprocesses are monitored" in self.log.read_text()

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        for log in pathlib.Path(self.files.name, "session_latest/logs").glob("monitor*"):
            shutil.copy(log, self.log.parent)
        self.files.cleanup()


@pytest.fixture(params=[1, 2])
def head(request, tmp_path, apart):
    until("the driver has a token", apart.token_file.exists)
    head = Head(request.param, tmp_path, apart)
    try:
        until("the head runs", head.runs)
        ray.init(head.address, log_to_driver=False)
        yield head
    finally:
        ray.shutdown()
        head.close()


@pytest.fixture
def driver(apart):
    with boatswain.Client(f"http://{apart.address}", token_file=apart.token_file) as driver:
        yield driver


def actors(count):
    """Each needs a node of its own."""

    # In a function, because the nodes do not find this file.
    class Where:
        def node(self):
            return ray.get_runtime_context().get_node_id()

        def raylet(self):
            return os.getppid()

    return [ray.remote(Where).options(num_cpus=1, max_restarts=-1, max_task_retries=-1).remote() for _ in range(count)]


def test_nodes_come_with_the_work_are_replaced_once_and_go(head, driver, apart):
    seen = set()

    def nodes():
        found = {one["executor"] for one in driver.executors()["executors"] if one["state"] not in ("leaving", "ended")}
        seen.update(found)
        return found

    three = actors(3)
    until("they are wanted", lambda: driver.targets()["targets"].get("worker") == 3)
    apart.restart()
    places = ray.get([one.node.remote() for one in three], timeout=90)
    assert len(set(places)) == 3
    before = nodes()
    assert len(before) == len(seen) == 3, seen

    os.kill(ray.get(three[0].raylet.remote()), signal.SIGKILL)
    until("the actor is somewhere else", lambda: ray.get(three[0].node.remote(), timeout=90) not in places)
    assert ray.get([one.node.remote() for one in three[1:]], timeout=90) == places[1:]
    assert len(nodes() & before) == 2 and len(seen) == 4, seen

    for one in three:
        ray.kill(one)
    until("idle nodes are gone", lambda: not nodes())
    assert driver.targets()["targets"]["worker"] == 0
    assert len(seen) == 4, "a node was replaced twice"
    until("no process is left", lambda: not any(processes(f"{head.files.name}/{id}") for id in seen))


# What the provider asks for, without a driver and without Ray's processes.


class Driver:
    """Has executors and targets, and answers unless it is `away`."""

    def __init__(self):
        self.living, self.wanted, self.killed, self.away = {}, {"worker": 0}, [], False

    def _answer(self, answer):
        if self.away:
            raise boatswain.Unreachable("GET http://driver: no answer")
        return answer

    def has(self, *ids, state="running"):
        self.living |= {id: {"executor": id, "profile": "worker", "state": state, "ip": f"10.0.0.{id}"} for id in ids}

    def executors(self):
        return self._answer({"executors": list(self.living.values())})

    def targets(self):
        return self._answer({"targets": self.wanted})

    def put_target(self, profile, executors):
        self._answer(None)
        if executors > 9:
            raise boatswain.BoatswainError("at most 9", 422, "invalid", "executors", "raise max_executors")
        self.wanted[profile] = executors

    def kill(self, ids, *, force, replace, by):
        assert force and not replace
        self.killed.append(ids)
        self._answer(None)
        self.wanted["worker"] -= len(ids)
        for id in ids:
            self.living[id]["state"] = "leaving"


SECTION = {"disable_node_updaters": True, "disable_launch_config_check": True, "foreground_node_launch": True}


@pytest.fixture
def provider(monkeypatch):
    monkeypatch.setenv("RAY_CLOUD_INSTANCE_ID", "head")
    monkeypatch.setenv("RAY_NODE_TYPE_NAME", "head")
    provider = NodeProvider({**SECTION, "server": "http://driver"}, "etl")
    provider._driver = Driver()
    assert provider.non_terminated_nodes({}) == ["head"]
    return provider


V1 = {"ray-user-node-type": "worker"}
V2 = V1 | {"ray-launch-request": "a"}


def seen(provider):
    return provider.non_terminated_nodes({"ray-node-type": "worker"})


def test_version_1_asks_again_for_what_it_does_not_see(provider):
    provider.create_node({}, V1, 3)
    assert seen(provider) == []
    provider.create_node({}, V1, 3)
    assert provider._driver.wanted == {"worker": 3}
    provider._driver.has(1, 2)
    assert seen(provider) == ["1", "2"]
    provider.create_node({}, V1, 1)
    assert provider._driver.wanted == {"worker": 3}


def test_version_2_asks_once(provider):
    provider.create_node({}, V2, 3)
    provider._driver.has(1, 2)
    seen(provider)
    provider.create_node({}, V2, 1)
    assert provider._driver.wanted == {"worker": 4}


@pytest.mark.parametrize("tags", [V1, V2])
def test_a_loss_is_rays_until_boatswain_has_replaced_it(provider, tags):
    provider.create_node({}, tags, 2)
    provider._driver.has(1, 2)
    assert seen(provider) == ["1", "2"]
    del provider._driver.living[1]
    assert seen(provider) == ["2"]
    assert provider._driver.wanted == {"worker": 1}
    provider.create_node({}, tags, 1)
    assert provider._driver.wanted == {"worker": 2}
    # And the other way round: a replacement that Ray finds is one of its nodes.
    provider._driver.has(3)
    del provider._driver.living[2]
    provider._driver.has(4)
    assert seen(provider) == ["3", "4"]
    assert provider._driver.wanted == {"worker": 2}


def test_what_is_launched_and_does_not_come_is_wanted_for_some_time(provider, monkeypatch):
    provider.create_node({}, V2, 2)
    seen(provider)
    assert provider._driver.wanted == {"worker": 2}
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 600)
    seen(provider)
    assert provider._driver.wanted == {"worker": 0}


def test_nodes_that_are_terminated_vanish_also_where_the_driver_is_away(provider):
    provider._driver.has(1, 2, 3)
    seen(provider)
    provider._driver.away = True
    provider.terminate_nodes(["2", "3"])
    provider._driver.away = False
    assert seen(provider) == ["1"]
    assert provider._driver.killed == [[2, 3], [2, 3]]
    assert seen(provider) == ["1"]
    assert len(provider._driver.killed) == 2


def test_nothing_is_scaled_while_the_driver_is_away(provider):
    provider._driver.has(1)
    seen(provider)
    provider._driver.away = True
    assert seen(provider) == ["1"] and not provider.safe_to_scale()
    with pytest.raises(NodeLaunchException, match="no answer"):
        provider.create_node({}, V1, 1)
    provider._driver.away = False
    assert seen(provider) == ["1"] and provider.safe_to_scale()


def test_what_boatswain_refuses_is_told_with_what_to_do(provider):
    with pytest.raises(NodeLaunchException, match="raise max_executors"):
        provider.create_node({}, V1, 10)


def test_nodes_are_known_by_their_address_and_state(provider):
    provider._driver.has(1, state="pending")
    provider._driver.has(2)
    provider._driver.has(3, state="leaving")
    provider._driver.living[1]["why"] = "no room"
    assert seen(provider) == ["1", "2"]
    assert provider.node_tags("1")["ray-node-status"] == "no room" and not provider.is_running("1")
    assert provider.is_running("2") and provider.internal_ip("2") == "10.0.0.2"
    assert provider.is_terminated("3") and not provider.is_terminated("head")


def test_a_wrong_configuration_is_told(monkeypatch):
    with pytest.raises(ValueError, match="disable_node_updaters.*has to be true"):
        NodeProvider({**SECTION, "disable_node_updaters": False}, "etl")
    monkeypatch.delenv("RAY_CLOUD_INSTANCE_ID", raising=False)
    with pytest.raises(ValueError, match="start the head with RAY_CLOUD_INSTANCE_ID"):
        NodeProvider(SECTION, "etl")
