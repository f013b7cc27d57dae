//! What guests are like.

use std::time::Duration;

use super::image::Extras;

/// What both have.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Of each guest.
    pub(crate) memory_mib: u32,
    /// Of each guest. More than one is no faster without KVM, and loses the stable clock.
    pub(crate) processors: u32,
    /// What they have beside the usual.
    pub(crate) extras: Extras,
    /// By the machine's own means. Off: it is everywhere the same, and where `/dev/kvm` can be opened guests may still hang.
    pub(crate) kvm: bool,
    /// No command runs beyond that, since the pair was booted.
    pub(crate) limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let limit = Duration::from_secs(12 * 60);
        Self { memory_mib: 512, processors: 1, extras: Extras::default(), kvm: false, limit }
    }
}
