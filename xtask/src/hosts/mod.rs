//! `cargo xtask launch`: the scenes of `ringscope launch` on two pretended hosts, over and over, and how many were clean.
//!
//! The scenes are tests (`daemon/tests/launch/two_hosts.rs`): each builds its hosts in namespaces of its own, with sshd inside, and fails
//! where anything is left behind. Here they are run often, and counted.

use std::collections::BTreeMap;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};

use crate::clock::Stopwatch;
use crate::process::{cargo, run, say};
use crate::tools;

/// Arguments of `cargo xtask launch`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask launch                     each scene once
  cargo xtask launch --tries 50          and again, 50 times: half an hour
  cargo xtask launch --tries 5 ctrl_c    only scenes with that in their name")]
pub(crate) struct Args {
    /// How often each scene is run
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tries: u32,
    /// Scenes that are run at once
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    at_once: u32,
    /// Only scenes with this in their name
    scenes: Option<String>,
}

/// How often a scene was run, and how often it was clean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    tries: u32,
    clean: u32,
}

/// Runs the scenes; fails if one was not clean.
pub(crate) fn run_all(args: &Args) -> Result<()> {
    tools::ensure(&[tools::SSHD, tools::SSH, tools::IP, tools::UNSHARE, tools::CC])?;
    tools::ensure_libclang()?;
    run(&mut crate::build::debug())?;
    let clock = Stopwatch::start();
    let mut counts = BTreeMap::new();
    for number in 1..=args.tries {
        let said = once(args)?;
        count(&said, &mut counts);
        let clean = counts.values().map(|count: &Count| count.clean).sum::<u32>();
        let all = counts.values().map(|count| count.tries).sum::<u32>();
        say(&format!("try {number} of {}: {clean} of {all} scenes were clean so far", args.tries));
        if clean < all && said.contains("panicked") {
            say(&said);
        }
    }
    ensure!(!counts.is_empty(), "no scene is called so");
    say(&format!("\n{}\n{} s in all", table(&counts), clock.elapsed().as_secs()));
    ensure!(counts.values().all(|count| count.clean == count.tries), "not every scene was clean");
    Ok(())
}

fn once(args: &Args) -> Result<String> {
    let mut tests = cargo(["test", "--locked", "-p", "ringscope", "--test", "launch"]);
    let scenes = args.scenes.as_deref().unwrap_or_default();
    tests.arg(format!("{SCENES}{scenes}")).args(["--", "--test-threads", &args.at_once.to_string()]);
    let output = tests.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads what the tests' harness prints, a line a scene.
fn count(said: &str, counts: &mut BTreeMap<String, Count>) {
    for line in said.lines() {
        let Some((name, result)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
        else {
            continue;
        };
        let Some(scene) = name.strip_prefix(SCENES) else { continue };
        let counted = counts.entry(scene.to_owned()).or_default();
        counted.tries += 1;
        counted.clean += u32::from(result == "ok");
    }
}

fn table(counts: &BTreeMap<String, Count>) -> String {
    let width = counts.keys().map(String::len).max().unwrap_or_default();
    let line = |(scene, count): (&String, &Count)| {
        format!("{:width$}  {} of {} clean", scene.replace('_', " "), count.clean, count.tries)
    };
    counts.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Where the scenes are.
const SCENES: &str = "two_hosts::";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_are_counted_by_name() {
        let mut counts = BTreeMap::new();
        count(
            "running 2 tests\ntest two_hosts::a_b ... ok\ntest two_hosts::c ... FAILED\ntest local::x ... ok\n",
            &mut counts,
        );
        count("test two_hosts::a_b ... ok\n", &mut counts);
        assert_eq!(counts["a_b"], Count { tries: 2, clean: 2 });
        assert_eq!(counts["c"], Count { tries: 1, clean: 0 });
        assert_eq!(counts.len(), 2);
        assert_eq!(table(&counts), "a b  2 of 2 clean\nc    0 of 1 clean");
    }
}
