//! A worker's pipeline: which part of which tensor goes where, and when. No I/O, no clock, no thread: a driver tells it
//! what happened, with the time, and does what it says.
//!
//! ```text
//! compress -> push -> sum (at the server) -> pull -> decompress
//! ```
//!
//! A *server* is here whoever owns a part and sums it, on a machine of its own or beside a worker. Five rules:
//!
//! - **Order.** In each stage the lowest priority number goes first (a layer's number), then the lowest key. Servers have
//!   lanes of their own everywhere, so one that stops holds up nobody else's parts. A part is overtaken by no more than
//!   [`Settings::overtake_bytes`] once it is the oldest of its lane, then it goes first.
//! - **Credits.** A part takes credits when its first byte goes out and gives them back when its sum has come back: so
//!   workers go through their parts together, and no link idles at the end because one ran ahead of the others. The head
//!   of a lane that finds too few of its server's credits holds up its lane, so no smaller part slips past it; credits of
//!   less urgent parts do not count. Of the servers that need credits of the total, only the one whose turn it is may take
//!   some, so none is passed over for ever.
//! - **Patience.** Workers that began different parts wait for each other, as do those that ask late for their sums. Where
//!   nothing moves for [`Settings::patience_ns`] while parts wait for credits, bounds are widened, twice as far each time,
//!   until a sum comes back.
//! - **Interleaving.** One sender serves all servers by deficit round robin: of `len` bytes sent, each server that could
//!   have been served earns `len * unsent / (sum of unsent)`, which the one served pays, and the largest balance is next.
//!   So bytes go out in proportion to what each still has to get, and no link idles while others have more than their share.
//! - **Order on the link.** A part that has begun is sent to its end, frame by frame; an urgent part waits for that much.
//!
//! So M bytes in rows of p bytes (a row is one part for each server) are there and back in (M + p)/B over NICs of B bytes
//! per second, as many servers as workers: all but the last row come back while later ones go out.

mod credits;
mod error;
mod interleave;
mod pipeline;
mod push;
mod queue;
mod server;
mod settings;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod simulated_tests;
mod snapshot;
mod stage;
#[cfg(test)]
mod stream_tests;
mod tensor;
#[cfg(test)]
mod tests;

pub use error::{Misreport, Refusal};
pub use pipeline::{Pipeline, Work};
pub use push::Send;
pub(crate) use settings::RELAYED;
pub use settings::Settings;
pub use snapshot::{Oldest, ServerView, Snapshot, StageView};
pub use stage::Stage;
pub use tensor::{Finished, Part, TensorId};
