"""The examples of dask-kubernetes' pages and tests of KubeCluster. Of each, only the import and the image are other ones.

Where the driver is, the environment says. Each example ends by a line with its name, for run.py.
"""

import asyncio

from boatswain.dask import BoatswainCluster as KubeCluster
from boatswain.dask import make_cluster_spec, make_worker_spec
from dask.distributed import Client

IMAGE = "localhost/engines:1"


def quickstart():
    cluster = KubeCluster(name="my-dask-cluster", image=IMAGE)
    cluster.scale(10)
    cluster.wait_for_workers(10)
    cluster.close()


def cluster_manager():
    cluster = KubeCluster(name="foo", image=IMAGE)
    # Scale up the cluster
    cluster.scale(5)
    # Scale down the cluster
    cluster.scale(1)
    # Allow cluster to autoscale between 1 and 10 workers
    cluster.adapt(minimum=1, maximum=10)
    # Disable autoscaling by explicitly scaling to your desired number of workers
    cluster.scale(1)
    # Connect Dask to the cluster
    client = Client(cluster)
    assert client.submit(lambda x: x + 1, 10).result() == 11
    cluster.close()


def additional_worker_groups():
    cluster = KubeCluster(name="foo", image=IMAGE)
    cluster.add_worker_group(name="highmem", n_workers=2, resources={"requests": {"memory": "200Mi"}, "limits": {"memory": "64Gi"}})
    cluster.scale(5, worker_group="highmem")
    cluster.wait_for_workers(5)
    cluster.delete_worker_group(name="highmem")
    cluster.close()


def spec_of_a_cluster():
    config = {"name": "foo", "image": IMAGE, "n_workers": 2, "resources": {"requests": {"memory": "200Mi"}, "limits": {"memory": "64Gi"}}}
    with KubeCluster(**config) as cluster:
        cluster.wait_for_workers(2)
    # is equivalent to
    with KubeCluster(custom_cluster_spec=make_cluster_spec(**config)) as cluster:
        cluster.wait_for_workers(2)


def node_selector():
    spec = make_cluster_spec(name="selector-example", image=IMAGE, n_workers=2)
    spec["spec"]["worker"]["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux"}
    cluster = KubeCluster(custom_cluster_spec=spec)
    cluster.wait_for_workers(2)
    cluster.close()


def spec_of_workers():
    cluster = KubeCluster(name="example", image=IMAGE)
    worker_spec = make_worker_spec(cluster_name=cluster.name, image=IMAGE, n_workers=2, resources={"limits": {"memory": "1Gi"}})
    worker_spec["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux"}
    cluster.add_worker_group("nodes", custom_spec=worker_spec)
    cluster.wait_for_workers(2)
    cluster.close()


def private_registry():
    # Generate the spec
    spec = make_cluster_spec(name="custom", image=IMAGE, n_workers=1)
    # Set the imagePullSecrets for the scheduler and worker pods
    spec["spec"]["worker"]["spec"]["imagePullSecrets"] = [{"name": "regcred"}]
    spec["spec"]["scheduler"]["spec"]["imagePullSecrets"] = [{"name": "regcred"}]
    # Create the cluster
    cluster = KubeCluster(custom_cluster_spec=spec)
    cluster.wait_for_workers(1)
    cluster.close()


def custom_worker_command():
    with (
        KubeCluster(name="customworker", image=IMAGE, worker_command=["python3", "-m", "distributed.cli.dask_worker"], n_workers=1) as cluster,
        Client(cluster) as client,
    ):
        assert client.submit(lambda x: x + 1, 10).result() == 11


def multiple_clusters_simultaneously():
    with (
        KubeCluster(name="fizz", image=IMAGE, n_workers=1) as cluster1,
        KubeCluster(name="buzz", image=IMAGE, n_workers=1) as cluster2,
        Client(cluster1) as client1,
        Client(cluster2) as client2,
    ):
        assert client1.submit(lambda x: x + 1, 10).result() == 11
        assert client2.submit(lambda x: x + 1, 10).result() == 11


def adapt():
    with KubeCluster(name="adaptive", image=IMAGE, n_workers=0) as cluster:
        cluster.adapt(minimum=0, maximum=1)
        with Client(cluster) as client:
            assert client.submit(lambda x: x + 1, 10).result() == 11
        cluster.scale(0)


def from_name():
    # There, the scheduler is in a pod always.
    with KubeCluster(name="abc", image=IMAGE, n_workers=1, scheduler="cluster") as first, KubeCluster.from_name("abc") as second:
        first.scale(2)
        second.wait_for_workers(2)
        assert first.scheduler_info["id"] == second.scheduler_info["id"]


async def asynchronous():
    async with (
        KubeCluster(name="async", image=IMAGE, n_workers=1, asynchronous=True) as cluster,
        Client(cluster, asynchronous=True) as client,
    ):
        assert await client.submit(lambda x: x + 1, 10).result() == 11


EXAMPLES = [
    quickstart,
    cluster_manager,
    additional_worker_groups,
    spec_of_a_cluster,
    node_selector,
    spec_of_workers,
    private_registry,
    custom_worker_command,
    multiple_clusters_simultaneously,
    adapt,
    from_name,
]


def main():
    for example in EXAMPLES:
        example()
        print("example", example.__name__, flush=True)
    asyncio.run(asynchronous())
    print("example asynchronous", flush=True)


if __name__ == "__main__":
    main()
