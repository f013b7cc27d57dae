//! Fence: the machine's own interfaces, by `getifaddrs`.

#![expect(unsafe_code, reason = "getifaddrs hands out a linked list of C structures")]

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use crate::config::NicSpec;

/// The interfaces with an IPv4 address: those that are up and not loopback, or loopback alone where there is none.
pub(crate) fn machine_nics() -> io::Result<Vec<NicSpec>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `list` is a valid place for the head of the list.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mut outside, mut loopback) = (Vec::new(), Vec::new());
    let mut next = list;
    // SAFETY: `next` is null or an entry of the list that getifaddrs returned and that is freed only below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        let Some(nic) = ipv4(entry) else { continue };
        if entry.ifa_flags & libc::IFF_LOOPBACK.cast_unsigned() != 0 {
            loopback.push(nic);
        } else {
            outside.push(nic);
        }
    }
    // SAFETY: `list` came from getifaddrs, and no reference into it is left.
    unsafe { libc::freeifaddrs(list) };
    Ok(if outside.is_empty() { loopback } else { outside })
}

fn ipv4(entry: &libc::ifaddrs) -> Option<NicSpec> {
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
    let address = IpAddr::V4(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)));
    Some(NicSpec { name: name.to_string_lossy().into_owned(), address })
}
