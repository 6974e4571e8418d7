"""Dask clusters: real schedulers, workers and drivers."""

import asyncio
import os
import random
import subprocess
import sys
import threading
import time

import dask.array as da
import dask.bag as db
import pytest
from conftest import kill_one, processes, until
from distributed import Client

import boatswain
from boatswain.dask import BoatswainCluster

SEED = 20260101


def part_of(cluster):
    """What only the command lines of this cluster's workers have."""
    return cluster._profile + "-"


@pytest.fixture
def cluster():
    with BoatswainCluster(n_workers=2) as cluster:
        yield cluster
        part = part_of(cluster)
    assert not processes(part), "workers were left behind"


def test_workers_are_scaled_up_and_down(cluster):
    cluster.wait_for_workers(2)
    cluster.scale(4)
    cluster.wait_for_workers(4)
    assert len(cluster.plan) == 4
    cluster.scale(1)
    until("one is left", lambda: len(cluster.observed) == 1)
    until("one process is left", lambda: len(processes(part_of(cluster))) == 1)
    assert "Workers: 1<" in cluster._scaling_status()
    assert "BoatswainCluster" in repr(cluster)


def test_what_a_worker_holds_moves_before_it_goes(cluster, caplog):
    caplog.set_level("INFO")
    with cluster.get_client() as client:
        cluster.wait_for_workers(2)
        held = client.scatter(list(range(200)))
        victim = sorted(cluster.observed)[0]
        cluster.scale_down([victim])
        until("it is gone", lambda: victim not in cluster.observed)
        # Nothing was computed, so nothing could be computed again.
        assert sum(client.gather(held)) == sum(range(200))
        # The scheduler's own log.
        moved, retired, removed = ("keys are being moved away", "Retired worker", "Remove worker")
        assert caplog.text.index(moved) < caplog.text.index(retired) < caplog.text.index(removed)
    assert "executor" in cluster.get_logs()["boatswain"]


def test_a_worker_that_is_lost_is_replaced(cluster):
    cluster.wait_for_workers(2)
    before = cluster.observed
    kill_one(part_of(cluster), random.Random(SEED))
    until("another one joined", lambda: len(cluster.observed) == 2 and cluster.observed != before)
    until("its end is told", lambda: "exit 137" in cluster.get_logs()["Cluster"])


def test_an_operators_decommission_moves_the_data_too(cluster):
    with cluster.get_client() as client:
        cluster.wait_for_workers(2)
        held = client.scatter(list(range(200)))
        victim = sorted(cluster.observed)[0]
        id = int(victim.rsplit("-", 1)[1])
        local = cluster._local
        with boatswain.Client(local.server, token_file=local.token_file) as operator:
            operator.decommission([id], replace=True, by="operator")
        until("it is gone", lambda: victim not in cluster.observed)
        assert sum(client.gather(held)) == sum(range(200))
        cluster.wait_for_workers(2)


@pytest.mark.parametrize("kind", ["array", "bag"])
def test_adaptive_jobs_are_right_while_workers_are_killed(cluster, kind):
    rng = random.Random(SEED)
    print("seed", SEED)
    done = threading.Event()

    def killer():
        while not done.wait(2 + 2 * rng.random()):
            kill_one(part_of(cluster), rng)

    # A task is given up after four losses of its worker; so many can meet one task here.
    with cluster.get_client() as client:
        client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 100))
        cluster.adapt(minimum=1, maximum=12, interval="200ms", target_duration="500ms")
        thread = threading.Thread(target=killer)
        thread.start()
        try:
            if kind == "array":
                x = da.arange(2_000_000, chunks=50_000)
                slow = x.map_blocks(lambda block: (time.sleep(0.3), block)[1], dtype=x.dtype)
                assert slow.sum().compute() == sum(range(2_000_000))
            else:
                bag = db.from_sequence(range(200), npartitions=40)
                squares = bag.map(lambda number: (time.sleep(0.05), number * number)[1])
                assert squares.sum().compute() == sum(number * number for number in range(200))
        finally:
            done.set()
            thread.join()
        until("idle workers are retired", lambda: len(cluster.observed) <= 1, 90)


def test_a_driver_that_runs_already_and_an_event_loop_of_ones_own(local):
    async def run():
        options = {"host": "127.0.0.1"}
        async with BoatswainCluster(
            local.server,
            token_file=local.token_file,
            profile={"command": [sys.executable, "-m", "dask", "worker"], "env": {"GREETING": "hello"}},
            scheduler_options=options,
            n_workers=1,
            asynchronous=True,
        ) as cluster:
            async with Client(cluster, asynchronous=True) as client:
                greeting = client.submit(lambda: os.environ["GREETING"])
                assert await greeting == "hello"

    asyncio.run(run())
    with boatswain.Client(local.server, token_file=local.token_file) as driver:
        until("no worker is left", lambda: driver.executors()["executors"] == [])
        until("its profile is removed", lambda: not [name for name in driver.status()["profiles"] if name.startswith("dask-")])


def test_workers_that_fail_too_often_end_their_own_cluster_only(local):
    """Two clusters share a driver, and the workers of one have a wrong path."""
    shared = {"token_file": local.token_file, "n_workers": 1, "scheduler_options": {"host": "127.0.0.1"}}
    right, wrong = [sys.executable, "-m", "dask", "worker"], ["/opt/nojava/bin/java"]
    with (
        BoatswainCluster(local.server, profile={"command": right}, **shared) as healthy,
        BoatswainCluster(local.server, profile={"command": wrong}, **shared) as failing,
    ):
        with failing.get_client() as client:
            with pytest.raises(RuntimeError, match="they fail too often: .*failed to start"):
                client.submit(sum, [1, 2]).result(timeout=120)
            with pytest.raises(boatswain.BoatswainError, match="has failed"):
                failing.scale(2)
        with healthy.get_client() as client:
            assert client.submit(sum, [1, 2]).result(timeout=60) == 3


