//! Executors that Kueue admits. The test is Kueue: it writes the status of Workloads.

use std::collections::BTreeMap;

use boatswain::driver::{Handle, start_in};
use boatswain::exit::Exit;
use devcluster::{DevCluster, NodeKind, Options, SimulatedNode};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::server::{Network, Server, config};
use crate::{cluster, seconds};

const QUEUE: [&str; 2] = ["scheduling.queue=kueue", "scheduling.queue_name=team"];

/// A cluster with Kueue, which has one flavor.
struct World {
    cluster: DevCluster,
    workloads: Api<DynamicObject>,
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    let kind = GroupVersionKind::gvk("kueue.x-k8s.io", "v1beta2", kind);
    ApiResource::from_gvk_with_plural(&kind, plural)
}

impl World {
    async fn of(cluster: DevCluster) -> Self {
        let client = kube::Client::new(cluster.router(), "default");
        let flavors = resource("ResourceFlavor", "resourceflavors");
        let flavors: Api<DynamicObject> = Api::all_with(client.clone(), &flavors);
        let flavor = json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "spot"},
            "spec": {
                "nodeLabels": {"pool": "spot"},
                "tolerations": [{"key": "spot", "operator": "Exists"}],
            },
        });
        let flavor = serde_json::from_value(flavor).unwrap();
        flavors
            .create(&PostParams::default(), &flavor)
            .await
            .unwrap();
        let workloads = resource("Workload", "workloads");
        let workloads = Api::default_namespaced_with(client, &workloads);
        Self { cluster, workloads }
    }

    fn start(&self, executors: u32, holder: u64, more: &[&str]) -> Driver {
        let server = Server::of(self.cluster.clone());
        let sets: Vec<&str> = QUEUE.into_iter().chain(more.iter().copied()).collect();
        let config = config(executors, "end", &sets);
        let (handle, running) = start_in(config, server.environment(holder));
        let task = actix::spawn(running);
        Driver {
            server,
            handle,
            task,
        }
    }

    async fn workload(&self, block: u32) -> Value {
        let name = format!("boatswain-default-{block}");
        serde_json::to_value(self.workloads.get(&name).await.unwrap()).unwrap()
    }

    /// The Workloads: their numbers, and how many pods use or want their quota.
    async fn blocks(&self) -> Vec<(u32, u64)> {
        let listed = self.workloads.list(&ListParams::default()).await.unwrap();
        let of = |one: DynamicObject| {
            let name = one.metadata.name.unwrap();
            let number = name.strip_prefix("boatswain-default-").unwrap();
            let count = one.data["spec"]["podSets"][0]["count"].as_u64().unwrap();
            let reclaimed = one.data["status"]["reclaimablePods"][0]["count"].as_u64();
            (number.parse().unwrap(), count - reclaimed.unwrap_or(0))
        };
        listed.items.into_iter().map(of).collect()
    }

    async fn status(&self, block: u32, status: Value) {
        let name = format!("boatswain-default-{block}");
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        let patched = self.workloads.patch_status(&name, &params, &patch);
        patched.await.unwrap();
        seconds(6).await;
    }

    /// Admits so many pods of a block.
    async fn admit(&self, block: u32, pods: u32) {
        let assignment = json!({"name": "main", "count": pods, "flavors": {"cpu": "spot"}});
        let admission = json!({"clusterQueue": "all", "podSetAssignments": [assignment]});
        let conditions = ["QuotaReserved", "Admitted"].map(|kind| condition(kind, "Admitted"));
        let status = json!({"admission": admission, "conditions": conditions});
        self.status(block, status).await;
    }

    async fn evict(&self, block: u32) {
        let kinds = ["QuotaReserved", "Admitted", "Evicted"];
        let conditions = kinds.map(|kind| condition(kind, "Preempted"));
        self.status(block, json!({"conditions": conditions})).await;
    }

    async fn names(&self) -> Vec<String> {
        let pods = Server::of(self.cluster.clone()).pods().await;
        pods.into_iter().map(|(name, _)| name).collect()
    }

    /// How many pods there are of each block.
    async fn pods(&self) -> BTreeMap<u32, u32> {
        let state = self.cluster.state().await;
        let mut pods = BTreeMap::new();
        for pod in state.pods("default") {
            let block = pod["metadata"]["labels"]["boatswain.dev/block"].as_str();
            let block = block.and_then(|block| block.parse().ok());
            *pods.entry(block.unwrap_or(0)).or_default() += 1;
        }
        pods
    }
}

