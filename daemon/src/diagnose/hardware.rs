//! Trouble with the hosts' hardware.

/// The cause of a finding about a NIC that is down.
pub const NIC_DOWN: &str = "nic_down";
