"""What happened to a namespace's pods and Workloads, in etcd's order, so that a check misses nothing between two looks."""

import dataclasses
import json
import subprocess
import threading
import time

WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"
PODS = "/api/v1/namespaces/{}/pods"
# An eviction is noticed within 5 s; the rest is this machine's.
NOTICED = 7


@dataclasses.dataclass
class Event:
    version: int
    at: float
    kind: str
    deleted: bool
    object: dict


def application(thing):
    return thing["metadata"].get("labels", {}).get("boatswain.dev/app-id")


def block(thing):
    """Which block of which application this is, or belongs to."""
    return application(thing), thing["metadata"].get("labels", {}).get("boatswain.dev/block")


def is_true(workload, kind):
    conditions = workload.get("status", {}).get("conditions", [])
    return any(condition["type"] == kind and condition["status"] == "True" for condition in conditions)


def places(workload):
    """For how many pods a Workload is admitted; nobody else may run."""
    status = workload.get("status", {})
    admitted = is_true(workload, "Admitted") and not is_true(workload, "Evicted") and status.get("admission")
    if not admitted or workload["spec"].get("active") is False or "deletionTimestamp" in workload["metadata"]:
        return 0
    reclaimed = sum(one["count"] for one in status.get("reclaimablePods", []))
    return min(status["admission"]["podSetAssignments"][0]["count"], workload["spec"]["podSets"][0]["count"] - reclaimed)


def has_quota(pod):
    """The kubelet says that a pod has ended a moment after it said so of its containers."""
    ended = [("terminated" in one["state"]) for one in pod["status"].get("containerStatuses", [])]
    return pod["status"].get("phase") not in ("Succeeded", "Failed") and not (ended and all(ended))


class Watch:
    """Follows a namespace until it is closed. `limits` are pairs of a time and how many pods there may be from then on."""

    def __init__(self, namespace, limit):
        self.began = time.time()
        self.limits = [(self.began, limit)]
        self.marks = []
        self.events = []
        self.now = {"pods": {}, "workloads": {}}
        self.closed = False
        self.readers = {}
        for kind, path in (("pods", PODS), ("workloads", WORKLOADS)):
            threading.Thread(target=self.follow, args=(kind, path.format(namespace)), daemon=True).start()

    def follow(self, kind, path):
        since = ""
        while not self.closed:
            command = ["kubectl", "get", "--raw", f"{path}?watch=1{since}"]
            reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self.readers[kind] = reader
            heard = False
            for line in reader.stdout:
                heard, version = True, self.add(kind, json.loads(line))
                since = f"&resourceVersion={version}" if version else ""
            # The server ends a watch whenever it likes; and it has none of Workloads while Kueue is removed.
            if reader.wait() and not heard:
                since = ""
            time.sleep(0.2)

    def add(self, kind, event):
        """Returns its version."""
        if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return None
        thing, deleted = event["object"], event["type"] == "DELETED"
        meta = thing["metadata"]
        if deleted:
            self.now[kind].pop(meta["uid"], None)
        else:
            self.now[kind][meta["uid"]] = thing
        self.events.append(Event(int(meta["resourceVersion"]), time.time(), kind, deleted, thing))
        return meta["resourceVersion"]

    def close(self):
        self.closed = True
        for reader in self.readers.values():
            reader.terminate()

    # --- what is there now ---

    def workloads(self, app):
        found = [one for one in list(self.now["workloads"].values()) if application(one) == app]
        return sorted(found, key=lambda one: int(block(one)[1]))

    def pods(self, app):
        return [pod for pod in list(self.now["pods"].values()) if application(pod) == app and has_quota(pod)]

    def running(self, app):
        return sum(
            pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in self.pods(app)
        )

    # --- what was there ---

    def replay(self):
        """After each event: it, the pods that have quota, and the Workloads."""
        pods, workloads = {}, {}
        for event in sorted(self.events, key=lambda event: event.version):
            now = pods if event.kind == "pods" else workloads
            uid = event.object["metadata"]["uid"]
            if event.deleted or (event.kind == "pods" and not has_quota(event.object)):
                now.pop(uid, None)
            else:
                now[uid] = event.object
            yield event, pods, workloads

    def limit_at(self, at):
        return [limit for since, limit in self.limits if since <= at][-1]

    def broken(self):
        """Each instant at which there were more pods than the quota allows, or one was created without a place."""
        found, ended, seen = [], {}, set()
        for event, pods, workloads in self.replay():
            uid = event.object["metadata"]["uid"]
            if event.kind == "workloads":
                if event.deleted or not places(event.object):
                    ended.setdefault(block(event.object), event.at)
                else:
                    ended.pop(block(event.object), None)
                continue
            if len(pods) > self.limit_at(event.at):
                found.append(f"{len(pods)} pods of {self.limit_at(event.at)} at version {event.version}")
            if uid in seen:
                continue
            seen.add(uid)
            found += self.without_place(event, pods, workloads, ended)
        return found

    def without_place(self, event, pods, workloads, ended):
        """Whether a pod that has just been created has a place in an admitted block."""
        of, name = block(event.object), event.object["metadata"]["name"]
        there = sum(block(pod) == of for pod in pods.values())
        admitted = sum(places(one) for one in workloads.values() if block(one) == of)
        if admitted:
            return [f"{name} is number {there} of {admitted} of block {of}"] if there > admitted else []
        was_admitted = any(block(one.object) == of and places(one.object) for one in self.events if one.kind == "workloads")
        late = event.at - ended.get(of, 0)
        return [] if was_admitted and late < NOTICED else [f"{name} was created in the block {of}, which is not admitted"]

    def most(self):
        return max((len(pods) for _, pods, _ in self.replay()), default=0)
