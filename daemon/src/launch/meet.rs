//! Nodes that somebody else has started: they come to node 0, over TCP, and each side shows the other that it knows the secret.
//!
//! Node 0 tells a node numbers and addresses, and the secret of this start's summation service. Command, environment, folder,
//! servers' program and agent are those of the node's own line, whatever it is told. The secret by which they meet is never sent.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hmac::{Hmac, Mac as _};
use ringscope_api::clock;
use rustix::process::{Pid, Signal, kill_process};
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::OWN_PROGRAM;
use super::args::{Meeting, Node};
use super::link::{self, Ended, Link, Sinks};
use super::node::NodeArgs;
use super::place::Ways;
use super::protocol::Order;
use super::say::Say;
use super::signals::Signals;

const GREETING: &[u8; 17] = b"ringscope-meet 1\n";
const NONCE: usize = 32;
const PROOF: usize = 32;
/// Who is of the job answers at once.
const SHAKES_WITHIN: Duration = Duration::from_secs(5);
/// Strangers that are heard at once.
const STRANGERS: usize = 256;
/// Between two tries of a node that is there before node 0.
const RETRY: Duration = Duration::from_millis(250);

/// Between two signs of life: several within the time after which silence is an end.
pub(super) fn pings(silence: Duration) -> Duration {
    (silence / 3).clamp(Duration::from_millis(10), PING)
}

/// Between two signs of life at most.
const PING: Duration = Duration::from_secs(2);

/// Whether a place is on this machine alone.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Node 0's side: waits until all other nodes have come.
///
/// # Errors
/// It cannot listen, or some have not come in time, in words.
pub(super) async fn all(
    meeting: &Meeting,
    count: u32,
    mut missing: BTreeSet<usize>,
    secret: &str,
    ways: &Ways,
    sinks: &Sinks,
) -> Result<BTreeMap<usize, Link>, String> {
    let mut links = BTreeMap::new();
    if missing.is_empty() {
        return Ok(links);
    }
    let listener = listen(meeting).await?;
    let (came, mut coming) = channel(STRANGERS);
    let heard = Arc::new(Semaphore::new(STRANGERS));
    let until = clock::monotonic() + ways.connect_timeout;
    let mut ping = tokio::time::interval(pings(ways.silence));
    while !missing.is_empty() {
        tokio::select! {
            () = tokio::time::sleep_until(until.into()) => return Err(absent(count, &missing, ways)),
            // Who came early would else take the silence for this side's end. One that takes no orders is noticed later.
            _ = ping.tick() => links.values().for_each(|link: &Link| drop(link.orders.try_send(Order::Ping(0)))),
            accepted = listener.accept() => match accepted {
                // Beyond the bound it is closed: who is of the job comes again.
                Ok((stream, _)) => if let Ok(place) = Arc::clone(&heard).try_acquire_owned() {
                    greet((stream, place), count, secret, &came, sinks);
                },
                // No descriptor is left for it now.
                Err(_) => tokio::time::sleep(RETRY).await,
            },
            Some((index, stream, hello)) = coming.recv() => {
                let name = format!("node {index}");
                link::check(&name, &hello, ways)?;
                // One that comes again was started again: its first connection is gone, or will be noticed to be.
                missing.remove(&index);
                let (read, write) = tokio::io::split(stream);
                let streams = (BufReader::new(read), write);
                let link = link::stand(index, &name, streams, hello, Ended::default(), sinks);
                links.insert(index, link);
            }
        }
    }
    Ok(links)
}

async fn listen(meeting: &Meeting) -> Result<TcpListener, String> {
    let failed = |error: io::Error| {
        format!(
            "node 0 cannot listen on port {}: {error}; name another with --meet on all nodes",
            meeting.port
        )
    };
    // Only where the others come over the network, anybody may.
    if is_loopback(&meeting.host) {
        return TcpListener::bind((meeting.host.as_str(), meeting.port)).await.map_err(failed);
    }
    match TcpListener::bind(("::", meeting.port)).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(failed(error)),
        Err(_) => TcpListener::bind(("0.0.0.0", meeting.port)).await.map_err(failed),
    }
}