fn condition(kind: &str, reason: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "message": "so decided"})
}

struct Driver {
    server: Server,
    handle: Handle,
    task: JoinHandle<Exit>,
}

impl Driver {
    async fn target(&self, executors: u32) {
        let targets = BTreeMap::from([("default".into(), executors)]);
        self.handle.set_targets(targets).await.unwrap().unwrap();
    }

    /// Ends like a killed process: no further request reaches the server.
    async fn dies(self) {
        self.server.set_network(Network::Silent).await;
        self.task.abort();
    }
}

// spec
#[actix::test]
async fn pods_are_created_as_far_as_their_block_is_admitted_and_the_rest_is_queued_again() {
    tokio::time::pause();
    let world = World::of(cluster()).await;
    let _driver = world.start(4, 1, &["profiles.default.cpu=500m"]);
    seconds(5).await;
    assert_eq!(world.blocks().await, [(1, 4)]);
    assert_eq!(world.pods().await, [].into());
    let workload = world.workload(1).await;
    assert_eq!(workload["spec"]["queueName"], "team");
    let set = &workload["spec"]["podSets"][0];
    assert_eq!(set["minCount"], 1);
    let container = &set["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"]["requests"]["cpu"], "500m");
    let owner = &workload["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["controller"]),
        (&json!("ConfigMap"), &json!(true))
    );

    world.admit(1, 3).await;
    assert_eq!(world.pods().await, [(1, 3)].into());
    assert_eq!(world.blocks().await, [(1, 4), (2, 1)]);
    let state = world.cluster.state().await;
    let pod = state.pods("default").next().unwrap();
    assert_eq!(pod["spec"]["nodeSelector"], json!({"pool": "spot"}));
    let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
    assert!(
        tolerations.iter().any(|one| one["key"] == "spot"),
        "{tolerations:?}"
    );
    world.admit(2, 1).await;
    assert_eq!(world.pods().await, [(1, 3), (2, 1)].into());
    assert_eq!(world.blocks().await, [(1, 4), (2, 1)]);
}

// spec
#[actix::test]
async fn blocks_follow_the_target_up_and_down() {
    tokio::time::pause();
    let world = World::of(cluster()).await;
    let driver = world.start(2, 1, &[]);
    seconds(5).await;
    world.admit(1, 2).await;
    driver.target(4).await;
    seconds(3).await;
    assert_eq!(world.blocks().await, [(1, 2), (2, 2)]);
    driver.target(5).await;
    seconds(3).await;
    assert_eq!(
        world.blocks().await,
        [(1, 2), (2, 3)],
        "it was not admitted yet"
    );
    world.admit(2, 3).await;
    assert_eq!(world.pods().await, [(1, 2), (2, 3)].into());
    driver.target(1).await;
    seconds(60).await;
    assert_eq!(world.pods().await, [(1, 1)].into());
    assert_eq!(world.blocks().await, [(1, 1)]);
    driver.target(2).await;
    seconds(5).await;
    assert_eq!(
        world.blocks().await,
        [(1, 1), (2, 1)],
        "no place comes back"
    );
    assert_eq!(world.pods().await, [(1, 1)].into());
}

