//! Which server of a pool serves which job. No I/O.
//!
//! Servers are dealt to jobs one by one, each to the job that has the fewest and wants more; a job whose share an operator has
//! said gets that first. So shares differ by one at most between jobs that want as many.
//!
//! A job that comes says how many servers it sums with, which may be known here before they have come themselves: after a
//! restart of the broker all come one by one, and a line may break while the server sums on. So for a while a job is
//! believed, and the servers that it has count as if they were here: nothing is taken from it, and it is told of no fewer.
//! A server that was in a group before the job said that it has fewer, and says nothing since, has stopped: it counts no more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::message::{At, JobId, Lending, ListedJob, Listing, Order};

/// A caller, by its connection; in the order in which they came.
pub(super) type Id = u64;

/// How long a job is believed about servers that are not here. They call again every second, and a call takes 5 s at most.
pub(super) const BELIEF: Duration = Duration::from_secs(10);
/// Jobs of which it is kept what an operator has said, at most; those that are here are never forgotten.
const MAX_PINS: usize = 1000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Book {
    servers: BTreeMap<Id, Server>,
    jobs: BTreeMap<JobId, Job>,
    /// What operators have said, also of jobs whose next worker 0 has not called yet.
    pins: BTreeMap<JobId, Option<usize>>,
}

#[derive(Debug)]
struct Server {
    name: String,
    job: Option<JobId>,
    at: At,
    /// When it said so.
    since: Instant,
    /// It is asked to leave, and has not answered.
    is_asked: bool,
}

#[derive(Debug)]
struct Job {
    line: Id,
    roots: Vec<String>,
    most: usize,
    has: usize,
    /// Since when.
    said: Instant,
    /// Until when it is believed.
    believed: Instant,
    told: Option<Lending>,
}

/// What is to be said to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Say {
    /// To a server.
    Order(Order),
    /// To a job.
    Servers(Lending),
}

/// What a job says of itself.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// Where its processes meet.
    pub(super) roots: Vec<String>,
    /// Servers that it wants at most.
    pub(super) most: usize,
    /// Servers that it has.
    pub(super) has: usize,
    /// What an operator has said to a broker before.
    pub(super) pinned: Option<usize>,
}

impl Book {
    /// A server comes, which may serve a job already.
    pub(super) fn server(&mut self, id: Id, name: String, (at, job): (At, Option<JobId>), now: Instant) {
        self.servers.insert(id, Server { name, job, at, since: now, is_asked: false });
    }

    /// A job comes, or comes again by another line. What was said here is newer than what the job knows of that.
    pub(super) fn job(&mut self, line: Id, id: JobId, claim: Claim, now: Instant) {
        let Claim { roots, most, has, pinned } = claim;
        self.pins.entry(id.clone()).or_insert(pinned);
        self.jobs.insert(id, Job { line, roots, most, has, said: now, believed: now + BELIEF, told: None });
        while self.pins.len() > MAX_PINS {
            let Some(gone) = self.pins.keys().find(|id| !self.jobs.contains_key(id)).cloned() else { break };
            self.pins.remove(&gone);
        }
    }

    /// A line has ended. A server may sum on without it, and call again.
    pub(super) fn remove(&mut self, line: Id, now: Instant) {
        let of = self.servers.remove(&line).and_then(|server| server.job);
        if let Some(job) = of.and_then(|job| self.jobs.get_mut(&job)) {
            job.believed = now + BELIEF;
        }
        self.jobs.retain(|_, job| job.line != line);
    }

