//! Who does not wait for an answer, and streams of who may no longer read.

use futures::StreamExt as _;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::access::with_tokens;
use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::problem;
use crate::common::{PATIENCE, scratch, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_before_the_answer_is_written_down() {
    let dir = scratch("left");
    let (daemon, [_, _, operate, admin]) = with_tokens(&dir).await;
    let address = daemon.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /api/v1/import?file=a.log HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {operate}\r\n\
         content-type: application/octet-stream\r\ncontent-length: 1000\r\nexpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // It is told to go on once the handler has it.
    let mut answer = [0; 25];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    drop(stream);
    // As one whose body could not be read, or, where that was not noticed first, as one that left.
    until("the import is written down", async || {
        let told = daemon.audit(&admin).await;
        told.iter().any(|(action, who, status)| {
            action == "import" && who == "the operate" && [400, 499].contains(status)
        })
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_with_a_nul_is_refused_before_anybody_keeps_it() {
    let dir = scratch("nul");
    let (daemon, [_, _, _, admin]) = with_tokens(&dir).await;
    for (method, path) in [
        (Method::POST, "/api/v1/import?file=a%00b&job=train"),
        (Method::GET, "/api/v1/audit?who=%00"),
        (Method::DELETE, "/api/v1/tokens/a%00"),
    ] {
        let asked = daemon.ask(method, path, &admin).header("content-type", "application/octet-stream");
        problem(asked.send().await.unwrap(), 400, "NUL").await;
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_when_its_token_is_revoked() {
    let dir = scratch("stream");
    let (daemon, [ingest, read, _, admin]) = with_tokens(&dir).await;
    let stream = daemon.get_as("/api/v1/events", &read).await;
    assert_eq!(stream.status(), StatusCode::OK);
    let path = format!("/api/v1/tokens/{}", read.split('_').nth(1).unwrap());
    assert_eq!(daemon.ask(Method::DELETE, &path, &admin).send().await.unwrap().status(), 200);
    let send = async |seq_number: u64| {
        use prost::Message as _;
        let mut batch = SMALL.batch(0, 1, 3 + seq_number, START_NS);
        batch.seq_number = seq_number;
        let sent = daemon.ask(Method::POST, "/api/v1/ingest", &ingest);
        let sent = sent.header("content-type", "application/x-protobuf").body(batch.encode_to_vec());
        assert_eq!(sent.send().await.unwrap().status(), StatusCode::OK);
    };
    let mut stream = stream.bytes_stream();
    send(2).await;
    let ends = async {
        while let Some(piece) = stream.next().await {
            let text = String::from_utf8_lossy(&piece.unwrap()).into_owned();
            assert!(!text.contains("changed"), "{text}");
        }
    };
    tokio::time::timeout(PATIENCE, ends).await.expect("the stream ends");
    let told: Value = daemon.get_as("/api/v1/audit?action=token_revoke", &admin).await.json().await.unwrap();
    assert_eq!(told["items"].as_array().unwrap().len(), 1);
    daemon.stop().await;
}
