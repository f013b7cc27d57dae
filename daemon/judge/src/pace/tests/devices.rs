//! Slow ranks and what their GPUs say.

use ringscope_api::{Finding, FindingKind};
use ringscope_samples::cluster::hardware;
use ringscope_wire::batch::{Gpu, HostHardware};

use super::{FOUR, Stage};

/// Clock, reasons, utilization, memory errors of a rank's GPU at a second.
type State = (u32, u64, u32, u64);

const WELL: State = (1980, 0, 95, 0);

/// What the agents of both hosts read.
fn gpus(s: u64, state: &dyn Fn(u32) -> State) -> Vec<HostHardware> {
    let gpu = |rank: u32| {
        let (clock_mhz, throttle_reasons, percent, errors) = state(rank);
        Gpu {
            index: rank % 2,
            name: "NVIDIA H100".to_owned(),
            pci: format!("0000:{rank:02x}:00.0"),
            clock_mhz: Some(clock_mhz),
            throttle_reasons: Some(throttle_reasons),
            utilization_percent: Some(percent),
            temperature_c: Some(91),
            uncorrected_errors: Some(errors),
            ..Gpu::default()
        }
    };
    let host = |(host, ranks): (&str, [u32; 2])| HostHardware {
        gpus: ranks.map(gpu).to_vec(),
        gpus_known: true,
        ..hardware(host, s, Vec::new())
    };
    [("a", [0, 1]), ("b", [2, 3])].map(host).to_vec()
}

/// What is found of rank 2, which is slow from the twentieth second on, where its GPU and those of the others say this.
fn found(its: impl Fn(u64) -> State + 'static, others: State) -> Finding {
    let mut stage = Stage::new(&FOUR, |rank, step| 40 + if rank == 2 && step >= 400 { 20 } else { 0 });
    stage.hardware = Box::new(move |s| gpus(s, &|rank| if rank == 2 { its(s) } else { others }));
    stage.is_calm_for(19);
    let (_, finding) = stage.first(40).unwrap();
    assert_eq!(finding.rank, Some(2));
    finding
}

#[track_caller]
fn is_device(finding: &Finding, words: &str) {
    assert_eq!(
        (finding.finding, &*finding.cause),
        (FindingKind::SlowDevice, "device"),
        "{}",
        finding.message
    );
    assert!(finding.message.contains(words), "{}", finding.message);
    assert_eq!(finding.accused.len(), 1);
    assert!(finding.accused[0].doing.starts_with("GPU 0 (0000:02:00.0) "), "{}", finding.accused[0].doing);
}

#[test]
fn a_gpu_that_is_throttled_is_why_its_rank_is_slow() {
    let found = found(|s| if s < 20 { WELL } else { (1200, 0x20, 95, 0) }, WELL);
    is_device(
        &found,
        "; its GPU 0 (0000:02:00.0) is throttled at 91 °C (too hot: its driver slows it); its clock is 1200 MHz, that of the \
         others 1980 MHz; ",
    );
}

#[test]
fn a_gpu_that_is_slower_than_the_others_at_work_is_why() {
    is_device(
        &found(|_| (1400, 0, 95, 0), WELL),
        "runs slower than the others at 91 °C; its clock is 1400 MHz",
    );
    is_device(&found(|_| (1400, 0x4, 95, 0), WELL), "is throttled at 91 °C (at its power limit)");
}

#[test]
fn memory_errors_that_it_begins_to_count_are_why() {
    let with = |errors| (1980, 0, 95, errors);
    is_device(
        &found(move |s| with(if s < 20 { 7 } else { 9 }), WELL),
        "has counted 2 memory errors that could not be corrected",
    );
    assert_eq!(found(move |_| with(7), WELL).finding, FindingKind::ComputeStraggler, "it had them before");
}

#[test]
fn a_gpu_that_is_like_the_others_or_idle_explains_nothing() {
    let is_program = |its: State, others: State| {
        let found = found(move |_| its, others);
        assert_eq!(found.finding, FindingKind::ComputeStraggler, "{}", found.message);
    };
    is_program(WELL, WELL);
    // Idle, in a low clock: its rank waits for data.
    is_program((345, 0x1, 0, 0), WELL);
    is_program((345, 0, 3, 0), WELL);
    // All are at their limits alike.
    is_program((1900, 0x4, 95, 0), (1900, 0x4, 95, 0));
    is_program((1300, 0x20, 95, 0), (1300, 0x20, 95, 0));
}

#[test]
fn gpus_accuse_nobody_whose_rank_is_not_slow() {
    let mut stage = Stage::new(&FOUR, |_, _| 40);
    stage.hardware = Box::new(|s| gpus(s, &|rank| if rank == 2 { (345, 0x1, 0, 0) } else { WELL }));
    stage.is_calm_for(60);
}
