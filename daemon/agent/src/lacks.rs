//! What lacks for a full picture, of a process's log and of the host, in words for an operator.

use std::path::Path;

use super::foreign::clean;
use super::log_file::Reached;
use super::log_tail::LogTail;

/// What helps in every case.
const REMEDY: &str = "start the job with `ringscope run`, or set NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV and \
                      NCCL_DEBUG_FILE";

/// What is lacking where a communicator's channels are not known.
pub(super) fn of_tail(tail: &LogTail, reached: Reached, error: Option<&str>) -> Vec<String> {
    match (reached, error, tail.wanted()) {
        (Reached::Middle, ..) | (Reached::Silent, _, None) => Vec::new(),
        (Reached::End, ..) => tail.log.lacks(),
        (Reached::Silent, _, Some(path)) => {
            vec![format!("the log {} cannot be read: its file system does not answer", path.display())]
        }
        (Reached::Missing, Some(error), Some(path)) => {
            vec![format!("the log {} cannot be read: {error}", path.display())]
        }
        (Reached::Missing, None, Some(path)) => vec![format!("no log at {}: {REMEDY}", path.display())],
        (Reached::Missing, _, None) => vec![format!("no log: {REMEDY}")],
    }
}

/// What is not seen once the starter of programs has ended.
pub(super) fn of_starter() -> String {
    "what processes do while a job hangs (stacks, system calls) is not seen, because the process that starts programs for the \
     agent (`ringscope agent-starter`) has ended: restart the agent"
        .to_owned()
}

/// What is not seen of queue pairs.
pub(super) fn of_queue_pairs(why: &str) -> String {
    format!(
        "queue pairs not read: {}. Those in an error state may go unseen: see whether `rdma resource show qp` lists them",
        clean(why, MAX_WHY_BYTES)
    )
}

/// Bytes of the kernel's reason, with a device's name.
const MAX_WHY_BYTES: usize = 192;

/// What a folder of segments of this user's may hide; `agent` is the agent's own.
pub(super) fn of_owner(dir: &Path, owner: u32, agent: u32) -> Option<String> {
    (![0, agent, NOBODY_HERE].contains(&owner)).then(|| {
        format!(
            "processes of other users may go unseen, because {0} belongs to the user {owner}, who may remove and rename what \
             they have in it: give it to root (chown root {0}) and restart the agent",
            dir.display()
        )
    })
}

/// As who owns what is of nobody in this user namespace, root of the host among them: that says nothing.
const NOBODY_HERE: u32 = 65_534;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_roots_or_of_the_agents_own_lacks_nothing() {
        let dir = Path::new("/dev/shm/ringscope");
        assert_eq!([0, 990, 65_534].map(|owner| of_owner(dir, owner, 990)), [None, None, None]);
        let words = of_owner(dir, 1001, 990).unwrap();
        assert!(
            words.contains("belongs to the user 1001") && words.contains("chown root /dev/shm/ringscope"),
            "{words}"
        );
        assert!(
            of_owner(dir, 1001, 0).is_some(),
            "root takes over what is everybody's, and leaves what is one user's"
        );
    }
}
