//! Many ranks of the engine on this machine: a test of the engine's, at sizes for figures.

use anyhow::Result;

use crate::process::{self, cargo};

/// Ranks and hosts: those of the limits that are promised.
const SIZES: [(u32, u32); 3] = [(64, 8), (512, 64), (1024, 128)];
/// As threads, all ranks' descriptors are of one table, which a process may have 20 000 of as a rule: some 17 a rank with its
/// split.
const SIZES_OF_THREADS: [(u32, u32); 3] = [(64, 8), (256, 32), (1024, 128)];

/// How many ranks, and as what.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Scale {
    /// Ranks, 8 to 1024, eight on each host [default: 64, 512 and 1024, the same and 256 instead of 512 as threads]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=1024))]
    ranks: Option<u32>,
    /// As threads of one process
    #[arg(long, requires = "ranks")]
    threads: bool,
}

impl Scale {
    /// Runs them, and prints a table of what they took.
    pub(crate) fn run(self) -> Result<()> {
        process::run(&mut cargo(["build", "--release", "-p", "ringscope-engine"]))?;
        let mut test = cargo(["test", "--release", "-p", "ringscope-engine", "--test", "scale", "hundreds"]);
        test.args(["--", "--nocapture"]).env("RSCCL_SCALE", self.jobs().join(","));
        process::run(&mut test)
    }

    fn jobs(&self) -> Vec<String> {
        let by = |threads: bool| if threads { "threads" } else { "processes" };
        let job = |(ranks, hosts): (u32, u32), threads| format!("{ranks}/{hosts}/{}", by(threads));
        match self.ranks {
            Some(ranks) => vec![job((ranks / 8 * 8, ranks / 8), self.threads)],
            None => {
                let processes = SIZES.into_iter().map(|size| job(size, false));
                processes.chain(SIZES_OF_THREADS.into_iter().map(|size| job(size, true))).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Parsed {
        #[command(flatten)]
        _scale: Scale,
    }

    #[test]
    fn hosts_have_eight_ranks() {
        let one = Scale { ranks: Some(44), threads: true };
        assert_eq!(one.jobs(), ["40/5/threads"]);
        let parse = |ranks| Parsed::try_parse_from(["scale", "--ranks", ranks]);
        assert!(parse("0").is_err_and(|error| error.to_string().contains("0 is not in 8..=1024")));
        assert!(parse("1025").is_err() && parse("1024").is_ok());
        assert!(Scale { ranks: None, threads: false }.jobs().contains(&"1024/128/processes".to_owned()));
    }
}
