//! What the init container may take: as much as a watched container, so the pod needs no more than before, stays in its class of
//! service, and keeps to what the namespace allows.

use serde_json::{Map, Value};

/// Processor time, memory and disk of a container's `resources`; devices are the job's.
pub(super) fn like(theirs: &Value) -> Map<String, Value> {
    let mut ours = Map::new();
    for kind in ["requests", "limits"] {
        let kept =
            RESOURCES.iter().filter_map(|name| Some(((*name).to_owned(), theirs[kind].get(name)?.clone())));
        let kept: Map<String, Value> = kept.collect();
        if !kept.is_empty() {
            ours.insert(kind.to_owned(), Value::Object(kept));
        }
    }
    ours
}

/// Why the init container might fail with the limits of this `resources`, and so keep the pod from starting.
pub(super) fn too_little(theirs: &Value) -> Option<String> {
    NEEDED.into_iter().find_map(|name| {
        let limit = match &theirs["limits"][name] {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match bytes(&limit) {
            Some(bytes) if bytes >= NEEDED_BYTES => None,
            Some(_) => Some(format!("its limit of {name} is {limit}, and bringing the collector needs 64Mi")),
            None => Some(format!("its limit of {name} is {limit}, which is no quantity")),
        }
    })
}

/// A quantity of Kubernetes (its `resource.Quantity`): `64Mi`, `1.5G`, `128974848`, `1e9`, `128974848000m`.
fn bytes(quantity: &str) -> Option<f64> {
    let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-');
    let end = quantity.find(|c| !is_of_number(c)).unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(end);
    let number: f64 = number.parse().ok()?;
    let bytes = match unit {
        "" => number,
        // Divided, for no thousandth is a binary fraction.
        "n" => number / 1e9,
        "u" => number / 1e6,
        "m" => number / 1e3,
        _ => number * factor(unit)?,
    };
    bytes.is_finite().then_some(bytes)
}

fn factor(unit: &str) -> Option<f64> {
    if let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) {
        return Some(*factor);
    }
    let exponent: i32 = unit.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some(10_f64.powi(exponent))
}

const KI: f64 = 1024.0;
/// Kubernetes writes the small k alone; people write the other too.
const UNITS: [(&str, f64); 13] = [
    ("k", 1e3),
    ("K", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
    ("Ki", KI),
    ("Mi", KI * KI),
    ("Gi", KI * KI * KI),
    ("Ti", KI * KI * KI * KI),
    ("Pi", KI * KI * KI * KI * KI),
    ("Ei", KI * KI * KI * KI * KI * KI),
];
const RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Of these the init container needs some to end well: the program in memory, the libraries on disk.
const NEEDED: [&str; 2] = ["memory", "ephemeral-storage"];
/// More than either takes, with room for what the runtime counts to the container.
const NEEDED_BYTES: f64 = 64.0 * KI * KI;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        for (text, expected) in [
            ("0", Some(0.0)),
            ("67108864", Some(NEEDED_BYTES)),
            ("64Mi", Some(NEEDED_BYTES)),
            ("65536Ki", Some(NEEDED_BYTES)),
            ("0.0625Gi", Some(NEEDED_BYTES)),
            ("67108864000m", Some(NEEDED_BYTES)),
            ("1500m", Some(1.5)),
            ("2500000u", Some(2.5)),
            ("3000000000n", Some(3.0)),
            ("100k", Some(1e5)),
            ("100K", Some(1e5)),
            ("1.5M", Some(1.5e6)),
            ("2G", Some(2e9)),
            ("1e3", Some(1e3)),
            ("1E3", Some(1e3)),
            ("5e-1", Some(0.5)),
            ("1E", Some(1e18)),
            ("1Ei", Some(1_152_921_504_606_846_976.0)),
            (".5T", Some(5e11)),
            ("+1.P", Some(1e15)),
            ("-1", Some(-1.0)),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
        for text in [
            "", "Mi", ".", "1.2.3", "64 Mi", "64MiB", "64mi", "1e", "1e9e9", "inf", "NaN", "1e999", "0e999",
            "\u{661}",
        ] {
            assert_eq!(bytes(text), None, "{text:?}");
        }
    }

    #[test]
    fn limits_below_what_is_needed_are_too_little() {
        for (limits, part) in [
            (json!(null), None),
            (json!({}), None),
            (json!({"memory": "64Mi", "ephemeral-storage": "64Mi", "cpu": "1m", "nvidia.com/gpu": 8}), None),
            (json!({"memory": 134_217_728}), None),
            (json!({"memory": "63.9Mi"}), Some("its limit of memory is 63.9Mi")),
            (json!({"memory": "64M"}), Some("memory")),
            (
                json!({"memory": "1Gi", "ephemeral-storage": "10Mi"}),
                Some("its limit of ephemeral-storage is 10Mi"),
            ),
            (json!({"memory": 7}), Some("its limit of memory is 7,")),
            (json!({"memory": "lots"}), Some("no quantity")),
            (json!({"memory": [1]}), Some("no quantity")),
        ] {
            let why = too_little(&json!({"requests": {"memory": "1Mi"}, "limits": limits}));
            assert_eq!(why.is_some(), part.is_some(), "{limits}: {why:?}");
            assert!(why.unwrap_or_default().contains(part.unwrap_or_default()), "{limits}");
        }
    }
}
