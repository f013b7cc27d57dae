//! What the segments of a folder say, against what the program did. Each fact that is wrong gives a line.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use ringscope_wire::Primitive;
use ringscope_wire::segment::Snapshot;
use ringscope_wire::segment::layout::DropReason;
use ringscope_wire::segment::read::{self, Communicator, Counters, Record, Source};

/// Every segment of a folder.
pub(super) fn segments(folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = folder.read_dir() else { return Ok(Vec::new()) };
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|end| end == "seg")).collect())
}

/// The one segment that a process left.
pub(super) fn only(folder: &Path) -> Result<Snapshot> {
    let found = segments(folder)?;
    let [path] = found.as_slice() else { anyhow::bail!("{} segments, not one", found.len()) };
    snapshot(path)
}

fn snapshot(path: &Path) -> Result<Snapshot> {
    let bytes = std::fs::read(path)?;
    read::snapshot(&mut bytes.as_slice()).with_context(|| format!("cannot read {}", path.display()))
}

/// The newest records of a live segment, as the agent reads them.
pub(super) fn newest_records(path: &Path) -> Result<Vec<Record>> {
    let mut live = Live(File::open(path)?);
    let next = read::snapshot(&mut live)?.next_ticket;
    Ok(read::records(&mut live, next.saturating_sub(1 << 20), next)?.records)
}

/// A segment that is being written.
struct Live(File);

impl Source for Live {
    type Error = anyhow::Error;

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        Ok(self.0.read_exact_at(buffer, offset)?)
    }
}

/// The counters of a primitive; zeros where it was never called.
pub(super) fn counters(communicator: &Communicator, primitive: Primitive) -> Counters {
    let found = communicator.counters.iter().find(|(known, _)| *known == primitive);
    found.map(|(_, counters)| *counters).unwrap_or_default()
}

/// `n` communicators with so many all-reduces each, and one more with others.
pub(super) fn all_counted(folder: &Path, n: usize, calls: u64, last_calls: u64) -> Result<Vec<String>> {
    let snapshot = only(folder)?;
    let issued: Vec<u64> = snapshot
        .communicators
        .iter()
        .map(|communicator| counters(communicator, Primitive::AllReduce).issued_calls)
        .collect();
    let n_right = issued.iter().filter(|found| **found == calls).count();
    let mut wrong = Vec::new();
    if n_right < n {
        wrong.push(format!("{n_right} of {n} communicators have their {calls} calls"));
    }
    if !issued.contains(&last_calls) {
        wrong.push(format!("the last communicator's {last_calls} calls are not counted"));
    }
    Ok(wrong)
}

/// The calls of a communicator that came where another had been are its own: three of the first, ten of the second.
pub(super) fn apart(folder: &Path) -> Result<Vec<String>> {
    let mut found: Vec<(u32, u64)> = only(folder)?
        .communicators
        .iter()
        .map(|communicator| (communicator.n_ranks, counters(communicator, Primitive::AllReduce).issued_calls))
        .collect();
    found.sort_unstable();
    let is_right = found == [(4, 10), (8, 3)];
    Ok(if is_right { Vec::new() } else { vec![format!("(ranks, calls) {found:?}, not (4, 10), (8, 3)")] })
}

/// Four ranks split, then 50 all-reduces on each child: all completed, none unmatched.
pub(super) fn split(folder: &Path) -> Result<Vec<String>> {
    let snapshot = only(folder)?;
    let mut wrong: Vec<String> =
        snapshot.dropped.iter().map(|(reason, n)| format!("{n} dropped: {reason:?}")).collect();
    let mut n_used = 0;
    for communicator in &snapshot.communicators {
        let found = counters(communicator, Primitive::AllReduce);
        n_used += usize::from(found.issued_calls > 0);
        let is_right = (found.issued_calls, found.completed_calls) == (50, 50);
        if found.issued_calls > 0 && !is_right {
            wrong.push(format!("{} of {} calls completed", found.completed_calls, found.issued_calls));
        }
    }
    if n_used != 4 {
        wrong.push(format!("{n_used} communicators with calls, not 4"));
    }
    Ok(wrong)
}

/// A storm loses nothing but what nobody reads there: of more communicators than there are slots, and their pairs.
pub(super) fn nothing_lost(folder: &Path) -> Result<Vec<String>> {
    let unread = [DropReason::CommunicatorNotRead, DropReason::PairTableFull];
    let dropped = only(folder)?.dropped;
    let lost = dropped.iter().filter(|(reason, _)| !unread.contains(reason));
    Ok(lost.map(|(reason, n)| format!("{n} dropped: {reason:?}")).collect())
}

/// Of a primitive: calls and bytes that were issued, and that have completed; calls that have failed.
type Counted = ((u64, u64), (u64, u64), u64);

/// What `counters.c` did in a hundred rounds.
pub(super) fn counted(folder: &Path) -> Result<Vec<String>> {
    const PRIMITIVES: [Primitive; 4] =
        [Primitive::AllReduce, Primitive::Send, Primitive::Recv, Primitive::Broadcast];
    let done = |calls, bytes| ((calls, bytes), (calls, bytes), 0);
    let none = done(0, 0);
    let (reduced, exchanged, also) = (done(200, 400_000), done(100, 40_000), done(100, 5_600));
    let mut expected: Vec<[Counted; 4]> = vec![
        // Of each communicator, by primitive. One rank's last call of each round was refused.
        [(reduced.0, reduced.1, 100), exchanged, exchanged, none],
        [reduced, exchanged, exchanged, none],
        [none, also, also, none],
        [none, also, also, none],
        // The call that was open at the abort has failed.
        [((1, 40), (0, 0), 1), none, none, done(1, 10)],
        [none, none, none, done(1, 10)],
    ];
    let of = |communicator, primitive| -> Counted {
        let found = counters(communicator, primitive);
        let issued = (found.issued_calls, found.issued_bytes);
        (issued, (found.completed_calls, found.completed_bytes), found.failed_calls)
    };
    let snapshot = only(folder)?;
    let mut found: Vec<_> =
        snapshot.communicators.iter().map(|one| PRIMITIVES.map(|primitive| of(one, primitive))).collect();
    expected.sort_unstable();
    found.sort_unstable();
    Ok(if found == expected { Vec::new() } else { vec![format!("counters {found:?}, not {expected:?}")] })
}
