//! What a job could leave behind: open files of whoever started it, names in /dev/shm, abstract sockets.

use std::collections::BTreeSet;

use super::process::{HANG_WAIT, now};

/// This process before the jobs.
pub(crate) struct Before {
    files: usize,
}

impl Before {
    /// As it is.
    pub(crate) fn now() -> Self {
        Self { files: open_files() }
    }

    /// After the jobs.
    pub(crate) fn nothing_is_left(&self) {
        // Whoever listens to a rank lets go of it a moment after its last word.
        let deadline = now() + HANG_WAIT;
        while open_files() != self.files {
            assert!(now() < deadline, "{} open files of this process, {} before", open_files(), self.files);
        }
        // Names of other jobs on this machine come and go; ours would stay.
        let left = names();
        let deadline = now() + HANG_WAIT;
        while left.intersection(&names()).next().is_some() {
            assert!(now() < deadline, "{left:?} stays");
        }
    }
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// What could outlive a process and is not in use by one: names in /dev/shm, and abstract sockets.
fn names() -> BTreeSet<String> {
    let shm = std::fs::read_dir("/dev/shm").into_iter().flatten().filter_map(Result::ok);
    let shm = shm.map(|entry| (entry.path().display().to_string(), entry.file_name().display().to_string()));
    let table = std::fs::read_to_string("/proc/net/unix").unwrap();
    let sockets = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(6);
        Some((format!("socket:[{}]", words.next()?), words.next()?.to_owned()))
    });
    let found: Vec<(String, String)> =
        shm.chain(sockets).filter(|(_, name)| name.contains("rsccl")).collect();
    let in_use = in_use_elsewhere();
    found.into_iter().filter(|(file, _)| !in_use.contains(file)).map(|(_, name)| name).collect()
}

/// Files and sockets that other processes have open or mapped: those of other jobs on this machine.
fn in_use_elsewhere() -> BTreeSet<String> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let others = processes.filter(|entry| entry.file_name().to_str() != Some(&own)).map(|entry| entry.path());
    let of_one = |process: std::path::PathBuf| {
        let open = std::fs::read_dir(process.join("fd")).into_iter().flatten().filter_map(Result::ok);
        let open =
            open.filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string()));
        let maps = std::fs::read_to_string(process.join("maps")).unwrap_or_default();
        let mapped: Vec<String> =
            maps.lines().filter_map(|line| line.split_whitespace().nth(5)).map(str::to_owned).collect();
        open.chain(mapped).collect::<Vec<_>>()
    };
    others.flat_map(of_one).collect()
}