fn absent(count: u32, missing: &BTreeSet<usize>, ways: &Ways) -> String {
    let shown: Vec<String> = missing.iter().take(16).map(usize::to_string).collect();
    format!(
        "of {count} nodes {} have not come within {} s: {}{}; are they started, with the same line and the same secret, and do \
         they reach --meet?",
        missing.len(),
        ways.connect_timeout.as_secs(),
        shown.join(", "),
        if missing.len() > shown.len() { ", …" } else { "" }
    )
}

type Came = (usize, TcpStream, super::protocol::Hello);

/// Hears who it is, beside all others.
fn greet(
    (mut stream, place): (TcpStream, OwnedSemaphorePermit),
    count: u32,
    secret: &str,
    came: &Sender<Came>,
    sinks: &Sinks,
) {
    let (secret, came) = (secret.to_owned(), came.clone());
    sinks.tasks.spawn(async move {
        let heard = tokio::time::timeout(SHAKES_WITHIN, async {
            let index = ask(&mut stream, count, &secret).await?;
            let hello = link::greeted(&mut stream, &mut Vec::new()).await?;
            io::Result::Ok((index, hello))
        });
        if let Ok(Ok((index, hello))) = heard.await {
            let _ = came.send((index, stream, hello)).await;
        }
        drop(place);
    });
}

/// Node 0's part of the handshake: which node it is.
async fn ask(stream: &mut TcpStream, count: u32, secret: &str) -> io::Result<usize> {
    let ours = nonce()?;
    stream.set_nodelay(true)?;
    stream.write_all(&[GREETING.as_slice(), &ours].concat()).await?;
    let mut theirs = [0; NONCE];
    stream.read_exact(&mut theirs).await?;
    let (index, of) = (stream.read_u32().await?, stream.read_u32().await?);
    let mut proof = [0; PROOF];
    stream.read_exact(&mut proof).await?;
    let said = [b"node".as_slice(), &ours, &theirs, &index.to_be_bytes(), &of.to_be_bytes()];
    if mac(secret, &said)?.verify_slice(&proof).is_err() {
        stream.write_u8(WRONG_SECRET).await?;
        return Err(io::Error::other("another secret"));
    }
    if of != count || index == 0 || index >= count {
        stream.write_u8(WRONG_NUMBER).await?;
        return Err(io::Error::other("another job"));
    }
    let answer = mac(secret, &[b"root", &theirs, &ours])?.finalize().into_bytes();
    stream.write_all(&[&[WELCOME], answer.as_slice()].concat()).await?;
    usize::try_from(index).map_err(io::Error::other)
}

const WELCOME: u8 = 0;
const WRONG_SECRET: u8 = 1;
const WRONG_NUMBER: u8 = 2;

fn nonce() -> io::Result<[u8; NONCE]> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(nonce)
}

fn mac(secret: &str, parts: &[&[u8]]) -> io::Result<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map_err(io::Error::other)?;
    parts.iter().for_each(|part| mac.update(part));
    Ok(mac)
}

/// Another node's side: goes to node 0, and serves it until the job is over; the job's exit status.
pub(super) async fn serve(
    node: Node,
    meeting: &Meeting,
    secret: &str,
    (args, ways): (&NodeArgs, &Ways),
    say: &Say,
    signals: &mut Signals,
) -> u8 {
    let until = clock::monotonic() + ways.connect_timeout;
    let stream = tokio::select! {
        came = go(node, meeting, secret, until) => came,
        signal = ending(signals) => return u8::try_from(128 + signal).unwrap_or(1),
    };
    let stream = match stream {
        Ok(stream) => stream,
        Err(error) => {
            say.note(&format!(
                "node {} cannot meet node 0 at {}:{}: {error}",
                node.index, meeting.host, meeting.port
            ));
            return 1;
        }
    };
    match guarded(stream, args, ways) {
        Ok(guard) => wait(guard, signals).await,
        Err(error) => {
            say.note(&format!("node {}: cannot start its host side: {error}", node.index));
            1
        }
    }
}

async fn ending(signals: &mut Signals) -> i32 {
    loop {
        match signals.next().await {
            libc::SIGCHLD => {}
            signal => return signal,
        }
    }
}

