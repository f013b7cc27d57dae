//! A row: a program, how it is run bare and with the collector, and what is compared.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::command::{self, Ended};
use super::facts;
use super::stage::Stage;

/// A row of the table.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// What it shows, in a line.
    pub(super) about: &'static str,
    /// Whether `cargo xtask test` runs it.
    pub(super) is_quick: bool,
    pub(super) test: Test,
}

/// What a row runs.
#[derive(Clone, Copy)]
pub(super) enum Test {
    /// One program, bare and with the collector.
    Program(Case),
    /// More than that.
    Special(fn(&Stage) -> Result<Verdict>),
}

/// One program, bare and with the collector.
#[derive(Clone, Copy)]
pub(super) struct Case {
    /// Its name among `programs/`.
    pub(super) program: Program,
    pub(super) arguments: &'static [&'static str],
    /// Settings of the stubs, bare and with.
    pub(super) settings: &'static [(&'static str, &'static str)],
    /// Settings of the collector.
    pub(super) collector_settings: &'static [(&'static str, &'static str)],
    /// Shell commands before it; `$HARM_DIR` is the folder of segments. If one mounts something, all is in a mount namespace of
    /// its own. Where they cannot be done the row is not run.
    pub(super) shell: &'static str,
    /// How it ends bare; with any other end the row shows nothing.
    pub(super) ends: &'static str,
    /// Whether it leaves a segment with the collector; without one that has not been there.
    pub(super) leaves: Leaves,
    /// Where the folder of segments lies.
    pub(super) place: Place,
    /// After that it hangs.
    pub(super) limit_s: f64,
    /// How much longer than bare it may take.
    pub(super) longer_s: f64,
    /// Its figures and what they may be.
    pub(super) figures: &'static [(&'static str, Limit)],
    /// What must hold of the segments that it left.
    pub(super) facts: Option<Facts>,
}

/// Whether a program leaves a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    Segment,
    None,
    /// That is not known, or nobody can see it afterwards.
    Unseen,
}

/// What is wrong in a folder of segments.
pub(super) type Facts = fn(&Path) -> Result<Vec<String>>;

