//! Where ranks and NICs are, and which rings follow from it: pure functions of what the ranks told each other.
//!
//! A map: `sysfs` reads the machine, `graph` joins the parts of a node, `search` finds its channels, `rails` puts the
//! nodes' channels on NICs that belong together, `ranks` has the whole, of what `peers` tell; `place` is what a rank finds out and writes down
//! about itself, `xml` NCCL's files, `print` its log lines; `machine` is what of all this a described machine has.

pub(crate) mod graph;
pub(crate) mod machine;
pub(crate) mod peers;
pub(crate) mod place;
pub(crate) mod print;
pub(crate) mod processor;
pub(crate) mod rails;
pub(crate) mod ranks;
pub(crate) mod search;
pub(crate) mod seat;
pub(crate) mod settings;
pub(crate) mod sysfs;
#[cfg(test)]
mod tests;
pub(crate) mod told;
pub(crate) mod xml;

pub(crate) use peers::{HostFacts, PeerInfo, PeerNic};
pub(crate) use ranks::{RingPlace, Topology};
