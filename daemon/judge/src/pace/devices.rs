//! Whether a rank's GPU says why it is slow: it is throttled, or slower than those of the other ranks while it works, or it counts
//! memory errors. A GPU that has nothing to do lowers its clock, so that of an idle one says nothing. Pure.

use ringscope_api::FindingKind;
use ringscope_api::clock::Timestamp;
use ringscope_api::xid::{Ends, ends};
use ringscope_model::limits::TROUBLE_WINDOW;
use ringscope_model::{Gpu, KernelMessage, Model, Name, Process};

use super::scene::Scene;
use super::slow::{How, Slow};

/// GPUs of a job's ranks.
pub(super) struct Devices<'m> {
    model: &'m Model,
    /// Of those that work: model and clock in MHz.
    at_work: Vec<(&'m Name, u32)>,
}

impl<'m> Devices<'m> {
    /// Those of whom the job's pace is known.
    pub(super) fn of(model: &'m Model, scene: &Scene<'m>) -> Self {
        let gpus = scene.classes.iter().flatten().filter_map(|rank| gpu(model, rank.process));
        let clock = |gpu: &'m Gpu| Some((&gpu.name, gpu.clock_mhz.filter(|_| is_at_work(gpu))?));
        Self { model, at_work: gpus.filter_map(clock).collect() }
    }

    /// Puts a slow rank down to its GPU, where that says why.
    pub(super) fn explain(&self, slow: &mut Slow, now: Timestamp) {
        // What a rank does every so many steps is the program's; what it was given more of, too. Who is stopped needs no other reason.
        let may_be = slow.kind == FindingKind::ComputeStraggler
            && !matches!(slow.how, How::Periodic { .. })
            && slow.stopped.is_none();
        let Some(process) = self.model.process(&slow.process).filter(|_| may_be) else { return };
        let Some(gpu) = gpu(self.model, process) else { return };
        let said = process.identity().and_then(|identity| self.said(&identity.host, gpu, now));
        let why: Vec<String> = self.why(gpu, now).into_iter().chain(said).collect();
        if !why.is_empty() {
            let why = why.join("; ");
            slow.kind = FindingKind::SlowDevice;
            slow.device = Some(format!("GPU {} ({}) {why}", gpu.index, gpu.pci));
        }
    }

    /// What the kernel of its host said of it lately.
    fn said(&self, host: &Name, gpu: &Gpu, now: Timestamp) -> Option<String> {
        let mut messages = self.model.kernel(host)?.messages().rev();
        let is_of_it = |message: &&KernelMessage| {
            // What a program's own mistake brings about leaves the GPU well.
            message.told.xid.is_some_and(|xid| ends(xid) != Ends::Program)
                && *message.told.pci == *gpu.pci
                && now.since(message.heard) < TROUBLE_WINDOW
        };
        let told = &messages.find(is_of_it)?.told;
        Some(format!(
            "the kernel says of it: {}",
            if told.meaning.is_empty() { &told.text } else { &told.meaning }
        ))
    }

    fn why(&self, gpu: &Gpu, now: Timestamp) -> Vec<String> {
        let mut why: Vec<String> = Vec::new();
        let usual = self.usual_clock(gpu);
        let clocks = gpu.clock_mhz.filter(|_| is_at_work(gpu)).zip(usual);
        let is_slower = clocks.is_some_and(|(own, usual)| f64::from(own) <= SLOWER * f64::from(usual));
        let reasons = reasons(gpu.throttle_reasons.unwrap_or(0), is_slower);
        // What holds back all alike makes none of them late.
        if is_slower || !reasons.is_empty() && clocks.is_none() {
            let temperature =
                gpu.temperature_c.map(|degrees| format!(" at {degrees} °C")).unwrap_or_default();
            why.push(match reasons.as_slice() {
                [] => format!("runs slower than the others{temperature}"),
                reasons => format!("is throttled{temperature} ({})", reasons.join(", ")),
            });
            why.extend(
                clocks.map(|(own, usual)| format!("its clock is {own} MHz, that of the others {usual} MHz")),
            );
        }
        let is_of_late = gpu.uncorrected_rose.is_some_and(|at| now.since(at) < TROUBLE_WINDOW);
        if let Some(errors) = gpu.uncorrected_risen.filter(|errors| *errors > 0 && is_of_late) {
            let errors =
                ringscope_api::words::plural(usize::try_from(errors).unwrap_or(usize::MAX), "memory error");
            why.push(format!("has counted {errors} that could not be corrected"));
        }
        why
    }

    /// The clock that half of those of its model do not exceed, itself among them.
    fn usual_clock(&self, gpu: &Gpu) -> Option<u32> {
        let mut clocks: Vec<u32> =
            self.at_work.iter().filter(|(name, _)| **name == gpu.name).map(|(_, clock)| *clock).collect();
        clocks.sort_unstable();
        clocks.get(clocks.len() / 2).copied().filter(|_| clocks.len() > 1)
    }
}

/// The GPU that a process uses in its communicators.
fn gpu<'m>(model: &'m Model, process: &Process) -> Option<&'m Gpu> {
    let pci = process.ranks().map(|rank| &rank.facts.gpu).find(|pci| !pci.is_empty())?;
    let hardware = model.hardware_of(&process.identity()?.host)?;
    hardware.gpus.as_ref()?.iter().find(|gpu| gpu.pci == *pci)
}

fn is_at_work(gpu: &Gpu) -> bool {
    let is_idle = gpu.throttle_reasons.is_some_and(|reasons| reasons & IDLE != 0);
    !is_idle && gpu.utilization_percent.is_none_or(|percent| percent >= AT_WORK_PERCENT)
}

/// Why it is held back, in words. Limits that healthy GPUs reach too count where its clock is lower than theirs.
fn reasons(reasons: u64, is_slower: bool) -> Vec<&'static str> {
    let is_so = |(bits, _, is_usual): &&(u64, &str, bool)| reasons & bits != 0 && (is_slower || !is_usual);
    REASONS.iter().filter(is_so).map(|(_, words, _)| *words).collect()
}

/// nvml.h, `nvmlClocksEventReasons`: nothing runs on it.
const IDLE: u64 = 0x1;
/// The others there, and whether healthy GPUs have them too.
const REASONS: [(u64, &str, bool); 7] = [
    (0x20, "too hot: its driver slows it", false),
    (0x40, "too hot: it slows itself", false),
    (0x80, "its power supply slows it", false),
    (0x8, "its hardware slows it", false),
    (0x4, "at its power limit", true),
    (0x2, "its clocks are set lower", true),
    (0x10, "in step with a slower one of its group", true),
];
/// A clock that is lower than this share of the others' is.
const SLOWER: f64 = 0.9;
/// Below, its clock is not that of work.
const AT_WORK_PERCENT: u32 = 20;
