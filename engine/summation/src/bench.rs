//! A rank of a group for `examples/bench_summation.rs`: no part of the library's interface.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::codec::Choice;
use super::run::group::{Group, Nics, Plan};
use super::run::members::{Members, Role};
pub use super::run::observe::Event;
use super::run::observe::{SAMPLE_NS, Watched};
use super::server::reduction::Reduction;
use super::server::sums::Mode;
use super::tensor::{Declaration, Declarations, Options};
use super::worker;
use crate::config::GroupSettings;
use crate::placement::strategy::Strategy;
use rsccl_collective::config::Settings;
use rsccl_collective::error::Error;
use rsccl_collective::memory::Region;
use rsccl_collective::net::root;
use rsccl_collective::net::unique_id::UNIQUE_ID_BYTES;

/// How long ranks may take to start.
const START: Duration = Duration::from_secs(20);

/// One process of a group that sums tensors of `f32`.
#[derive(Debug)]
pub struct Rank {
    group: Group,
    /// Of each tensor.
    bytes: Vec<usize>,
}

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
    /// What workers declare.
    pub tensors: &'a [Declaration],
    /// Of the tensors.
    pub codec: Option<Choice>,
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
        let Place { n_workers, n_servers, rank, partition_bytes, tensors, codec, .. } = place;
        let role = rank.checked_sub(n_workers).map_or(Role::Worker(rank), Role::Server);
        let plan = Plan {
            id: meeting(place.meeting).ok_or("that is no meeting")?,
            members: Members { n_workers, n_servers },
            role,
            session: 1,
            epoch: 0,
            mode: Mode::Rounds,
            partition_bytes,
            nics: Nics::Given(None, pipeline),
            strategy: Strategy::Greedy,
            settings: Settings::from_env().map_err(text)?,
            sums: GroupSettings::from_env().map_err(text)?,
            residuals: Arc::default(),
        };
        let mut group = Group::join(plan).map_err(text)?;
        if let Role::Worker(_) = role {
            for tensor in tensors {
                group.declare(tensor.clone(), Options { priority: 0, codec }).map_err(text)?;
            }
            group.start().map_err(text)?;
        }
        let size =
            |tensor: &Declaration| tensor.elements.saturating_mul(tensor.data_type.size_bytes() as u64);
        let bytes =
            tensors.iter().map(|tensor| usize::try_from(size(tensor)).unwrap_or(usize::MAX)).collect();
        Ok(Self { group, bytes })
    }

    /// The sums over all workers, in place: the tensors lie one behind the other.
    ///
    /// # Errors
    /// The group has failed.
    pub fn push_pull(&self, mut bytes: &mut [u8]) -> Result<(), String> {
        if bytes.len() != self.bytes.iter().sum::<usize>() {
            return Err("that is not the tensors' length".to_owned());
        }
        let mut handles = Vec::with_capacity(self.bytes.len());
        for (tensor, len) in self.bytes.iter().enumerate() {
            let (one, rest) = bytes.split_at_mut(*len);
            bytes = rest;
            let region = Region::of_slice_mut(one);
            handles.push(self.group.push_pull(tensor, region, region, Reduction::Sum));
        }
        // All of them, whatever one comes to: until then they write.
        let done: Vec<_> =
            handles.into_iter().map(|handle| handle.and_then(|handle| handle.wait())).collect();
        done.into_iter().collect::<Result<(), Error>>().map_err(text)
    }

    /// Leaves; a server serves until all workers have.
    ///
    /// # Errors
    /// The group has failed.
    pub fn leave(self) -> Result<(), String> {
        self.group.leave().map_err(text)
    }
}

/// A member of a group that is watched and has no connections: what each event costs it. A process has one at a time.
#[derive(Debug)]
pub struct Observed(Watched);

/// Which member, and of what.
#[derive(Clone, Copy, Debug)]
pub struct Seat<'a> {
    /// n
    pub n_workers: usize,
    /// k
    pub n_servers: usize,
    /// Worker 0 or server 0.
    pub is_worker: bool,
    /// Bytes of a part at most.
    pub partition_bytes: u64,
    /// What is declared.
    pub tensors: &'a [Declaration],
    /// Of so many results a worker fingerprints one.
    pub one_of: u64,
}

impl Observed {
    /// With the library at this path as its watcher.
    ///
    /// # Errors
    /// It is no watcher, or the tensors cannot be placed.
    pub fn new(library: &Path, seat: Seat<'_>) -> Result<Self, String> {
        let Seat { n_workers, n_servers, is_worker, partition_bytes, tensors, one_of } = seat;
        let declarations = Declarations::of(partition_bytes, tensors.iter().cloned());
        let declarations = declarations.map_err(|error| error.to_string())?;
        let role = if is_worker { Role::Worker(0) } else { Role::Server(0) };
        Watched::new(library, (Members { n_workers, n_servers }, role), declarations, one_of)
            .map(Self)
            .map_err(text)
    }

    /// Parts that its service sums.
    #[must_use]
    pub fn n_owned(&self) -> usize {
        self.0.n_owned()
    }

    /// Counts and tells from now on, or does as members do that nobody watches.
    pub fn watch(&mut self, is_watched: bool) {
        self.0.watch(is_watched);
    }

    /// Nanoseconds of this thread's processor time in which so many of these happen.
    pub fn time_ns(&mut self, event: Event, n: usize) -> u64 {
        self.0.time_ns(event, n)
    }
}

/// Samples that a member is asked for in a second, at most.
#[must_use]
pub fn samples_per_s() -> f64 {
    1e9 / SAMPLE_NS as f64
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
