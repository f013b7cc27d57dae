//! What the agent itself lost, by reason; cumulative since its start, sent with every batch.

use std::collections::BTreeMap;

use ringscope_wire::batch::Dropped;

/// Why something is missing. The words are labels of a metric: few, and stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    /// A segment file that cannot be read: its process is not seen. Once per file.
    SegmentUnreadable,
    /// Operation records overwritten between two readings. Counters are exact all the same: only the times of those
    /// operations are missing. Records already gone when the agent first saw the process are not counted.
    RingOverrun,
    /// A record that its process was writing when it died.
    RecordTorn,
    /// A batch dropped because the backlog was full.
    BacklogFull,
    /// A batch that the daemon refused.
    BatchRefused,
    /// A kept batch that could not be read back.
    BatchUnreadable,
    /// A log line longer than any of NCCL's.
    LogLineTooLong,
    /// Completed operations that a batch had no room for. They are counted all the same.
    OperationHistory,
    /// A segment that is not taken, for it names another user's process. Once per file.
    ClaimRefused,
    /// A process that counts itself to another host: it is counted to its own. Once per process.
    HostRefused,
    /// A segment beyond the processes that are followed of one user.
    SegmentOverBudget,
    /// A log beyond those that are followed of one user.
    LogOverBudget,
    /// A file of RDMA connections that is not what it should be, or not its process's user's. Once per process and reason.
    ConnectionsUnreadable,
    /// RDMA connections that are not told, because their process has too many: of each process those that found no place in its
    /// file, each once, and of those in the file that are not closed the most that were too many at one time.
    ConnectionsLeftOut,
    /// Files of RDMA connections that are not looked at, because there are too many; the most at one time.
    ConnectionFilesLeftOut,
}

impl Loss {
    fn reason(self) -> &'static str {
        match self {
            Self::SegmentUnreadable => "segment_unreadable",
            Self::RingOverrun => "ring_overrun",
            Self::RecordTorn => "record_torn",
            Self::BacklogFull => "backlog_full",
            Self::BatchRefused => "batch_refused",
            Self::BatchUnreadable => "batch_unreadable",
            Self::LogLineTooLong => "log_line_too_long",
            Self::OperationHistory => "operation_history",
            Self::ClaimRefused => "claim_refused",
            Self::HostRefused => "host_refused",
            Self::SegmentOverBudget => "segment_over_budget",
            Self::LogOverBudget => "log_over_budget",
            Self::ConnectionsUnreadable => "connections_unreadable",
            Self::ConnectionsLeftOut => "connections_left_out",
            Self::ConnectionFilesLeftOut => "connection_files_left_out",
        }
    }
}

/// Counts by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses(BTreeMap<Loss, u64>);

impl Losses {
    pub(super) fn add(&mut self, loss: Loss, events: u64) {
        if events > 0 {
            let known = self.0.entry(loss).or_default();
            *known = known.saturating_add(events);
        }
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(loss, events)| self.add(*loss, *events));
    }

    pub(super) fn to_batch(&self) -> Vec<Dropped> {
        let dropped =
            |(loss, events): (&Loss, &u64)| Dropped { reason: loss.reason().into(), events: *events };
        self.0.iter().map(dropped).collect()
    }
}

#[cfg(test)]
mod tests {
    use ringscope_wire::segment::layout::DropReason;

    use super::Loss;

    #[test]
    fn the_runbook_says_what_to_do_about_each_reason() {
        let runbook = include_str!("../../../dashboards/runbook.md");
        let section =
            runbook.split("\n## ").find(|section| section.starts_with("collector_dropping\n")).unwrap();
        let lost = [
            Loss::SegmentUnreadable,
            Loss::RingOverrun,
            Loss::RecordTorn,
            Loss::BacklogFull,
            Loss::BatchRefused,
            Loss::BatchUnreadable,
            Loss::LogLineTooLong,
            Loss::OperationHistory,
            Loss::ClaimRefused,
            Loss::HostRefused,
            Loss::SegmentOverBudget,
            Loss::LogOverBudget,
            Loss::ConnectionsUnreadable,
            Loss::ConnectionsLeftOut,
            Loss::ConnectionFilesLeftOut,
        ];
        let reasons = DropReason::ALL.iter().map(|reason| reason.label()).chain(lost.map(Loss::reason));
        for reason in reasons {
            let line =
                section.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{reason}`")));
            assert!(
                line.is_some_and(|line| line.split('|').nth(3).is_some_and(|todo| todo.len() > 6)),
                "{reason}"
            );
        }
    }
}
