//! Every request that the API's document allows, with given names. What has no row here fails.

use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::stage::{Ids, Stage, Tenant};

/// A request, and the names in it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    /// With its query.
    pub(crate) path: String,
    pub(crate) body: Body,
    pub(crate) given: Vec<String>,
}

/// What is sent along.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    None,
    Json(Value),
    Batch,
    Log,
}

impl Asked {
    pub(crate) async fn send(&self, stage: &Stage, token: &str) -> Response {
        let request = stage.ask(token, self.method.clone(), &self.path);
        let request = match &self.body {
            Body::None => request,
            Body::Json(body) => request.json(body),
            // What is in them is another test's; here: no batch, and a file that says nothing.
            Body::Batch => request.header("content-type", "application/x-protobuf").body("no batch"),
            Body::Log => request.header("content-type", "application/octet-stream").body("no log"),
        };
        request.send().await.unwrap()
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.path == "/api/v1/events"
    }

    /// The same with other names.
    pub(crate) fn with(&self, before: &Ids, after: &Ids) -> Self {
        let change = |text: &String| {
            lists(before).into_iter().zip(lists(after)).fold(text.clone(), |text, (from, to)| {
                from.iter().fold(text, |text, name| text.replace(name.as_str(), &to[0]))
            })
        };
        Self { path: change(&self.path), given: self.given.iter().map(change).collect(), ..self.clone() }
    }
}

fn lists(ids: &Ids) -> [&Vec<String>; 7] {
    [&ids.jobs, &ids.hosts, &ids.comms, &ids.incidents, &ids.groups, &ids.tokens, &ids.nics]
}

/// All of them, for the things of `tenant`; with routes that are in no document.
pub(crate) fn requests(document: &Value, tenant: &Tenant, ids: &Ids) -> Vec<Asked> {
    let mut all: Vec<Asked> =
        ["/metrics", "/healthz", "/readyz", "/", "/api/v1/openapi.json", "/api/v1/nothing"]
            .map(|path| Asked {
                method: Method::GET,
                path: path.to_owned(),
                body: Body::None,
                given: Vec::new(),
            })
            .into();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let parameters: Vec<(&str, bool, bool)> = operation["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| (one["name"].as_str().unwrap(), one["in"] == "path", one["required"] == true))
                .collect();
            let base =
                Asked { body: body(&method, path, tenant), method, path: path.clone(), given: Vec::new() };
            all.extend(filled(base, path, &parameters, tenant, ids));
        }
    }
    all
}

/// One route: with what it must have, and each other parameter by itself.
fn filled(
    base: Asked,
    path: &str,
    parameters: &[(&str, bool, bool)],
    tenant: &Tenant,
    ids: &Ids,
) -> Vec<Asked> {
    let mut must = vec![base];
    for (name, is_in_path, _) in parameters.iter().filter(|(_, _, is_required)| *is_required) {
        let values = values(path, name, tenant, ids);
        let fill = |asked: &Asked, (value, is_name): &(String, bool)| {
            let mut asked = asked.clone();
            if *is_in_path {
                asked.path = asked.path.replace(&format!("{{{name}}}"), value);
            } else {
                add(&mut asked.path, name, value);
            }
            asked.given.extend(is_name.then(|| value.clone()));
            asked
        };
        must = must.iter().flat_map(|asked| values.iter().map(move |value| fill(asked, value))).collect();
    }
    assert!(
        must.iter().all(|asked| !asked.path.contains('{')),
        "a parameter of {path} is not in the document"
    );
    let mut all = must.clone();
    for (name, ..) in parameters.iter().filter(|(_, _, is_required)| !is_required) {
        for (value, is_name) in values(path, name, tenant, ids) {
            // A PNG is drawn of what its SVG is, and takes its time.
            if path.ends_with(".png") && !is_name {
                continue;
            }
            // With one of each other name: which one says nothing more.
            let mut asked = must[0].clone();
            add(&mut asked.path, name, &value);
            asked.given.extend(is_name.then_some(value));
            all.push(asked);
        }
    }
    all
}

