//! Which containers of a pod are watched, and what each of them gets.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::chosen::Chosen;
use super::environment::{self, Given};
use super::patch::Patch;
use super::{COLLECTOR, CONTAINERS, ENV_FROM, MOUNT, SEGMENTS, words};

/// Those that the annotation names, else all but known sidecars; `notes`: names that no container has, and why one is left out.
pub(super) fn chosen<'p>(pod: &'p Value, notes: &mut Vec<String>) -> Vec<Chosen<'p>> {
    let all = pod["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named = pod["metadata"]["annotations"][CONTAINERS].as_str();
    let named: Option<BTreeSet<&str>> =
        named.map(|names| names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect());
    let with_name = |container: &'p Value| container["name"].as_str().filter(|name| !name.is_empty());
    let there: BTreeSet<&str> = all.iter().filter_map(with_name).collect();
    for name in named.iter().flatten().filter(|name| !there.contains(*name)).take(words::NOTES_MAX) {
        notes.push(format!("no container is called {name}, as the annotation {CONTAINERS} says"));
    }
    let is_wanted = |name: &str| match &named {
        Some(names) => names.contains(name),
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
    if let Some(path) =
        mounts.filter_map(|mount| mount["mountPath"].as_str()).find(|path| is_in_the_way(path))
    {
        return Some(format!(
            "it mounts a volume at {path}, above or below {MOUNT}, where the collector's would be"
        ));
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

/// Whether what is mounted at a path lies at or below ours, which it would hide, or above it: what is mounted read-only, as
/// ConfigMaps and Secrets always are, lets no runtime make the folder for ours, and on a volume of the node it would stay.
fn is_in_the_way(path: &str) -> bool {
    let theirs = parts(path);
    // Images link the one to the other.
    let theirs = if theirs.starts_with(&["var", "run"]) { &theirs[1..] } else { &theirs[..] };
    parts(MOUNT).iter().zip(theirs).all(|(ours, theirs)| ours == theirs)
}

/// The names of a path, which runtimes take from the root however it is written.
fn parts(path: &str) -> Vec<&str> {
    path.split('/').fold(Vec::new(), |mut parts, name| {
        match name {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
        parts
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_in_the_way_however_it_is_written() {
        let above = [
            "/",
            "",
            "//",
            "/run",
            "/run/",
            "run",
            "/./run",
            "/var/run",
            "/var//run/.",
            "/var/../run",
            "/run/x/..",
        ];
        let at = [
            "/run/ringscope",
            "//run//ringscope",
            "/run/./ringscope",
            "run/ringscope",
            "/var/run/ringscope/",
        ];
        let below = ["/run/ringscope/segments/deep", "/var/run/ringscope/collector", "/run/x/../ringscope/a"];
        for path in above.iter().chain(&at).chain(&below) {
            assert!(is_in_the_way(path), "{path:?}");
        }
        let beside = [
            "/run/ringscope-x",
            "/run/secrets",
            "/var",
            "/var/run/secrets/kubernetes.io/serviceaccount",
            "/dev/shm",
        ];
        let elsewhere = ["/opt/run/ringscope", "/ringscope", "/run/..data", "/var/lib/run", "/runs"];
        for path in beside.iter().chain(&elsewhere) {
            assert!(!is_in_the_way(path), "{path:?}");
        }
    }
}
