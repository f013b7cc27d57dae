//! An agent that is a process of its own gives up, before it reads anything of others, whatever it never needs: so what it reads
//! can make it do no more than agents do, whatever is wrong with it.
//!
//! * `enter`: all of it, and what is said of it. `files`: what it may open, and where it may connect (Landlock). `calls`: what it
//!   asks of the kernel (seccomp). `hidden`: where Landlock would hide
//!   processes from it.
//!
//! The agent inside `ringscope serve` is not confined: the daemon is the same process, and needs more.

mod calls;
mod enter;
mod files;
mod hidden;

pub(super) use calls::{Role, deny_calls};
pub use enter::enter;
