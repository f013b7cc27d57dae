//! Builds the C programs once, runs one scenario in a folder of its own, reads what it left.

use std::mem::offset_of;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use ringscope_wire::Primitive;
use ringscope_wire::segment::read::{self, Communicator, Counters, Record};
use ringscope_wire::segment::summation::read::{Round, Summation, rounds};
use ringscope_wire::segment::{Segment, Snapshot, layout};

/// How a scenario is run.
pub(crate) struct Job {
    pub(crate) dir: PathBuf,
    command: Command,
}

/// One segment that a scenario left.
pub(crate) struct Left {
    pub(crate) snapshot: Snapshot,
    pub(crate) records: Vec<Record>,
    /// Records in the places of tickets that were passed over, with those tickets.
    pub(crate) older: Vec<(u64, Record)>,
    /// Results of the summation service.
    pub(crate) rounds: Vec<Round>,
    /// The file as it is.
    pub(crate) bytes: Vec<u8>,
}

/// A scenario in the program that is linked to the library.
pub(crate) fn job(scenario: &str) -> Job {
    let mut command = Command::new(programs().join("driver"));
    command.arg(scenario);
    Job::new(command, scenario)
}

/// A scenario in a program that calls the summation service.
pub(crate) fn summation_job(scenario: &str) -> Job {
    let mut command = Command::new(programs().join("driver_rsum"));
    command.arg(scenario);
    Job::new(command, &format!("{scenario}-rsum"))
}

/// A scenario about the order of calls and what a process waits in.
pub(crate) fn calls_job(scenario: &str) -> Job {
    let mut command = Command::new(programs().join("driver_calls"));
    command.arg(scenario);
    Job::new(command, scenario)
}

/// A scenario about the segment's file: forks, closed descriptors, deaths.
pub(crate) fn segment_job(scenario: &str) -> Job {
    let mut command = Command::new(programs().join("driver_segment"));
    command.arg(scenario);
    Job::new(command, scenario)
}

/// A scenario in the program that loads the library's user with `RTLD_LOCAL`.
pub(crate) fn local_job(scenario: &str) -> Job {
    let mut command = Command::new(programs().join("driver_local"));
    command.arg(scenario).arg(programs().join("libframework.so"));
    Job::new(command, &format!("{scenario}-local"))
}

/// A scenario with streams, in a program that is linked to a library without a profiler; `driver` names the folder of
/// the CUDA driver that it finds.
pub(crate) fn cuda_job(scenario: &str, driver: &str) -> Job {
    let mut command = Command::new(programs().join("cuda/driver"));
    command.arg(scenario);
    Job::new(command, scenario)
        .env("LD_LIBRARY_PATH", programs().join(driver))
        .env("COUNTERS_OFFSET", counters_offset())
        .env("DROPPED_EVENTS_OFFSET", dropped_events_offset().to_string())
        .without("NCCL_PROFILER_PLUGIN")
}

/// A scenario with streams while device times are asked for.
pub(crate) fn times_job(scenario: &str, driver: &str) -> Job {
    let mut command = Command::new(programs().join("cuda/times"));
    command.arg(scenario);
    let job = Job::new(command, &format!("{scenario}-times"));
    let truth = job.dir.with_extension("truth");
    job.env("LD_LIBRARY_PATH", programs().join(driver))
        .env("COUNTERS_OFFSET", counters_offset())
        .env("DROPPED_EVENTS_OFFSET", dropped_events_offset().to_string())
        .env("RINGSCOPE_LEVEL", "events")
        .env("TRUTH", truth)
        .without("NCCL_PROFILER_PLUGIN")
}

/// A scenario in which the level changes, in a program with a library that has a profiler and a driver that has events;
/// started at level counters.
pub(crate) fn level_job(scenario: &str) -> Job {
    let mut command = Command::new(programs().join("levels"));
    command.arg(scenario);
    let paths = [programs().to_owned(), programs().join("cuda-driver")];
    Job::new(command, scenario)
        .env("LD_LIBRARY_PATH", std::env::join_paths(paths).unwrap())
        .env("COUNTERS_OFFSET", counters_offset())
        .env("RINGSCOPE_LEVEL", "counters")
}

