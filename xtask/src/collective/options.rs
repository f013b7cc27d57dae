//! What to measure.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use serde::Serialize;

/// 4 B to 256 MiB, as powers of 4.
const ALL_POWERS: [usize; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];

const LIBRARY: &str = "librsccl.so";

/// How ranks reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    /// Shared memory
    Shm,
    /// TCP over loopback
    Tcp,
}

/// Options of `cargo xtask bench collective`.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "cargo xtask bench collective --",
    after_help = "Examples:
  cargo xtask bench collective -- --quick
  cargo xtask bench collective -- --sizes 1KiB,4MiB --ranks 2 --transports shm --rounds 9 --only rsccl,limit
  cargo xtask bench collective -- --before ../older/target/release/librsccl.so --only rsccl"
)]
pub(crate) struct Options {
    /// Bytes of the buffer that is summed: numbers with B, KiB or MiB [default: powers of 4 from 4 B to 256 MiB]
    #[arg(long, value_delimiter = ',', value_parser = parse_size)]
    pub(crate) sizes: Vec<usize>,
    /// Numbers of ranks
    #[arg(long, value_delimiter = ',', default_value = "2,4")]
    pub(crate) ranks: Vec<usize>,
    /// Transports
    #[arg(long, value_delimiter = ',', default_value = "shm,tcp")]
    pub(crate) transports: Vec<Transport>,
    /// Rounds; of each the median counts, and the table shows the median, least and most of these
    #[arg(long, default_value_t = 7)]
    pub(crate) rounds: usize,
    /// Three rounds of short batches at the six sizes of the issue: for orientation
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only what has one of these words in its name, such as rsccl, "open mpi", intel, gloo, oneccl, limit
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// An older librsccl.so, which takes turns with today's; its rows are called before
    #[arg(long, value_name = "FILE", value_parser = parse_library)]
    pub(crate) before: Option<PathBuf>,
    /// TCP's congestion control for all libraries, in a network namespace of each one's own: the first that the kernel
    /// lets a namespace have, else the host's. A host's bbr halves the rate of loopback
    #[arg(long, value_delimiter = ',', default_value = "cubic,reno")]
    pub(crate) congestion: Vec<String>,
    /// Writes everything that was measured here, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Leaves out what waiting costs the processors
    #[arg(long)]
    pub(crate) no_waiting: bool,
}

impl Options {
    /// The sizes, in bytes.
    pub(crate) fn sizes_bytes(&self) -> Vec<usize> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        let powers: &[usize] = if self.quick { &[5, 7, 9, 11, 13, 14] } else { &ALL_POWERS };
        powers.iter().map(|power| 1 << (2 * power)).collect()
    }

    /// How many rounds.
    pub(crate) fn n_rounds(&self) -> usize {
        if self.quick { self.rounds.min(3) } else { self.rounds }
    }

    /// How long a batch lasts at least, where operations are short.
    pub(crate) fn batch_ns(&self) -> f64 {
        if self.quick { 1e6 } else { 4e6 }
    }

    /// Whether a name is among the wanted ones.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.only.is_empty() || self.only.iter().any(|word| name.contains(&word.to_lowercase()))
    }
}

/// Of `4`, `4B`, `16KiB`, `256MiB`, the bytes; whole floats.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        other => return Err(format!("{other} is no unit: B, KiB or MiB")),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    bytes.filter(|bytes| *bytes >= 4 && bytes % 4 == 0).ok_or_else(|| format!("{text}: not whole floats"))
}

/// A library by its path, whole, so that the loader finds it from each folder.
fn parse_library(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text).canonicalize().map_err(|error| error.to_string())?;
    if path.is_file() && path.file_name() == Some(OsStr::new(LIBRARY)) {
        return Ok(path);
    }
    Err(format!("name a file called {LIBRARY}: the loader takes it by its name"))
}

/// The size as a person reads it.
pub(crate) fn show_size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("4"), Ok(4));
        assert_eq!(parse_size("16KiB"), Ok(16_384));
        assert_eq!(parse_size("256MiB"), Ok(268_435_456));
        assert!(parse_size("6").is_err());
        assert!(parse_size("4GB").is_err());
    }

    #[test]
    fn the_library_before_is_a_file_of_its_name() {
        for wrong in ["/proc/self/exe", "/", "librsccl.so"] {
            assert!(Options::try_parse_from(["bench", "--before", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn quick_has_the_six_sizes_of_the_issue() {
        let options = Options::parse_from(["bench", "--quick"]);
        let shown: Vec<String> = options.sizes_bytes().into_iter().map(show_size).collect();
        assert_eq!(shown, ["1 KiB", "16 KiB", "256 KiB", "4 MiB", "64 MiB", "256 MiB"]);
    }
}
