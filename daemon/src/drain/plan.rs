//! Which hosts are to be drained now, and why not the others. No I/O, and no clock.

use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::unseen::is_odd;
use ringscope_api::{Finding, FindingKind, FindingState, Incident, Severity};

use super::memory::Memory;

/// By which the operator has hosts drained.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// Kinds of finding that drain a host.
    pub(super) kinds: Vec<FindingKind>,
    /// At least so bad.
    pub(super) severity: Severity,
    /// Held so long without a break.
    pub(super) lasted: Duration,
    /// So many hosts ...
    pub(super) at_most: usize,
    /// ... within this time.
    pub(super) per: Duration,
}

/// What becomes of one host that is accused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Step {
    pub(super) host: String,
    pub(super) kind: FindingKind,
    /// On one line.
    pub(super) sentence: String,
    /// Since when it has held without a break.
    pub(super) since: Timestamp,
    pub(super) verdict: Verdict,
}

/// Whether a host is drained. The later of two is said where several findings accuse one host.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Verdict {
    /// All that accuses it is less bad than what drains.
    TooMild,
    /// No script is given such a name.
    NoName,
    /// It has not held for long enough.
    NotYet,
    /// The incident is silenced.
    Silenced,
    /// Somebody looks after the incident.
    LookedAfter(String),
    /// Enough were drained lately.
    Enough,
    /// It was drained at this time, and has been accused ever since.
    Already(Timestamp),
    /// It is.
    Drain,
}

/// What becomes of each host that is accused, in the order in which they have been for longest. The memory is brought up to
/// date: who is not accused any more is forgotten.
pub(super) fn plan(
    findings: &[Finding],
    incidents: &[Incident],
    rules: &Rules,
    memory: &mut Memory,
    now: Timestamp,
) -> Vec<Step> {
    let named = findings.iter().filter(|finding| rules.names(finding));
    let (accusing, mild): (Vec<&Finding>, Vec<&Finding>) =
        named.partition(|finding| finding.severity >= rules.severity);
    memory.observe(accusing.iter().copied(), now);
    let mut hosts: BTreeMap<&str, Step> = BTreeMap::new();
    for finding in accusing {
        let incident = incidents.iter().find(|incident| incident.id == finding.incident);
        let since = memory.since(finding, incident);
        for host in accused(finding) {
            let step = Step::of(host, finding, since, verdict(host, finding, incident, since, rules, memory));
            match hosts.get_mut(host) {
                Some(known) if (&step.verdict, known.since) <= (&known.verdict, step.since) => {}
                Some(known) => *known = step,
                None => drop(hosts.insert(host, step)),
            }
        }
    }
    memory.forget_but(|host| hosts.contains_key(host), now, rules.per);
    for finding in mild {
        for host in accused(finding) {
            let step = || Step::of(host, finding, finding.first_seen, Verdict::TooMild);
            hosts.entry(host).or_insert_with(step);
        }
    }
    let mut steps: Vec<Step> = hosts.into_values().collect();
    steps.sort_by(|a, b| (a.since, &a.host).cmp(&(b.since, &b.host)));
    let mut room = rules.at_most.saturating_sub(memory.tries_within(now, rules.per));
    for step in steps.iter_mut().filter(|step| step.verdict == Verdict::Drain) {
        match room.checked_sub(1) {
            Some(left) => room = left,
            None => step.verdict = Verdict::Enough,
        }
    }
    steps
}

impl Step {
    fn of(host: &str, finding: &Finding, since: Timestamp, verdict: Verdict) -> Self {
        let sentence = plain(&finding.message);
        Self { host: host.to_owned(), kind: finding.finding, sentence, since, verdict }
    }
}

impl Rules {
    /// Whether a finding is one of those that are told, however bad.
    fn names(&self, finding: &Finding) -> bool {
        self.kinds.contains(&finding.finding)
            && finding.severity > Severity::Info
            && finding.state == FindingState::Firing
            && !finding.imported
    }
}

/// Whom a finding accuses: those to blame where it names some, else its subject.
fn accused(finding: &Finding) -> Vec<&str> {
    match finding.culprits.as_slice() {
        [] => vec![finding.host.as_str()],
        culprits => culprits.iter().map(String::as_str).collect(),
    }
}

