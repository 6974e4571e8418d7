"""Ray's head in its pod, and words that are counted on its nodes: once undisturbed, then again and again until /tmp/stop exists.

Says on each line what came out, for run.py. When /tmp/end exists it ends the nodes that are left, and then the head.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import time

import boatswain
import ray
import yaml

TEXT = ["the quick brown fox", "jumps over the lazy dog"] * 200
NODES = 4
CONFIG = "/tmp/autoscaler.yaml"


def configuration(server):
    config = yaml.safe_load(pathlib.Path("/application/autoscaler.yaml").read_text())
    config["idle_timeout_minutes"] = 0.5
    config["provider"] |= {"server": server, "token_file": "/boatswain/token", "ca_file": "/boatswain/ca.crt"}
    config["available_node_types"]["worker"] |= {"resources": {"CPU": 1}, "min_workers": 1, "max_workers": 2 * NODES}
    pathlib.Path(CONFIG).write_text(yaml.safe_dump(config))


def head(options):
    command = ["ray", "start", "--head", "--block", "--port=6379", "--num-cpus=0", "--include-dashboard=false"]
    address = os.environ["POD_IP"]
    process = subprocess.Popen([*command, f"--node-ip-address={address}", f"--autoscaling-config={CONFIG}", *options])
    for _ in range(60):
        try:
            ray.init(f"{address}:6379", log_to_driver=False)
            return process
        except ConnectionError:
            assert process.poll() is None, "the head has ended"
            time.sleep(1)
    raise AssertionError("the head does not answer")


class Counter:
    """Needs a node of its own."""

    def count(self, lines):
        time.sleep(0.2)
        return collections.Counter(word for line in lines for word in line.split())


def count(counters):
    parts = [counter.count.remote(TEXT[number::NODES]) for number, counter in enumerate(counters)]
    return sorted(sum(ray.get(parts, timeout=300), collections.Counter()).items())


def counted_until_told(counters):
    undisturbed = count(counters)
    print("undisturbed", json.dumps(undisturbed), flush=True)
    while not pathlib.Path("/tmp/stop").exists():
        print("equal" if count(counters) == undisturbed else "DIFFERENT", flush=True)


def end_nodes(server):
    """Ray leaves its nodes behind."""
    with boatswain.Client(server, token_file="/boatswain/token", ca_file="/boatswain/ca.crt") as driver:
        driver.put_target("worker", 0)
        driver.kill([one["executor"] for one in driver.executors()["executors"]], force=True, replace=False)


def main():
    server, *options = sys.argv[1:]
    configuration(server)
    process = head(options)
    remote = ray.remote(Counter).options(num_cpus=1, max_restarts=-1, max_task_retries=-1)
    counters = [remote.remote() for _ in range(NODES)]
    counted_until_told(counters)
    for counter in counters:
        ray.kill(counter)
    while not pathlib.Path("/tmp/end").exists():
        time.sleep(0.5)
    ray.shutdown()
    # The autoscaler goes first: it would launch the node that it keeps again.
    process.terminate()
    process.wait(60)
    end_nodes(server)


if __name__ == "__main__":
    main()
