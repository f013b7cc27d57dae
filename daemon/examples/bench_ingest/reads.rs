//! What people and Prometheus ask a daemon with a thousand ranks for.

use std::time::Instant;

/// One answer.
pub(crate) struct Read {
    pub(crate) path: &'static str,
    /// Median of [`TIMES`].
    pub(crate) ms: f64,
    pub(crate) kib: f64,
}

impl Read {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({ "path": self.path, "ms": self.ms, "kib": self.kib })
    }
}

pub(crate) async fn all(url: &str) -> Vec<Read> {
    let client = reqwest::Client::new();
    let mut reads = Vec::new();
    for path in PATHS {
        let mut times_ms = Vec::new();
        let mut size_bytes = 0;
        for _ in 0..TIMES {
            let start = Instant::now();
            let response =
                client.get(format!("{url}{path}")).send().await.unwrap().error_for_status().unwrap();
            size_bytes = response.bytes().await.unwrap().len();
            times_ms.push(start.elapsed().as_secs_f64() * 1000.0);
        }
        times_ms.sort_by(f64::total_cmp);
        reads.push(Read { path, ms: times_ms[TIMES / 2], kib: size_bytes as f64 / 1024.0 });
    }
    reads
}

const PATHS: [&str; 3] = ["/metrics", "/api/v1/nodes?limit=1000", "/api/v1/communicators?limit=1000"];
const TIMES: usize = 9;
