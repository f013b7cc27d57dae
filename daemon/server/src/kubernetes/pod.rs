//! What is done to a pod before it is created.

use serde_json::{Value, json};

use super::chosen::Chosen;
use super::containers::{self, COLLECTOR_VOLUME, SEGMENTS_VOLUME};
use super::environment::Given;
use super::patch::Patch;
use super::{COLLECTOR, CONTAINERS, DONE, Injection, LABEL, fit, job, resources, words};

/// What becomes of a pod.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) patch: Patch,
    /// What whoever creates it should know, a sentence each.
    pub(super) notes: Vec<String>,
}

impl Outcome {
    /// The pod stays as it is, but for a word that says why.
    fn left_alone(metadata: &Value, why: &str, mut notes: Vec<String>) -> Self {
        let mut patch = Patch::default();
        annotate(&mut patch, metadata, &format!("not watched: {why}"), &notes);
        notes.insert(0, format!("the pod is not watched: {why}"));
        Self { patch, notes }
    }
}

/// `run`: the question's number, as it may stand in a file's name.
pub(super) fn inject(pod: &Value, namespace: &str, run: &str, injection: &Injection) -> Outcome {
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    if metadata["labels"][LABEL] != "true" || is_over(pod) || is_done(spec) {
        return Outcome::default();
    }
    if let Some(why) = misfit(spec, injection) {
        return Outcome::left_alone(metadata, &why, Vec::new());
    }
    let mut notes = Vec::new();
    let chosen = containers::chosen(pod, &mut notes);
    let Some(first) = chosen.first() else {
        return Outcome::left_alone(metadata, "none of its containers is", notes);
    };
    if let Some(why) = resources::too_little(&first.container["resources"]) {
        let why = format!("the collector is brought with the resources of container {}: {why}", first.name);
        return Outcome::left_alone(metadata, &why, notes);
    }
    let mut patch = Patch::default();
    patch.append(spec.get("volumes"), "/spec/volumes", volumes(injection));
    patch.put_first(spec.get("initContainers"), "/spec/initContainers", init(injection, first));
    let given = Given { job: &job::name(namespace, metadata), run };
    let n_of_choice = notes.len();
    let is_too_much = chosen.iter().any(|chosen| {
        containers::give(&mut patch, chosen, &given, &mut notes);
        patch.n_bytes() > PATCH_BYTES_MAX
    });
    if is_too_much {
        let (n, most) = (chosen.len(), PATCH_BYTES_MAX >> 10);
        let why = format!(
            "it would be given more than {most} KiB, for {n} of its containers; name fewer by the annotation {CONTAINERS}"
        );
        // What containers would have been given does not matter any more.
        notes.truncate(n_of_choice);
        return Outcome::left_alone(metadata, &why, notes);
    }
    let names: Vec<&str> = chosen.iter().map(|chosen| chosen.name).collect();
    annotate(&mut patch, metadata, &format!("watched: {}", names.join(", ")), &notes);
    Outcome { patch, notes }
}

/// Why the pod as a whole might not start as before.
fn misfit(spec: &Value, injection: &Injection) -> Option<String> {
    // With users of its own its volumes are mounted with other numbers, and a node may not be able to do that with memory.
    let has_users =
        || (spec["hostUsers"] == false).then(|| "it has users of its own (hostUsers: false)".to_owned());
    fit::misfit(spec, &injection.architectures).or_else(has_users)
}

/// Whether nothing of the pod will run any more, or it runs already, from a file on its node.
fn is_over(pod: &Value) -> bool {
    if pod["metadata"]["annotations"][MIRROR].is_string() {
        return true;
    }
    let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    has_ended || pod["metadata"]["deletionTimestamp"].is_string()
}

/// Whether it was given already: what is asked again after another webhook, or the user did by hand.
fn is_done(spec: &Value) -> bool {
    let is_ours = |item: &Value| item["name"] == COLLECTOR_VOLUME || item["name"] == SEGMENTS_VOLUME;
    ["volumes", "initContainers"]
        .iter()
        .any(|list| spec[*list].as_array().is_some_and(|items| items.iter().any(is_ours)))
}

fn volumes(injection: &Injection) -> Vec<Value> {
    vec![
        json!({"name": SEGMENTS_VOLUME, "hostPath": {"path": injection.folder, "type": "DirectoryOrCreate"}}),
        json!({"name": COLLECTOR_VOLUME, "emptyDir": {}}),
    ]
}

/// Brings the collector from the image, with the resources of a watched container.
fn init(injection: &Injection, like: &Chosen<'_>) -> Value {
    let mut container = json!({
        "name": COLLECTOR_VOLUME,
        "image": injection.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/ringscope"],
        "args": ["collector", "install", "--go-on", COLLECTOR],
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": COLLECTOR_VOLUME, "mountPath": COLLECTOR}],
    });
    let resources = resources::like(&like.container["resources"]);
    if !resources.is_empty() {
        container["resources"] = Value::Object(resources);
    }
    container
}

/// Leaves a word with the pod, if there is room: controllers that create pods show nobody what they are told.
fn annotate(patch: &mut Patch, metadata: &Value, outcome: &str, notes: &[String]) {
    let told = words::annotation(outcome, notes);
    let Some(theirs) = metadata["annotations"].as_object() else {
        patch.set("/metadata", "annotations", &json!({ DONE: told }));
        return;
    };
    let others = theirs.iter().filter(|(name, _)| *name != DONE);
    let taken: usize = others.map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if taken + DONE.len() + told.len() <= ANNOTATIONS_BYTES_MAX {
        patch.set("/metadata/annotations", DONE, &told.into());
    }
}

/// What a pod gets at most, some hundred containers' worth: with more, etcd might not take it (1.5 MiB), and it would be refused.
const PATCH_BYTES_MAX: usize = 256 << 10;
/// Kubelet's, on the image of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Names and values of all annotations of a pod: with more, Kubernetes refuses it (`TotalAnnotationSizeLimitB`).
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;
