//! The segment: one file per process under `$RINGSCOPE_DIR`, mapped by the collector, read by the agent.
//!
//! The file is readable at any instant, also after SIGKILL: every field that changes is one aligned machine word, and
//! a record carries its ticket, so a reader can tell a whole record from one that was being written.
//!
//! * [`layout`]: what lies where. The collector works on it through shared references (everything that changes is
//!   atomic).
//! * [`calls`]: the order of calls, calls by peer, and what each thread is in.
//! * [`summation`]: the same for the summation service.
//! * [`groups`]: groups of ranks that the program's framework has made.
//! * [`clock`]: from ticks to time.
//! * [`read`]: turns the bytes of a file, whole, cut or hostile, into plain values or an error.

pub mod calls;
pub mod clock;
pub mod groups;
pub mod layout;
pub mod read;
pub mod summation;

pub use layout::Segment;
pub use read::{SegmentError, Snapshot};
