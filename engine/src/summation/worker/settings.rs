//! What can be set.

/// A pipeline's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a part that go out at a stretch: the grain at which servers take turns.
    pub frame_bytes: u64,
    /// Whether a part keeps its credits until it has come back, and not only until its last byte went out. Then workers must
    /// begin parts in one order: those that began different ones wait for each other, without credits for the others'.
    pub credits_until_pulled: bool,
    /// Bytes of parts with credits for one server, at most. A part of more goes out alone.
    pub credit_bytes_per_server: u64,
    /// The same over all servers. Below the number of servers times theirs, one that stops can hold up others.
    pub credit_bytes: u64,
    /// Bytes of later parts that may overtake the oldest part of a lane.
    pub overtake_bytes: u64,
    /// Parts of one server in a stage at most; parts that begin in it and those that hold credits are bounded by
    /// `max_parts` and by credits.
    pub stage_parts: usize,
    /// Parts, and tensors whose end was not yet taken, in all.
    pub max_parts: usize,
    /// Whether parts are copied in and out, because the driver cannot use the caller's buffers in place.
    pub copies: bool,
    /// The server that is served first of equals: another one on each worker, so that workers which start together do not
    /// all meet at one server.
    pub first_server: usize,
    /// Whether servers are served in proportion to what each still has to get. Otherwise all alike, as if each connection
    /// had a thread that sends: to compare with.
    pub in_proportion: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            frame_bytes: FRAME_BYTES,
            credits_until_pulled: false,
            credit_bytes_per_server: CREDIT_BYTES_PER_SERVER,
            credit_bytes: CREDIT_BYTES,
            overtake_bytes: OVERTAKE_BYTES,
            stage_parts: STAGE_PARTS,
            max_parts: MAX_PARTS,
            copies: false,
            first_server: 0,
            in_proportion: true,
        }
    }
}

/// 100 us at 10 Gbit/s: long against a system call, short against a part. Over loopback, half of it costs 6 % more
/// processor time, and twice as much saves 6 %; but what is urgent waits for the frame that is on its way.
const FRAME_BYTES: u64 = 128 << 10;
/// Four parts of 4 096 000 bytes: one goes out, one is summed, one comes back, and one waits for slower workers.
const CREDIT_BYTES_PER_SERVER: u64 = 4 * 4_096_000;
/// The memory that rounds in flight may hold; enough for 64 servers.
const CREDIT_BYTES: u64 = 64 * CREDIT_BYTES_PER_SERVER;
/// More than any server owns of a model that is not huge, so that within a round the order is that of priorities.
const OVERTAKE_BYTES: u64 = 1 << 30;
/// Keeps one thread of each stage busy while a neighbour is late; bounds the buffers that copies and codecs need.
const STAGE_PARTS: usize = 64;
/// A quarter of a TB in parts of 4 096 000 bytes.
const MAX_PARTS: usize = 1 << 16;
