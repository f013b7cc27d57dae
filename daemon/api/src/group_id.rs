//! The short id of a group, the same on every daemon.

use std::fmt;
use std::str::FromStr;

use crate::Digest;
use crate::id::{digits, parse};

/// Twelve hexadecimal digits of a stable hash over (session, group).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId([u8; 12]);

impl GroupId {
    /// The id of the group that its members call so.
    #[must_use]
    pub fn new(session: u64, group: u64) -> Self {
        Self(digits(Digest::of("summation").number(session).number(group).finish()))
    }

    /// The id that releases up to 0.1 gave it.
    pub fn older(session: u64, group: u64) -> Self {
        Self(digits(Digest::older().text("summation").number(session).number(group).finish()))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a text is not a [`GroupId`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a summation group's id: twelve lower-case hexadecimal digits")]
pub struct GroupIdError;

impl FromStr for GroupId {
    type Err = GroupIdError;

    fn from_str(text: &str) -> Result<Self, GroupIdError> {
        parse(text).map(Self).ok_or(GroupIdError)
    }
}
