//! Taking callers, also where that fails for a while: without a descriptor for it a call stays with the kernel, and whoever
//! asks for it again at once keeps a core busy with that.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// After a call that cannot be taken.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// Who calls, one after the other, for a thread that does nothing else.
pub(super) fn callers(listener: &TcpListener) -> impl Iterator<Item = TcpStream> {
    listener.incoming().filter_map(|caller| caller.inspect_err(|_| std::thread::sleep(PAUSE)).ok())
}

/// Who has called by now, for a thread that sleeps on other things too; and whether the next one cannot be taken.
pub(super) fn waiting(listener: &TcpListener) -> (Vec<TcpStream>, bool) {
    let mut callers = Vec::new();
    loop {
        match listener.accept() {
            Ok((caller, _)) => callers.push(caller),
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
            Err(error) => return (callers, error.kind() != ErrorKind::WouldBlock),
        }
    }
}
