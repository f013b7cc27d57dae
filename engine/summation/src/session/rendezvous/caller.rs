//! A process at the rendezvous for as long as its job lasts. The process that gives the rendezvous may be lost meanwhile: where
//! the job goes on after a loss, the workers of the last group know where each of them would give the next one. The first
//! that lives does; a process that was silent is not asked.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use super::majority::Gone;
use super::meeting::{Call, CallOff, Door, Limit, Meeting, Met, Unmet};
use super::message::{Membership, Wanted};
use super::root::{After, Root, Terms};
use rsccl_collective::clock::Deadline;
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
    /// The rank there of the process that gives the rendezvous.
    at: Option<usize>,
    /// Ranks of it that are lost since; none: what has become of it is not known.
    lost: BTreeMap<usize, Option<Gone>>,
    /// Why the others will never meet this process again, which was silent: what it knows is older than what they know.
    forsaken: Option<Error>,
}

/// The least that a process which may give the rendezvous is tried for.
const LEAST_WAIT: Duration = Duration::from_secs(2);

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
        Ok(Self {
            call,
            call_off,
            meeting,
            root: None,
            terms,
            last: None,
            at: None,
            lost: BTreeMap::new(),
            forsaken: None,
        })
    }

    /// Waits for a group, not longer than the limit; `tell` is called once the rendezvous knows.
    ///
    /// # Errors
    /// There will be none: why. Or the rendezvous' process is lost, and the job does not go on after a loss.
    pub(crate) fn meet(&mut self, wanted: Wanted, limit: Option<Limit>, tell: &dyn Fn()) -> Result<Met> {
        if let Some(error) = &self.forsaken {
            return Err(error.clone());
        }
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
                match self.meeting.meet(wanted, limit, &self.call_off, tell) {
                    Err(Unmet::Lost(_, gone)) if goes_on && !self.call_off.is_set() => {
                        if gone == Gone::Missing {
                            // It may only be stopped, and is not to begin a group of its own when it goes on.
                            self.meeting.go_on();
                        }
                        self.at.into_iter().for_each(|rank| self.note(rank, Some(gone)));
                    }
                    Err(Unmet::Forsaken(error)) => {
                        self.forsaken = Some(error.clone());
                        return Err(error);
                    }
                    Err(Unmet::Lost(error, _) | Unmet::Refused(error)) => return Err(error),
                    Ok(Met::Group(membership)) => {
                        (self.last, self.at) = (Some(membership.clone()), membership.root);
                        self.lost.clear();
                        return Ok(Met::Group(membership));
                    }
                    Ok(over) => {
                        self.last = None;
                        return Ok(over);
                    }
                }
            }
            // What has become of who is silent, the next rendezvous finds out.
            wanted.lost.into_iter().for_each(|rank| self.note(rank, None));
            match self.next()? {
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
    fn next(&mut self) -> Result<Next> {
        let Some(last) = self.last.clone() else { return Ok(Next::Nowhere) };
        (self.call.session, self.call.epoch) = (Some(last.session), Some(last.epoch));
        // Who comes to the second of them has waited for the first.
        let deadline = Deadline::after(self.terms.timeout / 2);
        for rank in 0..last.n_workers {
            if rank == last.rank {
                return self.give(*last).map(Next::At);
            }
            let door = last.seats.get(rank).and_then(|seat| seat.door);
            let Some(door) = door.filter(|_| !self.lost.contains_key(&rank)) else { continue };
            let most = deadline.left().max(LEAST_WAIT);
            match Meeting::join_next(&mut self.call, door, &self.call_off, most)? {
                Door::Open(meeting) => {
                    self.at = Some(rank);
                    return Ok(Next::At(meeting));
                }
                Door::Gone(gone) => self.note(rank, Some(gone)),
            }
            if self.call_off.is_set() {
                return Err(Error::InvalidUsage("called off the way to the next rendezvous".to_owned()));
            }
        }
        Ok(Next::Nowhere)
    }

    /// A process of the last group is lost; that it is dead is never taken back.
    fn note(&mut self, rank: usize, gone: Option<Gone>) {
        let known = self.lost.entry(rank).or_insert(gone);
        if gone == Some(Gone::Dead) {
            *known = gone;
        }
    }

    /// Gives the rendezvous from now on, and comes to it.
    fn give(&mut self, group: Membership) -> Result<Meeting> {
        let door = self.call.door.as_ref().map(TcpListener::try_clone).transpose();
        let door = door.inspect(|door| door.iter().for_each(fork::keep_from_children));
        let door = door.map_err(|error| Error::system("dup of a listener", &error))?;
        let door =
            door.ok_or_else(|| Error::Internal("there is no door for the next rendezvous".to_owned()))?;
        self.at = Some(group.rank);
        let lost = self.lost.iter().map(|(rank, gone)| (*rank, *gone)).collect();
        let after = After { group, lost, addresses: self.call.addresses.clone() };
        let root = Root::start(door, Terms { after: Some(Box::new(after)), ..self.terms.clone() })?;
        let at = root.address();
        let text =
            format!("summation: the process that gave the rendezvous is lost; this one does now, at {at}");
        log::write(Level::Warn, subsystem::INIT, 0, &text);
        let door = root.address();
        self.root = Some(root);
        match Meeting::join_next(&mut self.call, door, &self.call_off, LEAST_WAIT)? {
            Door::Open(meeting) => Ok(meeting),
            Door::Gone(_) => Err(Error::Internal(format!("the own rendezvous {door} has ended"))),
        }
    }
}
