//! Fence: the address at which this process listens for who wants to connect.

#![expect(unsafe_code, reason = "getifaddrs hands out a linked list of C structures")]

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr};

use crate::config::Filter;
use crate::failure::{Failure, Result};

/// An interface with an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Its name.
    pub(crate) name: String,
    /// Its IPv4 address.
    pub(crate) address: IpAddr,
    is_loopback: bool,
}

/// The interface to meet over: the first that is wanted and up; loopback only if it is named or alone.
pub(crate) fn chosen(wanted: &Filter) -> Result<Interface> {
    let mut all = listed()?;
    all.retain(|interface| wanted.takes(&interface.name, None));
    if wanted.is_empty() {
        all.sort_by_key(|interface| interface.is_loopback || interface.name.starts_with("docker"));
    }
    all.into_iter().next().ok_or_else(|| {
        Failure::usage("no interface that is up has an IPv4 address and is wanted by NCCL_SOCKET_IFNAME")
    })
}

fn listed() -> Result<Vec<Interface>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `list` is a valid place for the head of the list.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(Failure::system(format!("list the interfaces: {}", std::io::Error::last_os_error())));
    }
    let mut all = Vec::new();
    let mut next = list;
    // SAFETY: `next` is null or an entry of the list that getifaddrs returned and that is freed only below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        all.extend(interface(entry));
    }
    // SAFETY: `list` came from getifaddrs, and no reference into it is left.
    unsafe { libc::freeifaddrs(list) };
    Ok(all)
}

fn interface(entry: &libc::ifaddrs) -> Option<Interface> {
    if entry.ifa_flags & libc::IFF_UP.cast_unsigned() == 0 || entry.ifa_addr.is_null() {
        return None;
    }
    // SAFETY: not null, and every address starts with its family.
    let family = i32::from(unsafe { (*entry.ifa_addr).sa_family });
    if family != libc::AF_INET {
        return None;
    }
    // SAFETY: the family says that it is a sockaddr_in; read unaligned, since only sockaddr's alignment is promised.
    let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
    // SAFETY: getifaddrs gives each entry a NUL-terminated name.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) };
    Some(Interface {
        name: name.to_string_lossy().into_owned(),
        address: IpAddr::V4(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr))),
        is_loopback: entry.ifa_flags & libc::IFF_LOOPBACK.cast_unsigned() != 0,
    })
}