// spec: A-93
#[actix::test]
async fn the_executors_of_an_evicted_block_go_and_come_back_with_another_one() {
    tokio::time::pause();
    let world = World::of(cluster()).await;
    let driver = world.start(3, 1, &[]);
    seconds(5).await;
    world.admit(1, 2).await;
    world.admit(2, 1).await;
    assert_eq!(world.pods().await, [(1, 2), (2, 1)].into());
    world.evict(1).await;
    seconds(10).await;
    assert_eq!(world.pods().await, [(2, 1)].into());
    assert_eq!(world.blocks().await, [(2, 1), (3, 2)]);
    world.admit(3, 2).await;
    assert_eq!(world.pods().await, [(2, 1), (3, 2)].into());
    let name = "boatswain-default-2";
    let params = DeleteParams::default();
    world.workloads.delete(name, &params).await.unwrap();
    seconds(15).await;
    assert_eq!(world.pods().await, [(3, 2)].into());
    assert_eq!(world.blocks().await, [(3, 2), (4, 1)]);
    let snapshot = driver.handle.look().await.unwrap();
    assert_eq!(snapshot.counts(&"default".into()).live(), 2);
}

// spec
#[actix::test]
async fn a_successor_of_a_killed_driver_knows_which_places_are_taken() {
    tokio::time::pause();
    let world = World::of(cluster()).await;
    let first = world.start(4, 1, &[]);
    seconds(5).await;
    world.admit(1, 3).await;
    assert_eq!(world.pods().await, [(1, 3)].into());
    first.dies().await;
    let second = world.start(4, 2, &[]);
    seconds(10).await;
    assert_eq!(world.pods().await, [(1, 3)].into());
    assert_eq!(world.blocks().await, [(1, 4), (2, 1)]);
    let executor = world.names().await.swap_remove(0);
    let client = kube::Client::new(world.cluster.router(), "default");
    let pods = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
    let pods: Api<DynamicObject> = Api::default_namespaced_with(client, &pods);
    pods.delete(&executor, &DeleteParams::default())
        .await
        .unwrap();
    seconds(40).await;
    assert_eq!(
        world.pods().await,
        [(1, 3)].into(),
        "it was replaced in its place"
    );
    world.admit(2, 1).await;
    assert_eq!(world.pods().await, [(1, 3), (2, 1)].into());
    assert_eq!(second.handle.look().await.unwrap().entries.len(), 4);
}

// spec: A-109
#[actix::test]
async fn without_kueue_nothing_is_requested_until_it_is_installed() {
    tokio::time::pause();
    let world = World::of(cluster()).await;
    let server = Server::of(world.cluster.clone());
    server.set_network(Network::WithoutKueue).await;
    let (_handle, running) = start_in(config(2, "end", &QUEUE), server.environment(1));
    let running = actix::spawn(running);
    seconds(120).await;
    assert_eq!(world.pods().await, [].into());
    assert!(!running.is_finished(), "it is degraded");
    server.set_network(Network::Works).await;
    seconds(61).await;
    assert_eq!(world.blocks().await, [(1, 2)]);
    world.admit(1, 2).await;
    assert_eq!(world.pods().await, [(1, 2)].into());
}

// spec: A-95, O-11
#[actix::test]
async fn the_end_of_the_application_deletes_its_workloads_itself() {
    tokio::time::pause();
    let without_garbage_collector = Options {
        node: NodeKind::Simulated(SimulatedNode::default()),
        collect_garbage: false,
        ..Options::default()
    };
    let world = World::of(devcluster::start(without_garbage_collector)).await;
    let driver = world.start(3, 1, &[]);
    seconds(5).await;
    world.admit(1, 2).await;
    assert_eq!(world.blocks().await, [(1, 3), (2, 1)]);
    driver.handle.stop();
    assert_eq!(driver.task.await.unwrap(), Exit::Clean);
    assert_eq!(world.blocks().await, []);
    seconds(5).await;
    assert_eq!(world.pods().await, [].into(), "they have terminated");
}
