//! The collector, `libringscope.so`: a guest in somebody else's training process.
//!
//! It is preloaded, so that its `ncclX` run before the library's, and the same object is the library's profiler
//! plugin. What it sees it leaves in the process's segment ([`ringscope_wire::segment`]). On the record path it never
//! allocates, locks, blocks or calls the system; nowhere does it write output or let a panic reach C.
//!
//! * [`fence`]: everything unsafe: exported functions, the plugin's table, the mapping, the real library, the clock
//! * [`issue`]: a [`call`] becomes a record and, once the library has taken it, issued [`counts`]; [`group`]: the same of
//!   the calls of a group; [`records`]: their ring, [`places`]: where in it a new one goes
//! * [`complete`]: channels finish, the last one closes the record
//! * [`completion`]: CUDA events close it where the profiler does not tell; what a captured call is; [`order`]: what comes
//!   after it closes it where nobody tells
//! * [`tasks`]: what the profiler's events mean; [`seen`]: operations whose call did not pass; [`replay`]: graphs
//! * [`communicators`], [`contexts`] and [`adopt`]: communicator slots, and which one the profiler speaks of
//! * [`lineage`]: what a communicator hands down to its children
//! * [`sequence`] and [`pairs`]: the order of collective calls, and calls by peer; [`streams`]: numbers for streams
//! * [`threads`]: which call each thread is in
//! * [`links`] and [`steps`]: network bytes per peer
//! * [`summation`]: the same for the summation service: its group and its calls
//! * [`switch`]: on, off, fault, how much to ask for, and the count of what was dropped
//! * [`local`]: what a thread remembers
//! * [`config`] and [`identity`]: who this process is

mod adopt;
mod call;
mod communicators;
mod complete;
mod completion;
mod config;
mod contexts;
mod counts;
mod fence;
mod group;
mod handle;
mod identity;
mod issue;
mod lineage;
mod links;
mod local;
mod order;
mod pairs;
mod places;
mod records;
mod replay;
mod seen;
mod sequence;
mod steps;
mod streams;
mod summation;
mod switch;
mod tasks;
mod threads;
