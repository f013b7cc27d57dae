//! Processes of other users: this same program, started again as somebody else. Only root can do that.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringscope_api::clock::monotonic;
use ringscope_wire::Primitive;
use ringscope_wire::segment::layout::Fixed;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::init_lines;
use crate::segment::{SegmentWriter, fixed};

/// A user whose job is to be seen, and one who means ill. Neither needs an entry in `/etc/passwd`.
pub const VICTIM: u32 = 4_001;
pub const HOSTILE: u32 = 4_002;
/// Another one whose job is to be seen.
pub const SECOND: u32 = 4_003;
pub const MACHINE: &str = "machine1";
pub const VICTIM_RUN: &str = "0f3a";
/// The variables by which a child is told what to do, in which folder, and with what.
const DEED: &str = "RINGSCOPE_TEST_DEED";
const DIR: &str = "RINGSCOPE_TEST_DIR";
const ARGUMENT: &str = "RINGSCOPE_TEST_ARGUMENT";

/// Whether this test can be done. If not, it says so.
pub fn can_be_others() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("not root: no process can be started as another user, so this is not tried");
    }
    is_root
}

/// A process of another user, which is killed when it is dropped.
pub struct Other {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Other {
    /// Starts a deed as this user.
    pub fn start(user: u32, deed: &str, dir: &Path, argument: &str) -> Self {
        // By this link also where nobody else may come by the program's path.
        Self::start_by(Command::new("/proc/self/exe"), user, deed, dir, argument)
    }

    /// The same on a machine of another name, as a container has one.
    pub fn start_in_container(user: u32, deed: &str, dir: &Path, argument: &str) -> Self {
        let mut command = Command::new("unshare");
        // By a descriptor, for this link is another process's once there is another program.
        let own = File::open("/proc/self/exe").expect("program");
        fcntl_setfd(&own, FdFlags::empty()).expect("inherited");
        let program = format!("/proc/self/fd/{}", own.as_raw_fd());
        command.args(["--uts", "setpriv", "--reuid", &user.to_string(), "--clear-groups", &program]);
        Self::start_by(command, 0, deed, dir, argument)
    }

    fn start_by(mut program: Command, user: u32, deed: &str, dir: &Path, argument: &str) -> Self {
        let mut child = program
            .args(["--exact", "users::child_of_another_user", "--nocapture"])
            .env(DEED, deed)
            .env(DIR, dir)
            .env(ARGUMENT, argument)
            .uid(user)
            .gid(user)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("spawn");
        let lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        Self { child, lines }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for what it says behind this word.
    pub fn says(&mut self, word: &str) -> String {
        let lines = self.lines.by_ref().map_while(Result::ok);
        let mut said = lines.filter_map(|line| Some(line.split_once(word)?.1.trim().to_owned()));
        said.next().unwrap_or_else(|| panic!("it has ended before it said {word}"))
    }

    /// Lets it go on.
    pub fn tell(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin");
        writeln!(stdin, "{line}").expect("it lives");
    }
}

/// Does nothing when run as a test; as a child it does what it is told.
#[test]
#[expect(clippy::disallowed_methods, reason = "the child is told by the environment")]
fn child_of_another_user() {
    let Some(deed) = std::env::var_os(DEED) else { return };
    let dir = PathBuf::from(std::env::var_os(DIR).expect("folder"));
    let argument = std::env::var(ARGUMENT).expect("argument");
    match deed.to_str() {
        Some("victim") => victim(&dir, &argument),
        Some("names") => names(&dir, &argument),
        Some("swaps") => swaps(&dir, &argument),
        Some("claims") => claims(&dir, &argument),
        Some("everything") => everything(&dir, &argument),
        other => panic!("no such deed: {other:?}"),
    }
}

fn said() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("stdin");
    line.trim().to_owned()
}

/// When this process started, as a collector says it.
pub fn started_ns(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks: u64 = fields.split_ascii_whitespace().nth(19).expect("field 22").parse().expect("number");
    let system = std::fs::read_to_string("/proc/stat").expect("stat");
    let boot = system.lines().find_map(|line| line.strip_prefix("btime ")).expect("btime");
    boot.trim().parse::<u64>().expect("number") * 1_000_000_000 + ticks * 10_000_000
}

fn text(field: &mut [u8], text: &str) {
    field.fill(0);
    field[..text.len()].copy_from_slice(text.as_bytes());
}

fn segment(pid: u32, start_time_ns: u64, log: &str) -> Fixed {
    let mut fixed = fixed(pid, log);
    fixed.start_time_ns = start_time_ns;
    text(&mut fixed.host, MACHINE);
    text(&mut fixed.job, "llama");
    fixed
}

fn logs(dir: &Path, user: u32) -> PathBuf {
    let folder = dir.join(format!("logs-{user}"));
    DirBuilder::new().mode(0o700).create(&folder).expect("folder");
    folder
}

/// A job that counts: every call that it says at the end must have been seen. `argument`: the machine that it counts itself to, if
/// that is another.
fn victim(dir: &Path, argument: &str) {
    let pid = std::process::id();
    let log =
        logs(dir, rustix::process::geteuid().as_raw()).join(format!("nccl-{VICTIM_RUN}-{MACHINE}-{pid}.log"));
    std::fs::write(&log, init_lines(2, 5).replace(":42:", &format!(":{pid}:"))).expect("write");
    let mut fixed = segment(pid, started_ns(pid), &log.display().to_string());
    text(&mut fixed.run_id, VICTIM_RUN);
    if !argument.is_empty() {
        text(&mut fixed.host, argument);
    }
    let writer = SegmentWriter::create_from(dir, &fixed);
    writer.communicator(0, 1, 0xa0, 5);
    println!("segment {}", writer.path.display());
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        said();
        drop(stop);
    });
    let mut calls = 0;
    while stopped.recv_timeout(Duration::from_millis(2)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        calls += 1;
        writer.calls(0, Primitive::AllReduce, calls, calls);
    }
    println!("counted {calls}");
    std::thread::park();
}