fn verdict(
    host: &str,
    finding: &Finding,
    incident: Option<&Incident>,
    since: Timestamp,
    rules: &Rules,
    memory: &Memory,
) -> Verdict {
    if !is_name(host) {
        return Verdict::NoName;
    }
    if let Some(at) = memory.drained_at(host) {
        return Verdict::Already(at);
    }
    if let Some(by) = incident.and_then(|incident| incident.acknowledged.as_ref()) {
        return Verdict::LookedAfter(by.by.clone());
    }
    // By the daemon's clock, as `last_seen` is.
    if incident.and_then(|incident| incident.silenced_until).is_some_and(|until| until > finding.last_seen) {
        return Verdict::Silenced;
    }
    // It has held as long as it was seen to, by one clock: a daemon that saw nothing lately says nothing new.
    if finding.last_seen.since(since) < rules.lasted { Verdict::NotYet } else { Verdict::Drain }
}

/// Whether it can be the name of a machine, and no script takes it for an option or a list.
fn is_name(host: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !host.is_empty() && host.len() <= MAX_NAME && !host.starts_with(['-', '.']) && host.chars().all(is_plain)
}

/// On one line, and no longer than schedulers take.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_odd(c) { ' ' } else { c }).take(MAX_SENTENCE).collect()
}

/// As long as a name of DNS.
const MAX_NAME: usize = 253;
const MAX_SENTENCE: usize = 512;

#[cfg(test)]
mod tests {
    use ringscope_api::Acknowledgement;
    use ringscope_samples::objects::incident;

    use super::*;

