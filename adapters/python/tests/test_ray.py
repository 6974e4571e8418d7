"""Ray's own autoscalers, unmodified, with nodes that are executors of a real boatswain."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest
import yaml
from conftest import free_port, processes, until

import boatswain

ray = pytest.importorskip("ray")
EXAMPLE = pathlib.Path(__file__).parents[3] / "deploy/ray/autoscaler.yaml"
# Several nodes on one machine: each takes ports that are free, and has a number, by which version 1 knows it.
SHARES = ["--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0", "--object-store-memory=100000000"]
NODE = (
    "RAY_CLOUD_INSTANCE_ID=$BOATSWAIN_EXECUTOR_ID RAY_NODE_TYPE_NAME=$BOATSWAIN_PROFILE exec ray start --block --num-cpus=1 "
    '--disable-usage-stats --resources="{\\"NODE_ID_AS_RESOURCE\\": $BOATSWAIN_EXECUTOR_ID}" '
)
PATH = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"


class Head:
    """Ray's head, with an autoscaler of this version, and a node at least."""

    def __init__(self, version, directory, driver):
        port, self.log = free_port(), directory / "head.log"
        # Its sockets' paths have to be short.
        self.files = tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True)
        self.address = f"{ray.util.get_node_ip_address()}:{port}"
        config = yaml.safe_load(EXAMPLE.read_text()) | {"idle_timeout_minutes": 0.1}
        config["provider"] |= {"server": f"http://{driver.address}", "token_file": str(driver.token_file)}
        config["provider"] |= {"ca_file": None, "use_node_id_as_ip": True}
        command = ["sh", "-c", NODE + " ".join([f"--address={self.address}", f"--temp-dir={self.files.name}/$BOATSWAIN_EXECUTOR_ID", *SHARES])]
        profile = {"command": command, "env": {"PATH": PATH, "HOME": str(directory)}}
        config["available_node_types"]["worker"] |= {"resources": {"CPU": 1}, "min_workers": 1, "node_config": profile}
        (directory / "ray.yaml").write_text(yaml.safe_dump(config))
        options = [f"--port={port}", f"--ray-client-server-port={free_port()}", "--num-cpus=0", "--include-dashboard=false"]
        options += ["--disable-usage-stats", f"--autoscaling-config={directory}/ray.yaml", f"--temp-dir={self.files.name}"]
        env = {"PATH": PATH, "HOME": str(directory), "PYTHONPATH": os.environ["PYTHONPATH"], "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
        env |= {"RAY_CLOUD_INSTANCE_ID": "head", "RAY_NODE_TYPE_NAME": "head", "RAY_enable_autoscaler_v2": str(version - 1)}
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

    class Where:
        def where(self):
            return ray.get_runtime_context().get_node_id(), os.getppid()

    return [ray.remote(Where).options(num_cpus=1, max_restarts=-1, max_task_retries=-1).remote() for _ in range(count)]


def test_nodes_come_with_the_work_are_replaced_once_and_go(head, driver, apart):
    seen = set()

    def nodes():
        found = {one["executor"] for one in driver.executors()["executors"] if one["state"] not in ("leaving", "ended")}
        seen.update(found)
        return found

    until("the first node is launched", lambda: len(nodes()) == 1)
    three = actors(3)
    until("the others are wanted", lambda: driver.targets()["targets"]["worker"] == 3)
    apart.restart()
    places = ray.get([one.where.remote() for one in three], timeout=90)
    assert len(dict(places)) == 3
    before = nodes()
    assert len(before) == len(seen) == 3, seen

    os.kill(places[0][1], signal.SIGKILL)
    until("the actor is somewhere else", lambda: ray.get(three[0].where.remote(), timeout=90) != places[0])
    assert ray.get([one.where.remote() for one in three[1:]], timeout=90) == places[1:]
    until("Ray knows of the loss", lambda: sum(not one["Alive"] for one in ray.nodes()) == 1)
    assert len(nodes() & before) == 2 and len(seen) == 4, seen

    for one in three:
        ray.kill(one)
    until("idle nodes are gone", lambda: len(nodes()) == 1)
    until("nobody wants them", lambda: driver.targets()["targets"]["worker"] == 1)
    assert len(seen) == 4, "a node was replaced twice"
    head.close()
    driver.put_target("worker", 0)
    driver.kill(sorted(nodes()), force=True)
    until("nothing is left", lambda: not processes(head.address))
