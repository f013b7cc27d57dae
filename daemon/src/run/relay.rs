//! Copies what the user asked the library to log from the private logs to where they asked for it, and frees what of them
//! nobody needs any more.
//!
//! A process of its own, beside the job: it reads files that the library writes, so that nothing it does, its death
//! included, can hold up or hurt the job. It ends when the job's processes are gone and all is copied.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringscope_agent::log_hole::{Freed, KEPT_BYTES, hold};
use ringscope_agent::sweep::{AWAY, is_served};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::descriptors;
use super::lines::Filter;
use super::log::{LOG_PREFIX, Level, Wish, is_regular};

/// Arguments of the hidden command.
#[derive(Debug, clap::Args)]
pub struct RelayArgs {
    /// Folder of the private logs
    #[arg(long)]
    dir: PathBuf,
    /// Which of them
    #[arg(long)]
    run_id: String,
    /// Process that the job begins with
    #[arg(long)]
    pid: u32,
    /// What to copy; nothing if not said
    #[arg(long, value_enum)]
    level: Option<Level>,
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    #[arg(long)]
    file: Option<PathBuf>,
    /// Start the relay, detached, and return
    #[arg(long)]
    detach: bool,
}

/// Starts the relay for the process that this one is about to become.
///
/// # Errors
/// Those of starting a process.
pub(super) fn start(wish: Option<&Wish>, dir: &Path, run_id: &str) -> io::Result<()> {
    let file = wish.and_then(|wish| wish.file.as_deref()).map(std::path::absolute).transpose()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("log-relay").arg("--detach").arg("--dir").arg(dir).args(["--run-id", run_id]);
    command.args(["--pid", &std::process::id().to_string()]);
    if let Some(wish) = wish {
        command.args(["--level", &format!("{:?}", wish.level).to_lowercase()]);
        if !wish.without.is_empty() {
            command.args(["--without", &wish.without.join(",")]);
        }
    } else {
        command.stdout(Stdio::null());
    }
    if let Some(file) = &file {
        // The library empties its file when it opens it. Done here, before any rank has written.
        if is_regular(file.as_os_str()) && !file.as_os_str().to_string_lossy().contains('%') {
            let _ = File::create(file);
        }
        command.arg("--file").arg(file);
    }
    let wants_stderr = file.as_deref().is_some_and(|file| !is_regular(file.as_os_str()));
    let stderr = if wants_stderr { Stdio::inherit() } else { Stdio::null() };
    let status = command.env_remove("LD_PRELOAD").stdin(Stdio::null()).stderr(stderr).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("it ended with {status}"))) }
}

/// The hidden command. With `--detach` the relay becomes nobody's child, so that the job never meets it in `wait`.
///
/// # Errors
/// Those of starting a process and of reading the logs.
pub fn run(args: &RelayArgs) -> io::Result<()> {
    if args.detach {
        rustix::process::setsid()?;
        descriptors::keep_to_oneself();
        let words = std::env::args_os().skip(1).filter(|word| word != "--detach");
        return Command::new(std::env::current_exe()?).args(words).current_dir("/").spawn().map(drop);
    }
    let main = Main::watch(args.pid);
    let mut relay = Relay::new(args);
    loop {
        // Asked before reading: what the last process wrote is then read.
        let is_over = main.has_ended() && !relay.is_written_to();
        relay.copy()?;
        if is_over {
            relay.finish();
            return Ok(());
        }
        main.wait(if args.level.is_some() { INTERVAL } else { IDLE_INTERVAL });
    }
}

/// The process that the job begins with.
struct Main(Option<std::os::fd::OwnedFd>);

impl Main {
    fn watch(pid: u32) -> Self {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Self(pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()))
    }

    fn has_ended(&self) -> bool {
        self.poll(Duration::ZERO)
    }

    /// Waits for its end, but not longer than this. Once it has ended, just waits.
    fn wait(&self, time: Duration) {
        if self.has_ended() {
            std::thread::sleep(time);
        } else {
            self.poll(time);
        }
    }

    fn poll(&self, time: Duration) -> bool {
        let Some(pidfd) = &self.0 else { return true };
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        let time = Timespec::try_from(time).ok();
        poll(&mut fds, time.as_ref()).is_ok_and(|ready| ready > 0)
    }
}

/// One private log.
struct Log {
    pid: String,
    offset: u64,
    /// What is copied; `None`: nothing, others read it.
    copied: Option<(Filter, usize)>,
    /// While it is being copied and long, so that the agent frees nothing of it.
    held: Option<File>,
    freed: Freed,
    /// How far it had been read a while ago, and when.
    before: [(Instant, u64); 2],
}

