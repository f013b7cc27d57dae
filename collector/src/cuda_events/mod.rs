//! Completion without the profiler: a CUDA event behind the operations of a stream, and what a captured call is.
//!
//! Who closes an operation is settled when it is called ([`crate::segment::closers`]): the profiler
//! ([`crate::calls::complete`]), the events of its stream, or nobody, because it is a template in a CUDA graph.
//!
//! * [`follow`]: a call gets its closer, and an event behind it; [`fit`]: where that works
//! * [`stream_events`]: the few events of one (communicator, stream); stream order makes an event confirm every call that was made
//!   there before it was recorded; [`owner`]: who has them
//! * [`pending_event`]: one such event with what it will confirm, handed between the caller and the thread that asks
//! * [`poll`], [`poller`] and [`ask`]: the thread that asks, and what; nobody else ever does, because the driver may hold whoever asks
//! * [`alone`]: when that thread is the last one
//! * [`times`]: at the level `events`, when the device begins and ends what is called; [`tell`]: what their events said, by the
//!   [`device_clock`]
//! * [`abort`] and [`ending`]: what still counts of a communicator that is aborted, or destroyed
//!
//! Which calls get an event: each call outside a group, each outermost group end once per stream. None can be left out,
//! because the last call of a burst must be confirmed, only its own thread may touch the stream (which may be gone a
//! moment later), and nobody knows that it is the last. What is sampled is the *number of events*: a call that comes
//! before the polling thread has looked again moves the stream's newest event behind itself instead of taking another. So a
//! stream needs four, progress is seen at each look, and an idle stream ends with an event behind its last call.
//!
//! A call is never followed by an event while its stream captures, nor while the library is still enqueueing it on a
//! thread of its own (`ncclInProgress`): then the event comes when `ncclCommGetAsyncError` says that it is done, or
//! with the stream's next call.
//!
//! Replays of a graph are not seen here. `cudaGraphLaunch` cannot be relied on to pass an interposer: the runtime is often
//! linked statically or reached through `cuGetProcAddress`. Where the profiler reports the runs they are counted there.

pub(crate) mod abort;
mod alone;
mod ask;
mod device_clock;
pub(crate) mod driver;
mod ending;
pub(crate) mod fit;
pub(crate) mod follow;
mod owner;
mod pending_event;
mod poll;
mod poller;
mod stream_events;
mod tell;
pub(crate) mod times;
