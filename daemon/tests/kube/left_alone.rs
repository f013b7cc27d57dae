//! Pods that are left as they are, and why; questions that are none.

use std::time::Duration;

use proptest::prelude::*;
use ringscope_api::clock::monotonic;
use ringscope_server::kubernetes::{Architecture, Injection, answer};
use serde_json::{Value, json};

use crate::asked::{container, injection, patched, recorded, response, variable, warnings};

/// The question about a pod that was changed.
fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut review = recorded("job");
    change(&mut review["request"]["object"]);
    review
}

/// What the annotation says, where nothing but it came to the pod.
fn word_alone(review: &Value, response: &Value) -> String {
    let pod = patched(review, response).unwrap_or_else(|| panic!("no annotation: {response}"));
    let mut theirs = review["request"]["object"].clone();
    let told = pod["metadata"]["annotations"][WORD].clone();
    if !theirs["metadata"]["annotations"].is_object() {
        theirs["metadata"]["annotations"] = json!({});
    }
    theirs["metadata"]["annotations"][WORD] = told.clone();
    assert_eq!(pod, theirs, "only the annotation is new");
    told.as_str().unwrap().to_owned()
}

#[test]
fn where_it_might_not_start_as_before_a_pod_stays_as_it_is() {
    let check = |part: &str, change: fn(&mut Value)| {
        let review = changed(change);
        let response = response(&review);
        let told = warnings(&response).join("\n");
        assert!(told.contains(part) && part.is_empty() == told.is_empty(), "{part:?} in {told:?}");
        if part.is_empty() || part.contains("no pod") {
            assert_eq!(patched(&review, &response), None, "{part}");
        } else {
            let word = word_alone(&review, &response);
            assert!(word.starts_with("not watched: ") && word.contains(part), "{part:?} in {word:?}");
        }
    };
    check("", |pod| pod["metadata"]["labels"]["ringscope.io/watch"] = "false".into());
    check("", |pod| drop(pod["metadata"].as_object_mut().unwrap().remove("labels")));
    check("", |pod| pod["status"] = json!({"phase": "Succeeded"}));
    check("", |pod| pod["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z".into());
    check("", |pod| pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "7c1f".into());
    check("architecture", |pod| pod["spec"]["nodeSelector"] = json!({"kubernetes.io/arch": "arm64"}));
    check("not linux", |pod| pod["spec"]["os"] = json!({"name": "windows"}));
    check("users of its own", |pod| pod["spec"]["hostUsers"] = false.into());
    check("mounts a volume at /run/ringscope/segments/deep", |pod| {
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "x", "mountPath": "/run/ringscope/segments/deep"}]);
    });
    check("mounts a volume at /var/run/ringscope", |pod| {
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "x", "mountPath": "/var/run/ringscope/"}]);
    });
    check("its envFrom may name", |pod| {
        pod["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
    });
    check("sets RINGSCOPE_DIR itself", |pod| {
        pod["spec"]["containers"][0]["env"] =
            json!([{"name": "RINGSCOPE_DIR", "value": "/dev/shm/ringscope"}]);
    });
    check("container trainer: its limit of memory is 32Mi", |pod| {
        pod["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "32Mi"}});
    });
    check("its limit of ephemeral-storage is 1M", |pod| {
        pod["spec"]["containers"][0]["resources"]["limits"]["ephemeral-storage"] = "1M".into();
    });
    check("no pod with containers", |pod| *pod = json!({"metadata": {}}));
    check("no pod with containers", |pod| *pod = Value::Null);
    check("none of its containers", |pod| pod["spec"]["containers"] = json!([]));
    check("none of its containers", |pod| {
        pod["spec"]["containers"] = json!([7, {"image": "x"}, {"name": ""}])
    });
}

#[test]
fn why_a_pod_is_left_alone_stands_with_it_however_its_annotations_are() {
    let alone = |annotations: Value| {
        let review = changed(|pod| {
            pod["spec"]["hostUsers"] = false.into();
            pod["metadata"]["annotations"] = annotations;
        });
        word_alone(&review, &response(&review))
    };
    let expected = "not watched: it has users of its own (hostUsers: false)";
    assert_eq!(alone(Value::Null), expected);
    assert_eq!(alone(json!({})), expected);
    assert_eq!(alone(json!({ WORD: "watched: copied from another pod" })), expected);
    let review = changed(|pod| {
        let names: Vec<String> = (0..5000).map(|number| format!("none-{number}")).collect();
        pod["metadata"]["annotations"] = json!({"ringscope.io/containers": names.join(",")});
    });
    let response = response(&review);
    let word = word_alone(&review, &response);
    assert!(
        word.starts_with("not watched: none of its containers is; no container is called none-0"),
        "{word}"
    );
    assert!(word.len() < 8 << 10, "{} bytes", word.len());
    assert!(warnings(&response)[0].contains("the pod is not watched"), "the first of many");
}

#[test]
fn an_annotation_for_which_there_is_no_room_is_left_out() {
    // As `ValidateAnnotationsSize` of Kubernetes counts: names and values.
    let total = 256 << 10;
    for is_watched in [false, true] {
        let with = |filler: usize| {
            changed(|pod| {
                if !is_watched {
                    pod["spec"]["hostUsers"] = false.into();
                }
                pod["metadata"]["annotations"] =
                    json!({"filler": "x".repeat(filler), WORD: "of old, replaced"});
            })
        };
        let word = |review: &Value| {
            let pod = patched(review, &response(review))?;
            pod["metadata"]["annotations"][WORD].as_str().map(str::to_owned)
        };
        let told = word(&with(0)).unwrap();
        let room = total - "filler".len() - WORD.len() - told.len();
        assert_eq!(word(&with(room)), Some(told), "it just fits");
        let full = with(room + 1);
        let pod = patched(&full, &response(&full));
        assert_eq!(pod.is_some(), is_watched, "it is watched all the same");
        let left = pod.map_or(json!("of old, replaced"), |pod| pod["metadata"]["annotations"][WORD].clone());
        assert_eq!(left, "of old, replaced");
        assert!(is_watched || warnings(&response(&full))[0].contains("not watched"));
    }
}

#[test]
fn mounts_are_an_obstacle_above_and_below_ours_and_not_beside_them() {
    let with_mount = |path: &str| {
        let review = changed(|pod| {
            pod["spec"]["containers"][0]["volumeMounts"] =
                json!([{"name": "x", "mountPath": path, "readOnly": true}]);
        });
        let response = response(&review);
        (review, response)
    };
    for path in ["/run/ringscope-x", "/dev/shm", "/var", "/opt/run/ringscope", "/var/run/secrets/site"] {
        let (review, response) = with_mount(path);
        let pod = patched(&review, &response).unwrap();
        assert!(variable(container(&pod, "trainer"), "RINGSCOPE_DIR").is_some(), "{path}");
    }
    // No runtime can make /run/ringscope in what is read-only.
    for path in ["/", "/run", "run/", "/var/run", "//run//ringscope", "/run/./ringscope", "run/ringscope"] {
        let (review, response) = with_mount(path);
        let word = word_alone(&review, &response);
        assert!(word.contains(&format!("it mounts a volume at {path},")), "{path} in {word}");
    }
}

#[test]
fn what_cannot_be_known_is_not_replaced() {
    let from = json!({"secretKeyRef": {"name": "s", "key": "k"}});
    let set = |name: &str, entry: Value| {
        let review = changed(|pod| pod["spec"]["containers"][0]["env"] = json!([entry]));
        let response = response(&review);
        let pod = patched(&review, &response).unwrap();
        let (told, trainer) = (warnings(&response).join("\n"), container(&pod, "trainer").clone());
        assert_eq!(trainer["env"][0], entry, "{name} stays");
        (trainer, told)
    };
    let (trainer, told) = set("LD_PRELOAD", json!({"name": "LD_PRELOAD", "valueFrom": from}));
    assert!(told.contains("LD_PRELOAD of container trainer comes from elsewhere"), "{told}");
    assert!(
        variable(&trainer, "RINGSCOPE_COLLECTOR").is_none()
            && variable(&trainer, "NCCL_PROFILER_PLUGIN").is_some()
    );
    let (trainer, told) =
        set("NCCL_PROFILER_PLUGIN", json!({"name": "NCCL_PROFILER_PLUGIN", "valueFrom": from}));
    assert!(told.contains("NCCL_PROFILER_PLUGIN") && variable(&trainer, "LD_PRELOAD").is_some(), "{told}");
    let (_, told) = set("LD_PRELOAD", json!({"name": "LD_PRELOAD", "value": "/usr/lib/libasan.so.8"}));
    assert!(told.contains("sanitizer"), "{told}");
    let (trainer, _) = set("POD_NAME", json!({"name": "POD_NAME", "value": "mine"}));
    assert_eq!(variable(&trainer, "POD_NAME"), Some("mine"));
    let (trainer, _) = set("RINGSCOPE_JOB", json!({"name": "RINGSCOPE_JOB", "value": "mine"}));
    assert_eq!(variable(&trainer, "RINGSCOPE_JOB"), Some("mine"));
    let plain = changed(|pod| {
        pod["spec"]["containers"][0]["envFrom"] = json!([{"secretRef": {"name": "hub"}}]);
        pod["metadata"]["annotations"]["ringscope.io/env-from"] = "plain".into();
    });
    assert!(patched(&plain, &response(&plain)).is_some());
}

#[test]
fn only_new_pods_are_changed() {
    for (field, value) in [
        ("operation", json!("UPDATE")),
        ("operation", json!("DELETE")),
        ("subResource", json!("status")),
        ("resource", json!({"group": "", "version": "v1", "resource": "services"})),
        ("resource", json!({"group": "metrics.k8s.io", "version": "v1", "resource": "pods"})),
        ("resource", json!(7)),
    ] {
        let mut review = recorded("job");
        review["request"][field] = value.clone();
        let response = response(&review);
        assert_eq!((patched(&review, &response), warnings(&response).len()), (None, 0), "{field} {value}");
    }
}

#[test]
fn an_image_for_both_architectures_serves_both() {
    let review = changed(|pod| pod["spec"]["nodeSelector"] = json!({"kubernetes.io/arch": "arm64"}));
    let both = Injection { architectures: vec![Architecture::Amd64, Architecture::Arm64], ..injection() };
    assert!(answer(review.to_string().as_bytes(), &both)["response"]["patch"].is_string());
}

#[test]
fn a_pod_of_thousands_of_containers_is_left_alone_at_once() {
    let clock = monotonic();
    for names in [None, Some((0..120_000).map(|n| format!("{n},")).collect::<String>())] {
        let review = changed(|pod| {
            let container = pod["spec"]["containers"][0].clone();
            let number = |n: usize| if n == 0 { container.clone() } else { json!({"name": n.to_string()}) };
            pod["spec"]["containers"] = (0..10_000).map(number).collect();
            if let Some(names) = &names {
                pod["metadata"]["annotations"]["ringscope.io/containers"] = names.as_str().into();
            }
        });
        assert!(review.to_string().len() < 1 << 20, "no larger than a question may be");
        let response = response(&review);
        assert!(response.to_string().len() < 8 << 10, "the answer is no larger than the question is small");
        let told = warnings(&response).join(" ");
        assert!(
            told.contains("more than 256 KiB") && told.contains("name fewer by the annotation"),
            "{told}"
        );
        assert_eq!(told.contains("no container is called 10000,"), names.is_some(), "{told}");
    }
    // With each name compared to each it took minutes.
    assert!(clock.elapsed() < Duration::from_secs(30), "{:?}", clock.elapsed());
}

#[test]
fn what_is_no_question_is_answered_and_allowed() {
    for (body, version, part) in [
        ("", "admission.k8s.io/v1", "no JSON"),
        ("[[[[", "admission.k8s.io/v1", "no JSON"),
        ("7", "admission.k8s.io/v1", "no AdmissionReview"),
        ("{}", "admission.k8s.io/v1", "no AdmissionReview"),
        (
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#,
            "admission.k8s.io/v1",
            "no AdmissionReview",
        ),
        (
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"x"}}"#,
            "admission.k8s.io/v1beta1",
            "only admission.k8s.io/v1 is understood",
        ),
        (
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"operation":"CREATE","resource":{"group":"","version":"v1","resource":"pods"}}}"#,
            "admission.k8s.io/v1",
            "no uid",
        ),
    ] {
        let answer = answer(body.as_bytes(), &injection());
        assert_eq!(
            (&answer["apiVersion"], &answer["response"]["allowed"]),
            (&json!(version), &json!(true)),
            "{body}"
        );
        assert!(warnings(&answer["response"])[0].contains(part), "{part} in {answer}");
    }
}

