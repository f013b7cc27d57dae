//! RDMA connections of a host.

use ringscope_api::{self as api, ConnectionState};
use ringscope_model::{self as model, End, Identity, Model, QueuePairState};

use super::text;

/// The RDMA connections of a host's processes that live: those that failed first, then by rank and process. `None`: no such host.
#[must_use]
pub fn connections(model: &Model, host: &str) -> Option<Vec<api::Connection>> {
    let (_, processes) = model.host(host)?;
    let mut found = Vec::new();
    for process in processes.filter(|process| process.is_living()) {
        let Some(identity) = process.identity() else { continue };
        found.extend(process.connections().map(|one| connection(identity, one)));
    }
    found.sort_by(|one, other| key(one).cmp(&key(other)));
    Some(found)
}

fn key(one: &api::Connection) -> (bool, bool, Option<u32>, u32, &str, &str) {
    let is_well = !matches!(one.state, ConnectionState::Failed | ConnectionState::Broken);
    let is_over = one.state == ConnectionState::Closed;
    (is_well, is_over, one.global_rank, one.pid, &one.local.device, &one.id)
}

/// How a connection stands, its queue pairs considered.
#[must_use]
pub fn connection_state(one: &model::Connection) -> ConnectionState {
    match one.state {
        model::ConnectionState::Failed => ConnectionState::Failed,
        model::ConnectionState::Closed => ConnectionState::Closed,
        _ if one.broken_since.is_some() => ConnectionState::Broken,
        model::ConnectionState::Open => ConnectionState::Open,
        _ => ConnectionState::Connecting,
    }
}

fn connection(identity: &Identity, one: &model::Connection) -> api::Connection {
    let counts = &one.counts;
    let (host, pid) = (identity.host.to_string(), identity.pid);
    api::Connection {
        id: format!("{pid}-{}-{}", one.place, one.generation()),
        job: identity.job.to_string(),
        pid,
        global_rank: identity.global_rank,
        comm_hash: known(one.comm_hash != 0, one.comm_hash).map(|hash| format!("{hash:#x}")),
        is_send: one.is_send,
        state: connection_state(one),
        since: one.since,
        error: text(&one.error),
        local: api::ConnectionEnd {
            host,
            pid: Some(pid),
            global_rank: identity.global_rank,
            port: Some(one.local.port),
            gid_index: Some(one.local.gid_index),
            ..end(&one.local)
        },
        remote: end(&one.remote),
        path_mtu_bytes: known(one.path_mtu_bytes != 0, one.path_mtu_bytes),
        traffic_class: one.traffic_class,
        service_level: one.service_level,
        queue_pairs: one.queue_pairs.iter().map(queue_pair).collect(),
        bytes: counts.bytes,
        bytes_per_s: one.bytes_per_s(),
        requests: counts.requests,
        completed_requests: counts.completed_requests,
        work_requests: counts.work_requests,
        waits: counts.waits,
        wait_s: seconds(counts.wait_ns),
        registrations: counts.registrations,
        cached_registrations: counts.cached_registrations,
        last_done: counts.last_done_at_ns.map(api::clock::Timestamp),
    }
}

fn end(of: &End) -> api::ConnectionEnd {
    api::ConnectionEnd {
        host: of.host.to_string(),
        pid: known(of.pid != 0, of.pid),
        global_rank: of.global_rank,
        device: of.device.to_string(),
        port: known(of.port != 0, of.port),
        gid: of.gid_text(),
        gid_index: None,
        gid_kind: gid_kind(of.gid_kind),
        mtu_bytes: known(of.mtu_bytes != 0, of.mtu_bytes),
    }
}

fn queue_pair(pair: &ringscope_model::QueuePair) -> api::QueuePair {
    let state = match pair.state() {
        QueuePairState::Unspecified => None,
        QueuePairState::Reset => Some("RESET"),
        QueuePairState::Init => Some("INIT"),
        QueuePairState::Rtr => Some("RTR"),
        QueuePairState::Rts => Some("RTS"),
        QueuePairState::Sqd => Some("SQD"),
        QueuePairState::Sqe => Some("SQE"),
        QueuePairState::Err => Some("ERR"),
    };
    api::QueuePair { number: pair.number, remote_number: pair.remote_number, state: state.map(str::to_owned) }
}

pub(super) const fn gid_kind(kind: model::GidKind) -> Option<api::GidKind> {
    match kind {
        model::GidKind::Unspecified => None,
        model::GidKind::Infiniband => Some(api::GidKind::Infiniband),
        model::GidKind::RoceV1 => Some(api::GidKind::RoceV1),
        model::GidKind::RoceV2 => Some(api::GidKind::RoceV2),
    }
}

fn known<T>(is: bool, value: T) -> Option<T> {
    is.then_some(value)
}

#[expect(clippy::cast_precision_loss, reason = "a wait needs no 53 bits")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use ringscope_samples::cluster::{Cluster, at, connection};
    use ringscope_wire::batch::{Connection, ConnectionCounts, ProcessState};

    use super::*;

    fn told(s: u64, state: ProcessState) -> Model {
        let mut model = Model::new();
        let cluster = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 2);
        let mut batch = cluster.batch(1, s);
        let failed = Connection {
            place: 1,
            error: "transport retry counter exceeded".to_owned(),
            state: model::ConnectionState::Failed.into(),
            ..connection("mlx5_0", "host-1", "mlx5_1")
        };
        let process = &mut batch.processes[0];
        process.connections = vec![connection("mlx5_0", "host-1", "mlx5_0"), failed];
        process.connection_counts = vec![ConnectionCounts {
            generation: 1,
            bytes: 5,
            wait_ns: 1_500_000_000,
            ..ConnectionCounts::default()
        }];
        process.state = state.into();
        process.ended_at_ns = (state != ProcessState::Running).then_some(at(s).0);
        model.apply(&batch, at(s));
        model
    }

    #[test]
    fn a_hosts_connections_are_told_with_both_ends_those_that_failed_first() {
        let model = told(5, ProcessState::Running);
        assert_eq!(connections(&model, "host-9"), None);
        assert_eq!(connections(&model, "host-1"), Some(Vec::new()));
        let found = connections(&model, "host-0").unwrap();
        let states: Vec<_> = found.iter().map(|one| (one.state.label(), one.id.as_str())).collect();
        assert_eq!(states, [("failed", "1000-1-1"), ("open", "1000-0-1")]);
        assert_eq!(found[0].error.as_deref(), Some("transport retry counter exceeded"));
        let open = &found[1];
        assert_eq!((open.bytes, open.wait_s, open.global_rank), (5, 1.5, Some(0)));
        assert_eq!(open.local.gid.as_deref(), Some("fe80::1"));
        assert_eq!((open.local.port, open.local.gid_kind), (Some(1), Some(api::GidKind::RoceV2)));
        assert_eq!(
            (open.remote.host.as_str(), open.remote.port, open.remote.pid, open.remote.gid_index),
            ("host-1", Some(1), Some(4712), None)
        );
        assert_eq!(open.queue_pairs[0].state.as_deref(), Some("RTS"));
    }

    #[test]
    fn connections_of_processes_that_ended_are_not_shown() {
        let model = told(5, ProcessState::Exited);
        assert_eq!(connections(&model, "host-0"), Some(Vec::new()));
    }
}
