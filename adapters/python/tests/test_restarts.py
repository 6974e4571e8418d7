"""A driver that is killed and started again, with a cluster that outlives it."""

import os
import pathlib
import random
import socket
import subprocess
import sys

import pytest
from conftest import processes, until

import boatswain
from boatswain.dask import BoatswainCluster

KILLS = 30


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Apart:
    """A driver on a cluster of its own."""

    def __init__(self, directory):
        self.directory, port = directory, free_port()
        self.address, self.token_file = f"127.0.0.1:{free_port()}", directory / "token"
        settings = [
            'profiles.default = { executors = 0, command = ["/bin/true"] }',
            f'cluster.kubeconfig = "{directory}/kubeconfig"',
            f'api = {{ listen = "{self.address}", token_file = "{self.token_file}" }}',
        ]
        (directory / "boatswain.toml").write_text("\n".join(settings) + "\n")
        options = ["--token-file", f"{directory}/cluster-token", "--kubeconfig", f"{directory}/kubeconfig"]
        options += ["--state-dir", f"{directory}/state"]
        self.cluster = self._start("dev-cluster", "--listen", f"127.0.0.1:{port}", *options)
        until("the cluster is there", (directory / "kubeconfig").exists)
        self.driver = self._run()

    def _start(self, *arguments):
        with (self.directory / f"{arguments[0]}.log").open("ab") as log:
            return subprocess.Popen([os.environ["BOATSWAIN"], *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _run(self):
        return self._start("run", "--config", str(self.directory / "boatswain.toml"))

    def restart(self):
        self.driver.kill()
        self.driver.wait()
        self.driver = self._run()

    def close(self):
        for process in (self.driver, self.cluster):
            process.terminate()
            process.wait(60)


@pytest.fixture
def apart(tmp_path: pathlib.Path):
    driver = Apart(tmp_path)
    yield driver
    driver.close()


def test_no_worker_is_given_up_however_often_the_driver_is_killed(apart):
    rng = random.Random(20260101)
    until("the driver has a token", apart.token_file.exists)
    options = {
        "token_file": apart.token_file,
        "profile": {"command": [sys.executable, "-m", "dask", "worker"]},
        "scheduler_options": {"host": "127.0.0.1"},
    }
    with BoatswainCluster(f"http://{apart.address}", n_workers=4, **options) as cluster:
        cluster.wait_for_workers(4)
        before, part = cluster.plan, cluster._profile + "-"
        pids = sorted(processes(part))
        with cluster.get_client() as client, boatswain.Client(cluster._server, token_file=apart.token_file) as driver:
            for incarnation in range(2, KILLS + 2):
                apart.restart()
                assert client.submit(sum, range(incarnation)).result(60) == sum(range(incarnation))
                until("it answers", lambda: driver.status()["incarnation"] == incarnation)
                # The adapter, which has waited for longer and longer, connects at any moment.
                until("some time has passed", lambda: rng.random() < 0.3)
                assert cluster.plan == before
            until("the events are followed again", lambda: cluster.plan == before)
        assert sorted(processes(part)) == pids, "a worker was replaced"
        assert "ended" not in str(cluster.get_logs()["Cluster"])
