//! What a process's log lacks for a full picture, in words for an operator.

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
