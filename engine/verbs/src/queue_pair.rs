//! Fence: reliable connections.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::ptr::NonNull;

use rdma_mummy_sys as sys;

use crate::completion::CompletionQueue;
use crate::error::{Error, Result, check};
use crate::gid::Gid;
use crate::memory::{Domain, Local, Remote};
use crate::port::mtu_number;

/// One end of a reliable connection. Its requests are carried out in their order, once each, or it fails as a whole.
#[derive(Debug)]
pub struct QueuePair {
    pair: NonNull<sys::ibv_qp>,
    // Freed after it, in this order.
    _sends: CompletionQueue,
    _receives: CompletionQueue,
    domain: Domain,
    room: Room,
}

// SAFETY: libibverbs' objects may be used by any thread.
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

/// What a queue pair has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Writes and reads in flight.
    pub sends: u32,
    /// Receives in flight.
    pub receives: u32,
    /// Bytes that a write may carry in the request itself.
    pub inline_bytes: u32,
}

/// How the other end is reached, and how patiently.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// The port here.
    pub port: u8,
    /// The identifier here.
    pub gid: Gid,
    /// The identifier there.
    pub remote_gid: [u8; 16],
    /// The port's local identifier there; 0 on Ethernet.
    pub remote_lid: u16,
    /// Whether packets carry the identifiers, which they must on Ethernet and between subnets.
    pub is_global: bool,
    /// The queue pair there.
    pub remote_number: u32,
    /// The smaller of both ports' payloads of a packet.
    pub mtu_bytes: u32,
    /// Traffic class of the packets (on RoCE v2 the IP header's).
    pub traffic_class: u8,
    /// Service level.
    pub service_level: u8,
    /// How long an answer is waited for: 4.096 µs × 2^timeout.
    pub timeout: u8,
    /// How often a request is repeated that nobody answers, at most 7: with that some devices never give up.
    pub retries: u8,
    /// Reads in flight that each end answers.
    pub reads: u8,
}

/// Whether a request says when it is done. Some must: what is in flight leaves the queue with one that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It completes visibly, with this number.
    With(u64),
    /// Only if it fails, with this number.
    Silent(u64),
}

/// How a queue pair stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not connected yet.
    Unconnected,
    /// It may receive.
    ReadyToReceive,
    /// It may receive and send.
    ReadyToSend,
    /// It has failed.
    Error,
}

impl Domain {
    /// A queue pair that is not connected.
    pub fn queue_pair(
        &self,
        sends: &CompletionQueue,
        receives: &CompletionQueue,
        room: Room,
    ) -> Result<QueuePair> {
        let capacity = sys::ibv_qp_cap {
            max_send_wr: room.sends,
            max_recv_wr: room.receives,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: room.inline_bytes,
        };
        let mut wanted = sys::ibv_qp_init_attr {
            qp_context: std::ptr::null_mut(),
            send_cq: sends.raw(),
            recv_cq: receives.raw(),
            srq: std::ptr::null_mut(),
            cap: capacity,
            qp_type: sys::ibv_qp_type::IBV_QPT_RC,
            sq_sig_all: 0,
        };
        // SAFETY: our domain and queues, and what is wanted, where the real room is written.
        let pair = unsafe { sys::ibv_create_qp(self.raw(), &raw mut wanted) };
        let pair = NonNull::new(pair).ok_or_else(|| Error::last("make a queue pair"))?;
        let (sends, receives) = (sends.clone(), receives.clone());
        Ok(QueuePair { pair, _sends: sends, _receives: receives, domain: self.clone(), room })
    }
}

impl QueuePair {
    /// Its number, which the other end needs.
    pub fn number(&self) -> u32 {
        // SAFETY: our queue pair.
        unsafe { self.pair.as_ref() }.qp_num
    }

    /// What it has room for.
    pub fn room(&self) -> Room {
        self.room
    }

    /// The domain whose regions it can move.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Takes it to where it may receive: receives may be posted from then on. `pkey_index`: the partition's place in the port's
    /// table; 0 without partitions.
    pub fn prepare(&mut self, port: u8, pkey_index: u16) -> Result<()> {
        let mut wanted = attributes();
        wanted.qp_state = sys::ibv_qp_state::IBV_QPS_INIT;
        wanted.port_num = port;
        wanted.pkey_index = pkey_index;
        let access = sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0
            | sys::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0
            | sys::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0;
        wanted.qp_access_flags = access;
        let mask = [
            sys::ibv_qp_attr_mask::IBV_QP_STATE,
            sys::ibv_qp_attr_mask::IBV_QP_PKEY_INDEX,
            sys::ibv_qp_attr_mask::IBV_QP_PORT,
            sys::ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS,
        ];
        self.modify(&mut wanted, &mask, "initialise")
    }

