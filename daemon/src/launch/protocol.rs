//! What the launching side and the host side say to each other: frames over a pipe, ssh's, srun's or a TCP connection.
//!
//! A frame is its length, its kind, its bytes and a line end: `srun` hands on what its tasks write line by line. Before the first
//! frame of the host side stands [`GREETING`], so that what a login shell says before it is told apart. Lengths are bounded,
//! and whatever does not fit is an error of the channel, never of this process.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::os_text;

/// Version of what follows. Both sides have the same, or the launching side says which has which.
pub(super) const PROTOCOL: u32 = 3;
/// What the host side says first.
pub(super) const GREETING: &[u8] = b"ringscope-launch-channel\n";
/// Bytes of a frame at most: an environment fits, which the kernel bounds to 2 MiB in ordinary settings.
const MAX_FRAME_BYTES: usize = 8 << 20;
/// Bytes before the greeting at most: a login shell's message of the day.
pub(super) const MAX_BEFORE_GREETING: usize = 64 << 10;
/// Output of a host that may be on its way at once. What is beyond waits in the ranks' own pipes.
pub(super) const WINDOW_BYTES: u32 = 64 << 10;
/// Bytes of one piece of output at most.
pub(super) const CHUNK_BYTES: usize = 8 << 10;
/// What a piece counts for beside its bytes, so that pieces of one byte are bounded too.
const CHUNK_COST: u32 = 512;

/// What the launching side says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// Find so many free ports in this range, ends included.
    FindPorts { count: u16, first: u16, last: u16 },
    /// Look whether this share of the job could be started.
    Prepare(Box<Share>),
    /// Start what was prepared.
    Go,
    /// Send a signal to all that runs, and SIGKILL after the grace.
    End { signal: i32, grace_ms: u64, why: WhyEnd },
    /// So many bytes of output have been taken.
    Credit(u32),
    /// Answer.
    Ping(u64),
    /// The job is over, with this exit status.
    Bye { status: u8 },
}

/// Why processes are told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WhyEnd {
    /// One of the job has failed, or a host is lost.
    Failure,
    /// The launch was sent this signal.
    Signal(i32),
    /// The launching side is gone, or somebody ended the host side.
    LaunchGone,
    /// All workers have ended well.
    WorkersDone,
}

/// What the host side says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Message {
    /// Who it is.
    Hello(Hello),
    /// The ports, or why there are none.
    Ports(Result<Vec<u16>, String>),
    /// The share can be started.
    Ready,
    /// It cannot, and what exit status that is.
    Refused { text: String, status: u8 },
    /// A process of the share was started.
    Started { process: usize, pid: u32 },
    /// A process has ended.
    Ended(Ended),
    /// All processes of the share have ended and nothing of them is left.
    Over,
    /// Somebody ends it, in words, and it ends its processes.
    Stopped(String),
    /// Something that a person should know.
    Note(String),
    /// The answer, with this host's clock.
    Pong { number: u64, at_ns: u64 },
    /// It ends now.
    Bye,
}

/// Who a host side is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// [`PROTOCOL`].
    pub(super) protocol: u32,
    /// Its release.
    pub(super) version: String,
    /// Its machine's name.
    pub(super) host: String,
    /// Its number.
    pub(super) pid: u32,
    /// Its address, as who came by ssh sees it.
    pub(super) own_address: Option<String>,
    /// The address that ssh came from.
    pub(super) from_address: Option<String>,
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ended {
    /// Its place in the share.
    pub(super) process: usize,
    /// How it ended.
    pub(super) exit: Exit,
    /// When, by the clock of its host.
    pub(super) at_ns: u64,
    /// Whether the host side had told it to end.
    pub(super) was_told: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Exit {
    /// With this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// Whether that is what a job wants.
    pub(super) const fn is_good(self) -> bool {
        matches!(self, Self::Status(0))
    }

    /// As shells count it.
    pub(super) fn status(self) -> u8 {
        let number = match self {
            Self::Status(status) => status,
            Self::Signal(signal) => 128 + signal,
        };
        u8::try_from(number).unwrap_or(u8::MAX)
    }
}

/// What one host starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Share {
    /// The job's name.
    pub(super) job: String,
    /// Of the launch itself; no two have the same.
    pub(super) launch: String,
    /// The workers' command. None: what this host side was started with itself.
    #[serde(with = "os_text")]
    pub(super) command: Option<Vec<OsString>>,
    /// The summation servers' program.
    #[serde(with = "os_text")]
    pub(super) server: Option<OsString>,
    /// Folder to start in.
    #[serde(with = "os_text")]
    pub(super) dir: Option<PathBuf>,
    /// Of the launching side's environment, what goes along.
    #[serde(with = "os_text")]
    pub(super) environment: Vec<(OsString, OsString)>,
    /// Processes.
    pub(super) processes: Vec<Process>,
    /// Options of `ringscope run`; none: the processes are not watched.
    #[serde(with = "os_text")]
    pub(super) watch: Option<Vec<OsString>>,
    /// The agent to start where none runs.
    pub(super) agent: Option<AgentSettings>,
    /// Whether the name is to be claimed on this machine.
    pub(super) claims: bool,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    /// What it does.
    pub(super) role: Role,
    /// Its own variables.
    pub(super) variables: Vec<(String, String)>,
}

