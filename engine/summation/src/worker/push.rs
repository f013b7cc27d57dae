//! The push: which frame goes to which server next.

use super::error::Misreport;
use super::pipeline::Pipeline;
use super::queue::{Lane, Waiting};
use super::server::Server;
use super::stage::Stage;

/// A frame that is to go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// To which server.
    pub server: usize,
    /// Of which part.
    pub key: u32,
    /// Where in what is pushed of the part.
    pub offset: u64,
    /// Bytes, at least 1.
    pub len: u64,
}

/// What a server needs for its next frame.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// Its present part goes on.
    Continue,
    /// A part begins, which needs credits.
    Begin(Waiting),
}

impl Pipeline {
    /// The next frame to be sent, to one of the servers whose connection takes one (`writable`, by server; one that is
    /// missing there does not). The driver sends it to its end and reports that by [`Self::sent`], in one or more
    /// pieces; until then the server gets no other. A part is sent to its end before the next one of its server.
    ///
    /// A connection must not count as writable while much waits in its socket (`TCP_NOTSENT_LOWAT`): what was written
    /// there can no longer be overtaken.
    pub fn next_send(&mut self, writable: &[bool], now_ns: u64) -> Option<Send> {
        self.widen_if_stuck(now_ns);
        let takes = |server: &usize| writable.get(*server) == Some(&true);
        let turns: Vec<(usize, Turn)> = (0..self.servers.len())
            .filter(takes)
            .filter_map(|server| Some((server, self.turn(server)?)))
            .collect();
        self.note_lack_of_credits(now_ns);
        let server = self.choose(&turns)?;
        let turn = turns.iter().find(|turn| turn.0 == server)?.1;
        if let Turn::Begin(head) = turn {
            self.begin_push(server, head, now_ns);
        }
        let send = self.cut_frame(server)?;
        let in_proportion = self.settings.in_proportion;
        let weight = |server: usize| if in_proportion { self.servers[server].unsent_bytes.max(1) } else { 1 };
        let contenders: Vec<(usize, u64)> = turns.iter().map(|turn| (turn.0, weight(turn.0))).collect();
        self.interleave.charge(&contenders, server, send.len);
        let state = &mut self.servers[server];
        state.unsent_bytes -= send.len;
        state.with_driver_bytes = send.len;
        Some(send)
    }

    /// `bytes` of the frame that a server was to get are on their way.
    ///
    /// # Errors
    /// The part is not being sent to this server, or that is more than the frame has.
    pub fn sent(&mut self, server: usize, key: u32, bytes: u64, now_ns: u64) -> Result<(), Misreport> {
        self.check_server(server, key, Stage::Push)?;
        let state = &mut self.servers[server];
        let left = state.with_driver_bytes;
        if bytes > left {
            return Err(Misreport::TooMuch { key, stage: Stage::Push, bytes, left });
        }
        state.with_driver_bytes -= bytes;
        state.sent_bytes += bytes;
        self.moved_ns = now_ns;
        let Some(entry) = self.entries.get_mut(&key) else { return Err(Misreport::NotHere { key }) };
        entry.sent_bytes += bytes;
        if entry.sent_bytes == entry.push_bytes {
            state.current = None;
            self.leave(key, now_ns);
        }
        Ok(())
    }

    /// Bytes that go out at a stretch, at most.
    #[must_use]
    pub fn frame_bytes(&self) -> u64 {
        self.settings.frame_bytes.max(1)
    }

    /// When parts that wait for credits go out without, if nothing moves until then: who drives the pipeline looks again by
    /// then. Nothing if none waits.
    pub fn stuck_at_ns(&self) -> Option<u64> {
        let lanes = &self.queues[Stage::Push.index()].lanes;
        let waits =
            |(server, lane): (&Server, &Lane)| server.lacks_credits_since_ns.filter(|_| lane.len() > 0);
        let since_ns = self.servers.iter().zip(lanes).filter_map(waits).min()?;
        Some(since_ns.max(self.moved_ns).saturating_add(self.settings.patience_ns))
    }

    fn widen_if_stuck(&mut self, now_ns: u64) {
        if self.stuck_at_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            self.credits.widen();
            self.moved_ns = now_ns;
        }
    }

    /// What a server would do with a turn, if credits over all servers are left.
    fn turn(&self, server: usize) -> Option<Turn> {
        let state = &self.servers[server];
        if state.with_driver_bytes > 0 {
            return None;
        }
        if state.current.is_some() {
            return Some(Turn::Continue);
        }
        let lane = &self.queues[Stage::Push.index()].lanes[server];
        let head = lane.head(self.settings.overtake_bytes)?;
        self.credits.fits_server(server, head.priority, head.bytes).then_some(Turn::Begin(head))
    }

    /// Of all that need new credits only the one whose turn it is may have them, so that it gets them in the end.
    fn choose(&self, turns: &[(usize, Turn)]) -> Option<usize> {
        let beginning = turns.iter().filter(|turn| matches!(turn.1, Turn::Begin(_)));
        let first = self.interleave.pick(beginning.map(|turn| turn.0));
        let may = |turn: &&(usize, Turn)| match turn.1 {
            Turn::Continue => true,
            Turn::Begin(head) => first == Some(turn.0) && self.credits.fits_in_all(head.priority, head.bytes),
        };
        self.interleave.pick(turns.iter().filter(may).map(|turn| turn.0))
    }

    fn begin_push(&mut self, server: usize, head: Waiting, now_ns: u64) {
        let lane = &mut self.queues[Stage::Push.index()].lanes[server];
        lane.remove(head);
        lane.let_pass(head);
        self.credits.take(server, head.priority, head.bytes);
        self.servers[server].current = Some(head.key);
        if let Some(since_ns) = self.servers[server].lacks_credits_since_ns.take() {
            self.credits_waited_ns += now_ns.saturating_sub(since_ns);
        }
        self.begin(head.key, now_ns);
    }

    fn note_lack_of_credits(&mut self, now_ns: u64) {
        let overtake_bytes = self.settings.overtake_bytes;
        let lanes = self.queues[Stage::Push.index()].lanes.iter().enumerate();
        for (server, lane) in lanes {
            let state = &mut self.servers[server];
            let lacks = |head: Waiting| {
                let (priority, bytes) = (head.priority, head.bytes);
                !self.credits.fits_server(server, priority, bytes)
                    || !self.credits.fits_in_all(priority, bytes)
            };
            let waits = state.current.is_none() && state.lacks_credits_since_ns.is_none();
            if waits && lane.head(overtake_bytes).is_some_and(lacks) {
                state.lacks_credits_since_ns = Some(now_ns);
            }
        }
    }

    fn cut_frame(&mut self, server: usize) -> Option<Send> {
        let key = self.servers[server].current?;
        let entry = self.entries.get_mut(&key)?;
        let offset = entry.given_bytes;
        let len = (entry.push_bytes - offset).min(self.settings.frame_bytes.max(1));
        entry.given_bytes += len;
        Some(Send { server, key, offset, len })
    }
}
