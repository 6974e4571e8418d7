#!/usr/bin/env python3
"""Drivers whose executors wait for quota, with a real Kueue that is throttled, stopped, killed and removed under them.

    run.py [SCENARIO…] [--long] --chart Kueue's [--jar adapters/spark's] --out FOLDER

`tests/real/run kueue` starts it in a cluster that has the images. The executors are KWOK's but for those that are drained.
A watch sees each change of pods and Workloads: at none of them may there be more pods than quota, and no pod may be
created without a place in an admitted block. FOLDER has for each scenario a transcript, a picture of pods over time, and
what `kubectl describe` and `events` show. With --long Kueue stays away for a minute instead of 15 s. `elastic-spark`, which
takes about ten minutes, runs by name only.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import sys
import time
import traceback

import spark
from world import ROOT, Kueue, Scenario, resource, run, say

SCENARIOS = {}
ALONE = []
BY_NAME = []


def scenario(title, limit, alone=False, by_name=False):
    """Adds one. Those that do something to Kueue itself run alone, after the others. Some run only by their names."""

    def add(function):
        name = function.__name__.replace("_", "-")
        SCENARIOS[name] = (title, limit, function)
        if alone:
            ALONE.append(name)
        if by_name:
            BY_NAME.append(name)
        return function

    return add


@scenario("Quota 30, demand 100", 30)
def quota(here, of):
    here.flavor()
    driver = here.driver("etl", "team", 100)
    driver.says("it says that there is no queue", "LocalQueue team doesn't exist")
    here.do("the queue is made: 30 CPUs")
    here.queue("team", 30)
    here.run_(etl=30)
    driver.logs("wait for their queue")
    driver.says("it says that it waits", "insufficient quota for cpu")
    counts = [one["status"]["admission"]["podSetAssignments"][0]["count"] for one in here.watch.workloads("etl")[:-1]]
    assert sum(counts) == 30, counts
    driver.scale(20)
    here.run_(etl=20)
    here.until("the rest is given back", lambda: reserved(here, "team") == "20")
    driver.scale(100)
    here.run_(etl=30)
    time.sleep(5)  # the record has it by then (O-30)
    here.do("kill -9 of etl")
    driver.kill()
    driver.start()
    driver.logs("executors adopted")
    here.stays(8, etl=30)
    here.watch.limits.append((time.time(), 40))
    here.do("the quota is raised to 40")
    here.apply(here.cluster_queue("team", 40))
    here.run_(etl=40)
    driver.scale(5)
    here.run_(etl=5)
    here.until("the rest is given back", lambda: reserved(here, "team") == "5")


def reserved(here, queue):
    """How many CPUs Kueue has given away of a ClusterQueue."""
    found = json.loads(run("kubectl", "get", "clusterqueue", f"{here.name}-{queue}", "-o", "json"))
    return found["status"]["flavorsReservation"][0]["resources"][0]["total"]


@scenario("Two drivers in one queue of 30; the second has a higher priority", 30)
def priority(here, of):
    here.flavor()
    here.queue("team", 30, withinClusterQueue="LowerPriority")
    low = here.driver("low", "team", 30, ["scheduling.queue_priority=10"])
    here.run_(low=30)
    high = here.driver("high", "team", 20, ["scheduling.queue_priority=100"])
    here.run_(high=20, low=10)
    here.until("30 ends are logged", lambda: len(low.ends("Preempted")) == 30)
    assert not any(end["failure"] for end in low.ends("Preempted"))
    low.logs("executor ended")
    low.says("it waits for the rest", "queued")
    here.stays(10, low=10, high=20)
    high.scale(0)
    here.run_(low=30, high=0)
    assert not high.ends("Preempted")


@scenario("Two queues of 15 that borrow from each other", 30)
def cohort(here, of):
    here.flavor()
    for queue in ("a", "b"):
        here.queue(queue, 15, cohort="both", reclaimWithinCohort="Any")
    first = here.driver("first", "a", 30)
    here.run_(first=30)
    here.tell("it has borrowed 15")
    second = here.driver("second", "b", 15)
    here.run_(first=15, second=15)
    assert first.ends("Preempted") and not second.ends("Preempted")
    first.logs("executor ended")
    second.scale(5)
    here.run_(first=25, second=5)
    here.stays(5, first=25, second=5)


@scenario("A queue is stopped; the executors have registered, and are drained", 4)
def stopped(here, of):
    here.flavor(fake=False)
    here.queue("team", 1)
    driver = here.driver("etl", "team", 4, real=True)
    here.run_(etl=4)
    driver.logs("executor registered", count=4)
    queue = f"clusterqueue/{here.name}-team"
    stop(here, queue, "HoldAndDrain")
    here.run_(etl=0)
    driver.logs("executor ended", count=4)
    equal({(end["reason"], end["failure"], end.get("exit_code")) for end in driver.lines("executor ended")}, {("Preempted", False, 0)})
    driver.says("it says that the queue is stopped", "stopped")
    start(here, queue)
    here.run_(etl=4)
    name = here.watch.workloads("etl")[0]["metadata"]["name"]
    here.do("its Workload is deleted", "kubectl", "-n", here.space.name, "delete", "workload", name)
    driver.logs("executor ended", count=8)
    here.run_(etl=4)
    stop(here, "localqueue/team", "Hold")
    driver.scale(6)
    driver.says("it says that the queue is held", "inactive")
    here.stays(3, etl=4)
    here.watch.limits.append((time.time(), 6))
    start(here, "localqueue/team")
    here.run_(etl=6)


def stop(here, queue, how):
    patch(here, f"{queue.split('/')[0]} is stopped: {how}", queue, {"stopPolicy": how})


def start(here, queue):
    patch(here, f"{queue.split('/')[0]} is started", queue, {"stopPolicy": "None"})


def patch(here, words, what, spec):
    command = ("kubectl", "-n", here.space.name, "patch", what, "--type=merge", "-p", json.dumps({"spec": spec}))
    here.do(words)
    # An API server may say for a moment that it does not know a kind that is defined by others.
    here.until(" ".join(command), lambda: "patched" in run(*command, fails=True), 20)


def equal(found, wanted):
    assert found == wanted, f"{found} instead of {wanted}"


@scenario("A Workload is deactivated and activated again", 30)
def deactivated(here, of):
    here.flavor()
    here.queue("team", 30)
    first = here.driver("first", "team", 20)
    here.run_(first=20)
    workload = "workload/" + here.watch.workloads("first")[0]["metadata"]["name"]
    second = here.driver("second", "team", 20)
    here.run_(first=20, second=10)
    # Kueue gives the quota of a deactivated Workload away at once; both have pods until the first's have gone.
    here.watch.limits.append((time.time(), 50))
    patch(here, "first's Workload is deactivated", workload, {"active": False})
    here.run_(first=0, second=20)
    here.watch.limits.append((time.time(), 30))
    here.until("20 ends are logged", lambda: len(first.ends("Preempted")) == 20)
    first.says("it says so", "is deactivated")
    here.stays(8, first=0, second=20)
    equal(len(here.watch.workloads("first")), 1)
    patch(here, "it is activated", workload, {"active": True})
    here.run_(first=10, second=20)
    second.scale(0)
    here.run_(first=20, second=0)


@scenario("A LocalQueue called default: Kueue queues each pod in it once more", 6)
def default_queue(here, of):
    here.flavor()
    here.queue("team", 6)
    here.apply(resource("LocalQueue", "default", {"clusterQueue": f"{here.name}-team"}, here.space.name))
    driver = here.driver("etl", "team", 4)
    here.until("two run", lambda: here.watch.running("etl") == 2)
    driver.logs("they need their quota twice")
    driver.says("it says what holds the others", "2 waiting: held by a scheduling gate: kueue.x-k8s.io/admission")
    here.do("that LocalQueue is removed", "kubectl", "-n", here.space.name, "delete", "localqueue", "default")
    names = [pod["metadata"]["name"] for pod in here.watch.pods("etl")]
    here.do("and the pods that are queued twice", "kubectl", "-n", here.space.name, "delete", "pod", *names)
    here.run_(etl=4)


@scenario("Kueue's controller is killed, and then away", 30, alone=True)
def killed(here, of):
    here.flavor()
    here.queue("team", 30)
    driver = here.driver("etl", "team", 30)
    here.run_(etl=30)
    here.do("kill -9 of Kueue's controller")
    of.kueue.kill()
    here.stays(5, etl=30)
    of.kueue.ready()
    here.tell("Kueue answers")
    here.do(f"Kueue is scaled to 0 for {of.away} s")
    of.kueue.scale(0)
    here.until("no controller is left", lambda: not of.kueue.pods())
    since = time.monotonic()
    victim = here.watch.pods("etl")[0]["metadata"]["name"]
    here.do("a pod is deleted meanwhile", "kubectl", "-n", here.space.name, "delete", "pod", victim, "--wait=false")
    driver.says("it says why there is no other one", 'failed calling webhook "mpod.kb.io"')
    driver.scale(40)
    driver.says("it says why it cannot queue for more", 'workload.kb.io"')
    here.stays(max(1, of.away - (time.monotonic() - since)), etl=29)
    here.do("Kueue is scaled to 1")
    of.kueue.scale(1)
    of.kueue.ready()
    here.run_(etl=30)
    driver.says("it waits for the rest", "insufficient")
    here.stays(3, etl=30)
    driver.scale(20)
    here.run_(etl=20)


@scenario("Kueue is removed with all that it has, and installed again", 30, alone=True)
def removed(here, of):
    here.flavor()
    here.queue("team", 30)
    driver = here.driver("etl", "team", 25)
    here.run_(etl=25)
    here.do("Kueue is removed")
    of.kueue.uninstall()
    driver.logs("the queue cannot be used")
    late = here.driver("late", "team", 5)
    late.says("it says what to do", "install Kueue")
    # Either it saw the Workloads go first, or that nobody serves them any more.
    left = len(here.watch.pods("etl"))
    assert left in (0, 25), left
    here.stays(5, etl=left, late=0)
    here.do("Kueue is installed again")
    of.kueue.install()
    here.flavor()
    here.queue("team", 30)
    here.run_(etl=25, late=5)
    for one in (driver, late):
        one.logs("recovered: the queue can be used")
    here.until("25 ends are logged", lambda: len(driver.ends("Preempted")) == 25)
    here.stays(3, etl=25, late=5)


@scenario("Two Spark applications with dynamic allocation in one queue of 30", 30, by_name=True)
def elastic_spark(here, of):
    here.flavor(fake=False)
    here.queue("team", 3, withinClusterQueue="LowerPriority")
    batch = spark.Application(here, of, "batch", 40, priority=10)
    here.run_(900, batch=30)
    batch.boatswain.says("it waits for the rest", "queued")
    urgent = spark.Application(here, of, "urgent", 12, priority=100)
    here.run_(900, urgent=12, batch=18)
    here.look()
    urgent.finish()
    here.run_(900, batch=30)
    batch.finish()
    ends = [end["reason"] for one in (batch, urgent) for end in one.boatswain.lines("executor ended")]
    here.tell(f"ends: {collections.Counter(ends)}")
    assert not urgent.boatswain.ends("Preempted") and len(batch.boatswain.ends("Preempted")) >= 12


def play(name, of):
    """Whether it passed."""
    title, limit, function = SCENARIOS[name]
    began = time.monotonic()
    here = Scenario(name, title, limit, of.out)
    try:
        function(here, of)
        here.finish()
    except Exception as error:  # the others go on
        here.close(error)
        traceback.print_exc()
        return False
    here.close()
    here.space.delete()
    say(f"{name}: passed in {time.monotonic() - began:.0f} s")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", default=[name for name in SCENARIOS if name not in BY_NAME], help="of these")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--chart", type=pathlib.Path, required=True)
    parser.add_argument("--jar", type=pathlib.Path, help="adapters/spark's, for elastic-spark")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    of = parser.parse_args()
    of.out, of.away = of.out.resolve(), 60 if of.long else 15
    of.kueue = Kueue(of.chart)
    if not of.kueue.answers():
        of.kueue.install()
    together = [name for name in of.scenarios if name not in ALONE]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        passed = dict(zip(together, pool.map(lambda name: play(name, of), together)))
    passed |= {name: play(name, of) for name in of.scenarios if name in ALONE}
    failed = [name for name, well in passed.items() if not well]
    say(f"the transcripts and pictures are in {of.out}")
    return f"failed: {' '.join(failed)}" if failed else 0


if __name__ == "__main__":
    sys.exit(main())
