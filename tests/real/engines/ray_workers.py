"""Ray's autoscalers, with nodes in containers, while nodes are killed (--kills) and boatswain is (--restarts).

The head is in the pod `engine`, from the image that `tests/real/images/build` makes of Ray's wheels. It runs ray_app.py,
which needs one node, then four, and then one again.
"""

import time

import boatswain
from cluster import equal, kill, say, until

IMAGE = "localhost/ray:1"
WANTED = 4
LITTLE = ["--min-worker-port=10002", "--max-worker-port=10100", "--object-store-memory=100000000", "--disable-usage-stats"]


def configuration(space):
    """As adapters/python/README.md has it."""
    config = boatswain.configuration(f"{space.name}/engine")
    # Ray drains a node on SIGTERM.
    del config["agent"]["decommission_command"]
    node = [
        *("env", "RAY_CLOUD_INSTANCE_ID=$(BOATSWAIN_EXECUTOR_ID)", "RAY_NODE_TYPE_NAME=$(BOATSWAIN_PROFILE)"),
        *("ray", "start", "--block", f"--address=engine.{space.name}.svc:6379", "--node-ip-address=$(BOATSWAIN_POD_IP)"),
        *("--num-cpus=1", *LITTLE),
    ]
    config["profiles"]["worker"] = {
        "executors": 0,
        "image": IMAGE,
        "command": node,
        "cpu": "100m",
        "memory": "512Mi",
        "memory_limit": "1536Mi",
        "termination_grace": "45s",
    }
    return config


def environment(version):
    """Of the head, and of its autoscaler."""
    return {
        "RAY_CLOUD_INSTANCE_ID": "head",
        "RAY_NODE_TYPE_NAME": "head",
        "RAY_enable_autoscaler_v2": str(version - 1),
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        # Nodes that start together on few cores take their time.
        "AUTOSCALER_HEARTBEAT_TIMEOUT_S": "120",
    }


def command(space):
    """Of the head's pod: the application fills in the configuration, and starts the head."""
    return ["python3", "/application/ray_app.py", f"https://etl-driver.{space.name}.svc:7117", *LITTLE]


def nodes(space, count):
    """The executors, once so many run and no others are there."""
    found = space.executors()
    return found if len(found) == count == len(space.pods("boatswain.dev/role=executor")) else None


def scenario(space, rng, of, results):
    """`results` counts what the application has said."""
    until("the undisturbed run is over", lambda: results(space) >= 0, 300)
    started = set(until("all nodes run", lambda: nodes(space, WANTED)))
    for _ in range(of.kills):
        before = until("all nodes run", lambda: nodes(space, WANTED))
        time.sleep(rng.random())
        victim = rng.choice(sorted(before))
        kill(space.pod(victim))
        say("killed", victim)
        until("it is gone", lambda: victim not in space.executors())
        after = until("it is replaced", lambda: nodes(space, WANTED))
        equal(len(set(after) - set(before)), 1, "new nodes:")
        started |= set(after)
        counted = results(space)
        until("the application counts on", lambda: results(space) > counted + 1)
    before = nodes(space, WANTED)
    for number in range(of.restarts):
        say(f"kill -9 of boatswain, {number + 1} of {of.restarts}")
        boatswain.restart(space, rng, WANTED)
        equal(space.executors(), before, "nodes:")
    space.kubectl("exec", "engine", "--", "touch", "/tmp/stop")
    one = until("idle nodes are gone", lambda: nodes(space, 1), 300)
    assert set(one) <= started, f"{one} was started when nobody wanted more"
    equal(len(started), WANTED + of.kills, "nodes that were started:")
    space.kubectl("exec", "engine", "--", "touch", "/tmp/end")
    until("the application has ended", lambda: space.pod("engine")["status"].get("phase") in ("Succeeded", "Failed"))
    equal(space.pod("engine")["status"]["phase"], "Succeeded", "the application:")
    until("no executor is left", lambda: not space.pods("boatswain.dev/role=executor"))
