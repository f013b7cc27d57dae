//! An `AdmissionReview`: what Kubernetes asks, and what it is answered. The pod is always allowed, whatever the question is like.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Injection;
use super::pod::{self, Outcome};
use super::words;

/// The answer to a question, an `AdmissionReview` of the same version.
#[must_use]
pub fn answer(body: &[u8], injection: &Injection) -> Value {
    let review: Value = match serde_json::from_slice(body) {
        Ok(review) => review,
        Err(error) => return answered(VERSION, "", told(format!("the question is no JSON: {error}"))),
    };
    let version = review["apiVersion"].as_str().unwrap_or(VERSION);
    let uid = review["request"]["uid"].as_str().unwrap_or_default();
    answered(version, uid, outcome(&review, version, injection))
}

fn outcome(review: &Value, version: &str, injection: &Injection) -> Outcome {
    let request = &review["request"];
    if review["kind"] != "AdmissionReview" || !request.is_object() {
        return told("the question is no AdmissionReview with a request".to_owned());
    }
    if version != VERSION {
        return told(format!(
            "the question is of {version}; only {VERSION} is understood: set admissionReviewVersions to [v1]"
        ));
    }
    let is_pod = request["resource"]["group"].as_str().unwrap_or_default().is_empty()
        && request["resource"]["resource"] == "pods"
        && request["subResource"].as_str().unwrap_or_default().is_empty();
    if !is_pod || request["operation"] != "CREATE" {
        return Outcome::default();
    }
    let Some(uid) = request["uid"].as_str().filter(|uid| !uid.is_empty()) else {
        return told("the question has no uid".to_owned());
    };
    let pod = &request["object"];
    let has_containers = pod["spec"]["containers"].is_array() && pod["metadata"].is_object();
    if !has_containers {
        return told("the object is no pod with containers".to_owned());
    }
    let namespace = request["namespace"].as_str().or_else(|| pod["metadata"]["namespace"].as_str());
    let run: String = uid.chars().filter(char::is_ascii_alphanumeric).take(RUN_CHARS_MAX).collect();
    pod::inject(pod, namespace.unwrap_or_default(), &run, injection)
}

fn told(note: String) -> Outcome {
    Outcome { notes: vec![note], ..Outcome::default() }
}

fn answered(version: &str, uid: &str, outcome: Outcome) -> Value {
    let mut response = json!({"uid": uid, "allowed": true});
    if !outcome.patch.is_empty() {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = STANDARD.encode(outcome.patch.into_value().to_string()).into();
    }
    if !outcome.notes.is_empty() {
        response["warnings"] = words::warnings(&outcome.notes).into();
    }
    json!({"apiVersion": version, "kind": "AdmissionReview", "response": response})
}

/// The only one that is understood.
const VERSION: &str = "admission.k8s.io/v1";
/// Of a UUID, without its dashes.
const RUN_CHARS_MAX: usize = 32;
