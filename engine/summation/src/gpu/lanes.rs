//! What we have of our own in each context: a stream for copies back to the GPU, and events that are used again and again.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::driver::{Context, Driver, Event, Stream};
use rsccl_collective::error::Result;
use rsccl_collective::lock::lock;

/// By context.
#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<BTreeMap<Context, Lane>>);

#[derive(Debug, Default)]
struct Lane {
    stream: Option<Stream>,
    free: Vec<Event>,
}

impl Lanes {
    /// An event that nobody else has.
    ///
    /// # Errors
    /// The driver gives none.
    pub(super) fn event(&self, driver: &Driver, context: Context) -> Result<Event> {
        let free = lock(&self.0).entry(context).or_default().free.pop();
        free.map_or_else(|| driver.create_event(context), Ok)
    }

    /// Takes an event back.
    pub(super) fn give(&self, context: Context, event: Event) {
        lock(&self.0).entry(context).or_default().free.push(event);
    }

    /// Our stream of a context.
    ///
    /// # Errors
    /// The driver gives none.
    pub(super) fn stream(&self, driver: &Driver, context: Context) -> Result<Stream> {
        let mut lanes = lock(&self.0);
        let lane = lanes.entry(context).or_default();
        if let Some(stream) = lane.stream {
            return Ok(stream);
        }
        let stream = driver.create_stream(context)?;
        lane.stream = Some(stream);
        Ok(stream)
    }

    /// Gives all of it back to the driver, once nothing uses it. Any context, if there was one.
    pub(super) fn close(&self, driver: &Driver) -> Option<Context> {
        let lanes = std::mem::take(&mut *lock(&self.0));
        let mut any = None;
        for (context, lane) in lanes {
            // A context that has failed gives nothing back; it ends with the process.
            lane.free.into_iter().for_each(|event| drop(driver.destroy_event(context, event)));
            lane.stream.into_iter().for_each(|stream| drop(driver.destroy_stream(context, stream)));
            any = Some(context);
        }
        any
    }
}
