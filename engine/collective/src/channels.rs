//! How many channels a communicator has: NCCL's rule (`ncclTopoPostset`, 2.28), as pure functions.
//!
//! Each node finds its *init* channels (`topology::search`); `base` is the minimum over all ranks; it is doubled,
//! then lowered by the MAX settings, then raised by the MIN settings. MAX comes before MIN on purpose, as in NCCL.
//! Channel `c` at or above `base` is a copy of `c % base`. Every rank computes the final count alone, so settings that
//! differ between ranks give counts that differ, which [`disagreement`] turns into an error that names them.

pub(crate) mod rules;

/// NCCL's MAXCHANNELS since 2.25.
pub(crate) const MAX_CHANNELS: usize = 64;
/// Init channels of a communicator that lies within one node, where no NIC limits the search: enough to see rings
/// that differ, and few enough sockets for eight ranks on a laptop.
pub(crate) const SINGLE_NODE_INIT_CHANNELS: usize = 2;

/// This rank's limits: its environment and its `ncclConfig_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// MIN_NCHANNELS.
    pub(crate) min_channels: Option<usize>,
    /// MAX_NCHANNELS.
    pub(crate) max_channels: Option<usize>,
    /// `config.minCTAs`.
    pub(crate) min_ctas: Option<usize>,
    /// `config.maxCTAs`.
    pub(crate) max_ctas: Option<usize>,
}

/// The base that all ranks agree on.
pub(crate) fn base(init: &[usize]) -> usize {
    init.iter().copied().min().unwrap_or(1).max(1)
}

/// The final count.
pub(crate) fn final_channels(base: usize, limits: Limits) -> usize {
    let capped = |limit: Option<usize>| limit.unwrap_or(MAX_CHANNELS).clamp(1, MAX_CHANNELS);
    let raised = |limit: Option<usize>| limit.unwrap_or(1).clamp(1, MAX_CHANNELS);
    let doubled = (2 * base).min(MAX_CHANNELS);
    let lowered = doubled.min(capped(limits.max_channels)).min(capped(limits.max_ctas));
    lowered.max(raised(limits.min_channels)).max(raised(limits.min_ctas))
}

/// What to say where the ranks' final counts differ.
pub(crate) fn disagreement(finals: &[usize]) -> Option<String> {
    let first = *finals.first()?;
    if finals.iter().all(|count| *count == first) {
        return None;
    }
    let mut counts: Vec<usize> = finals.to_vec();
    counts.sort_unstable();
    counts.dedup();
    let groups: Vec<String> = counts.iter().map(|count| ranks_with(finals, *count)).collect();
    Some(format!(
        "ranks disagree on the number of channels: {}; the MIN_NCHANNELS and MAX_NCHANNELS settings and the \
         config's minCTAs and maxCTAs must be the same on all ranks",
        groups.join(", ")
    ))
}

/// Ranks named in a message at most: the first of them identify the launcher's mistake.
const NAMED_RANKS: usize = 16;

fn ranks_with(finals: &[usize], count: usize) -> String {
    let ranks: Vec<usize> =
        finals.iter().enumerate().filter(|(_, own)| **own == count).map(|(rank, _)| rank).collect();
    let named: Vec<String> = ranks.iter().take(NAMED_RANKS).map(usize::to_string).collect();
    let more = if ranks.len() > NAMED_RANKS { " and more" } else { "" };
    format!("{count} on rank{} {}{more}", if ranks.len() == 1 { "" } else { "s" }, named.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(min: Option<usize>, max: Option<usize>) -> Limits {
        Limits { min_channels: min, max_channels: max, ..Limits::default() }
    }

    #[test]
    fn the_poorest_node_sets_the_base() {
        assert_eq!(base(&[4, 4, 1, 1]), 1);
    }

    #[test]
    fn final_is_doubled_then_capped_then_raised() {
        let table = [
            (4, limits(None, None), 8),
            (40, limits(None, None), 64),
            (4, limits(None, Some(2)), 2),
            (1, limits(Some(8), None), 8),
            (4, limits(Some(8), Some(2)), 8),
            (4, limits(Some(100), None), 64),
            (4, Limits { max_ctas: Some(3), ..Limits::default() }, 3),
            (1, Limits { min_ctas: Some(5), ..Limits::default() }, 5),
        ];
        for (base, limits, expected) in table {
            assert_eq!(final_channels(base, limits), expected, "base {base}, {limits:?}");
        }
    }

    #[test]
    fn disagreement_names_both_numbers_and_the_ranks() {
        assert_eq!(disagreement(&[4, 4]), None);
        let text = disagreement(&[8, 4, 4]).unwrap();
        assert!(text.contains("4 on ranks 1 2") && text.contains("8 on rank 0"), "{text}");
    }
}