/// Which program, with what it is linked to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// On the stub library, without a GPU.
    Stub(&'static str),
    /// On the stub library over the stub of the CUDA driver.
    Gpu(&'static str),
    /// On copies of the stub library alone, which it loads.
    Copies(&'static str),
    /// On the engine.
    Engine(&'static str),
    /// On the C library musl alone.
    Musl(&'static str),
    /// Of the system.
    System(&'static str),
}

/// Where the folder of segments lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// On the tmpfs of all.
    Shm,
    /// On a disk, in the build folder.
    Disk,
}

/// What a figure may be with the collector.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    /// At most so much more than bare.
    More(f64),
    /// At most so much less than bare.
    Less(f64),
    /// At most that.
    AtMost(f64),
    /// At most so many microseconds more than bare. Judged of an optimized collector alone, which is for a quiet machine.
    MoreUs(f64),
    /// At most that percentage of a core. Judged as `MoreUs` is.
    AtMostOfCore(f64),
    /// At least that.
    AtLeast(f64),
}

/// What a row gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    pub(super) bare: Ended,
    pub(super) with: Ended,
    /// How they differ; nothing where they are the same.
    pub(super) differences: Vec<String>,
    /// How many of these are figures and times.
    pub(super) n_slow: usize,
    /// Why it was not run, if it cannot be here.
    pub(super) not_run: Option<String>,
}

/// What a case is unless it says otherwise.
pub(super) const CASE: Case = Case {
    program: Program::Stub(""),
    arguments: &[],
    settings: &[],
    collector_settings: &[],
    shell: "",
    ends: "exit 0",
    leaves: Leaves::Segment,
    place: Place::Shm,
    limit_s: 20.0,
    longer_s: 1.5,
    figures: &[],
    facts: None,
};

impl Row {
    /// Runs it.
    pub(super) fn run(&self, stage: &Stage) -> Result<Verdict> {
        let once = || match self.test {
            Test::Program(case) => case.run(stage),
            Test::Special(test) => test(stage),
        };
        let mut verdict = once()?;
        // Others use the machine too: what is only slow is given two more chances.
        for _ in 0..2 {
            if verdict.is_only_slow() {
                verdict = once()?;
            }
        }
        Ok(verdict)
    }
}

impl Case {
    /// Runs it bare and with the collector.
    pub(super) fn run(&self, stage: &Stage) -> Result<Verdict> {
        let mut verdict =
            Verdict { bare: self.run_once(stage, &stage.folder(self.place)?, false)?, ..Verdict::default() };
        let bare = &verdict.bare;
        if bare.status == NO_SHELL {
            verdict.not_run = Some(format!("cannot prepare it: {}", bare.last_words()));
            return Ok(verdict);
        }
        if bare.status != self.ends {
            let words = format!("bare: {} for {}: {}", bare.status, self.ends, bare.last_words());
            verdict.differences.push(words);
            return Ok(verdict);
        }
        let folder = stage.folder(self.place)?;
        verdict.with = self.run_once(stage, &folder, true)?;
        let figures = self.figures.iter().filter(|(_, limit)| stage.is_optimized() || !limit.is_cost());
        verdict.compare(self.longer_s, &figures.copied().collect::<Vec<_>>());
        let segments = folder.join("segments");
        verdict.differences.extend(self.leaves.judge(facts::segments(&segments)?.len()));
        if let Some(facts) = self.facts {
            verdict.differences.extend(facts(&segments)?);
        }
        Ok(verdict)
    }

    fn run_once(&self, stage: &Stage, folder: &Folder, has_collector: bool) -> Result<Ended> {
        let segments = folder.join("segments");
        let mut settings: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        settings.push(format!("LD_LIBRARY_PATH={}", stage.library_path(self.program)?));
        if has_collector {
            settings.extend(stage.collector_settings(&segments));
            settings.extend(self.collector_settings.iter().map(|(name, value)| format!("{name}={value}")));
        }
        let mut command = if self.shell.is_empty() {
            let mut env = Command::new("env");
            env.args(&settings).arg(stage.program(self.program)?);
            env
        } else {
            let settings = settings.join(" ");
            // Its end says whether it came to the program.
            let script = format!(
                "trap 'exit 97' EXIT\nset -e\n{}\ntrap - EXIT\nexec env {settings} \"$0\" \"$@\"",
                self.shell
            );
            let mut sh = Command::new("sh");
            if self.shell.contains("mount") {
                sh.args(["-c", "unshare -m true || exit 97; exec unshare -m sh -c \"$@\"", "sh", &script]);
            } else {
                sh.args(["-c", &script]);
            }
            sh.arg(stage.program(self.program)?);
            sh
        };
        command.args(self.arguments).env("HARM_DIR", &segments).current_dir(&folder.0);
        command::ended(&mut command, &folder.0, self.limit_s)
    }
}

impl Verdict {
    /// Says how the two runs differ.
    pub(super) fn compare(&mut self, longer_s: f64, figures: &[(&str, Limit)]) {
        let (bare, with) = (&self.bare, &self.with);
        if bare.status != with.status {
            self.differences.push(format!("{} for {}", with.status, bare.status));
        }
        if bare.words != with.words {
            self.differences.push(first_difference(&bare.words, &with.words));
        }
        let n_others = self.differences.len();
        if with.seconds > bare.seconds + longer_s {
            self.differences.push(format!("{:.2} s for {:.2} s", with.seconds, bare.seconds));
        }
        for (name, limit) in figures {
            match (bare.figures.get(*name), with.figures.get(*name)) {
                (Some(bare), Some(with)) => self.differences.extend(limit.judge(name, *bare, *with)),
                (None, _) => self.differences.push(format!("no {name}, bare")),
                (_, None) => self.differences.push(format!("no {name}")),
            }
        }
        self.n_slow = self.differences.len() - n_others;
    }

    fn is_only_slow(&self) -> bool {
        self.n_slow > 0 && self.n_slow == self.differences.len()
    }
}

/// The end of a shell that did not come to the program.
const NO_SHELL: &str = "exit 97";

impl Leaves {
    fn judge(self, n_segments: usize) -> Option<String> {
        match (self, n_segments) {
            (Self::Segment, 0) => Some("it left no segment: the collector was not there".to_owned()),
            (Self::None, 1..) => Some(format!("it left {n_segments} segments")),
            _ => None,
        }
    }
}

impl Limit {
    /// Whether it is of what the collector costs, and not of what it does.
    fn is_cost(self) -> bool {
        matches!(self, Self::MoreUs(_) | Self::AtMostOfCore(_))
    }

    fn judge(self, name: &str, bare: f64, with: f64) -> Option<String> {
        let (is_met, words) = match self {
            Self::More(more) | Self::MoreUs(more) => (with <= bare + more, format!("at most {more} more")),
            Self::Less(less) => (with >= bare - less, format!("at most {less} less")),
            Self::AtMost(most) | Self::AtMostOfCore(most) => (with <= most, format!("at most {most}")),
            Self::AtLeast(least) => (with >= least, format!("at least {least}")),
        };
        (!is_met).then(|| format!("{name} {with:.5} for {bare:.5} ({words})"))
    }

    /// In a few letters, beside a figure.
    pub(super) fn short(self) -> String {
        match self {
            Self::More(more) | Self::MoreUs(more) => format!("≤ {more} more"),
            Self::Less(less) => format!("≤ {less} less"),
            Self::AtMost(most) | Self::AtMostOfCore(most) => format!("≤ {most}"),
            Self::AtLeast(least) => format!("≥ {least}"),
        }
    }
}

fn first_difference(bare: &str, with: &str) -> String {
    let (mut bare, mut with) = (bare.lines(), with.lines());
    loop {
        match (bare.next(), with.next()) {
            (None, None) => return "another end of a line".to_owned(),
            (one, other) if one == other => {}
            (one, other) => {
                return format!("says {:?} for {:?}", other.unwrap_or("nothing"), one.unwrap_or("nothing"));
            }
        }
    }
}

/// A folder of one run, removed with it.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Folder {
    /// Makes it anew.
    pub(super) fn make(path: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
