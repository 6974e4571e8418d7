"""KubeCluster's arguments: which are taken, as what, and which are refused. No driver runs."""

import asyncio

import pytest

from boatswain import dask
from boatswain.cluster_spec import arguments_of, make_cluster_spec, make_worker_spec, worker_arguments
from boatswain.dask import BoatswainCluster
from boatswain.kubecluster import check_namespace, profile_keys
from boatswain.operations import NewProfile
from boatswain.scheduler_pod import SHARED, SchedulerPod


def test_what_kubecluster_says_of_workers_are_keys_of_a_profile():
    keys = profile_keys(
        image="dask:1",
        env={"LANG": "C"},
        resources={
            "requests": {"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "1Gi"},
            "limits": {"cpu": 2, "memory": "64Gi", "nvidia.com/gpu": 1},
        },
        worker_command="dask cuda worker",
        profile={"node_selector": {"disktype": "ssd"}},
    )
    assert keys == {
        "image": "dask:1",
        "env": {"LANG": "C"},
        "cpu": "500m",
        "cpu_limit": 2,
        "memory": "2Gi",
        "memory_limit": "64Gi",
        "ephemeral_storage": "1Gi",
        "resources": {"nvidia.com/gpu": 1},
        "command": ["dask", "cuda", "worker"],
        "node_selector": {"disktype": "ssd"},
    }
    assert profile_keys(env=[], resources={}) == {}


def test_variables_may_be_written_as_in_kubernetes():
    env = [
        {"name": "LANG", "value": "C"},
        {"name": "EMPTY"},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password", "optional": True}}},
        {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "engine", "key": "mode"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
    ]
    assert profile_keys(env=env)["env"] == {
        "LANG": "C",
        "EMPTY": "",
        "PASSWORD": {"secret": "db", "key": "password", "optional": True},
        "MODE": {"config_map": "engine", "key": "mode"},
        "NODE": {"field": "spec.nodeName"},
        "MEMORY": {"resource": "limits.memory"},
    }


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"resources": {"request": {"cpu": 1}}}, ValueError, "resources: .*not request$"),
        ({"resources": {"requests": "2Gi"}}, TypeError, "resources: has to be such as"),
        ({"resources": {"requests": {"gpu": 1}, "limits": {"gpu": 2}}}, ValueError, "same amount of gpu"),
        ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1"}}}]}, ValueError, "source of A .*fieldPath"),
        ({"image": "a", "profile": {"image": "b"}}, ValueError, "image is given by another argument too"),
        ({"resources": {"limits": {"cpu": 1}}, "profile": {"cpu_limit": 2}}, ValueError, "cpu_limit is given"),
    ],
)
def test_what_no_profile_can_have_is_refused(given, error, told):
    with pytest.raises(error, match=told):
        profile_keys(**given)


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"nworkers": 2}, TypeError, "unexpected keyword argument 'nworkers'"),
        ({"create_mode": "CONNECT_ONLY"}, ValueError, "create_mode.*only with scheduler='cluster'"),
        ({"create_mode": "CREATE", "scheduler": "cluster"}, ValueError, "create_mode: has to be one of"),
        ({"shutdown_on_close": False}, ValueError, "shutdown_on_close: only with scheduler='cluster'"),
        ({"shutdown_on_close": False, "scheduler": "cluster"}, ValueError, "shutdown_on_close: .*name a server"),
        ({"jupyter": True}, ValueError, "jupyter: use scheduler_options="),
        ({"scheduler_forward_port": 8787}, ValueError, "scheduler_forward_port: use scheduler_options="),
        ({"scheduler_service_type": "LoadBalancer"}, ValueError, "scheduler_service_type: use scheduler_options="),
        ({"port_forward_cluster_ip": True}, ValueError, "port_forward_cluster_ip: leave it out"),
        ({"scheduler": "tcp://a:1", "idle_timeout": 60}, ValueError, "idle_timeout: .*--idle-timeout"),
        ({"idle_timeout": 9, "shutdown_on_close": False, "scheduler": "cluster"}, ValueError, "idle_timeout: nobody"),
        ({"namespace": "jobs"}, ValueError, "namespace: .*a local one is not known to be in jobs"),
    ],
)
def test_what_has_no_meaning_here_is_refused_with_what_to_use_instead(given, error, told, monkeypatch):
    monkeypatch.delenv("BOATSWAIN_SERVER", raising=False)
    with pytest.raises(error, match=told):
        BoatswainCluster(**given)


def test_a_refusal_does_not_show_what_a_spec_has():
    spec = make_cluster_spec("foo", env={"PASSWORD": "hunter2"})
    spec["spec"]["worker"]["spec"]["volumes"] = [{"name": "hunter2"}]
    with pytest.raises(ValueError, match=r"spec.worker.spec.volumes: is no key of a profile here: use profile=") as refused:
        BoatswainCluster(custom_cluster_spec=spec)
    assert "hunter2" not in str(refused.value)


