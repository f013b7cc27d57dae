//! Reads what may be a log: the first byte says in which pieces it comes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringscope_logs::nccl_log::{NcclLog, assemble};

fuzz_target!(|data: &[u8]| {
    let Some((first, text)) = data.split_first() else { return };
    let mut log = NcclLog::new();
    text.chunks(usize::from(*first) + 1).for_each(|chunk| log.feed(chunk));
    log.finish();
    let _ = log.lacks();
    let _ = assemble(&[&log]);
});
