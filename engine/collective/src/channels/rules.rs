//! NCCL's rules for the number of channels, by version, where a machine and its GPUs are described: what the search makes
//! of its own result (`src/graph/search.cc`, `ncclTopoDupChannels`) and what follows from the base
//! (`src/graph/connect.cc`, `ncclTopoPostset`), as pure functions.

use super::{Limits, MAX_CHANNELS};
use crate::faithful::Version;

/// Channels up to which Hopper and unpacking networks double them once more.
const DOUBLED_BELOW: usize = 16;
/// Bytes of `ncclDevKernelArgs` and of a `ncclDevWorkBatch` (`src/include/device.h`), which limit the channels of a launch.
const ARGS_BYTES: (usize, usize) = (32, 16);
/// Bytes of a launch that has one channel.
pub(crate) const ONE_CHANNEL_BYTES: usize = ARGS_BYTES.0 + ARGS_BYTES.1;

/// What the rules depend on beside the base and the caller's limits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    /// The lowest compute capability: 90 for Hopper.
    pub(crate) compute_capability: u32,
    /// Nodes.
    pub(crate) n_nodes: usize,
    /// GB/s of a channel of the ring inside a node, the lowest of all ranks.
    pub(crate) ring_intra: f32,
    /// CollNet is enabled, and its chain is faster inside a node than between nodes.
    pub(crate) collnet: bool,
    /// The network plugin wants its data unpacked.
    pub(crate) unpack: bool,
    /// Channels of NVLS; 0 without it.
    pub(crate) nvls_channels: usize,
    /// Of a child that shares its parent's resources: the top parent's channels, and whether the parent has NVLS.
    pub(crate) shared: Option<(usize, bool)>,
    /// `NCCL_WORK_ARGS_BYTES`.
    pub(crate) args_bytes: Option<usize>,
}

/// Channels, `most` at most, and GB/s of each after the search has copied what one channel cannot saturate.
pub(crate) fn duplicate(channels: usize, intra: f32, compute_capability: u32, most: usize) -> (usize, f32) {
    let many = compute_capability > 80 && intra < 50.0 && channels > 4;
    let copies = (2 * channels).min(most);
    if channels == 0 || intra < 25.0 || many || copies <= channels {
        return (channels, intra);
    }
    (copies, intra / 2.0)
}

/// The final count.
pub(crate) fn final_channels(version: Version, base: usize, limits: Limits, facts: &Facts) -> usize {
    sources(version, base, limits, facts).len()
}

/// The final channels, each as the channel that it is a copy of: of the search's, or of the copies behind them, which all
/// get once.
pub(crate) fn sources(version: Version, base: usize, limits: Limits, facts: &Facts) -> Vec<usize> {
    let mut n: Vec<usize> = (0..(2 * base).min(MAX_CHANNELS)).collect();
    if facts.collnet {
        let more = n.len() + n.len() / 2;
        copy_to(&mut n, more);
    }
    let several = facts.n_nodes > 1;
    if several && facts.compute_capability >= 90 && facts.ring_intra > 45.0 && n.len() < DOUBLED_BELOW {
        let twice = 2 * n.len();
        copy_to(&mut n, twice);
    }
    if several && facts.unpack && n.len() < DOUBLED_BELOW {
        let twice = 2 * n.len();
        copy_to(&mut n, twice);
    }
    let shared = facts.shared.map_or(MAX_CHANNELS, |(channels, _)| channels);
    let most = limits.max_channels.unwrap_or(MAX_CHANNELS).min(args_channels(facts.args_bytes)).max(1);
    n.truncate(most.min(limits.max_ctas.unwrap_or(MAX_CHANNELS)).min(shared).max(1));
    let least = limits.min_channels.unwrap_or(0).min(MAX_CHANNELS).max(limits.min_ctas.unwrap_or(1));
    copy_to(&mut n, least.min(shared));
    // Removed in 2.28.3.
    if version < Version::V2_28 {
        copy_to(&mut n, facts.nvls_channels);
    }
    if facts.shared.is_some_and(|(_, nvls)| nvls) {
        n.truncate(shared.max(1));
    }
    n
}

