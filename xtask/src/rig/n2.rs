//! N2, channel shortfall: one NIC of one host is really down when the job forms its communicator again. Every rank then
//! runs on half of the channels, over half of the NICs, and ringscope says whose fault that is.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::daemon::PATIENCE;
use super::formulas::ELEMENT_BYTES;
use super::job::{Job, Spec};
use super::network::{NICS, WIRE_PER_PAYLOAD, host_name, nic};
use super::report::Report;
use super::stage::Stage;
use crate::clock::eventually;
use crate::process::say;

/// How much is measured.
#[derive(Debug)]
pub(crate) struct Sizes {
    rate_mbit: u32,
    count: usize,
    rounds: usize,
}

/// For figures.
pub(crate) const FULL: Sizes = Sizes { rate_mbit: 100, count: 4 << 20, rounds: 9 };
/// For tests: a link this slow has 70 ms in its queue, and so stays busy while a rank waits for a processor.
pub(crate) const QUICK: Sizes = Sizes { rate_mbit: 30, count: 1 << 20, rounds: 3 };

/// Runs it; once again if something else had the processors meanwhile and the rates say so.
pub(crate) fn run(programs: &Path, sizes: &Sizes, keep: bool, report: &mut Report) -> Result<()> {
    let stage = Stage::set(programs, "n2", N_HOSTS, sizes.rate_mbit, keep)?;
    let hosts: Vec<usize> = (0..N_HOSTS).collect();
    let mut job = Job::start(
        &stage,
        &Spec { name: "n2", hosts: &hosts, environment: &[], level: "steps", rails: false },
    )?;
    let mut run = Run::measured(&stage, &mut job, sizes, 1)?;
    if !run.is_met(sizes) {
        say(&format!("n2: measured again, for the first time gave {:.2?} MB/s", run.rates_mb()));
        job.ask_all("destroy")?;
        stage.network.set_nic(CULPRIT, DOWN, true)?;
        run = run.or_faster(Run::measured(&stage, &mut job, sizes, 2)?);
    }
    run.judge(sizes, report);
    findings(&stage, report)?;
    job.finish()?;
    stage.clear(report)
}

/// What was seen with all NICs up, and with one down.
#[derive(Debug)]
struct Run {
    channels: [String; 2],
    /// Bytes per second.
    rates: [f64; 2],
}

impl Run {
    /// Ends with the NIC down and the communicator in use.
    fn measured(stage: &Stage, job: &mut Job, sizes: &Sizes, number: usize) -> Result<Self> {
        let (whole, short) = (format!("whole-{number}"), format!("short-{number}"));
        job.form(&whole)?;
        let all_up = channels(stage, &whole)?;
        let before = bandwidth(job, sizes)?;
        job.ask_all("destroy")?;
        stage.network.set_nic(CULPRIT, DOWN, false)?;
        job.form(&short)?;
        let one_down = channels(stage, &short)?;
        Ok(Self { channels: [all_up, one_down], rates: [before, bandwidth(job, sizes)?] })
    }

    /// The second one, with the faster rate of each: what else runs makes links idle, and never faster.
    fn or_faster(&self, second: Self) -> Self {
        let [whole, short] = second.rates;
        Self { rates: [self.rates[0].max(whole), self.rates[1].max(short)], ..second }
    }

    fn ratio(&self) -> f64 {
        self.rates[1] / self.rates[0]
    }

    fn is_half(&self) -> bool {
        (self.ratio() - 0.5).abs() <= 0.5 * TOLERANCE
    }

    fn is_met(&self, sizes: &Sizes) -> bool {
        let near = |nics, rate| is_near(rate, predicted(sizes, nics));
        near(NICS, self.rates[0]) && near(NICS - 1, self.rates[1]) && self.is_half()
    }

    fn rates_mb(&self) -> [f64; 2] {
        self.rates.map(|rate| rate / 1e6)
    }

    fn judge(&self, sizes: &Sizes, report: &mut Report) {
        let [all_up, one_down] = &self.channels;
        report.equal("N2", "init channels of the hosts, all NICs up", "2,2,2 -> 4", all_up.as_str());
        report_rate(report, "all NICs up", sizes, NICS, self.rates[0]);
        let what = format!("init channels, {} down on {}", nic(DOWN), host_name(CULPRIT));
        report.equal("N2", what, "2,1,2 -> 2", one_down.as_str());
        report_rate(report, "one NIC down", sizes, NICS - 1, self.rates[1]);
        let what = "all-reduce bandwidth, after by before (within 10 %)";
        report.add("N2", what, "0.500", format!("{:.3}", self.ratio()), self.is_half());
    }
}

