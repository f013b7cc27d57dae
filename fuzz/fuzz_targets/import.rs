//! Reads and judges what may be an imported file: the first byte says in which chunks it comes.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use ringscope_api::clock::Timestamp;
use ringscope_import::{Room, Upload};
use tokio::runtime::Runtime;

/// As much as a daemon gives to one file.
struct Bounded;

impl Room for Bounded {
    fn take(&self, bytes: usize) -> std::io::Result<()> {
        if bytes > 40 << 20 { Err(std::io::ErrorKind::OutOfMemory.into()) } else { Ok(()) }
    }

    fn take_parsed(&self, bytes: usize) -> std::io::Result<()> {
        if bytes > 256 << 20 { Err(std::io::ErrorKind::OutOfMemory.into()) } else { Ok(()) }
    }

    fn zstd_window_log_max(&self) -> u32 {
        23
    }

    fn is_wanted(&self) -> std::io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().build().ok());
    let (Some(runtime), Some((first, body))) = (runtime, data.split_first()) else { return };
    let (upload, uploading) = Upload::new();
    let chunks: Vec<_> =
        body.chunks((usize::from(*first) + 1) * 16).map(|chunk| chunk.to_vec().into()).collect();
    let sending = runtime.spawn(async move {
        for chunk in chunks {
            if !upload.send(Ok(chunk)).await {
                return;
            }
        }
    });
    let _ = uploading.judge(&Bounded, ("file_0", Timestamp(0)), "job", "agent", Timestamp(1 << 60));
    let _ = runtime.block_on(sending);
});
