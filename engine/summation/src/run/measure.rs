//! What the NICs of a group's machines really carry, measured when a group begins, where nobody was told.
//!
//! One process of each machine takes part, its leader. The machines have their turns one after the other, as rank 0 says: who has
//! it sends to some of the others and they to it, all at once, for a tenth of a second. Each notes what comes and when; the
//! beginning does not count. What the machine sent the others say. The lesser of both ways is its rate, of the better of two
//! turns: processes wait for cores, too. Then rank 0 tells all ranks the same numbers: what follows from them must be equal everywhere, and
//! no sum's bits do.
//!
//! ```text
//! turn    rank 0 to a leader        it is your turn
//! ask     who has it to others      send to me for so many nanoseconds
//! data    both ways                 bytes
//! end     both ways                 that was all
//! report  others to who has it      so many bytes per second came from you
//! told    who has it to rank 0      so many Mbit/s; 1 in `sequence`: or more, the processor was the limit
//! rate    rank 0 to all             of a machine, Mbit/s; 0: it could not be measured
//! over    rank 0 to all, and back   nothing follows
//! ```
//!
//! Where a leader had no processor for most of its turn, or was at work all the time, its link may carry more than was measured: such
//! a machine counts as fast as the fastest. One that is faster than all others together counts as fast as these. Rates that differ by less than a fifth are the same:
//! a placement should not follow the noise of a tenth of a second.

mod meter;
mod processor;
mod turns;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::driver::break_off;
use super::line::{Line, Outcome, Trouble};
use super::wire::strange;
use meter::Meter;
use processor::Processor;
use rsccl_collective::clock;
use rsccl_collective::comm::Comm;
use rsccl_collective::comm::links::{Links, P2P_CHANNEL};
use rsccl_collective::error::{Error, Result};
use rsccl_collective::lock::lock;
use rsccl_collective::net::control::Failure;
use rsccl_collective::net::link::Header;
use rsccl_collective::transport::{Fault, Progress};
use turns::{Turn, Turns, evened, ns};

/// Beside those of pushes and answers.
const CHANNEL: u32 = P2P_CHANNEL + 3;
/// All turns together take about so long at most, where there are many machines.
const IN_ALL: Duration = Duration::from_secs(3);
/// Turns of each machine.
const TURNS_EACH: u32 = 2;
/// A turn: several times what TCP takes to begin, and what a shaped link lets through at once.
const LONGEST_TURN: Duration = Duration::from_millis(100);
const SHORTEST_TURN: Duration = Duration::from_millis(10);
/// Others that take part in a machine's turn: it is not to be waited for thousands.
const MOST_HELPERS: usize = 8;
/// Of one connection in a turn: 100 Gbit/s over eight of them for half of one.
const MOST_BYTES: u64 = 64 << 20;
/// So small that a slow link carries many in a turn.
const FRAME_BYTES: usize = 16 << 10;
/// What the kernel takes before it is on its way, so that a turn ends soon after its time.
const UNSENT_BYTES: u64 = 128 << 10;
/// How long to sleep where nothing moves.
const ASK_AGAIN: Duration = Duration::from_micros(100);

const TURN: u32 = 0x5311;
const ASK: u32 = 0x5312;
const DATA: u32 = 0x5313;
const END: u32 = 0x5314;
const REPORT: u32 = 0x5315;
const TOLD: u32 = 0x5316;
const RATE: u32 = 0x5317;
const OVER: u32 = 0x5318;

/// Bytes per second of 1 Mbit/s.
const BYTES_PER_MBIT: u64 = 125_000;

/// What a process does while rates are measured.
struct Measuring<'a> {
    comm: &'a Arc<Comm>,
    links: Links,
    /// By rank; none to itself, and to whom it has nothing to say.
    lines: BTreeMap<usize, Line>,
    /// By machine.
    leaders: Vec<usize>,
    turn_time: Duration,
    /// What is sent, and where what comes goes.
    scratch: Vec<u8>,
    /// To whom data go, and until when; bytes that are left.
    streams: BTreeMap<usize, (u64, u64)>,
    /// What comes from who has its turn.
    helping: Meter,
    turn: Option<(Turn, Processor)>,
    /// Rank 0's.
    turns: Option<Turns>,
    /// By machine, once they are told.
    rates: Vec<u64>,
    is_over: bool,
}

