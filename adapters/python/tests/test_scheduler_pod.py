"""Clusters whose scheduler is an executor: real schedulers, workers and drivers."""

import os
import signal
import sys

import pytest
from conftest import free_port, processes, until
from distributed import Client

import boatswain
from boatswain.dask import BoatswainCluster


@pytest.fixture
def options(local):
    """Of a cluster in a driver that outlives it. The embedded cluster's pods share their addresses."""
    return {
        "server": local.server,
        "token_file": local.token_file,
        "scheduler_options": {"port": free_port(), "dashboard_address": f":{free_port()}"},
        "env": {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"},
    }


def test_a_cluster_outlives_its_process_and_is_found_by_its_name(local, options):
    with BoatswainCluster(name="kept", n_workers=2, scheduler="cluster", shutdown_on_close=False, **options) as cluster:
        assert cluster.scheduler is None
        cluster.wait_for_workers(2)
    with BoatswainCluster.from_name("kept", **options) as again:
        again.wait_for_workers(2)
        with Client(again) as client:
            assert client.submit(sum, [1, 2]).result() == 3
        again.scale(3)
        again.wait_for_workers(3)
    with BoatswainCluster.from_name("kept", shutdown_on_close=True, **options) as last:
        last.wait_for_workers(3)
    with boatswain.Client(local.server, token_file=local.token_file) as driver:
        until("all is gone", lambda: not driver.executors()["executors"])
        until("no profile is left", lambda: list(driver.status()["profiles"]) == ["default"])
    with pytest.raises(boatswain.BoatswainError, match="there is no cluster kept"):
        BoatswainCluster.from_name("kept", **options)


def test_a_scheduler_that_ends_closes_the_cluster_and_says_why(options):
    cluster = BoatswainCluster(name="lost", n_workers=1, scheduler="cluster", **options)
    cluster.wait_for_workers(1)
    [scheduler] = processes(f"--port {options['scheduler_options']['port']}".replace(" ", "\0"))
    os.kill(scheduler, signal.SIGKILL)
    until("it is closed", lambda: cluster.status.name == "closed")
    assert "exit 137" in cluster.get_logs(scheduler=False, workers=False)["Cluster"]


@pytest.mark.parametrize("scheduler", [None, "cluster"])
def test_a_name_may_be_used_again_as_soon_as_its_cluster_is_closed(options, scheduler):
    for _ in range(3):
        with BoatswainCluster(name="again", n_workers=1, scheduler=scheduler, **options) as cluster:
            cluster.wait_for_workers(1, timeout=60)


def test_what_is_refused_for_another_reason_is_told_at_once(options):
    with pytest.raises(boatswain.BoatswainError, match="image"):
        BoatswainCluster(name="wrong", profile={"image": "not an image"}, **options)
