//! What workers were seen to do that rounds wait for, and who asks for that: once a wait.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ringscope_api::FindingKind;
use ringscope_api::clock::Timestamp;
use ringscope_model::summation::{Group, GroupId, Place, Wait};
use ringscope_model::{Model, Name, Process};
use ringscope_wire::batch::Look;

use super::super::judgement::Judgement;
use super::super::seen;
use super::Subject;
use super::words::STOPPED;
use crate::{Want, Wanted};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    is_off: bool,
    asked: BTreeSet<(GroupId, Name)>,
    wanted: Vec<Wanted>,
}

impl Looks {
    /// Whether culprits are looked at.
    pub(crate) fn set_look(&mut self, look: bool) {
        self.is_off = !look;
    }

    /// Asks what those do that rounds of a group wait for, who were not looked at since that is so.
    pub(crate) fn ask(&mut self, group: &Group, judgements: &[Judgement], model: &Model) {
        let stuck = judgements.iter().filter(|judgement| judgement.kind == FindingKind::SumRoundStuck);
        let process = |judgement: &Judgement| {
            let process = group.process(group.place(judgement.rank?)?, model)?;
            Some((process, judgement.blame.details.is_empty()))
        };
        let stuck: Vec<(&Process, bool)> = stuck.filter_map(process).collect();
        self.asked.retain(|(of, name)| *of != group.id() || stuck.iter().any(|(one, _)| one.name() == name));
        for (process, _) in stuck.into_iter().filter(|(process, is_new)| *is_new && process.is_living()) {
            let is_room = !self.is_off && self.wanted.len() < WANTED_MAX;
            if is_room && self.asked.insert((group.id(), Arc::clone(process.name()))) {
                self.wanted.push(Wanted { process: Arc::clone(process.name()), what: Want::Look });
            }
        }
    }

    /// A group that is no more.
    pub(crate) fn forget(&mut self, group: GroupId) {
        self.asked.retain(|(of, _)| *of != group);
    }

    /// Every question, once.
    pub(crate) fn take_wanted(&mut self) -> Vec<Wanted> {
        std::mem::take(&mut self.wanted)
    }
}

/// What was seen of a member since the round waits: what was seen before is over.
pub(super) fn look_of<'a>(subject: Subject<'a>, place: Place, wait: &Wait<'_>) -> Option<&'a Look> {
    let process = subject.group.process(place, subject.model)?;
    let look = process.look()?;
    let at = subject.model.ours(process, Timestamp(look.at_ns));
    (wait.since.since(at) <= CLOCKS_DIFFER).then_some(&**look)
}

/// The same in short. What the kernel says of one that is stopped is that it is stopped, and of one that computes nothing.
pub(super) fn in_short(look: &Look, cause: &str) -> Option<String> {
    if cause == STOPPED {
        return look.threads.iter().find_map(seen::frame).map(|line| format!("in {line}"));
    }
    seen::in_short(look).filter(|seen| !seen.starts_with("in kernel") || seen.contains("blocked"))
}

/// How far readings of one moment lie apart.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);
/// Questions that wait to be put.
const WANTED_MAX: usize = 256;
