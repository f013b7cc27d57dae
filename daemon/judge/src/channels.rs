//! What there is to say of why a rank runs on as many channels as it does, and the settings that bound them. The rules
//! themselves are in [`super::predict`].

use std::collections::BTreeMap;

use ringscope_model::Name;

use super::version::Rules;

/// The most channels there are: MAXCHANNELS since NCCL 2.25.
pub const MAX_CHANNELS: u32 = 64;

/// Why a rank runs on as many channels as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The usual: twice what it found.
    Doubled,
    /// A peer found fewer.
    CappedByPeer,
    /// Twice what it found, though a peer found fewer: other rules make up for it.
    Coincidence,
    /// There are no more: MAXCHANNELS.
    MaxChannels,
    /// A setting bounds it from above.
    MaxNchannels,
    /// A setting bounds it from below.
    MinNchannels,
    /// CollNet adds half as many.
    Collnet,
    /// Hopper doubles again.
    Hopper,
    /// Hopper would double again, but for a peer.
    HopperOffByPeer,
    /// A network device that unpacks doubles again.
    Unpack,
    /// NVLS needs more.
    NvlsRaise,
    /// It shares the channels of the communicator that it was split from.
    SharedParent,
    /// RCCL has other rules.
    Rccl,
    /// None of the rules gives this number.
    Unexplained,
    /// Not everything is known that the rules need.
    Unknown,
}

impl Cause {
    /// The word used in labels and in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Doubled => "doubled",
            Self::CappedByPeer => "capped_by_peer",
            Self::Coincidence => "coincidence",
            Self::MaxChannels => "max_channels",
            Self::MaxNchannels => "max_nchannels",
            Self::MinNchannels => "min_nchannels",
            Self::Collnet => "collnet_x1.5",
            Self::Hopper => "hopper_x2",
            Self::HopperOffByPeer => "hopper_off_by_peer",
            Self::Unpack => "unpack_x2",
            Self::NvlsRaise => "nvls_raise",
            Self::SharedParent => "shared_parent",
            Self::Rccl => "rccl",
            Self::Unexplained => "unexplained",
            Self::Unknown => "unknown",
        }
    }
}

/// A setting that bounds the channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Its name as it was set, e.g. `NCCL_MIN_NCHANNELS`.
    pub name: Name,
    /// Channels.
    pub channels: u32,
}

/// The settings that bound the channels of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// `MAX_NCHANNELS`, else `MAX_NRINGS`.
    pub max_nchannels: Option<Bound>,
    /// `MIN_NCHANNELS`, else `MIN_NRINGS`.
    pub min_nchannels: Option<Bound>,
    /// `MAX_CTAS`, else `maxCTAs` of the program's own configuration.
    pub max_ctas: Option<Bound>,
    /// `MIN_CTAS`, else `minCTAs` of the program's own configuration.
    pub min_ctas: Option<Bound>,
    /// Channels that fit into `WORK_ARGS_BYTES`.
    pub args_bytes: Option<Bound>,
    /// `UNPACK_DOUBLE_NCHANNELS` is not switched off.
    pub doubles_unpack: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        let (max_nchannels, min_nchannels, max_ctas, min_ctas, args_bytes) = (None, None, None, None, None);
        Self { max_nchannels, min_nchannels, max_ctas, min_ctas, args_bytes, doubles_unpack: true }
    }
}

impl Bounds {
    /// Reads NCCL's settings, and those of ringscope's engine, which go before. (NCCL `ncclMinNchannels`,
    /// `ncclMaxNchannels`: NCHANNELS replaces the older NRINGS; CTAS bounds beside them, and replaces what the program put
    /// into `ncclConfig_t`: `envConfigOverride`.)
    #[must_use]
    pub fn of(settings: &BTreeMap<Name, i64>) -> Self {
        if settings.is_empty() {
            return Self::default();
        }
        let first = |names: &[&str]| {
            let prefixed =
                names.iter().flat_map(|name| ["RSCCL_", "NCCL_"].map(|prefix| format!("{prefix}{name}")));
            let set = prefixed.filter_map(|name| settings.get_key_value(name.as_str()));
            // NCCL marks what is not set by -2, or by the lowest number of an int.
            set.filter(|(_, value)| **value >= 0).map(|(name, value)| (name.clone(), *value)).next()
        };
        let config = |name: &str| {
            let set = settings.get_key_value(name).filter(|(_, value)| **value >= 0);
            set.map(|(name, value)| (name.clone(), *value))
        };
        let bound = |(name, value): (Name, i64)| {
            let channels = u32::try_from(value.clamp(1, i64::from(MAX_CHANNELS))).unwrap_or(MAX_CHANNELS);
            Bound { name, channels }
        };
        let fitting = |bytes: i64| (bytes - ARGS_HEAD_BYTES).max(0) / ARGS_BATCH_BYTES;
        let max_ctas = first(&["MAX_CTAS"]).or_else(|| config(CONFIG_MAX_CTAS)).map(bound);
        let min_ctas = first(&["MIN_CTAS"]).or_else(|| config(CONFIG_MIN_CTAS)).map(bound);
        // The library lets the larger of both go, also where one comes from the program and one from the environment.
        let most_ctas = max_ctas.as_ref().map_or(MAX_CHANNELS, |bound| bound.channels);
        let min_ctas = min_ctas.map(|bound| Bound { channels: bound.channels.min(most_ctas), ..bound });
        Self {
            max_nchannels: first(&["MAX_NCHANNELS", "MAX_NRINGS"]).map(bound),
            min_nchannels: first(&["MIN_NCHANNELS", "MIN_NRINGS"]).map(bound),
            max_ctas,
            min_ctas,
            args_bytes: first(&["WORK_ARGS_BYTES"]).map(|(name, bytes)| bound((name, fitting(bytes)))),
            doubles_unpack: first(&["UNPACK_DOUBLE_NCHANNELS"]).is_none_or(|(_, value)| value != 0),
        }
    }

