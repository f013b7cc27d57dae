//! A process at the rendezvous for as long as its job lasts. The process that gives the rendezvous may be lost meanwhile: where
//! the job goes on after a loss, the workers of the last group know where each of them would give the next one. The first
//! that lives does; a process that was silent is not asked.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use super::meeting::{Call, CallOff, Meeting, Met, Unmet};
use super::message::{Membership, Wanted};
use super::root::{After, Root, Terms};
use rsccl_collective::error::{Error, Result};
use rsccl_collective::fork;
use rsccl_collective::log::{self, Level, subsystem};

/// See the module.
#[derive(Debug)]
pub(crate) struct Caller {
    call: Call,
    call_off: Arc<CallOff>,
    meeting: Meeting,
    /// The rendezvous, since this process gives it in a lost one's place.
    root: Option<Root>,
    /// What it would be given with.
    terms: Terms,
    /// The present group, or the last one.
    last: Option<Box<Membership>>,
}

/// Where the next rendezvous is.
enum Next {
    At(Meeting),
    /// No worker of the last group is left.
    Nowhere,
}

impl Caller {
    /// Comes to the rendezvous, which this process itself gives at `own`.
    ///
    /// # Errors
    /// As [`Meeting::join`].
    pub(crate) fn join(
        mut call: Call,
        own: Option<SocketAddr>,
        terms: Terms,
        call_off: Arc<CallOff>,
    ) -> Result<Self> {
        let addresses = call.addresses.clone();
        if let Some(own) = own {
            call.addresses = vec![own.to_string()];
            call.seat.door = Some(own).filter(|_| call.seat.needs_door());
        }
        let meeting = Meeting::join(&mut call, &call_off)?;
        call.addresses = addresses;
        Ok(Self { call, call_off, meeting, root: None, terms, last: None })
    }

    /// Waits for a group, not longer than this; `tell` is called once the rendezvous knows.
    ///
    /// # Errors
    /// There will be none: why. Or the rendezvous' process is lost, and the job does not go on after a loss.
    pub(crate) fn meet(&mut self, wanted: Wanted, most: Option<Duration>, tell: &dyn Fn()) -> Result<Met> {
        let goes_on = self.last.as_ref().is_some_and(|last| last.continues());
        // A process that was silent itself, and has heard of that, still meets where it did.
        let others = self.last.as_ref().filter(|last| last.root != Some(last.rank));
        let root = others.and_then(|last| last.root);
        let mut is_silent = goes_on && root.is_some() && wanted.lost == root;
        loop {
            if is_silent {
                is_silent = false;
                self.meeting.go_on();
            } else {
                match self.meeting.meet(wanted, most, &self.call_off, tell) {
                    Err(Unmet::Lost(_)) if goes_on && !self.call_off.is_set() => {}
                    Err(Unmet::Lost(error) | Unmet::Refused(error)) => return Err(error),
                    Ok(Met::Group(membership)) => {
                        self.last = Some(membership.clone());
                        return Ok(Met::Group(membership));
                    }
                    Ok(over) => {
                        self.last = None;
                        return Ok(over);
                    }
                }
            }
            match self.next(wanted.lost)? {
                Next::At(meeting) => self.meeting = meeting,
                Next::Nowhere => {
                    return Ok(Met::Over(Some("the process that gave the rendezvous".to_owned())));
                }
            }
        }
    }

    /// Where this process gives the rendezvous, since it does so in a lost one's place.
    pub(crate) fn gives(&self) -> Option<SocketAddr> {
        self.root.as_ref().map(Root::address)
    }

    /// Leaves. With it, the rendezvous that this process has come to give: it ends when it is dropped.
    pub(crate) fn leave(self) -> Option<Root> {
        self.meeting.leave();
        self.root
    }

    /// The next rendezvous: the door of the first worker of the last group that lives, which may be this one's.
    fn next(&mut self, silent: Option<usize>) -> Result<Next> {
        let Some(last) = self.last.clone() else { return Ok(Next::Nowhere) };
        self.call.epoch = Some(last.epoch);
        let mut lost: Vec<usize> = silent.into_iter().chain(last.root).collect();
        for rank in 0..last.n_workers {
            if rank == last.rank {
                return self.give(*last, lost).map(Next::At);
            }
            let door = last.seats.get(rank).and_then(|seat| seat.door).filter(|_| !lost.contains(&rank));
            let there =
                door.map(|door| Meeting::join_next(&mut self.call, door, &self.call_off)).transpose()?;
            if let Some(meeting) = there.flatten() {
                return Ok(Next::At(meeting));
            }
            if self.call_off.is_set() {
                return Err(Error::InvalidUsage("called off the way to the next rendezvous".to_owned()));
            }
            lost.push(rank);
        }
        Ok(Next::Nowhere)
    }

    /// Gives the rendezvous from now on, and comes to it.
    fn give(&mut self, group: Membership, lost: Vec<usize>) -> Result<Meeting> {
        let door = self.call.door.as_ref().map(TcpListener::try_clone).transpose();
        let door = door.inspect(|door| door.iter().for_each(fork::keep_from_children));
        let door = door.map_err(|error| Error::system("dup of a listener", &error))?;
        let door =
            door.ok_or_else(|| Error::Internal("there is no door for the next rendezvous".to_owned()))?;
        let after = After { group, lost, addresses: self.call.addresses.clone() };
        let root = Root::start(door, Terms { after: Some(Box::new(after)), ..self.terms.clone() })?;
        let at = root.address();
        let text =
            format!("summation: the process that gave the rendezvous is lost; this one does now, at {at}");
        log::write(Level::Warn, subsystem::INIT, 0, &text);
        let door = root.address();
        self.root = Some(root);
        let meeting = Meeting::join_next(&mut self.call, door, &self.call_off)?;
        meeting.ok_or_else(|| Error::Internal(format!("the own rendezvous {door} has ended")))
    }
}
