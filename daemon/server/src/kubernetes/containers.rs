//! Which containers of a pod are watched, and what each of them gets.

use serde_json::{Value, json};

use super::environment::{self, Given};
use super::patch::Patch;
use super::{COLLECTOR, CONTAINERS, ENV_FROM, MOUNT, SEGMENTS};

/// A container that is to be watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen<'p> {
    index: usize,
    pub(super) name: &'p str,
    pub(super) container: &'p Value,
}

/// Those that the annotation names, else all but known sidecars; `notes`: names that no container has, and why one is left out.
pub(super) fn chosen<'p>(pod: &'p Value, notes: &mut Vec<String>) -> Vec<Chosen<'p>> {
    let all = pod["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named = pod["metadata"]["annotations"][CONTAINERS].as_str();
    let named: Option<Vec<&str>> =
        named.map(|names| names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect());
    let with_name = |container: &'p Value| container["name"].as_str().filter(|name| !name.is_empty());
    for name in named.iter().flatten().filter(|name| !all.iter().any(|one| one["name"] == **name)) {
        notes.push(format!("no container is called {name}, as the annotation {CONTAINERS} says"));
    }
    let is_wanted = |name: &str| match &named {
        Some(names) => names.contains(&name),
        None => !SIDECARS.contains(&name),
    };
    let env_from_is_plain = pod["metadata"]["annotations"][ENV_FROM] == "plain";
    let wanted = all.iter().enumerate().filter_map(|(index, container)| {
        let name = with_name(container).filter(|name| is_wanted(name))?;
        Some(Chosen { index, name, container })
    });
    wanted
        .filter(|chosen| match obstacle(chosen.container, env_from_is_plain) {
            None => true,
            Some(why) => {
                notes.push(format!("container {} is left alone: {why}", chosen.name));
                false
            }
        })
        .collect()
}

/// What stands in the way of watching a container.
fn obstacle(container: &Value, env_from_is_plain: bool) -> Option<String> {
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    let path = |mount: &Value| mount["mountPath"].as_str().map(|path| path.trim_end_matches('/').to_owned());
    let is_below = |path: &String| {
        let path = path.strip_prefix("/var").filter(|path| path.starts_with("/run/")).unwrap_or(path);
        path.strip_prefix(MOUNT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if let Some(path) = mounts.filter_map(path).find(is_below) {
        return Some(format!("it mounts a volume at {path}, where the collector's would be"));
    }
    let has_from = container["envFrom"].as_array().is_some_and(|sources| !sources.is_empty());
    if has_from && !env_from_is_plain {
        return Some(format!(
            "its envFrom may name libraries to preload or settings of NCCL; if it does not, say so by the annotation {ENV_FROM}: plain"
        ));
    }
    let environment = container["env"].as_array().into_iter().flatten();
    let has = |name: &str| environment.clone().any(|variable| variable["name"] == name);
    let by_hand = ["RINGSCOPE_DIR", "RINGSCOPE_COLLECTOR"].into_iter().find(|name| has(name))?;
    Some(format!("it sets {by_hand} itself"))
}

/// Has the pod give it to a container.
pub(super) fn give(patch: &mut Patch, chosen: &Chosen<'_>, given: &Given<'_>, notes: &mut Vec<String>) {
    let at = format!("/spec/containers/{}", chosen.index);
    environment::give(patch, &at, chosen, given, notes);
    let mounts = vec![
        json!({"name": SEGMENTS_VOLUME, "mountPath": SEGMENTS}),
        json!({"name": COLLECTOR_VOLUME, "mountPath": COLLECTOR, "readOnly": true}),
    ];
    patch.append(chosen.container.get("volumeMounts"), &format!("{at}/volumeMounts"), mounts);
}

/// The node's folder.
pub(super) const SEGMENTS_VOLUME: &str = "ringscope-segments";
/// What the init container fills.
pub(super) const COLLECTOR_VOLUME: &str = "ringscope-collector";
/// Containers that others put beside a job's, which never call NCCL.
const SIDECARS: [&str; 12] = [
    "istio-proxy",
    "linkerd-proxy",
    "envoy",
    "envoy-sidecar",
    "vault-agent",
    "cloud-sql-proxy",
    "cloudsql-proxy",
    "gke-gcsfuse-sidecar",
    "fluent-bit",
    "fluentd",
    "filebeat",
    "datadog-agent",
];
