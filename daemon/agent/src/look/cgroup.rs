//! Memory of a process's cgroup, the kernel's counts of kills for lack of it, and how often its limit of processor time held it
//! back. Source: the kernel's Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and scheduler/sched-bwc.rst.

use std::path::{Component, Path, PathBuf};

/// A limit of version 1 that is none: pages times their size, just below 2^63.
const NO_LIMIT: u64 = 1 << 62;
/// Levels above a cgroup in which a limit is looked for.
const MAX_LEVELS: usize = 32;
/// Periods that say how often a limit holds it back.
const FEWEST_PERIODS: u64 = 10;
/// The kernel's files here are short.
const MAX_BYTES: u64 = 16 << 10;

/// What is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) bytes: Option<u64>,
    pub(super) limit_bytes: Option<u64>,
    pub(super) oom_kills: Option<u64>,
}

/// A limit of processor time, and what it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cpu {
    /// Thousandths of a processor.
    pub(super) limit_milli: u64,
    /// Periods in which the cgroup wanted processor time, and those of them in which it was held back.
    pub(super) periods: u64,
    pub(super) throttled_periods: u64,
}

impl Cpu {
    /// What it did since it was read before. `None`: that is too short to say, or it is another limit.
    pub(super) fn since(self, before: Self) -> Option<Self> {
        let periods = self.periods.checked_sub(before.periods)?;
        let throttled_periods = self.throttled_periods.checked_sub(before.throttled_periods)?;
        let is_enough = self.limit_milli == before.limit_milli && periods >= FEWEST_PERIODS;
        is_enough.then_some(Self { periods, throttled_periods, ..self })
    }
}

/// Reads the cgroup that `/proc/PID/cgroup` names. `root` is `/sys/fs/cgroup`.
pub(super) fn memory(cgroups: &str, root: &Path) -> Memory {
    if let Some(path) = path_of(cgroups, "memory") {
        return version_1(&root.join("memory"), path);
    }
    path_of(cgroups, "").map_or_else(Memory::default, |path| version_2(root, path))
}

/// The limit of processor time that held the same cgroup, or one above it, back most often. `None`: there is none.
pub(super) fn cpu(cgroups: &str, root: &Path) -> Option<Cpu> {
    let (root, path) = match path_of(cgroups, "cpu") {
        Some(path) => (root.join("cpu"), path),
        None => (root.to_owned(), path_of(cgroups, "")?),
    };
    let leaf = below(&root, path)?;
    let levels = leaf.ancestors().take(MAX_LEVELS).take_while(|level| level.starts_with(&root));
    let limits = levels.filter_map(|level| {
        let (quota, period) = quota(level)?;
        let count = |name| counter(&level.join("cpu.stat"), name).unwrap_or_default();
        Some(Cpu {
            limit_milli: quota.saturating_mul(1000).checked_div(period)?,
            periods: count("nr_periods"),
            throttled_periods: count("nr_throttled"),
        })
    });
    limits.max_by_key(|limit| limit.throttled_periods)
}

/// Microseconds of processor time in so many microseconds.
fn quota(level: &Path) -> Option<(u64, u64)> {
    if let Some(max) = text(&level.join("cpu.max")) {
        let (quota, period) = max.trim().split_once(' ')?;
        return Some((quota.parse().ok()?, period.parse().ok()?));
    }
    Some((number(&level.join("cpu.cfs_quota_us"))?, number(&level.join("cpu.cfs_period_us"))?))
}

/// The path in the hierarchy of a controller of version 1, or, without a name, of version 2.
fn path_of<'a>(cgroups: &'a str, controller: &str) -> Option<&'a str> {
    cgroups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|one| one == controller).then_some(path)
    })
}

fn version_2(root: &Path, path: &str) -> Memory {
    let Some(leaf) = below(root, path) else { return Memory::default() };
    let oom_kills = counter(&leaf.join("memory.events"), "oom_kill");
    // The limit that is reached first may be one of a cgroup above: that one's memory counts.
    let limited =
        leaf.ancestors().take(MAX_LEVELS).take_while(|level| level.starts_with(root)).filter_map(|level| {
            Some((number(&level.join("memory.max"))?, number(&level.join("memory.current"))?))
        });
    match limited.min_by_key(|(limit, used)| limit.saturating_sub(*used)) {
        Some((limit, used)) => Memory { bytes: Some(used), limit_bytes: Some(limit), oom_kills },
        None => Memory { bytes: number(&leaf.join("memory.current")), limit_bytes: None, oom_kills },
    }
}

