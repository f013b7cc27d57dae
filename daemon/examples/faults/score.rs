//! What was said of each trial, and what that comes to.

use std::collections::BTreeMap;

use ringscope_api::FindingKind::{OtherWork, Slowdown, TooSmall};
use ringscope_api::{Finding, FindingKind, Incident, Severity};
use serde::Serialize;

use crate::pace::{self, Pace};

/// One fault, or healthy twin, at one moment, and what was said of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Trial {
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) ranks: u32,
    /// Kinds of which one must be said. Empty: a healthy twin.
    pub(crate) expected: Vec<FindingKind>,
    /// Global ranks of which one must be accused, and nobody else. Empty: nobody in particular.
    pub(crate) culprits: Vec<u32>,
    /// The host of all of them, which may be accused instead. Empty: none.
    pub(crate) host: String,
    /// Seconds from the fault until anything was said of the right rank, and until that was a warning or worse.
    pub(crate) detected_s: Option<f64>,
    pub(crate) named_s: Option<f64>,
    /// Something was said of a slow job before anybody was slow.
    pub(crate) is_too_early: bool,
    /// Every incident that was told of, each once.
    pub(crate) said: Vec<Said>,
    /// What the ranks' own errors said, each once.
    pub(crate) errors: Vec<String>,
    /// Of slow jobs, and of those that look like it.
    pub(crate) pace: Option<Pace>,
}

/// An incident, cut to what is judged here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Said {
    pub(crate) finding: FindingKind,
    pub(crate) severity: Severity,
    pub(crate) accused: Vec<Option<u32>>,
    pub(crate) host: String,
    pub(crate) sentence: String,
}

impl Trial {
    pub(crate) fn new(name: &str, seed: u64, ranks: u32, expected: &[FindingKind], culprits: &[u32]) -> Self {
        Self {
            name: name.to_owned(),
            seed,
            ranks,
            expected: expected.to_vec(),
            culprits: culprits.to_vec(),
            host: String::new(),
            detected_s: None,
            named_s: None,
            is_too_early: false,
            said: Vec::new(),
            errors: Vec::new(),
            pace: None,
        }
    }

    pub(crate) fn is_twin(&self) -> bool {
        self.expected.is_empty()
    }

    /// Takes what fires `after_s` seconds after the fault, and what people are told of it. `None`: it has not happened yet.
    pub(crate) fn hear(&mut self, firing: &[Finding], incidents: &[Incident], after_s: Option<f64>) {
        let is_early = after_s.is_none() && self.pace.is_some();
        let after_s = after_s.unwrap_or_default();
        let accuses = |finding: &Finding| {
            let mut accused = finding.accused.iter().filter_map(|culprit| culprit.global_rank);
            !finding.accused.is_empty()
                && (self.culprits.is_empty() || accused.any(|rank| self.culprits.contains(&rank)))
        };
        // Information makes no incident.
        let is_information = |finding: &&Finding| {
            let is_of_it = finding.rank.is_some_and(|rank| self.culprits.contains(&rank));
            finding.severity == Severity::Info
                && self.expected.contains(&finding.finding)
                && (self.culprits.is_empty() || is_of_it)
        };
        if firing.iter().any(|finding| is_information(&finding)) {
            self.detected_s.get_or_insert(after_s);
            self.named_s.get_or_insert(after_s);
        }
        if firing.iter().any(accuses) {
            self.detected_s.get_or_insert(after_s);
        }
        let is_it = |finding: &&Finding| {
            let is_host = !self.host.is_empty() && finding.host == self.host;
            self.expected.contains(&finding.finding) && (accuses(finding) || is_host)
                || is_information(finding)
        };
        let costs = firing.iter().filter(is_it).filter_map(|finding| finding.cost);
        let cost = costs.max_by(|one, other| one.seconds_per_step.total_cmp(&other.seconds_per_step));
        if let Some(pace) = &mut self.pace {
            pace.said = cost.or(pace.said);
        }
        for finding in firing.iter().filter(|finding| finding.finding.is_about_pace()) {
            let is_known = |said: &Said| said.finding == finding.finding;
            if finding.severity == Severity::Info && !self.said.iter().any(is_known) {
                self.said.push(Said {
                    finding: finding.finding,
                    severity: finding.severity,
                    accused: Vec::new(),
                    host: finding.host.clone(),
                    sentence: finding.message.clone(),
                });
            }
        }
        for incident in incidents.iter().filter(|incident| is_judged(incident.finding)) {
            let said = Said {
                finding: incident.finding,
                severity: incident.severity,
                accused: incident.culprits.iter().map(|culprit| culprit.global_rank).collect(),
                host: incident.host.clone(),
                sentence: incident.sentence.clone(),
            };
            self.is_too_early |= is_early;
            if !is_early && self.accuses(&said) && self.expected.contains(&said.finding) {
                self.named_s.get_or_insert(after_s);
            }
            if !self.said.iter().any(|known| known.finding == said.finding && known.accused == said.accused) {
                self.said.push(said);
            }
        }
    }

    fn accuses(&self, said: &Said) -> bool {
        if self.culprits.is_empty() {
            return true;
        }
        let mut accused = said.accused.iter().flatten().peekable();
        if accused.peek().is_none() && !self.host.is_empty() {
            return said.host == self.host;
        }
        accused.any(|accused| self.culprits.contains(accused))
    }

