//! What was found of a job and is not found again because those who waited are not heard, or have given up: it has not
//! ended, as far as anybody knows. Of those who are not heard only for a while: after that it is the hosts that are lost,
//! and nothing else is known.

use std::collections::HashSet;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Detail, Finding, Severity};
use ringscope_model::{Name, Process};

use super::culprits_gone::Gone;
use super::gave_up::GaveUp;
use super::scene::Taken;
use crate::HOST_GONE_AFTER;
use crate::hangs::Settings;
use crate::hangs::scene::{Life, Process as Told};
use crate::judgement::Judgement;

/// Of one job what was told last, with who waited.
#[derive(Default)]
pub(super) struct Kept {
    last: Vec<Last>,
    restored: Vec<Restored>,
}

struct Last {
    judgement: Judgement,
    /// Those who waited, with those of them who have given up since.
    witnesses: HashSet<Name>,
    /// Some of what comes first from an agent that is back is old.
    until: Timestamp,
}

/// A finding that fired when the daemon before this one ended.
struct Restored {
    id: String,
    comm: String,
    host: String,
    /// Host and pid.
    accused: Vec<(String, u32)>,
    /// Absent before the first look.
    until: Option<Timestamp>,
}

impl Kept {
    /// Takes a finding that the store kept and that fires.
    pub(super) fn restore(&mut self, finding: &Finding) {
        let accused = finding.accused.iter().filter_map(|one| Some((one.host.clone(), one.pid?)));
        self.restored.push(Restored {
            id: finding.id.clone(),
            comm: finding.comm.clone(),
            host: finding.host.clone(),
            accused: accused.collect(),
            until: None,
        });
    }

    /// Ids of findings of the daemon before this one of which nobody knows whether they have ended: their witnesses are not
    /// heard, or not for long enough to be judged.
    pub(super) fn held(&mut self, taken: &Taken<'_>, settings: &Settings) -> Vec<String> {
        let now = taken.scene.now;
        self.restored.retain_mut(|one| {
            let is_silent = silent_since(|process| one.is_witness(process, taken), taken, settings).is_some();
            let until = one.until.filter(|_| !is_silent).unwrap_or_else(|| settled(now));
            one.until = Some(until);
            now < until
        });
        self.restored.iter().map(|one| one.id.clone()).collect()
    }

    /// Adds to what was found now what was found before and whose witnesses are not heard, or have given up.
    pub(super) fn add(
        &mut self,
        found: &mut Vec<Judgement>,
        witnesses: Vec<HashSet<Name>>,
        taken: &Taken<'_>,
        settings: &Settings,
    ) {
        let now = taken.scene.now;
        let before = std::mem::take(&mut self.last);
        let known = found.iter().zip(witnesses).filter(|(judgement, witnesses)| {
            judgement.severity >= Severity::Warning && !witnesses.is_empty()
        });
        self.last = known
            .map(|(judgement, witnesses)| Last { judgement: judgement.clone(), witnesses, until: now })
            .collect();
        for mut last in before {
            let is_again = found.iter().any(|one| is_same(one, &last.judgement));
            let gave_up = GaveUp::of(&last.judgement, &last.witnesses, taken);
            let gave_up = gave_up.filter(|gave_up| is_again || gave_up.matters(taken));
            if let Some(gave_up) = &gave_up {
                leave_out(found, |judgement| gave_up.explains(judgement));
                self.last.retain(|last| !gave_up.explains(&last.judgement));
            }
            if let Some(again) = found.iter_mut().find(|one| is_same(one, &last.judgement)) {
                let Some(gave_up) = &gave_up else { continue };
                gave_up.tell(again);
                // It is remembered as it was when all waited.
                if let Some(of_it) = self.last.iter_mut().find(|one| is_same(&one.judgement, &last.judgement))
                {
                    (of_it.judgement, of_it.witnesses) = (last.judgement, last.witnesses);
                }
                continue;
            }
            // It stands alone: what it followed from may be gone.
            last.judgement.blame.follows_from = None;
            let mut told = last.judgement.clone();
            match &gave_up {
                Some(gave_up) => gave_up.tell(&mut told),
                None if last.is_open(&mut told, taken, settings) => {}
                None => continue,
            }
            match Gone::of(&told, taken) {
                // Those who gave up because of it are still no culprits.
                Some(gone) if !gone.matters(now) => {}
                Some(gone) => found.push(gone.tell(told)),
                None => found.push(told),
            }
            self.last.push(last);
        }
    }
}

