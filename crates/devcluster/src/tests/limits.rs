use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::*;

/// A served cluster, and its address.
async fn served(tasks: &mut JoinSet<()>) -> SocketAddr {
    let cluster = super::super::start(Options {
        token: Some("secret".to_owned()),
        ..options()
    });
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = crate::Server::bind(cluster, any).await.expect("a server");
    let address = server.address();
    tasks.spawn(async { server.run().await.expect("served") });
    address
}

/// Sends text, and reads what comes.
async fn talk(client: &mut TcpStream, text: &str) -> String {
    client.write_all(text.as_bytes()).await.expect("sent");
    let mut answer = vec![0; 10_000];
    let read = timeout(Duration::from_secs(1), client.read(&mut answer)).await;
    let length = read.expect("an answer or the end").unwrap_or(0);
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[tokio::test]
async fn a_client_with_too_large_a_body_is_told_so_and_keeps_its_connection() {
    let mut tasks = JoinSet::new();
    let address = served(&mut tasks).await;
    let mut client = TcpStream::connect(address).await.expect("connected");
    let body = "x".repeat(3_500_000);
    let request = format!(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: a\r\nauthorization: Bearer secret\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = talk(&mut client, &request).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let next = "GET /healthz HTTP/1.1\r\nhost: a\r\nauthorization: Bearer secret\r\n\r\n";
    let answer = talk(&mut client, next).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
