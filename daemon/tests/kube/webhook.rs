//! What watched pods get.

use serde_json::{Value, json};

use crate::asked::{RECORDED, container, patched, recorded, response, variable, warnings};
use crate::programs::are_valid;

const COLLECTOR: &str = "/run/ringscope/collector/libringscope.so";
const PRELOAD: &str = "/run/ringscope/collector/libringscope_preload.so";

fn injected(name: &str) -> (Value, Value) {
    let review = recorded(name);
    let response = response(&review);
    let pod = patched(&review, &response).unwrap_or_else(|| panic!("{name} is not watched: {response}"));
    (review, pod)
}

#[test]
fn pods_of_all_controllers_get_the_collector_and_stay_what_they_were() {
    let mut pods = Vec::new();
    for (name, job) in RECORDED {
        let (review, pod) = injected(name);
        let watched = watched(&pod);
        assert_eq!(watched.len(), 1, "{name}");
        for container in watched {
            let run = review["request"]["uid"].as_str().unwrap().replace('-', "");
            assert_eq!(variable(container, "RINGSCOPE_JOB"), Some(job), "{name}");
            assert_eq!(variable(container, "RINGSCOPE_DIR"), Some("/run/ringscope/segments"));
            assert_eq!(variable(container, "RINGSCOPE_HOST"), Some("spec.nodeName"));
            assert_eq!(variable(container, "NODE_NAME"), Some("spec.nodeName"));
            assert_eq!(variable(container, "POD_NAME"), Some("metadata.name"));
            assert_eq!(variable(container, "POD_NAMESPACE"), Some("metadata.namespace"));
            assert_eq!(variable(container, "CONTAINER_NAME"), container["name"].as_str());
            assert_eq!(variable(container, "RINGSCOPE_COLLECTOR"), Some(COLLECTOR));
            assert_eq!(variable(container, "NCCL_PROFILER_PLUGIN"), Some(COLLECTOR));
            assert!(variable(container, "LD_PRELOAD").unwrap().starts_with(PRELOAD));
            let log = variable(container, "NCCL_DEBUG_FILE").unwrap_or(&run);
            assert!(log.contains(&run), "nobody can guess {log}");
        }
        let init = &pod["spec"]["initContainers"][0];
        assert_eq!(init["args"], json!(["collector", "install", "--go-on", "/run/ringscope/collector"]));
        assert_eq!(init["imagePullPolicy"], "IfNotPresent", "an image that is there needs no registry");
        assert!(
            pod["metadata"]["annotations"]["ringscope.io/webhook"].as_str().unwrap().starts_with("watched: ")
        );
        if name != "job" {
            assert_eq!(
                without_ours(pod.clone()),
                without_ours(review["request"]["object"].clone()),
                "{name}"
            );
        }
        pods.push(named(pod));
    }
    are_valid(&pods);
}

#[test]
fn what_the_user_preloads_and_plugs_in_is_joined() {
    let (_, pod) = injected("job");
    let trainer = container(&pod, "trainer");
    let preloaded = format!("{PRELOAD}:/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4");
    assert_eq!(variable(trainer, "LD_PRELOAD"), Some(preloaded.as_str()));
    let chained = variable(trainer, "RINGSCOPE_CHAIN_PLUGIN");
    assert_eq!(chained, Some("/opt/plugins/libnccl-profiler-site.so"));
    assert_eq!(variable(trainer, "PYTHONPATH"), Some("/run/ringscope/collector/python:/workspace"));
    assert_eq!(variable(trainer, "NCCL_DEBUG_SUBSYS"), Some("INIT,GRAPH,ENV"));
    // The job's class of service and what its namespace allows stay as they are.
    let expected =
        json!({"limits": {"cpu": "16", "memory": "128Gi"}, "requests": {"cpu": "16", "memory": "128Gi"}});
    assert_eq!(pod["spec"]["initContainers"][0]["resources"], expected);
}

#[test]
fn a_log_that_the_user_wants_to_see_stays_and_that_is_said() {
    let (review, pod) = injected("pytorchjob");
    let worker = container(&pod, "pytorch");
    assert_eq!(variable(worker, "NCCL_DEBUG"), Some("WARN"));
    assert_eq!(variable(worker, "NCCL_DEBUG_FILE"), None);
    let told = warnings(&response(&review));
    assert!(told.len() == 1 && told[0].contains("sets NCCL_DEBUG"), "{told:?}");
}

#[test]
fn only_containers_that_are_named_are_watched() {
    let check = |names: &str, expected: &[&str], n_warnings: usize| {
        let mut review = recorded("jobset");
        review["request"]["object"]["metadata"]["annotations"]["ringscope.io/containers"] = names.into();
        let response = response(&review);
        let told = warnings(&response);
        assert_eq!(told.len(), n_warnings, "{names}: {told:?}");
        let pod = patched(&review, &response);
        let found: Vec<&str> = pod.iter().flat_map(watched).filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(found, expected, "{names}");
    };
    check("worker", &["worker"], 0);
    check(" worker , istio-proxy", &["worker", "istio-proxy"], 0);
    check("worker,eval", &["worker"], 1);
    check("eval", &[], 2);
    check("", &[], 1);
}

