//! How often an agent sends.

use std::time::Duration;

use ringscope_wire::batch::IngestReply;

/// From one reading of an agent to the next.
pub(crate) const READING: Duration = Duration::from_millis(250);
/// The longest that an agent lets counts wait.
const LONGEST: Duration = Duration::from_secs(2);

/// Readings from a batch that is answered so to the next one that has nothing but counts.
pub(crate) fn readings(reply: &IngestReply) -> u32 {
    let wait = Duration::from_millis(reply.counts_wait_ms.into()).min(LONGEST);
    u32::try_from(wait.as_millis().div_ceil(READING.as_millis())).unwrap_or(1).max(1)
}
