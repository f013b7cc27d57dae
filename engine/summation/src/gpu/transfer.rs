//! One call on its way: out of the GPU behind what its stream had to do, through the group, and back.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::driver::{Context, DevicePointer, Driver, Event, Pinned, Stream};
use super::lanes::Lanes;
use super::staging::Staging;
use crate::run::group::Handle;
use crate::run::promise::Promise;
use rsccl_collective::clock;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::memory::Region;
use rsccl_collective::net::control::Health;

/// What a call is for.
pub(crate) struct Contribution {
    /// The tensor's name.
    pub(crate) tensor: String,
    /// Of the group that is to have it.
    pub(crate) health: Arc<Health>,
    /// Contributes the first region, and gets the sum in the second.
    pub(crate) contribute: Box<dyn FnOnce(Region, Region) -> Result<Handle> + Send>,
}

/// One of a call's buffers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    /// In this machine's memory, or in managed memory: the group reads and writes it where it is.
    Host(Region),
    /// In the GPU's.
    Device(DevicePointer),
}

/// What calls share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means<'a> {
    pub(super) driver: &'static Driver,
    pub(super) staging: &'a Staging,
    pub(super) lanes: &'a Lanes,
}

/// A call. Its promise is kept when it is dropped at the latest.
pub(super) struct Transfer {
    /// Rounds of a tensor go in the order of their calls.
    pub(super) tensor: usize,
    context: Context,
    size_bytes: usize,
    send: Side,
    recv: Side,
    /// None where the GPU's memory has no part in it, and only what its stream does is waited for.
    pinned: Option<Pinned>,
    event: Event,
    stage: Stage,
    promise: Promise,
    name: String,
    health: Arc<Health>,
    /// Since when it is at its stage.
    since: Instant,
}

enum Stage {
    /// The event stands behind the copy out of the GPU.
    Leaves(Contribute),
    /// The group has it.
    Sums(Handle),
    /// The event stands behind the copy back.
    Returns,
}

type Contribute = Box<dyn FnOnce(Region, Region) -> Result<Handle> + Send>;

/// Pinned memory that a GPU may still write, for a caller who waits no more: nobody else may have it before.
#[derive(Debug)]
pub(super) struct Remains {
    context: Context,
    pinned: Option<Pinned>,
    /// Behind what writes it.
    event: Event,
}

/// What a look at a call has found.
pub(super) enum Look {
    /// Nothing new.
    Waits(Transfer),
    /// It has come one stage further.
    Moved(Transfer),
    /// It is over, and its caller knows; perhaps not for the GPU.
    Over(Option<Remains>),
}

impl Side {
    /// Where the group reads or writes: in the caller's memory, or in pinned memory in its place.
    fn region(self, pinned: Option<&Pinned>, size_bytes: usize) -> Result<Region> {
        match (self, pinned) {
            (Self::Host(region), _) => Ok(region),
            (Self::Device(_), Some(pinned)) => pinned.region(size_bytes),
            (Self::Device(_), None) => Err(not_pinned()),
        }
    }

    fn is_on_device(self) -> bool {
        matches!(self, Self::Device(_))
    }
}

impl Means<'_> {
    fn pinned(&self, context: Context, size_bytes: usize) -> Result<Pinned> {
        let pin = |size_bytes| self.driver.pin(context, size_bytes);
        self.staging.take(size_bytes, pin, |memory| self.driver.unpin(context, memory))
    }
}

impl Transfer {
    /// Puts the copy out of the GPU on the caller's stream.
    ///
    /// # Errors
    /// There is no pinned memory for it, or the driver refuses: nothing has been contributed then.
    pub(super) fn begin(
        means: &Means<'_>,
        (tensor, size_bytes): (usize, usize),
        (context, stream): (Context, Stream),
        (send, recv): (Side, Side),
        (contribution, promise): (Contribution, Promise),
    ) -> Result<Self> {
        let needs_pinned = send.is_on_device() || recv.is_on_device();
        let pinned = needs_pinned.then(|| means.pinned(context, size_bytes)).transpose()?;
        let event = match means.lanes.event(means.driver, context) {
            Ok(event) => event,
            Err(error) => {
                pinned.into_iter().for_each(|pinned| means.staging.give(pinned));
                return Err(error);
            }
        };
        let Contribution { tensor: name, health, contribute } = contribution;
        let (stage, since) = (Stage::Leaves(contribute), clock::now());
        let transfer = Self {
            tensor,
            context,
            size_bytes,
            send,
            recv,
            pinned,
            event,
            stage,
            promise,
            name,
            health,
            since,
        };
        match transfer.copy_out(means.driver, stream) {
            Ok(()) => Ok(transfer),
            Err(error) => {
                transfer.end_on(means, stream, Err(error.clone()));
                Err(error)
            }
        }
    }

