//! A daemon with two tenants of which each has everything that a tenant can have.

use std::path::Path;

use prost::Message as _;
use reqwest::{Method, RequestBuilder};
use ringscope_api::clock;
use ringscope_api::{Role, TokenWish};
use ringscope_server::gate;
use ringscope_store::Store;
use ringscope_wire::batch::Batch;
use serde_json::{Value, json};

use super::marked;
use crate::common::daemon::{Daemon, closed, sqlite};
use crate::common::until;

/// One tenant, and what is known by whom.
pub(crate) struct Tenant {
    pub(crate) name: &'static str,
    /// Stands in every text of the tenant's.
    pub(crate) mark: &'static str,
    pub(crate) agent: String,
    pub(crate) operator: String,
    pub(crate) ids: Ids,
}

/// What the tenant's things are called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    pub(crate) jobs: Vec<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) comms: Vec<String>,
    pub(crate) incidents: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) tokens: Vec<String>,
    pub(crate) nics: Vec<String>,
}

pub(crate) struct Stage {
    pub(crate) daemon: Daemon,
    pub(crate) acme: Tenant,
    pub(crate) globex: Tenant,
    pub(crate) admin: String,
    /// Sends for nobody in particular.
    pub(crate) agent: String,
}

impl Stage {
    pub(crate) async fn new(dir: &Path) -> Self {
        let url = sqlite(dir);
        let admin = token(&url, "admin", Role::Admin, None).await;
        let agent = token(&url, "agents", Role::Ingest, None).await;
        let mut tenants = Vec::new();
        for (name, mark) in [("acme", "quokka"), ("globex", "wombat")] {
            let of =
                async |role: Role| token(&url, &format!("{mark}-{}", role.label()), role, Some(name)).await;
            let (agent, operator) = (of(Role::Ingest).await, of(Role::Operate).await);
            tenants.push(Tenant { name, mark, agent, operator, ids: Ids::default() });
        }
        let daemon = Daemon::start(closed(&url)).await;
        daemon.until_ready().await;
        let (globex, acme) = (tenants.remove(1), tenants.remove(0));
        let mut stage = Self { daemon, acme, globex, admin, agent };
        stage.acme.ids = stage.fill(&stage.acme).await;
        stage.globex.ids = stage.fill(&stage.globex).await;
        stage
    }

    pub(crate) fn ask(&self, token: &str, method: Method, path: &str) -> RequestBuilder {
        self.daemon.client.request(method, format!("{}{path}", self.daemon.url)).bearer_auth(token)
    }

    pub(crate) async fn json(&self, token: &str, path: &str) -> Value {
        let answer = self.ask(token, Method::GET, path).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) async fn send(&self, token: &str, batch: &Batch) {
        let request = self.ask(token, Method::POST, "/api/v1/ingest");
        let request = request.header("content-type", "application/x-protobuf").body(batch.encode_to_vec());
        assert_eq!(request.send().await.unwrap().status(), 200);
    }

    async fn say(&self, token: &str, method: Method, path: &str, body: Value) {
        let answer = self.ask(token, method, path).json(&body).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{path}: {status} {}", answer.text().await.unwrap());
    }

