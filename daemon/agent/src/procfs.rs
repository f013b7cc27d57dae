//! What `/proc` says of a process: bounded reads, and never an error for one that is gone.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Units of times in `/proc/PID/stat`: `USER_HZ`, which is 100 on every Linux architecture.
const TICKS_PER_SECOND: u64 = 100;
/// Nanoseconds of one such unit.
const TICK_NS: u64 = 1_000_000_000 / TICKS_PER_SECOND;
/// No file of `/proc` that is read here as a whole is longer, but for `locks` and `maps`, which say their own bound.
const MAX_BYTES: u64 = 64 << 10;

/// Who sees processes that the kernel hides from this one (`hidepid`).
pub(super) trait Eyes: Send + Sync {
    /// Opens one of a process's files that are for everybody.
    fn open(&self, pid: u32, file: &str) -> io::Result<File>;
    /// Numbers of all processes, at most `max`.
    fn all(&self, max: usize) -> io::Result<Vec<u32>>;
}

/// Of this whole process, as what is hidden from it is.
static EYES: OnceLock<Box<dyn Eyes>> = OnceLock::new();

/// From now on processes are seen by these eyes.
pub(super) fn see_by(eyes: Box<dyn Eyes>) {
    // Who had set others before is as good.
    let _ = EYES.set(eyes);
}

/// One process, told from another that gets its number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pid {
    /// As this agent sees it.
    pub(super) number: u32,
    /// When it started, in units of `/proc`.
    pub(super) start_ticks: u64,
}

/// What `/proc/PID/stat` says. Source: proc(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Field 3.
    pub(super) state: char,
    /// Field 4: its parent.
    pub parent: u32,
    /// Fields 14 and 15: processor time in user and kernel mode.
    pub(super) cpu_ns: u64,
    /// Field 22: when it started, in units of `/proc`.
    pub start_ticks: u64,
}

impl Stat {
    /// Reads a process, or a thread by its number. `None`: there is none.
    pub fn read(pid: u32) -> Option<Self> {
        Self::parse(&text(pid, "stat")?)
    }

    /// Takes a line apart. The name, in parentheses, may hold anything.
    pub(super) fn parse(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: u32::try_from(number(4)?).ok()?,
            cpu_ns: number(14)?.saturating_add(number(15)?).saturating_mul(TICK_NS),
            start_ticks: number(22)?,
        })
    }

    /// Whether the process runs no more, though its parent has not asked for its end yet.
    pub const fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// When it started, nanoseconds since the Unix epoch.
    pub(super) fn start_ns(&self) -> Option<u64> {
        ns_of_ticks(self.start_ticks)
    }
}

/// A start time of `/proc` in nanoseconds since the Unix epoch, as the collector computes it.
pub(super) fn ns_of_ticks(ticks: u64) -> Option<u64> {
    Some(boot_ns()?.saturating_add(ticks.saturating_mul(TICK_NS)))
}

/// The reverse of [`ns_of_ticks`]. Absent: it is computed from another start of the machine.
pub(super) fn ticks_of_ns(start_ns: u64) -> Option<u64> {
    let since_boot_ns = start_ns.checked_sub(boot_ns()?)?;
    since_boot_ns.is_multiple_of(TICK_NS).then_some(since_boot_ns / TICK_NS)
}

impl Pid {
    /// The process that has this number now.
    pub(super) fn of(number: u32) -> Option<Self> {
        Some(Self { number, start_ticks: Stat::read(number)?.start_ticks })
    }

    /// What it does now; `None` if it is gone, whoever may have its number.
    pub(super) fn stat(self) -> Option<Stat> {
        Stat::read(self.number).filter(|stat| stat.start_ticks == self.start_ticks)
    }
}

/// A process's own number in its innermost pid namespace, and the user whose process it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) own_pid: u32,
    pub(super) user: u32,
    /// The same as which it acts, once acted and may act again, and has files.
    others: [u32; 3],
}

impl Status {
    pub(super) fn read(pid: u32) -> Option<Self> {
        Self::parse(&text(pid, "status")?)
    }

    fn parse(status: &str) -> Option<Self> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let pid = || field("Pid:")?.trim().parse().ok();
        let mut users = field("Uid:")?.split_ascii_whitespace().map_while(|user| user.parse().ok());
        Some(Self {
            // Kernels before 4.1 do not say it.
            own_pid: field("NSpid:").and_then(last_number).or_else(pid)?,
            user: users.next()?,
            others: [users.next()?, users.next()?, users.next()?],
        })
    }

    /// Whether what it makes can be this user's.
    pub(super) fn is_of(&self, user: u32) -> bool {
        self.user == user || self.others.contains(&user)
    }
}

/// A thread's own number in its innermost pid namespace.
pub(super) fn own_thread(pid: u32, thread: u32) -> Option<u32> {
    let status = text(pid, &format!("task/{thread}/status"))?;
    status.lines().find_map(|line| line.strip_prefix("NSpid:")).and_then(last_number)
}

