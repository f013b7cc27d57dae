//! What was found of a job and is not found again because those who waited are not heard: it has not ended, as far as
//! anybody knows.

use super::scene::Taken;
use crate::api::{Detail, Severity};
use crate::clock::Timestamp;
use crate::diagnose::hangs::Settings;
use crate::diagnose::hangs::scene::Life;
use crate::diagnose::judgement::Judgement;
use crate::model::Name;

/// Of one job what was told last, with who waited.
#[derive(Default)]
pub(super) struct Kept(Vec<Last>);

struct Last {
    judgement: Judgement,
    witnesses: Vec<Name>,
    /// Some of what comes first from an agent that is back is old.
    until: Timestamp,
}

impl Kept {
    /// Adds to what was found now what was found before and whose witnesses are not heard.
    pub(super) fn add(
        &mut self,
        found: &mut Vec<Judgement>,
        witnesses: Vec<Vec<Name>>,
        taken: &Taken<'_>,
        settings: &Settings,
    ) {
        let now = taken.scene.now;
        let mut before = std::mem::take(&mut self.0);
        self.0 = found
            .iter()
            .zip(witnesses)
            .filter_map(|(judgement, witnesses)| {
                let is_kept = judgement.severity >= Severity::Warning && !witnesses.is_empty();
                is_kept.then(|| Last { judgement: judgement.clone(), witnesses, until: now })
            })
            .collect();
        before.retain(|last| !found.iter().any(|one| is_same(one, &last.judgement)));
        for mut last in before {
            if let Some(heard) = silent_since(&last.witnesses, taken, settings) {
                last.until = Timestamp(now.0.saturating_add(SETTLES_NS));
                last.judgement.blame.details.retain(|detail| detail.title != TITLE);
                last.judgement.blame.details.push(Detail {
                    title: TITLE.to_owned(),
                    lines: vec![format!(
                        "Those who wait are not heard since {}: that they do not wait any more is not known.",
                        crate::words::clock(heard)
                    )],
                });
            } else if now >= last.until {
                continue;
            }
            // It stands alone: what it followed from may be gone.
            last.judgement.blame.follows_from = None;
            found.push(last.judgement.clone());
            self.0.push(last);
        }
    }
}

fn is_same(one: &Judgement, other: &Judgement) -> bool {
    one.kind == other.kind && one.blame.key == other.blame.key && one.blame.comm == other.blame.comm
}

/// When the last of them was heard, where all who live are not heard any more.
fn silent_since(witnesses: &[Name], taken: &Taken<'_>, settings: &Settings) -> Option<Timestamp> {
    let processes = taken.processes.iter().zip(&taken.scene.processes);
    let living = processes.filter(|(process, told)| {
        told.life == Life::Running && witnesses.iter().any(|name| name == process.name())
    });
    let heard: Vec<Timestamp> = living.map(|(_, told)| told.heard_at).collect();
    let newest = heard.into_iter().max()?;
    (taken.scene.now.since(newest) > settings.unheard_after).then_some(newest)
}

/// How long after its agent is heard again it may take until the judge has found it again.
const SETTLES_NS: u64 = 5_000_000_000;
const TITLE: &str = "As last known";
