//! How many channels a communicator should run on, and why a rank runs on what it does.
//!
//! The library's own sequence (NCCL `ncclTopoPostset`, `src/graph/connect.cc`): the lowest search result of all ranks,
//! doubled, then bounded by the settings, the upper bound first. Each part of it is a [`Step`] here; the rules of
//! Hopper, CollNet, unpack and NVLS go between doubling and bounds.

use std::collections::BTreeMap;

use crate::model::Name;

/// The most channels there are: MAXCHANNELS since NCCL 2.25 (32 before, where no search gets beyond 16).
pub const MAX_CHANNELS: u32 = 64;

/// Why a rank runs on as many channels as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The usual: twice what it found.
    Doubled,
    /// A peer found fewer.
    CappedByPeer,
    /// A setting bounds it from above.
    MaxNchannels,
    /// A setting bounds it from below.
    MinNchannels,
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
            Self::MaxNchannels => "max_nchannels",
            Self::MinNchannels => "min_nchannels",
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The lowest upper bound.
    pub max: Option<Bound>,
    /// The highest lower bound.
    pub min: Option<Bound>,
}

impl Bounds {
    /// Reads NCCL's settings, and those of ringscope's engine, which go before. (NCCL `ncclMinNchannels`,
    /// `ncclMaxNchannels`: NCHANNELS replaces the older NRINGS; CTAS bounds beside them.)
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
        let bound = |(name, value): (Name, i64)| {
            let channels = u32::try_from(value.clamp(1, i64::from(MAX_CHANNELS))).unwrap_or(MAX_CHANNELS);
            Bound { name, channels }
        };
        let each = |one: &[&str], other: &[&str]| [first(one), first(other)].into_iter().flatten().map(bound);
        Self {
            max: each(&["MAX_NCHANNELS", "MAX_NRINGS"], &["MAX_CTAS"]).min_by_key(|bound| bound.channels),
            min: each(&["MIN_NCHANNELS", "MIN_NRINGS"], &["MIN_CTAS"]).max_by_key(|bound| bound.channels),
        }
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

/// The rules that change the number, in the library's order; the last one gives the prediction.
#[must_use]
pub fn steps(base: u32, bounds: &Bounds) -> Vec<Step> {
    let mut steps = vec![Step { cause: Cause::Doubled, channels: base.saturating_mul(2).min(MAX_CHANNELS) }];
    let mut step = |cause, change: &dyn Fn(u32) -> u32| {
        let before = steps.last().map_or(0, |step| step.channels);
        let channels = change(before);
        if channels != before {
            steps.push(Step { cause, channels });
        }
    };
    if let Some(max) = &bounds.max {
        step(Cause::MaxNchannels, &|channels| channels.min(max.channels));
    }
    if let Some(min) = &bounds.min {
        step(Cause::MinNchannels, &|channels| channels.max(min.channels));
    }
    steps
}

/// Channels that a communicator with this lowest search result should run on.
#[must_use]
pub fn predict(base: u32, bounds: &Bounds) -> u32 {
    steps(base, bounds).last().map_or(0, |step| step.channels)
}

/// Why a rank that found `init` runs on `final_channels`. `base`: the lowest that any rank found.
#[must_use]
pub fn cause(init: Option<u32>, final_channels: Option<u32>, base: Option<u32>, bounds: &Bounds) -> Cause {
    let (Some(init), Some(final_channels), Some(base)) = (init, final_channels, base) else {
        return Cause::Unknown;
    };
    match steps(base, bounds).last() {
        Some(step) if step.channels != final_channels => Cause::Unexplained,
        // Alone it would run on more. If not, a setting holds it anyway, and no peer matters.
        Some(_) if init > base && predict(init, bounds) > final_channels => Cause::CappedByPeer,
        Some(step) => step.cause,
        None => Cause::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(set: &[(&str, i64)]) -> Bounds {
        Bounds::of(&set.iter().map(|(name, value)| (Name::from(*name), *value)).collect())
    }

    #[test]
    fn predictions() {
        let check = |base, set: &[(&str, i64)], expected| {
            assert_eq!(predict(base, &settings(set)), expected, "{base} {set:?}");
        };
        check(0, &[], 0);
        check(1, &[], 2);
        check(12, &[], 24);
        check(33, &[], 64);
        check(u32::MAX, &[], 64);
        check(4, &[("NCCL_MAX_NCHANNELS", 2)], 2);
        check(4, &[("RSCCL_MAX_NCHANNELS", 6)], 6);
        check(4, &[("NCCL_MAX_NCHANNELS", 0)], 1);
        check(4, &[("NCCL_MAX_NCHANNELS", -2)], 8);
        check(4, &[("NCCL_MAX_NRINGS", 3)], 3);
        check(4, &[("NCCL_MAX_NRINGS", 3), ("NCCL_MAX_NCHANNELS", 5)], 5);
        check(4, &[("NCCL_MAX_CTAS", 3), ("NCCL_MAX_NCHANNELS", 5)], 3);
        check(1, &[("NCCL_MIN_NCHANNELS", 8)], 8);
        check(1, &[("NCCL_MIN_NCHANNELS", 100)], 64);
        check(1, &[("NCCL_MIN_CTAS", 16), ("NCCL_MIN_NCHANNELS", 8)], 16);
        check(1, &[("NCCL_MAX_NCHANNELS", 2), ("NCCL_MIN_NCHANNELS", 8)], 8);
        check(8, &[("NCCL_MIN_NCHANNELS", 2)], 16);
        check(8, &[("NCCL_DEBUG", 2)], 16);
    }

    #[test]
    fn causes() {
        let check = |init, final_channels, base, set: &[(&str, i64)], expected| {
            assert_eq!(
                cause(init, final_channels, base, &settings(set)),
                expected,
                "{init:?} {final_channels:?} {base:?} {set:?}"
            );
        };
        check(Some(2), Some(4), Some(2), &[], Cause::Doubled);
        check(Some(40), Some(64), Some(40), &[], Cause::Doubled);
        check(Some(2), Some(2), Some(1), &[], Cause::CappedByPeer);
        check(Some(1), Some(2), Some(1), &[], Cause::Doubled);
        check(Some(4), Some(2), Some(4), &[("NCCL_MAX_NCHANNELS", 2)], Cause::MaxNchannels);
        check(Some(4), Some(3), Some(2), &[("NCCL_MAX_NCHANNELS", 3)], Cause::MaxNchannels);
        check(Some(4), Some(4), Some(2), &[("NCCL_MAX_NCHANNELS", 6)], Cause::CappedByPeer);
        check(Some(1), Some(8), Some(1), &[("NCCL_MIN_NCHANNELS", 8)], Cause::MinNchannels);
        check(Some(1), Some(8), Some(1), &[("NCCL_MIN_NCHANNELS", 6)], Cause::Unexplained);
        check(Some(1), Some(4), Some(1), &[], Cause::Unexplained);
        check(Some(4), Some(3), Some(4), &[], Cause::Unexplained);
        check(None, Some(4), Some(2), &[], Cause::Unknown);
        check(Some(2), None, Some(2), &[], Cause::Unknown);
        check(Some(2), Some(4), None, &[], Cause::Unknown);
    }
}
