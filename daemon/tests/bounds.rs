//! What strangers may cost a daemon that runs as a process of its own: its memory, its time, the others' turn.

#![allow(missing_docs, reason = "a test")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by them"
)]

mod common;

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::batches::{SMALL, START_NS};
use common::{TempDir, free_port, scratch, until};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use reqwest::{Response, StatusCode};
use ringscope_api::clock;
use ringscope_wire::batch::Batch;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PROTOBUF: &str = "application/x-protobuf";

/// `ringscope serve`, which ends with the value.
struct Serving {
    child: Child,
    address: String,
    client: reqwest::Client,
    _dir: TempDir,
}

impl Serving {
    async fn start() -> Self {
        let (dir, address) = (scratch("bounds"), format!("127.0.0.1:{}", free_port()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringscope"));
        command.args(["serve", "--listen", &address, "--database-url", "none", "--with-agent", "false"]);
        command.arg("--data-dir").arg(dir.as_os_str()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let serving = Self { child, address, client: reqwest::Client::new(), _dir: dir };
        until("ready", async || {
            serving.get("/readyz").await.is_some_and(|answer| answer.status().is_success())
        })
        .await;
        serving
    }

    async fn get(&self, path: &str) -> Option<Response> {
        self.client.get(format!("http://{}{path}", self.address)).send().await.ok()
    }

    async fn post(&self, body: Vec<u8>, packing: &str) -> Response {
        let request = self.client.post(format!("http://{}/api/v1/ingest", self.address)).body(body);
        request.header("content-type", PROTOBUF).header("content-encoding", packing).send().await.unwrap()
    }

    /// A line of /proc/PID/status, in KiB.
    fn memory_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Begins to look for the largest memory anew; what it is now.
    fn forget_peak(&self) -> u64 {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").unwrap();
        self.memory_kib("VmRSS")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn small() -> Batch {
    SMALL.batch(0, 1, 3, START_NS)
}

/// A batch with so many processes of which nothing is said: two bytes each.
fn empty_processes(n: usize) -> Vec<u8> {
    let mut bytes = small().encode_to_vec();
    bytes.extend([0x32, 0].repeat(n));
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_body_that_would_become_gigabytes_is_refused_at_once() {
    let daemon = Serving::start().await;
    let unpacked = empty_processes(8_300_000);
    let bodies = [
        ("gzip", gzip(&unpacked)),
        ("zstd", zstd::encode_all(&*unpacked, 19).unwrap()),
        ("gzip", gzip(&empty_processes(1_000_000))),
        // Longer than a batch may be, and none from the beginning.
        ("gzip", gzip(&vec![0; 64 << 20])),
    ];
    // What the first request of all takes is not this body's.
    assert_eq!(daemon.post(small().encode_to_vec(), "identity").await.status(), StatusCode::OK);
    for (packing, body) in bodies {
        let length = body.len();
        let before = daemon.forget_peak();
        let mut took = Vec::new();
        for _ in 0..20 {
            let asked = clock::monotonic();
            let refused = daemon.post(body.clone(), packing).await;
            took.push(asked.elapsed());
            let status = refused.status();
            assert!(matches!(status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::BAD_REQUEST), "{status}");
        }
        // The machine may do something else meanwhile; the daemon's own time is the shortest.
        let (shortest, peak) = (*took.iter().min().unwrap(), daemon.memory_kib("VmHWM"));
        println!("{length} bytes of {packing}: {shortest:?}, {} KiB", peak.saturating_sub(before));
        assert!(shortest < Duration::from_millis(10), "{packing} {length}: {took:?}");
        assert!(peak.saturating_sub(before) < 10 << 10, "{packing} {length}: {before} KiB, then {peak} KiB");
    }
    assert_eq!(daemon.post(gzip(&small().encode_to_vec()), "gzip").await.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_many_processes_is_not_taken_for_one_of_those() {
    let daemon = Serving::start().await;
    let mut batch = small();
    let process = batch.processes[0].clone();
    batch.processes = (0..5000)
        .map(|n| {
            let mut process = process.clone();
            process.key = format!("node-a/{n}/{START_NS}");
            process
        })
        .collect();
    let bytes = batch.encode_to_vec();
    for (packing, body) in
        [("identity", bytes.clone()), ("gzip", gzip(&bytes)), ("zstd", zstd::encode_all(&*bytes, 3).unwrap())]
    {
        assert_eq!(daemon.post(body, packing).await.status(), StatusCode::OK, "{packing}");
    }
    // And 4000 of which nothing is new.
    batch.processes.iter_mut().for_each(|process| {
        let key = std::mem::take(&mut process.key);
        *process = ringscope_wire::batch::Process { key, ..Default::default() };
    });
    batch.seq_number = 2;
    assert_eq!(daemon.post(batch.encode_to_vec(), "identity").await.status(), StatusCode::OK);
}

/// Begins uploads of 16 MiB, of which so many bytes come and no more.
async fn stalled(address: &str, n: usize, bytes: usize) -> Vec<TcpStream> {
    let head = format!(
        "POST /api/v1/ingest HTTP/1.1\r\nhost: {address}\r\ncontent-type: {PROTOBUF}\r\ncontent-length: 16777216\r\n\r\n"
    );
    let body = vec![0x32; bytes];
    let mut streams = Vec::new();
    for _ in 0..n {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // Who finds no room is cut off meanwhile.
        let _ = stream.write_all(&body).await;
        streams.push(stream);
    }
    streams
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_uploads_that_stand_still_take_little_and_make_room_again() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    for bytes in [0, 8 << 10, 100 << 10, 1 << 20] {
        let daemon = Serving::start().await;
        assert_eq!(daemon.post(small().encode_to_vec(), "identity").await.status(), StatusCode::OK);
        let before = daemon.forget_peak();
        let mut streams = stalled(&daemon.address, 1000, bytes).await;
        assert!(daemon.get("/healthz").await.is_some_and(|answer| answer.status().is_success()));
        let grown = daemon.memory_kib("VmHWM").saturating_sub(before);
        println!("1000 uploads that stand still after {bytes} bytes: {grown} KiB");
        // What a connection keeps of itself is several times larger in a build without optimizations.
        let most = if cfg!(debug_assertions) { 128 << 10 } else { 64 << 10 };
        assert!(grown <= most, "{bytes}: {grown} KiB");
        // Either there is room for a batch, or somebody is told to come again; when the others time out there is.
        let answer = daemon.post(small().encode_to_vec(), "identity").await;
        if answer.status() != StatusCode::OK {
            // All come from one address, which has its share.
            assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
            assert!(answer.headers().contains_key("retry-after"));
        }
        until("room", async || {
            daemon.post(small().encode_to_vec(), "identity").await.status() == StatusCode::OK
        })
        .await;
        let mut answers = Vec::new();
        for stream in &mut streams {
            let mut answer = vec![0; 64];
            let n =
                tokio::time::timeout(common::PATIENCE, stream.read(&mut answer)).await.expect("an answer");
            answers.push(String::from_utf8_lossy(&answer[..n.unwrap_or(0)]).into_owned());
        }
        let told = |status: &str| answers.iter().filter(|answer| answer.contains(status)).count();
        let (stalled, full) = (told(" 408 "), told(" 429 "));
        println!("{stalled} were told 408, {full} 429");
        assert!(stalled > 0, "{answers:?}");
        // A thousand times 8 KiB find room; a thousand times 1 MiB do not, however slowly they come.
        assert!(if bytes <= 8 << 10 { full == 0 } else { full > 0 || bytes < 1 << 20 }, "{bytes}: {full}");
    }
}

/// 4 GB of a log in 5 MB of gzip: the same megabyte again and again.
fn long_log() -> Vec<u8> {
    let line = "node0:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n";
    gzip(line.repeat((1 << 20) / line.len()).as_bytes()).repeat(4000)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_ends_when_the_client_has_left() {
    let daemon = Serving::start().await;
    let log = long_log();
    let head = format!(
        "POST /api/v1/import HTTP/1.1\r\nhost: {}\r\ncontent-type: application/gzip\r\ncontent-length: {}\r\n\
         expect: 100-continue\r\n\r\n",
        daemon.address,
        log.len()
    );
    let import = async |body: &'static str| {
        let request = daemon.client.post(format!("http://{}/api/v1/import", daemon.address)).body(body);
        request.header("content-type", "application/octet-stream").send().await.unwrap()
    };
    let mut streams = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(&daemon.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // It is told to go on once it has its place.
        let mut answer = [0; 25];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(&log[..64 << 10]).await.unwrap();
        streams.push(stream);
    }
    assert_eq!(import("no log").await.status(), StatusCode::TOO_MANY_REQUESTS);
    let left = clock::monotonic();
    drop(streams);
    // To read what they have sent takes minutes; to read on to where they left, a moment.
    let patience = Duration::from_secs(20);
    common::eventually_within(patience, "room for a file", async || {
        (import("no log").await.status() == StatusCode::UNPROCESSABLE_ENTITY).then_some(())
    })
    .await;
    println!("four imports ended {:?} after their clients left", left.elapsed());
}
