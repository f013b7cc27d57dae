//! One suite for both databases.

use std::time::Duration;

use ringscope_access::SessionRow;
use ringscope_api::clock::Timestamp;
use ringscope_api::{
    AuditEntry, Finding, FindingKind, FindingState, Incident, IncidentNote, Role, Severity, TokenWish,
};
use ringscope_server::gate::made;
use ringscope_store::{
    AgentRow, AuditQuery, CommunicatorRow, CountersRow, Keep, Metric, ProcessRow, SamplePoint, SampleRow,
    SeriesQuery, Store, Swept, WriteSet,
};
use ringscope_wire::batch::{Counters, Process};

use crate::common::daemon::Daemon;
use crate::common::postgres::Postgres;
use crate::common::scratch;

const MINUTE_NS: u64 = 60_000_000_000;
const NOW: Timestamp = Timestamp(1_769_860_800_000_000_000);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_file() {
    let dir = scratch("suite");
    suite(&format!("sqlite:{}", dir.join("db").display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_memory() {
    let store = Store::open(&"sqlite::memory:".parse().unwrap()).await.unwrap().unwrap();
    write_and_read(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    let postgres = Postgres::start();
    suite(&postgres.url()).await;
    let uncommented = "SELECT string_agg(c.relname || '.' || a.attname, ', ') FROM pg_class c \
         JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'public'::regnamespace \
         AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> '_sqlx_migrations' AND a.attnum > 0 \
         AND (col_description(c.oid, a.attnum) IS NULL OR obj_description(c.oid) IS NULL)";
    assert_eq!(postgres.query(uncommented), "", "columns without a comment");
}

async fn suite(url: &str) {
    let url = url.parse().unwrap();
    let store = Store::open(&url).await.unwrap().unwrap();
    write_and_read(&store).await;
    store.close().await;
    // A second start finds everything, and migrates nothing.
    let store = Store::open(&url).await.unwrap().unwrap();
    assert_eq!(store.restore().await.unwrap().processes.len(), 2);
    series(&store).await;
    told(&store).await;
    access(&store).await;
    audit(&store).await;
    sweep(&store).await;
    store.close().await;
}

/// What one target was told is kept until it is over, and is not another's.
async fn told(store: &Store) {
    let open = incident("i", FindingState::Firing, NOW);
    for _ in 0..2 {
        store.tell("one", "i", &open).await.unwrap();
    }
    store.tell("two", "i", &open).await.unwrap();
    let told = store.told("one").await.unwrap();
    assert!(told.len() == 1 && told[0].0 == "i" && told[0].1.id == open.id, "{told:?}");
    store.untell("one", "i").await.unwrap();
    assert!(store.told("one").await.unwrap().is_empty());
    assert_eq!(store.told("two").await.unwrap().len(), 1);
}

async fn write_and_read(store: &Store) {
    let set = WriteSet {
        agents: vec![agent("a", 7), agent("b", 1)],
        processes: vec![process("h/1/1", None), process("h/2/1", Some(NOW.0 - 60 * MINUTE_NS))],
        counters: vec![counters("h/1/1", 5)],
        findings: vec![finding(FindingState::Firing)],
        incidents: vec![
            incident("open", FindingState::Firing, NOW),
            incident("over", FindingState::Resolved, Timestamp(NOW.0 - 3 * 24 * 60 * MINUTE_NS)),
        ],
        ..WriteSet::default()
    };
    store.write(&set).await.unwrap();
    // Again, and newer: rows are replaced.
    store.write(&set).await.unwrap();
    let newer =
        WriteSet { agents: vec![agent("a", 9)], counters: vec![counters("h/1/1", 6)], ..WriteSet::default() };
    store.write(&newer).await.unwrap();
    let restored = store.restore().await.unwrap();
    assert_eq!(restored.unreadable_rows, 0);
    let mut agents: Vec<_> =
        restored.agents.iter().map(|agent| (agent.agent_id.as_str(), agent.last_seq)).collect();
    agents.sort_unstable();
    assert_eq!(agents, [("a", 9), ("b", 1)]);
    let first = restored.processes.iter().find(|process| process.key == "h/1/1").unwrap();
    assert_eq!(first.counters[0].issued_calls, 6);
    let incidents: Vec<_> = restored.incidents.iter().map(|one| (one.id.as_str(), one.began_at)).collect();
    assert_eq!(incidents.first(), Some(&("open", Timestamp(NOW.0 - MINUTE_NS))), "open ones first");
    assert_eq!(incidents.len(), 2);
    assert_eq!(restored.incidents[0].notes[0].text, "it's 50 %");
    assert_eq!(restored.findings.len(), 1);
    assert_eq!(restored.findings[0].message, "it's 50 % – \"slow\"");
}

async fn series(store: &Store) {
    let at = |minutes: i64| (NOW.0 / 1_000_000).cast_signed() + minutes * 60_000;
    let samples =
        (0..10).flat_map(|minute| ["h1", "h2"].map(|host| sample("c1", host, at(minute), 100 * minute)));
    let measured = SampleRow { inter_bytes: Some(7), ..sample("c1", "wire", at(5), 0) };
    let set = WriteSet {
        communicators: vec![communicator("c1")],
        samples: samples.chain([sample("c1", "old", at(-60), 1), measured]).collect(),
        ..WriteSet::default()
    };
    store.write(&set).await.unwrap();
    let query = SeriesQuery {
        of_jobs: None,
        metric: Metric::CompletedBytes,
        job: None,
        id: Some("c1".into()),
        host: None,
        kind: Some("all_reduce".into()),
        from_ms: at(6),
        to_ms: at(8),
        step_ms: 1000,
    };
    let of_c1 = read(store, &query).await;
    // Those of the look-back too, by time.
    let of_first: Vec<_> =
        of_c1.iter().filter(|(_, host, ..)| host == "h1").map(|(_, _, ts, value)| (*ts, *value)).collect();
    assert_eq!(of_first, (1..8).map(|minute| (at(minute), 100 * minute)).collect::<Vec<_>>());
    let of_host = read(store, &SeriesQuery { id: None, host: Some("h2".into()), ..query.clone() }).await;
    assert_eq!(of_host.len(), 7);
    for (job, expected) in [("j1", 15), ("j2", 0)] {
        let of_job = SeriesQuery { id: None, job: Some(job.into()), ..query.clone() };
        assert_eq!(read(store, &of_job).await.len(), expected, "{job}");
    }
    let backlog = read(store, &SeriesQuery { metric: Metric::BacklogBytes, ..query.clone() }).await;
    // Of one series they come by time; which series comes first is not said.
    let of_h1 = backlog.iter().find(|(_, host, ..)| host == "h1");
    assert_eq!(of_h1.map(|(.., value)| *value), Some(7 - 100));
    // What was not measured has no points.
    let wire = read(store, &SeriesQuery { metric: Metric::InterBytes, ..query.clone() }).await;
    assert_eq!(wire.iter().map(|(_, host, _, value)| (&**host, *value)).collect::<Vec<_>>(), [("wire", 7)]);
    assert!(read(store, &SeriesQuery { id: Some("c2".into()), ..query }).await.is_empty());
}

/// Communicator, host, time, value.
type Read = (String, String, i64, i64);

async fn read(store: &Store, query: &SeriesQuery) -> Vec<Read> {
    let mut points = Vec::new();
    let take = |point: SamplePoint<'_>| {
        points.push((point.id.to_owned(), point.host.to_owned(), point.ts_ms, point.value));
    };
    assert!(store.series(query, take).await.unwrap());
    points
}

async fn sweep(store: &Store) {
    let half_an_hour = keep(30 * 60);
    let deleted = store.sweep(NOW, half_an_hour).await.unwrap();
    // The process that ended an hour ago, and the incident that was over days ago.
    assert_eq!(deleted.rows, 2);
    let restored = store.restore().await.unwrap();
    assert_eq!(restored.processes.len(), 1);
    assert_eq!(store.sweep(NOW, half_an_hour).await.unwrap(), Swept::default());
    let much_later = Timestamp(NOW.0 + 60 * MINUTE_NS);
    assert!(store.sweep(much_later, keep(60)).await.unwrap().rows > 4);
    let restored = store.restore().await.unwrap();
    assert!(restored.processes.is_empty());
    assert_eq!(restored.findings.len(), 1, "a firing finding is never too old");
    assert_eq!(restored.incidents.len(), 1, "nor is an open incident");
}

fn keep(s: u64) -> Keep {
    Keep { samples: Duration::from_secs(s), all: Duration::from_secs(s) }
}

fn agent(agent_id: &str, last_seq: i64) -> AgentRow {
    AgentRow { agent_id: agent_id.into(), host: "h".into(), last_seq, last_seen_ns: NOW.0.cast_signed() }
}

fn process(key: &str, ended_ns: Option<u64>) -> ProcessRow {
    let message = Process { key: key.into(), ..Process::default() };
    ProcessRow {
        key: key.into(),
        job: "j".into(),
        host: "h".into(),
        facts: prost::Message::encode_to_vec(&message),
        ended_ns: ended_ns.map(u64::cast_signed),
        updated_ns: NOW.0.cast_signed(),
        ..ProcessRow::default()
    }
}

fn counters(key: &str, issued_calls: u64) -> CountersRow {
    let counters = vec![Counters { local_id: 1, primitive: 1, issued_calls, ..Counters::default() }];
    let message = Process { key: key.into(), counters, ..Process::default() };
    CountersRow {
        key: key.into(),
        counters: prost::Message::encode_to_vec(&message),
        updated_ns: NOW.0.cast_signed(),
    }
}

pub(crate) fn communicator(id: &str) -> CommunicatorRow {
    CommunicatorRow {
        id: id.into(),
        job: "j1".into(),
        updated_ns: NOW.0.cast_signed(),
        ..CommunicatorRow::default()
    }
}

pub(crate) fn sample(comm: &str, host: &str, ts_ms: i64, completed_bytes: i64) -> SampleRow {
    SampleRow {
        comm: comm.into(),
        host: host.into(),
        ts_ms,
        primitive: "all_reduce",
        issued_bytes: 7,
        completed_bytes,
        ..SampleRow::default()
    }
}

fn incident(id: &str, state: FindingState, last_seen: Timestamp) -> Incident {
    Incident {
        id: id.into(),
        state,
        severity: Severity::Critical,
        finding: FindingKind::RankMissing,
        sentence: "rank 5 has not come".into(),
        advice: String::new(),
        job: "j".into(),
        host: "h".into(),
        rank: Some(5),
        comm: "c1".into(),
        culprits: Vec::new(),
        n_victims: 7,
        cost: None,
        imported: false,
        began_at: Timestamp(last_seen.0 - MINUTE_NS),
        first_seen: last_seen,
        last_seen,
        resolved_at: (state == FindingState::Resolved).then_some(last_seen),
        job_ended_at: None,
        findings: vec![id.into()],
        timeline: Vec::new(),
        acknowledged: None,
        times_back: 0,
        silenced_until: None,
        notes: vec![IncidentNote { by: "ann".into(), at: last_seen, text: "it's 50 %".into() }],
    }
}

pub(crate) fn finding(state: FindingState) -> Finding {
    Finding {
        id: "f".into(),
        finding: FindingKind::ChannelShortfall,
        severity: Severity::Critical,
        state,
        job: "j".into(),
        host: "h".into(),
        channel: None,
        nic: None,
        evidence: Vec::new(),
        rank: None,
        comm: "c1".into(),
        group: None,
        cause: "fewer_nics".into(),
        culprits: vec![],
        accused: Vec::new(),
        n_victims: 0,
        imported: false,
        cost: None,
        advice: String::new(),
        details: Vec::new(),
        incident: String::new(),
        began_at: None,
        message: "it's 50 % – \"slow\"".into(),
        first_seen: NOW,
        last_seen: NOW,
        resolved_at: None,
    }
}

/// Tokens and sessions.
async fn access(store: &Store) {
    let wish = |name: &str| TokenWish {
        name: name.to_owned(),
        role: Role::Read,
        tenant: Some("acme".to_owned()),
        expires_in_s: Some(60),
    };
    let (_, first) = made(&wish("first"), "ann", NOW).unwrap();
    let (_, second) = made(&wish("second"), "ann", Timestamp(NOW.0 + 1)).unwrap();
    for row in [&first, &second] {
        assert!(store.add_token(row).await.unwrap());
    }
    assert_eq!(store.tokens().await.unwrap(), [second.clone(), first.clone()]);
    let session = |byte, began_at| SessionRow {
        hash: [byte; 32],
        token: first.token.id.clone(),
        began_at,
        seen_at: began_at,
    };
    let (old, new) = (session(1, Timestamp(5)), session(2, NOW));
    for session in [&old, &new, &session(3, NOW)] {
        store.add_session(session).await.unwrap();
    }
    store.remove_session(&[3; 32]).await.unwrap();
    store.use_sessions(&[([1; 32], Timestamp(6))]).await.unwrap();
    let old = SessionRow { seen_at: Timestamp(6), ..old };
    assert_eq!(store.sessions().await.unwrap(), [new.clone(), old]);
    store.sweep_sessions(Timestamp(5), Timestamp(0)).await.unwrap();
    assert_eq!(store.sessions().await.unwrap(), [new]);
    store.use_tokens(&[(first.token.id.clone(), Timestamp(NOW.0 + 2))]).await.unwrap();
    store.revoke_token(&first.token.id, Timestamp(NOW.0 + 3)).await.unwrap();
    store.revoke_token(&first.token.id, Timestamp(NOW.0 + 4)).await.unwrap();
    let found = store.tokens().await.unwrap().pop().unwrap().token;
    assert_eq!(
        (found.last_used_at, found.revoked_at),
        (Some(Timestamp(NOW.0 + 2)), Some(Timestamp(NOW.0 + 3)))
    );
    assert!(store.sessions().await.unwrap().is_empty(), "gone with its token");
}

/// The audit trail.
async fn audit(store: &Store) {
    for (n, who) in [(1, "ann"), (2, "bob"), (3, "ann")] {
        let entry = AuditEntry {
            id: 0,
            at: Timestamp(NOW.0 + n),
            who: who.to_owned(),
            token: format!("{n:016x}"),
            tenant: if who == "bob" { "acme".to_owned() } else { String::new() },
            role: "operate".to_owned(),
            address: "192.0.2.7".to_owned(),
            action: "level".to_owned(),
            subject: "jobs/train/level".to_owned(),
            detail: "steps".to_owned(),
            status: 200,
        };
        store.add_audit(&entry).await.unwrap();
    }
    let found = async |query: AuditQuery<'_>| {
        let entries = store.audit(query).await.unwrap();
        entries.iter().map(|entry| (entry.at.0 - NOW.0, entry.id)).unzip::<_, _, Vec<_>, Vec<_>>()
    };
    let newest = AuditQuery::newest(2);
    let (times, ids) = found(newest).await;
    assert_eq!(times, [3, 2]);
    assert_eq!(found(AuditQuery { before: Some(ids[1]), ..newest }).await.0, [1]);
    let second = store.audit(newest).await.unwrap().pop().unwrap();
    assert_eq!((second.token.as_str(), second.tenant.as_str()), ("0000000000000002", "acme"));
    let levels = AuditQuery { who: Some("ann"), action: Some("level"), ..newest };
    assert_eq!(found(levels).await.0, [3, 1]);
    assert!(found(AuditQuery { action: Some("import"), ..newest }).await.0.is_empty());
    store.sweep_audit(Timestamp(NOW.0 + 3)).await.unwrap();
    assert_eq!(found(AuditQuery::newest(9)).await.0, [3]);
}

/// Whoever can read the database has the jobs of all, and hashes of their tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_made_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = scratch("modes");
    let file = dir.join("new/ring.db");
    let daemon = Daemon::ready(&format!("sqlite:{}", file.display())).await;
    for (path, mode) in [(file.parent().unwrap(), 0o700), (&*file, 0o600)] {
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, mode, "{path:?}");
    }
    daemon.stop().await;
}