    /// A server says what it is at.
    pub(super) fn at(&mut self, id: Id, at: At, job: Option<JobId>, now: Instant) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        if at == At::Free && job != server.job {
            // It has left a job before it heard that it is lent to the next one.
            return;
        }
        server.job = job.filter(|_| at != At::Free);
        (server.at, server.since, server.is_asked) = (at, now, false);
    }

    /// A job says how many servers its group has, and is told again how many there are.
    pub(super) fn has(&mut self, line: Id, servers: usize, now: Instant) {
        for job in self.jobs.values_mut().filter(|job| job.line == line) {
            if job.has != servers {
                job.said = now;
            }
            (job.has, job.told) = (servers, None);
        }
    }

    /// A job is to have so many servers.
    ///
    /// # Errors
    /// There is no such job, or there are several, or it wants fewer.
    pub(super) fn lend(&mut self, name: &str, servers: Option<usize>) -> Result<(), String> {
        let id = self.find(name)?;
        let most = self.jobs.get(&id).map_or(0, |job| job.most);
        if let Some(servers) = servers.filter(|servers| *servers > most) {
            return Err(format!("job {name:?} takes {most} servers at most (RSUM_SERVERS), not {servers}"));
        }
        self.pins.insert(id, servers);
        Ok(())
    }

    /// What is to be said now.
    pub(super) fn orders(&mut self, now: Instant) -> Vec<(Id, Say)> {
        let shares = self.shares(now);
        let mut says = Vec::new();
        for (id, share) in &shares {
            let (lent, pinned) = (self.of_job(id).collect(), self.pinned(id));
            let (unseen, stopped) = (self.unseen(id, now), self.stopped(id, now));
            let here = self.at_job(id).count() - stopped;
            let Some(job) = self.jobs.get_mut(id) else { continue };
            let lending = Lending { there: (here + unseen).min(*share), pinned };
            if job.told != Some(lending) {
                job.told = Some(lending);
                says.push((job.line, Say::Servers(lending)));
            }
            if job.has <= *share {
                says.extend(self.take_back(&lent, (*share + stopped).saturating_sub(unseen)));
            }
        }
        for (id, share) in shares {
            let (unseen, stopped) = (self.unseen(&id, now), self.stopped(&id, now));
            says.extend(self.hand_out(&id, (share + stopped).saturating_sub(unseen)));
        }
        says
    }

    /// All that there is.
    pub(super) fn listing(&self, now: Instant) -> Listing {
        let shares = self.shares(now);
        let job = |(id, job): (&JobId, &Job)| ListedJob {
            name: self.label(id),
            most: job.most,
            share: shares.get(id).copied().unwrap_or(0),
            lent: self.of_job(id).count(),
            has: job.has,
            pinned: self.pinned(id).is_some(),
        };
        let server = |server: &Server| (server.name.clone(), server.job.as_ref().map(|job| self.label(job)));
        Listing {
            jobs: self.jobs.iter().map(job).collect(),
            servers: self.servers.values().map(server).collect(),
        }
    }

    /// The job that an operator means.
    fn find(&self, name: &str) -> Result<JobId, String> {
        let is_meant = |id: &&JobId| id.name == name || id.to_string() == name;
        let meant: Vec<&JobId> = self.jobs.keys().filter(is_meant).collect();
        let list = |ids: Vec<String>| ids.join(", ");
        match meant.as_slice() {
            [id] => Ok((*id).clone()),
            [] => {
                let there = list(self.jobs.keys().map(|id| self.label(id)).collect());
                let there = if there.is_empty() { "no job".to_owned() } else { there };
                Err(format!("there is no job {name:?} at this pool; there is: {there}"))
            }
            several => {
                let several = list(several.iter().map(ToString::to_string).collect());
                Err(format!("there are several jobs {name:?}: say which, of {several}"))
            }
        }
    }

    /// A job's name, with what tells it from others of that name.
    fn label(&self, id: &JobId) -> String {
        let known = self.jobs.keys().chain(self.servers.values().filter_map(|server| server.job.as_ref()));
        let is_alone = known.filter(|other| other.name == id.name).all(|other| other == id);
        if is_alone { id.name.clone() } else { id.to_string() }
    }

    fn pinned(&self, id: &JobId) -> Option<usize> {
        self.pins.get(id).copied().flatten()
    }

    fn of_job(&self, id: &JobId) -> impl Iterator<Item = Id> {
        let of_it = |server: &Server| server.job.as_ref() == Some(id);
        self.servers.iter().filter(move |(_, server)| of_it(server)).map(|(id, _)| *id)
    }

    /// Servers that wait for the job, or sum with it.
    fn at_job(&self, id: &JobId) -> impl Iterator<Item = Id> {
        let is_there =
            |id: &Id| self.servers.get(id).is_some_and(|server| matches!(server.at, At::Waiting | At::Group));
        self.of_job(id).filter(is_there)
    }

    /// Servers that the job says it sums with, and that are not here, as long as it is believed.
    fn unseen(&self, id: &JobId, now: Instant) -> usize {
        let believed = self.jobs.get(id).filter(|job| now < job.believed);
        believed.map_or(0, |job| job.has.saturating_sub(self.at_job(id).count()))
    }

    /// Servers that say that they are in the job's group, and are not.
    fn stopped(&self, id: &JobId, now: Instant) -> usize {
        let Some(job) = self.jobs.get(id).filter(|job| now >= job.said + BELIEF) else { return 0 };
        let in_group = |server: &&Server| server.job.as_ref() == Some(id) && server.at == At::Group;
        let servers: Vec<&Server> = self.servers.values().filter(in_group).collect();
        let n_silent = servers.iter().filter(|server| server.since < job.said).count();
        servers.len().saturating_sub(job.has).min(n_silent)
    }

    /// Servers that each job is to have.
    fn shares(&self, now: Instant) -> BTreeMap<JobId, usize> {
        // A server of a job that has no line here is nobody's to give.
        let is_ours = |server: &&Server| server.job.as_ref().is_none_or(|job| self.jobs.contains_key(job));
        let mut left = self.servers.values().filter(is_ours).count();
        left += self.jobs.keys().map(|id| self.unseen(id, now)).sum::<usize>();
        left -= self.jobs.keys().map(|id| self.stopped(id, now)).sum::<usize>();
        let mut shares = BTreeMap::new();
        for id in self.jobs.keys() {
            let share = self.pinned(id).unwrap_or(0).min(left);
            left -= share;
            shares.insert(id.clone(), share);
        }
        while left > 0 {
            let wants =
                self.jobs.iter().filter(|(id, job)| self.pinned(id).is_none() && shares[*id] < job.most);
            let Some((id, _)) = wants.min_by_key(|(id, _)| shares[*id]) else { break };
            let Some(share) = shares.get_mut(id) else { break };
            *share += 1;
            left -= 1;
        }
        shares
    }

    /// Those that are too many leave, if they sum nothing: the job has its smaller group already.
    fn take_back(&mut self, lent: &BTreeSet<Id>, share: usize) -> Vec<(Id, Say)> {
        let asked =
            lent.iter().filter(|id| self.servers.get(id).is_some_and(|server| server.is_asked)).count();
        let too_many = lent.len().saturating_sub(share).saturating_sub(asked);
        let mut says = Vec::new();
        for id in lent.iter().rev() {
            let Some(server) = self.servers.get_mut(id) else { continue };
            if says.len() < too_many && server.at == At::Waiting && !server.is_asked {
                server.is_asked = true;
                says.push((*id, Say::Order(Order::Release)));
            }
        }
        says
    }

    fn hand_out(&mut self, job: &JobId, share: usize) -> Vec<(Id, Say)> {
        let missing = share.saturating_sub(self.of_job(job).count());
        let Some(roots) = self.jobs.get(job).map(|job| job.roots.clone()) else { return Vec::new() };
        let free = self.servers.iter_mut().filter(|(_, server)| server.job.is_none());
        let mut says = Vec::new();
        for (id, server) in free.take(missing) {
            (server.job, server.at) = (Some(job.clone()), At::Called);
            let serve = Order::Serve { job: job.clone(), roots: roots.clone() };
            says.push((*id, Say::Order(serve)));
        }
        says
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsccl_collective::clock;

    fn id(name: &str, session: u64) -> JobId {
        JobId { name: name.to_owned(), session }
    }

    fn claim(name: &str, most: usize, has: usize, pinned: Option<usize>) -> Claim {
        Claim { roots: vec![format!("{name}:1")], most, has, pinned }
    }

    /// A book, and the moment that it is there.
    struct Desk {
        book: Book,
        now: Instant,
    }

    impl Desk {
        fn new() -> Self {
            Self { book: Book::default(), now: clock::now() }
        }

        fn job(&mut self, line: Id, name: &str, most: usize, has: usize, pinned: Option<usize>) {
            self.book.job(line, id(name, 1), claim(name, most, has, pinned), self.now);
        }

        /// A server that serves that job already.
        fn serves(&mut self, server: Id, at: At, name: &str) {
            let who = format!("server {server}");
            self.book.server(server, who, (at, Some(id(name, 1))), self.now);
        }

        fn free(&mut self, servers: impl IntoIterator<Item = Id>) {
            for server in servers {
                self.book.server(server, format!("server {server}"), (At::Free, None), self.now);
            }
        }

        fn at(&mut self, servers: impl IntoIterator<Item = Id>, at: At, name: &str) {
            servers.into_iter().for_each(|server| self.book.at(server, at, Some(id(name, 1)), self.now));
        }

        /// Job a says so, a moment later.
        fn has(&mut self, servers: usize) {
            self.now += Duration::from_millis(1);
            self.book.has(101, servers, self.now);
        }

        fn orders(&mut self) -> Vec<(Id, Say)> {
            self.book.orders(self.now)
        }

        fn shares(&self) -> Vec<usize> {
            self.book.shares(self.now).into_values().collect()
        }
    }

    /// A pool of servers 1, 2, … and of jobs a, b, … with lines 101, 102, …, which take so many.
    fn pool(servers: u64, most: &[usize]) -> Desk {
        let mut desk = Desk::new();
        desk.free(1..=servers);
        for ((line, name), most) in (101..).zip(["a", "b", "c"]).zip(most) {
            desk.job(line, name, *most, 0, None);
        }
        desk
    }

    fn serve(name: &str) -> Say {
        Say::Order(Order::Serve { job: id(name, 1), roots: vec![format!("{name}:1")] })
    }

    fn told(there: usize) -> Say {
        Say::Servers(Lending { there, pinned: None })
    }

    fn pinned(there: usize, pinned: usize) -> Say {
        Say::Servers(Lending { there, pinned: Some(pinned) })
    }

    const RELEASE: Say = Say::Order(Order::Release);

    #[test]
    fn servers_are_dealt_evenly_to_jobs_that_want_them() {
        let shares = |servers, most: &[usize]| pool(servers, most).shares();
        assert_eq!(shares(5, &[4, 4, 1]), [2, 2, 1]);
        assert_eq!(shares(9, &[4, 4, 1]), [4, 4, 1]);
        assert_eq!((shares(1, &[2, 2]), shares(0, &[2])), (vec![1, 0], vec![0]));
    }

    #[test]
    fn a_job_is_told_of_servers_that_wait_for_it() {
        let mut desk = pool(2, &[2]);
        assert_eq!(desk.orders(), [(101, told(0)), (1, serve("a")), (2, serve("a"))]);
        assert_eq!(desk.orders(), []);
        desk.at([2], At::Waiting, "a");
        assert_eq!(desk.orders(), [(101, told(1))]);
    }

    #[test]
    fn a_server_that_was_free_before_it_heard_that_it_is_lent_stays_lent() {
        let mut desk = pool(1, &[1, 1]);
        assert_eq!(desk.orders(), [(101, told(0)), (102, told(0)), (1, serve("a"))]);
        // Said of no job, or of one that it served before: both were on their way when it was lent.
        desk.book.at(1, At::Free, None, desk.now);
        desk.book.at(1, At::Free, Some(id("old", 9)), desk.now);
        assert_eq!((desk.orders(), desk.book.of_job(&id("a", 1)).count()), (vec![], 1));
        desk.at([1], At::Waiting, "a");
        assert_eq!(desk.orders(), [(101, told(1))]);
        desk.at([1], At::Free, "a");
        assert_eq!(desk.book.of_job(&id("a", 1)).count(), 0);
        // What it serves it knows best.
        desk.at([1], At::Group, "b");
        assert_eq!(desk.book.of_job(&id("b", 1)).count(), 1);
    }

    #[test]
    fn what_an_operator_takes_is_asked_for_once_the_job_sums_without_it() {
        let mut desk = pool(2, &[2, 2]);
        desk.book.lend("a", Some(2)).unwrap();
        desk.orders();
        desk.at([1, 2], At::Waiting, "a");
        assert_eq!(desk.orders(), [(101, pinned(2, 2))]);
        desk.at([1, 2], At::Group, "a");
        desk.has(2);
        desk.book.lend("a", Some(1)).unwrap();
        assert_eq!(desk.orders(), [(101, pinned(1, 1))], "it still sums with both");
        // Between two groups both wait; the old number holds until the job says another one.
        desk.at([1, 2], At::Waiting, "a");
        assert_eq!(desk.orders(), []);
        desk.has(1);
        assert_eq!(desk.orders(), [(101, pinned(1, 1)), (2, RELEASE)]);
        // It had begun to sum again just then: the other one is asked.
        desk.at([2], At::Group, "a");
        assert_eq!(desk.orders(), [(1, RELEASE)]);
        desk.at([1], At::Free, "a");
        assert_eq!(desk.orders(), [(1, serve("b"))]);
    }

    #[test]
    fn lines_that_end_take_their_servers_and_jobs_along() {
        let mut desk = pool(2, &[1]);
        desk.orders();
        desk.at([1], At::Waiting, "a");
        desk.orders();
        desk.book.remove(1, desk.now);
        assert_eq!(desk.orders(), [(101, told(0)), (2, serve("a"))]);
        desk.book.remove(101, desk.now);
        assert_eq!((desk.orders(), desk.shares().len()), (vec![], 0));
        desk.at([2], At::Free, "a");
        desk.job(7, "b", 1, 0, None);
        assert_eq!(desk.orders(), [(7, told(0)), (2, serve("b"))]);
    }

    #[test]
    fn a_job_that_comes_before_its_servers_is_believed_for_a_while() {
        // As after a restart of the broker: two jobs with two servers each call again, in any order.
        let mut desk = Desk::new();
        desk.job(1, "a", 4, 2, None);
        assert_eq!(desk.orders(), [(1, told(2))]);
        desk.serves(2, At::Group, "a");
        desk.serves(3, At::Group, "b");
        desk.job(4, "b", 4, 2, None);
        assert_eq!(desk.orders(), [(4, told(2))]);
        // One that is free goes to nobody in place of those.
        desk.free([5]);
        assert_eq!(desk.orders(), [(5, serve("a"))]);
        desk.serves(6, At::Group, "b");
        desk.serves(7, At::Group, "a");
        assert_eq!((desk.orders(), desk.shares()), (vec![], vec![3, 2]));
        // Who has not come until then is gone.
        desk.book.remove(7, desk.now);
        assert_eq!((desk.orders(), desk.shares()), (vec![], vec![3, 2]));
        desk.now += BELIEF;
        assert_eq!((desk.orders(), desk.shares()), (vec![(1, told(1))], vec![2, 2]));
    }

    #[test]
    fn a_server_that_dies_is_gone_once_the_job_says_so() {
        let mut desk = pool(2, &[2]);
        desk.orders();
        desk.at([1, 2], At::Group, "a");
        desk.has(2);
        assert_eq!(desk.orders(), [(101, told(2))]);
        desk.book.remove(1, desk.now);
        assert_eq!(desk.orders(), [], "only its line may have ended");
        desk.has(1);
        assert_eq!(desk.orders(), [(101, told(1))]);
    }

    #[test]
    fn a_server_that_has_stopped_gives_way_to_another_one() {
        let mut desk = pool(3, &[2]);
        desk.orders();
        desk.at([1, 2], At::Group, "a");
        desk.orders();
        desk.now += BELIEF;
        assert_eq!(desk.orders(), [], "a group may take its time to begin");
        desk.has(2);
        desk.orders();
        // The job goes on with one of them; the other one never says that it is in no group.
        desk.at([1], At::Group, "a");
        desk.has(1);
        assert_eq!(desk.orders(), [(101, told(2))]);
        desk.now += BELIEF;
        // It has tried to get it back.
        desk.at([1], At::Group, "a");
        desk.has(1);
        assert_eq!(desk.orders(), [(101, told(1)), (3, serve("a"))]);
        desk.at([3], At::Waiting, "a");
        assert_eq!(desk.orders(), [(101, told(2))]);
        desk.at([1, 3], At::Group, "a");
        desk.has(2);
        assert_eq!(desk.orders(), [(101, told(2))]);
        // Once it says so, one is too many.
        desk.at([2], At::Waiting, "a");
        assert_eq!(desk.orders(), [(2, RELEASE)]);
    }

    #[test]
    fn what_an_operator_has_said_outlives_lines_and_brokers() {
        let mut desk = pool(3, &[3]);
        desk.book.lend("a", Some(1)).unwrap();
        // The next worker 0 may not have heard of that yet.
        desk.book.remove(101, desk.now);
        desk.job(7, "a", 3, 0, None);
        assert_eq!((desk.shares(), desk.book.listing(desk.now).jobs[0].pinned), (vec![1], true));
        let mut next = Desk::new();
        next.free(1..=3);
        next.job(7, "a", 3, 0, Some(1));
        assert_eq!((next.shares(), next.orders()[0].clone()), (vec![1], (7, pinned(0, 1))));
        next.book.lend("a", None).unwrap();
        next.job(8, "a", 3, 0, Some(1));
        assert_eq!(next.shares(), [3], "what was said here is newer");
        for session in 0..2 * MAX_PINS as u64 {
            next.book.job(9, id("b", session), claim("b", 1, 0, Some(1)), next.now);
            next.book.remove(9, next.now);
        }
        assert!(next.book.pins.len() <= MAX_PINS + 1 && next.book.pins.contains_key(&id("a", 1)));
    }

    #[test]
    fn jobs_of_one_name_are_told_apart() {
        let mut desk = pool(2, &[1]);
        desk.orders();
        desk.at([1], At::Group, "a");
        // It is started again before the pool knows that it has ended.
        let again = id("a", 2 << 32);
        desk.book.job(9, again.clone(), claim("a", 1, 0, None), desk.now);
        let serve = Say::Order(Order::Serve { job: again.clone(), roots: vec!["a:1".to_owned()] });
        assert_eq!(desk.orders(), [(101, told(1)), (9, told(0)), (2, serve)]);
        let several = desk.book.lend("a", Some(0)).unwrap_err();
        assert_eq!(several, "there are several jobs \"a\": say which, of a#00000000, a#00000002");
        desk.book.lend("a#00000002", Some(0)).unwrap();
        let jobs = desk.book.listing(desk.now).jobs;
        assert_eq!((&*jobs[0].name, &*jobs[1].name), ("a#00000000", "a#00000002"));
        assert_eq!((jobs[0].pinned, jobs[1].pinned, desk.shares()), (false, true, vec![1, 0]));
        // The one that has ended takes nothing of the other one along.
        desk.book.remove(101, desk.now);
        assert_eq!(desk.book.of_job(&again).count(), 1);
    }

    #[test]
    fn who_lends_what_there_is_not_is_told() {
        let mut desk = pool(3, &[2, 1]);
        assert_eq!(
            desk.book.lend("x", Some(1)).unwrap_err(),
            "there is no job \"x\" at this pool; there is: a, b"
        );
        let too_many = "job \"a\" takes 2 servers at most (RSUM_SERVERS), not 3";
        assert_eq!(desk.book.lend("a", Some(3)).unwrap_err(), too_many);
        desk.book.lend("a", Some(0)).unwrap();
        assert_eq!(desk.shares(), [0, 1]);
        desk.book.lend("a", None).unwrap();
        assert_eq!(desk.shares(), [2, 1]);
    }
}
