//! A root with the manners of NCCL's: it waits for ever for ranks that do not come, and tells nobody whom it misses.
//!
//! NCCL's ranks form a ring over which they gather. So where a rank goes away, its two neighbours see a connection that is
//! closed; they give up, and then their neighbours see that.

use std::net::TcpStream;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use super::message::Answer;
use super::{Hand, LONG_WAIT, LOOK_INTERVAL, answer, gathered};
use crate::log::{self, Level, subsystem};
use crate::net::acceptor::Joins;
use crate::net::frame;
use crate::net::gathered::Gathered;
use crate::net::hello::{Join, MAX_RANKS, PROTOCOL, other_protocol};
use crate::net::wake;

/// All that a rank gets to know.
const CLOSED: &str = "a peer closed its connection";

/// Waits for all ranks; whether they have come. Once all have gone that came, nobody waits for the rest any more. Where its process
/// can open no more files it ends, as NCCL's does: those that have come wait for ever to be called back, that process's own rank
/// too, and those that come later get an error. Where two
/// disagree, NCCL's root ends and says so in its log, and they wait for its answer for ever: this one keeps their
/// connections as long as its process lives.
pub(super) fn gather_ranks(joined: &Joins, ranks: &mut Vec<Option<TcpStream>>) -> bool {
    while let Some((join, stream)) = next(joined, ranks) {
        if ranks.is_empty() && join.n_ranks <= MAX_RANKS {
            ranks.resize_with(join.n_ranks, || None);
        }
        if let Some(text) = refusal(&join, ranks) {
            log::write(Level::Warn, subsystem::INIT, 0, &text);
            let mut kept = vec![stream];
            kept.extend(joined.iter().flatten().map(|(_, stream)| stream));
            return false;
        }
        if let Some(place) = ranks.get_mut(join.rank) {
            *place = Some(stream);
        }
        if ranks.iter().all(Option::is_some) {
            return true;
        }
    }
    false
}

/// The next rank; nothing once nobody waits for one. An id that is made and never used wakes nobody.
fn next(joined: &Joins, ranks: &[Option<TcpStream>]) -> Option<(Join, TcpStream)> {
    if ranks.is_empty() {
        return joined.recv().ok()?.ok();
    }
    loop {
        match joined.recv_timeout(LOOK_INTERVAL) {
            Ok(joined) => return joined.ok(),
            Err(RecvTimeoutError::Timeout) if !all_have_gone(ranks) => {}
            Err(_) => return None,
        }
    }
}

/// Whether some have joined, and each of them has closed its connection.
fn all_have_gone(ranks: &[Option<TcpStream>]) -> bool {
    let mut fds: Vec<PollFd<'_>> =
        ranks.iter().flatten().map(|stream| PollFd::new(stream, PollFlags::RDHUP)).collect();
    let has_looked = !fds.is_empty() && wake::sleep(&mut fds, Duration::ZERO).is_ok();
    has_looked && fds.iter().all(|fd| !fd.revents().is_empty())
}

/// In NCCL's words (`bootstrapRoot` in `bootstrap.cc`), where it has some.
fn refusal(join: &Join, ranks: &[Option<TcpStream>]) -> Option<String> {
    let n_ranks = ranks.len();
    if join.protocol != PROTOCOL {
        return Some(other_protocol(&format!("rank {}", join.rank), join.protocol));
    }
    match ranks.get(join.rank) {
        _ if join.n_ranks != n_ranks => {
            let theirs = join.n_ranks;
            Some(format!("Bootstrap Root : mismatch in rank count from procs {n_ranks} : {theirs}"))
        }
        Some(None) => None,
        _ => {
            let rank = join.rank;
            Some(format!("Bootstrap Root : rank {rank} of {n_ranks} ranks has already checked in"))
        }
    }
}

/// Round by round, until the last one is over or all ranks have gone.
pub(super) fn serve_rounds(ranks: &mut [Option<TcpStream>]) {
    let mut gone = vec![false; ranks.len()];
    while let Some((all, is_last)) = round(ranks, &mut gone) {
        answer(ranks, &Answer::All(all));
        if is_last {
            return;
        }
    }
}

/// One blob of each rank, and whether it was the last round; nothing once all ranks have gone.
fn round(ranks: &[Option<TcpStream>], gone: &mut [bool]) -> Option<(Gathered, bool)> {
    let mut hands: Vec<Hand<'_>> = ranks.iter().flatten().map(Hand::new).collect();
    while gone.contains(&true) || hands.iter().any(|hand| hand.offer.is_none()) {
        let here: Vec<usize> = (0..hands.len()).filter(|rank| !gone[*rank]).collect();
        if here.is_empty() {
            return None;
        }
        let mut fds: Vec<PollFd<'_>> = here.iter().map(|rank| hands[*rank].poll_fd()).collect();
        wake::sleep(&mut fds, LONG_WAIT).ok()?;
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        for rank in here.iter().zip(ready).filter(|(_, ready)| *ready).map(|(rank, _)| *rank) {
            if hands[rank].read().is_err() {
                gone[rank] = true;
                close_to_neighbours(ranks, rank);
            }
        }
    }
    Some(gathered(hands))
}

fn close_to_neighbours(ranks: &[Option<TcpStream>], rank: usize) {
    let n = ranks.len();
    let Ok(bytes) = frame::encode_bytes(&Answer::Failed(CLOSED.to_owned()).to_bytes()) else { return };
    for neighbour in [(rank + 1) % n, (rank + n - 1) % n] {
        if let Some(mut stream) = ranks.get(neighbour).and_then(Option::as_ref) {
            let _ = std::io::Write::write_all(&mut stream, &bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::net::acceptor::{Acceptor, Listening};
    use crate::net::hello::{HAS_ENDED, WELCOME};

    const SECRET: [u8; 16] = [0x5a; 16];

    fn call(listening: &Listening) -> TcpStream {
        let mut stream = TcpStream::connect(listening.address()).unwrap();
        let join = frame::encode(&Join { rank: 0, n_ranks: 2, protocol: PROTOCOL }).unwrap();
        stream.write_all(&[&SECRET[..], &join].concat()).unwrap();
        stream
    }

    #[test]
    fn a_root_that_can_take_no_more_ends_and_tells_nobody_who_has_come() {
        let acceptor = Acceptor::of_process().unwrap();
        let listening = acceptor.listen([127, 0, 78, 1].into(), 0).unwrap();
        let (door, joined) = acceptor.expect_joins(&SECRET);
        let mut first = call(&listening);
        let gathering = std::thread::spawn(move || gather_ranks(&joined, &mut Vec::new()));
        let mut welcome = [0];
        first.read_exact(&mut welcome).unwrap();
        assert_eq!(welcome, [WELCOME]);
        acceptor.give_up(&SECRET, "no more files".to_owned());
        assert!(!gathering.join().unwrap());
        drop(door);
        let mut heard = Vec::new();
        first.read_to_end(&mut heard).unwrap();
        assert!(heard.is_empty());
        call(&listening).read_to_end(&mut heard).unwrap();
        assert_eq!(heard, [HAS_ENDED]);
    }
}
