//! What a process's log lacks for a full picture, in words for an operator.

use super::log_tail::{LogTail, Reached};
use crate::nccl_log::NcclLog;

/// What helps in every case.
const REMEDY: &str = "start the job with `ringscope run`, or set NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV and \
                      NCCL_DEBUG_FILE";

/// What is lacking where a communicator's channels are not known.
pub(super) fn of_tail(tail: &LogTail, reached: Reached, error: Option<&str>) -> Vec<String> {
    match (reached, error, tail.wanted()) {
        (Reached::Middle, ..) => Vec::new(),
        (Reached::End, ..) => lacks(&tail.log),
        (Reached::Missing, Some(error), Some(path)) => {
            vec![format!("the log {} cannot be read: {error}", path.display())]
        }
        (Reached::Missing, None, Some(path)) => vec![format!("no log at {}: {REMEDY}", path.display())],
        (Reached::Missing, _, None) => vec![format!("no log: {REMEDY}")],
    }
}

/// What a log that has been read to its end lacks.
pub(super) fn lacks(log: &NcclLog) -> Vec<String> {
    let has_inits = log.communicators().next().is_some() || !log.unfinished().is_empty();
    let has_graphs =
        log.communicators().any(|facts| !facts.rings.is_empty() || facts.final_channels.is_some());
    if !has_inits {
        vec!["no INIT lines: set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV".to_owned()]
    } else if !has_graphs {
        vec!["no GRAPH lines: set NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV".to_owned()]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_named_with_what_to_set() {
        let check = |lines: &[&str], expected: &[&str]| {
            let mut log = NcclLog::new();
            for line in lines {
                log.feed(format!("h:5:5 [0] NCCL INFO {line}\n").as_bytes());
            }
            let found = lacks(&log);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(found.iter().zip(expected).all(|(found, part)| found.contains(part)), "{found:?}");
        };
        let comm = "comm 0xa0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7";
        let (start, complete) = (format!("{comm} - Init START"), format!("{comm} - Init COMPLETE"));
        check(&["NET/Socket : Using [0]eth0"], &["no INIT lines"]);
        check(&[&start, &complete], &["no GRAPH lines"]);
        check(&[&start, "2 coll channels, 0 nvls channels", &complete], &[]);
    }
}
