//! What a rank has asked the library for, in which order, and which calls it is in.
//!
//! * [`hash`]: what makes two ranks' calls the same
//! * [`layout`]: marks, pairs and threads in the segment; calls and hash of a communicator lie in its slot
//! * [`read`]: from bytes to plain values

pub mod hash;
pub mod layout;
pub mod read;
