//! Where the bytes come from: files, folders (one level), stdin; gzip and zstd are unpacked.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::plural;

use super::room::Room;

/// One input, before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// `-`.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Input {
    /// Its name for reports.
    pub fn name(&self) -> String {
        match self {
            Self::Stdin => "stdin".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// Opens it: its bytes, still packed; when it was last written to (0: not known), and how long it is if that is known.
    pub fn open(&self, now: Timestamp) -> io::Result<(Box<dyn Read>, Timestamp, Option<u64>)> {
        match self {
            Self::Stdin => Ok((Box::new(io::stdin()), Timestamp(0), None)),
            Self::File(path) => {
                let file = File::open(path)?;
                let metadata = file.metadata()?;
                let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
                let modified = modified.and_then(|since| u64::try_from(since.as_nanos()).ok());
                let length = metadata.is_file().then_some(metadata.len());
                Ok((Box::new(file), modified.map(Timestamp).unwrap_or_default().min(now), length))
            }
        }
    }
}

/// The inputs that the arguments name: a folder stands for its files, by name. Folders that cannot be listed are
/// inputs that cannot be opened. With them, in words, what is left out.
pub fn inputs(paths: &[PathBuf]) -> (Vec<Input>, Vec<String>) {
    let (mut inputs, mut left_out, mut n_beyond) = (Vec::new(), Vec::new(), 0);
    for path in paths {
        if path == Path::new("-") {
            inputs.push(Input::Stdin);
            continue;
        }
        let Ok(entries) = fs::read_dir(path) else {
            inputs.push(Input::File(path.clone()));
            continue;
        };
        let mut n_folders = 0;
        let files = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| {
            n_folders += usize::from(path.is_dir());
            path.is_file()
        });
        let (files, n_more) = first(files, MAX_FILES);
        inputs.extend(files.into_iter().map(Input::File));
        n_beyond += n_more;
        if n_folders > 0 {
            let folders = plural(n_folders, "folder");
            left_out.push(format!(
                "not read: {folders} in {}: a folder stands for the files right in it, so name inner ones too",
                path.display()
            ));
        }
    }
    n_beyond += inputs.len().saturating_sub(MAX_FILES);
    inputs.truncate(MAX_FILES);
    if n_beyond > 0 {
        let files = plural(n_beyond, "file");
        left_out.push(format!("not read: {files} beyond the first {MAX_FILES}: import the others apart"));
    }
    (inputs, left_out)
}

/// The first `max` by name, and how many there are beyond these.
fn first(paths: impl Iterator<Item = PathBuf>, max: usize) -> (BTreeSet<PathBuf>, usize) {
    let (mut first, mut n_beyond) = (BTreeSet::new(), 0);
    for path in paths {
        first.insert(path);
        if first.len() > max {
            first.pop_last();
            n_beyond += 1;
        }
    }
    (first, n_beyond)
}

/// The bytes of `packed`, unpacked if they are gzip or zstd, as their first bytes say.
pub(super) fn unpack<'r>(packed: Box<dyn Read + 'r>, room: &dyn Room) -> io::Result<Box<dyn Read + 'r>> {
    let mut packed = BufReader::with_capacity(CHUNK_BYTES, packed);
    let mut magic = [0_u8; 4];
    let n = fill(&mut packed, &mut magic)?;
    let whole = io::Cursor::new(magic).take(n as u64).chain(packed);
    Ok(match magic[..n] {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(whole)),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let mut decoder = zstd::stream::read::Decoder::new(whole)?;
            let window_log_max = room.zstd_window_log_max();
            decoder.window_log_max(window_log_max)?;
            room.take(1 << window_log_max)?;
            Box::new(decoder)
        }
        _ => Box::new(whole),
    })
}

/// Fills `buffer` as far as there are bytes. Returns how many.
pub(super) fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    while n < buffer.len() {
        match from.read(&mut buffer[n..]) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n)
}

/// Bytes read at once: enough that the system calls do not show.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;
/// Largest JSON, XML or pickle: a Flight Recorder with 20 000 entries and their stacks has some 100 MiB.
pub(super) const MAX_DOCUMENT_BYTES: u64 = 256 << 20;
/// Files of one import: a log per rank of the largest jobs.
const MAX_FILES: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_files_are_beyond_the_bound_goes_by_their_names() {
        let paths = ["d", "a", "c", "b"].map(PathBuf::from);
        let (kept, n_beyond) = first(paths.into_iter(), 2);
        assert_eq!((kept, n_beyond), (BTreeSet::from(["a", "b"].map(PathBuf::from)), 2));
    }
}
