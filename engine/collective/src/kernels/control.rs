//! The processor's rules for floats of this thread. A thread has those of the one that started it, which a program may have
//! told to flush denormals to zero (`torch.set_flush_denormal`): sums would then depend on who makes them.

#![expect(unsafe_code, reason = "a control register")]

/// From now on this thread rounds to nearest and keeps denormals, as all programs do from their start.
pub fn use_standard_floats() {
    #[cfg(target_arch = "x86_64")]
    {
        // All exceptions are masked, no bit of FTZ or DAZ is set.
        let standard = 0x1f80_u32;
        // SAFETY: reads four bytes; what is set is what compiled code takes for granted.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const standard, options(nostack, readonly));
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: what is set is what compiled code takes for granted.
        unsafe {
            std::arch::asm!("msr fpcr, {}", in(reg) 0_u64, options(nomem, nostack));
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn a_thread_of_one_that_flushes_denormals_keeps_them() {
        let flushing = || {
            let flushed = 0x9fc0_u32;
            // SAFETY: reads four bytes; the thread ends with what it sets.
            unsafe {
                std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const flushed, options(nostack, readonly));
            }
            let sum = || black_box(black_box(1e-40_f32) + black_box(2e-40_f32));
            let in_child = std::thread::spawn(move || {
                let before = sum();
                use_standard_floats();
                (before, sum())
            });
            in_child.join().unwrap()
        };
        let (before, after) = std::thread::spawn(flushing).join().unwrap();
        assert_eq!((before.to_bits(), after > 2e-40), (0, true));
    }
}