/// Names a file as the log of a process, which then ends. `argument`: its number and the file.
fn names(dir: &Path, argument: &str) {
    let (pid, log) = argument.split_once(' ').expect("two words");
    let writer = SegmentWriter::create_from(dir, &segment(pid.parse().expect("number"), 77, log));
    writer.communicator(0, 1, 0xa0, 5);
    println!("named");
    said();
    drop(writer);
    println!("ended");
    said();
    // The agent removes what it holds of a process without a segment at once.
    std::fs::remove_file(dir.join(format!("{pid}-77.seg"))).ok();
    println!("removed");
    std::thread::park();
}

/// Leaves logs in a folder of his that is a link to another's by the time that they are removed, and a moment later is not.
fn swaps(dir: &Path, precious: &str) {
    let link = dir.join("link");
    symlink(precious, &link).expect("link");
    let folder = logs(dir, HOSTILE);
    for n in 0..FILES {
        let log = folder.join(file_name(n));
        std::fs::write(&log, "x\n").expect("write");
        drop(SegmentWriter::create_from(dir, &segment(61_000 + n, 77, &log.display().to_string())));
    }
    println!("left");
    let until = monotonic() + Duration::from_secs(4);
    while monotonic() < until {
        renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).expect("swap");
    }
    println!("swapped");
    std::thread::park();
}

/// Files in a folder of root's that a hostile user would have removed.
pub const FILES: u32 = 40;

pub fn file_name(n: u32) -> String {
    format!("nccl-1-{MACHINE}-{}.log", 61_000 + n)
}

/// Says that he is the process `pid`, on its host and on another.
fn claims(dir: &Path, pid: &str) {
    let pid: u32 = pid.parse().expect("number");
    // The name is taken; the kernel knows a start only to some milliseconds.
    let mut copy = segment(pid, started_ns(pid) + 1, "");
    text(&mut copy.run_id, VICTIM_RUN);
    let _copy = SegmentWriter::create_from(dir, &copy);
    let mut elsewhere = segment(70_002, 77, "");
    text(&mut elsewhere.host, "another-host");
    let _elsewhere = SegmentWriter::create_from(dir, &elsewhere);
    println!("claimed");
    std::thread::park();
}

/// What the one who does everything is told of.
struct Target<'a> {
    dir: &'a Path,
    folder: PathBuf,
    victim: u32,
    segment: &'a str,
    secret: &'a str,
}

/// All of it at once, again and again.
fn everything(dir: &Path, argument: &str) {
    let mut words = argument.split(' ');
    let mut word = || words.next().expect("a word");
    let (victim, seconds) = (word().parse().expect("pid"), word().parse().expect("seconds"));
    let (segment, secret) = (word(), word());
    let target = Target { dir, folder: logs(dir, HOSTILE), victim, segment, secret };
    plant_files(&target);
    plant_logs(&target);
    let living = plant_segments(&target);
    println!("planted");
    let until = monotonic() + Duration::from_secs(seconds);
    let link = dir.join("link");
    symlink("/root", &link).expect("link");
    let mut round = 0;
    while monotonic() < until {
        round += 1;
        disturb(&target, &link, &living[20], round);
    }
    println!("over after {round} rounds");
    std::thread::park();
}

