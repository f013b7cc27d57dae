//! Signing in at a real OpenID provider (npm oidc-provider), as a browser does it.

#![allow(missing_docs, reason = "a test")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by them"
)]

#[path = "../common/mod.rs"]
mod common;

mod browser;
mod provider;

use browser::Browser;
use common::certs::Authority;
use common::daemon::{Daemon, config, problem, sqlite};
use common::{free_port, scratch, until};
use openidconnect::IssuerUrl;
use provider::Provider;
use ringscope_access::{Groups, group_role, group_tenant};
use ringscope_daemon::config::{AccessConfig, ServeConfig};
use ringscope_server::notify::NotifyConfig;
use ringscope_server::oidc::OidcConfig;
use ringscope_tls::Trust;
use serde_json::{Value, json};

/// Where a daemon and a provider of a test are.
struct Places {
    daemon: u16,
    provider: u16,
    dir: common::TempDir,
    /// Who has signed the provider's certificate; `None`: it speaks plain HTTP.
    ca: Option<Authority>,
}

impl Places {
    fn new(name: &str) -> Self {
        Self { daemon: free_port(), provider: free_port(), dir: scratch(name), ca: None }
    }

    fn page(&self) -> String {
        format!("http://127.0.0.1:{}", self.daemon)
    }

    fn issuer(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.ca.is_some() { "https" } else { "http" }, self.provider)
    }

    /// What a browser here trusts.
    fn client(&self) -> reqwest::ClientBuilder {
        self.ca.as_ref().map_or_else(reqwest::Client::builder, Authority::client)
    }

    async fn provider(&self, modes: &[&str]) -> Provider {
        let callback = format!("{}/api/v1/session/oidc/callback", self.page());
        Provider::start(&self.issuer(), &self.client().build().unwrap(), &callback, modes).await
    }

    fn config(&self, roles: &[&str], tenants: &[&str]) -> ServeConfig {
        let secret = self.dir.join("secret");
        std::fs::write(&secret, "s3cret\n").unwrap();
        let groups = Groups {
            roles: roles.iter().map(|text| group_role(text).unwrap()).collect(),
            tenants: tenants.iter().map(|text| group_tenant(text).unwrap()).collect(),
        };
        let oidc = OidcConfig {
            issuer: IssuerUrl::new(self.issuer()).unwrap(),
            client_id: "ringscope".to_owned(),
            client_secret_file: Some(secret),
            scopes: vec!["profile".to_owned()],
            groups_claim: "groups".to_owned(),
            groups,
        };
        ServeConfig {
            listen: ([127, 0, 0, 1], self.daemon).into(),
            access: AccessConfig { oidc: Some(oidc), ..AccessConfig::default() },
            notify: NotifyConfig { public_url: Some(self.page()), ..NotifyConfig::default() },
            ..config(&sqlite(&self.dir))
        }
    }

    async fn daemon(&self, roles: &[&str], tenants: &[&str]) -> Daemon {
        let daemon = Daemon::start(self.config(roles, tenants)).await;
        daemon.until_ready().await;
        daemon
    }
}

const ROLES: [&str; 3] = ["sre=operate", "acme-staff=read", "admins=admin"];
const CALLBACK: &str = "/api/v1/session/oidc/callback";

