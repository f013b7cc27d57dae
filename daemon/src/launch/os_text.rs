//! Words of the operating system in JSON: as text where they are, else as their bytes. Half of a channel's frames is environment,
//! and numbers for letters would make it four times as long.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// For `#[serde(with = "os_text")]`.
pub(super) fn serialize<T: OsText, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.clone().into_json().serialize(serializer)
}

/// For `#[serde(with = "os_text")]`.
pub(super) fn deserialize<'de, T: OsText, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::Json::deserialize(deserializer).map(T::of_json)
}

/// Text of the operating system, or what holds some.
pub(super) trait OsText: Clone {
    /// As it is written.
    type Json: Serialize + DeserializeOwned;
    fn into_json(self) -> Self::Json;
    fn of_json(json: Self::Json) -> Self;
}

/// As it is written: bytes where it is no text.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Stored {
    Text(String),
    Bytes(Vec<u8>),
}

impl OsText for OsString {
    type Json = Stored;

    fn into_json(self) -> Stored {
        self.into_string().map_or_else(|bytes| Stored::Bytes(bytes.into_vec()), Stored::Text)
    }

    fn of_json(json: Stored) -> Self {
        match json {
            Stored::Text(text) => text.into(),
            Stored::Bytes(bytes) => Self::from_vec(bytes),
        }
    }
}

impl OsText for PathBuf {
    type Json = Stored;

    fn into_json(self) -> Stored {
        self.into_os_string().into_json()
    }

    fn of_json(json: Stored) -> Self {
        OsString::of_json(json).into()
    }
}

impl<T: OsText> OsText for Option<T> {
    type Json = Option<T::Json>;

    fn into_json(self) -> Self::Json {
        self.map(T::into_json)
    }

    fn of_json(json: Self::Json) -> Self {
        json.map(T::of_json)
    }
}

impl<T: OsText> OsText for Vec<T> {
    type Json = Vec<T::Json>;

    fn into_json(self) -> Self::Json {
        self.into_iter().map(T::into_json).collect()
    }

    fn of_json(json: Self::Json) -> Self {
        json.into_iter().map(T::of_json).collect()
    }
}

impl<A: OsText, B: OsText> OsText for (A, B) {
    type Json = (A::Json, B::Json);

    fn into_json(self) -> Self::Json {
        (self.0.into_json(), self.1.into_json())
    }

    fn of_json((a, b): Self::Json) -> Self {
        (A::of_json(a), B::of_json(b))
    }
}