/// Channels that fit into the bytes of a launch.
pub(crate) fn args_channels(args_bytes: Option<usize>) -> usize {
    args_bytes.map_or(MAX_CHANNELS, |bytes| bytes.saturating_sub(ARGS_BYTES.0) / ARGS_BYTES.1)
}

/// Send and receive channels for what so many GB/s of NVLink can carry.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few links")]
pub(crate) fn links(bandwidth: f32, of_one: f32) -> usize {
    2 * ((bandwidth / of_one) as usize).max(1)
}

/// More channels are copies of the first ones (`copyChannels`).
fn copy_to(channels: &mut Vec<usize>, n: usize) {
    let start = channels.len();
    for channel in start..n.min(MAX_CHANNELS) {
        channels.push(channels[channel - start]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DGX A100 and DGX H100 within a node, and with the eight NICs of each; the 4 H100 of an XE8640.
    #[test]
    fn the_search_copies_what_one_channel_cannot_saturate() {
        let table = [
            ((6, 40.0, 80), (12, 20.0)),
            ((4, 40.0, 80), (8, 20.0)),
            ((6, 60.0, 90), (12, 30.0)),
            ((8, 24.0, 80), (8, 24.0)),
            ((8, 48.0, 90), (8, 48.0)),
            ((1, 48.0, 90), (2, 24.0)),
            ((20, 40.0, 80), (32, 20.0)),
            ((0, 0.0, 80), (0, 0.0)),
        ];
        for ((channels, intra, capability), expected) in table {
            assert_eq!(
                duplicate(channels, intra, capability, MAX_CHANNELS / 2),
                expected,
                "{channels} of {intra}"
            );
        }
    }

    fn count(version: Version, base: usize, limits: Limits, facts: Facts) -> usize {
        final_channels(version, base, limits, &facts)
    }

    #[test]
    fn each_rule_has_its_place() {
        let hopper = Facts { compute_capability: 90, n_nodes: 2, ring_intra: 48.0, ..Facts::default() };
        let none = Limits::default();
        let most = |n| Limits { max_channels: Some(n), ..none };
        let table = [
            (8, none, hopper, 16),
            (2, none, hopper, 8),
            (2, none, Facts { n_nodes: 1, ..hopper }, 4),
            (2, none, Facts { ring_intra: 45.0, ..hopper }, 4),
            (2, none, Facts { compute_capability: 80, ..hopper }, 4),
            (2, none, Facts { collnet: true, ..hopper }, 12),
            (2, none, Facts { unpack: true, ..hopper }, 16),
            (2, most(3), hopper, 3),
            (2, Limits { min_channels: Some(12), ..most(3) }, hopper, 12),
            (2, none, Facts { shared: Some((4, false)), ..hopper }, 4),
            (2, Limits { min_channels: Some(12), ..none }, Facts { shared: Some((6, true)), ..hopper }, 6),
            (8, none, Facts { args_bytes: Some(32 + 16 * 5), ..hopper }, 5),
            (8, none, Facts { args_bytes: Some(0), ..hopper }, 1),
            (40, none, hopper, 64),
        ];
        for (base, limits, facts, expected) in table {
            for version in Version::ALL {
                assert_eq!(
                    count(version, base, limits, facts),
                    expected,
                    "{version:?} {base} {limits:?} {facts:?}"
                );
            }
        }
    }

    #[test]
    fn channels_of_nvls_raise_the_others_up_to_2_27() {
        let facts = Facts { compute_capability: 90, n_nodes: 1, nvls_channels: 16, ..Facts::default() };
        let counts = Version::ALL.map(|version| count(version, 2, Limits::default(), facts));
        assert_eq!(counts, [16, 4, 4, 4]);
    }
}
