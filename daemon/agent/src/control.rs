//! Writes control words: what a wish for a level means in a segment, by the daemon's word or by hand.

use std::path::{Path, PathBuf};

use ringscope_api::LevelChoice;
use ringscope_wire::batch::{Level, Wish};
use ringscope_wire::segment::layout::{
    CONTROL_CHANNELS, CONTROL_COUNTERS, CONTROL_EVENTS, CONTROL_OFF, CONTROL_ON, CONTROL_RAISED,
    CONTROL_STEPS,
};

use super::segment_file::{SegmentFile, Target};

/// What became of a wish in the segments of a folder.
#[derive(Debug, Default)]
pub struct Written {
    /// Process ids of the segments that were written to, ascending.
    pub pids: Vec<u32>,
    /// Segments that could not be, and why not.
    pub failed: Vec<(PathBuf, String)>,
}

/// Writes the control word of every living process in `dir`, or of the one with this id. It holds until an agent is
/// told another wish.
///
/// # Errors
/// The folder cannot be read.
pub fn write_level(dir: &Path, pid: Option<u32>, choice: LevelChoice) -> std::io::Result<Written> {
    let mut written = Written::default();
    let paths = std::fs::read_dir(dir)?.filter_map(Result::ok).map(|entry| entry.path());
    for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "seg")) {
        match write_one(&path, pid, choice) {
            Ok(Some(pid)) => written.pids.push(pid),
            Ok(None) => {}
            Err(reason) => written.failed.push((path, reason)),
        }
    }
    written.pids.sort_unstable();
    Ok(written)
}

fn write_one(path: &Path, pid: Option<u32>, choice: LevelChoice) -> Result<Option<u32>, String> {
    let mut file = SegmentFile::open(None::<&std::fs::File>, path).map_err(|error| error.to_string())?;
    let target = Target { path, is: Some(file.id()) };
    if file.is_dead() {
        return Ok(None);
    }
    let found = file.snapshot().map_err(|error| error.to_string())?.identity.pid;
    if pid.is_some_and(|pid| pid != found) {
        return Ok(None);
    }
    target.control(word(choice)).map_err(|error| error.to_string())?;
    Ok(Some(found))
}

/// The control word for a choice.
const fn word(choice: LevelChoice) -> u32 {
    match choice {
        LevelChoice::Default => CONTROL_ON,
        LevelChoice::Off => CONTROL_OFF,
        LevelChoice::Counters => CONTROL_COUNTERS,
        LevelChoice::Channels => CONTROL_CHANNELS,
        LevelChoice::Steps => CONTROL_STEPS,
        LevelChoice::Events => CONTROL_EVENTS,
    }
}

/// The control word for a wish of the daemon.
pub(super) fn wished(wish: &Wish) -> u32 {
    if wish.off {
        return CONTROL_OFF;
    }
    match wish.level() {
        Level::Unspecified => CONTROL_ON,
        Level::Counters => CONTROL_COUNTERS,
        Level::Channels => CONTROL_CHANNELS,
        Level::Steps => CONTROL_STEPS,
        Level::Events => CONTROL_EVENTS,
    }
}

/// The control word where diagnosis needs each network step, or needs it no more. What somebody has said stays.
pub(super) const fn raised(word: u32, is_raised: bool) -> u32 {
    match word {
        CONTROL_ON if is_raised => CONTROL_RAISED,
        CONTROL_RAISED if !is_raised => CONTROL_ON,
        word => word,
    }
}