/// A scenario with a library that speaks this version of the profiler interface.
pub(crate) fn version_job(scenario: &str, version: u32) -> Job {
    job(scenario).env("LD_LIBRARY_PATH", programs().join(format!("v{version}")))
}

/// A scenario of a process with several ranks, with a library that speaks this version of the profiler interface.
pub(crate) fn ranks_job(scenario: &str, version: u32) -> Job {
    let mut command = Command::new(programs().join("driver_ranks"));
    command.arg(scenario);
    let job = Job::new(command, &format!("{scenario}-{version}"));
    if version == 5 { job } else { job.env("LD_LIBRARY_PATH", programs().join(format!("v{version}"))) }
}

/// Versions of the profiler interface other than the stub's usual one.
const OTHER_VERSIONS: [u32; 6] = [1, 2, 3, 4, 6, 7];

fn counters_offset() -> String {
    (offset_of!(Segment, communicators) + offset_of!(layout::Communicator, counters)).to_string()
}

fn dropped_events_offset() -> usize {
    let dropped = offset_of!(Segment, live) + offset_of!(layout::Live, dropped);
    dropped + layout::DropReason::EventPoolFull as usize * size_of::<u64>()
}

/// A scenario in each of these objects, which one program loads with `RTLD_LOCAL`.
pub(crate) fn several_job(scenario: &str, users: &[&str]) -> Job {
    let mut command = Command::new(programs().join("driver_two"));
    command.arg(scenario).args(users.iter().map(|user| programs().join(user)));
    Job::new(command, &format!("{scenario}-several"))
}

/// Runs a scenario to its good end and reads the one segment it leaves.
pub(crate) fn left_by(scenario: &str) -> Left {
    let job = job(scenario);
    job.succeed().only_segment()
}

/// The library under test, as cargo built it for this test.
pub(crate) fn library() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let deps = here.parent().unwrap();
    let found =
        [deps.join("libringscope.so"), deps.join("../libringscope.so")].into_iter().find(|so| so.exists());
    found.expect("cargo builds libringscope.so before this test").canonicalize().unwrap()
}

/// What is preloaded and opens the library under test.
pub(crate) fn preload() -> &'static Path {
    Path::new(ringscope_preload::OBJECT)
}

impl Job {
    /// A program that runs as it is.
    pub(crate) fn of(program: &Path, name: &str) -> Self {
        Self::new(Command::new(program), name)
    }