    const S: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(1_000_000 * S + seconds * S)
    }

    fn finding(id: &str, host: &str, first_seen: u64, last_seen: u64) -> Finding {
        let text = serde_json::json!({
            "id": id, "finding": "channel_shortfall", "severity": "critical", "state": "firing", "job": "train",
            "host": host, "comm": "c", "cause": "fewer_channels", "message": format!("{host} found 1 channel"),
            "incident": format!("i-{id}"), "first_seen": at(first_seen), "last_seen": at(last_seen),
        });
        serde_json::from_value(text).unwrap()
    }

    fn rules() -> Rules {
        let kinds = vec![FindingKind::ChannelShortfall];
        let (lasted, per) = (Duration::from_secs(600), Duration::from_secs(3600));
        Rules { kinds, severity: Severity::Critical, lasted, at_most: 1, per }
    }

    fn verdicts(findings: &[Finding], incidents: &[Incident], memory: &mut Memory, now: u64) -> String {
        let steps = plan(findings, incidents, &rules(), memory, at(now));
        let words = steps.iter().map(|step| format!("{} {:?}", step.host, step.verdict));
        words.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn only_what_accuses_a_host_and_has_held_for_long_enough_drains_it() {
        let check = |change: fn(&mut Finding), expected: &str| {
            let mut one = finding("a", "n1", 0, 600);
            change(&mut one);
            assert_eq!(verdicts(&[one], &[], &mut Memory::default(), 601), expected);
        };
        check(|_| {}, "n1 Drain");
        check(|one| one.last_seen = at(599), "n1 NotYet");
        check(|one| one.severity = Severity::Warning, "n1 TooMild");
        check(|one| one.severity = Severity::Info, "");
        check(|one| one.finding = FindingKind::CappedByPeer, "");
        check(|one| one.state = FindingState::Resolved, "");
        check(|one| one.imported = true, "");
        check(|one| one.culprits = vec!["n7".into(), "n8".into()], "n7 Drain, n8 Enough");
        check(|one| one.host = "--all".into(), "--all NoName");
        check(|one| one.host = "n1,n2".into(), "n1,n2 NoName");
        check(|one| one.host = "n[1-9]".into(), "n[1-9] NoName");
        check(|one| one.host = String::new(), " NoName");
    }

    #[test]
    fn who_is_looked_after_is_left_alone() {
        let one = finding("a", "n1", 0, 600);
        let mut looked = incident("i-a", "n1", Severity::Critical, "");
        looked.first_seen = at(0);
        let check = |incident: &Incident, expected: &str| {
            let found = verdicts(
                std::slice::from_ref(&one),
                std::slice::from_ref(incident),
                &mut Memory::default(),
                601,
            );
            assert_eq!(found, expected);
        };
        check(&looked, "n1 Drain");
        looked.silenced_until = Some(at(601));
        check(&looked, "n1 Silenced");
        looked.silenced_until = Some(at(600));
        check(&looked, "n1 Drain");
        looked.acknowledged = Some(Acknowledgement { by: "ann".into(), at: at(0) });
        check(&looked, "n1 LookedAfter(\"ann\")");
    }

    #[test]
    fn one_host_is_drained_once_and_few_within_an_hour() {
        let both = [finding("a", "n1", 0, 9000), finding("b", "n2", 1, 9000)];
        let mut memory = Memory::default();
        assert_eq!(verdicts(&both, &[], &mut memory, 601), "n1 Drain, n2 Enough");
        memory.note("n1", at(601));
        let drained = format!("n1 Already({:?}), n2 ", at(601));
        assert_eq!(verdicts(&both, &[], &mut memory, 700), drained.clone() + "Enough");
        assert_eq!(verdicts(&both, &[], &mut memory, 4202), drained + "Drain");
        assert_eq!(verdicts(&both[1..], &[], &mut memory, 4203), "n2 Drain", "n1 is well again");
        let again = [finding("a", "n1", 0, 4204), both[1].clone()];
        assert_eq!(verdicts(&again, &[], &mut memory, 4204), "n2 Drain, n1 NotYet", "and ill again");
    }

    #[test]
    fn a_script_that_failed_counts_and_its_host_is_tried_again() {
        let one = [finding("a", "n1", 0, 9000)];
        let mut memory = Memory::default();
        memory.note("n1", at(601));
        memory.note_failed("n1");
        assert_eq!(verdicts(&one, &[], &mut memory, 602), "n1 Enough");
        assert_eq!(verdicts(&one, &[], &mut memory, 4300), "n1 Drain");
    }

    #[test]
    fn what_came_back_has_not_held_since_it_first_came() {
        let mut memory = Memory::default();
        verdicts(&[], &[], &mut memory, 1000);
        let mut back = finding("a", "n1", 0, 1100);
        assert_eq!(verdicts(std::slice::from_ref(&back), &[], &mut memory, 1100), "n1 NotYet");
        back.last_seen = at(1600);
        assert_eq!(verdicts(std::slice::from_ref(&back), &[], &mut memory, 1600), "n1 Drain");
        let mut again = incident("i-a", "n1", Severity::Critical, "");
        again.first_seen = at(1500);
        let mut fresh = Memory::default();
        assert_eq!(verdicts(&[back], &[again], &mut fresh, 1600), "n1 NotYet", "as its incident says");
    }

    #[test]
    fn a_sentence_is_one_line_and_no_novel() {
        let mut one = finding("a", "n1", 0, 600);
        one.message = format!("n1: down\nWould drain n2\u{202e}{}", "x".repeat(10_000));
        let steps = plan(&[one], &[], &rules(), &mut Memory::default(), at(601));
        assert!(steps[0].sentence.starts_with("n1: down Would drain n2 xx"), "{}", steps[0].sentence);
        assert_eq!(steps[0].sentence.len(), MAX_SENTENCE);
    }

    #[test]
    fn a_warning_is_told_and_nothing_else_comes_of_it() {
        let mut memory = Memory::default();
        let mut one = finding("a", "n1", 0, 9000);
        one.severity = Severity::Warning;
        memory.note("n1", at(601));
        assert_eq!(verdicts(std::slice::from_ref(&one), &[], &mut memory, 9000), "n1 TooMild");
        assert_eq!(memory.drained_at("n1"), None, "a host that no critical finding accuses is well");
        (one.severity, one.last_seen) = (Severity::Critical, at(9001));
        assert_eq!(verdicts(&[one], &[], &mut memory, 9001), "n1 NotYet", "it was no more until now");
    }

    #[test]
    fn of_several_findings_the_one_that_drains_is_told() {
        let all = [finding("a", "n1", 590, 600), finding("b", "n1", 0, 600), finding("c", "n1", 595, 600)];
        let steps = plan(&all, &[], &rules(), &mut Memory::default(), at(601));
        assert_eq!(steps.len(), 1);
        assert_eq!((&steps[0].verdict, steps[0].since), (&Verdict::Drain, at(0)));
    }
}
