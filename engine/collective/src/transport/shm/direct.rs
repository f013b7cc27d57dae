//! Fence: reading a payload where its sender has it, in this process or another.

#![expect(unsafe_code, reason = "addresses come from peers")]

use std::ffi::c_void;
use std::io;

/// A number that only its owner's memory holds, by which peers find out whether they read the right memory.
pub(crate) type Nonce = [u8; 16];

/// Hands over memory of this very process that a peer rank in it has lent: it leaves the bytes alone until the message
/// that told of them has been taken, or it has taken them back ([`super::lender`]).
pub(crate) fn lend(address: u64, len: usize, take: impl FnOnce(&[u8])) {
    let Ok(address) = usize::try_from(address) else { return };
    let start: *const u8 = std::ptr::with_exposed_provenance(address);
    // SAFETY: the sender exposed a live slice of this length, and keeps it until this message is taken. Before it gives
    // it up sooner it takes it back, which waits for this call.
    take(unsafe { std::slice::from_raw_parts(start, len) });
}

/// Reads `into.len()` bytes of process `pid` at `address`.
pub(crate) fn read_process(pid: i32, address: u64, into: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < into.len() {
        let rest = &mut into[done..];
        let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        let start = usize::try_from(address).map_err(io::Error::other)? + done;
        let remote =
            libc::iovec { iov_base: std::ptr::without_provenance_mut::<c_void>(start), iov_len: rest.len() };
        // SAFETY: the kernel writes to `rest` only; the other address is one of another address space, which it checks.
        let got = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
        match usize::try_from(got) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => done += got,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// Whether process `pid` can be read: the number at `address` there must be `nonce`.
pub(crate) fn can_read(pid: i32, address: u64, nonce: &Nonce) -> bool {
    let mut found = Nonce::default();
    read_process(pid, address, &mut found).is_ok() && found == *nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_number_opens() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let nonce: Nonce = *b"0123456789abcdef";
        let address = nonce.as_ptr().addr() as u64;
        assert!(can_read(pid, address, &nonce));
        assert!(!can_read(pid, address, &[0; 16]));
        assert!(!can_read(pid, 8, &nonce) && !can_read(i32::MAX, address, &nonce));
    }

    #[test]
    fn lent_memory_is_read_in_place() {
        let bytes = vec![5; 100];
        let address = bytes.as_ptr().expose_provenance() as u64;
        lend(address, 100, |lent| assert!(std::ptr::eq(lent.as_ptr(), bytes.as_ptr()) && lent == bytes));
    }
}
