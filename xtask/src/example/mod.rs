//! `cargo xtask example`: the examples of `examples/`, run and judged.
//!
//! `digits` trains the same model four times. What summation and the all-reduce in rank order come to must be the same bit
//! for bit; Gloo folds in another order, so it must come near. Asynchronous workers come to something else each time, which must
//! read about as well.

mod curves;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use serde::Deserialize;

use crate::process::{cargo, root, run, say, target_dir};
use crate::python;

/// An example.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Example {
    /// A small model on handwritten digits: by summation, by all-reduce, by Gloo, asynchronously. Writes target/digits/
    Digits,
}

/// The ways of sharing what is learnt, as `train.py --path` has them.
const PATHS: [&str; 4] = ["summation", "all-reduce", "gloo", "asynchronous"];
/// Of the picture.
const TITLE: &str = "Loss of four workers that learn handwritten digits";
/// How far Gloo's last loss may be from ours, as a fraction: the order of four additions in float32 changes its sixth digit.
const NOISE: f64 = 1e-3;
/// How far its accuracy may be: one picture of 357.
const PICTURE: f64 = 1.5 / 357.0;
/// How much less accurate asynchronous workers may be: ten pictures. Of eleven runs of 300 steps the worst read five fewer than
/// summation, and the best two more.
const UNLIKE: f64 = 10.5 / 357.0;
/// From what accuracy on: after 50 steps, at 0.89, asynchronous runs are 0.06 apart.
const TRAINED: f64 = 0.95;

/// What `train.py --out` writes.
#[derive(Debug, Deserialize)]
struct Report {
    path: String,
    /// By step; the average over the workers.
    losses: Vec<f64>,
    /// Of pictures that were not trained on.
    accuracy: f64,
    parameters_sha256: String,
    /// Median over the steps.
    step_ms: f64,
}

impl Report {
    fn loss(&self) -> f64 {
        self.losses.last().copied().unwrap_or(f64::NAN)
    }
}

pub(crate) fn start(example: Example, arguments: &[String]) -> Result<()> {
    match example {
        Example::Digits => digits(arguments),
    }
}

/// All of them, one after the other, with further arguments of `train.py`.
fn digits(arguments: &[String]) -> Result<()> {
    let python = python::with_torch()?;
    run(&mut cargo(["build", "--release", "-p", "ringscope-engine"]))?;
    let folder = target_dir().join("digits");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let ringscope = built_ringscope();
    if ringscope.is_none() {
        say("without ringscope, which is not built: `cargo xtask dist` builds it");
    }
    let launch = |path: &str| observed(ringscope.as_deref(), &python, &format!("digits-{path}"));
    let reports =
        PATHS.map(|path| train(launch(path), path, &folder.join(format!("{path}.json")), arguments));
    let reports = reports.into_iter().collect::<Result<Vec<Report>>>()?;
    let picture = folder.join("loss.svg");
    let curves: Vec<_> =
        reports.iter().map(|report| (report.path.as_str(), report.losses.as_slice())).collect();
    fs::write(&picture, curves::svg(TITLE, &curves))
        .with_context(|| format!("cannot write {}", picture.display()))?;
    say(&format!("what came of it:\n\n{}\n\nlosses: {}", table(&reports), picture.display()));
    judge(&reports)
}

