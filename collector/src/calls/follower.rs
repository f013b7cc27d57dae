//! What follows calls to their end where the profiler does not tell it. The layer behind this one has it; here is what calls
//! ask of it. It is a type, not an object, so that a call pays for no indirection.

use ringscope_wire::segment::Segment;

use crate::segment::closers::Closer;
use crate::segment::local::{Local, Sum};

/// How a group has ended.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// Its calls are on their streams.
    Enqueued,
    /// The library is putting them there.
    Enqueueing,
    /// It failed, or was simulated: its calls never were.
    Never,
}

/// Follows calls by something on their stream.
pub(crate) trait Follower {
    /// Who will close a call on the stream, of which the profiler, where it is asked, may tell nothing (`is_untold`). Asked where
    /// [calls may be followed](crate::segment::closers::has_events). Where that is [`Closer::Events`] they are kept for the call
    /// until it is followed or [let go](Follower::let_go), or its group [has ended](Follower::end_group).
    fn closer(segment: &Segment, local: &Local, slot: usize, stream: u64, is_untold: bool) -> Closer;

    /// Whether calls on the stream are captured into a graph, as far as that can be asked.
    fn is_captured(stream: u64) -> bool;

    /// Whether calls that something follows get the times of the device now.
    fn is_timed() -> bool;

    /// The call with this ticket is about to be forwarded; `group` is its open group, 0 without. Whether it gets the times of the
    /// device, unless it fails or is in progress when it returns.
    fn begin(segment: &Segment, stream_events: usize, ticket: u64, called_ticks: u64, group: u64) -> bool;

    /// The outermost group, of this number, is about to be ended.
    fn launch(segment: &Segment, group: u64);

    /// The library took one call outside a group, which [`Closer::Events`] closes. Something follows it on its stream if the
    /// library has enqueued it.
    fn follow(segment: &Segment, stream_events: usize, sum: &Sum, is_enqueued: bool);

    /// A call of the slot's outside a group is not followed after all.
    fn let_go(stream_events: usize, slot: usize);

    /// The library took these calls of a group, all of one stream: they wait for what follows its end
    /// ([`Follower::end_group`]).
    fn add(segment: &Segment, stream_events: usize, sum: &Sum);

    /// The outermost group, of this number, has ended and its records are settled: something goes behind each stream that it
    /// used, unless the library is still enqueueing.
    fn end_group(segment: &Segment, group: u64, end: End);
}
