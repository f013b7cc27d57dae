//! The API's document: what is committed for the page is what the daemon serves, and it says everything of every route.
//!
//! `BLESS=1 cargo test -p ringscope --test openapi` writes `web/openapi.json`.

#![allow(missing_docs, reason = "a test")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by them"
)]

mod common;

use common::daemon::Daemon;
use serde_json::Value;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../web/openapi.json");

async fn document() -> Value {
    let daemon = Daemon::ready("none").await;
    let document = daemon.json("/api/v1/openapi.json").await;
    daemon.stop().await;
    document
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_committed_document_is_what_is_served() {
    let mut served = document().await;
    served.sort_all_objects();
    let served = format!("{}\n", serde_json::to_string_pretty(&served).unwrap());
    #[allow(clippy::disallowed_methods, reason = "how golden files are blessed")]
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(GOLDEN, &served).unwrap();
    }
    let committed = std::fs::read_to_string(GOLDEN).unwrap_or_default();
    assert!(
        committed == served,
        "web/openapi.json is not what the daemon serves; if the change is meant: BLESS=1 cargo test -p ringscope \
         --test openapi, and `npm run types` in web/"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_be_left_out_is_never_null() {
    let document = document().await;
    let mut n_nullable = 0;
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for part in std::iter::once(schema).chain(schema["allOf"].as_array().into_iter().flatten()) {
            let required: Vec<&str> =
                part["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            for (field, told) in part["properties"].as_object().into_iter().flatten() {
                let kinds = std::iter::once(told).chain(told["oneOf"].as_array().into_iter().flatten());
                let is_nullable = kinds.map(|kind| &kind["type"]).any(|kind| {
                    *kind == "null" || kind.as_array().is_some_and(|kinds| kinds.contains(&"null".into()))
                });
                n_nullable += usize::from(is_nullable);
                assert!(
                    !is_nullable || required.contains(&&**field),
                    "{name}.{field}: say `required = true`, or `nullable = false` if it is left out"
                );
            }
        }
    }
    assert!(n_nullable > 20, "{n_nullable}");
}

/// Names, of which nothing can be said but that they are text.
const NAMES: [&str; 7] = ["job", "host", "comm", "group", "nic", "file", "id"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_parameter_says_what_it_may_be() {
    let document = document().await;
    let items = document["paths"].as_object().unwrap().iter();
    let operations =
        items.flat_map(|(path, item)| item.as_object().unwrap().values().map(move |one| (path, one)));
    for (path, operation) in operations {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            let is_bare = parameter["schema"] == serde_json::json!({ "type": "string" });
            assert!(!is_bare || NAMES.contains(&name), "{name} of {path}");
        }
    }
}

/// All references in a value, with where they stand.
fn references(value: &Value, at: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                match inner.as_str() {
                    Some(target) if name == "$ref" => found.push((at.to_owned(), target.to_owned())),
                    _ => references(inner, &format!("{at}/{name}"), found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|inner| references(inner, at, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reference_leads_somewhere() {
    let document = document().await;
    let mut found = Vec::new();
    references(&document, "", &mut found);
    assert!(found.len() > 100, "{}", found.len());
    for (at, target) in &found {
        let pointer = target.strip_prefix('#').unwrap_or_else(|| panic!("{at}: {target} leads elsewhere"));
        assert!(document.pointer(pointer).is_some(), "{at}: nothing is at {target}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_where_the_api_is_and_who_is_refused() {
    let document = document().await;
    assert_eq!(document["servers"][0]["url"], "/");
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.contains_key("421"), "{method} {path}");
            let asks_who = !operation["security"].as_array().unwrap().is_empty();
            assert!(!asks_who || responses.contains_key("401"), "{method} {path}");
            // Who comes back from a provider may be refused by that, or have no group that counts.
            let is_back = path == "/api/v1/session/oidc/callback";
            assert_eq!(
                responses.contains_key("403"),
                method != "get" || asks_who || is_back,
                "{method} {path}"
            );
        }
    }
}
