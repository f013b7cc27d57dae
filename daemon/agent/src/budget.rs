//! What the files of one user may cost a reading, and those of all users together: who leaves thousands of them, or long ones,
//! slows down what is seen of himself alone. What is beyond a bound is read later; what is never read is counted.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Processes of one user that are followed: ten times what a big host runs.
pub(super) const MAX_PROCESSES: usize = 2048;
/// Logs of one user that are followed without a segment.
pub(super) const MAX_LOGS: usize = 512;
/// Users whose share is counted apart; the others have one together.
const MAX_USERS: usize = 1024;
/// Time of a reading that segments of one user may take; the others are read at the next one. All of a big host take a
/// tenth of that.
const READING: Duration = Duration::from_millis(100);
/// Time of a reading that is spent waiting for threads that read one user's logs, and all users'.
const WAITING: Duration = Duration::from_millis(50);
const ALL_WAITING: Duration = Duration::from_millis(150);
/// Bytes of logs read per second, of one user and of all. A job of eight ranks writes some megabytes as it starts.
const LOG_BYTES_PER_SECOND: u64 = 16 << 20;
const ALL_LOG_BYTES_PER_SECOND: u64 = 64 << 20;
/// Bytes of a log read at once.
const LOG_BYTES_AT_ONCE: u64 = 1 << 20;
/// Memory for what the logs of one user say, and of all: a communicator of sixteen channels takes some two thousand bytes,
/// and is held up to four times on its way to the daemon.
const LOG_FACTS_BYTES: usize = 3 << 20;
const ALL_LOG_FACTS_BYTES: usize = 12 << 20;
/// What a log may always hold: the newest communicators of its process.
const LOG_FACTS_FLOOR_BYTES: usize = 16 << 10;
/// Files beyond a bound are looked at again after so long: there may be room.
const RETRY: Duration = Duration::from_secs(10);

/// The shares of all users. Shared by all that is read in one reading.
#[derive(Debug, Default)]
pub(super) struct Budgets(RefCell<Inner>);

#[derive(Debug, Default)]
struct Inner {
    users: BTreeMap<u32, Share>,
    all: Share,
    /// When the bytes were given out last.
    at: Option<Instant>,
    /// Segments beyond the bound of their user.
    surplus: BTreeMap<PathBuf, u32>,
    tried_at: Option<Instant>,
    is_retry: bool,
}

#[derive(Clone, Debug, Default)]
struct Share {
    processes: usize,
    logs: usize,
    /// Bytes of logs that may be read now.
    log_bytes: u64,
    /// What its logs hold.
    facts_bytes: usize,
    spent: Duration,
    waited: Duration,
    /// The last segment that was read, where a reading had no time for all.
    cursor: Option<PathBuf>,
    is_cut: bool,
}

/// What is held of one user when a reading begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) processes: usize,
    pub(super) logs: usize,
    pub(super) facts_bytes: usize,
}

impl Budgets {
    /// A reading begins. `held`: what there is of each user.
    pub(super) fn begin(&self, held: &BTreeMap<u32, Held>, now: Instant) {
        let mut inner = self.0.borrow_mut();
        let Inner { users, all, at, surplus, tried_at, is_retry } = &mut *inner;
        let past = at.replace(now).map_or(Duration::from_secs(1), |at| now.saturating_duration_since(at));
        users.retain(|user, share| held.contains_key(user) || share.is_cut);
        *all =
            Share { log_bytes: refilled(all.log_bytes, ALL_LOG_BYTES_PER_SECOND, past), ..Share::default() };
        for share in users.values_mut() {
            share.log_bytes = refilled(share.log_bytes, LOG_BYTES_PER_SECOND, past);
            share.cursor.take_if(|_| !share.is_cut);
            (share.spent, share.waited, share.is_cut) = (Duration::ZERO, Duration::ZERO, false);
            (share.processes, share.logs, share.facts_bytes) = (0, 0, 0);
        }
        for (user, held) in held {
            let Some(share) = share(users, *user) else { continue };
            (share.processes, share.logs) = (share.processes + held.processes, share.logs + held.logs);
            share.facts_bytes += held.facts_bytes;
            all.facts_bytes += held.facts_bytes;
        }
        *is_retry = tried_at.is_none_or(|at| now.saturating_duration_since(at) >= RETRY);
        if *is_retry {
            *tried_at = Some(now);
            surplus.clear();
        }
    }