/// The process that a thread, or process, of this number is part of.
pub(super) fn process_of(thread: u32) -> Option<u32> {
    let status = text(thread, "status")?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

fn last_number(numbers: &str) -> Option<u32> {
    numbers.split_ascii_whitespace().last()?.parse().ok()
}

/// A file of a process, cut to a bound; bytes that are no text are replaced.
pub(super) fn text(pid: u32, file: &str) -> Option<String> {
    read(pid, file).ok()
}

/// The same with the reason why not.
pub(super) fn read(pid: u32, file: &str) -> io::Result<String> {
    read_up_to(pid, file, MAX_BYTES)
}

/// The same with a bound of its own.
pub(super) fn read_up_to(pid: u32, file: &str, max_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    open(pid, file)?.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn open(pid: u32, file: &str) -> io::Result<File> {
    match EYES.get() {
        Some(eyes) if pid != std::process::id() => eyes.open(pid, file),
        _ => File::open(path(pid, file)),
    }
}

/// Path of a file of a process.
pub(super) fn path(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

/// Numbers of all processes that this agent sees, at most `max`.
pub(super) fn all(max: usize) -> Vec<u32> {
    if let Some(eyes) = EYES.get() {
        return eyes.all(max).unwrap_or_default();
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(max).collect()
}

/// Threads of a process, at most `max`: the main one, then the others, ascending.
pub(super) fn threads(pid: u32, max: usize) -> Vec<u32> {
    let entries = std::fs::read_dir(path(pid, "task")).into_iter().flatten().flatten();
    let threads = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(max);
    main_first(pid, threads.collect())
}

/// The main thread has the number of the process. Where the kernel has begun anew with its numbers meanwhile, others have
/// lower ones.
fn main_first(pid: u32, mut threads: Vec<u32>) -> Vec<u32> {
    threads.sort_unstable_by_key(|thread| (*thread != pid, *thread));
    threads
}

/// Identity of this boot, the same in all containers of a machine. Empty: not known.
pub fn boot_id() -> &'static str {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    BOOT_ID.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    })
}

/// When this process started, as the collector computes it. An `exec` does not change it.
pub fn own_start_ns() -> Option<u64> {
    Stat::read(std::process::id())?.start_ns()
}

/// Whether this process knows the machine's processes by their numbers there, and not those of a container alone. Source: the kernel's
/// `include/linux/proc_ns.h`, `PROC_PID_INIT_INO`.
pub(super) fn sees_the_machine() -> bool {
    static SEES: OnceLock<bool> = OnceLock::new();
    let link =
        || std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]");
    *SEES.get_or_init(link)
}

/// When the machine started, nanoseconds since the Unix epoch. The file is long on machines with many cores.
pub(super) fn boot_ns() -> Option<u64> {
    static BOOT_NS: OnceLock<Option<u64>> = OnceLock::new();
    *BOOT_NS.get_or_init(|| {
        let system = std::fs::read_to_string("/proc/stat").ok()?;
        let boot = system.lines().find_map(|line| line.strip_prefix("btime "))?;
        boot.trim().parse::<u64>().ok()?.checked_mul(1_000_000_000)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let line = "42 (a) R 1 (b)) T 7 42 42 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 9 0 8771 1 2 3";
        let expected = Stat { state: 'T', parent: 7, cpu_ns: 2_000_000_000, start_ticks: 8771 };
        assert_eq!(Stat::parse(line), Some(expected));
        for line in ["", "42 (sh)", "42 (sh) S", "42 (sh) S 1 2 3 x"] {
            assert_eq!(Stat::parse(line), None, "{line}");
        }
    }

    #[test]
    fn the_innermost_namespace_counts() {
        let status = "Name:\tpython\nPid:\t4711\nUid:\t1000\t1001\t1000\t1000\nNSpid:\t4711\t23\t7\n";
        assert_eq!(
            Status::parse(status),
            Some(Status { own_pid: 7, user: 1000, others: [1001, 1000, 1000] })
        );
        let old = "Pid:\t4711\nUid:\t0\t0\t0\t0\n";
        assert_eq!(Status::parse(old), Some(Status { own_pid: 4711, user: 0, others: [0; 3] }));
        assert_eq!(Status::parse("Name:\tx\n"), None);
    }

    #[test]
    fn the_main_thread_is_first_where_numbers_began_anew() {
        assert_eq!(main_first(32_557, vec![300, 32_763, 32_557]), [32_557, 300, 32_763]);
    }

    #[test]
    fn another_with_the_same_number_is_another() {
        let own = Pid::of(std::process::id()).unwrap();
        assert!(own.stat().is_some_and(|stat| !stat.has_ended()));
        assert_eq!(Pid { start_ticks: own.start_ticks + 1, ..own }.stat(), None);
        assert_eq!(Pid::of(u32::MAX), None);
        assert!(threads(own.number, 64).contains(&own.number));
        assert!(all(1 << 20).contains(&own.number) && all(3).len() == 3);
    }
}
