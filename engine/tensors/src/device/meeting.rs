//! How two ends find each other: one listens, the other calls until it is heard. Whoever else calls does not keep them apart:
//! a stranger has a short time to greet, and others are heard meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::clock::Deadline;
use crate::device::Role;
use crate::device::addresses::Addresses;
use crate::error::{Error, Result};

/// Begins every connection over TCP; the last byte is the version.
const GREETING: [u8; 8] = *b"rtensor\x01";

/// Between two tries to call or to be called.
const RETRY: Duration = Duration::from_millis(5);
/// How long a caller may take to greet: many round trips, and less than anybody's patience.
const GREETING_TIME: Duration = Duration::from_secs(2);
/// How long one address may take to answer a call, of the several that a name may have.
const CALL_TIME: Duration = Duration::from_secs(2);
/// Callers that have not greeted yet at most; more wait in the listener's queue.
const MAX_STRANGERS: usize = 64;

/// Tries again until there is a result or the deadline has passed.
pub(super) fn until<T>(
    deadline: Deadline,
    waiting_for: &str,
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    loop {
        if let Some(found) = attempt()? {
            return Ok(found);
        }
        if deadline.passed() {
            return Err(Error::NoProgress {
                seconds: deadline.seconds(),
                waiting_for: waiting_for.to_owned(),
            });
        }
        std::thread::sleep(RETRY);
    }
}

/// That nobody came, in place of an error that says it was waited in vain.
pub(super) fn nobody(role: Role, address: &str, why: &str, error: Error) -> Error {
    let Error::NoProgress { seconds, .. } = error else { return error };
    let what = match role {
        Role::Listen => "nobody called",
        Role::Call => "nobody answered",
    };
    Error::Nobody { what: what.to_owned(), address: address.to_owned(), seconds, why: why.to_owned() }
}

/// Why nobody can call there.
pub(super) fn cannot_listen(address: &str, error: std::io::Error) -> Error {
    let who = match error.kind() {
        ErrorKind::AddrInUse => " (another process listens there: one end listens, the other calls)",
        _ => "",
    };
    Error::system(format!("listening at {address}{who}"), error)
}

/// A TCP connection between two ends that have greeted each other.
pub(super) fn over_tcp(role: Role, address: &str, deadline: Deadline) -> Result<(TcpStream, SocketAddr)> {
    let stream = match role {
        Role::Listen => listen(address, deadline)?,
        Role::Call => call(address, Addresses::of(address), deadline)?,
    };
    let peer = stream.peer_addr().map_err(|error| Error::system("setting up a connection", error))?;
    Ok((stream, peer))
}

/// A caller that has not greeted yet.
struct Stranger {
    stream: TcpStream,
    said: Said,
    limit: Deadline,
}

/// What of a greeting has come.
#[derive(Default)]
struct Said {
    bytes: [u8; GREETING.len()],
    len: usize,
}

/// Callers that were no peers, by why.
#[derive(Default)]
struct HungUp {
    /// They spoke something else, or another version.
    nonsense: usize,
    /// They did not greet in time.
    silent: usize,
    /// They closed the connection, or it broke.
    gone: usize,
}

impl std::fmt::Display for HungUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whys = [
            (self.nonsense, "spoke something else or another version"),
            (self.silent, "did not greet"),
            (self.gone, "went away"),
        ];
        let mut before = "";
        for (count, why) in whys.into_iter().filter(|(count, _)| *count > 0) {
            let callers = match (before, count) {
                ("", 1) => " caller",
                ("", _) => " callers",
                _ => "",
            };
            write!(f, "{before}{count}{callers} {why}")?;
            before = ", ";
        }
        Ok(())
    }
}

/// How far a greeting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// Not all of it has come.
    Some,
    /// It is ours.
    Greeting,
    /// It is something else's, or of another version.
    Nonsense,
}

impl Said {
    fn hear(&mut self, mut stream: &TcpStream) -> std::io::Result<Heard> {
        match stream.read(self.bytes.get_mut(self.len..).unwrap_or_default()) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(got) => self.len += got,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(match self.bytes {
            _ if self.len < GREETING.len() => Heard::Some,
            GREETING => Heard::Greeting,
            _ => Heard::Nonsense,
        })
    }
}

