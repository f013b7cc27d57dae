//! Reads the tick counter of the machine: the agent's half of the clock anchor in a segment.

#![expect(unsafe_code, reason = "the counter is read by an intrinsic or one instruction")]

/// One reading of the counter and of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) ticks: u64,
    pub(super) monotonic_ns: u64,
}

/// Both clocks, now.
pub(super) fn reading() -> Reading {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or_default();
    let monotonic_ns = seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
    Reading { ticks: ticks(monotonic_ns), monotonic_ns }
}

#[cfg(target_arch = "x86_64")]
fn ticks(_: u64) -> u64 {
    // SAFETY: every x86-64 processor has RDTSC, and it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn ticks(_: u64) -> u64 {
    let ticks: u64;
    // SAFETY: the kernel lets user space read the virtual counter; the instruction touches no memory.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// Elsewhere collectors use `CLOCK_MONOTONIC` as their counter.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn ticks(monotonic_ns: u64) -> u64 {
    monotonic_ns
}
