//! Beside the run: what `/proc` and the segment of a process say.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ringscope_agent::refused;
use ringscope_wire::segment::layout::{COMMUNICATOR_FAILED, DropReason, SOURCE_CALLS, SOURCE_PLUGIN};
use ringscope_wire::segment::read::{Communicator, Snapshot};

use super::environment::{is_collector, is_preload};
use super::report::{Copy, Report, Sees, Source};
use super::segment;
use crate::program::{Object, is_nccl};
use crate::run::shim;

/// What is known of a process.
struct Process {
    pid: u32,
    environment: BTreeMap<Vec<u8>, Vec<u8>>,
    copies: Vec<Copy>,
    /// What opens the collector at the first call.
    has_preload: bool,
    has_collector: bool,
    has_shim: bool,
    /// Objects with a copy that nobody can get between.
    hidden: Vec<String>,
    segment: Option<Snapshot>,
    /// Why its collector was refused a segment, and what to do.
    refused: Option<String>,
    log: Option<PathBuf>,
}

/// Judges a process.
pub(super) fn judge(pid: u32) -> io::Result<Report> {
    let process = Process::read(pid)?;
    let mut advice = Vec::new();
    let mut sources =
        vec![process.calls(&mut advice), process.completion(&mut advice), process.rings(&mut advice)];
    let dropped = process.segment.as_ref().map_or(&[][..], |segment| &segment.dropped);
    sources.extend(summation(dropped, &mut advice));
    Ok(Report::new(format!("process {pid}"), process.copies, sources, advice))
}

impl Process {
    fn read(pid: u32) -> io::Result<Self> {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let maps = fs::read(proc.join("maps"))?;
        let environment = fs::read(proc.join("environ"))?;
        let environment: BTreeMap<Vec<u8>, Vec<u8>> = (environment.split(|byte| *byte == 0))
            .filter_map(|entry| {
                let at = entry.iter().position(|byte| *byte == b'=')?;
                Some((entry[..at].to_owned(), entry[at + 1..].to_owned()))
            })
            .collect();
        let mut process = Self {
            pid,
            environment,
            copies: Vec::new(),
            has_preload: false,
            has_collector: false,
            has_shim: false,
            hidden: Vec::new(),
            segment: None,
            refused: None,
            log: None,
        };
        for file in mapped_files(&maps) {
            process.take(&proc, &file);
        }
        process.read_facts(&proc);
        Ok(process)
    }

    fn take(&mut self, proc: &Path, file: &str) {
        let (name, is_deleted) = file.strip_suffix(" (deleted)").map_or((file, false), |name| (name, true));
        if is_preload(OsStr::new(name)) {
            self.has_preload = true;
            return;
        }
        if is_collector(OsStr::new(name)) {
            self.has_collector = true;
            return;
        }
        // As the process sees it, which may be in a container.
        let path = proc.join("root").join(name.trim_start_matches('/'));
        let object = Object::read(&path).ok().filter(|_| !is_deleted);
        let needs_preload = |object: &Object| object.needed.iter().any(|name| is_preload(OsStr::new(name)));
        if object.as_ref().is_some_and(needs_preload) && name.ends_with(shim::SONAME) {
            self.has_shim = true;
            return;
        }
        let version = object.as_ref().and_then(|object| object.nccl_version.clone());
        if is_nccl(name) {
            let linkage = if is_deleted { "loaded, its file is deleted" } else { "loaded" };
            self.copies.push(Copy { path: name.to_owned(), version, linkage });
        } else if let Some(object) = object.filter(Object::has_static_copy) {
            let is_open = object.interposable.iter().any(|name| object.exported.contains(name));
            if !is_open {
                self.hidden.push(name.to_owned());
            }
            let linkage = if is_open { "static, exported" } else { "static, hidden" };
            self.copies.push(Copy { path: name.to_owned(), version, linkage });
        }
    }

    fn read_facts(&mut self, proc: &Path) {
        let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
        // In a container the process knows itself by another number, the last one.
        let own_pid = (status.lines().find_map(|line| line.strip_prefix("NSpid:")))
            .and_then(|pids| pids.split_whitespace().last()?.parse().ok())
            .unwrap_or(self.pid);
        let dir = self.path("RINGSCOPE_DIR").unwrap_or_else(super::default_dir);
        self.segment = segment::of(own_pid, &dir);
        // Which file system it is depends on where the process is.
        let seen = proc.join("root").join(dir.strip_prefix("/").unwrap_or(&dir));
        // On a disk nothing is left: the word lies in the usual folder.
        let usual = proc.join("root").join(super::default_dir().strip_prefix("/").unwrap_or(&dir));
        let reason = [&seen, &usual].into_iter().find_map(|dir| refused::reason_of(self.pid, dir));
        self.refused = reason.map(|reason| reason.words(&dir, refused::file_system_bytes(&seen)));
        let pattern = self.path("NCCL_DEBUG_FILE");
        self.log = pattern.and_then(|pattern| log_of(&pattern, own_pid));
    }