/// What a process does in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) enum Role {
    /// A worker, with its rank.
    Worker(u32),
    /// A summation server, with its number.
    Server(u32),
}

/// How an agent is to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AgentSettings {
    /// Its arguments.
    #[serde(with = "os_text")]
    pub(super) arguments: Vec<OsString>,
    /// Its token.
    pub(super) token: Option<String>,
}

/// Which stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A piece of what a process has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Its place in the share; [`AGENT`] for the agent.
    pub(super) process: u32,
    /// Where to it wrote.
    pub(super) stream: Stream,
    /// What.
    pub(super) bytes: Vec<u8>,
}

/// The agent's place among the processes of a share.
pub(super) const AGENT: u32 = u32::MAX;

impl Chunk {
    /// What it takes of the window.
    pub(super) fn cost(&self) -> u32 {
        cost(self.bytes.len())
    }
}

/// What so many bytes of one piece take of the window.
pub(super) fn cost(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(CHUNK_COST)
}

/// One frame of the host side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A message.
    Message(Message),
    /// Output.
    Chunk(Chunk),
}

const KIND_JSON: u8 = b'j';
const KIND_CHUNK: u8 = b'o';
const CHUNK_HEAD: usize = 5;

/// A frame's bytes.
pub(super) fn encode(frame: &Frame) -> io::Result<Vec<u8>> {
    match frame {
        Frame::Message(message) => json(message),
        Frame::Chunk(Chunk { process, stream, bytes }) => {
            let mut payload = Vec::with_capacity(CHUNK_HEAD + bytes.len());
            payload.extend(process.to_be_bytes());
            payload.push(u8::from(*stream == Stream::Err));
            payload.extend(bytes);
            framed(KIND_CHUNK, &payload)
        }
    }
}

/// An order's bytes.
pub(super) fn encode_order(order: &Order) -> io::Result<Vec<u8>> {
    json(order)
}

fn json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    framed(KIND_JSON, &serde_json::to_vec(value)?)
}

fn framed(kind: u8, payload: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= MAX_FRAME_BYTES);
    let length = length.ok_or_else(|| {
        io::Error::other(
            "what it is to start takes more than 8 MiB, variables and command of all its processes together: hand on fewer or \
             shorter variables, or start fewer processes a host",
        )
    })?;
    let mut frame = Vec::with_capacity(payload.len() + HEAD + 1);
    frame.extend(length.to_be_bytes());
    frame.push(kind);
    frame.extend(payload);
    frame.push(b'\n');
    Ok(frame)
}

/// Length and kind.
pub(super) const HEAD: usize = 5;

/// How many bytes follow a head, the line end with them.
pub(super) fn rest(head: [u8; HEAD]) -> io::Result<usize> {
    let [a, b, c, d, _] = head;
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if length > MAX_FRAME_BYTES { Err(broken("a frame is too long")) } else { Ok(length + 1) }
}

