//! Rows that are more than one program.

use std::fs::TryLockError;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ringscope_wire::Primitive;

use super::case::{CASE, Case, Place, Program, Verdict};
use super::command::{self, Ended};
use super::facts;
use super::stage::Stage;
use crate::clock::{Stopwatch, eventually};

/// A rank is killed while its child lives: the lock of its segment must be free, as the agent looks at it.
pub(super) fn orphan(stage: &Stage) -> Result<Verdict> {
    let folder = stage.folder(Place::Shm)?;
    let segments = folder.join("segments");
    let program = Program::Stub("orphan");
    let mut command = stage.preloaded(program, &segments)?;
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn().context("orphan")?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else { bail!("no pipes") };
    let mut lines = BufReader::new(stdout).lines();
    lines.next().context("orphan said nothing")??;
    let mut verdict = Verdict::default();
    let mut expect = |when: &str, locked: bool| -> Result<()> {
        let n_locked = n_locked(&facts::segments(&segments)?)?;
        if n_locked != usize::from(locked) {
            verdict.differences.push(format!("{when}: {n_locked} segments are locked"));
        }
        Ok(())
    };
    expect("while the rank runs", true)?;
    writeln!(stdin)?;
    lines.next().context("orphan ended early")??;
    expect("when it was killed and its child lives", false)?;
    command::kill(&mut child)?;
    Ok(verdict)
}

/// Whether somebody holds the lock of the file, asked as the agent asks: `/proc/locks` is silent on other namespaces of processes.
fn is_locked(path: &Path) -> Result<bool> {
    match std::fs::File::open(path)?.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

fn n_locked(segments: &[PathBuf]) -> Result<usize> {
    segments.iter().map(|path| is_locked(path).map(usize::from)).sum()
}

/// Processes killed at random moments: none stays, no lock stays, and the next one is as good as the first.
pub(super) fn kills(stage: &Stage) -> Result<Verdict> {
    let folder = stage.folder(Place::Shm)?;
    let segments = folder.join("segments");
    let mut verdict = Verdict::default();
    for round in 0..200_u64 {
        let mut command = stage.preloaded(Program::Stub("job"), &segments)?;
        let mut child =
            command.args(["1000000", "3", "destroy"]).stdout(Stdio::null()).process_group(0).spawn()?;
        // Any mixture will do: what is hit is another instant each time.
        std::thread::sleep(Duration::from_micros(round.wrapping_mul(7919) % 40_000));
        command::kill(&mut child)?;
    }
    let left = facts::segments(&segments)?;
    if left.is_empty() {
        verdict.differences.push("they left no segment: the collector was not there".to_owned());
    }
    let n_locked = n_locked(&left)?;
    if n_locked > 0 {
        verdict.differences.push(format!("{n_locked} locks are left"));
    }
    let mut last = stage.preloaded(Program::Stub("job"), &segments)?;
    verdict.with = command::ended(last.args(["3", "100"]), &folder.0, 10.0)?;
    if verdict.with.status != "exit 0" {
        verdict.differences.push(format!("the next one: {}", verdict.with.status));
    }
    Ok(verdict)
}

/// What short jobs leave where nobody sweeps.
pub(super) fn short_jobs(stage: &Stage) -> Result<Verdict> {
    const JOBS: u32 = 60;
    let folder = stage.folder(Place::Shm)?;
    let segments = folder.join("segments");
    let mut verdict = Verdict::default();
    for _ in 0..JOBS {
        let mut command = stage.preloaded(Program::Stub("job"), &segments)?;
        verdict.with = command::ended(command.args(["2", "100", "destroy"]), &folder.0, 10.0)?;
        if verdict.with.status != "exit 0" {
            bail!("a short job: {}", verdict.with.status);
        }
    }
    let left = facts::segments(&segments)?;
    if left.is_empty() {
        verdict.differences.push("they left no segment: the collector was not there".to_owned());
    }
    let left: u64 =
        left.iter().filter_map(|path| path.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum();
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let kib_each = left as f64 / 1024.0 / f64::from(JOBS);
    verdict.with.figures.insert("kib_each".to_owned(), kib_each);
    if kib_each > 512.0 {
        verdict.differences.push(format!("each leaves {kib_each:.0} KiB (at most 512)"));
    }
    Ok(verdict)
}

/// Four ranks of one process split, twenty times.
pub(super) fn splits(stage: &Stage) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    for _ in 0..20 {
        let once = Case { program: Program::Engine("split"), facts: Some(facts::split), ..CASE };
        let Verdict { bare, with, differences, .. } = once.run(stage)?;
        verdict.differences.extend(differences);
        (verdict.bare, verdict.with) = (bare, with);
    }
    let n_wrong = verdict.differences.len();
    verdict.differences.truncate(3);
    if n_wrong > 3 {
        verdict.differences.push(format!("and {} more", n_wrong - 3));
    }
    Ok(verdict)
}

/// Records read beside a writer at full speed, whose count is the number of the call.
pub(super) fn torn(stage: &Stage) -> Result<Verdict> {
    let folder = stage.folder(Place::Shm)?;
    let segments = folder.join("segments");
    let mut command = stage.preloaded(Program::Stub("writer"), &segments)?;
    let mut child = command.arg("8").stdout(Stdio::null()).process_group(0).spawn()?;
    let path = eventually("a segment", Duration::from_secs(5), || Ok(facts::segments(&segments)?.pop()))?;
    let watch = Stopwatch::start();
    let (mut n_read, mut n_mixed) = (0_u64, 0_u64);
    while watch.seconds() < 6.0 {
        for record in facts::newest_records(&path)? {
            n_read += 1;
            let count = record.count;
            let is_whole = record.primitive == Primitive::AllReduce
                && record.bytes == count * 4
                && u64::from(record.seq_number) == count & u64::from(u32::MAX);
            n_mixed += u64::from(!is_whole);
        }
    }
    child.wait()?;
    let mut verdict =
        Verdict { with: Ended { status: "exit 0".into(), ..Ended::default() }, ..Verdict::default() };
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    verdict.with.figures.insert("records".to_owned(), n_read as f64);
    if n_mixed > 0 {
        verdict.differences.push(format!("{n_mixed} of {n_read} records mix two calls"));
    }
    if n_read == 0 {
        verdict.differences.push("no record was read".to_owned());
    }
    Ok(verdict)
}
