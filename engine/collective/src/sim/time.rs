//! Simulated time: whole picoseconds, since a byte takes 1 to 100 of them and rounding must not add up over 10^9 steps.

use std::time::Duration;

/// Picoseconds since the operation began on all ranks.
pub(super) type Picos = u64;

/// What a byte takes at a rate; nothing at an infinite one.
pub(super) fn picos_per_byte(bytes_per_s: f64) -> f64 {
    1e12 / bytes_per_s
}

/// How long `bytes` take.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float too large for the target becomes its maximum, and no cost is negative"
)]
pub(super) fn duration(bytes: u64, picos_per_byte: f64) -> Picos {
    (bytes as f64 * picos_per_byte + 0.5) as Picos
}

/// The same moment in the simulation's unit; 213 days at most.
pub(super) fn from_duration(wait: Duration) -> Picos {
    u64::try_from(wait.as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX)
}

/// The same moment for the outside.
pub(super) fn to_duration(at: Picos) -> Duration {
    Duration::from_nanos(at.div_ceil(1000))
}