/// The frame of the host side with this head and these bytes.
pub(super) fn decode(head: [u8; HEAD], rest: &[u8]) -> io::Result<Frame> {
    let payload = payload(rest)?;
    match head[HEAD - 1] {
        KIND_JSON => Ok(Frame::Message(serde_json::from_slice(payload)?)),
        KIND_CHUNK => {
            let (head, bytes) = payload.split_first_chunk().ok_or_else(|| broken("a piece is too short"))?;
            let [a, b, c, d, stream]: [u8; CHUNK_HEAD] = *head;
            let stream = if stream == 0 { Stream::Out } else { Stream::Err };
            Ok(Frame::Chunk(Chunk {
                process: u32::from_be_bytes([a, b, c, d]),
                stream,
                bytes: bytes.to_vec(),
            }))
        }
        _ => Err(broken("a frame is of no known kind")),
    }
}

/// The order with this head and these bytes.
pub(super) fn decode_order(head: [u8; HEAD], rest: &[u8]) -> io::Result<Order> {
    match head[HEAD - 1] {
        KIND_JSON => Ok(serde_json::from_slice(payload(rest)?)?),
        _ => Err(broken("an order is of no known kind")),
    }
}

fn payload(rest: &[u8]) -> io::Result<&[u8]> {
    rest.strip_suffix(b"\n").ok_or_else(|| broken("a frame has no end"))
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads one order; `None` where the channel has ended.
pub(super) fn read_order(from: &mut impl Read) -> io::Result<Option<Order>> {
    let mut head = [0; HEAD];
    match from.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut bytes = vec![0; rest(head)?];
    from.read_exact(&mut bytes)?;
    decode_order(head, &bytes).map(Some)
}

/// Writes one frame.
pub(super) fn write_frame(to: &mut impl Write, frame: &Frame) -> io::Result<()> {
    to.write_all(&encode(frame)?)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn through(frame: &Frame) -> Frame {
        let bytes = encode(frame).unwrap();
        let (head, after) = bytes.split_first_chunk().unwrap();
        assert_eq!(rest(*head).unwrap(), after.len());
        decode(*head, after).unwrap()
    }

    #[test]
    fn frames_come_back_as_they_went() {
        let ended = Ended { process: 3, exit: Exit::Signal(9), at_ns: u64::MAX, was_told: true };
        for message in [
            Message::Ports(Err("full".into())),
            Message::Ended(ended),
            Message::Ready,
            Message::Hello(Hello::default()),
        ] {
            assert_eq!(through(&Frame::Message(message.clone())), Frame::Message(message));
        }
        let chunk = Frame::Chunk(Chunk { process: 7, stream: Stream::Err, bytes: b"a\nb\0\xff".to_vec() });
        assert_eq!(through(&chunk), chunk);
    }

    #[test]
    fn every_frame_ends_a_line() {
        let chunk = Frame::Chunk(Chunk { process: 0, stream: Stream::Out, bytes: vec![0; 10] });
        assert_eq!(encode(&chunk).unwrap().last(), Some(&b'\n'));
    }

    #[test]
    fn words_that_are_no_text_survive() {
        use std::os::unix::ffi::OsStringExt as _;
        let word = || OsString::from_vec(vec![0xff, b'a']);
        let environment = vec![("PLAIN".into(), "text".into()), (word(), word())];
        let (command, dir) = (Some(vec![word()]), Some(word().into()));
        let order = Order::Prepare(Box::new(Share { command, environment, dir, ..Share::default() }));
        let bytes = encode_order(&order).unwrap();
        assert_eq!(read_order(&mut bytes.as_slice()).unwrap(), Some(order));
        assert_eq!(read_order(&mut [].as_slice()).unwrap(), None);
    }

    #[test]
    fn an_environment_as_large_as_the_kernel_takes_fits_and_what_does_not_is_said() {
        let order = |bytes: usize| {
            let environment = vec![("LARGE".into(), "x".repeat(bytes).into())];
            encode_order(&Order::Prepare(Box::new(Share { environment, ..Share::default() })))
        };
        assert!(order(6 << 20).is_ok());
        let error = order(9 << 20).unwrap_err().to_string();
        assert!(error.contains("8 MiB") && error.contains("fewer"), "{error}");
    }

    #[test]
    fn statuses_are_as_of_shells() {
        let statuses = [Exit::Status(3), Exit::Signal(9), Exit::Status(-1)].map(Exit::status);
        assert_eq!(statuses, [3, 137, 255]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_at_worst(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_order(&mut bytes.as_slice());
            if let Some((head, after)) = bytes.split_first_chunk() {
                let _ = rest(*head);
                let _ = decode(*head, after);
            }
        }
    }
}