    /// Gives a tenant a job, a summation group, an imported job, incidents of which people speak, a level and a token.
    async fn fill(&self, tenant: &Tenant) -> Ids {
        let now_ns = clock::now().0;
        for host in 0..2 {
            self.send(&tenant.agent, &marked::batch(tenant.mark, host, 1, now_ns)).await;
            // Counters that grow are history.
            self.send(&tenant.agent, &marked::batch(tenant.mark, host, 2, now_ns + 1_000_000)).await;
        }
        self.send(&tenant.agent, &marked::summing(tenant.mark, 1, now_ns)).await;
        let path = format!("/api/v1/import?job={0}-kept&file={0}.log", tenant.mark);
        let import = self.ask(&tenant.operator, Method::POST, &path).body(marked::log(tenant.mark));
        let import = import.header("content-type", "application/octet-stream").send().await.unwrap();
        assert_eq!(import.status(), 200, "{}", import.text().await.unwrap());
        let job = format!("{}::{}-train", tenant.name, tenant.mark);
        self.say(
            &tenant.operator,
            Method::PUT,
            &format!("/api/v1/jobs/{job}/level"),
            json!({ "level": "channels" }),
        )
        .await;
        let wish = json!({ "name": format!("{}-token", tenant.mark), "role": "read", "tenant": tenant.name });
        self.say(&self.admin, Method::POST, "/api/v1/tokens", wish).await;
        let has_incidents = async || self.list(&tenant.operator, "incidents", "id").await.len() >= 2;
        until("incidents", has_incidents).await;
        for id in self.list(&tenant.operator, "incidents", "id").await {
            let by = format!("{}-ann", tenant.mark);
            for (what, body) in [
                ("acknowledge", json!({ "by": by })),
                ("notes", json!({ "by": by, "text": format!("{}-note", tenant.mark) })),
                ("silence", json!({ "by": by, "for_s": 3600 })),
            ] {
                self.say(&tenant.operator, Method::POST, &format!("/api/v1/incidents/{id}/{what}"), body)
                    .await;
            }
        }
        let has_history = async || {
            let series = self.json(&tenant.operator, "/api/v1/series?metric=issued_bytes&by=comm").await;
            series["lines"].as_array().is_some_and(|lines| !lines.is_empty())
        };
        until("history", has_history).await;
        self.ids(tenant).await
    }

    /// What a tenant's things are called now.
    pub(crate) async fn ids(&self, tenant: &Tenant) -> Ids {
        let list = async |what: &str| self.list(&tenant.operator, what, "id").await;
        let tokens = self.json(&self.admin, "/api/v1/tokens?limit=1000").await;
        let tokens = tokens["items"].as_array().unwrap().iter();
        let tokens = tokens.filter(|token| token["tenant"] == tenant.name);
        Ids {
            jobs: list("jobs").await,
            hosts: self.list(&tenant.operator, "nodes", "host").await,
            comms: list("communicators").await,
            incidents: list("incidents").await,
            groups: list("summation/groups").await,
            tokens: tokens.map(|token| token["id"].as_str().unwrap().to_owned()).collect(),
            nics: vec![format!("{}-nic", tenant.mark)],
        }
    }

    async fn list(&self, token: &str, what: &str, key: &str) -> Vec<String> {
        let page = self.json(token, &format!("/api/v1/{what}?limit=1000")).await;
        let items = page["items"].as_array().unwrap().iter();
        items.map(|item| item[key].as_str().unwrap_or_else(|| panic!("{what}: {item}")).to_owned()).collect()
    }
}

impl Ids {
    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &String> {
        let lists =
            [&self.jobs, &self.hosts, &self.comms, &self.incidents, &self.groups, &self.tokens, &self.nics];
        lists.into_iter().flatten()
    }

    /// Of the same form, and nobody's.
    pub(crate) fn nobodys() -> Self {
        let one = |text: &str| vec![text.to_owned()];
        Self {
            jobs: one("globex::nothing"),
            hosts: one("globex::nowhere"),
            comms: one("00000000beef"),
            incidents: one("00000000beef"),
            groups: one("00000000beef"),
            tokens: one("00000000deadbeef"),
            nics: one("no-nic"),
        }
    }
}

/// A token, made as `ringscope token create --database` makes it.
async fn token(url: &str, name: &str, role: Role, tenant: Option<&str>) -> String {
    let store = Store::open(&url.parse().unwrap()).await.unwrap().unwrap();
    let wish =
        TokenWish { name: name.to_owned(), role, tenant: tenant.map(ToOwned::to_owned), expires_in_s: None };
    let (made, row) = gate::made(&wish, "test", clock::now()).unwrap();
    assert!(store.add_token(&row).await.unwrap());
    store.close().await;
    made.secret
}