    fn path(&self, variable: &str) -> Option<PathBuf> {
        let value = self.environment.get(variable.as_bytes()).filter(|value| !value.is_empty())?;
        Some(PathBuf::from(OsStr::from_bytes(value)))
    }

    /// Whether a variable of its environment names the collector's file.
    fn names_collector(&self, variable: &str) -> bool {
        let value = self.environment.get(variable.as_bytes());
        value.is_some_and(|value| value.windows(12).any(|part| part == b"libringscope"))
    }

    fn communicators(&self) -> Vec<&Communicator> {
        let all = self.segment.iter().flat_map(|segment| &segment.communicators);
        all.filter(|communicator| communicator.state != COMMUNICATOR_FAILED).collect()
    }

    fn calls(&self, advice: &mut Vec<String>) -> Source {
        let source = |sees, why: String| Source { source: "calls", sees, why };
        let is_preloaded = self.names_collector("LD_PRELOAD");
        if !self.has_collector {
            if self.has_preload {
                return self.unopened(advice);
            }
            if is_preloaded {
                advice.push(
                    "see what it wrote first: the dynamic linker says why it cannot preload (a static or setuid program, a file \
                     that is not there)"
                        .to_owned(),
                );
                return source(Sees::No, "LD_PRELOAD names ringscope, but it is not loaded".to_owned());
            }
            if self.names_collector("NCCL_PROFILER_PLUGIN") {
                advice.push(ASK_AGAIN.to_owned());
                return source(Sees::Unknown, "NCCL loads the plugin with the first communicator".to_owned());
            }
            advice.push("start it with `ringscope run -- CMD`".to_owned());
            return source(Sees::No, "the collector is not in the process".to_owned());
        }
        let communicators = self.communicators();
        let seen =
            communicators.iter().filter(|communicator| communicator.sources & SOURCE_CALLS != 0).count();
        let n = communicators.len();
        if let Some(why) = self.refused.as_ref().filter(|_| self.segment.is_none()) {
            advice.push("mend that, and start the process again".to_owned());
            return source(Sees::No, format!("it runs without a segment, because {why}"));
        }
        if n == 0 {
            let yet = if self.copies.is_empty() { "no NCCL yet" } else { NONE_YET };
            advice.push(ASK_AGAIN.to_owned());
            return source(Sees::Unknown, format!("the collector is loaded, {yet}"));
        }
        if seen == n {
            return source(Sees::Yes, format!("the calls of all {n} communicators"));
        }
        let why = self.unseen(is_preloaded, advice);
        let sees = if seen == 0 { Sees::No } else { Sees::Partly };
        source(sees, format!("{} of {n} communicators are used past the collector: {why}", n - seen))
    }

    /// What was preloaded has not opened the collector.
    fn unopened(&self, advice: &mut Vec<String>) -> Source {
        let collector = self.path("RINGSCOPE_COLLECTOR");
        let is_there = collector.as_ref().is_some_and(|path| {
            let path = path.strip_prefix("/").unwrap_or(path);
            PathBuf::from(format!("/proc/{}/root", self.pid)).join(path).exists()
        });
        let (sees, why, advised) = match collector {
            Some(_) if is_there => {
                (Sees::Unknown, "the collector is opened at the first call of NCCL".to_owned(), ASK_AGAIN)
            }
            Some(path) => (
                Sees::No,
                format!("the process cannot see {}", path.display()),
                "mount it into the container, or name another folder with --cache-dir",
            ),
            None => (
                Sees::No,
                "RINGSCOPE_COLLECTOR is not set".to_owned(),
                "start it with `ringscope run -- CMD`",
            ),
        };
        advice.push(advised.to_owned());
        Source { source: "calls", sees, why }
    }

    /// Why calls go past the collector, and what to do.
    fn unseen(&self, is_preloaded: bool, advice: &mut Vec<String>) -> String {
        if !is_preloaded {
            advice.push("start it with `ringscope run` without --plugin-only".to_owned());
            return "it is loaded as a plugin only".to_owned();
        }
        if let Some(hidden) = self.hidden.first() {
            advice.push(format!(
                "rely on the profiler plugin for the copy of NCCL inside {hidden}, or use a build that links libnccl.so.2"
            ));
            return format!("{hidden} has NCCL inside, hidden");
        }
        if self.has_shim {
            advice.push(format!(
                "have the program open {} and not the real library by its path (vLLM: VLLM_NCCL_SO_PATH)",
                shim::SONAME
            ));
            return "the real library was opened by its path".to_owned();
        }
        advice.push("start it with `ringscope run --shim`".to_owned());
        "functions are taken by dlsym or ctypes, or with RTLD_DEEPBIND".to_owned()
    }

