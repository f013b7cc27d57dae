//! Questions to agents about single processes: each is put once, in every answer to its agent for a while, for an
//! answer can be lost; the agent drops what it has heard before.

use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_judge::{Want, Wanted};
use ringscope_model::Model;
use ringscope_wire::batch::Inquiry;

/// The questions of the last minutes.
#[derive(Debug, Default)]
pub(super) struct Inquiries {
    put: BTreeMap<Wanted, Put>,
}

#[derive(Debug)]
struct Put {
    id: String,
    since: Timestamp,
    /// When somebody wanted to know it last.
    wanted: Timestamp,
    /// The agent of the process, as the model counts them. Absent: none is known.
    agent: Option<u64>,
}

impl Inquiries {
    /// Puts what is wanted, unless it is put already: a question that is wanted all the time is one. Returns how many
    /// there was no room for.
    pub(super) fn want<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a Wanted>,
        model: &Model,
        now: Timestamp,
    ) -> u64 {
        let mut n_left_out = 0;
        self.put.retain(|_, put| now.since(put.wanted) < KEPT || now.since(put.since) < PUT_FOR);
        for wanted in wanted {
            let agent = model.process(&wanted.process).and_then(|process| model.agent_of(process));
            if let Some(put) = self.put.get_mut(wanted) {
                let is_again = now.since(put.since) >= PUT_FOR && now.since(put.wanted) >= AGAIN_AFTER;
                put.wanted = now;
                put.agent = agent;
                if is_again {
                    put.since = now;
                    put.id = id(wanted, now);
                }
            } else if self.put.len() < PUT_MAX {
                let put = Put { id: id(wanted, now), since: now, wanted: now, agent };
                self.put.insert(wanted.clone(), put);
            } else {
                n_left_out += 1;
            }
        }
        n_left_out
    }

    /// What is to be asked of an agent, as the model counts them.
    pub(super) fn to(&self, agent: u64, now: Timestamp) -> Vec<Inquiry> {
        let open =
            self.put.iter().filter(|(_, put)| put.agent == Some(agent) && now.since(put.since) < PUT_FOR);
        open.take(REPLY_MAX).map(|(wanted, put)| inquiry(wanted, put)).collect()
    }
}

/// Of another moment another one; of two daemons never the same.
fn id(wanted: &Wanted, now: Timestamp) -> String {
    let what = match &wanted.what {
        Want::Look => "look".to_owned(),
        Want::Watch => "watch".to_owned(),
        Want::Recall { local_id, first, last } => format!("recall-{local_id:x}-{first}-{last}"),
        Want::Pairs { local_id } => format!("pairs-{local_id:x}"),
    };
    format!("{what}-{:x}", now.0)
}

fn inquiry(wanted: &Wanted, put: &Put) -> Inquiry {
    let inquiry = Inquiry { id: put.id.clone(), process: wanted.process.to_string(), ..Inquiry::default() };
    match wanted.what {
        Want::Look => Inquiry { look: true, ..inquiry },
        Want::Watch => Inquiry { look: true, watch: true, ..inquiry },
        Want::Recall { local_id, first, last } => Inquiry {
            local_id: Some(local_id),
            first_number: Some(first),
            last_number: Some(last),
            ..inquiry
        },
        Want::Pairs { local_id } => Inquiry { local_id: Some(local_id), pairs: true, ..inquiry },
    }
}

/// How long a question goes with the answers to its agent: three heartbeats.
const PUT_FOR: Duration = Duration::from_secs(15);
/// A question that nobody wanted for so long is another one when it is wanted again.
const AGAIN_AFTER: Duration = Duration::from_secs(3);
/// How long a question is remembered that nobody wants any more.
const KEPT: Duration = Duration::from_secs(60);
/// Questions at a time: about the culprits of some dozen hangs, or one rank in two of a thousand.
const PUT_MAX: usize = 1_024;
/// Questions in one answer: a host has some dozen processes.
const REPLY_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use ringscope_samples::cluster::{Cluster, at, batch};

    fn later(ms: u64) -> Timestamp {
        Timestamp(at(10).0 + ms * 1_000_000)
    }

    fn look(key: &str) -> Wanted {
        Wanted { process: key.into(), what: Want::Look }
    }

    #[test]
    fn a_question_is_put_once_and_goes_to_the_agent_of_its_process() {
        let cluster = Cluster::new(&[("host-0", 2, 4)], 4);
        let mut model = Model::new();
        model.apply(&cluster.batch(1, 1), at(1));
        let mut other = batch(1, 1, vec![]);
        other.agent_id = "other".to_owned();
        model.apply(&other, at(1));
        let (own, other) = (model.agent("agent").unwrap(), model.agent("other").unwrap());
        let (wanted, mut inquiries) = (look(&cluster.key(0)), Inquiries::default());
        inquiries.want([&wanted].into_iter(), &model, later(0));
        let told = inquiries.to(own, later(0));
        assert!(told[0].look && told[0].process == cluster.key(0), "{told:?}");
        assert!(inquiries.to(other, later(0)).is_empty());
        // Wanted for a minute without a break: one question, which goes for a while only.
        for s in 1..60 {
            inquiries.want([&wanted].into_iter(), &model, later(s * 1_000));
        }
        assert_eq!(inquiries.to(own, later(14_000)), told, "an answer may have been lost");
        assert!(inquiries.to(own, later(16_000)).is_empty());
        // Accused anew, a while later.
        inquiries.want([].into_iter(), &model, later(65_000));
        inquiries.want([&wanted].into_iter(), &model, later(70_000));
        let again = inquiries.to(own, later(70_000));
        assert_ne!(again[0].id, told[0].id);
    }

    #[test]
    fn questions_are_bounded() {
        let (model, mut inquiries) = (Model::new(), Inquiries::default());
        let many: Vec<Wanted> = (0..2_000).map(|n| look(&format!("h/{n}/1"))).collect();
        assert_eq!(inquiries.want(many.iter(), &model, later(0)), 2_000 - PUT_MAX as u64);
        assert_eq!(inquiries.put.len(), PUT_MAX);
        inquiries.want([].into_iter(), &model, later(61_000));
        assert!(inquiries.put.is_empty());
    }

    #[test]
    fn what_is_asked_says_of_what() {
        let put = Put { id: "x".to_owned(), since: at(1), wanted: at(1), agent: None };
        let recall = Wanted { process: "p".into(), what: Want::Recall { local_id: 7, first: 3, last: 9 } };
        let told = inquiry(&recall, &put);
        assert_eq!((told.local_id, told.first_number, told.last_number), (Some(7), Some(3), Some(9)));
        let pairs = Wanted { process: "p".into(), what: Want::Pairs { local_id: 7 } };
        let told = inquiry(&pairs, &put);
        assert!(told.pairs && !told.look && told.local_id == Some(7));
    }
}
