//! The summation service's C interfaces: [`calls`] stands in front of `rsum.h`, [`observer`] is the watcher of
//! `rsum_observer.h`, whose structures [`layout`] has.

mod calls;
mod layout;
mod observer;