    fn completion(&self, advice: &mut Vec<String>) -> Source {
        let source = |sees, why: String| Source { source: "completion", sees, why };
        let communicators = self.communicators();
        let by_plugin = communicators.iter().filter(|one| one.sources & SOURCE_PLUGIN != 0).count();
        let known = communicators
            .iter()
            .filter(|one| one.completion != 0 || one.sources & SOURCE_PLUGIN != 0)
            .count();
        match (known, communicators.len()) {
            (_, 0) => source(Sees::Unknown, NONE_YET.to_owned()),
            (known, n) if known == n => {
                let version = self.segment.as_ref().map_or(0, |segment| segment.profiler_version);
                let way = if by_plugin == n {
                    format!("NCCL speaks to the plugin (interface {version})")
                } else {
                    "by CUDA events".to_owned()
                };
                source(Sees::Yes, way)
            }
            (known, n) => {
                advice.push(
                    "check that NCCL_PROFILER_PLUGIN still names libringscope.so in the job, and that NCCL is 2.23 or later"
                        .to_owned(),
                );
                let sees = if known == 0 { Sees::No } else { Sees::Partly };
                source(
                    sees,
                    format!("nothing tells the end of operations of {} of {n} communicators", n - known),
                )
            }
        }
    }

    fn rings(&self, advice: &mut Vec<String>) -> Source {
        let source = |sees, why: String| Source { source: "rings", sees, why };
        let Some(log) = &self.log else {
            if self.path("NCCL_DEBUG_FILE").is_some() && self.communicators().is_empty() {
                return source(Sees::Unknown, "its log begins with the first communicator".to_owned());
            }
            advice.push("set NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV and NCCL_DEBUG_FILE, or use `ringscope run`".to_owned());
            return source(Sees::No, "the process writes no log of its own".to_owned());
        };
        let mut text = Vec::new();
        // What cannot be read says nothing.
        let _ = fs::File::open(log).and_then(|file| file.take(MAX_LOG_BYTES).read_to_end(&mut text));
        let has = |words: &str| text.windows(words.len()).any(|part| part == words.as_bytes());
        if has(" Pattern ") || has(" Ring ") {
            source(Sees::Yes, format!("from {}", log.display()))
        } else if has("NCCL INFO") {
            advice.push("add GRAPH to NCCL_DEBUG_SUBSYS".to_owned());
            source(Sees::Partly, format!("{} has no GRAPH lines", log.display()))
        } else {
            source(Sees::Unknown, format!("{} says nothing yet", log.display()))
        }
    }
}

/// A summation group that nobody follows; nothing of other processes.
fn summation(dropped: &[(DropReason, u64)], advice: &mut Vec<String>) -> Option<Source> {
    dropped.iter().find(|(reason, _)| *reason == DropReason::NoSummationWatcher)?;
    advice.push(
        "put the libringscope_watcher.so of the same ringscope beside the libringscope.so that the job loads, or use \
         `ringscope run`"
            .to_owned(),
    );
    let why = "the collector finds no libringscope_watcher.so of its version beside it".to_owned();
    Some(Source { source: "summation", sees: Sees::No, why })
}

/// Files with code in a process, each once. Source: proc(5), `maps`.
fn mapped_files(maps: &[u8]) -> BTreeSet<String> {
    let maps = String::from_utf8_lossy(maps);
    maps.lines()
        .filter(|line| line.split_whitespace().nth(1).is_some_and(|access| access.starts_with('r')))
        .filter_map(|line| line.find('/').map(|at| line[at..].to_owned()))
        .filter(|file| file.contains(".so") || !file.contains("/dev/"))
        .collect()
}

/// The log that the pattern means for this process, whatever host name is in it.
fn log_of(pattern: &Path, pid: u32) -> Option<PathBuf> {
    let name = pattern.file_name()?.to_string_lossy().replace("%p", &pid.to_string());
    let (head, tail) = name.split_once("%h").unwrap_or((&name, ""));
    let entries = fs::read_dir(pattern.parent()?).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if name.contains("%h") {
            file.starts_with(head) && file.ends_with(tail)
        } else {
            file == name.as_str()
        }
    })
}

