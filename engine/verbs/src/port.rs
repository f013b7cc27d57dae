//! Fence: ports.

#![expect(unsafe_code, reason = "calls libibverbs")]

use rdma_mummy_sys as sys;

use crate::context::Context;
use crate::error::{Result, check};

/// A port, as it is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number, from 1.
    pub number: u8,
    /// Whether data can flow.
    pub is_active: bool,
    /// What its link speaks.
    pub link_layer: LinkLayer,
    /// Bytes of payload that a packet may have now.
    pub mtu_bytes: u32,
    /// Its local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Entries of its table of identifiers.
    pub gid_table_len: u32,
    /// Its rate in Mbit/s, lanes by speed.
    pub rate_mbit_per_s: u32,
    /// Whether all packets must carry the identifiers.
    pub needs_gid: bool,
}

/// `IBV_QPF_GRH_REQUIRED`
const GRH_REQUIRED: u8 = 1;

/// What a link speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// RoCE.
    Ethernet,
    /// Not said: EFA and others, which have no reliable connections.
    Other,
}

impl Context {
    /// A port's state.
    pub fn port(&self, number: u8) -> Result<Port> {
        let mut attributes = std::mem::MaybeUninit::<sys::ibv_port_attr>::zeroed();
        // SAFETY: an open device, and room for what is written.
        let code = unsafe { sys::ibv_query_port(self.raw(), number, attributes.as_mut_ptr()) };
        check(code, || format!("ask for port {number} of {}", self.name()))?;
        // SAFETY: numbers alone, which were zero before.
        let told = unsafe { attributes.assume_init() };
        Ok(Port {
            number,
            is_active: told.state == sys::ibv_port_state::IBV_PORT_ACTIVE,
            link_layer: match told.link_layer {
                sys::IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
                sys::IBV_LINK_LAYER_INFINIBAND => LinkLayer::InfiniBand,
                _ => LinkLayer::Other,
            },
            mtu_bytes: mtu_bytes(told.active_mtu),
            lid: told.lid,
            gid_table_len: u32::try_from(told.gid_tbl_len).unwrap_or(0),
            rate_mbit_per_s: lanes(told.active_width)
                * lane_mbit_per_s(match told.active_speed_ex {
                    0 => u32::from(told.active_speed),
                    speed => speed,
                }),
            needs_gid: told.flags & GRH_REQUIRED != 0,
        })
    }
}

/// `enum ibv_mtu` in bytes: 1 is 256.
pub(crate) fn mtu_bytes(number: u32) -> u32 {
    if (1..=5).contains(&number) { 128 << number } else { 0 }
}

/// Bytes as `enum ibv_mtu`: the largest that is not more.
pub(crate) fn mtu_number(bytes: u32) -> u32 {
    (1..=5).rev().find(|number| mtu_bytes(*number) <= bytes).unwrap_or(1)
}

/// By the InfiniBand specification, `PortInfo:LinkWidthActive`.
fn lanes(width: u8) -> u32 {
    match width {
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 1,
    }
}

/// By the InfiniBand specification, `PortInfo:LinkSpeedActive` and its extension: SDR to XDR.
fn lane_mbit_per_s(speed: u32) -> u32 {
    match speed {
        2 => 5000,
        4 | 8 => 10_000,
        16 => 14_000,
        32 => 25_000,
        64 => 50_000,
        128 => 100_000,
        256 => 200_000,
        _ => 2500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtus_are_powers_of_two() {
        assert_eq!([1, 3, 5, 0, 6].map(mtu_bytes), [256, 1024, 4096, 0, 0]);
        assert_eq!([4096, 4200, 1024, 1500, 100].map(mtu_number), [5, 5, 3, 3, 1]);
    }

    #[test]
    fn rates_are_lanes_by_speed() {
        assert_eq!(lanes(2) * lane_mbit_per_s(128), 400_000);
        assert_eq!(lanes(1) * lane_mbit_per_s(1), 2500);
    }
}
