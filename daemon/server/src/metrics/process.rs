//! `process_cpu_seconds_total`, `process_resident_memory_bytes`: of this process, as every exporter has them.

use prometheus::proto::MetricFamily;

use super::family;

pub(super) fn families() -> Vec<MetricFamily> {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return Vec::new() };
    // The second field, the name, is in parentheses and may hold spaces.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = |index: usize| -> f64 {
        after_name.split_whitespace().nth(index).and_then(|text| text.parse().ok()).unwrap_or(0.0)
    };
    let cpu = (field(11) + field(12)) / family::number(rustix::param::clock_ticks_per_second());
    let resident = field(21) * family::number(rustix::param::page_size() as u64);
    vec![
        family::counter("process_cpu_seconds_total", "CPU time of the daemon.", [(Vec::new(), cpu)]),
        family::gauge("process_resident_memory_bytes", "Memory of the daemon.", [(Vec::new(), resident)]),
    ]
}
