//! Ranks that do what they are told, word by word (tests/c/told.c), with a profiler plugin that writes down what it hears.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;

use super::events::{Event, build, read};
use super::{Job, Rank, compile, folder};

/// Ranks that do what they are told.
pub(crate) struct Ranks {
    pub(crate) ranks: Vec<Rank>,
    events: String,
    logs: PathBuf,
}

impl Ranks {
    /// With the plugin of an interface, given by its path.
    pub(crate) fn start(name: &str, (n_ranks, version): (usize, u32), settings: &[(&str, &str)]) -> Self {
        let folder = folder(&format!("told-{name}-{version}"));
        let plugin = folder.join("plugin.so");
        build(&plugin, version);
        let own = ("NCCL_PROFILER_PLUGIN", plugin.to_str().unwrap());
        let settings: Vec<_> = std::iter::once(&own).chain(settings).copied().collect();
        Self::start_in(folder, n_ranks, &settings, &[])
    }

    /// With files of their own in this folder; `linked` goes into the program.
    pub(crate) fn start_in(
        folder: PathBuf,
        n_ranks: usize,
        settings: &[(&str, &str)],
        linked: &[&str],
    ) -> Self {
        let program = folder.join("told");
        compile("told.c", &program, &[&["-lrsccl", "-pthread"], linked].concat());
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let (events, log) = (path("events"), path("log.%p"));
        let environment = |_| {
            let own = [
                ("PLUGIN_LOG", events.as_str()),
                ("NCCL_DEBUG", "INFO"),
                ("NCCL_DEBUG_SUBSYS", "ALL"),
                ("NCCL_DEBUG_FILE", log.as_str()),
            ];
            let all = own.iter().chain(settings);
            all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let job = Job { program: &program, n_ranks, command: &[], environment: &environment };
        let ranks = job.start();
        Self { ranks, events, logs: folder }
    }

    /// What the log of a rank says.
    pub(crate) fn log(&self, rank: usize) -> String {
        let path = self.logs.join(format!("log.{}", self.ranks[rank].child.id()));
        std::fs::read_to_string(path).unwrap()
    }

    /// What the plugin of a rank has written.
    pub(crate) fn told(&self, rank: usize) -> String {
        let path = format!("{}.{}", self.events, self.ranks[rank].child.id());
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// What a rank answers.
    pub(crate) fn ask(&mut self, rank: usize, word: &str) -> String {
        let input = self.ranks[rank].child.stdin.as_mut().unwrap();
        writeln!(input, "{word}").unwrap();
        self.ranks[rank].line()
    }

    /// It must do it.
    pub(crate) fn tell(&mut self, rank: usize, word: &str) {
        assert_eq!(self.ask(rank, word), word, "of rank {rank}");
    }

    /// All must do it.
    pub(crate) fn all(&mut self, word: &str) {
        // All are told before any is listened to: they may wait for each other.
        for rank in &mut self.ranks {
            writeln!(rank.child.stdin.as_mut().unwrap(), "{word}").unwrap();
        }
        for rank in &mut self.ranks {
            assert_eq!(rank.line(), word);
        }
    }

    /// All of them end; what was told in each.
    pub(crate) fn events(self) -> Vec<(String, HashMap<u64, Event>)> {
        let mut told = Vec::new();
        for mut rank in self.ranks {
            drop(rank.child.stdin.take());
            let path = format!("{}.{}", self.events, rank.child.id());
            assert_eq!(rank.rest(), "");
            let log = std::fs::read_to_string(path).unwrap();
            let events = read(&log);
            told.push((log, events));
        }
        told
    }
}
