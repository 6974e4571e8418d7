"""An executor that speaks to boatswain by itself, without a WebSocket and without the agent: docs/protocol.md.

It registers, says that it is alive, works (here: sleeps), drains when it is told to, and says goodbye. Python's standard
library is all it needs. As an executor's command:

    command = ["python3", "/where/it/is/client.py"]
"""

import json
import os
import pathlib
import ssl
import sys
import time
import urllib.error
import urllib.request


def token():
    """What proves who this is; Kubernetes writes the file anew from time to time."""
    if "BOATSWAIN_TOKEN" in os.environ:
        return os.environ["BOATSWAIN_TOKEN"]
    return here(os.environ["BOATSWAIN_TOKEN_FILE"]).read_text().strip()


def here(path):
    """The path of a file of this container, also where the container is only a process of the embedded cluster."""
    path = pathlib.Path(path)
    root = os.environ.get("DEVCLUSTER_ROOT")
    if root and not path.exists():
        path = pathlib.Path(root) / path.relative_to("/")
    return path


def trust():
    """Whom to trust as the driver; None without TLS. The file is read each time: it may contain a new CA."""
    if not os.environ["BOATSWAIN_DRIVER_URL"].startswith("https://"):
        return None
    ca = os.environ.get("BOATSWAIN_CA_FILE")
    return ssl.create_default_context(cafile=here(ca) if ca else None)


def say(kind, **fields):
    """Says something, and returns what the driver has to say."""
    request = urllib.request.Request(
        os.environ["BOATSWAIN_DRIVER_URL"] + "/v1/session/messages",
        json.dumps({"type": kind, **fields}).encode(),
        {"Authorization": f"Bearer {token()}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10, context=trust()) as answer:
        return json.load(answer)["messages"]


def register():
    """Registers, for as long as it takes; returns the account."""
    pause = 0.2
    while True:
        try:
            answer = say(
                "register",
                app=os.environ["BOATSWAIN_APP_ID"],
                executor=int(os.environ["BOATSWAIN_EXECUTOR_ID"]),
                pod_uid=os.environ["BOATSWAIN_POD_UID"],
                slots=1,
                attributes={"client": "python"},
            )
        except (urllib.error.URLError, OSError) as error:
            print("the driver is not to be had:", error, flush=True)
        else:
            first = answer[0]
            if first["type"] == "registered":
                return first, answer[1:]
            if first["type"] == "later":
                time.sleep(first["in_ms"] / 1000)
                continue
            print("not registered:", first, flush=True)
            if first.get("exit"):
                sys.exit(1)
        time.sleep(pause)
        pause = min(pause * 2, 10)


def main():
    account, said = register()
    print("registered:", account, flush=True)
    while True:
        for message in said:
            kind = message["type"]
            if kind in ("stop", "decommission"):
                # There is nothing under way that would have to be finished.
                print("told to go:", message, flush=True)
                say("exiting", session=account["session"], code=0, why=message["why"])
                return 0
            if kind in ("register", "superseded"):
                account, said = register()
                break
        else:
            time.sleep(account["heartbeat_interval_ms"] / 1000)
            try:
                said = say("heartbeat", session=account["session"], busy_slots=0, metrics={"naps": 1})
            except (urllib.error.URLError, OSError) as error:
                print("the driver is away:", error, flush=True)
                said = []


if __name__ == "__main__":
    sys.exit(main())