/// Waits to be called by somebody who greets.
fn listen(address: &str, deadline: Deadline) -> Result<TcpStream> {
    let refused = |error| cannot_listen(address, error);
    let mut addresses = Addresses::of(address);
    let listener = addresses.find(deadline).and_then(TcpListener::bind).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let (mut strangers, mut hung_up) = (Vec::new(), HungUp::default());
    let found = until(deadline, "", || {
        while strangers.len() < MAX_STRANGERS {
            match listener.accept() {
                Ok((stream, _)) => match set_up(&stream) {
                    Ok(()) => strangers.push(Stranger {
                        stream,
                        said: Said::default(),
                        limit: Deadline::after(GREETING_TIME),
                    }),
                    Err(_) => hung_up.gone += 1,
                },
                Err(error) if is_passing(error.kind()) => break,
                Err(error) => return Err(refused(error)),
            }
        }
        for mut stranger in std::mem::take(&mut strangers) {
            let heard = stranger.said.hear(&stranger.stream);
            // Of another version too: it is told of this one. A new connection has room for a few bytes.
            let is_greeted = matches!(heard, Ok(Heard::Greeting | Heard::Nonsense))
                && (&stranger.stream).write_all(&GREETING).is_ok();
            match heard {
                Ok(Heard::Greeting) if is_greeted => return Ok(Some(stranger.stream)),
                Ok(Heard::Some) if !stranger.limit.passed() => strangers.push(stranger),
                Ok(Heard::Some) => hung_up.silent += 1,
                Ok(Heard::Nonsense) => hung_up.nonsense += 1,
                Ok(Heard::Greeting) | Err(_) => hung_up.gone += 1,
            }
        }
        Ok(None)
    });
    hung_up.silent += strangers.len();
    let callers = hung_up.to_string();
    found.map_err(|error| match nobody(Role::Listen, address, "", error) {
        Error::Nobody { address, seconds, .. } if !callers.is_empty() => {
            Error::Nobody { what: "no peer called".to_owned(), address, seconds, why: format!(": {callers}") }
        }
        error => error,
    })
}

/// Calls until somebody is there, and greets.
fn call(address: &str, mut addresses: Addresses, deadline: Deadline) -> Result<TcpStream> {
    let mut last = None;
    let found = until(deadline, "", || match call_once(&mut addresses, deadline) {
        Ok(stream) => Ok(stream),
        Err(error) if is_passing(error.kind()) => {
            last = Some(error);
            Ok(None)
        }
        Err(error) => Err(Error::system(format!("calling {address}"), error)),
    });
    let why = last.map_or_else(String::new, |error| format!(" ({error})"));
    let stream = found.map_err(|error| nobody(Role::Call, address, &why, error))?;
    greet(&stream, address, deadline)?;
    Ok(stream)
}

/// Calls the addresses that are known, one after the other; nothing where there are none.
fn call_once(addresses: &mut Addresses, deadline: Deadline) -> std::io::Result<Option<TcpStream>> {
    let mut last = None;
    for address in addresses.find(deadline).map_err(not_found)? {
        // Zero would be refused.
        let limit = CALL_TIME.min(deadline.left()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(address, limit).and_then(|stream| set_up(&stream).map(|()| stream)) {
            Ok(stream) => return Ok(Some(stream)),
            // Of several the one that may go better next time.
            Err(error) if is_passing(error.kind()) => last = Some(error),
            Err(error) => last = last.or(Some(error)),
        }
    }
    last.map_or(Ok(None), Err)
}

/// A name that is not known may be in a moment; one that is none will not.
fn not_found(error: std::io::Error) -> std::io::Error {
    match error.kind() {
        ErrorKind::InvalidInput => error,
        _ => std::io::Error::new(ErrorKind::HostUnreachable, error),
    }
}

fn greet(mut stream: &TcpStream, address: &str, deadline: Deadline) -> Result<()> {
    let peer = format!("peer {address}");
    let lost = |error: std::io::Error| Error::PeerLost {
        peer: peer.clone(),
        waiting_for: "greeting it".to_owned(),
        why: match error.kind() {
            ErrorKind::UnexpectedEof => "it closed the connection: it may have another peer".to_owned(),
            _ => error.to_string(),
        },
    };
    stream.write_all(&GREETING).map_err(lost)?;
    let mut said = Said::default();
    let heard = until(deadline, &format!("the greeting of {peer}"), || {
        Ok(Some(said.hear(stream).map_err(lost)?).filter(|heard| *heard != Heard::Some))
    })?;
    if heard == Heard::Nonsense {
        let what = "a greeting of something else, or of another version".to_owned();
        return Err(Error::Malformed { peer, what });
    }
    Ok(())
}

fn set_up(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)
}

