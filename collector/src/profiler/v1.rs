//! Version 1 (NCCL 2.23): numbers where later versions have texts; the communicator is named in each task.

#![expect(unsafe_code, reason = "the library's own structures")]

use crate::profiler::event::{Text, Word};
use crate::profiler::layout::{Detail, InitBlank, Table, Version};
use crate::profiler::{event, finalize, init_blank, layout, record_event_state, start_event, stop_event};

/// The plugin, found by the library by this name.
#[unsafe(no_mangle)]
static ncclProfiler_v1: Table<InitBlank> = Table {
    name: c"ringscope".as_ptr(),
    init: init_blank::<V1>,
    start_event: start_event::<V1>,
    stop_event,
    record_event_state: record_event_state::<V1>,
    finalize,
};

pub(super) struct V1;

impl Version for V1 {
    const NUMBER: u32 = 1;
    const SIZE: usize = 120;
    type Coll = Coll;
    type P2p = P2p;
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Coll {
    name: Text,
    comm_hash: u64,
    seq_number: u64,
    func: u8,
    send: usize,
    recv: usize,
    count: usize,
    root: i32,
    datatype: u8,
    _op: u32,
    _traffic_bytes: usize,
    n_channels: u8,
    n_warps: u8,
    algorithm: u8,
    protocol: u8,
    _is_collnet: i32,
    _is_nvls: i32,
}

// SAFETY: integers and texts.
unsafe impl Detail for Coll {}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct P2p {
    name: Text,
    comm_hash: u64,
    func: u8,
    buffer: usize,
    datatype: u8,
    count: usize,
    peer: i32,
}

// SAFETY: integers and texts.
unsafe impl Detail for P2p {}

impl From<Coll> for event::Coll {
    #[inline(always)]
    fn from(coll: Coll) -> Self {
        Self {
            name: coll.name,
            comm_hash: coll.comm_hash,
            seq_number: coll.seq_number,
            func: Word::Number(coll.func),
            send: coll.send,
            recv: coll.recv,
            count: coll.count,
            root: coll.root,
            datatype: Word::Number(coll.datatype),
            n_channels: coll.n_channels,
            n_warps: coll.n_warps,
            algorithm: Word::Number(coll.algorithm),
            protocol: Word::Number(coll.protocol),
            parent_group: 0,
            kernel_variant: 0,
            is_symmetric: 0,
            user_tag: 0,
        }
    }
}

impl From<P2p> for event::P2p {
    #[inline(always)]
    fn from(p2p: P2p) -> Self {
        Self {
            name: p2p.name,
            comm_hash: p2p.comm_hash,
            func: Word::Number(p2p.func),
            buffer: p2p.buffer,
            datatype: Word::Number(p2p.datatype),
            count: p2p.count,
            peer: p2p.peer,
            n_channels: 0,
            parent_group: 0,
            user_tag: 0,
        }
    }
}

impl From<&event::Coll> for Coll {
    fn from(coll: &event::Coll) -> Self {
        Self {
            name: coll.name,
            comm_hash: coll.comm_hash,
            seq_number: coll.seq_number,
            func: event::number(coll.func, layout::FUNCS),
            send: coll.send,
            recv: coll.recv,
            count: coll.count,
            root: coll.root,
            datatype: event::number(coll.datatype, layout::DATATYPES),
            _op: 0,
            _traffic_bytes: 0,
            n_channels: coll.n_channels,
            n_warps: coll.n_warps,
            algorithm: event::number(coll.algorithm, layout::ALGORITHMS),
            protocol: event::number(coll.protocol, layout::PROTOCOLS),
            _is_collnet: 0,
            _is_nvls: 0,
        }
    }
}

impl From<&event::P2p> for P2p {
    fn from(p2p: &event::P2p) -> Self {
        Self {
            name: p2p.name,
            comm_hash: p2p.comm_hash,
            func: event::number(p2p.func, layout::FUNCS),
            buffer: p2p.buffer,
            datatype: event::number(p2p.datatype, layout::DATATYPES),
            count: p2p.count,
            peer: p2p.peer,
        }
    }
}

const _: () = {
    use layout::DETAIL;
    use std::mem::offset_of;
    assert!(offset_of!(Coll, name) + DETAIL == 24);
    assert!(offset_of!(Coll, comm_hash) + DETAIL == 32);
    assert!(offset_of!(Coll, seq_number) + DETAIL == 40);
    assert!(offset_of!(Coll, func) + DETAIL == 48);
    assert!(offset_of!(Coll, send) + DETAIL == 56);
    assert!(offset_of!(Coll, recv) + DETAIL == 64);
    assert!(offset_of!(Coll, count) + DETAIL == 72);
    assert!(offset_of!(Coll, root) + DETAIL == 80);
    assert!(offset_of!(Coll, datatype) + DETAIL == 84);
    assert!(offset_of!(Coll, _op) + DETAIL == 88);
    assert!(offset_of!(Coll, _traffic_bytes) + DETAIL == 96);
    assert!(offset_of!(Coll, n_channels) + DETAIL == 104);
    assert!(offset_of!(Coll, n_warps) + DETAIL == 105);
    assert!(offset_of!(Coll, algorithm) + DETAIL == 106);
    assert!(offset_of!(Coll, protocol) + DETAIL == 107);
    assert!(offset_of!(Coll, _is_collnet) + DETAIL == 108);
    assert!(offset_of!(Coll, _is_nvls) + DETAIL == 112);
    assert!(offset_of!(P2p, name) + DETAIL == 24);
    assert!(offset_of!(P2p, comm_hash) + DETAIL == 32);
    assert!(offset_of!(P2p, func) + DETAIL == 40);
    assert!(offset_of!(P2p, buffer) + DETAIL == 48);
    assert!(offset_of!(P2p, datatype) + DETAIL == 56);
    assert!(offset_of!(P2p, count) + DETAIL == 64);
    assert!(offset_of!(P2p, peer) + DETAIL == 72);
    assert!(size_of::<Coll>() + DETAIL == V1::SIZE);
};
