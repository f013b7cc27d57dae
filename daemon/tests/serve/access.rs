//! Who may do what: every role at every route, tokens, sessions, proxies and the audit trail, over real HTTP.

use std::path::Path;

use futures::StreamExt as _;
use prost::Message as _;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use ringscope_access::Proxies;
use ringscope_api::clock;
use ringscope_api::{NewToken, Role};
use ringscope_daemon::config::{AccessConfig, ServeConfig};
use ringscope_daemon::serve::{ServeError, Server};
use ringscope_store::Store;
use ringscope_wire::batch::ProcessState;
use serde_json::{Value, json};

use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::{Daemon, closed, config, problem, sqlite, tokens};
use crate::common::{scratch, until};

/// A daemon with a token of each role and a job.
pub(super) async fn with_tokens(dir: &Path) -> (Daemon, [String; 4]) {
    let url = sqlite(dir);
    let secrets = tokens(&url, Role::ALL).await;
    let daemon = Daemon::start(closed(&url)).await;
    daemon.until_ready().await;
    let sent = daemon.ask(Method::POST, "/api/v1/ingest", &secrets[0]);
    let body = SMALL.batch(0, 1, 3, START_NS).encode_to_vec();
    let sent = sent.header("content-type", "application/x-protobuf").body(body).send().await.unwrap();
    assert_eq!(sent.status(), StatusCode::OK);
    (daemon, secrets)
}

impl Daemon {
    pub(super) fn ask(&self, method: Method, path: &str, token: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        if token.is_empty() { request } else { request.bearer_auth(token) }
    }

    pub(super) async fn get_as(&self, path: &str, token: &str) -> Response {
        self.ask(Method::GET, path, token).send().await.unwrap()
    }

    async fn sign_in(&self, token: &str) -> Response {
        let body = json!({ "token": token });
        self.ask(Method::POST, "/api/v1/session", "").json(&body).send().await.unwrap()
    }

    /// What the audit trail has, the oldest first: action, who, status.
    pub(super) async fn audit(&self, admin: &str) -> Vec<(String, String, u64)> {
        let page: Value = self.get_as("/api/v1/audit", admin).await.json().await.unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let entries = page["items"].as_array().unwrap().iter().rev();
        entries
            .map(|one| (text(&one["action"]), text(&one["who"]), one["status"].as_u64().unwrap()))
            .collect()
    }
}

