//! Fence: global identifiers, by which ports are addressed on RoCE and between InfiniBand subnets.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::fmt;
use std::net::Ipv6Addr;

use rdma_mummy_sys as sys;

use crate::context::Context;

/// An entry of a port's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Its place in the table.
    pub index: u32,
    /// The identifier; an IPv4 address is mapped into IPv6.
    pub bytes: [u8; 16],
    /// How packets with it look.
    pub kind: GidKind,
}

/// How packets look. Two ends of different kinds do not understand each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GidKind {
    /// Not told.
    #[default]
    Unknown,
    /// InfiniBand.
    InfiniBand,
    /// RoCE v1: Ethernet frames of their own type.
    RoceV1,
    /// RoCE v2: UDP, port 4791.
    RoceV2,
}

impl GidKind {
    /// 0 not known, 1 InfiniBand, 2 RoCE v1, 3 RoCE v2.
    pub fn number(self) -> u32 {
        match self {
            Self::Unknown => 0,
            Self::InfiniBand => 1,
            Self::RoceV1 => 2,
            Self::RoceV2 => 3,
        }
    }
}

impl Gid {
    /// Whether it stands for an IPv4 address.
    pub fn is_ipv4(&self) -> bool {
        Ipv6Addr::from(self.bytes).to_ipv4_mapped().is_some()
    }

    /// Whether it is of the link alone, and no router forwards it.
    pub fn is_link_local(&self) -> bool {
        self.bytes[0] == 0xfe && self.bytes[1] & 0xc0 == 0x80
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Ipv6Addr::from(self.bytes))
    }
}

impl Context {
    /// The identifiers of a port, but those that are zero.
    pub fn gids(&self, port: u8, table_len: u32) -> Vec<Gid> {
        (0..table_len).filter_map(|index| self.gid(port, index)).collect()
    }

    /// One identifier of a port; none where the table has none there.
    pub fn gid(&self, port: u8, index: u32) -> Option<Gid> {
        let mut entry = std::mem::MaybeUninit::<sys::ibv_gid_entry>::zeroed();
        // SAFETY: an open device, and room for what is written.
        let code =
            unsafe { sys::ibv_query_gid_ex(self.raw(), u32::from(port), index, entry.as_mut_ptr(), 0) };
        if code != 0 {
            return None;
        }
        // SAFETY: numbers alone, which were zero before.
        let entry = unsafe { entry.assume_init() };
        // SAFETY: all of its bytes are initialised.
        let bytes = unsafe { entry.gid.raw };
        let kind = match entry.gid_type {
            sys::IBV_GID_TYPE_IB => GidKind::InfiniBand,
            sys::IBV_GID_TYPE_ROCE_V1 => GidKind::RoceV1,
            sys::IBV_GID_TYPE_ROCE_V2 => GidKind::RoceV2,
            _ => GidKind::Unknown,
        };
        (bytes != [0; 16]).then_some(Gid { index, bytes, kind })
    }
}
