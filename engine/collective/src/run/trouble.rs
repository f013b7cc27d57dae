//! What goes wrong while an operation runs.

use std::net::IpAddr;

use crate::collective::primitive::Primitive;
use crate::transport::Fault;

/// What went wrong, and where.
#[derive(Debug)]
pub(crate) struct Trouble {
    /// What.
    pub(crate) fault: Fault,
    /// With which rank.
    pub(crate) peer: usize,
    /// The other end's address and port, where the connection is one of a network.
    pub(crate) remote: Option<(IpAddr, u16)>,
    /// In which primitive.
    pub(crate) primitive: Primitive,
    /// Which operation of its kind.
    pub(crate) sequence: u64,
    /// The collective before it, where a difference in an earlier one would show only now.
    pub(crate) before: Option<(Primitive, u64)>,
}