/// Pipes, links, and a note of the victim's run.
fn plant_files(target: &Target<'_>) {
    let Target { dir, victim, secret, .. } = target;
    for name in ["pipe.seg", "nccl-a-b-1.log", "run-a.json", ".refused-full-1-1", "pipe.log"] {
        mknodat(CWD, dir.join(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("pipe");
    }
    let links =
        [("link.seg", *secret), ("logs-x", "/root"), ("nccl-c-d-1.log", secret), ("run-b.json", secret)];
    for (name, to) in links {
        symlink(to, dir.join(name)).expect("link");
    }
    let note = format!(r#"{{"job":"stolen","pid":{victim},"start_time_ns":{}}}"#, started_ns(*victim));
    std::fs::write(dir.join(format!("run-{VICTIM_RUN}.json")), note).expect("write");
}

/// Logs in the victim's name, long ones, one that is all hole, and many.
fn plant_logs(target: &Target<'_>) {
    let Target { dir, folder, victim, .. } = target;
    let lines = init_lines(9, 5).replace(":42:", &format!(":{victim}:"));
    let name = format!("nccl-{VICTIM_RUN}-{MACHINE}-{victim}.log");
    for path in [dir.join(&name), folder.join(&name)] {
        std::fs::write(path, &lines).expect("write");
    }
    for n in 0..3 {
        let path = folder.join(format!("nccl-big{n}-{MACHINE}-{}.log", 80_000 + n));
        std::fs::write(path, big_log(80_000 + n, 4 << 20)).expect("write");
    }
    let sparse = File::create(folder.join(format!("nccl-sparse-{MACHINE}-80009.log"))).expect("file");
    sparse.set_len(1 << 40).expect("length");
    for n in 0..1500 {
        let path = folder.join(format!("nccl-many{n}-other-{}.log", 100_000 + n));
        std::fs::write(path, &lines).expect("write");
    }
}

/// Segments that name what is not his, that copy the victim's, and more than he may have. Some of them live.
fn plant_segments(target: &Target<'_>) -> Vec<SegmentWriter> {
    let Target { dir, victim, segment: its, secret, .. } = target;
    let log = format!("{}/logs-{VICTIM}/nccl-{VICTIM_RUN}-{MACHINE}-{victim}.log", dir.display());
    let pipe = dir.join("pipe.log").display().to_string();
    let named = [*its, &log, *secret, "/dev/ptmx", "/proc/kmsg", "/proc/self/mem", "/dev/zero", &pipe];
    let mut living = Vec::new();
    for (pid, log) in (70_000..).zip(named) {
        living.push(SegmentWriter::create_from(dir, &segment(pid, 77, log)));
    }
    let mut copy = segment(*victim, started_ns(*victim) + 1, &log);
    text(&mut copy.run_id, VICTIM_RUN);
    living.push(SegmentWriter::create_from(dir, &copy));
    for pid in 71_000..71_300 {
        living.push(SegmentWriter::create_from(dir, &segment(pid, 77, "")));
    }
    for pid in 72_000..74_500 {
        drop(SegmentWriter::create_from(dir, &segment(pid, 77, "")));
    }
    living
}

/// Files change places, lengths and contents while they are read.
fn disturb(target: &Target<'_>, link: &Path, living: &SegmentWriter, round: u64) {
    let Target { dir, folder, segment, secret, .. } = target;
    // One of them may be gone.
    let _ = renameat_with(CWD, folder, CWD, link, RenameFlags::EXCHANGE);
    let (one, other) = (dir.join("71000-77.seg"), dir.join("71001-77.seg"));
    let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
    if let Ok(file) = OpenOptions::new().write(true).open(dir.join("71002-77.seg")) {
        let _ = file.set_len(round % 7 * 1000);
        let _ = file.write_all_at(&round.to_le_bytes(), round % 4096);
    }
    // Anything in the counters, the slots and the records of one that lives.
    let bytes = round.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(8);
    living.write(usize::try_from(round * 61 % (1 << 20)).expect("small") + 4096, &bytes);
    assert!(std::fs::remove_file(segment).is_err(), "the folder is sticky");
    let _ = std::fs::remove_file(dir.join("link.seg"));
    let _ = symlink(if round.is_multiple_of(2) { secret } else { segment }, dir.join("link.seg"));
}

/// A log of one process that makes communicators for ever.
pub fn big_log(pid: u32, bytes: usize) -> String {
    let mut log = String::with_capacity(bytes + 4096);
    for n in 0_u64.. {
        if log.len() >= bytes {
            break;
        }
        let lines = init_lines(2, 0x1000 + n).replace("0xa0", &format!("{:#x}", 0x7f00_0000_0000 + n * 4096));
        log.push_str(&lines.replace(":42:", &format!(":{pid}:")));
    }
    log
}

/// A file that only its owner may read.
pub fn secret(path: &Path, text: &str) {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).expect("file");
    file.write_all(text.as_bytes()).expect("write");
}

/// What a file holds, read as root.
pub fn content(path: &Path) -> String {
    let mut text = String::new();
    File::open(path).expect("open").read_to_string(&mut text).expect("read");
    text
}