impl Log {
    /// Copies what was added.
    fn copy(&mut self, path: &Path, targets: &mut [(PathBuf, Box<dyn Write>)]) -> io::Result<()> {
        // A log that the agent has removed meanwhile has been read long ago.
        let Ok(file) = File::open(path) else {
            self.held = None;
            return Ok(());
        };
        let len = file.metadata()?.len();
        let Some((filter, target)) = &mut self.copied else {
            self.offset = len;
            return Ok(());
        };
        if len > KEPT_BYTES && self.held.is_none() {
            self.held = hold(path).ok();
        }
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let read = file.read_at(&mut buffer, self.offset)?;
            if read == 0 {
                return Ok(());
            }
            self.offset += read as u64;
            // As of the library: what finds no room is lost.
            let _ = put(targets, *target, &filter.feed(&buffer[..read]));
        }
    }

    /// Frees what has been copied. An agent may come back that has read less: of what it reads, only what is old goes.
    fn free(&mut self, path: &Path, is_served: bool, now: Instant) -> io::Result<()> {
        if now.duration_since(self.before[1].0) >= AWAY {
            self.before = [self.before[1], (now, self.offset)];
        }
        match &self.held {
            Some(held) => self.freed.free(held, if is_served { self.before[0].1 } else { self.offset }),
            None if is_served || self.offset <= KEPT_BYTES => Ok(()),
            None => self.freed.free(&hold(path)?, self.offset),
        }
    }
}

struct Relay<'a> {
    args: &'a RelayArgs,
    prefix: String,
    logs: BTreeMap<PathBuf, Log>,
    /// Open destinations by their names, `%h` and `%p` replaced.
    targets: Vec<(PathBuf, Box<dyn Write>)>,
}

impl<'a> Relay<'a> {
    fn new(args: &'a RelayArgs) -> Self {
        let prefix = format!("{LOG_PREFIX}{}-", args.run_id);
        Self { args, prefix, logs: BTreeMap::new(), targets: Vec::new() }
    }

    /// Whether a living process has one of the logs open.
    fn is_written_to(&self) -> bool {
        self.logs.iter().any(|(path, log)| {
            let fds = fs::read_dir(format!("/proc/{}/fd", log.pid));
            fds.into_iter().flatten().flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == *path))
        })
    }

    fn copy(&mut self) -> io::Result<()> {
        self.discover();
        self.logs.iter_mut().try_for_each(|(path, log)| log.copy(path, &mut self.targets))?;
        if self.logs.values().all(|log| log.offset <= KEPT_BYTES) {
            return Ok(());
        }
        let now = ringscope_api::clock::monotonic();
        let is_served =
            self.args.dir.parent().is_some_and(|segments| is_served(segments, ringscope_api::clock::now()));
        for (path, log) in &mut self.logs {
            // One that cannot be freed grows, as it would without us.
            let _ = log.free(path, is_served, now);
        }
        Ok(())
    }

    /// Lines that were cut by the end of their process.
    fn finish(&mut self) {
        for log in self.logs.values_mut() {
            if let Some((filter, target)) = &mut log.copied {
                let _ = put(&mut self.targets, *target, &filter.finish());
            }
        }
    }

    fn discover(&mut self) {
        for entry in fs::read_dir(&self.args.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Some((host, pid)) = (name.strip_prefix(&self.prefix))
                .and_then(|rest| rest.strip_suffix(".log"))
                .and_then(|rest| rest.rsplit_once('-'))
            else {
                continue;
            };
            if !self.logs.contains_key(&entry.path()) {
                let copied = (self.args.level)
                    .map(|level| (Filter::new(level, &self.args.without), self.target(host, pid)));
                let before = [(ringscope_api::clock::monotonic(), 0); 2];
                let (pid, freed) = (pid.to_owned(), Freed::default());
                self.logs.insert(entry.path(), Log { pid, offset: 0, copied, held: None, freed, before });
            }
        }
    }

    /// The destination for the lines of a process; as in NCCL, standard output where it cannot be opened.
    fn target(&mut self, host: &str, pid: &str) -> usize {
        let name = self.args.file.as_deref().map(OsStr::new).unwrap_or_default().to_string_lossy();
        let name = name.replace("%%", "\0");
        let is_its_own = name.contains("%p");
        let path = PathBuf::from(name.replace("%h", host).replace("%p", pid).replace('\0', "%"));
        if let Some(known) = self.targets.iter().position(|(known, _)| *known == path) {
            return known;
        }
        // The library empties its file when it opens it. What several processes write to was emptied before the first.
        if is_its_own && is_regular(path.as_os_str()) {
            let _ = File::create(&path);
        }
        let file = OpenOptions::new().create(true).append(true).open(&path).ok();
        let target: Box<dyn Write> = match file {
            Some(file) => Box::new(file),
            None => Box::new(io::stdout()),
        };
        self.targets.push((path, target));
        self.targets.len() - 1
    }
}

/// Whole lines in one write, so that other writers of the same file cannot cut them.
fn put(targets: &mut [(PathBuf, Box<dyn Write>)], target: usize, lines: &[u8]) -> io::Result<()> {
    if let Some((_, target)) = targets.get_mut(target).filter(|_| !lines.is_empty()) {
        target.write_all(lines)?;
        target.flush()?;
    }
    Ok(())
}

/// Time between two readings: a person at a terminal does not notice it, and it costs next to nothing.
const INTERVAL: Duration = Duration::from_millis(100);
/// The same where nothing is copied: a log grows by little in it.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
const CHUNK_BYTES: usize = 64 * 1024;
