//! Which init in the log is which communicator in the segment.
//!
//! Both name the library's pointer, which is used again after a communicator has ended. So the i-th complete init with a
//! pointer is the i-th communicator with it, unless something is missing: a slot was used again before this agent
//! started, or the log was cut. Then only equal hashes join. Whatever joins must agree in rank, number of ranks and,
//! where both say it, hash.
//!
//! A collector that only the library's profiler tells of communicators does not know their pointers: there the hash
//! joins alone, inits with the same hash in the order of their making.

use ringscope_logs::nccl_log::{CommunicatorFacts, NcclLog};

/// What the segment says of a communicator, as far as it tells it from others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) pid: u32,
    /// 0 if not known.
    pub(super) pointer: u64,
    /// 0 while not known.
    pub(super) comm_hash: u64,
    pub(super) rank: u32,
    pub(super) n_ranks: u32,
    /// How many communicators with this pointer came before; `None` if that is not certain.
    pub(super) occurrence: Option<u32>,
}

/// The facts about a communicator, if the log has them. `taken` tells those that belong to other communicators.
pub(super) fn find(
    log: &NcclLog,
    wanted: Wanted,
    taken: impl Fn(&CommunicatorFacts) -> bool,
) -> Option<&CommunicatorFacts> {
    let fits = |facts: &&CommunicatorFacts| {
        facts.complete
            && facts.pid == wanted.pid
            && (wanted.pointer == 0 || facts.comm_pointer == wanted.pointer)
            && facts.rank == wanted.rank
            && facts.n_ranks == wanted.n_ranks
            && !taken(facts)
    };
    let same_hash = |facts: &&CommunicatorFacts| {
        wanted.comm_hash != 0 && facts.comm_hash.or(facts.derived_hash) == Some(wanted.comm_hash)
    };
    let same_place = |facts: &&CommunicatorFacts| {
        wanted.pointer != 0
            && Some(facts.occurrence) == wanted.occurrence
            && (wanted.comm_hash == 0 || facts.comm_hash.is_none_or(|hash| hash == wanted.comm_hash))
    };
    (log.communicators().filter(fits).find(same_hash))
        .or_else(|| log.communicators().filter(fits).find(same_place))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two inits with one pointer, told apart by their channels: 1 and 2.
    fn log(first_hash: &str, second_hash: &str) -> NcclLog {
        let mut log = NcclLog::new();
        for (hash, channels) in [(first_hash, 1), (second_hash, 2)] {
            let comm = format!("comm 0xa0 rank 1 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000{hash}");
            for message in [
                format!("{comm} - Init START"),
                format!("{channels} coll channels, 0 nvls channels"),
                format!("{comm} - Init COMPLETE"),
            ] {
                log.feed(format!("h:5:5 [0] NCCL INFO {message}\n").as_bytes());
            }
        }
        log
    }

    fn check(log: &NcclLog, comm_hash: u64, occurrence: Option<u32>, expected: Option<u32>) {
        let wanted = Wanted { pid: 5, pointer: 0xa0, comm_hash, rank: 1, n_ranks: 4, occurrence };
        let found = find(log, wanted, |_| false).and_then(|facts| facts.final_channels);
        assert_eq!(found, expected, "{wanted:?}");
        for other in [
            Wanted { pid: 6, ..wanted },
            Wanted { pointer: 0xb0, ..wanted },
            Wanted { rank: 2, ..wanted },
            Wanted { n_ranks: 8, ..wanted },
        ] {
            assert!(find(log, other, |_| false).is_none(), "{other:?}");
        }
        assert!(find(log, wanted, |_| true).is_none());
    }

    #[test]
    fn by_place_where_there_are_no_hashes() {
        let log = log("", "");
        check(&log, 0, Some(0), Some(1));
        check(&log, 7, Some(1), Some(2));
        check(&log, 7, Some(2), None);
        check(&log, 7, None, None);
    }

    #[test]
    fn by_hash_where_the_place_is_not_certain() {
        let log = log(" commId 0x7", " commId 0x8");
        check(&log, 8, None, Some(2));
        check(&log, 7, Some(1), Some(1));
        check(&log, 9, Some(1), None);
        check(&log, 0, Some(1), Some(2));
    }

    #[test]
    fn by_hash_alone_where_only_the_profiler_tells_of_it() {
        let log = log(" commId 0x7", " commId 0x8");
        let wanted = Wanted { pid: 5, pointer: 0, comm_hash: 8, rank: 1, n_ranks: 4, occurrence: None };
        let found = |wanted| find(&log, wanted, |_| false).and_then(|facts| facts.final_channels);
        assert_eq!(found(wanted), Some(2));
        assert_eq!(found(Wanted { comm_hash: 0, occurrence: Some(0), ..wanted }), None);
        assert_eq!(found(Wanted { rank: 2, ..wanted }), None);
    }

    #[test]
    fn one_after_the_other_where_hashes_are_equal_and_no_pointer_is_known() {
        let log = log(" commId 0x7", " commId 0x7");
        let wanted = Wanted { pid: 5, pointer: 0, comm_hash: 7, rank: 1, n_ranks: 4, occurrence: None };
        let first = find(&log, wanted, |_| false).and_then(|facts| facts.final_channels);
        let second = find(&log, wanted, |facts| facts.final_channels == Some(1));
        assert_eq!((first, second.and_then(|facts| facts.final_channels)), (Some(1), Some(2)));
    }
}
