//! What can be set.

/// A pipeline's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a part that go out at a stretch: the grain at which servers take turns.
    pub frame_bytes: u64,
    /// Bytes of parts with credits for one server, at most. A part of more goes out alone.
    pub credit_bytes_per_server: u64,
    /// The same over all servers. Below the number of servers times theirs, one that stops can hold up others.
    pub credit_bytes: u64,
    /// For how long nothing moves, while parts wait for credits, before bounds are widened: workers that began different parts
    /// wait for each other.
    pub patience_ns: u64,
    /// Bytes of later parts that may overtake the oldest part of a lane.
    pub overtake_bytes: u64,
    /// Parts of one server in a stage at most; parts that begin in it and those that hold credits are bounded by
    /// `max_parts` and by credits.
    pub stage_parts: usize,
    /// Parts, and tensors whose end was not yet taken, in all.
    pub max_parts: usize,
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
            credit_bytes_per_server: CREDIT_BYTES_PER_SERVER,
            credit_bytes: CREDIT_BYTES,
            patience_ns: PATIENCE_NS,
            overtake_bytes: OVERTAKE_BYTES,
            stage_parts: STAGE_PARTS,
            max_parts: MAX_PARTS,
            first_server: 0,
            in_proportion: true,
        }
    }
}

impl Settings {
    /// For a process that has so many Mbit/s of its machine's NIC (where that is not told, as with 10 Gbit/s), and parts of
    /// so many bytes.
    ///
    /// With less in flight than the network takes to deliver, links idle; with much more, its queues overflow, TCP favours
    /// some workers, and sums wait for those that it does not. At 100 Mbit/s between 4 workers and 4 servers, 10 ms take
    /// 1.05 times as long as the best (`cargo xtask rig b2`).
    #[must_use]
    pub fn of_link(mbit_per_s: Option<u64>, partition_bytes: u64) -> Self {
        let in_1_ms = mbit_per_s.unwrap_or(UNTOLD_MBIT_PER_S).saturating_mul(125);
        let in_10_ms = in_1_ms.saturating_mul(10);
        let parts = partition_bytes.saturating_mul(MIN_PARTS_IN_FLIGHT);
        let credit_bytes_per_server = in_10_ms.max(parts);
        let credit_bytes = credit_bytes_per_server.saturating_mul(N_SERVERS);
        let frame_bytes = in_1_ms.clamp(MIN_FRAME_BYTES, FRAME_BYTES);
        Self { frame_bytes, credit_bytes_per_server, credit_bytes, ..Self::default() }
    }

    /// Where hosts sum first: with room for [`RELAYED`] times as much to one service, of which [`Pipeline::with_credits`]
    /// gives owners as much as before.
    ///
    /// [`Pipeline::with_credits`]: super::Pipeline::with_credits
    #[must_use]
    pub(crate) fn over_relays(self) -> Self {
        let credit_bytes_per_server = self.credit_bytes_per_server.saturating_mul(RELAYED);
        let credit_bytes = self.credit_bytes.saturating_mul(RELAYED);
        Self { credit_bytes_per_server, credit_bytes, ..self }
    }
}

/// How many times as much may be on its way to a relay of the own host as to the service that owns most. A part holds those
/// credits until its result is back, so also while the host's sum is at its owner: that must not keep the next ones, which another
/// host may send first, from the relay. Between hosts nothing more is on its way, or queues of slow links overflow.
/// `cargo xtask rig scaling`, 4 MiB, two hosts of two workers and a server: 1.02 times as long as the bytes take; 1.44 with
/// twice as much to all.
pub(crate) const RELAYED: u64 = 4;
/// 100 us at 10 Gbit/s: long against a system call, short against a part. Over loopback, half of it costs 6 % more
/// processor time, and twice as much saves 6 %; but what is urgent waits for the frame that is on its way.
const FRAME_BYTES: u64 = 128 << 10;
/// 1 ms at 130 Mbit/s: slower links send no smaller ones.
const MIN_FRAME_BYTES: u64 = 16 << 10;
/// One goes out, one is summed, one comes back, and one waits for slower workers.
const MIN_PARTS_IN_FLIGHT: u64 = 4;
const UNTOLD_MBIT_PER_S: u64 = 10_000;
const CREDIT_BYTES_PER_SERVER: u64 = MIN_PARTS_IN_FLIGHT * 4_096_000;
/// Enough of them have credits of their own.
const N_SERVERS: u64 = 64;
const CREDIT_BYTES: u64 = N_SERVERS * CREDIT_BYTES_PER_SERVER;
/// Far longer than a part that is on its way stands still; short for who waits for no reason.
const PATIENCE_NS: u64 = 20_000_000;
/// More than any server owns of a model that is not huge, so that within a round the order is that of priorities.
const OVERTAKE_BYTES: u64 = 1 << 30;
/// Keeps one thread of each stage busy while a neighbour is late; bounds the buffers that codecs need.
const STAGE_PARTS: usize = 64;
/// A quarter of a TB in parts of 4 096 000 bytes.
const MAX_PARTS: usize = 1 << 16;
