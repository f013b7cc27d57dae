//! Who is at the rendezvous, who is let in, and when a group begins. No I/O.
//!
//! The first group has the workers with the numbers 0 to n - 1. A later one has the members of the last group that are
//! ready, in their old order, and behind them who has come since, in the order of the numbers that they wish. Servers that
//! are not needed wait. A book that follows another one, whose process was lost, expects the members of the last group: they
//! come, or are lost. Where some are missing that may be alive, the others go on if they are the part that does ([`majority`]).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::majority::{self, Gone};
use super::message::{Membership, Seat, Wanted};
use crate::server::sums::Mode;

/// A process, by its connection; in the order in which they came.
pub(super) type Id = u64;

/// Workers named in a message at most.
const NAMED_WORKERS: usize = 16;

/// The processes of a job that are there.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Of the last group.
    epoch: Option<u32>,
    /// Workers of the last group.
    n_workers: usize,
    entries: BTreeMap<Id, Entry>,
    /// Members of the last group that have not come here yet, by rank.
    expected: BTreeMap<usize, Seat>,
    /// The same of those that are not waited for, and may be alive.
    missing: BTreeMap<usize, Missing>,
    /// The worker that was lost last, since the last group began.
    lost: Option<String>,
    /// Whether a worker of the last group has left since that began.
    has_left: bool,
}

#[derive(Debug)]
struct Entry {
    seat: Seat,
    /// In the last group.
    rank: Option<usize>,
    /// Whether it is ready for the next one.
    wanted: Option<Wanted>,
}

#[derive(Debug)]
struct Missing {
    seat: Seat,
    /// It is still looked whether it is dead.
    is_open: bool,
}

/// A group that begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Formed {
    pub(super) epoch: u32,
    pub(super) n_workers: usize,
    /// By rank.
    pub(super) members: Vec<(Id, Seat)>,
}

impl Book {
    /// One that goes on after this group.
    pub(super) fn after(last: &Membership) -> Self {
        let expected = last.seats.iter().cloned().enumerate().collect();
        Self { epoch: Some(last.epoch), n_workers: last.n_workers, expected, ..Self::default() }
    }

    /// A process comes, which was in a group of this epoch last. Its rank, if it is a member that was expected.
    ///
    /// # Errors
    /// Why it cannot be let in.
    pub(super) fn admit(&mut self, id: Id, seat: Seat, epoch: Option<u32>) -> Result<Option<usize>, String> {
        if self.epoch.is_none() {
            self.check_first(&seat)?;
        }
        self.check_mode(&seat)?;
        let rank = self.expected.iter().find(|(_, one)| one.is_same_process(&seat)).map(|(rank, _)| *rank);
        if let Some(rank) = rank {
            self.expected.remove(&rank);
        }
        // It is nowhere else.
        self.missing.retain(|_, missing| !missing.seat.is_same_process(&seat));
        // Who was told of a group by the root that is lost knows of a later one than who was not.
        self.epoch = self.epoch.max(epoch.filter(|_| self.epoch.is_some()));
        self.entries.insert(id, Entry { seat, rank, wanted: None });
        Ok(rank)
    }

    /// Members that have not come yet.
    pub(super) fn expected(&self) -> impl Iterator<Item = (usize, &Seat)> {
        self.expected.iter().map(|(rank, seat)| (*rank, seat))
    }

    /// A member of the last group is not waited for any more, until it is known what has become of it; who it was, if it was one.
    pub(super) fn doubt(&mut self, rank: usize) -> Option<&Seat> {
        let here = self.of_rank(rank).and_then(|id| self.entries.remove(&id)).map(|entry| entry.seat);
        let seat = here.or_else(|| self.expected.remove(&rank))?;
        self.note_lost(&seat);
        Some(&self.missing.entry(rank).or_insert(Missing { seat, is_open: true }).seat)
    }

