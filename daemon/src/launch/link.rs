//! The channel to one host, as the launching side has it: made, greeted, read and written by tasks of its own.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::process::Child;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::output::Item;
use super::place::{Attempt, Place, Ways, why};
use super::protocol::{
    Frame, GREETING, HEAD, Hello, MAX_BEFORE_GREETING, Message, Order, PROTOCOL, decode, encode_order, rest,
};
use ringscope_api::signal;

/// Orders that wait to be written: more than a host that answers ever has.
const ORDERS: usize = 256;
/// Lines of errors that are kept of what reaches a host.
const ERROR_LINES: usize = 20;
/// How long it may take to end after its channel has.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// A channel that stands.
#[derive(Debug)]
pub(super) struct Link {
    /// No other has it: a host that comes again has another.
    pub(super) number: u64,
    /// What the host is told.
    pub(super) orders: Sender<Order>,
    /// Who it is.
    pub(super) hello: Hello,
}

/// What comes from a host.
#[derive(Debug)]
pub(super) enum Event {
    /// It said something.
    Message(Message),
    /// Its channel has ended, for this reason.
    Lost(String),
}

/// What came, by which channel, from which host.
#[derive(Debug)]
pub(super) struct HostEvent {
    pub(super) node: usize,
    pub(super) link: u64,
    pub(super) event: Event,
}

/// Where what comes from hosts goes.
#[derive(Clone, Debug)]
pub(super) struct Sinks {
    /// Messages, and ends of channels.
    pub(super) events: Sender<HostEvent>,
    /// Output.
    pub(super) output: SyncSender<Item>,
    /// Whose tasks they are.
    pub(super) tasks: TaskTracker,
}

/// Starts the host side of `host`, and waits until it has said who it is.
///
/// # Errors
/// Why it cannot be had, in words.
pub(super) async fn start(
    node: usize,
    (place, host): (&Place, &str),
    ways: &Ways,
    sinks: &Sinks,
) -> Result<Link, String> {
    let mut command = ways.command(place, host);
    let program = command.as_std().get_program().to_owned();
    let mut child = command.spawn().map_err(|error| {
        let not_started = Some((program, error.kind(), error.to_string()));
        why(place, host, &Attempt { not_started, ..Attempt::default() }, ways)
    })?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(format!("{host}: no pipes to what reaches it"));
    };
    let errors = sinks.tasks.spawn(last_lines(stderr));
    let mut stdout = BufReader::new(stdout);
    let mut before = Vec::new();
    // A little longer than ssh itself takes: what it says is better than our own words.
    let patience = ways.connect_timeout + Duration::from_secs(2);
    match tokio::time::timeout(patience, greeted(&mut stdout, &mut before)).await {
        Ok(Ok(hello)) => {
            check(host, &hello, ways)?;
            let ended = Ended { child: Some(child), errors: Some(errors) };
            Ok(stand(node, host, (stdout, stdin), hello, ended, sinks))
        }
        // What never answers is killed with its handle.
        Err(_) => Err(why(place, host, &Attempt::default(), ways)),
        Ok(Err(_)) => {
            let attempt = ended_early(child, errors, &before).await;
            Err(why(place, host, &attempt, ways))
        }
    }
}

/// How what was to reach a host ended before it did.
async fn ended_early(mut child: Child, errors: JoinHandle<Vec<String>>, before: &[u8]) -> Attempt {
    let mut attempt = Attempt { before: String::from_utf8_lossy(before).into_owned(), ..Attempt::default() };
    if let Ok(Ok(status)) = tokio::time::timeout(ENDS_WITHIN, child.wait()).await {
        attempt.ended(status);
        let errors = tokio::time::timeout(ENDS_WITHIN, errors).await;
        attempt.errors = errors.ok().and_then(Result::ok).unwrap_or_default();
    }
    attempt
}

