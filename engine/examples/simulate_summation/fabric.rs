//! Ports of NICs that serve in the order of asking.

/// Nanoseconds from the beginning of the step.
pub(crate) type Nanos = u64;

/// What every NIC costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nic {
    bytes_per_s: f64,
    nanos_per_byte: f64,
    /// From machine to machine.
    pub(crate) latency: Nanos,
}

/// One direction of a NIC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Port {
    free_at: Nanos,
}

impl Nic {
    /// None where a number makes no sense.
    pub(crate) fn new(bytes_per_s: f64, latency_us: f64) -> Option<Self> {
        let latency = nanos(latency_us / 1e6)?;
        (bytes_per_s >= 1.0).then_some(Self { bytes_per_s, nanos_per_byte: 1e9 / bytes_per_s, latency })
    }

    /// The rate as a placement takes it.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "too much is refused later")]
    pub(crate) fn whole_bytes_per_s(self) -> u64 {
        self.bytes_per_s as u64
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes of a part")]
    fn cost(self, bytes: u64) -> Nanos {
        (bytes as f64 * self.nanos_per_byte).round() as Nanos
    }
}

impl Port {
    /// Serves who asks now: when that begins and ends.
    pub(crate) fn serve(&mut self, nic: Nic, bytes: u64, now: Nanos) -> (Nanos, Nanos) {
        let begins = self.free_at.max(now);
        self.free_at = begins + nic.cost(bytes);
        (begins, self.free_at)
    }
}

/// None of what is no time, or a longer one than a year.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
pub(crate) fn nanos(seconds: f64) -> Option<Nanos> {
    (0.0..31_536_000.0).contains(&seconds).then_some((seconds * 1e9).round() as Nanos)
}