def test_a_program_for_kubecluster_needs_another_class_and_image_only(local, monkeypatch):
    """As its documentation has it: groups, scaling by name, logs, adaptivity by position, the end by `close`."""
    from boatswain.dask import BoatswainCluster as KubeCluster

    monkeypatch.setenv("BOATSWAIN_SERVER", local.server)
    monkeypatch.setenv("BOATSWAIN_TOKEN_FILE", str(local.token_file))
    cluster = KubeCluster(
        name="foo",
        image="mine:1",
        n_workers=1,
        env={"GREETING": "hello"},
        resources={"requests": {"memory": "64Mi"}, "limits": {"memory": "1Gi"}},
        # This machine's Python is no image's.
        worker_command=[sys.executable, "-m", "dask", "worker"],
    )
    client = Client(cluster)
    assert client.submit(os.getenv, "GREETING").result(timeout=60) == "hello"
    cluster.scale(2)
    cluster.add_worker_group(name="highmem", n_workers=2, resources={"limits": {"memory": "2Gi"}})
    cluster.wait_for_workers(4)
    with boatswain.Client() as driver:
        profiles = driver.status()["profiles"]
        assert (profiles["dask-foo"]["running"], profiles["dask-foo--highmem"]["running"]) == (2, 2)
        held = client.scatter(list(range(100)))
        cluster.scale(3, worker_group="highmem")
        cluster.wait_for_workers(5)
        cluster.scale(1)
        until("the default group has one", lambda: driver.status()["profiles"]["dask-foo"]["running"] == 1)
        assert driver.targets()["targets"]["dask-foo--highmem"] == 3
        cluster.delete_worker_group(name="highmem")
        until("the group is gone", lambda: "dask-foo--highmem" not in driver.status()["profiles"])
        assert sum(client.gather(held)) == sum(range(100)) and len(cluster.workers) == 1
        cluster.adapt(2, 3)
        cluster.wait_for_workers(2)
        assert "Scheduler" in cluster.get_logs()
        client.close()
        cluster.close()
        until("nothing is left", lambda: list(driver.status()["profiles"]) == ["default"])


def test_adapting_leaves_other_groups_alone(cluster):
    cluster.add_worker_group("fixed", 2)
    with cluster.get_client() as client:
        cluster.wait_for_workers(4)
        cluster.adapt(0, 4, interval="200ms", wait_count=2)
        until("only the fixed ones are left", lambda: cluster.observed == cluster.workers and not cluster.plan)
        assert len(cluster.observed) == 2
        fixed = sorted(cluster.observed)
        assert client.submit(sum, [1, 2], workers=fixed[:1]).result(timeout=60) == 3


def test_a_scheduler_without_work_ends_with_its_workers(local):
    options = {"token_file": local.token_file, "scheduler_options": {"host": "127.0.0.1"}}
    command = [sys.executable, "-m", "dask", "worker"]
    with (
        BoatswainCluster(local.server, n_workers=1, worker_command=command, idle_timeout=5, **options) as cluster,
        boatswain.Client(local.server, token_file=local.token_file) as driver,
    ):
        cluster.wait_for_workers(1)
        until("the scheduler has ended", lambda: cluster.scheduler.status.name == "closed")
        until("its profile is removed", lambda: list(driver.status()["profiles"]) == ["default"])
        # A worker that had exited by itself would have been replaced.
        assert [loss["reason"] for loss in driver.status()["losses"]] == ["Killed"]
        with pytest.raises(ValueError, match="the cluster has ended"):
            cluster.scale(1)


@pytest.mark.parametrize("quiet", [True, False])
def test_a_quiet_cluster_prints_nothing(local, quiet):
    script = f"""
from boatswain.dask import BoatswainCluster
with BoatswainCluster({local.server!r}, token_file={str(local.token_file)!r}, profile={{"command": ["a"]}}, quiet={quiet}):
    pass
"""
    ran = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    assert (ran.stdout == "") == quiet, ran.stdout
    assert ("waits for workers" in ran.stdout, "distributed.scheduler - INFO" in ran.stdout) == (not quiet, not quiet)


def test_a_cluster_closes_while_its_driver_is_away_and_says_what_may_stay(local, capsys):
    options = {"token_file": local.token_file, "scheduler_options": {"host": "127.0.0.1"}, "quiet": False}
    with BoatswainCluster(local.server, n_workers=0, profile={"command": ["a"]}, **options) as cluster:
        local._process.kill()
        local._process.wait()
        # Instead of ANSWER.
        cluster._driver._timeout = 1.0
    assert cluster.status.name == "closed"
    assert f"{cluster._profile}: workers may stay until their --death-timeout: " in capsys.readouterr().out


def test_a_cluster_that_was_taken_for_gone_gets_its_workers_again(local):
    options = {"token_file": local.token_file, "n_workers": 1, "scheduler_options": {"host": "127.0.0.1"}}
    command = {"command": [sys.executable, "-m", "dask", "worker"]}
    with (
        BoatswainCluster(local.server, profile=command, **options) as cluster,
        boatswain.Client(local.server, token_file=local.token_file) as driver,
    ):
        cluster.wait_for_workers(1)
        before = cluster.observed
        # As boatswain does when it has heard nothing of the cluster for the profile's ttl.
        driver.delete_profile(cluster._profile)
        until("another one joined", lambda: cluster.observed and cluster.observed != before, 60)
