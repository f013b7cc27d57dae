//! What is said of a database that cannot be used: nothing new is taken meanwhile, so nothing that is shown can be called well.

use ringscope_api::clock::Timestamp;
use ringscope_judge::health::{Cut, moment};

use super::StoreState;

/// Why nothing new is taken, if so. `with_paths`: for those who may know what the database is called.
pub(super) fn cut(state: &StoreState, with_paths: bool, now: Timestamp) -> Option<Cut> {
    match state {
        StoreState::Open(_) | StoreState::None => None,
        StoreState::Opening => Some(Cut {
            sentence: "The database is not open yet: what it keeps is being read, and agents' batches wait until it is"
                .to_owned(),
            advice: "Wait until it is: of a large database that takes seconds".to_owned(),
        }),
        StoreState::Away(away) => {
            let since = moment(away.since, now);
            let reason = if with_paths { away.reason.as_str() } else { "the daemon's log says why" };
            Some(Cut {
                sentence: format!(
                    "The database is away since {since}, so agents' batches are refused and wait with the agents, and nothing \
                     newer is known: {reason}"
                ),
                advice: "Mend the database. The daemon tries it every 2 s, and agents then send what waits; each keeps a bounded \
                         amount on disk"
                    .to_owned(),
            })
        }
    }
}