def test_a_spec_of_a_cluster_stands_for_arguments():
    config = {"name": "foo", "n_workers": 2, "resources": {"limits": {"memory": "64Gi"}}, "env": {"A": "1"}, "image": "dask:1"}
    spec = make_cluster_spec(**config, jupyter=True, idle_timeout=300)
    pod = spec["spec"]["worker"]["spec"]
    pod["nodeSelector"], pod["imagePullSecrets"] = {"disktype": "ssd"}, [{"name": "regcred"}]
    pod["tolerations"] = [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]
    assert arguments_of(spec) == {
        **config,
        "env": [{"name": "A", "value": "1"}],
        "worker_command": ["dask", "worker"],
        "idle_timeout": 300,
        "scheduler_options": {"jupyter": True},
        "profile": {
            "node_selector": {"disktype": "ssd"},
            "pull_secrets": ["regcred"],
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerate_for": "30s"}],
        },
    }


def test_what_dasks_own_specs_have_besides_is_read_as_boatswain_has_it():
    worker = ["dask-worker", "--name", "$(DASK_WORKER_NAME)", "--dashboard", "--dashboard-address", "8788", "--nthreads", "2"]
    container = {"name": "worker", "args": worker, "env": None, "resources": None, "ports": [{"containerPort": 8788}]}
    assert worker_arguments({"replicas": 3, "spec": {"containers": [container]}}, "custom_spec") == {
        "n_workers": 3,
        "worker_command": ["dask", "worker", "--nthreads", "2"],
    }
    with pytest.raises(ValueError, match=r"custom_spec.spec.containers\[0\].livenessProbe: is no key"):
        worker_arguments({"spec": {"containers": [{**container, "livenessProbe": {"exec": {}}}]}}, "custom_spec")


def test_the_namespace_is_the_drivers():
    check_namespace("jobs", "https://etl-driver.jobs.svc:7117")
    check_namespace("jobs", "https://etl-driver.jobs.svc.cluster.local:7117")
    for server in ("https://etl-driver.other.svc:7117", "http://127.0.0.1:7117", "https://boatswain.jobs.example"):
        with pytest.raises(ValueError, match=f"{server} is not known to be in jobs"):
            check_namespace("jobs", server)


class Driver:
    """Remembers the targets, which a kill lowers."""

    def __init__(self, targets):
        self.targets, self.killed = dict(targets), []

    async def put_target(self, profile, executors):
        self.targets[profile] = executors

    async def kill(self, executors, *, force, replace, by):
        self.killed += executors
        for id in executors:
            self.targets["dask-a" if id < 10 else "dask-a--high"] -= 1
        return {"targets": dict(self.targets)}


class Dasks:
    """A scheduler that would rather end the workers of the group that is not asked about."""

    async def workers_to_close(self, target, attribute):
        return ["dask-a--high-10", "dask-a--high-11", "dask-a-2", "dask-a-1", "dask-a-3"]

    async def retire_workers(self, names, remove, close_workers):
        return {name: {"name": name} for name in names if name != "dask-a-3"}


def cluster_of(driver, seen=(1, 2, 3)):
    cluster = object.__new__(BoatswainCluster)
    cluster._ends = True
    cluster.status, cluster.quiet, cluster._cluster_manager_logs = dask.Status.closed, True, []
    cluster._profile, cluster._driver, cluster.scheduler_comm = "dask-a", driver, Dasks()
    cluster._changing, cluster._retired = asyncio.Lock(), set()
    names = {"dask-a": "default", "dask-a--high": "high"}
    cluster._groups = {profile: dask.Group(name, profile, {}) for profile, name in names.items()}
    cluster._living = {1: "dask-a", 2: "dask-a", 3: "dask-a", 10: "dask-a--high", 11: "dask-a--high"}
    cluster.scheduler_info = {"workers": {id: {"name": f"{cluster._living[id]}-{id}"} for id in (*seen, 10, 11)}}
    return cluster


def scaled(n, group="default", targets=(3, 2), **options):
    driver = Driver(zip(["dask-a", "dask-a--high"], targets, strict=True))
    cluster = cluster_of(driver, **options)
    asyncio.run(cluster._scale(n, group))
    return driver, cluster


def test_a_worker_group_is_scaled_without_the_others():
    driver, cluster = scaled(2)
    assert (driver.killed, driver.targets) == ([2], {"dask-a": 2, "dask-a--high": 2})
    assert (cluster.plan, len(cluster.workers)) == ({"dask-a-1", "dask-a-3"}, 4)
    driver, _ = scaled(0, "high")
    assert (driver.killed, driver.targets) == ([10, 11], {"dask-a": 3, "dask-a--high": 0})
    driver, _ = scaled(5, "high")
    assert (driver.killed, driver.targets) == ([], {"dask-a": 3, "dask-a--high": 5})
    with pytest.raises(ValueError, match="no worker group low: there are default, high"):
        scaled(1, "low")


