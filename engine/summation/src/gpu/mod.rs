//! Contributions that lie in the memory of a GPU (CUDA): out on the caller's stream into pinned memory, summed as any other,
//! and back.
//!
//! A map: [`carrier`] takes the calls; [`following`] is the thread that follows them, [`shared`] what both have; [`transfer`] is one call on its way; [`staging`]
//! lends pinned memory; [`lanes`] has the streams and events of our own; [`driver`] and [`functions`] are the fence to the CUDA
//! driver that the process has loaded. None of these loads a driver or touches device memory, and the group's own thread
//! never waits for a GPU.

mod carrier;
pub(crate) mod driver;
mod following;
mod functions;
mod lanes;
mod shared;
mod staging;
mod transfer;

pub(crate) use carrier::{Buffer, Carrier, Submission};
pub(crate) use staging::DEFAULT_STAGING_BYTES;
pub(crate) use transfer::Contribution;
