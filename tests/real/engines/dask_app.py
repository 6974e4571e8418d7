"""Counts words on Dask: once undisturbed, then again and again until /tmp/stop exists.

Says on each line what came out, for run.py, and at the end which workers are lost, and why.
"""

import collections
import json
import os
import pathlib
import sys
import time

import dask.bag
from boatswain.dask import BoatswainCluster
from distributed.diagnostics.plugin import SchedulerPlugin

TEXT = ["the quick brown fox", "jumps over the lazy dog"] * 500
WORKERS = 4


class Losses(SchedulerPlugin):
    """The scheduler's own record of it."""

    def __init__(self):
        self.names, self.lost = {}, []

    def add_worker(self, scheduler, worker):
        self.names[worker] = str(scheduler.workers[worker].name)

    def remove_worker(self, scheduler, worker, **_):
        self.lost.append(self.names[worker])


def count():
    def of(line):
        time.sleep(0.01)
        return line.split()

    lines = dask.bag.from_sequence(TEXT, npartitions=48)
    return sorted(lines.map(of).flatten().frequencies().compute())


def main():
    server, token, authority = sys.argv[1:]
    with BoatswainCluster(
        server,
        token_file=token,
        ca_file=authority,
        n_workers=WORKERS,
        profile={"image": "localhost/engines:1", "cpu": "100m", "memory": "256Mi", "memory_limit": "512Mi"},
        worker_options=["--memory-limit", "0", "--no-dashboard"],
        scheduler_options={"host": os.environ["POD_IP"], "dashboard_address": None},
    ) as cluster, cluster.get_client() as client:
        losses = Losses()
        cluster.scheduler.add_plugin(losses)
        # A task is given up after four losses of its worker; more can meet one task here.
        cluster.scheduler.allowed_failures = 100
        cluster.wait_for_workers(WORKERS)
        # Whatever it may be told of its workers, it wants them all.
        cluster.adapt(minimum=WORKERS, maximum=WORKERS, interval="200ms")
        undisturbed = count()
        print("undisturbed", json.dumps(undisturbed), flush=True)
        while not pathlib.Path("/tmp/stop").exists():
            print("equal" if count() == undisturbed else "DIFFERENT", flush=True)
            print("here", json.dumps([name.rsplit("-", 1)[1] for name in cluster.observed]), flush=True)
        told = (line.split(" ended: ", 1) for line in cluster.get_logs()["Cluster"].splitlines() if " ended: " in line)
        why = {name.split()[-1]: reason for name, reason in told}
        print("lost", json.dumps({name.rsplit("-", 1)[1]: why.get(name, "nobody said why") for name in losses.lost}), flush=True)


main()
