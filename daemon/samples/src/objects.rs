//! Objects of the API as a small cluster would show them.

use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;
use ringscope_api::{
    Condition, Coverage, Finding, FindingCounts, FindingKind, FindingState, HostSummary, Incident, Job,
    JobState, Severity, Standing,
};

pub const NOW: Timestamp = Timestamp(1_769_860_800_000_000_000);

pub fn host(name: &str, critical: u32) -> HostSummary {
    HostSummary {
        host: name.into(),
        standing: match critical {
            0 => standing(Condition::Healthy, "its last call completed 2 s ago"),
            _ => standing(Condition::Degraded, &format!("{name} found 2 channels where others found 8.")),
        },
        degraded: critical > 0,
        reasons: if critical > 0 {
            vec![format!("{name} found 2 channels where others found 8.")]
        } else {
            vec![]
        },
        findings: FindingCounts { critical, ..FindingCounts::default() },
        jobs: vec!["train".into()],
        n_processes: 8,
        init_channels: Some(8),
        final_channels: Some(16),
        completed_bytes_per_s: 1e9,
        n_nics: Some(4),
        n_nics_down: Some(critical),
        n_gpus: Some(8),
        last_seen: NOW,
    }
}

pub fn job(id: &str, state: JobState, n_killed: u32) -> Job {
    Job {
        id: id.into(),
        state,
        standing: match (n_killed, state) {
            (1.., _) => standing(Condition::Failed, "rank 3 on node-1: it was killed, or crashed"),
            (_, JobState::Stale) => standing(Condition::Unknown, "nothing heard of it for 14 min"),
            _ => standing(Condition::Healthy, "all 16 processes: its last call completed 2 s ago"),
        },
        first_seen: Timestamp(NOW.0 - 3_600_000_000_000),
        last_seen: Timestamp(NOW.0 - 840_000_000_000),
        ended_at: (state == JobState::Ended).then_some(Timestamp(NOW.0 - 840_000_000_000)),
        world_size: Some(16),
        n_processes: 16,
        n_killed,
        scheduled: None,
        hosts: vec!["node-1".into(), "node-2".into()],
        active_communicators: 1,
        n_communicators: 2,
        findings: FindingCounts::default(),
        coverage: Coverage::default(),
        issued_bytes: 3 << 30,
        completed_bytes: 2 << 30,
        completed_bytes_per_s: 2e9,
        dropped: BTreeMap::default(),
    }
}

pub fn standing(condition: Condition, reason: &str) -> Standing {
    Standing { condition, reason: reason.to_owned(), waits: false }
}

/// An open incident about a host.
pub fn incident(id: &str, host: &str, severity: Severity, sentence: &str) -> Incident {
    Incident {
        id: id.into(),
        state: FindingState::Firing,
        severity,
        finding: FindingKind::ChannelShortfall,
        sentence: sentence.into(),
        advice: "Look at its NICs.".into(),
        job: "train".into(),
        host: host.into(),
        rank: None,
        comm: String::new(),
        culprits: Vec::new(),
        n_victims: 0,
        cost: None,
        imported: false,
        began_at: Timestamp(NOW.0 - 840_000_000_000),
        first_seen: Timestamp(NOW.0 - 840_000_000_000),
        last_seen: NOW,
        resolved_at: None,
        job_ended_at: None,
        findings: vec![id.into()],
        timeline: Vec::new(),
        acknowledged: None,
        times_back: 0,
        silenced_until: None,
        notes: Vec::new(),
    }
}

/// A shortfall of a host in a communicator named as its id.
pub fn finding(id: &str, host: &str, first_seen_s: u64) -> Finding {
    let first_seen = Timestamp(first_seen_s * 1_000_000_000);
    Finding {
        id: id.into(),
        finding: FindingKind::ChannelShortfall,
        severity: Severity::Critical,
        state: FindingState::Firing,
        job: "train".into(),
        host: host.into(),
        rank: None,
        channel: None,
        nic: None,
        comm: "c0ffee".into(),
        group: None,
        cause: "unexplained".into(),
        culprits: Vec::new(),
        accused: Vec::new(),
        n_victims: 0,
        imported: false,
        cost: None,
        advice: String::new(),
        details: Vec::new(),
        incident: String::new(),
        began_at: None,
        message: format!("{host} found 2 channels where others found 8"),
        evidence: Vec::new(),
        first_seen,
        last_seen: first_seen,
        resolved_at: None,
    }
}
