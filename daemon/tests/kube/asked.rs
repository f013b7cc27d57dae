//! Questions to the webhook, and what becomes of their pods.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ringscope_server::kubernetes::{self, Architecture, Injection};
use serde_json::{Value, json};

use crate::programs::root;

/// Questions of fixtures/kubernetes, and the jobs that their pods belong to.
pub(crate) const RECORDED: [(&str, &str); 5] = [
    ("job", "research/llama"),
    ("jobset", "research/gpt"),
    ("pytorchjob", "vision/resnet"),
    ("mpijob-worker", "hpc/bench"),
    ("mpijob-launcher", "hpc/bench"),
];

pub(crate) fn recorded(name: &str) -> Value {
    let file = root().join("fixtures/kubernetes").join(format!("{name}.json"));
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

pub(crate) fn injection() -> Injection {
    Injection {
        image: "registry.example/ringscope:1".to_owned(),
        folder: "/dev/shm/ringscope".to_owned(),
        architectures: vec![Architecture::Amd64],
    }
}

/// What is answered, which must be an allowing one to that question.
pub(crate) fn response(review: &Value) -> Value {
    let answer = kubernetes::answer(review.to_string().as_bytes(), &injection());
    assert_eq!((&answer["kind"], &answer["apiVersion"]), (&json!("AdmissionReview"), &review["apiVersion"]));
    let response = answer["response"].clone();
    assert_eq!((&response["allowed"], &response["uid"]), (&json!(true), &review["request"]["uid"]));
    response
}

/// The pod with the patch that was answered, if there is one.
pub(crate) fn patched(review: &Value, response: &Value) -> Option<Value> {
    let patch = STANDARD.decode(response["patch"].as_str()?).unwrap();
    assert_eq!(response["patchType"], "JSONPatch");
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    let mut pod = review["request"]["object"].clone();
    json_patch::patch(&mut pod, &patch).unwrap();
    Some(pod)
}

pub(crate) fn warnings(response: &Value) -> Vec<String> {
    serde_json::from_value(response.get("warnings").cloned().unwrap_or(json!([]))).unwrap()
}

/// The container of that name.
pub(crate) fn container<'p>(pod: &'p Value, name: &str) -> &'p Value {
    let all = pod["spec"]["containers"].as_array().unwrap();
    all.iter().find(|container| container["name"] == name).unwrap()
}

/// What a container's variable says: its value, or the field that it comes from.
pub(crate) fn variable<'p>(container: &'p Value, name: &str) -> Option<&'p str> {
    let mut all = container["env"].as_array()?.iter().filter(|variable| variable["name"] == name);
    let found = all.next()?;
    assert!(all.next().is_none(), "{name} twice");
    found["value"].as_str().or_else(|| found["valueFrom"]["fieldRef"]["fieldPath"].as_str())
}
