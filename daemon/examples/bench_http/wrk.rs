//! wrk, held to a rate.

use std::path::Path;
use std::process::Command;

/// What it says.
pub(crate) struct Figures {
    pub(crate) requests_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// Asks for `url` over a few connections; each waits so long between two requests that they come to `rate` per second
/// at most.
pub(crate) fn run(url: &str, rate: u32, seconds: u32, dir: &Path) -> Figures {
    let script = dir.join("delay.lua");
    std::fs::write(&script, format!("function delay() return {} end\n", CONNECTIONS * 1000 / rate)).unwrap();
    let mut command = Command::new("wrk");
    command.args(["-t", "1", "-c", &CONNECTIONS.to_string(), "-d", &format!("{seconds}s"), "--latency"]);
    command.args(["-H", "Accept-Encoding: gzip", "-s"]).arg(&script).arg(url);
    let output = command.output().unwrap_or_else(|error| panic!("wrk: {error}; apt-get install -y wrk"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains("Non-2xx"), "{text}");
    let field = |name: &str| {
        let line = text.lines().map(str::trim).find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).trim().to_owned()
    };
    Figures {
        requests_per_s: field("Requests/sec:").parse().unwrap(),
        p50_ms: ms(&field("50%")),
        p99_ms: ms(&field("99%")),
    }
}

/// `1.23ms`, `850.00us` or `1.20s`.
fn ms(text: &str) -> f64 {
    let units = [("us", 0.001), ("ms", 1.0), ("s", 1000.0)];
    let (number, scale) =
        units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale))).unwrap();
    number.parse::<f64>().unwrap() * scale
}

const CONNECTIONS: u32 = 8;