async fn go(node: Node, meeting: &Meeting, secret: &str, until: Instant) -> Result<TcpStream, String> {
    loop {
        let tried =
            tokio::time::timeout_at(until.into(), TcpStream::connect((meeting.host.as_str(), meeting.port)))
                .await;
        let error = match tried {
            Ok(Ok(mut stream)) => {
                match tokio::time::timeout(SHAKES_WITHIN, answer(&mut stream, node, secret)).await {
                    Ok(Ok(None)) => return Ok(stream),
                    Ok(Ok(Some(refused))) => return Err(refused.to_owned()),
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "who listens there does not answer".to_owned(),
                }
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it does not answer".to_owned(),
        };
        if clock::monotonic() + RETRY >= until {
            return Err(format!("{error}; is node 0 started, and is --meet right?"));
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// The node's part of the handshake: why it is refused, if it is.
async fn answer(stream: &mut TcpStream, node: Node, secret: &str) -> io::Result<Option<&'static str>> {
    let mut greeting = [0; GREETING.len()];
    let mut theirs = [0; NONCE];
    stream.set_nodelay(true)?;
    stream.read_exact(&mut greeting).await?;
    stream.read_exact(&mut theirs).await?;
    if &greeting != GREETING {
        return Err(io::Error::other("who listens there is no launch of this release"));
    }
    let ours = nonce()?;
    let (index, count) = (node.index.to_be_bytes(), node.count.to_be_bytes());
    let proof = mac(secret, &[b"node", &theirs, &ours, &index, &count])?.finalize().into_bytes();
    stream.write_all(&[&ours, index.as_slice(), &count, &proof].concat()).await?;
    match stream.read_u8().await? {
        WELCOME => {}
        WRONG_SECRET => {
            return Ok(Some("its secret is another one: give all nodes the same with --secret-file"));
        }
        _ => {
            return Ok(Some(
                "it waits for other nodes: --node I/N must have the same N on all, and each I once",
            ));
        }
    }
    let mut proof = [0; PROOF];
    stream.read_exact(&mut proof).await?;
    if mac(secret, &[b"root", &ours, &theirs])?.verify_slice(&proof).is_err() {
        return Ok(Some("who listens there does not know the secret"));
    }
    Ok(None)
}

/// The host side, with the connection as its standard streams.
fn guarded(stream: TcpStream, args: &NodeArgs, ways: &Ways) -> io::Result<u32> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    let (read, write) = (OwnedFd::from(stream.try_clone()?), OwnedFd::from(stream));
    let mut command = Command::new(OWN_PROGRAM);
    // Its connection is the job's channel, and not this process's end.
    command.arg0("ringscope").args(["launch-node", "--parent", &std::process::id().to_string()]);
    command.envs(args.own.environment.iter().map(|(name, value)| (name, value)));
    command.args(args.handed_on()).stdin(Stdio::from(read)).stdout(Stdio::from(write)).process_group(0);
    ways.inherited.hand_on(&mut command);
    Ok(command.spawn()?.id())
}

/// Hands signals on until it has ended.
async fn wait(guard: u32, signals: &mut Signals) -> u8 {
    let pid = i32::try_from(guard).ok().and_then(Pid::from_raw);
    loop {
        match signals.next().await {
            libc::SIGCHLD => {
                if let Ok(Some((_, status))) =
                    rustix::process::waitpid(pid, rustix::process::WaitOptions::NOHANG)
                {
                    let code =
                        status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
                    return code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                }
            }
            signal => {
                if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
                    let _ = kill_process(pid, signal);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn shake(
        node: Node,
        theirs: &str,
        ours: &str,
    ) -> (io::Result<usize>, io::Result<Option<&'static str>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut there = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut here, _) = listener.accept().await.unwrap();
        tokio::join!(ask(&mut here, 4, ours), answer(&mut there, node, theirs))
    }

    #[tokio::test]
    async fn nodes_that_know_the_secret_meet() {
        let (index, refused) = shake(Node { index: 3, count: 4 }, "secret", "secret").await;
        assert_eq!((index.unwrap(), refused.unwrap()), (3, None));
    }

    #[tokio::test]
    async fn others_are_told_why_they_are_refused() {
        let (index, refused) = shake(Node { index: 3, count: 4 }, "other", "secret").await;
        assert!(index.is_err() && refused.unwrap().unwrap().contains("--secret-file"));
        for node in [Node { index: 3, count: 5 }, Node { index: 0, count: 4 }] {
            let (index, refused) = shake(node, "secret", "secret").await;
            assert!(index.is_err() && refused.unwrap().unwrap().contains("--node"), "{node:?}");
        }
    }
}
