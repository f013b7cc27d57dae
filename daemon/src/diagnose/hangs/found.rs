//! What a look has found, before it is known whether it is told.

use std::time::Duration;

use super::verdict::Judgement;

/// Something that was found, before it is known whether it is told.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) judgement: Judgement,
    /// No innocent cause: critical as soon as it was seen twice. Else its severity stands as it is.
    pub(super) certain: bool,
    /// Somebody merely has not come yet: how long that lasts is learned.
    pub(super) innocent: Option<Duration>,
    /// Number of the call in its communicator; a mismatch explains all that is not before it.
    pub(super) number: Option<u64>,
}
