//! Tensors as remote memory between the guests: a model that learns to read digits has the same bits over verbs and over TCP, and random
//! tensors come whole, also where the cable loses, delays and reorders packets.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::programs::{self, LIMIT};
use crate::process::{cargo, root, run as run_command, say, target_dir};
use crate::rdma::image::Extras;
use crate::rdma::network::Link;
use crate::rdma::pair::{Guest, Pair};
use crate::rig::report::Report;
use crate::tools;

const STAGE: &str = "tensors";
const PORT: u16 = 18640;
const STEPS: u32 = 20;
/// One in so many of the 30 000 transfers.
const SHARE: u32 = 10;
/// Of what the guests send on the cable for RDMA, while random tensors travel.
const WEATHER: &str = "loss 2% delay 1ms reorder 20%";
/// What was lost last is sent again after 67 ms, for ever: soft RoCE counts each packet that is missed until a request is through.
const PATIENT: &str = "RTENSOR_IB_TIMEOUT=14 RTENSOR_IB_RETRIES=7";
/// For all of them.
const ALL_LIMIT: Duration = Duration::from_secs(1500);
const PROGRAMS: [&str; 3] = ["bench_machines", "digits", "transfers"];

/// The examples, with verbs, and optimized: processor time is compared.
pub(super) fn prepare() -> Result<Extras> {
    tools::ensure_libclang()?;
    let mut build =
        cargo(["build", "--release", "-p", "ringscope-tensors", "--features", "verbs", "--locked"]);
    run_command(build.args(PROGRAMS.iter().flat_map(|name| ["--example", name])))?;
    Ok(Extras::default())
}

pub(super) fn run(pair: &Pair, report: &mut Report) -> Result<()> {
    for name in PROGRAMS {
        pair.guest(1).put(&target_dir().join("release/examples").join(name))?;
    }
    pair.guest(1).put(&root().join("fixtures/digits/digits.csv.gz"))?;
    let caller = format!("--caller {}:{PORT}", Link::Tcp.address(2));
    let learn = |device: &str| {
        let options = format!("--device {device} --steps {STEPS} --data /share/digits.csv.gz {caller}");
        let told = both(pair, &format!("/share/digits {options}"), LIMIT)?;
        let line = told[0].lines().find(|line| line.contains("parameters"));
        let print = line.and_then(|line| line.split_whitespace().find(is_print));
        print.map(str::to_owned).with_context(|| format!("no fingerprint of the parameters: {}", told[0]))
    };
    let (tcp, grpc, verbs) = (learn("tcp")?, learn("grpc")?, learn("verbs")?);
    report.equal(STAGE, format!("parameters after {STEPS} steps over TCP, and over gRPC"), &*tcp, &*grpc);
    report.equal(STAGE, "parameters over TCP, and over verbs", &*tcp, &*verbs);
    processor(pair, report, &caller)?;
    transfers(pair, report, SHARE)
}

/// All of the random tensors.
pub(super) fn all_transfers(pair: &Pair, report: &mut Report) -> Result<()> {
    pair.guest(1).put(&target_dir().join("release/examples/transfers"))?;
    transfers(pair, report, 1)
}

/// One in so many of the random tensors, on a bad cable.
fn transfers(pair: &Pair, report: &mut Report, share: u32) -> Result<()> {
    for guest in pair.guests() {
        guest.set_netem(Link::Rdma, WEATHER)?;
    }
    let moved = both(pair, &format!("{PATIENT} /share/transfers --device verbs --share {share}"), ALL_LIMIT);
    for guest in pair.guests() {
        guest.clear_netem(Link::Rdma)?;
    }
    let told = moved?;
    told.iter().flat_map(|told| told.lines()).for_each(say);
    let whole = told.iter().flat_map(|told| told.lines()).filter(|line| line.contains("were whole")).count();
    report.equal(STAGE, format!("kinds of random tensors that came whole at both ends, {WEATHER}"), 6, whole);
    Ok(())
}

/// What both machines spend in user space on a KiB: over verbs less than over TCP, and than a third of gRPC's.
fn processor(pair: &Pair, report: &mut Report, caller: &str) -> Result<()> {
    let told = both(pair, &format!("/share/bench_machines {caller}"), LIMIT)?;
    let of = |way: &str| -> Result<f64> {
        let lines = told.iter().flat_map(|told| told.lines());
        let times = lines.filter_map(|line| {
            line.strip_prefix(way)?.strip_prefix(": ")?.split(' ').next()?.parse::<f64>().ok()
        });
        let times: Vec<f64> = times.collect();
        ensure!(times.len() == 2, "{way}: not told by both machines: {told:?}");
        Ok(times.iter().sum())
    };
    let (verbs, tcp, grpc) = (of("verbs")?, of("tcp")?, of("grpc")?);
    let measured = format!("{verbs:.0} ns a KiB");
    report.add(
        STAGE,
        "processor time in user space, verbs and TCP",
        format!("< {tcp:.0}"),
        &measured,
        verbs < tcp,
    );
    let third = grpc / 3.0;
    report.add(STAGE, "verbs and a third of gRPC", format!("< {third:.0}"), &measured, verbs < third);
    Ok(())
}

fn is_print(word: &&str) -> bool {
    word.len() >= 16 && word.chars().all(|letter| letter.is_ascii_hexdigit())
}

/// What machine 0, in guest 1, and machine 1 say.
fn both(pair: &Pair, command: &str, limit: Duration) -> Result<[String; 2]> {
    let of = |guest: &Guest| {
        let (known, machine) = (programs::settings(guest), guest.number() - 1);
        format!("{known} exec env {command} --machine {machine} --address {}:{PORT}", Link::Tcp.address(1))
    };
    let [one, two] = pair.guests();
    let mut first = one.spawn(&of(one))?;
    one.wait_for_listener(PORT)?;
    let second = two.run(&of(two), limit)?;
    let first = first.wait(limit)?;
    for told in [&first, &second] {
        ensure!(
            told.code == 0,
            "{command}: exit status {}: {} {}",
            told.code,
            told.text(),
            told.complaints()
        );
    }
    Ok([first.text(), second.text()])
}