/// Measures the machines that are `wanted`, in Mbit/s; 0 of those that are not, or could not be. All ranks of a group call it
/// with the same, and get the same; `machines` has each rank's, numbered in the order of their first ranks. Those of which
/// rank 0 knows a rate from `before` keep it.
///
/// # Errors
/// A rank was lost.
pub(super) fn measure(
    comm: &Arc<Comm>,
    machines: &[usize],
    wanted: &[bool],
    before: &[u64],
) -> Result<Vec<u64>> {
    let mut measuring = Measuring::new(comm, machines, wanted, before)?;
    let measured = measuring.run();
    measured.map_err(|trouble| match trouble.fault {
        Fault::Closed => {
            let what =
                format!("{} closed the connection while rates were measured", comm.names[trouble.peer]);
            comm.health.suspect(Failure::new(6, what)).error(&format!("summation on {}", comm.name()))
        }
        Fault::Mismatch(header) => break_off(comm, &strange(&header, trouble.peer)),
        Fault::Broken(error) => break_off(comm, &error),
    })?;
    Ok(measuring.rates)
}

impl<'a> Measuring<'a> {
    fn new(comm: &'a Arc<Comm>, machines: &[usize], wanted: &[bool], before: &[u64]) -> Result<Self> {
        let n_machines = wanted.len();
        let leader = |machine| machines.iter().position(|other| *other == machine).unwrap_or(0);
        let leaders: Vec<usize> = (0..n_machines).map(leader).collect();
        let is_spoken_to = |rank: usize, other: usize| {
            rank != other && (rank == 0 || other == 0 || leaders.contains(&rank) && leaders.contains(&other))
        };
        let (mut links, mut lines) = (Links::default(), BTreeMap::new());
        for peer in (0..machines.len()).filter(|peer| is_spoken_to(comm.rank, *peer)) {
            let (recv, send) = (links.recvs.index(CHANNEL, peer), links.sends.index(CHANNEL, peer));
            links.sends.connect(CHANNEL, peer, comm.open_send(CHANNEL, peer)?);
            if let Some(half) = comm.open_shared_recv(CHANNEL, peer)? {
                links.recvs.connect(CHANNEL, peer, half);
            }
            let line = Line::new(peer, recv, send);
            line.bound_unsent(&mut links, UNSENT_BYTES);
            lines.insert(peer, line);
        }
        let n_wanted = u32::try_from(wanted.iter().filter(|wanted| **wanted).count()).unwrap_or(u32::MAX);
        let n_turns = n_wanted.saturating_mul(TURNS_EACH);
        let turn_time = (IN_ALL / n_turns.max(1)).clamp(SHORTEST_TURN, LONGEST_TURN);
        let turns = (comm.rank == 0).then(|| Turns::new((wanted, before), turn_time, machines.len()));
        Ok(Self {
            comm,
            links,
            lines,
            leaders,
            turn_time,
            scratch: vec![0; FRAME_BYTES],
            streams: BTreeMap::new(),
            helping: Meter::default(),
            turn: None,
            turns,
            rates: vec![0; n_machines],
            is_over: false,
        })
    }

    fn run(&mut self) -> Outcome<()> {
        loop {
            if let Some(failure) = self.comm.health.failure().filter(|_| self.comm.health.has_failed()) {
                let error = failure.error(&format!("summation on {}", self.comm.name()));
                return Err(Trouble::of(self.comm.rank, error));
            }
            let now_ns = clock::monotonic_ns();
            self.take_inbound();
            self.give_turns(now_ns);
            let mut moved = self.hear_all(now_ns)?;
            self.end_turn(now_ns);
            moved |= self.send(now_ns)?;
            if self.has_ended() && self.links.go_on() {
                return Ok(());
            }
            if !moved {
                std::thread::sleep(ASK_AGAIN);
            }
        }
    }

