//! Faults of jobs, real and simulated, and whether ringscope names who is at fault.

#[path = "../../daemon/examples/faults/arguments.rs"]
#[expect(dead_code, reason = "the suite itself uses the rest")]
mod arguments;

use std::process::ExitCode;

use anyhow::{Result, bail};
use arguments::Arguments;
use clap::Parser as _;

use crate::build::COLLECTOR;
use crate::process::{cargo, command, replace, root, run, target_dir};
use crate::rig::{self, What};
use crate::tools;

/// Builds what the suite drives, optimized, and runs it: `daemon/examples/faults`.
pub(crate) fn suite(arguments: &[String]) -> Result<()> {
    let default = ["engine".to_owned()];
    let arguments = if arguments.is_empty() { &default } else { arguments };
    check(arguments)?;
    tools::ensure(&[tools::CC])?;
    let release = target_dir().join("release");
    run(cargo(["build", "--release", "-p", "ringscope-engine"]).args(COLLECTOR))?;
    // At once: without the example's own dependencies half of it would see other features, and be compiled twice.
    run(&mut cargo(["build", "--release", "-p", "ringscope", "--bin", "ringscope", "--example", "faults"]))?;
    let program = release.join("fault_job");
    build_job(&program)?;
    let mut suite = cargo(["run", "--release", "-p", "ringscope", "--example", "faults", "--"]);
    suite.args(arguments);
    suite.arg("--ringscope").arg(release.join("ringscope"));
    if arguments.iter().any(|argument| argument == "engine") {
        suite.arg("--program").arg(program);
    }
    if asks_for_links(arguments) {
        let suite = run(&mut suite);
        let links = links();
        return suite.and(links);
    }
    // In place of this process: who ends it ends the suite.
    replace(&mut suite)
}

/// Slow links need networks of their own, which only the rig has: all cases of slowness are these too.
fn asks_for_links(arguments: &[String]) -> bool {
    let has = |wanted: &str| {
        arguments.iter().any(|argument| argument == wanted || argument.starts_with(&format!("{wanted}=")))
    };
    has("engine") && has("--slow") && !["--only", "--healthy", "--detail"].iter().any(|other| has(other))
}

/// Runs the rig's experiments on links, each with its twin, and ends the table of slowness with what came of them.
#[expect(clippy::print_stdout, reason = "the table is what stdout is for")]
fn links() -> Result<()> {
    let mut rows = Vec::new();
    for (names, what) in [("slow_link, congestion", What::N3), ("slow_nic", What::N5)] {
        let built = rig::Build::Built(target_dir().join("release"));
        let ended = rig::run_with(built, &rig::Args::of(what))?;
        let verdict = match ended {
            code if code == ExitCode::SUCCESS => "named in time, nobody else accused",
            code if code == ExitCode::from(rig::SKIPPED) => "left out: no network namespaces here",
            _ => "MISSED, see the rig's table",
        };
        rows.push((names, verdict));
    }
    println!("\n| slow, in network namespaces (`cargo xtask rig`) | said |\n|---|---|");
    rows.iter().for_each(|(names, verdict)| println!("| {names} | {verdict} |"));
    if rows.iter().any(|(_, verdict)| verdict.starts_with("MISSED")) {
        bail!("the rig missed something");
    }
    Ok(())
}

/// Before minutes go into building: a mistake ends the process with the suite's own words, and so does its help.
fn check(arguments: &[String]) -> Result<()> {
    let program = "cargo xtask faults --".to_owned();
    let parsed = Arguments::try_parse_from(std::iter::once(&program).chain(arguments));
    parsed.unwrap_or_else(|error| error.exit()).check().map_err(anyhow::Error::msg)
}

/// The job that goes wrong: a program as a user would write it, linked with the engine.
fn build_job(program: &std::path::Path) -> Result<()> {
    let engine = root().join("engine");
    let sources = std::fs::read_dir(engine.join("examples/fault_job"))?;
    let sources: Vec<_> = sources.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let release = target_dir().join("release");
    let mut cc = command("cc", ["-O1", "-g", "-pthread"]);
    cc.arg("-I").arg(engine.join("include")).arg("-L").arg(&release);
    cc.arg(format!("-Wl,-rpath,{}", release.display())).arg("-Wl,--no-as-needed");
    cc.args(sources.iter().filter(|path| path.extension().is_some_and(|extension| extension == "c")));
    run(cc.arg("-lrsccl").arg("-o").arg(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn said(arguments: &[&str]) -> String {
        let parsed = Arguments::try_parse_from(std::iter::once(&"faults").chain(arguments));
        let checked = parsed.map_err(|error| error.to_string()).and_then(|parsed| parsed.check());
        checked.err().unwrap_or_default()
    }

    #[test]
    fn all_cases_of_slowness_have_those_of_links_with_them() {
        let asks = |words: &str| asks_for_links(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(asks("engine --slow") && asks("engine --slow --seeds 2"));
        assert!(!asks("engine") && !asks("fleet --slow") && !asks("engine --slow --only slow_two"));
        assert!(!asks("engine --slow --only=slow_two"));
    }

    #[test]
    fn mistakes_are_told_before_anything_is_built() {
        assert_eq!(said(&["engine", "--faithful", "2.30", "--only", "pair_init"]), "");
        assert_eq!(said(&["fleet", "--only", "stopped"]), "");
        assert_eq!(said(&["engine", "--slow", "--only", "nested"]), "");
        assert_eq!(said(&["fleet", "--only", "slow_host"]), "");
        for (arguments, part) in [
            (&["nope"][..], "unrecognized subcommand 'nope'"),
            (&["engine", "--faithful", "2.29"], "[possible values: 2.27, 2.28, 2.30, 2.32]"),
            (
                &["engine", "--only", "nope"],
                "--only nope: no fault has this in its name. Names for --only: stop, ",
            ),
            (&["fleet", "--only", "pair_init"], "Names for --only: stopped, "),
            (&["engine", "--seeds", "0"], "0 is not in 1.."),
            (&["engine", "--slow", "--only", "pair_init"], "Names for --only: slow_tenth, "),
            (&["fleet", "--slow", "--only", "killed"], "Names for --only: slow_tenth, "),
        ] {
            let words = said(arguments);
            assert!(words.contains(part), "{arguments:?}: {words}");
        }
        assert!(said(&["engine", "--help"]).contains("pair_init"), "the help lists the names");
        assert!(said(&["engine", "--help"]).contains("With --slow: slow_tenth, "), "those of slowness apart");
        assert!(said(&["--help"]).contains("cargo xtask faults -- engine --slow"), "and has an example");
    }
}
