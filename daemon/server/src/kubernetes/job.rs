//! What the job of a pod is called: the same for all its pods, and for those that take their places.

use serde_json::Value;

/// `namespace/name` of the job that a pod belongs to.
pub(super) fn name(namespace: &str, metadata: &Value) -> String {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let by_label = || LABELS.iter().find_map(|label| text(&metadata["labels"][label]));
    let by_owner = || {
        let owners = metadata["ownerReferences"].as_array()?;
        text(&owners.iter().find(|owner| owner["controller"] == true)?["name"])
    };
    let generated = || text(&metadata["generateName"]).map(|name| name.trim_end_matches('-').to_owned());
    let name = by_label().or_else(by_owner).or_else(|| text(&metadata["name"])).or_else(generated);
    format!("{namespace}/{}", name.unwrap_or_default())
}

/// Labels that name the job, the outermost first: the pods of a JobSet are pods of Jobs too. Sources: JobSet's `jobset_types.go`
/// (`JobSetNameKey`), Kubeflow's training operator `common_types.go` (`JobNameLabel`), Kubernetes' `batch/v1` (`JobNameLabel`, and the
/// name that it had before 1.27).
const LABELS: [&str; 4] = [
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_outermost_job_names_its_pods() {
        let check =
            |metadata: Value, expected: &str| assert_eq!(name("ml", &metadata), expected, "{metadata}");
        let owner =
            json!([{"kind": "Job", "name": "other"}, {"kind": "Job", "name": "train-7", "controller": true}]);
        check(json!({"labels": {"job-name": "a", "jobset.sigs.k8s.io/jobset-name": "set"}}), "ml/set");
        check(json!({"labels": {"job-name": "a", "training.kubeflow.org/job-name": "torch"}}), "ml/torch");
        check(json!({"labels": {"batch.kubernetes.io/job-name": "a"}, "ownerReferences": owner}), "ml/a");
        check(json!({"ownerReferences": owner, "generateName": "x-"}), "ml/train-7");
        check(json!({"name": "pod-1", "generateName": "pod-"}), "ml/pod-1");
        check(json!({"generateName": "pod-"}), "ml/pod");
        check(json!({"labels": {"job-name": ""}, "ownerReferences": 7, "name": "p"}), "ml/p");
        check(json!(null), "ml/");
    }
}
