//! Where a pod may run, as it says itself: an init container whose image lacks the node's architecture would keep the pod from
//! starting.

use std::str::FromStr;

use serde_json::Value;

/// A processor architecture, as Kubernetes names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// aarch64.
    Arm64,
}

impl Architecture {
    /// Of this machine. `None`: ringscope is not built for such.
    #[must_use]
    pub fn here() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::Amd64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

impl FromStr for Architecture {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "amd64" => Ok(Self::Amd64),
            "arm64" => Ok(Self::Arm64),
            _ => Err("expected amd64 or arm64".to_owned()),
        }
    }
}

/// Why the pod may come to a node where the image does not run. `None`: it does not say that it may.
pub(super) fn misfit(spec: &Value, architectures: &[Architecture]) -> Option<String> {
    if spec["os"]["name"].as_str().is_some_and(|os| os != LINUX) {
        return Some("its spec.os is not linux".to_owned());
    }
    let has: Vec<&str> = architectures.iter().map(|architecture| architecture.label()).collect();
    let wanted = [(&OS_LABELS, &[LINUX][..], "an operating system"), (&ARCH_LABELS, &has, "an architecture")];
    wanted.into_iter().find_map(|(labels, has, what)| {
        let by_selector = labels.iter().filter_map(|label| spec["nodeSelector"][label].as_str());
        let is_beyond = by_selector.into_iter().any(|value| !has.contains(&value))
            || affinity_is_beyond(spec, labels, has);
        is_beyond.then(|| format!("it asks for nodes of {what} that the collector's image does not have"))
    })
}

/// Whether one of the alternatives that the required node affinity names leads to other nodes.
fn affinity_is_beyond(spec: &Value, labels: &[&str], has: &[&str]) -> bool {
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array().into_iter().flatten();
    terms.flat_map(|term| term["matchExpressions"].as_array().into_iter().flatten()).any(|expression| {
        let is_about = expression["key"].as_str().is_some_and(|key| labels.contains(&key));
        let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let values: Vec<&str> = values.collect();
        is_about
            && match expression["operator"].as_str() {
                Some("In") => values.iter().any(|value| !has.contains(value)),
                // Only others are left.
                Some("NotIn") => has.iter().all(|value| values.contains(value)),
                _ => false,
            }
    })
}

const LINUX: &str = "linux";
/// The name of old comes second.
const OS_LABELS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
const ARCH_LABELS: [&str; 2] = ["kubernetes.io/arch", "beta.kubernetes.io/arch"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn affinity(key: &str, operator: &str, values: &[&str]) -> Value {
        let term = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}})
    }

    #[test]
    fn only_where_the_image_runs() {
        let amd = [Architecture::Amd64];
        let both = [Architecture::Amd64, Architecture::Arm64];
        let arch = "kubernetes.io/arch";
        for (spec, has, fits) in [
            (json!({}), &amd[..], true),
            (json!({"nodeSelector": {arch: "amd64", "pool": "gpu"}}), &amd, true),
            (json!({"nodeSelector": {arch: "arm64"}}), &amd, false),
            (json!({"nodeSelector": {"beta.kubernetes.io/arch": "arm64"}}), &amd, false),
            (json!({"nodeSelector": {arch: "arm64"}}), &both, true),
            (json!({"nodeSelector": {arch: "s390x"}}), &both, false),
            (json!({"nodeSelector": {"kubernetes.io/os": "windows"}}), &both, false),
            (json!({"os": {"name": "windows"}}), &both, false),
            (json!({"os": {"name": "linux"}}), &both, true),
            (affinity(arch, "In", &["amd64"]), &amd, true),
            (affinity(arch, "In", &["amd64", "arm64"]), &amd, false),
            (affinity(arch, "NotIn", &["arm64"]), &amd, true),
            (affinity(arch, "NotIn", &["amd64"]), &amd, false),
            (affinity(arch, "NotIn", &["amd64"]), &both, true),
            (affinity("kubernetes.io/os", "NotIn", &["linux"]), &both, false),
            (affinity("kubernetes.io/os", "In", &["windows"]), &both, false),
            (affinity(arch, "Exists", &[]), &amd, true),
            (affinity("pool", "In", &["arm64"]), &amd, true),
            (json!({"nodeSelector": 7, "affinity": [1]}), &amd, true),
        ] {
            assert_eq!(misfit(&spec, has).is_none(), fits, "{spec} {has:?}");
        }
    }
}
