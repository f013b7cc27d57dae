//! What the pipeline knows of a server: what it has got, and what is on its way.

/// A server, as the push sees it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) share: f64,
    /// The part whose frames go out.
    pub(super) current: Option<u32>,
    /// Bytes of the frame that the driver has and has not reported as sent.
    pub(super) with_driver_bytes: u64,
    /// Bytes of all submitted parts that no frame was made of yet.
    pub(super) unsent_bytes: u64,
    pub(super) assigned_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) pulled_bytes: u64,
    /// Since when the first part that waits lacks credits.
    pub(super) lacks_credits_since_ns: Option<u64>,
}

impl Server {
    pub(super) fn new(share: f64) -> Self {
        Self {
            share,
            current: None,
            with_driver_bytes: 0,
            unsent_bytes: 0,
            assigned_bytes: 0,
            sent_bytes: 0,
            pulled_bytes: 0,
            lacks_credits_since_ns: None,
        }
    }
}