    fn new(mut command: Command, name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir =
            Path::new("/dev/shm").join(format!("ringscope-test-{}-{number}-{name}", std::process::id()));
        command
            .env_clear()
            .env("LD_LIBRARY_PATH", programs())
            .env("LD_PRELOAD", preload())
            .env("RINGSCOPE_COLLECTOR", library())
            .env("NCCL_PROFILER_PLUGIN", library())
            .env("CONTROL_OFFSET", read::control_offset().to_string())
            .env("WANTED_PLACES_OFFSET", read::wanted_places_offset().to_string())
            .env("READ_GENERATION_OFFSET", read::read_generation_offset(1).to_string())
            .env("RINGSCOPE_LEVEL", "steps")
            .env("RINGSCOPE_DIR", &dir);
        Self { dir, command }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub(crate) fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Runs it to its good end, in silence.
    pub(crate) fn succeed(mut self) -> Self {
        let output = self.command.output().unwrap();
        assert_good(&output);
        self
    }

    /// Every segment in the folder, by name.
    pub(crate) fn segments(&self) -> Vec<Left> {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(&self.dir)
            .map_or(vec![], |dir| dir.map(|entry| entry.unwrap().path()).collect());
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
        paths.sort();
        paths.iter().map(|path| read_segment(path)).collect()
    }

    /// Bytes of memory that what lies in the folder takes.
    pub(crate) fn taken_bytes(&self) -> u64 {
        let files = std::fs::read_dir(&self.dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
        files.map(|metadata| metadata.blocks() * 512).sum()
    }

    /// The times that a scenario wrote down, by `CLOCK_MONOTONIC`.
    pub(crate) fn truth_ns(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(self.dir.with_extension("truth")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    pub(crate) fn only_segment(&self) -> Left {
        let mut segments = self.segments();
        assert_eq!(segments.len(), 1, "segments in {}", self.dir.display());
        segments.remove(0)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
        let _ = std::fs::remove_file(self.dir.with_extension("truth"));
    }
}

impl Left {
    /// The counters of a primitive on the communicator in a slot.
    pub(crate) fn counters(&self, slot: usize, primitive: Primitive) -> Counters {
        let communicator = self.communicator(slot);
        let found = communicator.counters.iter().find(|(known, _)| *known == primitive);
        found.map(|(_, counters)| *counters).unwrap_or_default()
    }

    pub(crate) fn communicator(&self, slot: usize) -> &Communicator {
        &self.snapshot.communicators[slot]
    }

    /// Asserts calls and bytes, issued and completed, and refused calls.
    #[track_caller]
    pub(crate) fn expect(
        &self,
        slot: usize,
        primitive: Primitive,
        issued: (u64, u64),
        completed: (u64, u64),
        failed: u64,
    ) {
        let found = self.counters(slot, primitive);
        let found = (
            (found.issued_calls, found.issued_bytes),
            (found.completed_calls, found.completed_bytes),
            found.failed_calls,
        );
        assert_eq!(
            found,
            (issued, completed, failed),
            "issued, completed, failed of {primitive} in slot {slot}"
        );
    }
}

/// Asserts a good exit without a word to the job's output.
#[track_caller]
pub(crate) fn assert_good(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "silence, not {said}");
}

fn read_segment(path: &Path) -> Left {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(bytes.len(), size_of::<Segment>());
    let snapshot = read::snapshot(&mut bytes.as_slice()).unwrap();
    let name = format!("{}-{}.seg", snapshot.identity.pid, snapshot.identity.start_time_ns);
    assert_eq!(path.file_name().unwrap().to_str(), Some(name.as_str()));
    let from = snapshot.next_ticket.saturating_sub(layout::MAX_RECORDS as u64);
    let records = read::records(&mut bytes.as_slice(), from, snapshot.next_ticket).unwrap();
    assert_eq!(records.overwritten, 0);
    let rounds = match &snapshot.summation {
        Summation::Group(group) => rounds(&mut bytes.as_slice(), 0, group.next_ticket).unwrap().rounds,
        _ => Vec::new(),
    };
    Left { snapshot, records: records.records, older: records.older, rounds, bytes }
}

/// Folder of the compiled programs.
pub(crate) fn programs() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        remove_old_programs(tmp);
        let dir = tmp.join(format!("programs-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let rpath = "-Wl,-rpath,$ORIGIN";
        compile(&dir, "libnccl.so.2", "stub_nccl.c", &["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2"]);
        compile(
            &dir,
            "libframework.so",
            "scenarios.c",
            &["-shared", "-fPIC", "-L.", "-l:libnccl.so.2", rpath],
        );
        compile(&dir, "driver", "driver.c", &["-L.", "-l:libframework.so", "-Wl,--export-dynamic", rpath]);
        let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/include");
        let headers = format!("-I{}", headers.display());
        let shared = ["-shared", "-fPIC", "-Wl,-soname,librsccl.so", &headers];
        compile(&dir, "librsccl.so", "stub_rsum.c", &shared);
        compile(&dir, "driver_rsum", "scenarios_rsum.c", &[&headers, "-L.", "-l:librsccl.so", rpath]);
        compile(&dir, "driver_local", "driver_local.c", &["-ldl"]);
        compile(&dir, "driver_calls", "scenarios_calls.c", &["-L.", "-l:libnccl.so.2", rpath]);
        compile(&dir, "driver_segment", "scenarios_segment.c", &["-L.", "-l:libnccl.so.2", rpath]);
        compile(&dir, "driver_ranks", "scenarios_ranks.c", &["-L.", "-l:libnccl.so.2", rpath]);
        compile(&dir, "driver_two", "driver_two.c", &["-ldl"]);
        // Two frameworks with the library in them: an older version, in which some functions are missing.
        let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/scenarios.c");
        let scenarios = scenarios.to_str().unwrap();
        let old = ["-shared", "-fPIC", "-DSTUB_VERSION=22105", "-DSTUB_OLD", scenarios];
        compile(&dir, "libstatic_old.so", "stub_nccl.c", &old);
        let new = ["-shared", "-fPIC", "-DSTUB_VERSION=23203", scenarios];
        compile(&dir, "libstatic_new.so", "stub_nccl.c", &new);
        for folder in ["cuda", "cuda-driver", "cuda-driver-11", "cuda-driver-old", "cuda-driver-untimed"] {
            std::fs::create_dir_all(dir.join(folder)).unwrap();
        }
        let shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"];
        compile(&dir, "cuda-driver/libcuda.so.1", "stub_cuda.c", &shared);
        let without_id = [&shared[..], &["-DSTUB_WITHOUT_ID"]].concat();
        compile(&dir, "cuda-driver-11/libcuda.so.1", "stub_cuda.c", &without_id);
        compile(
            &dir,
            "cuda-driver-old/libcuda.so.1",
            "stub_cuda.c",
            &[&shared[..], &["-DSTUB_OLD"]].concat(),
        );
        let untimed = [&shared[..], &["-DSTUB_UNTIMED"]].concat();
        compile(&dir, "cuda-driver-untimed/libcuda.so.1", "stub_cuda.c", &untimed);
        compile(
            &dir,
            "cuda/libnccl.so.2",
            "stub_stream_nccl.c",
            &["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2"],
        );
        let library = ["-shared", "-fPIC", "-Lcuda", "-l:libnccl.so.2", "-ldl", rpath];
        compile(&dir, "cuda/libframework.so", "scenarios_cuda.c", &library);
        let program = ["-Lcuda", "-l:libframework.so", "-Wl,--export-dynamic", rpath];
        compile(&dir, "cuda/driver", "driver.c", &program);
        let library = ["-shared", "-fPIC", "-Lcuda", "-l:libnccl.so.2", "-ldl", rpath];
        compile(&dir, "cuda/libtimes.so", "scenarios_times.c", &library);
        compile(&dir, "cuda/times", "driver.c", &["-Lcuda", "-l:libtimes.so", "-Wl,--export-dynamic", rpath]);
        let levels = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/scenarios_levels.c");
        let program = [levels.to_str().unwrap(), "-L.", "-l:libnccl.so.2", "-ldl", rpath];
        compile(&dir, "levels", "driver.c", &program);
        for version in OTHER_VERSIONS {
            std::fs::create_dir_all(dir.join(format!("v{version}"))).unwrap();
            let speaks = format!("-DV={version}");
            let library = ["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", &speaks];
            compile(&dir, &format!("v{version}/libnccl.so.2"), "stub_nccl.c", &library);
        }
        dir
    })
}

/// Removes what earlier runs compiled, as far as they have ended.
fn remove_old_programs(tmp: &Path) {
    for entry in std::fs::read_dir(tmp).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.strip_prefix("programs-").is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Compiles one source of `tests/c` in `dir`; libraries come after it, as the linker wants them.
pub(crate) fn compile(dir: &Path, output: &str, source: &str, arguments: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
    let done = Command::new("cc")
        .current_dir(dir)
        .args(["-O1", "-g", "-Wall", "-Wextra", "-pthread", "-o", output])
        .arg(source)
        .args(arguments)
        .output()
        .expect("a C compiler: apt-get install gcc");
    assert!(done.status.success(), "{output}: {}", String::from_utf8_lossy(&done.stderr));
}