    /// What has become of a member that is not here.
    pub(super) fn decide(&mut self, rank: usize, gone: Gone) {
        self.doubt(rank);
        match gone {
            Gone::Dead => drop(self.missing.remove(&rank)),
            Gone::Missing => {
                if let Some(missing) = self.missing.get_mut(&rank) {
                    missing.is_open = false;
                }
            }
        }
    }

    fn note_lost(&mut self, seat: &Seat) {
        if seat.worker.is_some() {
            self.lost = Some(seat.to_string());
        }
    }

    /// A process wants to be in the next group.
    pub(super) fn ready(&mut self, id: Id, wanted: Wanted) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.wanted = Some(wanted);
        }
    }

    /// A process has gone: it has left, or died.
    pub(super) fn remove(&mut self, id: Id, has_died: bool) {
        let Some(entry) = self.entries.remove(&id) else { return };
        if has_died {
            self.note_lost(&entry.seat);
        } else {
            self.has_left |= entry.rank.is_some() && entry.seat.worker.is_some();
        }
    }

    /// Whether the job seems to end: a worker has left, and nobody waits for another group. Who comes then for the first time
    /// comes for the next job.
    pub(super) fn is_ending(&self) -> bool {
        self.has_left && self.entries.values().all(|entry| entry.wanted.is_none())
    }

    /// The rank that a process had in the last group.
    pub(super) fn rank(&self, id: Id) -> Option<usize> {
        self.entries.get(&id)?.rank
    }

    /// Where a process would give the rendezvous, or does.
    pub(super) fn door(&self, id: Id) -> Option<SocketAddr> {
        self.entries.get(&id)?.seat.door
    }

    /// Members of the last group that are here, and not ready for the next one.
    pub(super) fn not_ready_members(&self) -> Vec<(usize, Seat)> {
        let waits = self.entries.values().filter(|entry| entry.wanted.is_none());
        waits.filter_map(|entry| Some((entry.rank?, entry.seat.clone()))).collect()
    }

    /// Whether a process waits for the next group.
    pub(super) fn is_waiting(&self, id: Id) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.wanted.is_some())
    }

    /// Who had a rank in the last group.
    pub(super) fn of_rank(&self, rank: usize) -> Option<Id> {
        self.entries.iter().find(|(_, entry)| entry.rank == Some(rank)).map(|(id, _)| *id)
    }

    /// Workers that wait for a group.
    pub(super) fn waiting_workers(&self) -> Vec<Id> {
        let waits = |entry: &Entry| entry.seat.worker.is_some() && entry.wanted.is_some();
        self.entries.iter().filter(|(_, entry)| waits(entry)).map(|(id, _)| *id).collect()
    }

    /// Whether all workers have gone, after there was a group; with it, the one that was lost last.
    pub(super) fn is_over(&self) -> Option<Option<String>> {
        let seats = self.entries.values().map(|entry| &entry.seat).chain(self.expected.values());
        let is_over = self.epoch.is_some() && seats.into_iter().all(|seat| seat.worker.is_none());
        is_over.then(|| self.lost.clone())
    }

    /// Workers that only wanted other servers, while somebody was lost, or who went on after that loss: they are to know of
    /// it before the next group.
    pub(super) fn overruled(&mut self) -> Vec<Id> {
        let expected = self.expected.values().filter(|seat| seat.worker.is_some()).count();
        let n_left = self.members(true).count() + expected;
        let deciders = self.deciders();
        let wanted = |id: &Id| self.entries.get(id).and_then(|entry| entry.wanted);
        let is_after_loss = deciders.iter().filter_map(wanted).any(|wanted| !wanted.takes_fewer);
        let is_overruled = |wanted: Wanted| {
            wanted.takes_fewer
                && (is_after_loss || wanted.n_workers.is_some_and(|n_workers| n_workers > n_left))
        };
        let overruled: Vec<Id> =
            deciders.iter().copied().filter(|id| wanted(id).is_some_and(is_overruled)).collect();
        for id in &overruled {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.wanted = None;
            }
        }
        overruled
    }

    /// The next group, once all that it needs are ready; or why there will be none.
    pub(super) fn form(&mut self) -> Result<Option<Formed>, String> {
        let Some((wanted, n_workers, n_servers)) = self.wanted()? else { return Ok(None) };
        if let Some(lost) = self.lost.as_ref().filter(|_| self.epoch.is_some() && !self.goes_on()) {
            return Err(format!(
                "{lost} is lost, and a loss ends this job: set RSUM_ON_LOSS=continue to go on after one"
            ));
        }
        let mut workers = self.deciders();
        if workers.len() > n_workers {
            let n_ready = workers.len();
            return Err(format!("{n_ready} workers want to be in a group of {n_workers}"));
        }
        workers.extend(self.newcomers().into_iter().take(n_workers - workers.len()));
        let mut servers = self.ready_servers(wanted.n_servers.is_none());
        if workers.len() < n_workers || servers.len() < n_servers {
            return Ok(None);
        }
        if let Some(why) = self.is_minority() {
            // Others may still come, or be known to be dead.
            let is_open = !self.expected.is_empty() || self.missing.values().any(|missing| missing.is_open);
            return if is_open { Ok(None) } else { Err(why) };
        }
        servers.truncate(n_servers);
        let ids: Vec<Id> = workers.into_iter().chain(servers).collect();
        Ok(Some(self.begin(n_workers, &ids)))
    }

    /// Who is missing for the next group, in words.
    pub(super) fn missing(&self) -> String {
        let Ok(Some((_, n_workers, n_servers))) = self.wanted() else { return self.not_ready() };
        let numbers: Vec<usize> = self.workers().filter_map(|(_, entry)| entry.seat.worker).collect();
        let missing = (0..n_workers).filter(|number| self.epoch.is_none() && !numbers.contains(number));
        let missing: Vec<String> = missing.take(NAMED_WORKERS).map(|number| number.to_string()).collect();
        let n_ready = self.deciders().len() + self.newcomers().len();
        let n_ready_servers = self.ready_servers(false).len().min(n_servers);
        let named = if missing.is_empty() {
            String::new()
        } else {
            format!("worker {} is missing; ", missing.join(", "))
        };
        format!(
            "{named}{n_ready} of {n_workers} workers and {n_ready_servers} of {n_servers} servers are there"
        )
    }

    /// Workers of the last group that are waited for, in words.
    fn not_ready(&self) -> String {
        let here =
            self.members(true).filter(|(_, entry)| entry.wanted.is_none()).map(|(_, entry)| &entry.seat);
        let seats = here.chain(self.expected.values().filter(|seat| seat.worker.is_some()));
        let names: Vec<String> = seats.take(NAMED_WORKERS).map(ToString::to_string).collect();
        match names.as_slice() {
            [] => "nobody is ready".to_owned(),
            names => format!("not ready for the next group (rsum_resume): {}", names.join(", ")),
        }
    }

    /// Whether a loss is not the end of the job.
    fn goes_on(&self) -> bool {
        self.workers().all(|(_, entry)| entry.seat.continues)
    }

    /// Why those that are here do not go on without the members that may be alive elsewhere, if they do not.
    fn is_minority(&self) -> Option<String> {
        let here: Vec<usize> = self.entries.values().filter_map(|entry| entry.rank).collect();
        let away: Vec<usize> = self.missing.keys().chain(self.expected.keys()).copied().collect();
        if away.is_empty() || majority::goes_on(&here, &away, self.n_workers) {
            return None;
        }
        let seats = self.missing.values().map(|missing| &missing.seat).chain(self.expected.values());
        let names: Vec<String> = seats.take(NAMED_WORKERS).map(ToString::to_string).collect();
        Some(format!(
            "{} of the {} members that are left of the last group are here, and it is not known that the others are dead: {}; they \
             may go on, so these do not",
            here.len(),
            here.len() + away.len(),
            names.join(", ")
        ))
    }

    fn check_first(&self, seat: &Seat) -> Result<(), String> {
        let told = |seat: &Seat| (seat.n_workers, seat.n_servers.unwrap_or(0));
        for other in self.workers().map(|(_, entry)| &entry.seat) {
            if seat.worker.is_some() && seat.worker == other.worker {
                return Err(format!(
                    "{seat} calls itself as {other} does: give each worker its own RSUM_RANK"
                ));
            }
            let differs = match seat.worker {
                Some(_) => told(seat) != told(other) || seat.continues != other.continues,
                None => {
                    seat.n_workers.is_some_and(|n_workers| Some(n_workers) != other.n_workers)
                        || seat.n_servers.is_some_and(|n_servers| n_servers != told(other).1)
                }
            };
            if differs {
                let text = [seat, other].map(words);
                return Err(format!(
                    "{seat} was told {}, {other} {}: RSUM_WORKERS, RSUM_SERVERS and RSUM_ON_LOSS must be the same",
                    text[0], text[1]
                ));
            }
        }
        Ok(())
    }

    /// Processes that come later are to do the same as those that are there.
    fn check_mode(&self, seat: &Seat) -> Result<(), String> {
        let Some(mode) = seat.mode else { return Ok(()) };
        let differs = |other: &&Entry| other.seat.mode.is_some_and(|other| other != mode);
        let Some(other) = self.entries.values().find(differs).map(|entry| &entry.seat) else { return Ok(()) };
        let [here, there] = [mode, other.mode.unwrap_or_default()].map(mode_words);
        Err(format!(
            "{seat} is set to {here}, {other} to {there}: RSUM_ASYNC and RSUM_STALENESS must be the same"
        ))
    }

    /// The group that is wanted, if anybody who decides is ready, with the numbers that this comes to.
    fn wanted(&self) -> Result<Option<(Wanted, usize, usize)>, String> {
        let expected =
            |workers: bool| self.expected.values().filter(|seat| seat.worker.is_some() == workers).count();
        let n_left = self.members(true).count() + expected(true);
        let k_left = self.members(false).count() + expected(false);
        let servers = self.entries.values().filter(|entry| entry.seat.worker.is_none());
        let k_there = servers.count() + expected(false);
        let deciders = self.deciders();
        let sizes = |id: &Id| {
            let entry = self.entries.get(id)?;
            let wanted = entry.wanted?;
            let n_servers = wanted.n_servers.unwrap_or(k_left);
            let n_servers = if wanted.takes_fewer { n_servers.min(k_there) } else { n_servers };
            let sizes = (wanted.n_workers.unwrap_or(n_left), n_servers);
            Some((entry, wanted, sizes))
        };
        let Some((first, wanted, (n_workers, n_servers))) = deciders.first().and_then(sizes) else {
            return Ok(None);
        };
        if let Some((other, _, (n, k))) =
            deciders.iter().filter_map(sizes).find(|(_, _, sizes)| *sizes != (n_workers, n_servers))
        {
            return Err(format!(
                "{} wants a group of {n_workers} workers and {n_servers} servers, {} one of {n} and {k}",
                first.seat, other.seat
            ));
        }
        // Where the rest goes on, it is not known who that is before all of it is ready.
        let is_whole = wanted.n_workers.is_some() || deciders.len() == n_left;
        Ok(is_whole.then_some((wanted, n_workers, n_servers)))
    }

    /// Those of the last group that are here, by their ranks.
    fn members(&self, workers: bool) -> impl Iterator<Item = (Id, &Entry)> {
        let mut members: Vec<(Id, &Entry)> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.rank.is_some() && entry.seat.worker.is_some() == workers)
            .map(|(id, entry)| (*id, entry))
            .collect();
        members.sort_by_key(|(_, entry)| entry.rank);
        members.into_iter()
    }

    fn workers(&self) -> impl Iterator<Item = (Id, &Entry)> {
        self.entries.iter().filter(|(_, entry)| entry.seat.worker.is_some()).map(|(id, entry)| (*id, entry))
    }

    /// Workers whose wish counts, in the order of their next numbers: of the last group, or all if there was none.
    fn deciders(&self) -> Vec<Id> {
        if self.epoch.is_none() {
            return self.unplaced_workers();
        }
        self.members(true).filter(|(_, entry)| entry.wanted.is_some()).map(|(id, _)| id).collect()
    }

    /// Workers that came after the last group began.
    fn newcomers(&self) -> Vec<Id> {
        if self.epoch.is_none() { Vec::new() } else { self.unplaced_workers() }
    }

    fn unplaced_workers(&self) -> Vec<Id> {
        let ready = |entry: &Entry| entry.rank.is_none() && entry.wanted.is_some();
        let mut workers: Vec<(Id, &Entry)> = self.workers().filter(|(_, entry)| ready(entry)).collect();
        workers.sort_by_key(|(_, entry)| entry.seat.worker);
        workers.into_iter().map(|(id, _)| id).collect()
    }

    /// Servers that are ready, those of the last group first, or alone.
    fn ready_servers(&self, members_alone: bool) -> Vec<Id> {
        let is_ready = |entry: &Entry| entry.wanted.is_some();
        let members = self.members(false).filter(|(_, entry)| is_ready(entry)).map(|(id, _)| id);
        let others = self.entries.iter().filter(|(_, entry)| {
            !members_alone && entry.seat.worker.is_none() && entry.rank.is_none() && is_ready(entry)
        });
        members.chain(others.map(|(id, _)| *id)).collect()
    }

    fn begin(&mut self, n_workers: usize, ids: &[Id]) -> Formed {
        self.has_left = false;
        let epoch = self.epoch.map_or(0, |epoch| epoch.saturating_add(1));
        (self.epoch, self.n_workers, self.lost) = (Some(epoch), n_workers, None);
        // Who comes later than this is new here.
        self.expected.clear();
        self.missing.clear();
        self.entries.values_mut().for_each(|entry| entry.rank = None);
        let mut members = Vec::new();
        for (rank, id) in ids.iter().enumerate() {
            if let Some(entry) = self.entries.get_mut(id) {
                (entry.rank, entry.wanted) = (Some(rank), None);
                members.push((*id, entry.seat.clone()));
            }
        }
        Formed { epoch, n_workers, members }
    }
}

