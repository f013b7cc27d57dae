//! Compiles host and guest for each version once, runs one scenario in a folder of its own, reads the segment.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use ringscope_wire::Primitive;
use ringscope_wire::segment::Snapshot;
use ringscope_wire::segment::layout::DropReason;
use ringscope_wire::segment::read::{self, Communicator, Counters};

/// Every version of the interface.
pub(crate) const VERSIONS: std::ops::RangeInclusive<u32> = 1..=7;

/// A host of one version and what it is to do.
pub(crate) struct Job {
    pub(crate) dir: PathBuf,
    command: Command,
}

/// What a run left.
pub(crate) struct Left {
    pub(crate) snapshot: Snapshot,
    pub(crate) said: String,
}

/// A scenario of the host of this version, with the collector as its plugin.
pub(crate) fn job(version: u32, scenario: &str) -> Job {
    Job::new(version, &library(), scenario)
}

/// The same with another plugin.
pub(crate) fn job_with(version: u32, plugin: &Path, scenario: &str) -> Job {
    Job::new(version, plugin, scenario)
}

/// A scenario of a program with two copies of a library that speaks version 5.
pub(crate) fn copies_job(scenario: &str) -> Job {
    let mut job = Job::new(5, &library(), scenario);
    let mut command = Command::new(programs().join("copies"));
    command.arg(library()).arg(scenario);
    for copy in ["copy_a.so", "copy_b.so"] {
        command.arg(programs().join(copy));
    }
    for (name, value) in job.command.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    job.command = command;
    job
}

/// The plugin of this version that writes down what it hears.
pub(crate) fn guest(version: u32) -> PathBuf {
    programs().join(format!("guest{version}.so"))
}

impl Job {
    fn new(version: u32, plugin: &Path, scenario: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ringscope-plugin-{}-{number}", std::process::id());
        let dir = Path::new("/dev/shm").join(name);
        let mut command = Command::new(programs().join(format!("host{version}")));
        command
            .arg(plugin)
            .arg(scenario)
            .env_clear()
            .env("RINGSCOPE_DIR", &dir)
            .env("RINGSCOPE_LEVEL", "steps")
            .env("ROUNDS", "2000")
            .env("CONTROL_OFFSET", read::control_offset().to_string());
        Self { dir, command }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// With the guest of this version behind the collector, asking for `mask`; its log is [`Job::heard`].
    pub(crate) fn chained(self, guest_version: u32, mask: u32) -> Self {
        let guest = guest(guest_version);
        self.env("RINGSCOPE_CHAIN_PLUGIN", guest).guest_env(mask)
    }

    pub(crate) fn guest_env(self, mask: u32) -> Self {
        std::fs::create_dir_all(&self.dir).unwrap();
        let log = self.dir.join("guest.log");
        self.env("GUEST_LOG", log).env("GUEST_MASK", format!("{mask:x}"))
    }

    /// Runs it to its good end.
    pub(crate) fn run(&mut self) -> Output {
        let output = self.command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", output.status);
        output
    }

    /// Runs it and reads the one segment it leaves.
    pub(crate) fn left(mut self) -> Left {
        let output = self.run();
        self.read(&output)
    }

    pub(crate) fn read(&self, output: &Output) -> Left {
        let files = std::fs::read_dir(&self.dir).unwrap().map(|entry| entry.unwrap().path());
        let segment = files.into_iter().find(|path| path.extension().is_some_and(|name| name == "seg"));
        let bytes = std::fs::read(segment.expect("a segment")).unwrap();
        let snapshot = read::snapshot(&mut bytes.as_slice()).unwrap();
        Left { snapshot, said: String::from_utf8_lossy(&output.stderr).into_owned() }
    }

    /// What the guest wrote down.
    pub(crate) fn heard(&self) -> String {
        std::fs::read_to_string(self.dir.join("guest.log")).unwrap()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Left {
    pub(crate) fn communicator(&self, comm_hash: u64) -> &Communicator {
        self.snapshot.communicators.iter().find(|comm| comm.comm_hash == comm_hash).expect("its slot")
    }

    pub(crate) fn counters(&self, comm_hash: u64, primitive: Primitive) -> Counters {
        let counters = &self.communicator(comm_hash).counters;
        counters
            .iter()
            .find(|(known, _)| *known == primitive)
            .map(|(_, counters)| *counters)
            .unwrap_or_default()
    }

    /// Calls and bytes, issued and completed.
    pub(crate) fn progress(&self, comm_hash: u64, primitive: Primitive) -> [(u64, u64); 2] {
        let counters = self.counters(comm_hash, primitive);
        [(counters.issued_calls, counters.issued_bytes), (counters.completed_calls, counters.completed_bytes)]
    }

    pub(crate) fn dropped(&self, reason: DropReason) -> u64 {
        self.snapshot.dropped.iter().find(|(known, _)| *known == reason).map_or(0, |(_, events)| *events)
    }
}

/// The library under test, as cargo built it for this test.
pub(crate) fn library() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let deps = here.parent().unwrap();
    let found =
        [deps.join("libringscope.so"), deps.join("../libringscope.so")].into_iter().find(|so| so.exists());
    found.expect("cargo builds libringscope.so before this test").canonicalize().unwrap()
}

fn programs() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin-programs");
        std::fs::create_dir_all(&dir).unwrap();
        for version in VERSIONS {
            cc(&dir, version, &format!("host{version}"), "host.c", &["-pthread", "-ldl"]);
            cc(&dir, version, &format!("guest{version}.so"), "guest.c", &["-shared", "-fPIC"]);
        }
        for copy in ["copy_a.so", "copy_b.so"] {
            cc(&dir, 5, copy, "copy.c", &["-shared", "-fPIC", "-ldl"]);
        }
        cc(&dir, 5, "copies", "copies.c", &["-pthread", "-ldl"]);
        dir
    })
}

/// Compiles beside its place and moves it there: another run of the tests may use the old one.
fn cc(dir: &Path, version: u32, output: &str, source: &str, arguments: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plugin/c").join(source);
    let fresh = format!("{output}.{}", std::process::id());
    let done = Command::new("cc")
        .current_dir(dir)
        .args(["-O1", "-g", "-Wall", "-Wextra", &format!("-DV={version}"), "-o", &fresh])
        .arg(source)
        .args(arguments)
        .output()
        .expect("a C compiler: apt-get install gcc");
    assert!(done.status.success(), "{output}: {}", String::from_utf8_lossy(&done.stderr));
    std::fs::rename(dir.join(fresh), dir.join(output)).unwrap();
}