/// Whether it may go better next time: the listener may not be there yet.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(60))
    }

    fn free_address() -> String {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
    }

    #[test]
    fn strangers_do_not_keep_two_ends_apart() {
        let address = free_address();
        std::thread::scope(|scope| {
            let listener = scope.spawn(|| over_tcp(Role::Listen, &address, soon()).map(|_| ()));
            let stranger = |says: &[u8]| {
                let mut stranger =
                    until(soon(), "a listener", || Ok(TcpStream::connect(&address).ok())).unwrap();
                stranger.write_all(says).unwrap();
                stranger
            };
            let silent = stranger(b"rten");
            let mut other = stranger(b"GET / HTTP/1.1\r\n");
            drop(stranger(b""));
            let mut answer = [0; GREETING.len()];
            other.read_exact(&mut answer).unwrap();
            assert_eq!(answer, GREETING);
            over_tcp(Role::Call, &address, soon()).unwrap();
            listener.join().unwrap().unwrap();
            drop(silent);
        });
    }

    #[test]
    fn strangers_are_told_by_what_they_did() {
        let address = free_address();
        std::thread::scope(|scope| {
            let listener =
                scope.spawn(|| over_tcp(Role::Listen, &address, Deadline::after(Duration::from_secs(1))));
            let stranger = || until(soon(), "a listener", || Ok(TcpStream::connect(&address).ok())).unwrap();
            let others = [stranger(), stranger()];
            others.iter().for_each(|mut other| other.write_all(b"rtensor\x07").unwrap());
            let silent = stranger();
            drop(stranger());
            let text = listener.join().unwrap().unwrap_err().to_string();
            let why = "2 callers spoke something else or another version, 1 did not greet, 1 went away";
            assert_eq!(text, format!("no peer called at {address} for 1 s: {why}"));
            drop(silent);
        });
        for (hung_up, words) in [
            (HungUp { nonsense: 1, ..HungUp::default() }, "1 caller spoke something else or another version"),
            (HungUp { silent: 2, gone: 3, ..HungUp::default() }, "2 callers did not greet, 3 went away"),
            (HungUp::default(), ""),
        ] {
            assert_eq!(hung_up.to_string(), words);
        }
    }

    #[test]
    fn who_calls_again_and_again_asks_for_the_name_once() {
        let (asked, address) = (Arc::new(AtomicUsize::new(0)), free_address());
        for is_known in [true, false] {
            let (count, found) = (Arc::clone(&asked), address.parse().unwrap());
            let look_up = move |_: &str| {
                count.fetch_add(1, Ordering::Relaxed);
                if is_known { Ok(vec![found]) } else { Err(std::io::Error::other("no such name")) }
            };
            let addresses = Addresses::looked_up_by("name:7", Duration::from_secs(60), Arc::new(look_up));
            let text = call("name:7", addresses, Deadline::after(Duration::from_millis(100))).unwrap_err();
            let why = if is_known { "Connection refused" } else { "no such name" };
            let expected = format!("nobody answered at name:7 for 0.1 s ({why}");
            assert!(text.to_string().starts_with(&expected), "{text}");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_name_that_is_none_is_refused_at_once() {
        let text = over_tcp(Role::Call, "no port", soon()).unwrap_err().to_string();
        assert!(text.contains("calling no port"), "{text}");
    }
}
