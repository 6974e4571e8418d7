"""A Spark job whose Python workers outgrow their executors: without and with `memory_in_place`."""

import json

import boatswain
from cluster import equal, say, until

EXECUTORS = 2
MEMORY = str(640 << 20)
GROWS = {"memory_max": "2Gi", "memory_in_place": True}


def configuration(caller):
    config = boatswain.configuration(caller, registration="required")
    # What a worker grows by between two of them has to be less than a tenth of its executor's memory.
    config["backend"]["heartbeat_interval"] = "1s"
    # The chart gives the right to resize pods where a profile of the configuration wants it.
    config["profiles"]["default"] |= GROWS | {"memory_limit": "1Gi"}
    return config


def ends(space):
    log = space.show("boatswain-log", "logs", boatswain.DEPLOYMENT)
    return [json.loads(line) for line in log.splitlines() if '"executor ended"' in line]


def over(space):
    phase = space.pod("engine")["status"].get("phase")
    return phase if phase in ("Succeeded", "Failed") else None


def limits(space):
    """Of the executors, by their specs."""
    found = space.pods("boatswain.dev/role=executor")
    return sorted(pod["spec"]["containers"][0]["resources"]["limits"]["memory"] for pod in found)


def job(space, start, profile):
    """How the application ends, and what limits its executors had meanwhile."""
    boatswain.install(space, configuration(f"{space.name}/engine"))
    start(profile)
    seen = []

    def watched():
        now = limits(space)
        if now and (not seen or seen[-1] != now):
            seen.append(now)
            say("memory limits:", *now)
        return over(space)

    phase = until("the job is over", watched, 900)
    space.show("engine-log", "logs", "engine")
    return phase, seen


def scenario(space, start):
    """`start(profile)` starts the application with these keys of its executors' profile."""
    try:
        phase, seen = job(space, start, {})
        equal(phase, "Failed", "without growth, the job:")
        assert all(limit == MEMORY for now in seen for limit in now), seen
        phase, seen = job(space, start, GROWS)
        equal(phase, "Succeeded", "with memory_in_place, the job:")
        assert any(limit != MEMORY for now in seen for limit in now), seen
        lost = [end for end in ends(space) if end["reason"] in ("OomKilled", "Exited")]
        equal(lost, [], "executors that ended meanwhile:")
    finally:
        ends(space)
        space.show("pods", "get", "pods", "-o", "wide")
