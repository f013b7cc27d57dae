//! Where the kernel's messages are read: /dev/kmsg, or the journal where that may not be read.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::record::{Read, of_journal, of_kmsg};
use crate::programs::{Programs, Started, Wanted};

/// The kernel writes no longer record (`PRINTKRB_RECORD_MAX`, `CONSOLE_EXT_LOG_MAX`: 8192 bytes).
const BUFFER_BYTES: usize = 16 << 10;
/// A line of the journal is no longer; what is longer is nobody's message of a fault.
const MAX_LINE: usize = 64 << 10;
/// How long a reader waits before it looks whether it shall end.
const PATIENCE: Duration = Duration::from_millis(250);

/// Where messages come from.
pub(super) enum Source {
    Kmsg(Kmsg),
    Journal(Journal),
}

impl Source {
    /// Opens what can be read.
    ///
    /// # Errors
    /// Why neither can be, in words for an operator.
    pub(super) fn open(kmsg: &Path, programs: &Programs) -> Result<Self, String> {
        let first = match Kmsg::open(kmsg) {
            Ok(source) => return Ok(Self::Kmsg(source)),
            Err(error) => format!("{} cannot be read: {error}", kmsg.display()),
        };
        match Journal::open(programs) {
            Ok(source) => Ok(Self::Journal(source)),
            Err(why) => Err(format!(
                "{first}; {why}. Run the agent as root, with CAP_SYSLOG, or in the group systemd-journal"
            )),
        }
    }

    pub(super) fn name(&self, kmsg: &Path) -> String {
        match self {
            Self::Kmsg(_) => kmsg.display().to_string(),
            Self::Journal(_) => "journal".to_owned(),
        }
    }

    /// Whether what comes next was written just now: all that waited to be read has been. The journal says itself when it
    /// had a message.
    pub(super) const fn is_live(&self) -> bool {
        matches!(self, Self::Kmsg(Kmsg { is_live: true, .. }))
    }

    /// The next messages; waits a moment if there are none. What the kernel has overwritten is missing in their numbers.
    ///
    /// # Errors
    /// It cannot be read any more.
    pub(super) fn next(&mut self) -> io::Result<Vec<Read>> {
        match self {
            Self::Kmsg(kmsg) => kmsg.next(),
            Self::Journal(journal) => journal.next(),
        }
    }
}

/// The kernel's own device: one record a read, from the oldest that it still has.
pub(super) struct Kmsg {
    file: File,
    lines: Lines,
    /// It was read to its end once.
    is_live: bool,
}

impl Kmsg {
    fn open(path: &Path) -> io::Result<Self> {
        let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        Ok(Self { file, lines: Lines::default(), is_live: false })
    }

    fn next(&mut self) -> io::Result<Vec<Read>> {
        let mut buffer = vec![0; BUFFER_BYTES];
        match self.file.read(&mut buffer) {
            // No device: a file or a pipe, at its end for now.
            Ok(0) => {
                self.is_live = true;
                std::thread::sleep(PATIENCE);
                Ok(Vec::new())
            }
            Ok(n) => {
                let lines = self.lines.feed(&buffer[..n]);
                // Lines that begin with a space belong to the record before.
                Ok(lines.iter().filter(|line| !line.starts_with(b" ")).map(|line| of_kmsg(line)).collect())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_live = true;
                wait(&self.file)?;
                Ok(Vec::new())
            }
            // The kernel has overwritten what came next: the numbers will tell how many.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// `journalctl`, which follows for us.
pub(super) struct Journal {
    program: Started,
    lines: Lines,
    last: Option<u64>,
}

impl Journal {
    fn open(programs: &Programs) -> Result<Self, String> {
        // A user who may not read the kernel's messages is shown none, without an error.
        let mut newest = programs.start(Wanted::NewestOfJournal)?;
        let mut shown = [0];
        let is_silent = newest.output.read(&mut shown).is_ok_and(|n| n == 0);
        newest.wait();
        if is_silent {
            return Err("the journal shows no message of the kernel to this user".to_owned());
        }
        let program = programs.start(Wanted::Journal)?;
        let flags = fcntl_getfl(&program.output)
            .and_then(|flags| fcntl_setfl(&program.output, flags | OFlags::NONBLOCK));
        flags.map_err(|error| format!("the journal cannot be followed: {error}"))?;
        Ok(Self { program, lines: Lines::default(), last: None })
    }

    fn next(&mut self) -> io::Result<Vec<Read>> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let n = match self.program.output.read(&mut buffer) {
            Ok(0) => return Err(io::Error::other("journalctl has ended")),
            Ok(n) => n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                wait(&self.program.output)?;
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let mut read = Vec::new();
        for line in self.lines.feed(&buffer[..n]) {
            let message = of_journal(&String::from_utf8_lossy(&line), self.last);
            if let Read::Kernel(record) = &message {
                self.last = Some(record.number);
            }
            read.push(message);
        }
        Ok(read)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.program.end();
    }
}

/// Waits for input, or until it is time to look whether to end.
fn wait(file: &impl std::os::fd::AsFd) -> io::Result<()> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(PATIENCE.subsec_nanos()) };
    let mut fds = [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)];
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whole lines of what comes in pieces.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.rest.extend_from_slice(bytes);
        let Some(end) = memchr::memrchr(b'\n', &self.rest) else {
            if self.rest.len() > MAX_LINE {
                self.rest.clear();
            }
            return Vec::new();
        };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    }
}
