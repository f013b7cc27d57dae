//! Reads the log that NCCL, RCCL and librsccl write (`NCCL_DEBUG=INFO`, subsystems INIT, GRAPH, ENV): bytes of a growing
//! file in, facts about communicators out. Pure: no I/O, no clock; nothing in a log makes it panic or grow without
//! bound.
//!
//! * [`NcclLog`]: what a caller uses.
//! * `lines`: bytes to lines. `json`, `wraps`: what others put around them. `prefix`: who wrote a line. `formats`: the table of messages by version; a new wording is
//!   a new row. `pattern`: how a row is matched.
//! * `bracket`: what one init says, from "Init START" to "Init COMPLETE" of one thread. `process`: what holds for all of
//!   a process. `log`: who said it, and what comes after the init.
//! * [`assemble()`]: the facts of all processes to whole communicators. `told`: facts in the words of the batch.

mod assemble;
mod bracket;
mod facts;
mod formats;
mod init_line;
mod json;
mod lacks;
mod lines;
mod log;
mod pattern;
mod prefix;
mod process;
mod told;
mod unparsed;
mod wraps;

pub use assemble::{Assembled, AssembledCommunicator, Member, Relation, RingsSource, assemble};
pub use facts::{CommunicatorFacts, End, Evidence, Fragment, Hop, RingFact, RowFact, Searched, TreeFact};
pub use log::{Counts, NcclLog, ProcessFacts};