/// Of a process that has called no `ncclCommInitRank` or the like.
const NONE_YET: &str = "no communicator yet";
const ASK_AGAIN: &str = "ask again once it has made its first communicator; nothing has to be changed before";
/// The rings of the first communicators stand at a log's beginning.
const MAX_LOG_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_files_are_listed_once_with_their_fate() {
        let maps = b"7f00-7f01 r--p 00000000 08:01 1 /opt/a b/libnccl.so.2\n\
            7f01-7f02 r-xp 00001000 08:01 1 /opt/a b/libnccl.so.2\n\
            7f03-7f04 r-xp 00000000 08:01 2 /opt/libold.so (deleted)\n\
            7f05-7f06 rw-p 00000000 00:00 0 [heap]\n";
        let files: Vec<String> = mapped_files(maps).into_iter().collect();
        assert_eq!(files, ["/opt/a b/libnccl.so.2", "/opt/libold.so (deleted)"]);
    }

    #[test]
    fn a_log_is_found_whatever_the_host_is_called() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("nccl-id-node7-42.log"), "").unwrap();
        let pattern = dir.path().join("nccl-id-%h-%p.log");
        assert_eq!(log_of(&pattern, 42), Some(dir.path().join("nccl-id-node7-42.log")));
        assert_eq!(log_of(&pattern, 43), None);
    }

    fn process(environment: &[(&str, &str)], has_collector: bool) -> Process {
        let environment =
            environment.iter().map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into()));
        let copy = Copy { path: "/opt/libnccl.so.2".to_owned(), version: None, linkage: "loaded" };
        Process {
            pid: 42,
            environment: environment.collect(),
            copies: vec![copy],
            has_preload: false,
            has_collector,
            has_shim: false,
            hidden: Vec::new(),
            segment: None,
            refused: None,
            log: None,
        }
    }

    #[test]
    fn who_is_launched_and_has_no_communicator_yet_is_told_to_wait() {
        let preloaded = ("LD_PRELOAD", "/opt/ringscope/libringscope_preload.so");
        let plugin = ("NCCL_PROFILER_PLUGIN", "/opt/ringscope/libringscope.so");
        let log = ("NCCL_DEBUG_FILE", "/tmp/nowhere-42/nccl-id-%h-%p.log");
        let check = |of: Process, sees: Sees, why: &str, advised: &str| {
            let mut advice = Vec::new();
            let calls = of.calls(&mut advice);
            assert_eq!((calls.sees, calls.why.as_str()), (sees, why));
            assert!(advice.len() == 1 && advice[0].starts_with(advised), "{advice:?}");
        };
        let again = "ask again once it has made its first communicator";
        let launched = process(&[preloaded, plugin, log], true);
        let mut advice = Vec::new();
        assert_eq!(launched.rings(&mut advice).sees, Sees::Unknown);
        assert_eq!(launched.completion(&mut advice).why, "no communicator yet");
        assert_eq!(advice, Vec::<String>::new(), "all is set");
        check(launched, Sees::Unknown, "the collector is loaded, no communicator yet", again);
        let plugin_only = process(&[plugin, log], false);
        check(plugin_only, Sees::Unknown, "NCCL loads the plugin with the first communicator", again);
        let with_preload = |of: Process| Process { pid: std::process::id(), has_preload: true, ..of };
        let own = std::env::current_exe().unwrap().display().to_string();
        let waits = with_preload(process(&[preloaded, ("RINGSCOPE_COLLECTOR", &own)], false));
        check(waits, Sees::Unknown, "the collector is opened at the first call of NCCL", again);
        let blind = with_preload(process(&[preloaded, ("RINGSCOPE_COLLECTOR", "/nowhere/x.so")], false));
        check(blind, Sees::No, "the process cannot see /nowhere/x.so", "mount it into the container");
        let alone = with_preload(process(&[preloaded], false));
        check(alone, Sees::No, "RINGSCOPE_COLLECTOR is not set", "start it with `ringscope run");
        let refused = process(&[preloaded], false);
        check(
            refused,
            Sees::No,
            "LD_PRELOAD names ringscope, but it is not loaded",
            "see what it wrote first",
        );
        let no_segment = process(&[preloaded], true);
        let no_segment = Process { refused: Some("/scratch lies on a disk".to_owned()), ..no_segment };
        let why = "it runs without a segment, because /scratch lies on a disk";
        check(no_segment, Sees::No, why, "mend that, and start the process again");
        let unknown = process(&[], false);
        check(unknown, Sees::No, "the collector is not in the process", "start it with `ringscope run");
    }

    #[test]
    fn a_summation_group_without_its_watcher_is_told_what_to_do() {
        let mut advice = Vec::new();
        assert_eq!(summation(&[(DropReason::Panic, 1)], &mut advice), None);
        let found = summation(&[(DropReason::NoSummationWatcher, 2)], &mut advice).unwrap();
        assert_eq!((found.source, found.sees), ("summation", Sees::No));
        assert!(advice.len() == 1 && advice[0].starts_with("put the libringscope_watcher.so"), "{advice:?}");
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(judge(0x3fff_fff0).is_err());
    }
}
