//! Two tenants: one asks every route of the document for what the other has, by names that are its own, the other's and
//! nobody's, and says at every route that takes something what would change the other's. Nothing comes back, nothing changes.

mod marked;
mod stage;
mod walk;

use reqwest::Method;
use ringscope_api::clock;
use ringscope_wire::batch::Batch;
use serde_json::{Value, json};

use self::stage::{Ids, Stage, Tenant};
use self::walk::{Asked, requests};
use crate::common::scratch;

/// What a tenant has, as it and as who sees all see it, without what goes on by itself.
async fn state(stage: &Stage, tenant: &Tenant) -> Value {
    let fields = |item: &Value, names: &[&str]| -> Value {
        names
            .iter()
            .map(|name| ((*name).to_owned(), item[*name].clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let mut seen = Vec::new();
    for token in [&tenant.operator, &stage.admin] {
        for job in &tenant.ids.jobs {
            let told = stage.json(token, &format!("/api/v1/jobs/{job}")).await;
            seen.push(fields(&told, &["id", "n_processes", "n_killed", "issued_bytes", "hosts"]));
            let level = stage.json(token, &format!("/api/v1/jobs/{job}/level")).await;
            seen.push(level["wish"].clone());
        }
        for comm in &tenant.ids.comms {
            let told = stage.json(token, &format!("/api/v1/communicators/{comm}")).await;
            seen.push(fields(&told, &["id", "job", "name", "n_ranks", "n_ranks_seen", "issued_bytes"]));
        }
        for incident in &tenant.ids.incidents {
            let told = stage.json(token, &format!("/api/v1/incidents/{incident}")).await;
            seen.push(fields(&told, &["id", "job", "host", "acknowledged", "silenced_until", "notes"]));
        }
        for group in &tenant.ids.groups {
            let told = stage.json(token, &format!("/api/v1/summation/groups/{group}")).await;
            seen.push(fields(&told, &["id", "job", "session"]));
        }
        for host in &tenant.ids.hosts {
            let told = stage.json(token, &format!("/api/v1/nodes/{host}")).await;
            seen.push(fields(&told, &["host", "n_nics", "n_nics_down", "n_gpus", "jobs"]));
        }
    }
    let tokens = stage.json(&stage.admin, "/api/v1/tokens?limit=1000").await;
    let tokens = tokens["items"].as_array().unwrap().iter().filter(|token| token["tenant"] == tenant.name);
    seen.extend(tokens.map(|token| fields(token, &["id", "name", "role", "revoked_at", "expires_at"])));
    seen.into()
}

/// What was answered: the status, and what text there is.
async fn answer(stage: &Stage, token: &str, asked: &Asked) -> (u16, String) {
    let answer = asked.send(stage, token).await;
    let status = answer.status().as_u16();
    if asked.is_stream() {
        return (status, String::new());
    }
    (status, String::from_utf8_lossy(&answer.bytes().await.unwrap()).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_any_route_for_what_another_tenant_has_gets_and_changes_nothing() {
    let dir = scratch("leaks");
    let stage = Stage::new(&dir).await;
    let Stage { acme, globex, .. } = &stage;
    for ids in [&acme.ids, &globex.ids] {
        // Four ranks and two that sum; a job that was imported; what holds it back, a NIC, a GPU.
        let counts =
            (ids.jobs.len(), ids.comms.len(), ids.groups.len(), ids.incidents.len(), ids.tokens.len());
        assert!(counts.0 >= 3 && counts.1 >= 2 && counts.2 == 1 && counts.3 >= 2 && counts.4 == 3, "{ids:?}");
    }
    let document = stage.json(&stage.admin, "/api/v1/openapi.json").await;
    let before = state(&stage, globex).await;
    let (mut n_asked, mut n_own) = (0, 0);
    // For its own things: that shows what these routes show.
    for asked in requests(&document, acme, &acme.ids).iter().filter(|asked| asked.method == Method::GET) {
        let (status, text) = answer(&stage, &acme.operator, asked).await;
        assert!(status < 500, "{asked:?}: {status} {text}");
        holds_nothing(asked, &text, globex, &[]);
        n_own += usize::from(text.contains(acme.mark));
    }
    assert!(n_own > 100, "{n_own} answers tell a tenant of its own");
    let nobodys = Ids::nobodys();
    for asked in requests(&document, globex, &globex.ids) {
        let (status, text) = answer(&stage, &acme.operator, &asked).await;
        // As if there were none of that name.
        let twin = asked.with(&globex.ids, &nobodys);
        let (expected, told) = answer(&stage, &acme.operator, &twin).await;
        assert_eq!(status, expected, "{asked:?} is answered otherwise than {twin:?}: {text} {told}");
        assert!(status < 500, "{asked:?}: {status} {text}");
        for (given, other) in asked.given.iter().zip(&twin.given) {
            let (is_told, is_repeated) = (text.contains(given.as_str()), told.contains(other.as_str()));
            assert!(!is_told || is_repeated, "{asked:?} tells of {given}: {text}");
        }
        holds_nothing(&asked, &text, globex, &asked.given);
        n_asked += 1;
    }
    assert!(n_asked > 400, "{n_asked}");
    assert_eq!(state(&stage, globex).await, before);
    // And who may see all sees both.
    let all = stage.json(&stage.admin, "/api/v1/jobs?limit=1000").await.to_string();
    assert!(all.contains(acme.mark) && all.contains(globex.mark), "{all}");
    stage.daemon.stop().await;
}

/// No word of what that tenant has, but for what was asked for.
fn holds_nothing(asked: &Asked, text: &str, tenant: &Tenant, given: &[String]) {
    let mut text = text.to_owned();
    for given in given {
        text = text.replace(given.as_str(), "");
    }
    let ids = tenant.ids.all().map(String::as_str);
    for part in ids.chain([tenant.mark, tenant.name]) {
        assert!(!text.contains(part), "{asked:?} tells of {part}: {text}");
    }
}

/// The batch as somebody would send it who takes it for another tenant's.
fn forged(mut batch: Batch, tenant: &str, seq_number: u64) -> Batch {
    let own = |name: &mut String| name.insert_str(0, &format!("{tenant}::"));
    batch.seq_number = seq_number;
    own(&mut batch.agent_id);
    own(&mut batch.agent_host);
    batch.hardware.iter_mut().for_each(|hardware| own(&mut hardware.host));
    for process in &mut batch.processes {
        own(&mut process.key);
        let identity = process.identity.as_mut().unwrap();
        own(&mut identity.job);
        own(&mut identity.host);
        // Another one's counts, and gone.
        process.counters.iter_mut().for_each(|counters| counters.issued_bytes += 1 << 40);
        process.state = ringscope_wire::batch::ProcessState::Killed.into();
    }
    batch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_names_a_batch_or_a_file_has_another_tenants_jobs_stay_as_they_are() {
    let dir = scratch("forged");
    let stage = Stage::new(&dir).await;
    let Stage { acme, globex, .. } = &stage;
    let before = state(&stage, globex).await;
    let now_ns = clock::now().0;
    for token in [&acme.agent, &stage.agent] {
        for host in 0..2 {
            let batch = marked::batch(globex.mark, host, 1, now_ns);
            stage.send(token, &forged(batch.clone(), globex.name, 1_000)).await;
            // As it is, too: with the names that the other's agent gives.
            stage.send(token, &Batch { seq_number: 1_000, ..batch }).await;
        }
        let summing = marked::summing(globex.mark, 1, now_ns);
        stage.send(token, &forged(summing.clone(), globex.name, 1_000)).await;
        stage.send(token, &Batch { seq_number: 1_000, ..summing }).await;
    }
    for token in [&acme.operator, &stage.admin] {
        let path = format!("/api/v1/import?job={0}::{1}-train&file={1}.log", globex.name, globex.mark);
        let import = stage.ask(token, Method::POST, &path).body(marked::log(globex.mark));
        let import = import.header("content-type", "application/octet-stream").send().await.unwrap();
        assert_eq!(import.status(), 200, "{}", import.text().await.unwrap());
    }
    assert_eq!(state(&stage, globex).await, before);
    // Its agents are heard as before: no number of theirs was used up.
    for host in 0..2 {
        stage.send(&globex.agent, &marked::batch(globex.mark, host, 3, now_ns)).await;
    }
    let job = format!("/api/v1/jobs/{}::{}-train", globex.name, globex.mark);
    for token in [&globex.operator, &stage.admin] {
        let told = stage.json(token, &job).await;
        assert_eq!(told["issued_bytes"], json!(4 * 5 * (1 << 20)), "{told}");
    }
    stage.daemon.stop().await;
}