/// `init,init,... -> final`, as the daemon shows them.
fn channels(stage: &Stage, name: &str) -> Result<String> {
    let id = stage.daemon.communicator(name, N_HOSTS)?;
    let detail = stage.daemon.json(&format!("/api/v1/communicators/{id}"))?;
    let ranks = detail["ranks"].as_array().context("ranks")?;
    let inits: Vec<String> = ranks.iter().map(|rank| rank["init_channels"].to_string()).collect();
    Ok(format!("{} -> {}", inits.join(","), detail["final_channels"]))
}

/// Bytes per second of the median all-reduce (S by its time, on the slowest rank).
fn bandwidth(job: &mut Job, sizes: &Sizes) -> Result<f64> {
    let mut times_s = Vec::new();
    for round in 0..=sizes.rounds {
        let answers = job.ask_all(&format!("op all_reduce {} 0", sizes.count))?;
        let times: Vec<f64> = answers.iter().map(|answer| answer.parse::<f64>()).collect::<Result<_, _>>()?;
        // The first one finds TCP cold.
        if round > 0 {
            times_s.push(times.into_iter().fold(0.0, f64::max) / 1e9);
        }
    }
    times_s.sort_by(f64::total_cmp);
    Ok(size_bytes(sizes) / times_s[times_s.len() / 2])
}

/// Bytes per second of an all-reduce that the links of so many NICs of each host allow.
fn predicted(sizes: &Sizes, nics: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few hosts and NICs")]
    let (n, nics) = (N_HOSTS as f64, nics as f64);
    let link = f64::from(sizes.rate_mbit) * 1e6 / 8.0 / WIRE_PER_PAYLOAD;
    nics * link / (2.0 * (n - 1.0) / n)
}

fn is_near(measured: f64, predicted: f64) -> bool {
    (measured / predicted - 1.0).abs() <= TOLERANCE
}

/// What the links allow, beside what was measured.
fn report_rate(report: &mut Report, words: &str, sizes: &Sizes, nics: usize, measured: f64) {
    let predicted = predicted(sizes, nics);
    let text = |rate: f64| format!("{:.2} MB/s", rate / 1e6);
    let what = format!("all-reduce algbw, {words} (within 10 %)");
    report.add("N2", what, text(predicted), text(measured), is_near(measured, predicted));
}

/// The culprit, its NIC and the victims.
fn findings(stage: &Stage, report: &mut Report) -> Result<()> {
    let culprit = host_name(CULPRIT);
    let named = |found: &[Value], kind: &str| {
        let firing = found.iter().filter(|one| one["finding"] == kind && one["state"] == "firing");
        firing.cloned().collect::<Vec<_>>()
    };
    let mut found = Vec::new();
    let _ = eventually("the culprit named", PATIENCE, || {
        found = stage.daemon.items("/api/v1/findings?limit=1000")?;
        let is_blamed = !named(&found, "channel_shortfall").is_empty();
        Ok((is_blamed && named(&found, "capped_by_peer").len() == N_HOSTS - 1).then_some(()))
    });
    let shortfalls = named(&found, "channel_shortfall");
    let blamed: Vec<&str> = shortfalls.iter().map(|one| text(&one["host"])).collect();
    report.equal("N2", "culprit", culprit.clone(), blamed.join("; "));
    let mut victims: Vec<String> = named(&found, "capped_by_peer")
        .iter()
        .map(|one| format!("{} by {}", text(&one["host"]), text(&one["culprits"][0])))
        .collect();
    victims.sort();
    let others = (0..N_HOSTS).filter(|host| *host != CULPRIT);
    let expected: Vec<String> = others.map(|host| format!("{} by {culprit}", host_name(host))).collect();
    report.equal("N2", "victims", expected.join("; "), victims.join("; "));
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn size_bytes(sizes: &Sizes) -> f64 {
    (sizes.count * ELEMENT_BYTES) as f64
}

const N_HOSTS: usize = 3;
/// The host whose NIC goes down, and which.
const CULPRIT: usize = 1;
const DOWN: usize = 1;
const TOLERANCE: f64 = 0.1;
