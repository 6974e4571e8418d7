"""A driver that is killed and started again, with a cluster that outlives it."""

import random
import sys

from conftest import processes, until

import boatswain
from boatswain.dask import BoatswainCluster

KILLS = 30


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