    fn has_ended(&self) -> bool {
        let is_quiet = || self.lines.values().all(Line::is_quiet);
        let have_all_gone = || self.turns.as_ref().is_none_or(|turns| turns.n_here == 0);
        self.is_over && have_all_gone() && is_quiet()
    }

    /// Who is quicker may be at its pushes already.
    fn take_inbound(&mut self) {
        if !self.comm.health.has_inbound() {
            return;
        }
        for inbound in self.comm.health.take_inbound() {
            let half = self.comm.open_recv(inbound.channel, inbound.streams, inbound.peer);
            if inbound.channel == CHANNEL {
                self.links.recvs.connect(inbound.channel, inbound.peer, half);
            } else {
                lock(&self.comm.engine).links.recvs.connect(inbound.channel, inbound.peer, half);
            }
        }
    }

    /// Rank 0: the next machine has its turn, or all are told.
    fn give_turns(&mut self, now_ns: u64) {
        let Some(turns) = &mut self.turns else { return };
        if self.is_over || turns.is_waiting(now_ns) {
            return;
        }
        if let Some(machine) = turns.next(now_ns) {
            match self.leaders.get(machine) {
                Some(0) => self.begin_turn(now_ns),
                Some(leader) => {
                    let leader = *leader;
                    self.say(leader, header(TURN, machine, 0));
                }
                None => {}
            }
            return;
        }
        self.rates = evened(&turns.rates());
        let told: Vec<Header> =
            self.rates.iter().enumerate().map(|(at, rate)| header(RATE, at, *rate)).collect();
        let ranks: Vec<usize> = self.lines.keys().copied().collect();
        for rank in ranks {
            told.iter().for_each(|told| self.say(rank, *told));
            self.say(rank, header(OVER, 0, 0));
        }
        self.is_over = true;
    }

    fn begin_turn(&mut self, now_ns: u64) {
        let own = self.leaders.iter().position(|leader| *leader == self.comm.rank).unwrap_or(0);
        let n_machines = self.leaders.len();
        let others = (1..n_machines).filter_map(|step| self.leaders.get((own + step) % n_machines)).copied();
        let helpers: Vec<usize> = others.take(MOST_HELPERS).collect();
        let turn_ns = ns(self.turn_time);
        for helper in &helpers {
            self.say(*helper, header(ASK, 0, turn_ns));
            self.streams.insert(*helper, (now_ns + turn_ns, MOST_BYTES));
        }
        self.turn = Some((Turn::new(own, &helpers, now_ns, self.turn_time), Processor::now()));
    }

    /// What a turn came to, once it is known, or never will be.
    fn end_turn(&mut self, now_ns: u64) {
        let Some((turn, processor)) = self.turn.take_if(|(turn, _)| turn.is_over(now_ns)) else { return };
        let (rate, is_more) = (turn.bytes_per_s() / BYTES_PER_MBIT, processor.was_the_limit());
        match &mut self.turns {
            Some(turns) => turns.told(turn.machine, rate, is_more),
            None => {
                let told = Header { sequence: is_more.into(), ..header(TOLD, turn.machine, rate) };
                self.say(0, told);
            }
        }
    }

    fn hear_all(&mut self, now_ns: u64) -> Outcome<bool> {
        let ranks: Vec<usize> = self.lines.keys().copied().collect();
        let mut moved = false;
        for rank in ranks {
            let heard = self.hear(rank, now_ns);
            moved |= self.unless_gone(rank, heard)?;
        }
        Ok(moved)
    }

    fn is_through(&self, rank: usize) -> bool {
        rank != 0 && self.turns.is_none() || self.is_over
    }

    fn hear(&mut self, rank: usize, now_ns: u64) -> Outcome<bool> {
        let Some(line) = self.lines.get(&rank) else { return Ok(false) };
        let Some(front) = line.front(&mut self.links)? else { return Ok(false) };
        let len = front.len as usize;
        let room = self.scratch.get_mut(..len).ok_or_else(|| line.broken(strange(&front, rank)))?;
        let progress = line.receive(&mut self.links, &front, room)?;
        if progress == Progress::Done {
            self.heard(rank, &front, now_ns)?;
        }
        Ok(progress != Progress::Idle)
    }

