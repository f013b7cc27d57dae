//! The Helm chart: what it renders to, and what it refuses.

use std::fs;

use serde_json::{Value, json};

use crate::common::TempDir;
use crate::programs::{are_valid, helm, rendered, root};

fn find<'d>(documents: &'d [Value], kind: &str, name: &str) -> &'d Value {
    let mut found = documents.iter().filter(|one| one["kind"] == kind && one["metadata"]["name"] == name);
    let first = found.next().unwrap_or_else(|| panic!("no {kind} {name}"));
    assert!(found.next().is_none(), "two of {kind} {name}");
    first
}

fn everything() -> Value {
    json!({
        "webhook": {"enabled": true, "architectures": ["amd64", "arm64"]},
        "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": true},
        "dashboards": {"enabled": true},
        "agent": {"look": true, "kernelLog": true, "nvidia": {"runtimeClassName": "nvidia"}, "stateFolder": "",
            "nodeSelector": {"pool": "gpu"}, "extraArgs": ["--interval", "1s"], "podLabels": {"team": "sre"}},
        "daemon": {"settings": {"retention": "14d", "metrics_series": 50000, "look": true, "alertmanager": ["http://a:9093"]},
            "allowedHosts": ["rings.example.org"], "publicUrl": "https://rings.example.org", "priorityClassName": "high"},
        "image": {"repository": "registry.example/ringscope", "tag": "1.2", "pullSecrets": ["pull"]},
        "commonLabels": {"owner": "sre"},
        "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]},
    })
}

#[test]
fn what_it_renders_to_is_valid_whatever_is_wanted() {
    let lint = helm(&["lint", "--strict", "ringscope"]);
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
    let bare = json!({"tls": {"enabled": false}, "agent": {"enabled": false}, "networkPolicy": {"enabled": false},
        "database": {"volume": {"enabled": false}}});
    let existing = json!({
        "tls": {"existingSecret": "cert"}, "tokens": {"existingSecret": "tokens"},
        "database": {"postgres": {"existingSecret": "pg"}},
        "webhook": {"enabled": true, "annotations": {"cert-manager.io/inject-ca-from": "rings/cert"}},
        "image": {"digest": format!("sha256:{}", "a".repeat(64))},
    });
    let all: Vec<Value> = [json!({}), everything(), bare, existing].iter().flat_map(rendered).collect();
    are_valid(&all);
}

#[test]
fn the_agent_has_no_right_that_it_does_not_need() {
    let documents = rendered(&json!({}));
    let pod = &find(&documents, "DaemonSet", "rings-ringscope-agent")["spec"]["template"]["spec"];
    for host in ["hostPID", "hostNetwork", "hostIPC"] {
        assert_eq!(pod.get(host), None);
    }
    assert_eq!(pod["automountServiceAccountToken"], false);
    for container in [&pod["containers"][0], &pod["initContainers"][0]] {
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!((security.get("privileged"), &security["capabilities"]["drop"]), (None, &json!(["ALL"])));
    }
    let added = &pod["containers"][0]["securityContext"]["capabilities"]["add"];
    assert_eq!(*added, json!(["DAC_READ_SEARCH", "DAC_OVERRIDE", "FOWNER"]));
    assert_eq!(pod["initContainers"][0]["securityContext"]["capabilities"].get("add"), None);
    let writable = pod["containers"][0]["volumeMounts"].as_array().unwrap().iter();
    let writable: Vec<&str> = writable
        .filter(|mount| mount["readOnly"] != true)
        .filter_map(|mount| mount["name"].as_str())
        .collect();
    assert_eq!(writable, ["segments", "state"]);
    let kinds: Vec<&str> = documents.iter().filter_map(|one| one["kind"].as_str()).collect();
    assert!(!kinds.iter().any(|kind| kind.contains("Role")), "nobody asks the API server: {kinds:?}");

    let all = rendered(&everything());
    let pod = &find(&all, "DaemonSet", "rings-ringscope-agent")["spec"]["template"]["spec"];
    assert_eq!(pod["hostPID"], true);
    let added = &pod["containers"][0]["securityContext"]["capabilities"]["add"];
    assert_eq!(*added, json!(["DAC_READ_SEARCH", "DAC_OVERRIDE", "FOWNER", "SYS_PTRACE", "SYSLOG"]));
}

