//! How much memory can still be had. Anonymous shared memory has no limit of its own: whoever asks for more than there is
//! gets no error, but has the kernel kill processes. So every reservation asks here first.

/// Kept free for everybody else: 1/32 of the memory.
const RESERVE_SHARE: u64 = 32;

/// Bytes that can be reserved now; all there are where the kernel does not tell.
pub(super) fn bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let (Some(available), Some(total)) = (field(&text, "MemAvailable:"), field(&text, "MemTotal:")) else {
        return u64::MAX;
    };
    available.saturating_sub(total / RESERVE_SHARE)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_estimate_is_read_in_bytes() {
        assert_eq!(field("MemTotal: 9 kB\nMemAvailable:   12 kB\n", "MemAvailable:"), Some(12 * 1024));
        assert_eq!(field("MemTotal: 9 kB\n", "MemAvailable:"), None);
    }
}
