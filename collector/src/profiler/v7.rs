//! Version 7 (NCCL 2.32): with kernel phases, symmetric kernels and tags of the caller.

#![expect(unsafe_code, reason = "the library's own structures")]

use crate::profiler::event::{Text, Word};
use crate::profiler::layout::{Detail, InitById, Table, Version};
use crate::profiler::{event, finalize, init_by_id, layout, record_event_state, start_event, stop_event};

/// The plugin, found by the library by this name.
#[unsafe(no_mangle)]
static ncclProfiler_v7: Table<InitById> = Table {
    name: c"ringscope".as_ptr(),
    init: init_by_id::<V7>,
    start_event: start_event::<V7>,
    stop_event,
    record_event_state: record_event_state::<V7>,
    finalize,
};

pub(super) struct V7;

impl Version for V7 {
    const NUMBER: u32 = 7;
    const SIZE: usize = 136;
    type Coll = Coll;
    type P2p = P2p;
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Coll {
    seq_number: u64,
    func: Text,
    send: usize,
    recv: usize,
    count: usize,
    root: i32,
    datatype: Text,
    n_channels: u8,
    n_warps: u8,
    algorithm: Text,
    protocol: Text,
    parent_group: u64,
    kernel_variant: usize,
    is_symmetric: u8,
    user_tag: u64,
}

// SAFETY: integers and texts.
unsafe impl Detail for Coll {}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct P2p {
    func: Text,
    buffer: usize,
    datatype: Text,
    count: usize,
    peer: i32,
    n_channels: u8,
    parent_group: u64,
    user_tag: u64,
}

// SAFETY: integers and texts.
unsafe impl Detail for P2p {}

impl From<Coll> for event::Coll {
    #[inline(always)]
    fn from(coll: Coll) -> Self {
        Self {
            name: Text::NULL,
            comm_hash: 0,
            seq_number: coll.seq_number,
            func: Word::Text(coll.func),
            send: coll.send,
            recv: coll.recv,
            count: coll.count,
            root: coll.root,
            datatype: Word::Text(coll.datatype),
            n_channels: coll.n_channels,
            n_warps: coll.n_warps,
            algorithm: Word::Text(coll.algorithm),
            protocol: Word::Text(coll.protocol),
            parent_group: coll.parent_group,
            kernel_variant: coll.kernel_variant,
            is_symmetric: coll.is_symmetric,
            user_tag: coll.user_tag,
        }
    }
}

impl From<P2p> for event::P2p {
    #[inline(always)]
    fn from(p2p: P2p) -> Self {
        Self {
            name: Text::NULL,
            comm_hash: 0,
            func: Word::Text(p2p.func),
            buffer: p2p.buffer,
            datatype: Word::Text(p2p.datatype),
            count: p2p.count,
            peer: p2p.peer,
            n_channels: p2p.n_channels,
            parent_group: p2p.parent_group,
            user_tag: p2p.user_tag,
        }
    }
}

impl From<&event::Coll> for Coll {
    fn from(coll: &event::Coll) -> Self {
        Self {
            seq_number: coll.seq_number,
            func: layout::text(coll.func),
            send: coll.send,
            recv: coll.recv,
            count: coll.count,
            root: coll.root,
            datatype: layout::text(coll.datatype),
            n_channels: coll.n_channels,
            n_warps: coll.n_warps,
            algorithm: layout::text(coll.algorithm),
            protocol: layout::text(coll.protocol),
            parent_group: coll.parent_group,
            kernel_variant: coll.kernel_variant,
            is_symmetric: coll.is_symmetric,
            user_tag: coll.user_tag,
        }
    }
}

impl From<&event::P2p> for P2p {
    fn from(p2p: &event::P2p) -> Self {
        Self {
            func: layout::text(p2p.func),
            buffer: p2p.buffer,
            datatype: layout::text(p2p.datatype),
            count: p2p.count,
            peer: p2p.peer,
            n_channels: p2p.n_channels,
            parent_group: p2p.parent_group,
            user_tag: p2p.user_tag,
        }
    }
}

const _: () = {
    use layout::DETAIL;
    use std::mem::offset_of;
    assert!(offset_of!(Coll, seq_number) + DETAIL == 24);
    assert!(offset_of!(Coll, func) + DETAIL == 32);
    assert!(offset_of!(Coll, send) + DETAIL == 40);
    assert!(offset_of!(Coll, recv) + DETAIL == 48);
    assert!(offset_of!(Coll, count) + DETAIL == 56);
    assert!(offset_of!(Coll, root) + DETAIL == 64);
    assert!(offset_of!(Coll, datatype) + DETAIL == 72);
    assert!(offset_of!(Coll, n_channels) + DETAIL == 80);
    assert!(offset_of!(Coll, n_warps) + DETAIL == 81);
    assert!(offset_of!(Coll, algorithm) + DETAIL == 88);
    assert!(offset_of!(Coll, protocol) + DETAIL == 96);
    assert!(offset_of!(Coll, parent_group) + DETAIL == 104);
    assert!(offset_of!(Coll, kernel_variant) + DETAIL == 112);
    assert!(offset_of!(Coll, is_symmetric) + DETAIL == 120);
    assert!(offset_of!(Coll, user_tag) + DETAIL == 128);
    assert!(offset_of!(P2p, func) + DETAIL == 24);
    assert!(offset_of!(P2p, buffer) + DETAIL == 32);
    assert!(offset_of!(P2p, datatype) + DETAIL == 40);
    assert!(offset_of!(P2p, count) + DETAIL == 48);
    assert!(offset_of!(P2p, peer) + DETAIL == 56);
    assert!(offset_of!(P2p, n_channels) + DETAIL == 60);
    assert!(offset_of!(P2p, parent_group) + DETAIL == 64);
    assert!(offset_of!(P2p, user_tag) + DETAIL == 72);
    assert!(size_of::<Coll>() + DETAIL == V7::SIZE);
};
