//! The templates of jobs, and what the documentation shows of them.

use std::fs;

use serde_json::{Value, json};

use crate::asked::{patched, recorded, response};
use crate::programs::{are_valid, documents, root};

fn template(name: &str) -> Vec<Value> {
    documents(&fs::read(root().join("packaging/kubernetes").join(name)).unwrap())
}

fn all() -> Vec<(String, Vec<Value>)> {
    let entries = fs::read_dir(root().join("packaging/kubernetes")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".yaml")).collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), template(&name))).collect()
}

/// Templates of pods anywhere in a document.
fn pods(value: &Value) -> Vec<&Value> {
    let own = value["template"]["spec"]["containers"].is_array().then(|| &value["template"]);
    let inner: Vec<&Value> = match value {
        Value::Object(fields) => fields.values().flat_map(pods).collect(),
        Value::Array(items) => items.iter().flat_map(pods).collect(),
        _ => Vec::new(),
    };
    own.into_iter().chain(inner).collect()
}

#[test]
fn each_is_valid_and_so_are_its_pods_with_the_collector() {
    let mut valid = Vec::new();
    for (name, documents) in all() {
        for pod in documents.iter().flat_map(pods) {
            let mut pod = pod.clone();
            pod["metadata"]["name"] = "pod".into();
            pod["kind"] = "Pod".into();
            pod["apiVersion"] = "v1".into();
            let mut review = recorded("job");
            review["request"]["object"] = pod.clone();
            let is_asked_for = pod["metadata"]["labels"]["ringscope.io/watch"] == "true";
            let found = patched(&review, &response(&review));
            assert_eq!(found.is_some(), is_asked_for, "{name}");
            valid.extend(found);
            valid.push(pod);
        }
        valid.extend(documents);
    }
    are_valid(&valid);
}

#[test]
fn none_needs_the_hosts_network_a_port_of_its_own_or_ssh() {
    for (name, documents) in all() {
        let text = json!(documents).to_string();
        assert!(!text.contains("hostNetwork") && !text.contains("hostPort"), "{name}");
        assert!(name == "mpijob.yaml" || !text.contains("ssh"), "{name}");
        for pod in documents.iter().flat_map(pods) {
            let is_server = pod["spec"]["containers"][0]["command"][0] == "ringscope-sumd";
            let variables = pod["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
            let is_no_rank = variables.contains(&json!({"name": "JOB_COMPLETION_INDEX", "value": ""}));
            assert_eq!(is_server, is_no_rank, "{name}: a server is no rank");
        }
    }
}

#[test]
fn what_the_documentation_shows_is_the_template() {
    let page = fs::read_to_string(root().join("docs/kubernetes.md")).unwrap();
    let (_, shown) = page.split_once("### Without the webhook").unwrap();
    let shown = shown.split("```").nth(1).unwrap().strip_prefix("yaml\n").unwrap();
    let shown = &documents(format!("spec:\n{shown}").as_bytes())[0]["spec"];
    let pod = &template("by-hand.yaml")[0]["spec"];
    assert_eq!(shown["volumes"], pod["volumes"]);
    for field in ["command", "env", "volumeMounts"] {
        assert_eq!(shown["containers"][0][field], pod["containers"][0][field], "{field}");
    }
}