    /// Connects it. The other end may send only once this has returned there too, which the program tells by other means.
    pub fn connect(&mut self, path: &Path) -> Result<()> {
        let mut wanted = attributes();
        wanted.qp_state = sys::ibv_qp_state::IBV_QPS_RTR;
        wanted.path_mtu = mtu_number(path.mtu_bytes);
        wanted.dest_qp_num = path.remote_number;
        wanted.rq_psn = FIRST_PACKET;
        wanted.max_dest_rd_atomic = path.reads;
        wanted.min_rnr_timer = NOT_READY_TIMER;
        wanted.ah_attr = address(path);
        let mask = [
            sys::ibv_qp_attr_mask::IBV_QP_STATE,
            sys::ibv_qp_attr_mask::IBV_QP_AV,
            sys::ibv_qp_attr_mask::IBV_QP_PATH_MTU,
            sys::ibv_qp_attr_mask::IBV_QP_DEST_QPN,
            sys::ibv_qp_attr_mask::IBV_QP_RQ_PSN,
            sys::ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC,
            sys::ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER,
        ];
        self.modify(&mut wanted, &mask, "make ready to receive")?;
        let mut wanted = attributes();
        wanted.qp_state = sys::ibv_qp_state::IBV_QPS_RTS;
        wanted.sq_psn = FIRST_PACKET;
        wanted.timeout = path.timeout;
        wanted.retry_cnt = path.retries.min(ALWAYS);
        wanted.rnr_retry = ALWAYS;
        wanted.max_rd_atomic = path.reads;
        let mask = [
            sys::ibv_qp_attr_mask::IBV_QP_STATE,
            sys::ibv_qp_attr_mask::IBV_QP_SQ_PSN,
            sys::ibv_qp_attr_mask::IBV_QP_TIMEOUT,
            sys::ibv_qp_attr_mask::IBV_QP_RETRY_CNT,
            sys::ibv_qp_attr_mask::IBV_QP_RNR_RETRY,
            sys::ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC,
        ];
        self.modify(&mut wanted, &mask, "make ready to send")
    }

    fn modify(
        &mut self,
        wanted: &mut sys::ibv_qp_attr,
        mask: &[sys::ibv_qp_attr_mask],
        what: &str,
    ) -> Result<()> {
        let mask = mask.iter().fold(0, |bits, flag| bits | flag.0).cast_signed();
        // SAFETY: our queue pair, and all that the mask names is set.
        let code = unsafe { sys::ibv_modify_qp(self.pair.as_ptr(), wanted, mask) };
        check(code, || format!("{what} queue pair {}", self.number()))
    }

    /// How it stands. A peer's mistake may have ended it without an event or a completion here.
    pub fn state(&self) -> Result<State> {
        let mut now = attributes();
        let mut init = std::mem::MaybeUninit::<sys::ibv_qp_init_attr>::zeroed();
        let mask = sys::ibv_qp_attr_mask::IBV_QP_STATE.0.cast_signed();
        // SAFETY: our queue pair, and room for what is written.
        let code = unsafe { sys::ibv_query_qp(self.pair.as_ptr(), &raw mut now, mask, init.as_mut_ptr()) };
        check(code, || format!("ask for queue pair {}", self.number()))?;
        Ok(match now.qp_state {
            sys::ibv_qp_state::IBV_QPS_RESET | sys::ibv_qp_state::IBV_QPS_INIT => State::Unconnected,
            sys::ibv_qp_state::IBV_QPS_RTR => State::ReadyToReceive,
            sys::ibv_qp_state::IBV_QPS_RTS | sys::ibv_qp_state::IBV_QPS_SQD => State::ReadyToSend,
            _ => State::Error,
        })
    }

    /// Writes bytes into the peer's memory. The peer's processor does nothing; with `number`, one of its receives completes with
    /// it, when all bytes are there.
    pub fn write(&mut self, from: Local<'_>, to: Remote, number: Option<u32>, signal: Signal) -> Result<()> {
        let mut piece = piece(from);
        let (opcode, number) = match number {
            Some(number) => (sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM, number),
            None => (sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE, 0),
        };
        // SAFETY: the region is registered while `from` lives; afterwards the device refuses its key.
        unsafe { self.post(opcode, &raw mut piece, usize::from(from.len > 0), to, number, signal, 0) }
    }

