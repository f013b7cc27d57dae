//! The segment as this process writes it ([`ringscope_wire::segment`] says what lies where): the mapping, slots of
//! communicators, records and tables, and what a thread remembers of them.

pub(crate) mod busy;
pub(crate) mod closers;
pub(crate) mod communicators;
pub(crate) mod counts;
mod ended;
pub(crate) mod forks;
mod guard;
pub(crate) mod handle;
mod held_back;
mod keyed;
pub(crate) mod lineage;
pub(crate) mod links;
pub(crate) mod local;
pub(crate) mod maker;
pub(crate) mod map;
pub(crate) mod names;
pub(crate) mod own;
pub(crate) mod pairs;
pub(crate) mod places;
mod pointers;
pub(crate) mod rank_groups;
pub(crate) mod records;
pub(crate) mod room;
pub(crate) mod sequence;
mod slots;
pub(crate) mod streams;
pub(crate) mod switch;
pub(crate) mod table;
pub(crate) mod thread_id;
pub(crate) mod threads;
pub(crate) mod ticks;

pub(crate) use guard::guard;
pub(crate) use held_back::{uncancelled, uninterrupted, unsignalled};
pub(crate) use map::segment;