#[test]
fn asked_again_nothing_is_given_twice() {
    for (name, _) in RECORDED {
        let (mut review, pod) = injected(name);
        review["request"]["object"] = pod;
        assert_eq!(patched(&review, &response(&review)), None, "{name}");
    }
}

#[test]
fn a_pod_with_nothing_gets_all_that_is_missing() {
    let pod = json!({"metadata": {"name": "bare", "labels": {"ringscope.io/watch": "true"}},
        "spec": {"containers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b", "env": null}]}});
    let mut review = recorded("job");
    review["request"]["object"] = pod;
    let pod = patched(&review, &response(&review)).unwrap();
    assert_eq!(watched(&pod).len(), 2);
    let logs = ["a", "b"].map(|name| variable(container(&pod, name), "NCCL_DEBUG_FILE").unwrap().to_owned());
    assert_ne!(logs[0], logs[1], "each has its own processes of one number");
    assert_eq!(variable(container(&pod, "a"), "RINGSCOPE_JOB"), Some("research/bare"));
    assert_eq!(pod["spec"]["initContainers"][0].get("resources"), None);
    are_valid(&[named(pod)]);
}

#[test]
fn another_releases_library_is_not_preloaded_beside_this_ones() {
    let mut review = recorded("job");
    let containers = review["request"]["object"]["spec"]["containers"].as_array_mut().unwrap();
    let mut variables =
        containers.iter_mut().filter_map(|container| container["env"].as_array_mut()).flatten();
    let theirs = variables.find(|variable| variable["name"] == "LD_PRELOAD").unwrap();
    theirs["value"] = format!("/opt/1.0/libringscope_preload.so libm.so.6:{PRELOAD}").into();
    let pod = patched(&review, &response(&review)).unwrap();
    let expected = format!("{PRELOAD}:libm.so.6");
    assert_eq!(variable(container(&pod, "trainer"), "LD_PRELOAD"), Some(expected.as_str()));
}

#[test]
fn thousands_of_names_that_no_container_has_leave_a_pod_that_kubernetes_takes() {
    let mut review = recorded("job");
    let names: Vec<String> = (0..20_000).map(|number| format!("none-{number}")).collect();
    let names = format!("trainer,{}", names.join(","));
    review["request"]["object"]["metadata"]["annotations"]["ringscope.io/containers"] = names.into();
    let pod = patched(&review, &response(&review)).unwrap();
    let told = pod["metadata"]["annotations"]["ringscope.io/webhook"].as_str().unwrap();
    assert!(told.starts_with("watched: trainer; ") && told.len() < 8 << 10, "{} bytes", told.len());
}

fn watched(pod: &Value) -> Vec<&Value> {
    let all = pod["spec"]["containers"].as_array().unwrap();
    all.iter().filter(|container| variable(container, "RINGSCOPE_DIR").is_some()).collect()
}

/// As the API server stores it: with a kind, and a name in place of how it begins.
fn named(mut pod: Value) -> Value {
    let metadata = pod["metadata"].as_object_mut().unwrap();
    metadata.remove("creationTimestamp");
    if let Some(start) = metadata.remove("generateName") {
        metadata.insert("name".to_owned(), format!("{}x7k2p", start.as_str().unwrap()).into());
    }
    pod["kind"] = "Pod".into();
    pod["apiVersion"] = "v1".into();
    pod
}

/// The pod without what is only ours.
fn without_ours(mut pod: Value) -> Value {
    let is_theirs = |item: &Value| !item["name"].as_str().unwrap().starts_with("ringscope-");
    let ours =
        ["RINGSCOPE_", "POD_NAME", "NODE_NAME", "CONTAINER_NAME", "LD_PRELOAD", "RSUM_OBSERVER", "NCCL_"];
    let is_set_by_them = |item: &Value| {
        let name = item["name"].as_str().unwrap();
        name == "NCCL_DEBUG" && item["value"] == "WARN" || !ours.iter().any(|own| name.starts_with(own))
    };
    let spec = pod["spec"].as_object_mut().unwrap();
    for list in ["volumes", "initContainers"] {
        if let Some(items) = spec.get_mut(list).and_then(Value::as_array_mut) {
            items.retain(is_theirs);
        }
    }
    spec.retain(|_, value| *value != json!([]));
    for container in spec["containers"].as_array_mut().unwrap() {
        container["volumeMounts"].as_array_mut().unwrap().retain(is_theirs);
        if let Some(variables) = container.get_mut("env").and_then(Value::as_array_mut) {
            variables.retain(is_set_by_them);
        }
        container.as_object_mut().unwrap().retain(|_, value| *value != json!([]));
    }
    let metadata = pod["metadata"].as_object_mut().unwrap();
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("ringscope.io/webhook");
    }
    metadata.retain(|_, value| *value != json!({}));
    pod
}
