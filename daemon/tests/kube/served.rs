//! The webhook as the daemon serves it.

use reqwest::StatusCode;
use ringscope_daemon::config::ServeConfig;

use crate::asked::{injection, patched, recorded};
use crate::common::daemon::{Daemon, closed, problem, sqlite};
use crate::common::scratch;

const PATH: &str = "/kubernetes/admission";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_servers_are_answered_without_a_token_and_others_get_nothing_by_it() {
    let dir = scratch("kube-served");
    let daemon = Daemon::start(ServeConfig { kubernetes: Some(injection()), ..closed(&sqlite(&dir)) }).await;
    daemon.until_ready().await;
    let ask = |body: Vec<u8>| daemon.client.post(format!("{}{PATH}", daemon.url)).body(body).send();
    let review = recorded("job");
    let answer = ask(review.to_string().into_bytes()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()["content-type"], "application/json");
    let answer: serde_json::Value = answer.json().await.unwrap();
    assert!(patched(&review, &answer["response"]).is_some(), "{answer}");
    problem(ask(vec![b' '; 3 << 20]).await.unwrap(), 413, "a question has at most").await;
    let malformed = ask(b"{".to_vec()).await.unwrap();
    assert_eq!(malformed.status(), StatusCode::OK);
    assert_eq!(daemon.get(PATH).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(daemon.get("/api/v1/jobs").await.status(), StatusCode::UNAUTHORIZED);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_off_unless_somebody_says_so() {
    let daemon = Daemon::ready("none").await;
    let answer = daemon.client.post(format!("{}{PATH}", daemon.url)).body("{}").send().await.unwrap();
    problem(answer, 404, "--kubernetes-image").await;
    daemon.stop().await;
}