/// Lets a channel that has been greeted stand: `ended` says how it came to its end.
pub(super) fn stand(
    node: usize,
    host: &str,
    (read, write): (impl AsyncRead + Unpin + Send + 'static, impl AsyncWrite + Unpin + Send + 'static),
    hello: Hello,
    ended: Ended,
    sinks: &Sinks,
) -> Link {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let (orders, to_write) = channel(ORDERS);
    sinks.tasks.spawn(write_all(write, to_write, (node, number), sinks.events.clone()));
    let (host, sinks_of_reader) = (host.to_owned(), sinks.clone());
    let _ = sinks.output.try_send(Item::Link { node, orders: orders.downgrade() });
    sinks.tasks.spawn(async move {
        let sinks = sinks_of_reader;
        let end = read_all(read, (node, number), &sinks).await;
        let why = ended.why(&host, end).await;
        let _ = sinks.events.send(HostEvent { node, link: number, event: Event::Lost(why) }).await;
    });
    Link { number, orders, hello }
}

/// How a channel came to its end.
#[derive(Debug, Default)]
pub(super) struct Ended {
    child: Option<Child>,
    errors: Option<JoinHandle<Vec<String>>>,
}

impl Ended {
    async fn why(self, host: &str, end: io::Result<()>) -> String {
        let mut parts = Vec::new();
        if let Err(error) = end
            && error.kind() != io::ErrorKind::UnexpectedEof
        {
            parts.push(error.to_string());
        }
        if let Some(mut child) = self.child
            && let Ok(Ok(status)) = tokio::time::timeout(ENDS_WITHIN, child.wait()).await
            && !status.success()
        {
            parts.push(format!("what reaches it ended with {}", ended_with(status)));
        }
        if let Some(errors) = self.errors
            && let Ok(Ok(lines)) = tokio::time::timeout(ENDS_WITHIN, errors).await
        {
            parts.extend(lines);
        }
        let reason = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) };
        format!("{host} is lost: its connection has ended{reason}")
    }
}

fn ended_with(status: std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => signal::name(signal),
        (None, None) => "no status".to_owned(),
    }
}

/// Whether both sides are of one release.
pub(super) fn check(host: &str, hello: &Hello, ways: &Ways) -> Result<(), String> {
    let own = env!("CARGO_PKG_VERSION");
    if hello.protocol == PROTOCOL && hello.version == own {
        return Ok(());
    }
    Err(format!(
        "{host}: {} there is ringscope {} (launch protocol {}), here it is {own} (protocol {PROTOCOL}): install the same release \
         there, or name another with --remote-ringscope",
        ways.ringscope.display(),
        hello.version,
        hello.protocol
    ))
}

/// Passes over what a login shell says, and hears who the host is.
pub(super) async fn greeted(from: &mut (impl AsyncRead + Unpin), before: &mut Vec<u8>) -> io::Result<Hello> {
    while !before.ends_with(GREETING) {
        if before.len() > MAX_BEFORE_GREETING + GREETING.len() {
            return Err(io::Error::other("it says other things"));
        }
        before.push(from.read_u8().await?);
    }
    match read(from).await? {
        Frame::Message(Message::Hello(hello)) => Ok(hello),
        _ => Err(io::Error::other("it does not say who it is")),
    }
}

async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let mut head = [0; HEAD];
    from.read_exact(&mut head).await?;
    let mut bytes = vec![0; rest(head)?];
    from.read_exact(&mut bytes).await?;
    decode(head, &bytes)
}

async fn read_all(
    mut from: impl AsyncRead + Unpin,
    (node, link): (usize, u64),
    sinks: &Sinks,
) -> io::Result<()> {
    loop {
        match read(&mut from).await? {
            Frame::Message(message) => {
                if sinks.events.send(HostEvent { node, link, event: Event::Message(message) }).await.is_err()
                {
                    return Ok(());
                }
            }
            // The window bounds what is in there: it is never full with what a host of ours sends.
            Frame::Chunk(chunk) => match sinks.output.try_send(Item::Chunk { node, chunk }) {
                Ok(()) => {}
                Err(_) => return Err(io::Error::other("it sends more output than it was let")),
            },
        }
    }
}

