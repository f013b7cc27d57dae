//! Ranks as threads of this process, and as processes of their own.

mod exchange;
mod processes;
mod ranks;