    /// The lowest upper bound that a version knows.
    #[must_use]
    pub fn max(&self, rules: &Rules) -> Option<&Bound> {
        let args = self.args_bytes.as_ref().filter(|_| rules.args_bytes);
        let ctas = self.max_ctas.as_ref().filter(|_| rules.ctas);
        [self.max_nchannels.as_ref(), args, ctas].into_iter().flatten().min_by_key(|bound| bound.channels)
    }

    /// The highest lower bound that a version knows.
    #[must_use]
    pub fn min(&self, rules: &Rules) -> Option<&Bound> {
        let ctas = self.min_ctas.as_ref().filter(|_| rules.ctas);
        [self.min_nchannels.as_ref(), ctas].into_iter().flatten().max_by_key(|bound| bound.channels)
    }
}

/// A rule of the library that changed the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub cause: Cause,
    /// Channels after it.
    pub channels: u32,
}

/// Channels after the last step.
#[must_use]
pub fn last(steps: &[Step]) -> u32 {
    steps.last().map_or(0, |step| step.channels)
}

/// `minCTAs` and `maxCTAs` of a communicator's `ncclConfig_t`, as agents name them among the settings.
const CONFIG_MIN_CTAS: &str = "config.minCTAs";
const CONFIG_MAX_CTAS: &str = "config.maxCTAs";

/// Sizes of NCCL's `ncclDevKernelArgs` and `ncclDevWorkBatch` (`src/include/device.h`), which share WORK_ARGS_BYTES:
/// see `ncclDevMaxChannelsForArgsBytes`.
const ARGS_HEAD_BYTES: i64 = 32;
const ARGS_BATCH_BYTES: i64 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;

    fn settings(set: &[(&str, i64)]) -> Bounds {
        Bounds::of(&set.iter().map(|(name, value)| (Name::from(*name), *value)).collect())
    }

    #[test]
    fn bounds_of_settings() {
        let newest = Version::nccl(2, 28, 9).rules();
        let check = |set: &[(&str, i64)], max: Option<u32>, min: Option<u32>| {
            let bounds = settings(set);
            let channels = |bound: Option<&Bound>| bound.map(|bound| bound.channels);
            assert_eq!((channels(bounds.max(&newest)), channels(bounds.min(&newest))), (max, min), "{set:?}");
        };
        check(&[], None, None);
        check(&[("NCCL_MAX_NCHANNELS", 2)], Some(2), None);
        check(&[("RSCCL_MAX_NCHANNELS", 6), ("NCCL_MAX_NCHANNELS", 2)], Some(6), None);
        check(&[("NCCL_MAX_NCHANNELS", 0)], Some(1), None);
        check(&[("NCCL_MAX_NCHANNELS", -2)], None, None);
        check(&[("NCCL_MAX_NRINGS", 3)], Some(3), None);
        check(&[("NCCL_MAX_NRINGS", 3), ("NCCL_MAX_NCHANNELS", 5)], Some(5), None);
        check(&[("NCCL_MAX_CTAS", 3), ("NCCL_MAX_NCHANNELS", 5)], Some(3), None);
        check(&[("NCCL_MIN_NCHANNELS", 100)], None, Some(64));
        check(&[("NCCL_MIN_CTAS", 16), ("NCCL_MIN_NCHANNELS", 8)], None, Some(16));
        check(&[("config.maxCTAs", 4), ("config.minCTAs", 2)], Some(4), Some(2));
        check(&[("config.maxCTAs", 4), ("NCCL_MAX_CTAS", 16)], Some(16), None);
        check(&[("config.minCTAs", 8), ("NCCL_MIN_CTAS", 2)], None, Some(2));
        check(&[("config.maxCTAs", 4), ("NCCL_MAX_NCHANNELS", 2)], Some(2), None);
        check(&[("config.minCTAs", 16), ("config.maxCTAs", 4)], Some(4), Some(4));
        check(&[("config.minCTAs", 16), ("NCCL_MAX_CTAS", 8)], Some(8), Some(8));
        check(&[("config.minCTAs", i64::from(i32::MIN))], None, None);
        check(&[("NCCL_WORK_ARGS_BYTES", 32)], Some(1), None);
        check(&[("NCCL_DEBUG", 2)], None, None);
        let ctas = settings(&[("NCCL_MAX_CTAS", 3), ("config.minCTAs", 3)]);
        let old = Version::nccl(2, 16, 0).rules();
        assert_eq!((ctas.max(&old), ctas.min(&old)), (None, None), "2.17 is the first that has them");
    }
}
