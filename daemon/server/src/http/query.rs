//! Query parameters: every mistake names the parameter and what it may be.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use ringscope_api::clock::Timestamp;
use ringscope_view as view;

use super::problem::ApiError;

/// The query of a request, not yet checked.
#[derive(Debug)]
pub(super) struct Params(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query: Query<Vec<(String, String)>> = Query::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::bad_request(format!("the query cannot be read: {error}")))?;
        Ok(Self(query.0))
    }
}

impl Params {
    /// Refuses parameters that are not among `names`, or that come twice.
    pub(super) fn allow(self, names: &[&str]) -> Result<Self, ApiError> {
        for (index, (name, _)) in self.0.iter().enumerate() {
            let name: String = name.chars().take(NAME_CHARS_MAX).collect();
            if !names.contains(&name.as_str()) {
                let allowed = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(ApiError::bad_request(format!("no parameter {name:?}; allowed: {allowed}")));
            }
            if self.0[..index].iter().any(|(other, _)| *other == name) {
                return Err(ApiError::bad_request(format!("the parameter {name} comes twice; give it once")));
            }
        }
        Ok(self)
    }

    /// The text of a parameter; an empty one counts as absent.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(key, _)| key == name)?;
        (!value.is_empty()).then_some(value.as_str())
    }

    /// The same, owned.
    pub(super) fn owned(&self, name: &str) -> Option<String> {
        self.text(name).map(ToOwned::to_owned)
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.map(Some).ok_or_else(|| {
            let allowed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            wrong(name, text, &format!("allowed: {}", allowed.join(", ")))
        })
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.word(name, &[("true", true), ("false", false)])
    }

    /// A part of a text to look for.
    pub(super) fn part(&self, name: &str) -> Result<Option<view::Part>, ApiError> {
        Ok(self.short(name)?.map(view::Part::new))
    }

    /// A text that is looked for.
    pub(super) fn short(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        if text.chars().count() > PART_CHARS_MAX {
            return Err(wrong(name, text, &format!("allowed: at most {PART_CHARS_MAX} characters")));
        }
        Ok(Some(text))
    }

    /// A moment.
    pub(super) fn time(&self, name: &str) -> Result<Option<Timestamp>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let ms = text.parse::<u64>().ok().and_then(|ms| Some(Timestamp(ms.checked_mul(1_000_000)?)));
        let allowed = "allowed: an RFC 3339 time, e.g. 2026-01-31T12:00:00Z, or milliseconds since 1970";
        ms.or_else(|| text.parse().ok()).map(Some).ok_or_else(|| wrong(name, text, allowed))
    }

    /// A number in a range.
    pub(super) fn number<T>(&self, name: &str, range: RangeInclusive<T>) -> Result<Option<T>, ApiError>
    where
        T: FromStr + PartialOrd + Display,
    {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| range.contains(number));
        let allowed = || format!("allowed: a number from {} to {}", range.start(), range.end());
        number.map(Some).ok_or_else(|| wrong(name, text, &allowed()))
    }
}

/// What is said of a wrong parameter.
pub(super) fn wrong(name: &str, value: &str, allowed: &str) -> ApiError {
    let value: String = value.chars().take(NAME_CHARS_MAX).collect();
    ApiError::bad_request(format!("the parameter {name} is {value:?}; {allowed}"))
}

/// Nothing that is looked for is longer.
const PART_CHARS_MAX: usize = 200;
/// How much of what the client sent is repeated to it.
const NAME_CHARS_MAX: usize = 100;