def test_workers_that_are_wanted_and_not_requested_yet_are_not_wanted_any_more():
    """A paused profile has fewer workers than are wanted."""
    driver, _ = scaled(2, targets=(10, 2))
    assert (driver.killed, driver.targets["dask-a"]) == ([2], 2)


def test_a_worker_whose_data_has_no_other_place_stays_wanted():
    driver, _ = scaled(0)
    assert (sorted(driver.killed), driver.targets["dask-a"]) == ([1, 2], 1)


def test_workers_that_are_not_there_yet_go_first():
    driver, _ = scaled(1, seen=(1, 2))
    assert (driver.killed, driver.targets["dask-a"]) == ([2, 3], 1)


def test_adapting_ends_workers_of_the_default_group_alone():
    cluster = cluster_of(Driver({}))
    adaptive = object.__new__(dask.BoatswainAdaptive)
    adaptive.cluster, adaptive.worker_key, adaptive._workers_to_close_kwargs, adaptive.state = cluster, None, {}, "inactive"

    async def all_of_them(target, key, attribute):
        return await Dasks().workers_to_close(target, attribute)

    cluster.scheduler_comm.workers_to_close = all_of_them
    assert asyncio.run(adaptive.workers_to_close(1)) == ["dask-a-2", "dask-a-1"]


def test_a_group_has_what_it_is_not_given_from_the_cluster():
    cluster = cluster_of(Driver({}))
    cluster._keys = profile_keys(image="dask:1", env={"A": "1"}, resources={"limits": {"cpu": 1, "memory": "1Gi"}})
    added = []

    async def add(name, n, keys):
        added.append((name, n, keys))

    cluster._add_worker_group, cluster.sync = add, lambda function, *arguments: asyncio.run(function(*arguments))
    cluster.add_worker_group("more")
    cluster.add_worker_group("high", 2, resources={"limits": {"memory": "64Gi"}}, profile={"node_selector": {"size": "big"}})
    assert added == [
        ("more", 3, {"image": "dask:1", "env": {"A": "1"}, "cpu_limit": 1, "memory_limit": "1Gi"}),
        ("high", 2, {"image": "dask:1", "env": {"A": "1"}, "memory_limit": "64Gi", "node_selector": {"size": "big"}}),
    ]
    cluster.add_worker_group("spec", custom_spec=make_worker_spec("dask:2", 4))
    assert added[2][1:] == (4, {**added[0][2], "image": "dask:2", "command": ["dask", "worker"]})


def test_options_in_the_workers_command_are_not_given_twice():
    cluster = cluster_of(Driver({}))
    cluster._local, cluster._agent, cluster._worker_options = None, ["agent"], ["--no-dashboard"]
    cluster._options = {"--nthreads": ["1"], "--no-nanny": [], "--death-timeout": ["60"]}
    cluster.scheduler_comm.address = "tcp://a:1"
    command = cluster._described("dask-a", profile_keys(worker_command="dask-worker --nthreads=4"))["command"]
    assert command[: command.index("dask-worker")] == ["agent", *dask.LEFT_ALONE]
    assert command[command.index("dask-worker") :] == [
        *["dask-worker", "--nthreads=4", "tcp://a:1", "--name", "dask-a-$(BOATSWAIN_EXECUTOR_ID)"],
        *["--no-nanny", "--death-timeout", "60", "--no-dashboard"],
    ]


def test_names_of_profiles_are_names_in_kubernetes():
    assert dask._label("Etl_nightly (2)", 40) == "etl-nightly-2"
    assert dask._label("a" * 39 + "-b", 40) == "a" * 39


def test_a_cluster_takes_no_profile_of_another_one_whose_name_begins_like_its_own():
    cluster = cluster_of(None)
    names = ["dask-a", "dask-a--high", "dask-a-b", "dask-a-b--high", "dask-a-b--scheduler", "default"]
    assert [cluster._group_name(name) for name in names] == ["default", "high", None, None, None, None]


def test_a_scheduler_in_a_pod_has_of_its_workers_profile_what_a_pod_needs_to_start():
    keys = {"image": "a:1", "pull_secrets": ["regcred"], "pull_policy": "Always", "memory": "1Gi"}
    pod = SchedulerPod("dask-a--scheduler", keys, ["dask", "scheduler"], {}, None)
    assert pod.description == {
        **{key: keys[key] for key in ("image", "pull_secrets", "pull_policy")},
        **{"executors": 1, "max_executors": 1},
        "command": ["dask", "scheduler", "--port", "8786", "--dashboard-address", ":8787"],
    }
    assert set(SHARED) <= NewProfile.__annotations__.keys()
