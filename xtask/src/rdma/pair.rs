//! Two guests on two cables: what stages work with.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::cache::{self, Fresh};
use super::image::{self, Image};
use super::machine::{Cables, Machine, PORT_TAKEN, SHARE};
use super::options::Options;
use super::shell::{Output, Running};
use crate::clock::Stopwatch;
use crate::process::say;

/// Of a guest beside its memory: QEMU itself, and what it has translated.
const OVERHEAD_MIB: u64 = 200;

/// Ports of the command agents may be taken between our look and QEMU's; not thrice.
const TRIES: usize = 3;

/// Two guests, ready. Boot it on a thread that outlives it: QEMU ends with the thread that started it.
#[derive(Debug)]
pub(crate) struct Pair {
    guests: [Guest; 2],
    /// From nothing to both ready, without the building of what they boot.
    pub(crate) boot_seconds: f64,
    folder: Fresh,
}

impl Pair {
    /// Boots two guests and waits until both are ready.
    pub(crate) fn boot(options: &Options) -> Result<Self> {
        enough_memory(options)?;
        let image = image::make(&options.extras)?;
        for _ in 1..TRIES {
            match Self::boot_once(&image, options) {
                Err(error) if format!("{error:#}").contains(PORT_TAKEN) => say(&format!("again: {error:#}")),
                result => return result,
            }
        }
        Self::boot_once(&image, options)
    }

    fn boot_once(image: &Image, options: &Options) -> Result<Self> {
        let folder = Fresh::folder("pair")?;
        let share = folder.0.join(SHARE);
        fs::create_dir(&share).context("cannot make the shared folder")?;
        let watch = Stopwatch::start();
        let (rdma, tcp) = (UnixStream::pair()?, UnixStream::pair()?);
        let cables = [Cables { rdma: rdma.0, tcp: tcp.0 }, Cables { rdma: rdma.1, tcp: tcp.1 }];
        let start = |number: u8, cables: &Cables| -> Result<Guest> {
            let machine = Arc::new(Machine::start(number, image, &folder.0, cables, options)?);
            Ok(Guest { number, machine, share: share.clone(), watch, limit: options.limit })
        };
        let guests = [start(1, &cables[0])?, start(2, &cables[1])?];
        guests.iter().try_for_each(|guest| guest.machine.wait_until_ready())?;
        let boot_seconds = watch.seconds();
        say(&format!("both guests are ready after {boot_seconds:.1} s"));
        Ok(Self { guests, boot_seconds, folder })
    }

    /// Guest 1 or 2.
    pub(crate) fn guest(&self, number: u8) -> &Guest {
        let [one, two] = &self.guests;
        if number == 1 { one } else { two }
    }

    /// Both.
    pub(crate) fn guests(&self) -> &[Guest; 2] {
        &self.guests
    }

    /// Whether none was killed.
    pub(super) fn is_whole(&self) -> bool {
        self.guests.iter().all(|guest| guest.machine.is_alive())
    }

    /// The folder that both guests see as `/share`.
    pub(crate) fn share(&self) -> PathBuf {
        self.folder.0.join(SHARE)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for guest in &self.guests {
            guest.kill("it was ended");
            // Those of the last run stay, for who wonders.
            let console = format!("{}.console", guest.name());
            if let Ok(cache) = cache::folder() {
                let _ = fs::rename(self.folder.0.join(&console), cache.join(&console));
            }
        }
    }
}

/// One of the two.
#[derive(Debug)]
pub(crate) struct Guest {
    number: u8,
    machine: Arc<Machine>,
    share: PathBuf,
    /// Since the boot, and what of it commands may have.
    watch: Stopwatch,
    limit: Duration,
}

impl Guest {
    /// 1 or 2.
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// As it calls itself.
    pub(crate) fn name(&self) -> &str {
        self.machine.name()
    }

    /// Runs `sh -c command` to its end. Fails if the guest dies, and after `limit`; not by the command's exit status.
    pub(crate) fn run(&self, command: &str, limit: Duration) -> Result<Output> {
        let left = self.limit.saturating_sub(self.watch.elapsed());
        ensure!(!left.is_zero(), "{}: the pair's limit of {} s is over", self.name(), self.limit.as_secs());
        self.spawn(command)?.wait(limit.min(left))
    }

    /// Starts `sh -c command`.
    pub(crate) fn spawn(&self, command: &str) -> Result<Running> {
        Running::start(Arc::clone(&self.machine), command)
    }

    /// Gives both guests a file of this machine, and says under which name: `/share/` and the file's own.
    pub(crate) fn put(&self, file: &Path) -> Result<String> {
        let name = file.file_name().context("a file's name")?;
        let place = self.share.join(name);
        let _ = fs::remove_file(&place);
        fs::copy(file, &place).with_context(|| format!("cannot copy {}", file.display()))?;
        Ok(format!("/share/{}", name.display()))
    }

    /// Where this machine reaches a TCP port of it, one of [`Extras::ports`].
    pub(crate) fn address(&self, port: u16) -> Result<String> {
        let here = self.machine.port(port);
        let here =
            here.with_context(|| format!("port {port} of {} is not among Extras::ports", self.name()))?;
        Ok(format!("127.0.0.1:{here}"))
    }

    /// Ends it at once, as a power failure does.
    pub(crate) fn kill(&self, reason: &str) {
        self.machine.kill(reason);
    }
}

fn enough_memory(options: &Options) -> Result<()> {
    let needed_mib = 2 * (u64::from(options.memory_mib) + OVERHEAD_MIB);
    let told = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = told.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available_kib = available.and_then(|rest| rest.trim().split(' ').next()?.parse::<u64>().ok());
    let available_mib = available_kib.map_or(u64::MAX, |kib| kib / 1024);
    ensure!(
        available_mib >= needed_mib,
        "two guests of {} MiB need {needed_mib} MiB, and {available_mib} MiB are free: free some, or give less by --memory-mib",
        options.memory_mib
    );
    Ok(())
}