    /// Whether a segment of this user may be read now. Where there is no time for all of them, each has its turn.
    pub(super) fn may_read(&self, user: u32, segment: &Path) -> bool {
        let mut inner = self.0.borrow_mut();
        let Some(share) = share(&mut inner.users, user) else { return true };
        if share.cursor.as_deref().is_some_and(|last| segment <= last) {
            return false;
        }
        share.is_cut |= share.spent >= READING;
        !share.is_cut
    }

    /// So long the reading of a segment of this user took.
    pub(super) fn spent(&self, user: u32, segment: &Path, time: Duration) {
        let mut inner = self.0.borrow_mut();
        if let Some(share) = share(&mut inner.users, user) {
            share.spent += time;
            if share.spent >= READING {
                share.cursor = Some(segment.to_owned());
            }
        }
    }

    /// Whether this segment is one of those that there is no room for.
    pub(super) fn is_surplus(&self, segment: &Path) -> bool {
        self.0.borrow().surplus.contains_key(segment)
    }

    /// Whether one more process of this user may be followed; its segment is passed over for a while if not.
    pub(super) fn add_process(&self, user: u32, segment: &Path) -> bool {
        let mut inner = self.0.borrow_mut();
        let has_room = share(&mut inner.users, user).is_none_or(|share| {
            share.processes += 1;
            share.processes <= MAX_PROCESSES
        });
        if !has_room {
            inner.surplus.insert(segment.to_owned(), user);
        }
        has_room
    }

    /// Forgets segments that are gone.
    pub(super) fn retain(&self, segments: &BTreeSet<PathBuf>) {
        self.0.borrow_mut().surplus.retain(|path, _| segments.contains(path));
    }

    /// The users whose segments are not read because there are too many, and how many those are, in words.
    pub(super) fn words(&self) -> Option<String> {
        let mut counts = BTreeMap::<u32, usize>::new();
        self.0.borrow().surplus.values().for_each(|user| *counts.entry(*user).or_default() += 1);
        let (user, n) = counts.into_iter().max_by_key(|(_, n)| *n)?;
        let segments = if n == 1 { "segment".to_owned() } else { format!("{n} segments") };
        Some(format!(
            "of user {user} the agent follows {MAX_PROCESSES} processes and no more: {segments} beyond that are not read. \
             Remove those that no process uses"
        ))
    }

    /// Whether what there was no room for is looked at again in this reading.
    pub(super) fn is_retry(&self) -> bool {
        self.0.borrow().is_retry
    }

    /// Whether one more log of this user may be followed without a segment.
    pub(super) fn add_log(&self, user: u32) -> bool {
        let mut inner = self.0.borrow_mut();
        share(&mut inner.users, user).is_none_or(|share| {
            let has_room = share.logs < MAX_LOGS;
            share.logs += usize::from(has_room);
            has_room
        })
    }

    /// How many bytes may be read of a log of this user now.
    pub(super) fn log_bytes(&self, user: u32) -> u64 {
        let mut inner = self.0.borrow_mut();
        let all = inner.all.log_bytes;
        share(&mut inner.users, user).map_or(0, |share| share.log_bytes).min(all).min(LOG_BYTES_AT_ONCE)
    }

    /// So many were read, and the log holds so many more or less than before.
    pub(super) fn read_log(&self, user: u32, bytes: u64, facts: (usize, usize)) {
        let mut inner = self.0.borrow_mut();
        let Inner { users, all, .. } = &mut *inner;
        for share in share(users, user).into_iter().chain([all]) {
            share.log_bytes = share.log_bytes.saturating_sub(bytes);
            share.facts_bytes = (share.facts_bytes + facts.1).saturating_sub(facts.0);
        }
    }

    /// How much a log of this user may hold that holds so much now.
    pub(super) fn facts_bytes(&self, user: u32, held: usize) -> usize {
        let mut inner = self.0.borrow_mut();
        let Inner { users, all, .. } = &mut *inner;
        let of_user = share(users, user).map_or(0, |share| LOG_FACTS_BYTES.saturating_sub(share.facts_bytes));
        let more = of_user.min(ALL_LOG_FACTS_BYTES.saturating_sub(all.facts_bytes));
        (held + more).max(LOG_FACTS_FLOOR_BYTES)
    }

    /// For how long a thread that reads a log of this user may be waited for.
    pub(super) fn patience(&self, user: u32) -> Duration {
        let mut inner = self.0.borrow_mut();
        let all = ALL_WAITING.saturating_sub(inner.all.waited);
        share(&mut inner.users, user)
            .map_or(Duration::ZERO, |share| WAITING.saturating_sub(share.waited))
            .min(all)
    }

