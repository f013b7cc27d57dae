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