/// What a process was told of the group.
fn words(seat: &Seat) -> String {
    let number = |number: Option<usize>| number.map_or("?".to_owned(), |number| number.to_string());
    let n_servers = if seat.worker.is_some() { Some(seat.n_servers.unwrap_or(0)) } else { seat.n_servers };
    let on_loss = match seat.worker {
        Some(_) if seat.continues => ", continue on a loss",
        _ => "",
    };
    format!("{} workers and {} servers{on_loss}", number(seat.n_workers), number(n_servers))
}

fn mode_words(mode: Mode) -> String {
    match mode {
        Mode::Rounds => "synchronous sums".to_owned(),
        Mode::Store { max_ahead: None } => "asynchronous sums".to_owned(),
        Mode::Store { max_ahead: Some(max) } => format!("asynchronous sums with a staleness of {max}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::nics::Nic;

    fn seat(worker: Option<usize>, n_workers: Option<usize>, n_servers: Option<usize>) -> Seat {
        let host = "host".to_owned();
        Seat {
            worker,
            n_workers,
            n_servers,
            host: host.clone(),
            host_id: host,
            pid: 7,
            nic: Nic::default(),
            continues: true,
            mode: None,
            door: None,
        }
    }

    fn worker(number: usize, n_workers: usize, n_servers: usize) -> Seat {
        seat(Some(number), Some(n_workers), Some(n_servers))
    }

    fn want(n_workers: usize, n_servers: usize) -> Wanted {
        Wanted { n_workers: Some(n_workers), n_servers: Some(n_servers), ..Wanted::default() }
    }

    /// Ids by rank, if a group begins.
    fn formed(book: &mut Book) -> Option<Vec<Id>> {
        book.form().unwrap().map(|formed| formed.members.into_iter().map(|(id, _)| id).collect())
    }

    /// Workers 2, 1, 0 have ids 1, 2, 3; servers 4 and 5.
    fn three_and_two() -> Book {
        let mut book = Book::default();
        for id in 1..4 {
            book.admit(id, worker(3 - usize::try_from(id).unwrap(), 3, 2), None).unwrap();
            book.ready(id, want(3, 2));
        }
        for id in 4..6 {
            assert_eq!(formed(&mut book), None);
            book.admit(id, seat(None, None, None), None).unwrap();
            book.ready(id, Wanted::default());
        }
        assert_eq!(formed(&mut book), Some(vec![3, 2, 1, 4, 5]));
        book
    }

    #[test]
    fn workers_have_the_ranks_that_they_wish() {
        let mut book = three_and_two();
        assert_eq!((book.form(), book.is_over()), (Ok(None), None));
    }

    #[test]
    fn who_does_not_fit_is_named() {
        let mut book = Book::default();
        book.admit(0, worker(0, 2, 1), None).unwrap();
        let refused = |book: &mut Book, seat| book.admit(1, seat, None).unwrap_err();
        assert_eq!(
            refused(&mut book, worker(0, 2, 1)),
            "worker 0 (host, process 7) calls itself as worker 0 (host, process 7) does: give each worker its own RSUM_RANK"
        );
        assert!(
            refused(&mut book, worker(1, 3, 1))
                .contains("worker 1 (host, process 7) was told 3 workers and 1 servers")
        );
        assert!(
            refused(&mut book, seat(None, None, Some(2)))
                .starts_with("a server (host, process 7) was told ? workers and 2")
        );
        book.admit(1, seat(None, None, Some(1)), None).unwrap();
        book.ready(0, want(2, 1));
        assert_eq!(book.missing(), "worker 1 is missing; 1 of 2 workers and 0 of 1 servers are there");
    }

    #[test]
    fn whoever_sums_otherwise_is_turned_away() {
        let with = |mode, seat| Seat { mode, ..seat };
        let store = Some(Mode::Store { max_ahead: Some(2) });
        let mut book = Book::default();
        book.admit(0, with(store, worker(0, 2, 1)), None).unwrap();
        book.admit(1, seat(None, None, None), None).unwrap();
        assert_eq!(
            book.admit(2, with(Some(Mode::Rounds), seat(None, None, None)), None).unwrap_err(),
            "a server (host, process 7) is set to synchronous sums, worker 0 (host, process 7) to asynchronous sums with a staleness of 2: RSUM_ASYNC and RSUM_STALENESS must be the same"
        );
        assert!(book.admit(2, with(Some(Mode::Store { max_ahead: None }), worker(1, 2, 1)), None).is_err());
        book.admit(2, with(store, worker(1, 2, 1)), None).unwrap();
    }

    #[test]
    fn the_rest_goes_on_in_its_old_order() {
        let mut book = three_and_two();
        book.remove(2, true);
        book.remove(4, true);
        for id in [1, 5] {
            book.ready(id, Wanted::default());
            assert_eq!(formed(&mut book), None);
        }
        book.ready(3, Wanted::default());
        assert_eq!(formed(&mut book), Some(vec![3, 1, 5]));
    }

    #[test]
    fn a_loss_between_two_groups_ends_a_job_that_does_not_go_on_after_one() {
        let mut book = three_and_two();
        book.entries.values_mut().for_each(|entry| entry.seat.continues = false);
        book.remove(4, true);
        [1, 2, 3, 5].iter().for_each(|id| book.ready(*id, Wanted::default()));
        assert_eq!(
            formed(&mut book),
            Some(vec![3, 2, 1, 5]),
            "a server that is lost between two groups ends nothing"
        );
        // Who leaves is not lost.
        book.remove(1, false);
        [2, 3, 5].iter().for_each(|id| book.ready(*id, Wanted::default()));
        assert_eq!(formed(&mut book), Some(vec![3, 2, 5]));
        book.remove(2, true);
        [3, 5].iter().for_each(|id| book.ready(*id, Wanted::default()));
        let why = book.form().unwrap_err();
        assert!(why.starts_with("worker 1 (host, process 7) is lost, and a loss ends this job"), "{why}");
    }

    #[test]
    fn servers_come_and_go() {
        let mut book = three_and_two();
        for (n_servers, members) in [(0, vec![3, 2, 1]), (1, vec![3, 2, 1, 4]), (2, vec![3, 2, 1, 4, 5])] {
            (1..4).for_each(|id| book.ready(id, want(3, n_servers)));
            (4..6).for_each(|id| book.ready(id, Wanted::default()));
            assert_eq!(formed(&mut book), Some(members));
        }
    }

    #[test]
    fn newcomers_stand_behind_and_who_is_left_out_waits() {
        let mut book = three_and_two();
        book.remove(3, false);
        book.admit(9, worker(0, 3, 0), None).unwrap();
        book.ready(9, want(3, 0));
        assert_eq!(formed(&mut book), None);
        (1..3).for_each(|id| book.ready(id, want(3, 0)));
        assert_eq!(formed(&mut book), Some(vec![2, 1, 9]));
        book.ready(2, want(1, 0));
        assert_eq!(formed(&mut book), Some(vec![2]));
    }

    #[test]
    fn who_takes_fewer_servers_does_not_wait_for_those_that_have_gone() {
        let mut book = three_and_two();
        (1..4).for_each(|id| book.ready(id, Wanted { takes_fewer: true, ..want(3, 2) }));
        book.ready(5, Wanted::default());
        assert_eq!((book.is_waiting(4), book.is_waiting(5), formed(&mut book)), (false, true, None));
        book.remove(4, true);
        assert_eq!(formed(&mut book), Some(vec![3, 2, 1, 5]));
    }

    #[test]
    fn who_only_wanted_other_servers_hears_of_a_loss_first() {
        let fewer = Wanted { takes_fewer: true, ..want(3, 1) };
        let mut book = three_and_two();
        book.ready(1, fewer);
        assert_eq!(book.overruled(), Vec::<Id>::new());
        book.ready(2, Wanted::default());
        assert_eq!((book.overruled(), book.is_waiting(1), book.is_waiting(2)), (vec![1], false, true));
        let mut book = three_and_two();
        [1, 2].into_iter().for_each(|id| book.ready(id, fewer));
        book.remove(3, true);
        assert_eq!(book.overruled(), [2, 1]);
    }

    #[test]
    fn wishes_that_differ_make_no_group() {
        let mut book = three_and_two();
        book.ready(1, want(2, 0));
        book.ready(2, want(2, 1));
        assert!(book.form().unwrap_err().contains("one of 2 and 0"));
        (1..4).for_each(|id| book.ready(id, want(2, 0)));
        assert_eq!(book.form(), Err("3 workers want to be in a group of 2".to_owned()));
    }

    /// A book after the loss of the one above, whose rank 0 gave the rendezvous. Doors are by id.
    fn after() -> Book {
        let with_door = |door: u16, seat| Seat { door: Some(([127, 0, 0, 1], door).into()), ..seat };
        let workers = [(3, 0), (2, 1), (1, 2)].map(|(id, number)| with_door(id, worker(number, 3, 2)));
        let servers = [4, 5].map(|id| with_door(id, seat(None, None, None)));
        let mut seats = Vec::from(workers);
        seats.extend(servers);
        let group =
            Membership { session: 7, epoch: 4, id: Vec::new(), rank: 1, n_workers: 3, seats, root: Some(0) };
        let mut book = Book::after(&group);
        book.decide(0, Gone::Dead);
        book
    }

    fn come(book: &mut Book, id: Id) -> Option<usize> {
        let seat = book.expected().find(|(_, seat)| u64::from(seat.door.unwrap().port()) == id);
        let seat = seat.map(|(_, seat)| seat.clone()).unwrap();
        let rank = book.admit(id, seat, Some(4)).unwrap();
        book.ready(id, Wanted::default());
        rank
    }

    #[test]
    fn after_the_loss_of_the_root_the_rest_is_waited_for() {
        let mut book = after();
        assert_eq!((come(&mut book, 1), formed(&mut book)), (Some(2), None));
        assert_eq!((come(&mut book, 4), formed(&mut book)), (Some(3), None));
        assert_eq!((come(&mut book, 2), formed(&mut book)), (Some(1), None), "a server may still come");
        book.decide(4, Gone::Dead);
        let formed = book.form().unwrap().unwrap();
        let ids: Vec<Id> = formed.members.iter().map(|(id, _)| *id).collect();
        assert_eq!((formed.epoch, formed.n_workers, ids), (5, 2, vec![2, 1, 4]));
    }

    #[test]
    fn who_knows_of_a_later_group_is_believed_and_who_is_unknown_is_new() {
        let mut book = after();
        book.admit(9, worker(7, 9, 9), Some(5)).unwrap();
        book.ready(9, want(2, 0));
        come(&mut book, 2);
        let missing = "not ready for the next group (rsum_resume): worker 2 (host, process 7)";
        assert_eq!(book.missing(), missing);
        book.ready(2, want(2, 0));
        assert_eq!(book.form(), Ok(None), "worker 2 may be elsewhere");
        book.decide(2, Gone::Dead);
        let formed = book.form().unwrap().unwrap();
        assert_eq!((formed.epoch, formed.members[1].0), (6, 9));
    }

    #[test]
    fn who_may_be_fewer_than_those_that_go_on_elsewhere_does_not_go_on() {
        // Of workers 1 and 2 and two servers one worker and a server are here, the rest is not reached.
        let mut book = after();
        [2, 4].into_iter().for_each(|id| assert!(come(&mut book, id).is_some()));
        assert_eq!(formed(&mut book), None, "they may still come");
        book.doubt(2);
        book.decide(4, Gone::Missing);
        assert_eq!(formed(&mut book), Some(vec![2, 4]), "as many, with the lowest rank");
        let mut book = after();
        [1, 4].into_iter().for_each(|id| assert!(come(&mut book, id).is_some()));
        book.doubt(1);
        book.decide(4, Gone::Missing);
        assert_eq!(formed(&mut book), None, "it may be dead");
        book.decide(1, Gone::Missing);
        let why = book.form().unwrap_err();
        assert!(why.starts_with("2 of the 4 members that are left of the last group are here"), "{why}");
        assert!(why.contains("worker 1 (host, process 7), a server"), "{why}");
        // It is heard after all that one of them is no more.
        book.decide(1, Gone::Dead);
        assert_eq!(formed(&mut book), Some(vec![1, 4]));
        // A silent member that comes is here; the next group has forgotten all that.
        book.ready(1, Wanted::default());
        book.doubt(1);
        book.admit(7, seat(None, None, None), Some(5)).unwrap();
        assert_eq!(formed(&mut book), Some(vec![1]), "servers alone go nowhere");
    }

    #[test]
    fn without_workers_it_is_over() {
        let mut book = three_and_two();
        (1..3).for_each(|id| book.remove(id, false));
        assert_eq!(book.is_over(), None);
        book.remove(3, true);
        assert_eq!(book.is_over(), Some(Some("worker 0 (host, process 7)".to_owned())));
    }
}