impl Last {
    /// Whether nobody knows that it has ended: its witnesses are not heard, or not for long enough to be judged.
    fn is_open(&mut self, told: &mut Judgement, taken: &Taken<'_>, settings: &Settings) -> bool {
        let is_witness = |process: &Process| self.witnesses.contains(process.name());
        let now = taken.scene.now;
        let Some(heard) = silent_since(is_witness, taken, settings) else { return now < self.until };
        self.until = settled(now);
        told.blame.details.push(Detail {
            title: TITLE.to_owned(),
            lines: vec![format!(
                "Those who wait are not heard since {}: that they do not wait any more is not known.",
                ringscope_api::words::clock(heard)
            )],
        });
        true
    }
}

/// Takes out of what was found what follows from something else.
fn leave_out(found: &mut Vec<Judgement>, is_out: impl Fn(&Judgement) -> bool) {
    let stays: Vec<bool> = found.iter().map(|judgement| !is_out(judgement)).collect();
    let place = |at: usize| stays[..at].iter().filter(|stays| **stays).count();
    for judgement in found.iter_mut() {
        let from = judgement.blame.follows_from;
        judgement.blame.follows_from = from.filter(|at| stays[*at]).map(place);
    }
    let mut stays = stays.iter();
    found.retain(|_| stays.next().copied().unwrap_or(true));
}

impl Restored {
    /// Whether a process would know that it has ended: one that is in its communicator and is not to blame, or where it is
    /// about none one that is to blame.
    fn is_witness(&self, process: &Process, taken: &Taken<'_>) -> bool {
        let Some(identity) = process.identity() else { return false };
        let is_accused =
            self.accused.iter().any(|(host, pid)| **host == *identity.host && *pid == identity.pid);
        if self.comm.is_empty() {
            return is_accused || self.accused.is_empty() && *self.host == *identity.host;
        }
        let known = taken.communicators.iter().find(|known| known.id_str() == self.comm);
        let mut ids = process.locals().filter_map(|(_, local)| local.communicator());
        !is_accused && known.is_some_and(|known| ids.any(|id| id == known.id()))
    }
}

fn is_same(one: &Judgement, other: &Judgement) -> bool {
    one.kind == other.kind && one.blame.key == other.blame.key && one.blame.comm == other.blame.comm
}

/// When the last of the witnesses was heard, where all who live are not heard any more, though not for too long, and the job
/// was not started again since.
fn silent_since(
    is_witness: impl Fn(&Process) -> bool,
    taken: &Taken<'_>,
    settings: &Settings,
) -> Option<Timestamp> {
    let processes = || taken.processes.iter().zip(&taken.scene.processes);
    let living = processes().filter(|(process, told)| told.life == Life::Running && is_witness(process));
    let newest = living.map(|(_, told)| told.heard_at).max()?;
    let silent = taken.scene.now.since(newest);
    let is_new = |told: &Told<'_>| told.life == Life::Running && told.ours(told.started_at) > newest;
    let is_unknown = silent > settings.unheard_after && silent < HOST_GONE_AFTER;
    (is_unknown && !processes().any(|(_, told)| is_new(told))).then_some(newest)
}

fn settled(now: Timestamp) -> Timestamp {
    Timestamp(now.0.saturating_add(SETTLES_NS))
}

/// How long after its agent is heard again it may take until the judge has found it again.
const SETTLES_NS: u64 = 5_000_000_000;
const TITLE: &str = "As last known";
