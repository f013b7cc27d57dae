//! The clock of records: the processor's constant-rate counter where there is one, else `CLOCK_MONOTONIC`.

#![expect(unsafe_code, reason = "reads the processor's counter and the system's clocks")]

use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::segment::layout::{Fixed, TICKS_COUNTER, TICKS_MONOTONIC_NS};

static HAS_COUNTER: AtomicBool = AtomicBool::new(false);

/// Readings tried for the anchor: the one least disturbed is kept.
const ANCHOR_TRIES: usize = 8;

/// The same instant on every clock.
pub(crate) struct Anchor {
    /// One of `layout::TICKS_*`.
    pub(crate) tick_kind: u32,
    pub(crate) ticks: u64,
    pub(crate) monotonic_ns: u64,
    pub(crate) wall_ns: u64,
}

/// Now, in ticks.
#[inline(always)]
pub(crate) fn now() -> u64 {
    if HAS_COUNTER.load(Relaxed) { counter() } else { clock_ns(libc::CLOCK_MONOTONIC) }
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The ticks of so many nanoseconds, by the clocks' rates since a segment's anchor.
pub(crate) fn of_duration(fixed: &Fixed, ns: u64) -> u64 {
    if fixed.tick_kind == TICKS_MONOTONIC_NS {
        return ns;
    }
    let ticks = u128::from(now().saturating_sub(fixed.anchor_ticks));
    let elapsed_ns = u128::from(monotonic_ns().saturating_sub(fixed.anchor_monotonic_ns)).max(1);
    u64::try_from(u128::from(ns) * ticks / elapsed_ns).unwrap_or(u64::MAX)
}

/// Settles what a tick is, and reads all clocks at once. Before the first call ticks are nanoseconds.
pub(crate) fn anchor() -> Anchor {
    HAS_COUNTER.store(has_constant_counter() && !is_distrusted(), Relaxed);
    let mut best = (u64::MAX, reading().1);
    for _ in 0..ANCHOR_TRIES {
        let (spread, anchor) = reading();
        if spread < best.0 {
            best = (spread, anchor);
        }
    }
    best.1
}

/// Whether the kernel keeps time by a device because the counter is not alike on all processors: then a thread that moves
/// to another one would see time go back. In a guest it keeps time by what the host gives, which is made of the counter.
fn is_distrusted() -> bool {
    const DEVICES: [&[u8]; 5] = [b"hpet", b"acpi_pm", b"pit", b"jiffies", b"refined-jiffies"];
    let source = fs::read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    source.is_ok_and(|name| DEVICES.contains(&name.trim_ascii()))
}

fn reading() -> (u64, Anchor) {
    let before = now();
    let monotonic_ns = clock_ns(libc::CLOCK_MONOTONIC);
    let wall_ns = clock_ns(libc::CLOCK_REALTIME);
    let spread = now().saturating_sub(before);
    let has_counter = HAS_COUNTER.load(Relaxed);
    let (tick_kind, ticks) =
        if has_counter { (TICKS_COUNTER, before + spread / 2) } else { (TICKS_MONOTONIC_NS, monotonic_ns) };
    (spread, Anchor { tick_kind, ticks, monotonic_ns, wall_ns })
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // As a rule through the vDSO, without entering the kernel.
    // SAFETY: `time` is a valid place for the answer.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has `rdtsc`; Linux lets user code read it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Whether the counter runs at one rate in every power state (CPUID 0x80000007, EDX bit 8).
#[cfg(target_arch = "x86_64")]
fn has_constant_counter() -> bool {
    use std::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: the virtual counter is readable from user code on Linux.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// The architecture defines the counter to run at one rate.
#[cfg(target_arch = "aarch64")]
fn has_constant_counter() -> bool {
    true
}