/// What the audit trail has of signing in and out, the oldest first: (action, who, status, detail).
async fn audit(places: &Places) -> Vec<(String, String, u64, String)> {
    let mut root = Browser::new(&places.page());
    root.sign_in("/", "root").await;
    let page: Value = root.get("/api/v1/audit").await.json().await.unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entries = page["items"].as_array().unwrap().iter().rev();
    entries
        .map(|one| {
            (text(&one["action"]), text(&one["who"]), one["status"].as_u64().unwrap(), text(&one["detail"]))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_signs_in_comes_back_to_the_page_and_signs_out() {
    let places = Places::new("oidc-good");
    // Groups in the ID token; and in userinfo alone.
    for modes in [&[][..], &["userinfo"]] {
        let provider = places.provider(modes).await;
        let daemon = places.daemon(&ROLES, &[]).await;
        problem(daemon.get("/api/v1/jobs").await, 401, "token").await;
        let ways = daemon.json("/api/v1/session/ways").await;
        let host = format!("127.0.0.1:{}", places.provider);
        let address = format!("{}/api/v1/session/oidc", places.page());
        assert_eq!(ways, json!({ "oidc": { "issuer_host": host, "address": address } }));
        let mut alice = Browser::new(&places.page());
        let begun = alice.begin("/#/hosts/a?x=<1>").await;
        let set = begun.headers()["set-cookie"].to_str().unwrap().to_owned();
        for part in ["ringscope_oidc=", "HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=600"] {
            assert!(set.contains(part), "{part} in {set}");
        }
        let address = alice.location(&begun);
        for part in
            ["code_challenge_method=S256", "state=", "nonce=", "scope=openid+profile", "response_type=code"]
        {
            assert!(address.contains(part), "{part} in {address}");
        }
        let back = alice.at_provider(&address, Some("alice")).await;
        let page = alice.visit(&back).await;
        assert_eq!(page.status(), 200);
        let mut session = page.headers().get_all("set-cookie").iter().map(|set| set.to_str().unwrap());
        let session = session.find(|set| set.starts_with("ringscope_session=")).unwrap();
        assert!(session.contains("HttpOnly") && session.contains("SameSite=Strict"), "{session}");
        assert!(!alice.has("ringscope_oidc"), "what was for this sign-in alone is gone");
        let text = page.text().await.unwrap();
        let there = format!("content=\"0;url={}/#/hosts/a?x=&lt;1&gt;\"", places.page());
        assert!(text.contains(&there), "{there} in {text}");
        let who: Value = alice.get("/api/v1/session").await.json().await.unwrap();
        let known = ["name", "role", "known_by"].map(|part| who[part].as_str().unwrap());
        assert_eq!(known, ["alice", "operate", "session"]);
        assert!(who["ends_at"].is_string() && who.get("tenant").is_none(), "{who}");
        assert_eq!(alice.get("/api/v1/jobs").await.status(), 200);
        problem(alice.get("/api/v1/audit").await, 403, "needs admin").await;
        // The code, and the answer, are for once.
        problem(alice.visit(&back).await, 400, "has begun no sign-in").await;
        let out = alice
            .send(alice.request(reqwest::Method::DELETE, &format!("{}/api/v1/session", places.page())))
            .await;
        assert_eq!(out.status(), 204);
        problem(alice.get("/api/v1/jobs").await, 401, "token").await;
        let told = audit(&places).await;
        let of_alice: Vec<_> = told.iter().filter(|(_, who, ..)| who == "alice").collect();
        let ends = of_alice.len() - 2;
        assert_eq!((of_alice[ends].0.as_str(), of_alice[ends].2), ("sign_in", 200));
        assert!(of_alice[ends].3.contains("sub alice") && of_alice[ends].3.contains(&host), "{of_alice:?}");
        assert_eq!((of_alice[ends + 1].0.as_str(), of_alice[ends + 1].2), ("sign_out", 204));
        daemon.stop().await;
        drop(provider);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_signs_in_by_another_browsers_answer() {
    let places = Places::new("oidc-forged");
    let _provider = places.provider(&[]).await;
    let daemon = places.daemon(&ROLES, &[]).await;
    let mut alice = Browser::new(&places.page());
    let back = alice.until_back("/", Some("alice")).await;
    // Whoever got hold of the address has not the cookie; nor does one of another sign-in do.
    problem(Browser::new(&places.page()).visit(&back).await, 400, "has begun no sign-in").await;
    let mut mallory = Browser::new(&places.page());
    let of_mallory = mallory.until_back("/", Some("carol")).await;
    problem(mallory.visit(&back).await, 400, "another sign-in").await;
    problem(alice.visit(&of_mallory).await, 400, "another sign-in").await;
    problem(alice.visit(&browser::with(&back, "state", "")).await, 400, "another sign-in").await;
    // The code alone is worth nothing, even to who has the client's secret: the verifier never left the daemon.
    let code = browser::value(&back, "code");
    let form = [
        ("grant_type", "authorization_code"),
        ("code", code.as_str()),
        ("redirect_uri", &format!("{}{CALLBACK}", places.page())),
    ];
    let token = format!("http://127.0.0.1:{}/token", places.provider);
    let body = reqwest::Url::parse_with_params("http://x/", form).unwrap();
    let stolen = daemon.client.post(token).basic_auth("ringscope", Some("s3cret"));
    let stolen = stolen
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body.query().unwrap().to_owned());
    let stolen = stolen.send().await.unwrap();
    assert_eq!(stolen.status(), 400, "{}", stolen.text().await.unwrap());
    // A code of another sign-in with the right state: the verifier is not its own.
    let mut bob = Browser::new(&places.page());
    let of_bob = bob.until_back("/", Some("alice")).await;
    let swapped = browser::with(&of_bob, "code", &browser::value(&of_mallory, "code"));
    problem(bob.visit(&swapped).await, 400, "did not take the code").await;
    let again = alice.until_back("/", Some("alice")).await;
    problem(alice.visit(&browser::with(&again, "iss", "http://evil.example")).await, 403, "evil.example")
        .await;
    let no_code = browser::without(&alice.until_back("/", Some("alice")).await, "code");
    problem(alice.visit(&no_code).await, 400, "no code").await;
    for place in ["//evil.example", "https://evil.example/", "/\\evil.example", "/api/v1/session/oidc"] {
        problem(alice.begin(place).await, 400, "never another site").await;
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_token_of_another_sign_in_or_key_is_refused() {
    let places = Places::new("oidc-token");
    let provider = places.provider(&[]).await;
    let daemon = places.daemon(&ROLES, &[]).await;
    let mut alice = Browser::new(&places.page());
    let begun = alice.begin("/").await;
    let address = browser::with(&alice.location(&begun), "nonce", "of-another-sign-in");
    let back = alice.at_provider(&address, Some("alice")).await;
    problem(alice.visit(&back).await, 403, "nonce").await;
    assert!(!alice.has("ringscope_session"));
    drop(provider);
    // One that signs with a key of today is taken, without a restart of the daemon.
    let provider = places.provider(&[]).await;
    alice.sign_in("/", "alice").await;
    drop(provider);
    // One whose keys are not those that it names is not.
    let _provider = places.provider(&["foreign-keys"]).await;
    let mut other = Browser::new(&places.page());
    let back = other.until_back("/", Some("alice")).await;
    problem(other.visit(&back).await, 403, "ID token is refused").await;
    assert_eq!(alice.get("/api/v1/jobs").await.status(), 200, "who is in stays in");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_let_in_reads_why() {
    let places = Places::new("oidc-groups");
    let _provider = places.provider(&[]).await;
    let daemon = places.daemon(&ROLES, &["acme-staff=acme", "globex-staff=globex", "sre=*"]).await;
    let mut bob = Browser::new(&places.page());
    let back = bob.until_back("/", Some("bob")).await;
    let refused = problem(bob.visit(&back).await, 403, "bob: your identity provider names no groups").await;
    assert!(refused.detail.contains("Those that do: sre, acme-staff, admins"), "{refused:?}");
    // In a browser it is a page, on which nothing of others is HTML.
    let mut bob = Browser::new(&places.page());
    let back = bob.until_back("/", None).await;
    let request = bob.request(reqwest::Method::GET, &back).header("accept", "text/html,*/*;q=0.8");
    let page = bob.send(request).await;
    assert_eq!(
        (page.status().as_u16(), &page.headers()["content-type"]),
        (403, &"text/html; charset=utf-8".parse().unwrap())
    );
    let text = page.text().await.unwrap();
    assert!(text.contains("access_denied nobody &lt;b&gt;signed&lt;/b&gt; in"), "{text}");
    assert!(!bob.has("ringscope_session"));
    let mut carol = Browser::new(&places.page());
    carol.sign_in("/", "carol").await;
    let who: Value = carol.get("/api/v1/session").await.json().await.unwrap();
    assert_eq!((&who["tenant"], &who["role"]), (&json!("acme"), &json!("read")));
    let mut dave = Browser::new(&places.page());
    let back = dave.until_back("/", Some("dave")).await;
    problem(dave.visit(&back).await, 403, "the tenants acme, globex").await;
    let mut alice = Browser::new(&places.page());
    alice.sign_in("/", "alice").await;
    let who: Value = alice.get("/api/v1/session").await.json().await.unwrap();
    assert_eq!((who.get("tenant"), &who["role"]), (None, &json!("operate")));
    let told = audit(&places).await;
    let failed: Vec<_> = told.iter().filter(|(_, _, status, _)| *status == 403).collect();
    assert_eq!(failed.len(), 3, "{told:?}");
    assert!(failed.iter().all(|(action, who, ..)| action == "sign_in" && who.is_empty()), "{failed:?}");
    assert!(failed[0].3.contains("bob"), "{failed:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_comes_later_is_found() {
    let places = Places::new("oidc-later");
    let daemon = places.daemon(&ROLES, &[]).await;
    let away = async || daemon.json("/api/v1/session/ways").await["oidc"]["away"].is_string();
    until("the page says that the provider is away", away).await;
    let mut alice = Browser::new(&places.page());
    problem(alice.begin("/").await, 503, "cannot be asked").await;
    let request = alice.request(reqwest::Method::GET, &format!("{}/api/v1/session/oidc", places.page()));
    let page = alice.send(request.header("accept", "text/html")).await;
    assert_eq!(page.status(), 503);
    let text = page.text().await.unwrap();
    assert!(text.contains("a token goes on to work") && text.contains("Back to signing in"), "{text}");
    let _provider = places.provider(&[]).await;
    let back = async || !daemon.json("/api/v1/session/ways").await["oidc"]["away"].is_string();
    until("the provider is there", back).await;
    alice.sign_in("/", "alice").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_others_reach_starts_with_a_provider_and_no_token() {
    let places = Places::new("oidc-reachable");
    let reachable = ServeConfig {
        listen: ([0, 0, 0, 0], 0).into(),
        database_url: "none".parse().unwrap(),
        ..places.config(&ROLES, &[])
    };
    let daemon = Daemon::start(reachable).await;
    let local = format!("http://127.0.0.1:{}/api/v1/jobs", daemon.url.rsplit(':').next().unwrap());
    problem(daemon.client.get(local).send().await.unwrap(), 401, "token").await;
    daemon.stop().await;
    let without = Daemon::ready("sqlite::memory:").await;
    problem(without.get("/api/v1/session/oidc").await, 404, "--oidc-issuer").await;
    problem(without.get(CALLBACK).await, 404, "--oidc-issuer").await;
    assert_eq!(without.json("/api/v1/session/ways").await, json!({}));
    without.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_by_https_is_asked_if_its_ca_is_trusted() {
    let ca = Authority::new("the provider's");
    let places = Places { ca: Some(ca), ..Places::new("oidc-https") };
    let ca = places.ca.as_ref().unwrap();
    ca.issue(&["127.0.0.1"]).write(&places.dir, "host");
    let _provider = places.provider(&[&format!("tls={}", places.dir.display())]).await;
    let browser = || Browser::with(&places.page(), places.client());
    let stranger = places.daemon(&ROLES, &[]).await;
    problem(browser().begin("/").await, 503, "certificate").await;
    stranger.stop().await;
    let trust = Trust { ca: Some(ca.write(&places.dir, "ca.pem")), ..Trust::default() };
    let mut config = places.config(&ROLES, &[]);
    config.notify.trust = trust;
    let daemon = Daemon::start(config).await;
    daemon.until_ready().await;
    let mut alice = browser();
    alice.sign_in("/", "alice").await;
    let session: Value = alice.get("/api/v1/session").await.json().await.unwrap();
    assert_eq!(session["role"], "operate", "{session}");
    daemon.stop().await;
}
