//! The addresses that a name stands for, asked for seldom: nothing between a process and its name servers keeps answers, and
//! many processes may wait for the same name. An answer is never waited for beyond a deadline.

use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::clock::Deadline;

/// Between an answer and the next question at first; each time it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest: little beside the patience of who waits for a machine that starts.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Asks the system.
pub(super) type LookUp = Arc<dyn Fn(&str) -> Result<Vec<SocketAddr>> + Send + Sync>;

/// A name, and its addresses as far as they are known.
pub(super) struct Addresses {
    name: String,
    known: Vec<SocketAddr>,
    /// Where the answer to the question under way comes.
    answer: Option<Receiver<Result<Vec<SocketAddr>>>>,
    /// It is not asked again before.
    asks_again: Deadline,
    pause: Duration,
    look_up: LookUp,
}

impl Addresses {
    /// Of host:port.
    pub(super) fn of(name: &str) -> Self {
        Self::looked_up_by(name, FIRST_PAUSE, Arc::new(|name| name.to_socket_addrs().map(Iterator::collect)))
    }

    pub(super) fn looked_up_by(name: &str, pause: Duration, look_up: LookUp) -> Self {
        let known: Vec<SocketAddr> = name.parse().into_iter().collect();
        // A number stands for itself.
        let asks_again = Deadline::after(if known.is_empty() { Duration::ZERO } else { Duration::MAX });
        Self { name: name.to_owned(), known, answer: None, asks_again, pause, look_up }
    }

    /// Those that are known, for who has not called them yet, or all of them in vain: then the name is looked up again, at
    /// most once in a pause. None where the last answer was an error, which has been told.
    ///
    /// # Errors
    /// There is no such name, or no answer until the deadline.
    pub(super) fn find(&mut self, deadline: Deadline) -> Result<&[SocketAddr]> {
        if self.answer.is_none() && self.asks_again.passed() {
            self.answer = Some(self.ask()?);
        }
        let Some(answer) = &self.answer else { return Ok(&self.known) };
        let is_known = !self.known.is_empty();
        let found = match answer.recv_timeout(if is_known { Duration::ZERO } else { deadline.left() }) {
            Ok(found) => found,
            Err(RecvTimeoutError::Timeout) if is_known => return Ok(&self.known),
            Err(_) => return Err(Error::new(ErrorKind::TimedOut, "no name server has answered")),
        };
        self.answer = None;
        self.asks_again = Deadline::after(self.pause);
        self.pause = LONGEST_PAUSE.min(self.pause.saturating_mul(2));
        match found {
            Ok(found) if !found.is_empty() => self.known = found,
            // They may be right yet.
            _ if is_known => {}
            Ok(_) => return Err(Error::new(ErrorKind::HostUnreachable, "the name has no address")),
            Err(error) => return Err(error),
        }
        Ok(&self.known)
    }

    /// In a thread of its own, for the system may take as long as it likes.
    fn ask(&self) -> Result<Receiver<Result<Vec<SocketAddr>>>> {
        let (name, look_up) = (self.name.clone(), Arc::clone(&self.look_up));
        let (tell, answer) = sync_channel(1);
        let thread = std::thread::Builder::new().name("rtensor-names".to_owned());
        thread.spawn(move || {
            // Whoever asked may have gone.
            let _ = tell.send(look_up(&name));
        })?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(60))
    }

    /// Answers that come one after the other, and how many were asked for.
    fn answers(answers: Vec<Option<SocketAddr>>) -> (LookUp, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let look_up = move |_: &str| match answers.get(count.fetch_add(1, Ordering::Relaxed)).copied() {
            Some(Some(address)) => Ok(vec![address]),
            _ => Err(Error::other("no such name")),
        };
        (Arc::new(look_up), asked)
    }

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn a_name_is_asked_for_once_in_a_pause_whether_it_is_known_or_not() {
        let pause = Duration::from_secs(3600);
        let (look_up, asked) = answers(vec![Some(address(7))]);
        let mut known = Addresses::looked_up_by("known:7", pause, look_up);
        let (look_up, asked_in_vain) = answers(vec![None, Some(address(7))]);
        let mut unknown = Addresses::looked_up_by("unknown:7", pause, look_up);
        assert_eq!(unknown.find(soon()).unwrap_err().to_string(), "no such name");
        for _ in 0..200 {
            assert_eq!(known.find(soon()).unwrap(), [address(7)]);
            assert!(unknown.find(soon()).unwrap().is_empty());
        }
        assert_eq!([asked, asked_in_vain].map(|asked| asked.load(Ordering::Relaxed)), [1, 1]);
    }

    #[test]
    fn a_new_address_takes_the_place_of_one_that_failed_and_no_answer_takes_none() {
        let (look_up, _) = answers(vec![Some(address(7)), None, Some(address(8))]);
        let mut addresses = Addresses::looked_up_by("moves:7", Duration::ZERO, look_up);
        assert_eq!(addresses.find(soon()).unwrap(), [address(7)]);
        while addresses.find(soon()).unwrap() != [address(8)] {
            assert_eq!(addresses.known, [address(7)]);
        }
        assert_eq!(addresses.find(soon()).unwrap(), [address(8)]);
    }

    #[test]
    fn pauses_grow() {
        let (look_up, _) = answers(vec![]);
        let mut addresses = Addresses::looked_up_by("unknown:7", FIRST_PAUSE, look_up);
        for seconds in [1, 2, 4, 8, 8] {
            addresses.asks_again = Deadline::after(Duration::ZERO);
            addresses.find(soon()).unwrap_err();
            assert!((addresses.asks_again.seconds() - f64::from(seconds)).abs() < 0.001);
        }
    }

    #[test]
    fn a_system_that_does_not_answer_is_not_waited_for_beyond_the_deadline() {
        let look_up: LookUp = Arc::new(|_| {
            loop {
                std::thread::park();
            }
        });
        let mut addresses = Addresses::looked_up_by("hangs:7", FIRST_PAUSE, look_up);
        let error = addresses.find(Deadline::after(Duration::from_millis(10))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn a_number_is_not_asked_for() {
        let (look_up, asked) = answers(vec![]);
        let mut addresses = Addresses::looked_up_by("127.0.0.1:7", Duration::ZERO, look_up);
        assert_eq!(addresses.find(soon()).unwrap(), [address(7)]);
        assert_eq!(addresses.find(soon()).unwrap(), [address(7)]);
        assert_eq!(asked.load(Ordering::Relaxed), 0);
    }
}