#[test]
fn a_webhook_that_is_away_or_slow_keeps_no_pod_from_starting() {
    let documents = rendered(&everything());
    let webhook = &find(&documents, "MutatingWebhookConfiguration", "rings-ringscope.rings")["webhooks"][0];
    assert_eq!((&webhook["failurePolicy"], &webhook["timeoutSeconds"]), (&json!("Ignore"), &json!(2)));
    assert_eq!(
        (&webhook["sideEffects"], &webhook["admissionReviewVersions"]),
        (&json!("None"), &json!(["v1"]))
    );
    assert_eq!(webhook["objectSelector"], json!({"matchLabels": {"ringscope.io/watch": "true"}}));
    let excluded = webhook["namespaceSelector"]["matchExpressions"].as_array().unwrap();
    assert!(
        excluded[0]["values"].as_array().unwrap().contains(&json!("rings")),
        "never in its own namespace"
    );
    assert_eq!(excluded[1]["key"], "pod-security.kubernetes.io/enforce");
    let tls = &find(&documents, "Secret", "rings-ringscope-tls")["data"];
    assert_eq!(webhook["clientConfig"]["caBundle"], tls["ca.crt"], "one CA for both");
    assert!(rendered(&json!({})).iter().all(|one| one["kind"] != "MutatingWebhookConfiguration"));
    let mut plain = everything();
    plain["tls"] = json!({"enabled": false});
    refused(&plain, "webhook.enabled needs tls.enabled");
}

#[test]
fn data_and_secrets_outlive_the_release_and_selectors_never_change() {
    let documents = rendered(&json!({}));
    let kept =
        documents.iter().filter(|one| one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep");
    let kept: Vec<&str> = kept.filter_map(|one| one["metadata"]["name"].as_str()).collect();
    assert_eq!(kept, ["rings-ringscope-tls", "rings-ringscope-tokens", "rings-ringscope-data"]);
    let daemon = find(&documents, "Deployment", "rings-ringscope");
    assert_eq!(daemon["spec"]["strategy"]["type"], "Recreate", "one daemon a database");
    let labels = daemon["spec"]["selector"]["matchLabels"].as_object().unwrap();
    let names: Vec<&String> = labels.keys().collect();
    assert_eq!(
        names,
        ["app.kubernetes.io/component", "app.kubernetes.io/instance", "app.kubernetes.io/name"],
        "nothing of a version"
    );
    let tokens = &find(&documents, "Secret", "rings-ringscope-tokens")["data"];
    let names: Vec<&String> = tokens.as_object().unwrap().keys().collect();
    assert_eq!(names, ["admin", "ingest", "read"]);
}

#[test]
fn wrong_values_are_refused_by_name() {
    refused(&json!({"agent": {"lok": true}}), "lok");
    for (name, value) in [
        ("listen", json!("0.0.0.0:1")),
        ("retentoin", json!("14d")),
        ("retention", json!(["14d"])),
        ("metrics_series", json!({"most": 50_000})),
        ("alertmanager", json!([7])),
    ] {
        refused(&json!({"daemon": {"settings": {name: value}}}), name);
    }
    refused(&json!({}), "image.repository is not set");
    refused(&json!({"service": {"port": "http"}}), "port");
    refused(&json!({"webhook": {"timeoutSeconds": 60}}), "timeoutSeconds");
    refused(&json!({"agent": {"folder": "shm"}}), "folder");
}

fn refused(values: &Value, part: &str) {
    let folder = TempDir::new("refused");
    let file = folder.join("values.json");
    fs::write(&file, values.to_string()).unwrap();
    let output = helm(&["template", "rings", "ringscope", "--values", file.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains(part), "{part:?} in {told}");
}

#[test]
fn dashboards_and_rules_are_those_of_the_project() {
    let documents = rendered(&everything());
    let shown = documents.iter().filter(|one| one["metadata"]["labels"]["grafana_dashboard"] == "1");
    assert_eq!(shown.count(), fs::read_dir(root().join("dashboards/grafana")).unwrap().count());
    let rules = documents.iter().filter(|one| one["kind"] == "PrometheusRule");
    assert!(rules.map(|one| one["spec"]["groups"].as_array().unwrap().len()).all(|n| n > 0));
}

#[test]
fn it_can_be_packed() {
    let folder = TempDir::new("packed");
    let packed = helm(&["package", "ringscope", "--destination", folder.to_str().unwrap()]);
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    assert!(folder.join(format!("ringscope-{}.tgz", env!("CARGO_PKG_VERSION"))).exists());
}