    /// Whether its contribution has still to leave the GPU.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.stage, Stage::Leaves(_))
    }

    /// Since when a GPU has to do something for it, if it has.
    pub(super) fn on_gpu_since(&self) -> Option<Instant> {
        (!matches!(self.stage, Stage::Sums(_))).then_some(self.since)
    }

    /// What it waits for, and has for so long.
    pub(super) fn lateness(&self, age: Duration) -> String {
        let what = if self.is_leaving() {
            "to leave the GPU: what the program put on its stream before, or the copy, has not ended"
        } else {
            "for the copy of its sum to the GPU"
        };
        format!("tensor {:?} has waited for {} s {what}", self.name, age.as_secs())
    }

    /// Looks whether it can go on. Unless it `may_leave`, its contribution waits.
    pub(super) fn look(self, means: &Means<'_>, may_leave: bool) -> Look {
        match &self.stage {
            Stage::Leaves(_) if !may_leave => Look::Waits(self),
            Stage::Leaves(_) | Stage::Returns => match means.driver.is_over(self.context, self.event) {
                Ok(false) => match self.failure() {
                    Some(error) if self.is_leaving() => self.give_up(error),
                    _ => Look::Waits(self),
                },
                Ok(true) if self.is_leaving() => self.contribute(means),
                Ok(true) => self.end(means, Ok(())),
                Err(error) => self.fail(means, &error),
            },
            Stage::Sums(handle) => match (handle.poll(), self.recv) {
                (None, _) => Look::Waits(self),
                (Some(Ok(())), Side::Device(to)) if self.size_bytes > 0 => self.bring_back(means, to),
                (Some(outcome), _) => self.end(means, outcome),
            },
        }
    }

    fn copy_out(&self, driver: &Driver, stream: Stream) -> Result<()> {
        if let Side::Device(from) = self.send
            && self.size_bytes > 0
        {
            let pinned = self.pinned.as_ref().ok_or_else(not_pinned)?;
            driver.copy_out((self.context, stream), from, pinned, self.size_bytes)?;
        }
        driver.record(self.context, self.event, stream)
    }

    fn contribute(mut self, means: &Means<'_>) -> Look {
        let region = |side: Side| side.region(self.pinned.as_ref(), self.size_bytes);
        let regions = region(self.send).and_then(|from| Ok((from, region(self.recv)?)));
        let Stage::Leaves(contribute) = std::mem::replace(&mut self.stage, Stage::Returns) else {
            return Look::Moved(self);
        };
        match regions.and_then(|(from, to)| contribute(from, to)) {
            Ok(handle) => {
                (self.stage, self.since) = (Stage::Sums(handle), clock::now());
                Look::Moved(self)
            }
            Err(error) => self.end(means, Err(error)),
        }
    }

    /// Puts the copy of the sum on a stream of ours: on the caller's it would wait for all that came there since.
    fn bring_back(mut self, means: &Means<'_>, to: DevicePointer) -> Look {
        let stream = match means.lanes.stream(means.driver, self.context) {
            Ok(stream) => stream,
            Err(error) => return self.end(means, Err(error)),
        };
        let lane = (self.context, stream);
        let pinned = self.pinned.as_ref().ok_or_else(not_pinned);
        let copied = pinned.and_then(|pinned| means.driver.copy_in(lane, pinned, to, self.size_bytes));
        match copied.and_then(|()| means.driver.record(self.context, self.event, stream)) {
            Ok(()) => {
                (self.stage, self.since) = (Stage::Returns, clock::now());
                Look::Moved(self)
            }
            Err(error) => self.end_on(means, stream, Err(error)),
        }
    }

    fn fail(self, means: &Means<'_>, error: &Error) -> Look {
        let way =
            if self.is_leaving() { "out of the GPU: nothing was contributed" } else { "back to the GPU" };
        let text = format!("tensor {}, on its way {way}: {error}", self.tensor);
        self.end(means, Err(Error::System(text)))
    }

    /// Why the group will never have it.
    fn failure(&self) -> Option<Error> {
        let failure = self.health.has_failed().then(|| self.health.failure()).flatten()?;
        let name = &self.name;
        Some(failure.error(&format!("tensor {name:?}, on its way out of the GPU: nothing was contributed")))
    }

    /// The group will never have it. Its caller waits no more; the copy out of the GPU may still run.
    fn give_up(self, error: Error) -> Look {
        self.promise.keep(Err(error));
        Look::Over(Some(Remains { context: self.context, pinned: self.pinned, event: self.event }))
    }

    /// It is over, and copies that were put on the stream may still run.
    fn end_on(self, means: &Means<'_>, stream: Stream, outcome: Result<()>) -> Look {
        // A stream that cannot say so has failed, and runs nothing any more.
        let _ = means.driver.synchronize(self.context, stream);
        self.end(means, outcome)
    }

    fn end(self, means: &Means<'_>, outcome: Result<()>) -> Look {
        Remains { context: self.context, pinned: self.pinned, event: self.event }.give_back(means);
        self.promise.keep(outcome);
        Look::Over(None)
    }
}

impl Remains {
    /// Whether the GPU writes it no more: one that cannot say so has failed.
    pub(super) fn are_over(&self, means: &Means<'_>) -> bool {
        !matches!(means.driver.is_over(self.context, self.event), Ok(false))
    }

    /// Gives back what nothing uses any more.
    pub(super) fn give_back(self, means: &Means<'_>) {
        self.pinned.into_iter().for_each(|pinned| means.staging.give(pinned));
        means.lanes.give(self.context, self.event);
    }
}

fn not_pinned() -> Error {
    Error::Internal("a tensor on a GPU has no pinned memory".to_owned())
}

impl fmt::Debug for Transfer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tensor, size_bytes) = (self.tensor, self.size_bytes);
        formatter.debug_struct("Transfer").field("tensor", &tensor).field("size_bytes", &size_bytes).finish()
    }
}
