//! Yesterday's logs and the dumps of other tools, read into the same model as a live job's and judged
//! by the same rules.
//!
//! * `source`: files, folders, stdin, unpacked. `utf16`, `elements`: text that comes in another dress. `kind`: what a file is, by its content. `read`: a file into `gathered`, with a `report` of it.
//! * `inspector`, `ras`, `flight` (with `pickle` and `gloo`), `xml`: the other formats, each into facts of its own.
//! * `logs`, `dumps` (with `calls` and `counts`): the facts into `draft`, which joins them into processes as `batch.proto`
//!   has them, and `joined` those of which several kinds of file tell. Who waits for whom is then judged as of a live job.
//! * `observe`: what the files say and that judge cannot take up. `unjudged`: what nobody can judge. `verdict`: model and
//!   diagnosis of all as one document.
//! * `upload`: a file that somebody sends to a daemon. `room`: what reading a file may use.
//!
//! Foreign bytes are data: nothing in them is executed, makes it panic, or makes it grow beyond the bounds named here.

mod calls;
mod counts;
mod draft;
mod dumps;
mod elements;
mod error;
mod flight;
mod gathered;
mod gloo;
mod inspector;
mod joined;
mod kind;
mod logs;
pub mod named;
mod observe;
mod pickle;
mod ras;
mod read;
mod report;
mod room;
pub mod source;
mod unjudged;
mod upload;
mod utf16;
mod verdict;
mod xml;

#[cfg(test)]
mod tests;

pub use gathered::Gathered;
pub use room::Room;
pub use upload::{Upload, Uploading};