fn train(mut python: Command, path: &str, out: &Path, arguments: &[String]) -> Result<Report> {
    python.arg(root().join("examples/digits/train.py")).args(["--path", path]);
    python.arg("--out").arg(out).arg("--bin").arg(target_dir().join("release"));
    run(python.args(arguments).current_dir(root()))?;
    let text = fs::read_to_string(out).with_context(|| format!("cannot read {}", out.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no report", out.display()))
}

fn built_ringscope() -> Option<PathBuf> {
    let places = ["dist", "release"].map(|folder| target_dir().join(folder).join("ringscope"));
    places.into_iter().find(|path| path.exists())
}

/// A program, under `ringscope run` where there is one: a daemon that is running shows the job then.
fn observed(ringscope: Option<&Path>, program: &Path, job: &str) -> Command {
    let Some(ringscope) = ringscope else { return Command::new(program) };
    let mut command = Command::new(ringscope);
    command.args(["run", "--job", job, "--"]).arg(program);
    command
}

fn table(reports: &[Report]) -> String {
    let mut text =
        "| path | last loss | accuracy | ms a step | parameters |\n|---|---|---|---|---|".to_owned();
    for report in reports {
        let Report { path, accuracy, step_ms, parameters_sha256, .. } = report;
        let hash: String = parameters_sha256.chars().take(16).collect();
        text += &format!("\n| {path} | {:.6} | {accuracy:.4} | {step_ms:.2} | {hash} |", report.loss());
    }
    text
}

fn judge(reports: &[Report]) -> Result<()> {
    let [summation, all_reduce, gloo, asynchronous] = reports else {
        bail!("{} reports, not four", reports.len())
    };
    let differs = summation.losses.iter().zip(&all_reduce.losses).position(|(one, other)| one != other);
    if let Some(step) = differs {
        bail!("summation and all-reduce have different losses from step {step} on");
    }
    if summation.parameters_sha256 != all_reduce.parameters_sha256 {
        bail!("summation and all-reduce come to different parameters");
    }
    let loss_gap = (gloo.loss() / summation.loss() - 1.0).abs();
    let accuracy_gap = (gloo.accuracy - summation.accuracy).abs();
    if loss_gap.is_nan() || loss_gap > NOISE || accuracy_gap > PICTURE {
        bail!("Gloo comes to another result: loss {}, accuracy {}", gloo.loss(), gloo.accuracy);
    }
    let is_as_good = asynchronous.accuracy >= summation.accuracy - UNLIKE;
    if !is_as_good && summation.accuracy >= TRAINED {
        bail!("asynchronous workers read worse: accuracy {}", asynchronous.accuracy);
    }
    say("summation and all-reduce are the same bit for bit; Gloo is the same but for rounding");
    if is_as_good {
        say("asynchronous workers read about as well");
    } else {
        say("asynchronous workers are not judged: in so few steps nobody has learnt enough");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(losses: &[f64], hash: &str) -> Report {
        Report {
            path: String::new(),
            losses: losses.to_vec(),
            accuracy: 0.98,
            parameters_sha256: hash.to_owned(),
            step_ms: 1.0,
        }
    }

    fn accurate(accuracy: f64) -> Report {
        Report { accuracy, ..report(&[3.0, 1.5], "c") }
    }

    #[test]
    fn only_equal_bits_of_ours_and_nearly_equal_ones_of_gloos_pass() {
        let ours = || report(&[2.0, 1.0], "a");
        let judged = |other: Report, gloos: Report| judge(&[ours(), other, gloos, accurate(0.98)]);
        assert!(judged(ours(), report(&[2.1, 1.0001], "b")).is_ok());
        assert!(judged(ours(), report(&[2.0, 1.1], "b")).is_err());
        assert!(judged(ours(), report(&[], "b")).is_err());
        assert!(judged(report(&[2.0, 1.0], "b"), ours()).is_err());
        assert!(judged(report(&[2.0, 1.000_000_1], "a"), ours()).is_err());
    }

    #[test]
    fn asynchronous_workers_are_judged_by_what_they_read_alone_once_there_is_something_to_read() {
        let judged = |of_ours, asynchronous| {
            let ours = || Report { accuracy: of_ours, ..report(&[2.0, 1.0], "a") };
            judge(&[ours(), ours(), ours(), accurate(asynchronous)])
        };
        assert!(judged(0.98, 0.96).is_ok());
        assert!(judged(0.98, 0.9).is_err());
        assert!(judged(0.98, f64::NAN).is_err());
        assert!(judged(0.89, 0.8).is_ok());
    }
}
