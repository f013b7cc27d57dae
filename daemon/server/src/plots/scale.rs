//! Axes: where ticks are and what they say.

use time::OffsetDateTime;
use time::macros::format_description;

use super::layout::to_f64;

/// What a value is counted in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Unit {
    Bytes,
    BytesPerSecond,
}

/// A unit that fits the largest value: how much one of it is, and its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) one: f64,
    pub(super) name: &'static str,
}

impl Unit {
    /// GB/s are 10⁹ bytes per second; sizes go by 1024.
    pub(super) fn shown(self, largest: f64) -> Shown {
        let (step, names) = match self {
            Self::Bytes => (1024.0, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]),
            Self::BytesPerSecond => (1000.0, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s", "EB/s"]),
        };
        let mut shown = Shown { one: 1.0, name: names[0] };
        for name in &names[1..] {
            if largest < shown.one * step {
                break;
            }
            shown = Shown { one: shown.one * step, name };
        }
        shown
    }

    /// A value in words: "3.2 GB/s".
    #[must_use]
    pub fn words(self, value: f64) -> String {
        let shown = self.shown(value);
        format!("{:.1} {}", value / shown.one, shown.name)
    }
}

/// From 0 to at least `largest`, in steps of 1, 2 or 5 of some power of ten, about `wanted` of them.
pub(super) fn value_ticks(largest: f64, wanted: f64) -> Vec<f64> {
    let largest = if largest > 0.0 { largest } else { 1.0 };
    let rough = largest / wanted;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|one| one * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(power * 10.0);
    (0..TICKS_MAX)
        .map(|index| to_f64(index) * step)
        .scan(false, |is_done, tick| {
            let was_done = std::mem::replace(is_done, tick >= largest);
            (!was_done).then_some(tick)
        })
        .collect()
}

/// A tick's number, with as many digits as its step needs.
pub(super) fn value_label(value: f64, step: f64) -> String {
    let digits = if step >= 1.0 { 0 } else { 1 + usize::from(step < 0.1) + usize::from(step < 0.01) };
    format!("{value:.digits$}")
}

/// Times on round minutes or hours, at most `wanted`, milliseconds since 1970.
pub(super) fn time_ticks(from_ms: u64, to_ms: u64, wanted: u64) -> Vec<u64> {
    let rough = to_ms.saturating_sub(from_ms) / wanted.max(1);
    let step = TIME_STEPS_MS.into_iter().find(|step| *step >= rough).unwrap_or(rough.max(1));
    (from_ms.div_ceil(step)..=to_ms / step).map(|tick| tick * step).take(TICKS_MAX).collect()
}

/// A time as the axis shows it: as short as the whole time range lets it.
pub(super) fn time_label(at_ms: u64, range_ms: u64) -> String {
    let format = match range_ms {
        0..=600_000 => format_description!("[hour]:[minute]:[second]"),
        600_001..=172_800_000 => format_description!("[hour]:[minute]"),
        _ => format_description!("[month repr:short] [day] [hour]:[minute]"),
    };
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_ms) * 1_000_000);
    time.ok().and_then(|time| time.format(&format).ok()).unwrap_or_default()
}

/// No axis has room for more.
const TICKS_MAX: usize = 64;
const TIME_STEPS_MS: [u64; 18] = [
    1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000,
    3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit() {
        for (unit, value, expected) in [
            (Unit::Bytes, 0.0, "0.0 B"),
            (Unit::Bytes, 1536.0, "1.5 KiB"),
            (Unit::BytesPerSecond, 47.3e9, "47.3 GB/s"),
            (Unit::BytesPerSecond, 999.0, "999.0 B/s"),
        ] {
            assert_eq!(unit.words(value), expected);
        }
    }

    #[test]
    fn values_have_round_ticks_that_reach_the_largest() {
        assert_eq!(value_ticks(9.0, 5.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(value_ticks(0.0, 4.0).last(), Some(&1.0));
        for largest in [0.013, 1.0, 47.3, 999.9, 4e15] {
            let ticks = value_ticks(largest, 5.0);
            assert!(ticks.len() <= 7 && *ticks.last().unwrap() >= largest, "{largest} {ticks:?}");
        }
    }

    #[test]
    fn times_have_round_ticks() {
        let noon = 1_769_860_800_000;
        let ticks = time_ticks(noon + 1, noon + 900_000, 6);
        let labels: Vec<String> = ticks.iter().map(|tick| time_label(*tick, 900_000)).collect();
        assert_eq!(labels, ["12:05", "12:10", "12:15"]);
        assert_eq!(time_label(noon, 5000), "12:00:00");
        assert_eq!(time_label(noon, 7 * 86_400_000), "Jan 31 12:00");
        assert!(time_ticks(0, u64::MAX, 5).len() <= TICKS_MAX);
    }
}