fn add(path: &mut String, name: &str, value: &str) {
    let mark = if path.contains('?') { '&' } else { '?' };
    *path = format!("{path}{mark}{name}={value}");
}

/// What a parameter is filled with, and whether that is a name of the tenant's, which an answer may repeat.
fn values(path: &str, name: &str, tenant: &Tenant, ids: &Ids) -> Vec<(String, bool)> {
    let names = |names: &[String]| names.iter().map(|name| (name.clone(), true)).collect();
    let words = |words: &[&str]| words.iter().map(|word| ((*word).to_owned(), false)).collect();
    match name {
        "job" if path == "/api/v1/import" => words(&["new"]),
        "job" => names(&ids.jobs),
        "host" => names(&ids.hosts),
        "comm" => names(&ids.comms),
        "group" => names(&ids.groups),
        "nic" => names(&ids.nics),
        "id" if path.starts_with("/api/v1/communicators/") => names(&ids.comms),
        "id" if path.starts_with("/api/v1/incidents/") => names(&ids.incidents),
        "id" if path.starts_with("/api/v1/summation/groups/") => names(&ids.groups),
        "id" if path.starts_with("/api/v1/tokens/") => names(&ids.tokens),
        "q" => words(&[tenant.mark, tenant.name, "world", "rank 1", "nic", "gradient"]),
        "who" | "file" => words(&[&format!("{}-operate", tenant.mark)]),
        "action" => words(&["note", "level"]),
        "metric" if path.contains("/summation/") => words(&["push_issued_bytes", "summed_bytes"]),
        "metric" => words(&["issued_bytes", "backlog_bytes"]),
        "by" => words(&["host", "comm"]),
        "by_host" | "by_service" | "degraded" | "download" => words(&["true"]),
        "rate" => words(&["true", "false"]),
        "state" => words(&["firing", "resolved", "active", "running", "ended", "in_flight", "completed"]),
        "severity" => words(&["critical", "info"]),
        "kind" => words(&["nic_degraded", "capped_by_peer"]),
        "primitive" => words(&["all_reduce"]),
        "limit" | "key" | "channel" => words(&["1"]),
        // After the first job, as a list of that tenant's gives it.
        "cursor" => words(&[&hex(&format!("1:{}", ids.jobs[0])), "1"]),
        // What all of them have, and what was never.
        "at" => words(&[&ringscope_api::clock::now().to_string(), "2026-01-31T12:00:05Z"]),
        "from" | "written" => words(&["2026-01-31T11:59:00Z"]),
        "to" => words(&["2100-01-01T00:00:00Z"]),
        "step" => words(&["60s"]),
        "format" => words(&["chrome"]),
        "theme" => words(&["dark"]),
        "width" | "height" => words(&["600"]),
        "return" => words(&["/#/hosts"]),
        "code" | "iss" | "error" | "error_description" => words(&["x"]),
        _ => panic!("the parameter {name} of {path} has no row in this test: say what it may be"),
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// What is sent to a route that changes something.
fn body(method: &Method, path: &str, tenant: &Tenant) -> Body {
    let below = path.strip_prefix("/api/v1/").unwrap();
    match (method.as_str(), below) {
        ("GET", _) | ("DELETE", "session" | "tokens/{id}") => Body::None,
        ("PUT", "jobs/{job}/level") => Body::Json(json!({ "level": "steps" })),
        (
            "POST",
            "incidents/{id}/acknowledge" | "incidents/{id}/unacknowledge" | "incidents/{id}/unsilence",
        ) => Body::Json(json!({ "by": "mallory" })),
        ("POST", "incidents/{id}/silence") => Body::Json(json!({ "by": "mallory", "for_s": 60 })),
        ("POST", "incidents/{id}/notes") => Body::Json(json!({ "by": "mallory", "text": "I was here." })),
        ("POST", "tokens") => Body::Json(json!({ "name": "mine", "role": "read", "tenant": tenant.name })),
        ("POST", "session") => Body::Json(json!({ "token": "rsc_0123456789abcdef_0" })),
        ("POST", "ingest") => Body::Batch,
        ("POST", "import") => Body::Log,
        (method, _) => panic!("{method} {path} has no row in this test: say what is sent to it"),
    }
}
