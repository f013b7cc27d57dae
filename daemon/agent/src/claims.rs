//! What a user says of his process, against what the kernel says of him. A file's owner is the one thing that nobody else can
//! choose: what is said in it counts for that user alone. Where it is shown to be another's it is refused, and that is
//! counted.
//!
//! Users are compared as this agent sees them: a process in a namespace of its own knows itself by another number.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_wire::segment::read::Identity;

use super::beneath::FileId;
use super::holder::Locks;
use super::procfs::{self, Pid, Status};
use super::programs::Programs;

/// Keys whose users are remembered: two for each process that an agent follows.
const MAX_KEYS: usize = 65_536;
/// Start times are right to a second against another boot time.
const SLACK_NS: u64 = 2_000_000_000;

/// Why a segment is not taken for what it says that it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// It names a process of somebody else.
    #[error("it is user {owner}'s and names process {pid}, which is user {user}'s")]
    Process { owner: u32, pid: u32, user: u32 },
    /// It was written by a process of somebody else.
    #[error("it is user {owner}'s and was written as user {user}: it is a copy of another's")]
    User { owner: u32, user: u32 },
}

/// Checks a segment that is seen for the first time.
pub(super) fn check(identity: &Identity, file: FileId) -> Result<(), Refusal> {
    let holder = || Locks::read().holder(file, identity.pid, identity.start_time_ns);
    let user = Pid::of(identity.pid).and_then(|pid| other_user(pid, identity.start_time_ns, file.owner));
    if let Some(user) = user
        // Nobody can make another's process hold the lock of his file.
        && holder().is_none()
    {
        return Err(Refusal::Process { owner: file.owner, pid: identity.pid, user });
    }
    if let Some(user) = identity.user.filter(|user| *user != file.owner)
        && let Some(pid) = holder()
        && on_machine(pid, user) != Some(file.owner)
    {
        return Err(Refusal::User { owner: file.owner, user });
    }
    Ok(())
}

/// The user of a process that started then, if it is another one than `owner`.
fn other_user(pid: Pid, start_ns: u64, owner: u32) -> Option<u32> {
    let stat = pid.stat()?;
    if is_agents_own(pid.number, stat.parent, std::process::id(), procfs::sees_the_machine()) {
        return None;
    }
    let started = stat.start_ns()?;
    let status = Status::read(pid.number)?;
    (started.abs_diff(start_ns) <= SLACK_NS && !status.is_of(owner)).then_some(status.user)
}

/// Whether a number means a process of the agent's here, and may mean another one where the segment was made: in a container the agent
/// is process 1, as the job is in its own, and both may have started in the same second.
const fn is_agents_own(number: u32, parent: u32, agent: u32, sees_the_machine: bool) -> bool {
    !sees_the_machine && (number == agent || parent == agent)
}

/// How this agent knows the user that a process knows by this number. Source: user_namespaces(7), `uid_map`.
fn on_machine(pid: Pid, user: u32) -> Option<u32> {
    mapped(&procfs::text(pid.number, "uid_map")?, user)
}

fn mapped(map: &str, user: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u32>);
        let (inside, outside, n) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        let offset = user.checked_sub(inside).filter(|offset| *offset < n)?;
        outside.checked_add(offset)
    })
}

/// Whether a process that calls its machine so lives in a container that may have that name.
pub(super) fn has_own_host_name(identity: &Identity, file: FileId, programs: &Programs) -> bool {
    // An agent in a container sees no other one's names, and has nothing but containers to look after.
    if !procfs::sees_the_machine() {
        return true;
    }
    let name = |pid: u32| programs.host_names(pid);
    let holder = Locks::read().holder(file, identity.pid, identity.start_time_ns);
    let (its, own) = (holder.and_then(|pid| name(pid.number)), name(std::process::id()));
    its.is_some() && its != own
}

/// Whether both are names of one machine: one may be cut at its first dot.
pub(super) fn is_same_host(one: &str, other: &str) -> bool {
    one == other || one.split('.').next() == other.split('.').next()
}

/// Keys of processes, and whose they are: a key that another user's process has is given to nobody else.
#[derive(Debug, Default)]
pub(super) struct Keys(BTreeMap<String, u32>);

impl Keys {
    /// The key for a process of this user.
    pub(super) fn own(&mut self, key: String, owner: u32) -> String {
        match self.0.get(&key) {
            Some(other) if *other != owner => format!("{key}/u{owner}"),
            Some(_) => key,
            None => {
                if self.0.len() < MAX_KEYS {
                    self.0.insert(key.clone(), owner);
                }
                key
            }
        }
    }

    /// Forgets all but these, once there are many more.
    pub(super) fn retain(&mut self, used: &BTreeSet<&str>) {
        if self.0.len() > 2 * used.len() + 64 {
            self.0.retain(|key, _| used.contains(key.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn in_a_container_the_agents_own_numbers_say_nothing_of_others() {
        assert!(is_agents_own(1, 0, 1, false) && is_agents_own(7, 1, 1, false));
        assert!(!is_agents_own(8, 7, 1, false) && !is_agents_own(1, 0, 1, true));
    }

    fn identity() -> Identity {
        Identity {
            pid: std::process::id(),
            start_time_ns: procfs::own_start_ns().unwrap(),
            ..Identity::default()
        }
    }

    #[test]
    fn a_process_of_another_user_is_not_his_to_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (own, identity) = (FileId::of(&file.as_file().metadata().unwrap()), identity());
        assert_eq!(check(&identity, own), Ok(()));
        let foreign = FileId { owner: own.owner + 1, ..own };
        let refused = check(&identity, foreign).unwrap_err();
        assert!(matches!(refused, Refusal::Process { .. }), "{refused}");
        assert!(refused.to_string().contains(&format!("process {}", identity.pid)), "{refused}");
        let earlier = Identity { start_time_ns: identity.start_time_ns - 60_000_000_000, ..identity.clone() };
        assert_eq!(check(&earlier, foreign), Ok(()), "another had its number");
        // One that has its lock is its process, whoever it is by now.
        flock(file.as_file(), FlockOperation::LockExclusive).unwrap();
        assert_eq!(check(&identity, foreign), Ok(()));
        let copied = Identity { user: Some(own.owner + 7), ..identity };
        assert!(matches!(check(&copied, own), Err(Refusal::User { .. })));
    }

    #[test]
    fn users_of_a_namespace_are_known_by_the_machines_numbers() {
        let map = "         0     100000      65536\n     70000       1000          1\n";
        assert_eq!(mapped(map, 0), Some(100_000));
        assert_eq!((mapped(map, 65_535), mapped(map, 65_536)), (Some(165_535), None));
        assert_eq!(mapped(map, 70_000), Some(1000));
        assert_eq!(mapped("x y z\n", 0), None);
    }

    #[test]
    fn a_key_is_one_users() {
        let mut keys = Keys::default();
        assert_eq!(keys.own("a/1/2".to_owned(), 7), "a/1/2");
        assert_eq!(keys.own("a/1/2".to_owned(), 8), "a/1/2/u8");
        assert_eq!(keys.own("a/1/2".to_owned(), 7), "a/1/2");
        for n in 0..100 {
            keys.own(format!("a/{n}/3"), 7);
        }
        keys.retain(&BTreeSet::new());
        assert_eq!(keys.own("a/1/2".to_owned(), 8), "a/1/2");
    }

    #[test]
    fn a_name_may_be_cut_at_its_first_dot() {
        assert!(is_same_host("node7", "node7.cluster") && is_same_host("a.b", "a.b"));
        assert!(!is_same_host("node7", "node8"));
    }
}
