//! The programs that an agent needs besides itself: one that looks at a process, and one that shows the journal.
//!
//! A confined agent (`sandbox`) may start none. A process of its own does it, the starter, made before the agent was confined. It is
//! told which of them and which process, and knows everything else from its own start: who has taken over an agent by what
//! the agent reads can start nothing else through it, and looks into no process's memory himself.
//!
//! * `wanted`: which programs there are. `start`: how the agent has one started. `starter`: that process, `line`: what both
//!   say to each other.

mod line;
mod start;
pub mod starter;
mod wanted;

pub use start::Starter;
pub(super) use start::{Programs, Started};
pub(super) use wanted::{Paths, Wanted};