    /// Whether somebody innocent was accused.
    pub(crate) fn is_unjust(&self) -> bool {
        if self.is_twin() {
            // On a busy machine a job is slower than it was, and nobody is accused of that.
            let is_true = |kind| kind == Slowdown || kind == OtherWork && self.name == BY_DESIGN;
            return self.said.iter().any(|said| self.pace.is_none() || !is_true(said.finding));
        }
        let is_of_way =
            |kind| matches!(kind, FindingKind::SlowLink | FindingKind::SlowNic | FindingKind::Congestion);
        // Where information is all that is to be said nobody is to be accused.
        let is_harmless = self.expected.iter().all(|kind| matches!(kind, OtherWork | TooSmall));
        let innocent = |said: &Said| {
            is_harmless && said.severity != Severity::Info && said.finding != Slowdown ||
            // No link of these jobs is slow.
            self.pace.is_some() && is_of_way(said.finding)
                || said.accused.iter().flatten().any(|accused| !self.culprits.contains(accused))
        };
        self.is_too_early || (is_harmless || !self.culprits.is_empty()) && self.said.iter().any(innocent)
    }
}

/// The twin whose stages of a pipeline differ by design: other work.
const BY_DESIGN: &str = "unequal_stages";

/// What is about channels and coverage is not what is tried here.
fn is_judged(kind: FindingKind) -> bool {
    !matches!(
        kind,
        FindingKind::PartlySeen
            | FindingKind::InitBelowHalfFinal
            | FindingKind::FinalUnexplained
            | FindingKind::CappedByPeer
    )
}

/// Prints the tables; false if something was missed or unjust, or nothing was tried, or what was said of slowness was late or wrong.
pub(crate) fn print(trials: &[Trial]) -> bool {
    let (slow, hangs): (Vec<&Trial>, Vec<&Trial>) = trials.iter().partition(|trial| trial.pace.is_some());
    if !hangs.is_empty() {
        print_hangs(&hangs);
    }
    let is_paced = slow.is_empty() || pace::print(&slow);
    sum_up(trials) && is_paced
}

fn print_hangs(trials: &[&Trial]) {
    let mut rows: BTreeMap<(bool, &str), Vec<&Trial>> = BTreeMap::new();
    for trial in trials {
        rows.entry((trial.is_twin(), &trial.name)).or_default().push(trial);
    }
    println!(
        "| fault | trials | named | accused innocents | seconds to say, median | to name, median (max) | said | the ranks' \
         own errors |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for ((is_twin, name), trials) in &rows {
        let named = trials.iter().filter(|trial| trial.named_s.is_some()).count();
        let unjust = trials.iter().filter(|trial| trial.is_unjust()).count();
        let twin = if *is_twin { " (healthy)" } else { "" };
        let named = if *is_twin { "-".to_owned() } else { named.to_string() };
        println!(
            "| {name}{twin} | {} | {named} | {unjust} | {} | {} | {} | {} |",
            trials.len(),
            median(trials.iter().filter_map(|trial| trial.detected_s).collect()).0,
            {
                let (median, max) = median(trials.iter().filter_map(|trial| trial.named_s).collect());
                if max.is_empty() { median } else { format!("{median} ({max})") }
            },
            kinds(trials),
            errors(trials)
        );
    }
    println!();
}

fn sum_up(trials: &[Trial]) -> bool {
    let faults = || trials.iter().filter(|trial| !trial.is_twin());
    let named = faults().filter(|trial| trial.named_s.is_some()).count();
    let unjust = trials.iter().filter(|trial| trial.is_unjust()).count();
    let just = faults().filter(|trial| trial.named_s.is_some() && !trial.is_unjust()).count();
    println!(
        "{} faults, {} healthy twins: recall {}, precision {}, culprit right {}",
        faults().count(),
        trials.iter().filter(|trial| trial.is_twin()).count(),
        share(named, faults().count()),
        share(just, just + unjust),
        share(just, named),
    );
    for trial in trials {
        let missed = !trial.is_twin() && trial.named_s.is_none();
        if missed || trial.is_unjust() {
            println!("{} seed {}: {}", trial.name, trial.seed, if missed { "not named" } else { "unjust" });
            trial.said.iter().for_each(|said| println!("  {:?} {}", said.severity, said.sentence));
        }
    }
    named == faults().count() && unjust == 0 && !trials.is_empty()
}

/// A share of nothing is none.
pub(crate) fn share(part: usize, whole: usize) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.3}", part as f64 / whole as f64) }
}

pub(crate) fn kinds(trials: &[&Trial]) -> String {
    let mut kinds: Vec<&str> =
        trials.iter().flat_map(|trial| trial.said.iter().map(|said| said.finding.label())).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.join(", ")
}

/// What the ranks' own errors said, each once.
fn errors(trials: &[&Trial]) -> String {
    let mut errors: Vec<&str> =
        trials.iter().flat_map(|trial| trial.errors.iter().map(String::as_str)).collect();
    errors.sort_unstable();
    errors.dedup();
    if errors.is_empty() { "none".to_owned() } else { errors.join("; ") }
}

/// Median and maximum; empty texts of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> (String, String) {
    values.sort_by(f64::total_cmp);
    match (values.get(values.len() / 2), values.last()) {
        (Some(median), Some(max)) => (format!("{median:.1}"), format!("{max:.1}")),
        _ => ("-".to_owned(), String::new()),
    }
}