/// What a route must need, said apart from the daemon's own table: (whoever has no token may, the roles that may).
fn expected(method: &str, path: &str) -> (bool, Vec<Role>) {
    use Role::{Admin, Ingest, Operate, Read};
    match (method, path) {
        ("get", "/healthz" | "/readyz" | "/api/v1/openapi.json") => (true, Role::ALL.to_vec()),
        ("post" | "delete", "/api/v1/session") => (true, Role::ALL.to_vec()),
        ("get", path) if path.starts_with("/api/v1/session/") => (true, Role::ALL.to_vec()),
        ("get", "/api/v1/session") => (false, Role::ALL.to_vec()),
        (_, path) if path.starts_with("/api/v1/tokens") || path == "/api/v1/audit" => (false, vec![Admin]),
        ("post", "/api/v1/ingest") => (false, vec![Ingest, Operate, Admin]),
        ("get", _) => (false, vec![Read, Operate, Admin]),
        _ => (false, vec![Operate, Admin]),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_role_at_every_route() {
    let dir = scratch("matrix");
    let (daemon, secrets) = with_tokens(&dir).await;
    let document = daemon.json("/api/v1/openapi.json").await;
    let items = document["paths"].as_object().unwrap().iter();
    let documented = items.flat_map(|(path, item)| {
        item.as_object()
            .unwrap()
            .iter()
            .map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
    });
    let others =
        [("get", "/metrics"), ("get", "/healthz"), ("get", "/readyz"), ("get", "/api/v1/openapi.json")];
    let others = others.map(|(method, path)| (method, path, &Value::Null));
    let mut n_routes = 0;
    for (method, path, operation) in documented.chain(others) {
        let (is_public, roles) = expected(method, path);
        if !operation.is_null() {
            let security =
                operation["security"].as_array().unwrap_or_else(|| panic!("security of {method} {path}"));
            assert_eq!(security.is_empty(), is_public, "the document on {method} {path}");
        }
        let asked =
            path.replace("{job}", "train").replace("{host}", "node-a").replace("{id}", "0123456789ab");
        let verb: Method = method.to_uppercase().parse().unwrap();
        let status = async |token: &str| {
            let answer = daemon.ask(verb.clone(), &asked, token).send().await.unwrap();
            (answer.status().as_u16(), answer.headers().contains_key("www-authenticate"))
        };
        let (bare, is_asked) = status("").await;
        assert_eq!(
            (bare == 401, is_asked),
            (!is_public, !is_public),
            "{method} {path} without a token: {bare}"
        );
        let forged = format!("{}0", &secrets[3][..secrets[3].len() - 1]);
        let forged = if forged == secrets[3] { format!("{}1", &forged[..forged.len() - 1]) } else { forged };
        assert_eq!(status(&forged).await.0 == 401, !is_public, "{method} {path} with a forged token");
        for (role, secret) in Role::ALL.into_iter().zip(&secrets) {
            let (found, _) = status(secret).await;
            if is_public || roles.contains(&role) {
                assert!(
                    ![401, 403, 405].contains(&found) && found < 500,
                    "{method} {path} as {role:?}: {found}"
                );
            } else {
                assert_eq!(found, 403, "{method} {path} as {role:?}");
            }
        }
        n_routes += 1;
    }
    assert!(n_routes > 50, "{n_routes}");
    // What is no route tells nothing either.
    assert_eq!(daemon.get_as("/api/v1/nothing", "").await.status(), 404);
    assert_eq!(daemon.get_as("/", "").await.status(), 200, "the page, which asks then");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loopback_daemon_is_open_until_it_has_a_token() {
    let dir = scratch("open");
    let url = sqlite(&dir);
    let daemon = Daemon::ready(&url).await;
    assert_eq!(
        daemon.json("/api/v1/session").await,
        json!({ "name": "", "role": "operate", "known_by": "nothing" })
    );
    daemon.take(&SMALL.batch(0, 1, 3, START_NS)).await;
    // Nobody locks others out from outside.
    let wish = json!({ "name": "mine", "role": "admin" });
    let asked = daemon.ask(Method::POST, "/api/v1/tokens", "").json(&wish).send().await.unwrap();
    problem(asked, 403, "ringscope token --help").await;
    problem(daemon.get("/api/v1/audit").await, 403, "whoever reaches this daemon").await;
    // Made in the database while the daemon runs.
    let [read, admin] = tokens(&url, [Role::Read, Role::Admin]).await;
    until("a token is needed", async || daemon.get("/api/v1/jobs").await.status() == 401).await;
    problem(daemon.get("/api/v1/jobs").await, 401, "--token-file").await;
    problem(daemon.send(&SMALL.batch(0, 2, 4, START_NS)).await, 401, "RINGSCOPE_TOKEN").await;
    assert_eq!(daemon.get_as("/api/v1/jobs", &read).await.status(), 200);
    assert_eq!(daemon.get_as("/metrics", &read).await.status(), 200);
    problem(daemon.get_as("/api/v1/tokens", &read).await, 403, "the role read, and this needs admin").await;
    // Made and revoked over REST: at once.
    let made = daemon
        .ask(Method::POST, "/api/v1/tokens", &admin)
        .json(&json!({ "name": " agents ", "role": "ingest" }));
    let made = made.send().await.unwrap();
    assert_eq!(made.status(), StatusCode::CREATED);
    let NewToken { secret, token } = made.json().await.unwrap();
    assert_eq!(
        (token.name.as_str(), token.role, token.created_by.as_str()),
        ("agents", Role::Ingest, "the admin")
    );
    problem(daemon.get_as("/api/v1/jobs", &secret).await, 403, "needs read").await;
    let list: Value = daemon.get_as("/api/v1/tokens", &admin).await.json().await.unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
    assert!(!list.to_string().contains(&secret[22..]), "no list has a secret");
    let used = list["items"].as_array().unwrap().iter().find(|one| one["id"] == token.id.as_str()).unwrap();
    assert!(used["last_used_at"].is_string(), "{used}");
    let revoked =
        daemon.ask(Method::DELETE, &format!("/api/v1/tokens/{}", token.id), &admin).send().await.unwrap();
    assert_eq!(revoked.status(), StatusCode::OK);
    problem(daemon.get_as("/api/v1/jobs", &secret).await, 401, "was revoked at").await;
    // Revoked in the database: within a second or so.
    let store = Store::open(&url.parse().unwrap()).await.unwrap().unwrap();
    let id = read.split('_').nth(1).unwrap();
    store.revoke_token(id, clock::now()).await.unwrap();
    store.close().await;
    until("revoked", async || daemon.get_as("/api/v1/jobs", &read).await.status() == 401).await;
    for (wish, status, part) in [
        (json!({ "name": " ", "role": "read" }), 422, "name is empty"),
        (json!({ "name": "x".repeat(101), "role": "read" }), 422, "101 characters"),
        (json!({ "name": "a\u{202e}b", "role": "read" }), 422, "nobody sees"),
        (json!({ "name": "x", "role": "read", "expires_in_s": 0 }), 422, "expires_in_s"),
        (json!({ "name": "x", "role": "root" }), 400, "role"),
        (json!({ "name": "x", "role": "read", "tenant": "A b" }), 422, "tenant"),
        (json!({ "name": "x", "role": "admin", "tenant": "a" }), 422, "no tenant"),
    ] {
        let asked = daemon.ask(Method::POST, "/api/v1/tokens", &admin).json(&wish).send().await.unwrap();
        problem(asked, status, part).await;
    }
    let unknown = daemon.ask(Method::DELETE, "/api/v1/tokens/0123", &admin).send().await.unwrap();
    problem(unknown, 404, "ringscope token list").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_ends_by_itself_and_tokens_outlive_the_daemon() {
    let dir = scratch("ends");
    let url = sqlite(&dir);
    let [admin] = tokens(&url, [Role::Admin]).await;
    let daemon = Daemon::start(closed(&url)).await;
    daemon.until_ready().await;
    let wish = json!({ "name": "short", "role": "read", "expires_in_s": 1 });
    let made = daemon.ask(Method::POST, "/api/v1/tokens", &admin).json(&wish).send().await.unwrap();
    let short: NewToken = made.json().await.unwrap();
    until("ended", async || daemon.get_as("/api/v1/jobs", &short.secret).await.status() == 401).await;
    problem(daemon.get_as("/api/v1/jobs", &short.secret).await, 401, "has ended at").await;
    let cookie = cookie(&daemon.sign_in(&admin).await);
    daemon.stop().await;
    let daemon = Daemon::start(config(&url)).await;
    // Not ready yet, and closed all the same.
    assert_eq!(daemon.get("/api/v1/jobs").await.status(), 401);
    assert_eq!(daemon.get_as("/api/v1/jobs", &admin).await.status(), 200);
    let again = daemon.ask(Method::GET, "/api/v1/jobs", "").header("cookie", cookie).send().await.unwrap();
    assert_eq!(again.status(), 200, "a session outlives the daemon too");
    daemon.stop().await;
}

/// `name=value` of what a browser was told to keep.
fn cookie(response: &Response) -> String {
    let set = response.headers()["set-cookie"].to_str().unwrap();
    set.split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_signs_in_sees_and_signs_out() {
    let dir = scratch("browser");
    let (daemon, [ingest, read, operate, admin]) = with_tokens(&dir).await;
    let signed_in = daemon.sign_in(&format!(" {operate}\n")).await;
    assert_eq!(signed_in.status(), StatusCode::OK);
    let set = signed_in.headers()["set-cookie"].to_str().unwrap().to_owned();
    for part in ["ringscope_session=", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(set.contains(part), "{part} in {set}");
    }
    assert!(!set.contains("Secure") && !set.contains(&operate[22..]), "{set}");
    let mine = cookie(&signed_in);
    let who: Value = signed_in.json().await.unwrap();
    assert_eq!(
        (&who["name"], &who["role"], &who["known_by"]),
        (&json!("the operate"), &json!("operate"), &json!("session"))
    );
    assert!(who["ends_at"].is_string());
    let ask = |method, path: &str| daemon.ask(method, path, "").header("cookie", mine.clone());
    for path in ["/api/v1/session", "/api/v1/jobs", "/api/v1/plots/bandwidth.svg?job=train", "/metrics"] {
        assert_eq!(ask(Method::GET, path).send().await.unwrap().status(), 200, "{path}");
    }
    let events = ask(Method::GET, "/api/v1/events").send().await.unwrap();
    assert_eq!(events.status(), 200);
    drop(events.bytes_stream().next());
    // A page of another address cannot use the cookie, even if the browser sent it.
    let level = |origin: Option<&str>| {
        let request = ask(Method::PUT, "/api/v1/jobs/train/level").json(&json!({ "level": "steps" }));
        match origin {
            Some(origin) => request.header("origin", origin),
            None => request,
        }
    };
    problem(level(Some("http://evil.example")).send().await.unwrap(), 403, "--public-url").await;
    problem(level(Some("null")).send().await.unwrap(), 403, "another origin").await;
    for origin in [None, Some(&*daemon.url)] {
        assert_eq!(level(origin).send().await.unwrap().status(), 200, "{origin:?}");
    }
    problem(ask(Method::GET, "/api/v1/tokens").send().await.unwrap(), 403, "needs admin").await;
    let by_tls = daemon.ask(Method::POST, "/api/v1/session", "").json(&json!({ "token": read }));
    let host = daemon.url.strip_prefix("http://").unwrap();
    let by_tls = by_tls.header("origin", format!("https://{host}")).send().await.unwrap();
    let set = by_tls.headers()["set-cookie"].to_str().unwrap();
    assert!(set.starts_with("__Host-ringscope_session=") && set.contains("; Secure"), "{set}");
    problem(daemon.sign_in(&ingest).await, 403, "for agents").await;
    let out = ask(Method::DELETE, "/api/v1/session").send().await.unwrap();
    assert_eq!(out.status(), StatusCode::NO_CONTENT);
    assert!(
        out.headers().get_all("set-cookie").iter().all(|set| set.to_str().unwrap().contains("Max-Age=0"))
    );
    problem(ask(Method::GET, "/api/v1/jobs").send().await.unwrap(), 401, "sign in again").await;
    // Whoever has left its session is who the token says, and no more once that is revoked.
    let other = cookie(&daemon.sign_in(&read).await);
    let id = read.split('_').nth(1).unwrap();
    assert!(
        daemon
            .ask(Method::DELETE, &format!("/api/v1/tokens/{id}"), &admin)
            .send()
            .await
            .unwrap()
            .status()
            .is_success()
    );
    let asked = daemon.ask(Method::GET, "/api/v1/jobs", "").header("cookie", other).send().await.unwrap();
    problem(asked, 401, "revoked").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_did_is_written_down() {
    let dir = scratch("audited");
    let (daemon, [_, read, operate, admin]) = with_tokens(&dir).await;
    let mine = cookie(&daemon.sign_in(&operate).await);
    let ask = |method, path: &str| daemon.ask(method, path, "").header("cookie", mine.clone());
    let level = ask(Method::PUT, "/api/v1/jobs/train/level").json(&json!({ "level": "steps" }));
    let forged = level.try_clone().unwrap().header("origin", "http://evil.example").send().await.unwrap();
    assert_eq!((forged.status().as_u16(), level.send().await.unwrap().status().as_u16()), (403, 200));
    let lesser = daemon.ask(Method::PUT, "/api/v1/jobs/train/level", &read).json(&json!({ "level": "off" }));
    assert_eq!(lesser.send().await.unwrap().status(), 403);
    assert_eq!(ask(Method::DELETE, "/api/v1/session").send().await.unwrap().status(), 204);
    let id = read.split('_').nth(1).unwrap();
    let revoked = daemon.ask(Method::DELETE, &format!("/api/v1/tokens/{id}"), &admin).send().await.unwrap();
    assert_eq!(revoked.status(), 200);
    for _ in 0..20 {
        assert_eq!(daemon.get_as("/api/v1/jobs", &read).await.status(), 401);
    }
    assert_eq!(daemon.sign_in(&read).await.status(), 401);
    // What strangers cause is stored a moment later, or when it is asked for.
    let told = daemon.audit(&admin).await;
    let entry = |action: &str, who: &str, status| (action.to_owned(), who.to_owned(), status);
    assert_eq!(
        told,
        [
            entry("sign_in", "the operate", 200),
            entry("level", "the operate", 403),
            entry("level", "the operate", 200),
            entry("level", "the read", 403),
            entry("sign_out", "the operate", 204),
            entry("token_revoke", "the admin", 200),
            entry("token_refused", "the read", 401),
        ],
        "a token that was revoked is known, and told of once an hour"
    );
    let page: Value = daemon.get_as("/api/v1/audit?action=token_refused", &admin).await.json().await.unwrap();
    let refused = &page["items"][0];
    assert_eq!((&refused["token"], &refused["tenant"]), (&json!(id), &json!("")));
    assert!(!page.to_string().contains(&read[22..]), "its id, not its secret");
    let page: Value = daemon.get_as("/api/v1/audit?action=level&limit=2", &admin).await.json().await.unwrap();
    let entry = &page["items"][1];
    assert_eq!((&entry["subject"], &entry["detail"]), (&json!("jobs/train/level"), &json!("steps")));
    assert_eq!((&entry["address"], &entry["role"]), (&json!("127.0.0.1"), &json!("operate")));
    assert_eq!(entry["token"], *operate.split('_').nth(1).unwrap(), "of the session's token");
    let next = format!("/api/v1/audit?action=level&cursor={}", page["next_cursor"].as_str().unwrap());
    let rest: Value = daemon.get_as(&next, &admin).await.json().await.unwrap();
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_is_written_down_whichever_way_it_comes() {
    let dir = scratch("imports");
    let (daemon, [ingest, _, operate, admin]) = with_tokens(&dir).await;
    let file = daemon.ask(Method::POST, "/api/v1/import?job=kept&file=kept.log", &operate);
    let file = file.header("content-type", "application/octet-stream").body("NCCL version 2.27.3+cuda12.9");
    file.send().await.unwrap();
    // As `ringscope import --daemon` sends it: facts, in batches.
    let mut facts = SMALL.batch(0, 1, 3, START_NS);
    facts.agent_id = "import-1".into();
    for process in &mut facts.processes {
        process.state = ProcessState::Imported.into();
        process.identity.as_mut().unwrap().job = "yesterday".into();
    }
    for seq_number in [1, 1, 2] {
        facts.seq_number = seq_number;
        let sent = daemon.ask(Method::POST, "/api/v1/ingest", &ingest);
        let sent = sent.header("content-type", "application/x-protobuf").body(facts.encode_to_vec());
        assert_eq!(sent.send().await.unwrap().status(), StatusCode::OK);
    }
    let page: Value = daemon.get_as("/api/v1/audit?action=import", &admin).await.json().await.unwrap();
    let told: Vec<_> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["who"], &one["subject"], &one["detail"]))
        .collect();
    let facts = (&json!("the ingest"), &json!("ingest"), &json!("facts as the job yesterday"));
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((told[0], told[1].0, told[1].1), (facts, &json!("the operate"), &json!("import")), "{told:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_fails_ten_times_to_sign_in_waits() {
    let dir = scratch("throttled");
    let (daemon, [_, read, _, admin]) = with_tokens(&dir).await;
    for n in 0..10 {
        let wrong = if n % 2 == 0 {
            "hunter2".to_owned()
        } else {
            format!("rsc_{}_{}", "0".repeat(16), "0".repeat(64))
        };
        problem(daemon.sign_in(&wrong).await, 401, "token").await;
    }
    let refused = daemon.sign_in(&read).await;
    let wait: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=61).contains(&wait), "{wait}");
    problem(refused, 429, "wait a minute").await;
    assert_eq!(
        daemon.get_as("/api/v1/jobs", &read).await.status(),
        200,
        "agents and scripts of that address go on"
    );
    let failed = daemon
        .audit(&admin)
        .await
        .into_iter()
        .filter(|(action, _, status)| action == "sign_in" && *status == 401);
    assert_eq!(failed.count(), 10);
    problem(daemon.ask(Method::POST, "/api/v1/session", "").body("{}").send().await.unwrap(), 415, "JSON")
        .await;
    problem(daemon.sign_in(&"x".repeat(5000)).await, 413, "").await;
    let secret = daemon.ask(Method::POST, "/api/v1/session", "").json(&json!({ "token": 7, "x": read }));
    let text = secret.send().await.unwrap().text().await.unwrap();
    assert!(!text.contains(&read), "what may be a secret is not repeated: {text}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_that_are_listed_say_who_somebody_is_and_others_do_not() {
    let dir = scratch("proxied");
    let believing = |network: &str| {
        let proxies = Proxies {
            trusted: vec![network.parse().unwrap()],
            user_header: "x-forwarded-user".to_owned(),
            groups_header: "x-forwarded-groups".to_owned(),
            roles: vec![
                "*=read".parse().unwrap(),
                "sre=operate".parse().unwrap(),
                "root=admin".parse().unwrap(),
            ],
        };
        ServeConfig { access: AccessConfig { proxies, ..AccessConfig::default() }, ..config(&sqlite(&dir)) }
    };
    let daemon = Daemon::start(believing("127.0.0.0/8")).await;
    daemon.until_ready().await;
    let ask = |method, path: &str, groups: &str| {
        let request = daemon.ask(method, path, "").header("x-forwarded-user", "ann");
        request.header("x-forwarded-groups", groups).header("x-forwarded-for", "1.2.3.4, 192.0.2.7")
    };
    problem(daemon.get("/api/v1/jobs").await, 401, "token").await;
    let who: Value =
        ask(Method::GET, "/api/v1/session", "dev,sre").send().await.unwrap().json().await.unwrap();
    assert_eq!(who, json!({ "name": "ann", "role": "operate", "known_by": "proxy" }));
    problem(
        ask(Method::GET, "/api/v1/audit", "sre").send().await.unwrap(),
        403,
        "\"ann\" has the role operate",
    )
    .await;
    let twice =
        ask(Method::GET, "/api/v1/jobs", "sre").header("x-forwarded-user", "bob").send().await.unwrap();
    assert_eq!(twice.status(), 401, "the client may have sent one of two");
    let wish = json!({ "name": "agents", "role": "ingest" });
    let forged =
        ask(Method::POST, "/api/v1/tokens", "root").header("origin", "http://evil.example").json(&wish);
    problem(forged.send().await.unwrap(), 403, "another origin").await;
    let made = ask(Method::POST, "/api/v1/tokens", "root").json(&wish).send().await.unwrap();
    assert_eq!(made.status(), StatusCode::CREATED);
    let page: Value = ask(Method::GET, "/api/v1/audit", "root").send().await.unwrap().json().await.unwrap();
    assert_eq!(
        (&page["items"][0]["who"], &page["items"][0]["address"]),
        (&json!("ann"), &json!("192.0.2.7"))
    );
    let NewToken { secret, .. } = ask(Method::POST, "/api/v1/tokens", "root")
        .json(&json!({ "name": "mine", "role": "read" }))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let sign_in = async |daemon: &Daemon| {
        let asked = daemon.ask(Method::POST, "/api/v1/session", "").json(&json!({ "token": secret }));
        cookie(&asked.header("x-forwarded-proto", "https").send().await.unwrap())
    };
    assert!(sign_in(&daemon).await.starts_with("__Host-"), "it says that the browser came by https");
    daemon.stop().await;
    let daemon = Daemon::start(believing("192.0.2.0/24")).await;
    daemon.until_ready().await;
    let forged =
        daemon.ask(Method::GET, "/api/v1/jobs", "").header("x-forwarded-user", "ann").send().await.unwrap();
    assert_eq!(forged.status(), 401);
    assert!(!sign_in(&daemon).await.starts_with("__Host-"), "anybody may say that");
    daemon.stop().await;
}

/// Who is named and may do nothing is known all the same: a login would not help.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whom_a_proxy_names_without_a_role_is_told_why() {
    let proxies = Proxies {
        trusted: vec!["127.0.0.0/8".parse().unwrap()],
        user_header: "x-forwarded-user".to_owned(),
        groups_header: "x-forwarded-groups".to_owned(),
        roles: vec!["sre=operate".parse().unwrap()],
    };
    let access = AccessConfig { proxies, ..AccessConfig::default() };
    let daemon = Daemon::start(ServeConfig { access, ..config("none") }).await;
    let asked = daemon.ask(Method::GET, "/api/v1/session", "").header("x-forwarded-user", "ann");
    let refused = asked.header("x-forwarded-groups", "dev, ops").send().await.unwrap();
    problem(refused, 403, "signed in as ann by the proxy, but none of the groups dev, ops gives a role")
        .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_addresses_it_starts_with_tokens_or_says_how_to_make_one() {
    let dir = scratch("reachable");
    let url = sqlite(&dir);
    let everywhere = |url: &str| ServeConfig { listen: ([0, 0, 0, 0], 0).into(), ..config(url) };
    let refused = async |config: ServeConfig| {
        let error = Server::bind(config).await.err().unwrap();
        assert!(matches!(error, ServeError::NobodyMayEnter { .. }), "{error}");
        error.to_string()
    };
    let words = refused(everywhere(&url)).await;
    let make = format!("ringscope token create --database '{url}' --name first --role admin");
    for part in [make.as_str(), "0.0.0.0:0", "--insecure-open", "127.0.0.1"] {
        assert!(words.contains(part), "{part} in {words}");
    }
    for url in ["none", "sqlite::memory:"] {
        let words = refused(everywhere(url)).await;
        assert!(words.contains("--database-url"), "{words}");
    }
    let open = AccessConfig { insecure_open: true, ..AccessConfig::default() };
    let daemon = Daemon::start(ServeConfig { access: open, ..everywhere("none") }).await;
    let port = daemon.url.rsplit(':').next().unwrap();
    let local = format!("http://127.0.0.1:{port}/api/v1/jobs");
    assert_eq!(daemon.client.get(local).send().await.unwrap().status(), 200);
    daemon.stop().await;
    let [read] = tokens(&url, [Role::Read]).await;
    let daemon = Daemon::start(everywhere(&url)).await;
    let local = format!("http://127.0.0.1:{}/api/v1/jobs", daemon.url.rsplit(':').next().unwrap());
    assert_eq!(daemon.client.get(&local).send().await.unwrap().status(), 401);
    assert_eq!(daemon.client.get(&local).bearer_auth(&read).send().await.unwrap().status(), 200);
    daemon.stop().await;
    let store = Store::open(&url.parse().unwrap()).await.unwrap().unwrap();
    store.revoke_token(read.split('_').nth(1).unwrap(), clock::now()).await.unwrap();
    store.close().await;
    refused(everywhere(&url)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_away_nobody_comes_in_by_that() {
    // A port on which nothing listens.
    let away = "postgres://u@127.0.0.1:1/ring";
    let daemon = Daemon::start(closed(away)).await;
    until("away", async || daemon.get("/readyz").await.text().await.unwrap().contains("store-away")).await;
    let token = format!("rsc_{}_{}", "0".repeat(16), "0".repeat(64));
    for token in ["", &token] {
        problem(daemon.get_as("/api/v1/jobs", token).await, 503, "has not answered").await;
    }
    problem(daemon.sign_in(&token).await, 503, "has not answered").await;
    assert_eq!(daemon.get("/healthz").await.status(), 200);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_inside_a_closed_daemon_is_let_in() {
    let dir = scratch("inside");
    let url = sqlite(&dir);
    let [read] = tokens(&url, [Role::Read]).await;
    let config = ServeConfig {
        with_agent: true,
        agent_dir: dir.join("segments"),
        data_dir: dir.join("data"),
        agent_kernel_log: false,
        ..closed(&url)
    };
    let daemon = Daemon::start(config).await;
    let taken = async || {
        let text = daemon.get_as("/metrics", &read).await.text().await.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("ringscope_ingest_batches_total "));
        line.is_some_and(|count| count.parse::<f64>().unwrap() > 0.0)
    };
    until("its agent's batches are taken", taken).await;
    daemon.stop().await;
}