    fn heard(&mut self, rank: usize, front: &Header, now_ns: u64) -> Outcome<()> {
        let number = front.part as usize;
        match front.function {
            TURN => self.begin_turn(now_ns),
            ASK => {
                self.helping = Meter::default();
                let until_ns = now_ns.saturating_add(front.signature.min(ns(LONGEST_TURN)));
                self.streams.insert(rank, (until_ns, MOST_BYTES));
            }
            DATA => match self.turn.as_mut().filter(|(turn, _)| turn.has(rank)) {
                Some((turn, _)) => turn.meter.count(front.len.into(), now_ns),
                None => self.helping.count(front.len.into(), now_ns),
            },
            END => match self.turn.as_mut().filter(|(turn, _)| turn.has(rank)) {
                Some((turn, _)) => turn.ended(rank),
                None => {
                    let came = self.helping.bytes_per_s();
                    self.say(rank, header(REPORT, 0, came));
                }
            },
            REPORT => self.turn.iter_mut().for_each(|(turn, _)| turn.reported(rank, front.signature)),
            TOLD => {
                let is_more = front.sequence != 0;
                self.turns.iter_mut().for_each(|turns| turns.told(number, front.signature, is_more));
            }
            RATE => self.rates.get_mut(number).into_iter().for_each(|rate| *rate = front.signature),
            OVER => match &mut self.turns {
                Some(turns) => turns.n_here = turns.n_here.saturating_sub(1),
                None => {
                    self.is_over = true;
                    self.say(0, header(OVER, 0, 0));
                }
            },
            _ => return Err(Trouble::of(rank, strange(front, rank))),
        }
        Ok(())
    }

    /// Sends notes and data. Whether anything moved.
    fn send(&mut self, now_ns: u64) -> Outcome<bool> {
        let ranks: Vec<usize> = self.lines.keys().copied().collect();
        let mut moved = false;
        for rank in ranks {
            let sent = self.send_to(rank, now_ns);
            moved |= self.unless_gone(rank, sent)?;
        }
        Ok(moved)
    }

    fn send_to(&mut self, rank: usize, now_ns: u64) -> Outcome<bool> {
        let Some(line) = self.lines.get_mut(&rank) else { return Ok(false) };
        line.unblock();
        let moved = line.send_notes(&mut self.links)?;
        let Some((until_ns, left)) = self.streams.get_mut(&rank).filter(|_| line.is_open()) else {
            return Ok(moved);
        };
        let progress = line.send_frame(&mut self.links, data(), &self.scratch)?;
        if progress == Progress::Done {
            *left = left.saturating_sub(FRAME_BYTES as u64);
            if now_ns >= *until_ns || *left == 0 {
                self.streams.remove(&rank);
                line.note(header(END, 0, 0));
            }
        }
        Ok(moved || progress != Progress::Idle)
    }

    /// Who has been told all is through, and closes its connections; if it was lost, the communicator tells.
    fn unless_gone(&mut self, rank: usize, outcome: Outcome<bool>) -> Outcome<bool> {
        match outcome {
            Err(Trouble { fault: Fault::Closed, .. }) if self.is_through(rank) => {
                self.lines.remove(&rank);
                self.streams.remove(&rank);
                Ok(true)
            }
            outcome => outcome,
        }
    }

    fn say(&mut self, rank: usize, header: Header) {
        self.lines.get_mut(&rank).into_iter().for_each(|line| line.note(header));
    }
}

fn header(function: u32, part: usize, signature: u64) -> Header {
    Header { function, sequence: 0, signature, part: u32::try_from(part).unwrap_or(u32::MAX), len: 0 }
}

fn data() -> Header {
    Header { len: u32::try_from(FRAME_BYTES).unwrap_or(0), ..header(DATA, 0, 0) }
}

/// That the group cannot say how many machines it has.
pub(super) fn n_machines(machines: &[usize]) -> Result<usize> {
    let n_machines = machines.iter().max().map_or(0, |last| last + 1);
    if n_machines > machines.len() {
        return Err(Error::Internal("machines are numbered with gaps".to_owned()));
    }
    Ok(n_machines)
}
