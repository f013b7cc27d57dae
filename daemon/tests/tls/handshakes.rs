//! Handshakes that do not end hold up nobody.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::clients::metric;
use crate::common::certs::Authority;
use crate::common::{scratch, until};
use crate::{HERE, serving};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_that_never_finish_do_not_stop_a_good_one() {
    let dir = scratch("tls-slow");
    let ca = Authority::new("ours");
    let daemon = serving(&ca, ca.issue(&HERE).write(&dir, "host")).await;
    let address = daemon.url.trim_start_matches("https://").to_owned();
    let mut stalled = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        // Nothing, or the beginning of a record that is said to be longer.
        if number % 2 == 0 {
            stream.write_all(&[0x16, 0x03, 0x01, 0x40, 0x00, 0x01]).await.unwrap();
        }
        stalled.push(stream);
    }
    for _ in 0..20 {
        let client = ca.client().build().unwrap();
        let answer = client.get(format!("{}/healthz", daemon.url)).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    }
    // Each is cut off in its time, though nothing asks for its place.
    for mut stream in stalled {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    }
    let timed_out = "ringscope_tls_handshakes_total{result=\"timed_out\"}";
    until("all have been cut off", async || metric(&daemon, timed_out).await >= 200.0).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_stops_while_handshakes_hang() {
    let dir = scratch("tls-stop");
    let ca = Authority::new("ours");
    let daemon = serving(&ca, ca.issue(&HERE).write(&dir, "host")).await;
    let address = daemon.url.trim_start_matches("https://").to_owned();
    let _stalled = TcpStream::connect(&address).await.unwrap();
    daemon.until_ready().await;
    let grace = ringscope_daemon::serve::GRACE;
    tokio::time::timeout(grace, daemon.stop()).await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_neither_tls_nor_http_is_closed_and_counted() {
    let dir = scratch("tls-noise");
    let ca = Authority::new("ours");
    let daemon = serving(&ca, ca.issue(&HERE).write(&dir, "host")).await;
    let address = daemon.url.trim_start_matches("https://").to_owned();
    for noise in [&b"\0\0\0\0"[..], b"\x16\x03\x01\0\x05hello", b"ssh-2.0"] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(noise).await.unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(!String::from_utf8_lossy(&rest).contains("HTTP"), "{rest:?}");
    }
    let failed = "ringscope_tls_handshakes_total{result=\"failed\"}";
    until("all are counted", async || metric(&daemon, failed).await >= 3.0).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_1_2_and_1_3_are_spoken_and_nothing_older() {
    use reqwest::tls::Version;

    let dir = scratch("tls-versions");
    let ca = Authority::new("ours");
    let daemon = serving(&ca, ca.issue(&HERE).write(&dir, "host")).await;
    for version in [Version::TLS_1_2, Version::TLS_1_3] {
        let client = ca.client().min_tls_version(version).max_tls_version(version).build().unwrap();
        let answer = client.get(format!("{}/healthz", daemon.url)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{version:?}");
    }
    // The hello of a client of TLS 1.1: its version, a random number, no session, one cipher suite, no compression, and the
    // signatures that it knows: without them that would be the reason.
    let extensions = [0, 8, 0, 13, 0, 4, 0, 2, 4, 3];
    let hello = [&[3, 2][..], &[7; 32], &[0], &[0, 2, 0, 0x2f], &[1, 0], &extensions].concat();
    let length = u8::try_from(hello.len()).unwrap();
    let record = [&[0x16, 3, 1, 0, length + 4, 1, 0, 0, length][..], &hello].concat();
    let mut stream = TcpStream::connect(daemon.url.trim_start_matches("https://")).await.unwrap();
    stream.write_all(&record).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    // A fatal alert and nothing else: handshake_failure or protocol_version.
    assert!(matches!(answer[..], [0x15, _, _, 0, 2, 2, 40 | 70]), "{answer:?}");
    daemon.stop().await;
}