/// Ends with the last sender, and the channel with it: a host whose orders have ended ends what it has.
///
/// An order that does not fit into a frame is refused in the host's name: it is not told, and its channel stands.
async fn write_all(
    mut to: impl AsyncWrite + Unpin,
    mut orders: Receiver<Order>,
    (node, link): (usize, u64),
    events: Sender<HostEvent>,
) {
    while let Some(order) = orders.recv().await {
        let bytes = match encode_order(&order) {
            Ok(bytes) => bytes,
            Err(error) => {
                let refused = Message::Refused { text: error.to_string(), status: CANNOT_BE_EXECUTED };
                let _ = events.send(HostEvent { node, link, event: Event::Message(refused) }).await;
                continue;
            }
        };
        if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    // Of a TCP connection the other half is still read.
    let _ = to.shutdown().await;
}

/// Reads to the end and keeps the last lines.
async fn last_lines(from: impl AsyncRead + Unpin) -> Vec<String> {
    let mut lines = std::collections::VecDeque::new();
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut from).take(MAX_LINE).read_until(b'\n', &mut line).await;
        if read.is_err() || line.is_empty() {
            return lines.into();
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        if text.is_empty() {
            continue;
        }
        if lines.len() == ERROR_LINES {
            lines.pop_front();
        }
        lines.push_back(text);
    }
}

const MAX_LINE: u64 = 4096;
/// As shells say it, also of arguments and an environment that are too long.
const CANNOT_BE_EXECUTED: u8 = 126;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::protocol::{Share, encode};

    #[tokio::test]
    async fn what_a_shell_says_first_is_passed_over() {
        let hello = Hello { protocol: PROTOCOL, version: "9".into(), ..Hello::default() };
        let frame = encode(&Frame::Message(Message::Hello(hello.clone()))).unwrap();
        let said = [b"Welcome!\nringscope-\n".as_slice(), GREETING, &frame].concat();
        assert_eq!(greeted(&mut said.as_slice(), &mut Vec::new()).await.unwrap(), hello);
        let mut before = Vec::new();
        assert!(greeted(&mut b"no such command\n".as_slice(), &mut before).await.is_err());
        assert_eq!(before, b"no such command\n");
        let endless = vec![b'x'; 1 << 20];
        assert!(greeted(&mut endless.as_slice(), &mut Vec::new()).await.is_err());
    }

    #[tokio::test]
    async fn what_is_too_large_to_be_told_is_refused_in_words_and_the_channel_stands() {
        let (orders, to_write) = channel(4);
        let (events, mut received) = channel(4);
        let environment = vec![("LARGE".into(), "x".repeat(9 << 20).into())];
        let share = Box::new(Share { environment, ..Share::default() });
        for order in [Order::Prepare(share), Order::Ping(1)] {
            orders.send(order).await.unwrap();
        }
        drop(orders);
        let mut written = Vec::new();
        write_all(&mut written, to_write, (3, 7), events).await;
        let Some(HostEvent {
            node: 3,
            link: 7,
            event: Event::Message(Message::Refused { text, status: 126 }),
        }) = received.recv().await
        else {
            panic!("it was not refused");
        };
        assert!(text.contains("8 MiB"), "{text}");
        assert_eq!(written, encode_order(&Order::Ping(1)).unwrap());
    }

    #[tokio::test]
    async fn a_channel_that_is_given_up_ends_for_the_host() {
        let (here, there) = tokio::io::duplex(1 << 16);
        let (events, _received) = channel(8);
        let (output, items) = std::sync::mpsc::sync_channel(8);
        let sinks = Sinks { events, output, tasks: TaskTracker::new() };
        let link = stand(0, "a", tokio::io::split(here), Hello::default(), Ended::default(), &sinks);
        let Ok(Item::Link { orders, .. }) = items.recv() else { panic!("output does not know the channel") };
        link.orders.send(Order::Go).await.unwrap();
        drop(link);
        let (mut orders_there, _open) = tokio::io::split(there);
        let mut told = Vec::new();
        tokio::time::timeout(ENDS_WITHIN, orders_there.read_to_end(&mut told)).await.unwrap().unwrap();
        assert_eq!(told, encode_order(&Order::Go).unwrap());
        assert!(orders.upgrade().is_none());
    }

    #[tokio::test]
    async fn of_long_errors_the_last_lines_are_kept() {
        let text: String = (0..100).map(|number| format!("line {number}\n")).collect();
        let lines = last_lines(text.as_bytes()).await;
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (ERROR_LINES, Some("line 99")));
        let endless = vec![b'x'; 1 << 20];
        assert_eq!(last_lines(endless.as_slice()).await.len(), ERROR_LINES);
    }
}
