//! Changes to a pod, as JSON Patch (RFC 6902).

use serde_json::{Value, json};

/// The operations, in order.
#[derive(Debug, Default)]
pub(super) struct Patch {
    operations: Vec<Value>,
    n_bytes: usize,
}

impl Patch {
    /// Sets a field of an object that is there, or replaces it.
    pub(super) fn set(&mut self, at: &str, field: &str, value: &Value) {
        self.add(format!("{at}/{}", escaped(field)), value);
    }

    /// Appends to an array, which is made where there is none.
    pub(super) fn append(&mut self, array: Option<&Value>, at: &str, values: Vec<Value>) {
        if array.is_some_and(Value::is_array) {
            values.iter().for_each(|value| self.add(format!("{at}/-"), value));
        } else if !values.is_empty() {
            self.add(at.to_owned(), &Value::Array(values));
        }
    }

    /// Puts before the first of an array, which is made where there is none.
    pub(super) fn put_first(&mut self, array: Option<&Value>, at: &str, value: Value) {
        match array {
            Some(Value::Array(_)) => self.add(format!("{at}/0"), &value),
            _ => self.add(at.to_owned(), &json!([value])),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// What the pod gets, in bytes.
    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// As a document.
    pub(super) fn into_value(self) -> Value {
        Value::Array(self.operations)
    }

    fn add(&mut self, path: String, value: &Value) {
        self.n_bytes += value.to_string().len();
        self.operations.push(json!({ "op": "add", "path": path, "value": value }));
    }
}

/// A name in a JSON pointer (RFC 6901).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
