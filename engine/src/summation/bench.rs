//! A rank of a group for `examples/bench_summation.rs`: no part of the library's interface.

use std::time::Duration;

use super::run::group::{Group, Handle, Plan};
use super::run::members::{Members, Role};
use super::server::part::Reduction;
use super::server::sums::Mode;
use super::tensor::{Declaration, Options};
use super::worker;
use crate::config::Settings;
use crate::error::Error;
use crate::memory::Region;
use crate::net::root;
use crate::net::unique_id::UNIQUE_ID_BYTES;
use crate::summation::placement::strategy::Strategy;
use crate::types::DataType;

/// How long ranks may take to start.
const START: Duration = Duration::from_secs(20);

/// One process of a group that sums one tensor of `f32`.
#[derive(Debug)]
pub struct Rank(Group);

/// What a rank brings.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Of [`meet`].
    pub meeting: &'a str,
    /// n
    pub n_workers: usize,
    /// k
    pub n_servers: usize,
    /// Workers first.
    pub rank: usize,
    /// Bytes of a part at most.
    pub partition_bytes: u64,
    /// Of the tensor.
    pub elements: u64,
    /// Bytes that go out at a stretch, if not as by default.
    pub frame_bytes: Option<u64>,
}

/// Where ranks meet while this process lives.
///
/// # Errors
/// There is no room on loopback.
pub fn meet() -> Result<String, String> {
    let id = root::start(std::net::Ipv4Addr::LOCALHOST.into(), START).map_err(text)?;
    Ok(id.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Rank {
    /// Joins a group, with the settings of the environment, and starts.
    ///
    /// # Errors
    /// The meeting is none, or the group cannot be made.
    pub fn join(place: Place<'_>) -> Result<Self, String> {
        let default = worker::Settings::default();
        let pipeline =
            worker::Settings { frame_bytes: place.frame_bytes.unwrap_or(default.frame_bytes), ..default };
        let Place { n_workers, n_servers, rank, partition_bytes, elements, .. } = place;
        let role = rank.checked_sub(n_workers).map_or(Role::Worker(rank), Role::Server);
        let plan = Plan {
            id: meeting(place.meeting).ok_or("that is no meeting")?,
            members: Members { n_workers, n_servers },
            role,
            session: 1,
            epoch: 0,
            mode: Mode::Rounds,
            partition_bytes,
            nic_mbit: None,
            strategy: Strategy::Greedy,
            settings: Settings::from_env().map_err(text)?,
            pipeline,
        };
        let mut group = Group::join(plan).map_err(text)?;
        if let Role::Worker(_) = role {
            let name = "gradient".to_owned();
            let gradient = Declaration { name, elements, data_type: DataType::F32 };
            group.declare(gradient, Options::default()).map_err(text)?;
            group.start().map_err(text)?;
        }
        Ok(Self(group))
    }

    /// The sum over all workers, in place.
    ///
    /// # Errors
    /// The group has failed.
    pub fn push_pull(&self, bytes: &mut [u8]) -> Result<(), String> {
        let region = Region::of_slice_mut(bytes);
        let handle = self.0.push_pull(0, region, region, Reduction::Sum);
        handle.as_ref().map_err(Clone::clone).and_then(Handle::wait).map_err(text)
    }

    /// Leaves; a server serves until all workers have.
    ///
    /// # Errors
    /// The group has failed.
    pub fn leave(self) -> Result<(), String> {
        self.0.leave().map_err(text)
    }
}

fn meeting(digits: &str) -> Option<[u8; UNIQUE_ID_BYTES]> {
    let byte = |index: usize| u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..UNIQUE_ID_BYTES).map(byte).collect();
    bytes?.try_into().ok()
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of map_err")]
fn text(error: Error) -> String {
    error.to_string()
}