    /// Writes bytes that are copied into the request, at most [`Room::inline_bytes`]: they need no region and are free at once.
    pub fn write_inline(
        &mut self,
        bytes: &[u8],
        to: Remote,
        number: Option<u32>,
        signal: Signal,
    ) -> Result<()> {
        if bytes.len() > self.room.inline_bytes as usize {
            let (end, len) = (bytes.len(), self.room.inline_bytes as usize);
            return Err(Error::OutOfRegion { offset: 0, end, len });
        }
        let length = u32::try_from(bytes.len()).unwrap_or(0);
        let mut piece = sys::ibv_sge { addr: bytes.as_ptr() as u64, length, lkey: 0 };
        let (opcode, number) = match number {
            Some(number) => (sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM, number),
            None => (sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE, 0),
        };
        let flag = sys::ibv_send_flags::IBV_SEND_INLINE.0;
        // SAFETY: the bytes are read during the call.
        unsafe { self.post(opcode, &raw mut piece, usize::from(length > 0), to, number, signal, flag) }
    }

    /// Reads bytes of the peer's memory into a region here.
    pub fn read(&mut self, to: Local<'_>, from: Remote, signal: Signal) -> Result<()> {
        let mut piece = piece(to);
        let opcode = sys::ibv_wr_opcode::IBV_WR_RDMA_READ;
        // SAFETY: as for `write`; who registered the region promised that nothing refers to it meanwhile.
        unsafe { self.post(opcode, &raw mut piece, usize::from(to.len > 0), from, 0, signal, 0) }
    }

    /// # Safety
    /// `piece` may be read or written as the opcode says: by a key, or inline during the call.
    #[expect(clippy::too_many_arguments, reason = "a work request is that many things")]
    unsafe fn post(
        &mut self,
        opcode: sys::ibv_wr_opcode::Type,
        piece: *mut sys::ibv_sge,
        n_pieces: usize,
        remote: Remote,
        number: u32,
        signal: Signal,
        flags: u32,
    ) -> Result<()> {
        // SAFETY: numbers and pointers, for which zero is a value.
        let mut request: sys::ibv_send_wr = unsafe { std::mem::zeroed() };
        (request.wr_id, request.send_flags) = match signal {
            Signal::With(id) => (id, sys::ibv_send_flags::IBV_SEND_SIGNALED.0),
            Signal::Silent(id) => (id, 0),
        };
        request.send_flags |= flags;
        request.sg_list = piece;
        request.num_sge = i32::from(n_pieces > 0);
        request.opcode = opcode;
        request.imm_data_invalidated_rkey_union.imm_data = number.to_be();
        request.wr.rdma = sys::rdma_t { remote_addr: remote.address, rkey: remote.key };
        let mut refused = std::ptr::null_mut();
        // SAFETY: our queue pair; the request and its piece live until the call returns, which copies them.
        let code = unsafe { sys::ibv_post_send(self.pair.as_ptr(), &raw mut request, &raw mut refused) };
        check(code, || format!("post to queue pair {}", self.number()))
    }

    /// Makes room for one write with a number of the peer's; its completion has this `id`.
    pub fn receive(&mut self, id: u64) -> Result<()> {
        let mut request = sys::ibv_recv_wr {
            wr_id: id,
            next: std::ptr::null_mut(),
            sg_list: std::ptr::null_mut(),
            num_sge: 0,
        };
        let mut refused = std::ptr::null_mut();
        // SAFETY: our queue pair; the request lives until the call returns, which copies it.
        let code = unsafe { sys::ibv_post_recv(self.pair.as_ptr(), &raw mut request, &raw mut refused) };
        check(code, || format!("post a receive to queue pair {}", self.number()))
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made by us. What cannot be destroyed stays.
        unsafe { sys::ibv_destroy_qp(self.pair.as_ptr()) };
    }
}

/// The number of the first packet: any, the same at both ends.
const FIRST_PACKET: u32 = 0;
/// How long a peer waits that wrote a number and found no receive: 0.64 ms (the specification's table 45).
const NOT_READY_TIMER: u8 = 12;
/// How often it tries again then: for ever. Who comes late is no fault of the network.
const ALWAYS: u8 = 7;
/// Routers that a packet may pass.
const HOPS: u8 = 255;

fn attributes() -> sys::ibv_qp_attr {
    // SAFETY: numbers alone, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

fn address(path: &Path) -> sys::ibv_ah_attr {
    sys::ibv_ah_attr {
        grh: sys::ibv_global_route {
            dgid: sys::ibv_gid { raw: path.remote_gid },
            flow_label: 0,
            sgid_index: u8::try_from(path.gid.index).unwrap_or(u8::MAX),
            hop_limit: HOPS,
            traffic_class: path.traffic_class,
        },
        dlid: path.remote_lid,
        sl: path.service_level,
        src_path_bits: 0,
        static_rate: 0,
        is_global: u8::from(path.is_global),
        port_num: path.port,
    }
}

fn piece(local: Local<'_>) -> sys::ibv_sge {
    sys::ibv_sge {
        addr: local.region.address() + local.offset as u64,
        length: local.len,
        lkey: local.region.local_key(),
    }
}