fn version_1(root: &Path, path: &str) -> Memory {
    // In a container the controller shows only what belongs to it.
    let Some(leaf) = below(root, path).filter(|leaf| leaf.is_dir()).or_else(|| Some(root.to_owned())) else {
        return Memory::default();
    };
    Memory {
        bytes: number(&leaf.join("memory.usage_in_bytes")),
        limit_bytes: number(&leaf.join("memory.limit_in_bytes")).filter(|limit| *limit < NO_LIMIT),
        oom_kills: counter(&leaf.join("memory.oom_control"), "oom_kill"),
    }
}

/// A folder below `root`; `None` if the path leads out of it.
fn below(root: &Path, path: &str) -> Option<PathBuf> {
    let path = Path::new(path.trim_start_matches('/'));
    path.components().all(|part| matches!(part, Component::Normal(_))).then(|| root.join(path))
}

fn text(path: &Path) -> Option<String> {
    use std::io::Read as _;

    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

fn counter(path: &Path, name: &str) -> Option<u64> {
    text(path)?.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_limit_that_is_nearest_counts() {
        let root = tree(&[
            ("pod/memory.max", "1000\n"),
            ("pod/memory.current", "990\n"),
            ("pod/job/memory.max", "max\n"),
            ("pod/job/memory.current", "800\n"),
            ("pod/job/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n"),
        ]);
        let found = memory("0::/pod/job\n", root.path());
        let expected = Memory { bytes: Some(990), limit_bytes: Some(1000), oom_kills: Some(2) };
        assert_eq!(found, expected);
        std::fs::write(root.path().join("pod/memory.max"), "max\n").unwrap();
        assert_eq!(memory("0::/pod/job\n", root.path()).limit_bytes, None);
        assert_eq!(memory("0::/pod/job\n", root.path()).bytes, Some(800));
        assert_eq!(memory("0::/../../etc\n", root.path()), Memory::default(), "no way out");
        assert_eq!(memory("", root.path()), Memory::default());
    }

    #[test]
    fn version_1_is_read_too() {
        let root = tree(&[
            ("memory/a/memory.usage_in_bytes", "7\n"),
            ("memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"),
        ]);
        let found = memory("5:cpu,cpuacct:/b\n4:memory:/a\n0::/c\n", root.path());
        assert_eq!(found, Memory { bytes: Some(7), limit_bytes: None, oom_kills: Some(4) });
    }

    #[test]
    fn the_limit_that_held_it_back_most_counts() {
        let root = tree(&[
            ("pod/cpu.max", "20000 100000\n"),
            ("pod/cpu.stat", "usage_usec 5\nnr_periods 50\nnr_throttled 40\nthrottled_usec 9\n"),
            ("pod/job/cpu.max", "max 100000\n"),
            ("pod/job/cpu.stat", "nr_periods 0\nnr_throttled 0\n"),
        ]);
        let found = cpu("0::/pod/job\n", root.path());
        assert_eq!(found, Some(Cpu { limit_milli: 200, periods: 50, throttled_periods: 40 }));
        assert_eq!(cpu("0::/../../etc\n", root.path()), None, "no way out");
        let before = |periods, throttled_periods| Cpu { limit_milli: 200, periods, throttled_periods };
        assert_eq!(found.unwrap().since(before(38, 31)), Some(before(12, 9)), "of late");
        assert_eq!(found.unwrap().since(before(45, 40)), None, "too short");
        assert_eq!(found.unwrap().since(before(60, 40)), None, "made anew");
        assert_eq!(found.unwrap().since(Cpu { limit_milli: 100, ..before(10, 10) }), None, "another limit");
        let root = tree(&[
            ("cpu/a/cpu.cfs_quota_us", "150000\n"),
            ("cpu/a/cpu.cfs_period_us", "100000\n"),
            ("cpu/a/cpu.stat", "nr_periods 7\nnr_throttled 1\nthrottled_time 4\n"),
            ("cpu/b/cpu.cfs_quota_us", "-1\n"),
            ("cpu/b/cpu.cfs_period_us", "100000\n"),
        ]);
        let found = cpu("2:cpuacct:/x\n1:cpu:/a\n0::/\n", root.path());
        assert_eq!(found, Some(Cpu { limit_milli: 1500, periods: 7, throttled_periods: 1 }));
        assert_eq!(cpu("1:cpu:/b\n", root.path()), None, "no limit");
    }
}
