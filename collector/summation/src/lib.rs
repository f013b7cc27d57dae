//! The watcher of summation groups, `libringscope_watcher.so`: what the engine tells of the group that a training process is in
//! (`rsum_observer.h`), and which of the service's calls have not ended.
//!
//! The collector opens it where a group is made, hands over what it can do ([`ringscope_wire::watcher`]), and calls it. It has no
//! segment, files or communicators of its own, and like the collector it never blocks, prints, or lets a panic reach C; on the
//! path of a call it neither allocates nor locks.
//!
//! * [`exports`]: the table that the collector gets
//! * [`observer`]: what the engine hands over, into the segment's area ([`area`])
//! * [`calls`]: a table without locks of the calls that are open; any thread calls
//! * [`guard`]: no panic leaves

mod area;
mod calls;
mod exports;
mod guard;
mod observer;