    /// So long was waited.
    pub(super) fn waited(&self, user: u32, time: Duration) {
        let mut inner = self.0.borrow_mut();
        let Inner { users, all, .. } = &mut *inner;
        share(users, user).into_iter().chain([all]).for_each(|share| share.waited += time);
    }
}

/// The share of a user; of one beyond the bound, that of all such users.
fn share(users: &mut BTreeMap<u32, Share>, user: u32) -> Option<&mut Share> {
    let user = if users.len() >= MAX_USERS && !users.contains_key(&user) { OTHERS } else { user };
    let new = || Share { log_bytes: LOG_BYTES_PER_SECOND, ..Share::default() };
    Some(users.entry(user).or_insert_with(new))
}

/// No user has this number: it stands for none in the kernel.
const OTHERS: u32 = u32::MAX;

/// No more than a second's are saved up.
fn refilled(bytes: u64, per_second: u64, past: Duration) -> u64 {
    let millis = u64::try_from(past.as_millis()).unwrap_or(1000).min(1000);
    (bytes + per_second * millis / 1000).min(per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_many_segments_has_each_read_in_turn_and_others_have_theirs() {
        let budgets = Budgets::default();
        let mut now = ringscope_api::clock::monotonic();
        let held = BTreeMap::from([(7, Held::default()), (8, Held::default())]);
        let paths: Vec<PathBuf> = ["a", "b", "c"].map(PathBuf::from).into();
        let mut read = Vec::new();
        for _ in 0..5 {
            budgets.begin(&held, now);
            now += Duration::from_millis(250);
            for path in &paths {
                if budgets.may_read(7, path) {
                    read.push(path.display().to_string());
                    budgets.spent(7, path, READING);
                }
            }
            assert!(budgets.may_read(8, &paths[0]), "another's are read each time");
        }
        assert_eq!(read.join(""), "abcab");
    }

    #[test]
    fn processes_beyond_a_users_bound_are_told() {
        let budgets = Budgets::default();
        let now = ringscope_api::clock::monotonic();
        budgets.begin(&BTreeMap::from([(7, Held { processes: MAX_PROCESSES - 1, ..Held::default() })]), now);
        let add = |user: u32, path: &str| budgets.add_process(user, Path::new(path));
        assert!(add(7, "a") && !add(7, "b") && add(8, "c"));
        assert!(budgets.is_surplus(Path::new("b")) && !budgets.is_surplus(Path::new("a")));
        assert!(budgets.words().unwrap().starts_with("of user 7 the agent follows 2048 processes"));
        budgets.begin(&BTreeMap::new(), now + RETRY);
        assert_eq!(budgets.words(), None, "tried again");
    }

    #[test]
    fn bytes_of_logs_are_given_out_by_the_second() {
        let budgets = Budgets::default();
        let now = ringscope_api::clock::monotonic();
        let held = BTreeMap::from([(7, Held::default())]);
        budgets.begin(&held, now);
        let mut read = 0;
        while budgets.log_bytes(7) > 0 {
            read += budgets.log_bytes(7);
            budgets.read_log(7, budgets.log_bytes(7), (0, 0));
        }
        assert_eq!(read, LOG_BYTES_PER_SECOND);
        assert!(budgets.log_bytes(8) > 0);
        budgets.begin(&held, now + Duration::from_millis(50));
        assert!((1..LOG_BYTES_AT_ONCE).contains(&budgets.log_bytes(7)));
    }

    #[test]
    fn what_logs_say_has_room_for_each_user() {
        let budgets = Budgets::default();
        let now = ringscope_api::clock::monotonic();
        budgets.begin(&BTreeMap::from([(7, Held { facts_bytes: LOG_FACTS_BYTES, ..Held::default() })]), now);
        assert_eq!(budgets.facts_bytes(7, 0), LOG_FACTS_FLOOR_BYTES);
        assert_eq!(budgets.facts_bytes(7, 1 << 20), 1 << 20, "no more than it has");
        assert_eq!(budgets.facts_bytes(8, 0), LOG_FACTS_BYTES);
    }

    #[test]
    fn a_reading_waits_for_nobody_for_long() {
        let budgets = Budgets::default();
        budgets.begin(&BTreeMap::new(), ringscope_api::clock::monotonic());
        let mut total = Duration::ZERO;
        for user in 0..100 {
            total += budgets.patience(user);
            budgets.waited(user, budgets.patience(user));
            assert_eq!(budgets.patience(user), Duration::ZERO);
        }
        assert_eq!(total, ALL_WAITING);
    }
}
