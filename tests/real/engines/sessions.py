"""Sessions of executors in containers, over TLS, by tokens of the kubelet's that expire after ten minutes.

The kubelet renews a token of ten minutes each eight. So one rotation takes that long (--rotations, 0 by default); each
executor's session has to last over all of them, and after a restart of boatswain come back by the renewed token.
"""

import base64
import hashlib
import json
import time

import boatswain
from cluster import equal, run, say, until

EXECUTORS = 20
CALLER = "callers"
SECONDS = 600


def short_tokens(space):
    """boatswain asks for an hour. An administrator of this cluster wants less."""
    index = "object.spec.volumes.map(volume, volume.name).indexOf('boatswain-token')"
    path = f"'/spec/volumes/' + string({index}) + '/projected/sources/0/serviceAccountToken/expirationSeconds'"
    patch = f"[JSONPatch{{op: 'replace', path: {path}, value: {SECONDS}}}]"
    name = f"short-tokens.{space.name}"
    policy = {
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}},
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        },
        "matchConditions": [{"name": "executors", "expression": f"{index} >= 0"}],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }
    kinds = {"MutatingAdmissionPolicy": policy, "MutatingAdmissionPolicyBinding": {"policyName": name}}
    group = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    space.apply(*(group | {"kind": kind, "spec": spec} for kind, spec in kinds.items()))


class Caller:
    """curl with the token of a service account of another namespace."""

    def __init__(self, space):
        self.space = space
        run("kubectl", "create", "namespace", CALLER)
        run("kubectl", "--namespace", CALLER, "create", "serviceaccount", "operator")
        found = json.loads(space.kubectl("get", "configmap", "etl-executor", "-o", "json"))
        self.authority = space.folder / "ca.crt"
        self.authority.write_text(found["data"]["ca.crt"])

    def __call__(self, path, *arguments):
        audience = f"boatswain.dev/{self.space.name}/etl"
        token = ["create", "token", "operator", "--audience", audience, "--duration", "10m"]
        header = "authorization: Bearer " + run("kubectl", "--namespace", CALLER, *token)
        address = boatswain.driver(self.space)["status"]["podIP"]
        host = f"etl-driver.{self.space.name}.svc"
        curl = ["curl", "--silent", "--show-error", "--fail-with-body", "--cacert", str(self.authority)]
        curl += ["--resolve", f"{host}:7117:{address}", "--header", "@-", *arguments]
        return json.loads(run(*curl, f"https://{host}:7117{path}", given=header))


def connected(call):
    """Each executor's session, by its executor."""
    found = {executor["executor"]: executor.get("session", {}) for executor in call("/v1/executors")["executors"]}
    return {executor: session["session"] for executor, session in found.items() if session.get("state") == "connected"}


def running(space):
    found = space.executors()
    return found if len(found) == EXECUTORS else None


def all_connected(call):
    found = connected(call)
    return found if len(found) == EXECUTORS else None


def digest(space, executor):
    """Of an executor's present token."""
    token = space.kubectl("exec", executor, "--", "cat", "/var/run/secrets/boatswain.dev/token").strip()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    equal(claims["exp"] - claims["iat"], SECONDS, "the token's life:")
    return hashlib.sha256(token.encode()).hexdigest()


def rotate(space, call, before, count):
    """Waits until each executor's token was renewed this often. Meanwhile no session may end."""
    executors = sorted(space.executors())
    seen = {executor: [digest(space, executor)] for executor in executors}
    began = time.monotonic()
    while any(len(tokens) <= count for tokens in seen.values()):
        assert time.monotonic() - began < count * SECONDS, f"the tokens were not renewed: {seen}"
        time.sleep(5)
        equal(connected(call), before, "sessions:")
        for executor in executors[int(time.monotonic()) // 5 % 4 :: 4]:
            token = digest(space, executor)
            if token != seen[executor][-1]:
                seen[executor].append(token)
                if executor == executors[-1]:
                    say(f"the token of {executor} was renewed after {time.monotonic() - began:.0f} s")
    say(f"each of {len(executors)} tokens was renewed {count} times in {time.monotonic() - began:.0f} s")


def scenario(space, rng, of):
    run("kubectl", "delete", "namespace", CALLER, "--ignore-not-found", "--timeout=240s")
    config = boatswain.configuration(f"{CALLER}/operator", command=("sleep", "infinity"), registration="required")
    # First, for the API server heeds a policy some seconds after it was created.
    short_tokens(space)
    boatswain.install(space, config)
    call = Caller(space)
    say("scaled by curl:", call("/v1/targets/default", "--request", "PUT", "--data", json.dumps({"executors": EXECUTORS})))
    sessions = until("all are connected", lambda: all_connected(call))
    executors = until("all run", lambda: running(space))
    rotate(space, call, sessions, of.rotations)
    boatswain.restart(space, rng, EXECUTORS)
    until("all are connected again", lambda: all_connected(call))
    equal(space.executors(), executors, "executors:")
    space.show("executors", "get", "pods", "-o", "wide")
    space.show("boatswain-log", "logs", boatswain.DEPLOYMENT)
    space.show("role", "describe", "role")
    for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
        run("kubectl", "delete", kind, f"short-tokens.{space.name}")
