//! What the kernel knows of processes.

/// CPU time of a process, user and system.
pub(crate) fn cpu_s(pid: u32) -> f64 {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return 0.0 };
    let ticks: u64 = fields(&stat).skip(11).take(2).map(|text| text.parse::<u64>().unwrap()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// CPU time of a process, its living children, and those it has waited for.
pub(crate) fn tree_cpu_s(pid: u32) -> f64 {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return 0.0 };
    let waited: u64 = fields(&stat).skip(13).take(2).map(|text| text.parse::<u64>().unwrap()).sum();
    let children = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let child: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        (fields(&stat).nth(1)? == pid.to_string()).then(|| cpu_s(child))
    });
    cpu_s(pid) + waited as f64 / rustix::param::clock_ticks_per_second() as f64 + children.sum::<f64>()
}

/// Resident memory of a process.
pub(crate) fn rss_bytes(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// What the processor is called.
pub(crate) fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("model name"));
    line.map_or("unknown CPU", |line| line.trim_start_matches([' ', '\t', ':'])).to_owned()
}

/// Cores that this process may use.
pub(crate) fn n_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The fields after the name, which is in parentheses and may hold spaces.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}
