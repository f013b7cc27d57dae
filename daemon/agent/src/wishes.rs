//! What the daemon wants of collectors, by job and the user whose job it is.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_wire::batch;

use super::control::wished;

/// Jobs with a wish; the daemon names fewer.
const MAX_WISHES: usize = 4096;

/// What the daemon wants of collectors.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// Control word that somebody wishes for, by job and user (`None`: for each that has a job of that name).
    words: BTreeMap<(String, Option<u32>), u32>,
    /// Jobs that diagnosis raises.
    raised: BTreeSet<String>,
}

impl Wishes {
    pub(super) fn new(wishes: &[batch::Wish], raised: Vec<String>) -> Self {
        let words = wishes.iter().take(MAX_WISHES).map(|wish| ((wish.job.clone(), wish.user), wished(wish)));
        Self { words: words.collect(), raised: raised.into_iter().take(MAX_WISHES).collect() }
    }

    /// The control word that is wished for in a job of this user.
    pub(super) fn word(&self, job: &str, user: u32) -> Option<u32> {
        let of = |user: Option<u32>| self.words.get(&(job.to_owned(), user)).copied();
        of(Some(user)).or_else(|| of(None))
    }

    /// Whether diagnosis raises it.
    pub(super) fn is_raised(&self, job: &str, user: u32) -> bool {
        self.raised.contains(job) || self.raised.contains(&batch::job_of(job, user))
    }
}

#[cfg(test)]
mod tests {
    use ringscope_wire::segment::layout::{CONTROL_OFF, CONTROL_ON};

    use super::*;

    #[test]
    fn a_wish_is_for_the_job_of_one_user() {
        let wish =
            |job: &str, user: Option<u32>, off: bool| batch::Wish { job: job.into(), off, user, level: 0 };
        let wishes = [wish("a", Some(7), true), wish("b", None, true), wish("b", Some(8), false)];
        let wishes = Wishes::new(&wishes, vec!["c@user9".into()]);
        assert_eq!((wishes.word("a", 7), wishes.word("a", 8)), (Some(CONTROL_OFF), None));
        assert_eq!((wishes.word("b", 7), wishes.word("b", 8)), (Some(CONTROL_OFF), Some(CONTROL_ON)));
        assert!(wishes.is_raised("c", 9) && !wishes.is_raised("c", 8));
    }
}
