//! What a file is, by its first bytes; never by its name.

/// How a file is to be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reading {
    /// Lines of text; whether they are a log shows when they have been read.
    Text,
    GraphXml,
    TopologyXml,
    Inspector,
    Ras,
    FlightJson,
    FlightPickle,
    /// Bytes that are no text.
    Binary,
}

/// Bytes that are looked at to tell.
pub(super) const SNIFF_BYTES: usize = 64 * 1024;

/// Tells from the first bytes how to read on.
pub(super) fn sniff(head: &[u8]) -> Reading {
    if let [0x80, 2..=5, ..] = head {
        return Reading::FlightPickle;
    }
    if head.iter().take(BINARY_BYTES).filter(|byte| **byte == 0).count() > 8 {
        return Reading::Binary;
    }
    let text = String::from_utf8_lossy(head);
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if start.starts_with('<') {
        if start.contains("<graphs") {
            return Reading::GraphXml;
        }
        if start.contains("<system") {
            return Reading::TopologyXml;
        }
    }
    // A container's log may wrap each line of NCCL's in JSON.
    if start.starts_with('{') && !start.contains(" NCCL ") {
        let has = |key: &str| start.contains(&format!("\"{key}\""));
        if has("header") && ["coll_perf", "p2p_perf", "dump_stats", "metadata"].into_iter().any(has) {
            return Reading::Inspector;
        }
        if has("communicators") && (has("hash") || has("communicators_count")) {
            return Reading::Ras;
        }
        if has("pg_config") || has("collective_seq_id") || has("entries") && has("profiling_name") {
            return Reading::FlightJson;
        }
    }
    Reading::Text
}

/// Bytes that are searched for NULs. Torn logs have single ones.
const BINARY_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_tells_the_kind() {
        for (head, expected) in [
            ("node0:1:1 [0] NCCL INFO x\n", Reading::Text),
            ("", Reading::Text),
            ("{\"log\":\"node0:1:1 [0] NCCL INFO x\"}\n", Reading::Text),
            ("\u{feff} <graphs version=\"1\">", Reading::GraphXml),
            ("<?xml version=\"1.0\"?>\n<system version=\"1\">", Reading::TopologyXml),
            ("<html>", Reading::Text),
            ("{\"header\": {\"id\": \"0x1\"}, \"metadata\": {}", Reading::Inspector),
            (
                "{\n  \"nccl_version\": \"2.28.9\", \"communicators_count\": 1, \"communicators\": [",
                Reading::Ras,
            ),
            ("{\n  \"communicators\": [{\"hash\": \"0x1\"", Reading::Ras),
            ("{\"nccl_version\": \"2.28.9\", \"communicators\": [{\"commId\": 1", Reading::Text),
            ("{\"entries\":[{\"collective_seq_id\":1", Reading::FlightJson),
            ("{\"version\": \"2.4\", \"pg_config\": {}}", Reading::FlightJson),
            ("{\"hello\": 1}", Reading::Text),
        ] {
            assert_eq!(sniff(head.as_bytes()), expected, "{head}");
        }
        assert_eq!(sniff(b"\x80\x02}q\x00"), Reading::FlightPickle);
        assert_eq!(sniff(&[0; 64]), Reading::Binary);
    }
}
