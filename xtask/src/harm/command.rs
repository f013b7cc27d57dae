//! Runs a program within a time, and keeps what it said.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::clock::Stopwatch;

/// What became of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended {
    /// "exit 0", "signal 11" or "hangs".
    pub(super) status: String,
    /// From its start to its end.
    pub(super) seconds: f64,
    /// What it said on both outputs, less its figures.
    pub(super) words: String,
    /// Figures that it told.
    pub(super) figures: BTreeMap<String, f64>,
}

/// Runs it to its end; after `limit_s` it is killed with all that it started. Its words go through files in `folder`, which a
/// child that outlives it does not keep open for us.
pub(super) fn ended(command: &mut Command, folder: &Path, limit_s: f64) -> Result<Ended> {
    let said = folder.join("said");
    let file = File::create(&said).with_context(|| format!("cannot make {}", said.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
    let watch = Stopwatch::start();
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let status = wait(&mut child, watch, limit_s)?;
    let seconds = watch.seconds();
    let words = String::from_utf8_lossy(&std::fs::read(&said)?).into_owned();
    Ok(Ended::new(status, seconds, &words))
}

fn wait(child: &mut Child, watch: Stopwatch, limit_s: f64) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if watch.seconds() > limit_s {
            kill(child)?;
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Kills a program that was started as the first of its group, with the group.
pub(super) fn kill(child: &mut Child) -> Result<()> {
    Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status()?;
    child.wait()?;
    Ok(())
}

impl Ended {
    /// The last line that it said.
    pub(super) fn last_words(&self) -> &str {
        self.words.lines().last().unwrap_or("it said nothing")
    }

    fn new(status: Option<ExitStatus>, seconds: f64, words: &str) -> Self {
        let status = match status.map(|status| (status.code(), status.signal())) {
            Some((Some(code), _)) => format!("exit {code}"),
            Some((None, signal)) => format!("signal {}", signal.unwrap_or_default()),
            None => "hangs".to_owned(),
        };
        let mut ended = Self { status, seconds, ..Self::default() };
        for line in words.lines() {
            match figure(line) {
                Some((name, value)) => drop(ended.figures.insert(name, value)),
                None => ended.words.extend([line, "\n"]),
            }
        }
        ended
    }
}

/// `figure NAME VALUE`, as the programs say it.
fn figure(line: &str) -> Option<(String, f64)> {
    let (name, value) = line.strip_prefix("figure ")?.split_once(' ')?;
    Some((name.to_owned(), value.parse().ok()?))
}

/// Between two looks whether it has ended: short beside what a person would notice.
const PAUSE: Duration = Duration::from_millis(2);
