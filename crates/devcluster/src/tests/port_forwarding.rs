//! Port-forwards with the real client, to listeners of this process.

use std::net::Ipv4Addr;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::{Client, Config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::{KnownUser, ProcessNode, Seed, Server};

/// ann may read pods and, as it looks, their ports.
const ROLES: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods, pods/portforward], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: User, name: ann}]
"#;

/// A cluster with a pod `a`.
async fn serving(state_dir: &Path) -> (DevCluster, std::net::SocketAddr) {
    let ann = KnownUser {
        token: "of-ann".to_owned(),
        name: "ann".to_owned(),
        uid: String::new(),
        groups: Vec::new(),
    };
    let cluster = super::super::start(Options {
        node: NodeKind::Process(ProcessNode {
            state_dir: Some(state_dir.to_owned()),
            ..ProcessNode::default()
        }),
        token: Some("own".to_owned()),
        users: vec![ann],
        roles: Some(Seed::parse(ROLES).expect("roles")),
        ..options()
    });
    let server = Server::bind(cluster.clone(), (Ipv4Addr::LOCALHOST, 0).into()).await;
    let server = server.expect("a server");
    let address = server.address();
    tokio::spawn(server.run());
    let pods = pods_as("own", address);
    let mut a = pod("a");
    a["spec"]["nodeName"] = "local".into();
    let a: Pod = serde_json::from_value(a).expect("a pod");
    let created = pods.create(&Default::default(), &a).await;
    created.expect("created");
    (cluster, address)
}

fn pods_as(token: &str, address: std::net::SocketAddr) -> Api<Pod> {
    let url = format!("http://{address}").parse().expect("a URL");
    let mut config = Config::new(url);
    config.auth_info.token = Some(token.to_owned().into());
    Api::default_namespaced(Client::try_from(config).expect("a client"))
}

/// A port where what comes in is sent back, and one where nobody listens.
async fn ports() -> [u16; 2] {
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let echo = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let ports = [&echo, &free].map(|listener| listener.local_addr().expect("an address").port());
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = echo.accept().await {
            tokio::spawn(async move {
                let (mut reads, mut writes) = connection.split();
                tokio::io::copy(&mut reads, &mut writes).await
            });
        }
    });
    ports
}

#[tokio::test]
async fn bytes_reach_a_port_and_come_back_and_a_closed_port_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let (cluster, address) = serving(dir.path()).await;
    let [echo, closed] = ports().await;
    let pods = pods_as("own", address);
    let mut forwarder = pods
        .portforward("a", &[closed, echo])
        .await
        .expect("an upgrade");
    let sent: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let (mut reads, mut writes) = tokio::io::split(forwarder.take_stream(echo).expect("a stream"));
    let (came, wrote) = tokio::join!(
        async {
            let mut came = vec![0; sent.len()];
            timeout(SOON, reads.read_exact(&mut came))
                .await
                .map(|_| came)
        },
        writes.write_all(&sent),
    );
    wrote.expect("written");
    assert_eq!(came.expect("in time"), sent);
    let refused = forwarder.take_error(closed).expect("an error's future");
    let refused = timeout(SOON, refused)
        .await
        .expect("in time")
        .expect("an error");
    assert!(refused.starts_with("error forwarding port"), "{refused}");
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_port_forward_needs_the_right_to_create_one_and_a_pod() {
    let dir = tempfile::tempdir().expect("a directory");
    let (cluster, address) = serving(dir.path()).await;
    let refused =
        async |token: &str, pod: &str| match pods_as(token, address).portforward(pod, &[1]).await {
            Ok(_) => panic!("{token} is not refused at {pod}"),
            Err(error) => error.to_string(),
        };
    for (token, pod, code) in [
        ("of-ann", "a", 403),
        ("of-nobody", "a", 401),
        ("own", "b", 404),
    ] {
        let error = refused(token, pod).await;
        assert!(error.contains(&code.to_string()), "{token} {pod}: {error}");
    }
    cluster.shutdown().await;
}
