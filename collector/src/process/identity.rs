//! The fixed part of the segment: who this process is.

use std::fs;
use std::path::Path;

use ringscope_wire::launch::Slurm;
use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{Fixed, MAGIC, Scheduled, VERSION};

use crate::process::config::Config;
use crate::segment::ticks::Anchor;

/// Jiffies per second in `/proc`: `USER_HZ`, 100 on every architecture that this runs on.
const USER_HZ: u64 = 100;

/// Fills the fixed part.
pub(crate) fn fixed(config: &Config, anchor: &Anchor) -> Fixed {
    let launch = &config.launch;
    let host = if launch.host.is_empty() { host_name() } else { launch.host.clone() };
    Fixed {
        magic: MAGIC,
        version: VERSION,
        pid: std::process::id(),
        segment_bytes: size_of::<Segment>() as u64,
        start_time_ns: start_time_ns().unwrap_or(anchor.wall_ns),
        anchor_ticks: anchor.ticks,
        anchor_monotonic_ns: anchor.monotonic_ns,
        anchor_wall_ns: anchor.wall_ns,
        tick_kind: anchor.tick_kind,
        global_rank: rank(launch.global_rank),
        world_size: rank(launch.world_size),
        local_rank: rank(launch.local_rank),
        host: padded(&host),
        job: padded(&launch.job),
        run_id: padded(&config.run_id),
        executable: padded(&executable()),
        k8s_namespace: padded(&launch.scheduled.k8s_namespace),
        k8s_pod: padded(&launch.scheduled.k8s_pod),
        log_file: padded(&config.log_file),
        // Known once there is a file.
        user: 0,
    }
}

/// Fills what a scheduler has said of it.
pub(crate) fn scheduled(config: &Config) -> Scheduled {
    let told = &config.launch.scheduled;
    let slurm = told.slurm.as_ref();
    let number = |number: Option<u32>| number.map_or(0, |number| number.saturating_add(1));
    let of_slurm = |which: fn(&Slurm) -> Option<u32>| number(slurm.and_then(which));
    Scheduled {
        k8s_pod: padded(&told.k8s_pod),
        k8s_node: padded(&told.k8s_node),
        k8s_container: padded(&told.k8s_container),
        slurm_node: padded(slurm.map_or("", |slurm| &slurm.node)),
        slurm_job_id: of_slurm(|slurm| Some(slurm.job_id)),
        slurm_step_id: of_slurm(|slurm| slurm.step_id),
        slurm_array_job_id: of_slurm(|slurm| slurm.array_job_id),
        slurm_array_task_id: of_slurm(|slurm| slurm.array_task_id),
        slurm_het_job_id: of_slurm(|slurm| slurm.het_job_id),
        slurm_het_component: of_slurm(|slurm| slurm.het_component),
        slurm_restarts: of_slurm(|slurm| slurm.restarts),
        reserved: 0,
    }
}

fn rank(rank: Option<u32>) -> i32 {
    rank.and_then(|rank| i32::try_from(rank).ok()).unwrap_or(-1)
}

fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned()).unwrap_or_default()
}

fn executable() -> String {
    let path = fs::read_link("/proc/self/exe").unwrap_or_default();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    name.or_else(|| fs::read_to_string("/proc/self/comm").ok().map(|name| name.trim().to_owned()))
        .unwrap_or_default()
}

/// Wall time at which the process started. The kernel gives it in jiffies after a boot time in seconds: it is right
/// to 10 ms against other processes, and to a second against the wall clock. An `exec` does not change it.
fn start_time_ns() -> Option<u64> {
    start_time_of(&read("/proc/self/stat")?, &read("/proc/stat")?)
}

pub(super) fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn start_time_of(self_stat: &str, stat: &str) -> Option<u64> {
    let jiffies = field(self_stat, 22)?;
    let boot: u64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    boot.checked_mul(1_000_000_000)?.checked_add(jiffies.checked_mul(1_000_000_000 / USER_HZ)?)
}

/// A numbered field of `/proc/self/stat`, as proc(5) numbers them, from the third on: the second one, the command in parentheses, may
/// itself hold spaces and parentheses.
pub(super) fn field(self_stat: &str, number: usize) -> Option<u64> {
    let after_command = self_stat.get(self_stat.rfind(')')? + 1..)?;
    after_command.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// Cuts a text to fit, between characters, and pads it with NUL.
fn padded<const N: usize>(text: &str) -> [u8; N] {
    let end = (0..=text.len().min(N)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    let mut bytes = [0; N];
    bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(padded::<4>("abc"), *b"abc\0");
        assert_eq!(padded::<4>("abcdef"), *b"abcd");
        assert_eq!(padded::<4>("abcß"), *b"abc\0");
    }

    #[test]
    fn the_start_time_survives_a_hostile_command_name() {
        let self_stat = "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 250 0 0";
        assert_eq!(start_time_of(self_stat, "cpu 1\nbtime 100\n"), Some(102_500_000_000));
        assert_eq!(start_time_of("", "btime 100"), None);
        assert_eq!(start_time_of(self_stat, ""), None);
    }
}
