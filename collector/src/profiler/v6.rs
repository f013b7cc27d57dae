//! Version 6 (NCCL 2.29 and 2.30): version 5 with collectives by copy engines.

#![expect(unsafe_code, reason = "a symbol that the library looks up")]

use crate::profiler::layout::{InitById, Table, Version};
use crate::profiler::v5::{Coll, P2p, V5};
use crate::profiler::{finalize, init_by_id, record_event_state, start_event, stop_event};

/// The plugin, found by the library by this name.
#[unsafe(no_mangle)]
static ncclProfiler_v6: Table<InitById> = Table {
    name: c"ringscope".as_ptr(),
    init: init_by_id::<V6>,
    start_event: start_event::<V6>,
    stop_event,
    record_event_state: record_event_state::<V6>,
    finalize,
};

pub(super) struct V6;

impl Version for V6 {
    const NUMBER: u32 = 6;
    const SIZE: usize = V5::SIZE;
    type Coll = Coll;
    type P2p = P2p;
}

const _: () = assert!(V6::SIZE == 112);