#[test]
fn warnings_are_fit_for_a_header_of_http() {
    let review = changed(|pod| {
        pod["metadata"]["annotations"]["ringscope.io/containers"] =
            format!("trainer,a\r\nX: {}", "y".repeat(900)).into();
    });
    let told = warnings(&response(&review));
    assert!(told.iter().all(|one| one.chars().count() <= 256 && !one.contains(['\r', '\n'])), "{told:?}");
}

/// Any JSON, with the names that matter among its keys.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z/:$ ]{0,12}".prop_map(Value::from),
        Just(json!("true")),
    ];
    leaf.prop_recursive(4, 48, 5, |inner| {
        let key = prop::sample::select(KEYS.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

const WORD: &str = "ringscope.io/webhook";
const KEYS: [&str; 14] = [
    "name",
    "value",
    "valueFrom",
    "env",
    "envFrom",
    "volumeMounts",
    "mountPath",
    "resources",
    "limits",
    "volumes",
    "initContainers",
    "containers",
    "nodeSelector",
    "affinity",
];

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_refuse(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(&answer(&bytes, &injection())["response"]["allowed"], &json!(true));
    }

    #[test]
    fn whatever_a_pod_looks_like_its_patch_fits(container in anything(), spec in anything(), annotations in anything()) {
        let review = changed(|pod| {
            if let (Value::Object(theirs), Some(fields)) = (spec, pod["spec"].as_object_mut()) {
                fields.extend(theirs.into_iter().filter(|(name, _)| name != "containers"));
            }
            if let (Value::Object(theirs), Some(fields)) = (container, pod["spec"]["containers"][0].as_object_mut()) {
                fields.extend(theirs);
            }
            pod["metadata"]["annotations"] = annotations;
        });
        // Applying it panics where it does not fit.
        let _ = patched(&review, &response(&review));
    }
}
