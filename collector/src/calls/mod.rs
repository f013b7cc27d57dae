//! From calls to records and counters, whoever tells their end.
//!
//! * [`issue`]: a [`call`] becomes a record and, once the library has taken it, issued counters; [`group`]: the same of the
//!   calls of a group
//! * [`complete`]: channels finish, the last one closes the record; [`order`]: what comes after it closes it where nobody
//!   tells; [`ending`]: what is closed with its communicator
//! * [`follower`]: what calls ask of the layer that follows them on their stream
//! * [`resolve`]: the library's own functions, found through [`linker_scope`]

pub(crate) mod call;
pub(crate) mod complete;
pub(crate) mod ending;
pub(crate) mod follower;
pub(crate) mod group;
pub(crate) mod issue;
pub(crate) mod linker_scope;
pub(crate) mod order;
pub(crate) mod resolve;
