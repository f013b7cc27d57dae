//! How much memory can still be had. Anonymous shared memory has no limit of its own: whoever asks for more than there
//! is gets no error, but has the kernel kill processes, others' too. So every reservation asks here first.

use std::path::Path;

/// Kept free for everybody else: 1/32 of the memory, where nothing else bounds it.
const RESERVE_SHARE: u64 = 32;

/// Bytes that can be reserved now. Never more than the machine's free memory where the kernel says nothing better.
pub(crate) fn bytes() -> u64 {
    let system = rustix::system::sysinfo();
    // `unsigned long` in C: 64 bits where this library runs, 32 elsewhere.
    let in_bytes = |units: u64| units.saturating_mul(u64::from(system.mem_unit));
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = mem_available(&meminfo).unwrap_or(in_bytes(system.freeram));
    let kept = in_bytes(system.totalram) / RESERVE_SHARE;
    free.saturating_sub(kept).min(group_bytes().unwrap_or(u64::MAX))
}

fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// What the limits of the control group and of those above it leave; none without a limit (version 2 of the interface).
fn group_bytes() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = Path::new("/sys/fs/cgroup").join(own.trim_start_matches('/'));
    let number = |path: &Path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    own.ancestors()
        .take_while(|group| group.starts_with("/sys/fs/cgroup"))
        .filter_map(|group| {
            let limit = number(&group.join("memory.max"))?;
            Some(limit.saturating_sub(number(&group.join("memory.current")).unwrap_or(0)))
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_estimate_is_read_in_bytes() {
        assert_eq!(mem_available("MemTotal: 9 kB\nMemAvailable:   12 kB\n"), Some(12 * 1024));
        assert_eq!(mem_available("MemTotal: 9 kB\n"), None);
    }

    #[test]
    fn there_is_less_than_the_machine_has() {
        let total = rustix::system::sysinfo().totalram;
        assert!(bytes() > 0 && bytes() < total);
    }
}
