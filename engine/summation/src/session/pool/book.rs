//! Which server of a pool serves which job. No I/O.
//!
//! Servers are dealt to jobs one by one, each to the job that has the fewest and wants more; a job whose share an operator has
//! said gets that first. So shares differ by one at most between jobs that want as many.

use std::collections::{BTreeMap, BTreeSet};

use super::message::{At, ListedJob, Listing, Order};

/// A caller, by its connection; in the order in which they came.
pub(super) type Id = u64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Book {
    servers: BTreeMap<Id, Server>,
    /// By name.
    jobs: BTreeMap<String, Job>,
}

#[derive(Debug)]
struct Server {
    name: String,
    job: Option<String>,
    at: At,
    /// It is asked to leave, and has not answered.
    is_asked: bool,
}

#[derive(Debug)]
struct Job {
    line: Id,
    roots: Vec<String>,
    most: usize,
    has: usize,
    pinned: Option<usize>,
    told: Option<usize>,
}

/// What is to be said to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Say {
    /// To a server.
    Order(Order),
    /// To a job.
    Servers(usize),
}

impl Book {
    /// A server comes, which may serve a job already.
    pub(super) fn server(&mut self, id: Id, name: String, job: Option<String>) {
        let at = if job.is_some() { At::Group } else { At::Free };
        self.servers.insert(id, Server { name, job, at, is_asked: false });
    }

    /// A job comes, or comes again by another line.
    pub(super) fn job(&mut self, id: Id, name: String, roots: Vec<String>, most: usize, has: usize) {
        let pinned = self.jobs.get(&name).and_then(|before| before.pinned);
        self.jobs.insert(name, Job { line: id, roots, most, has, pinned, told: None });
    }

    /// A line has ended.
    pub(super) fn remove(&mut self, id: Id) {
        self.servers.remove(&id);
        self.jobs.retain(|_, job| job.line != id);
    }

    /// A server says what it is at.
    pub(super) fn at(&mut self, id: Id, at: At) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        (server.at, server.is_asked) = (at, false);
        if at == At::Free {
            server.job = None;
        }
    }

    /// A job says how many servers its group has.
    pub(super) fn has(&mut self, id: Id, servers: usize) {
        self.jobs.values_mut().filter(|job| job.line == id).for_each(|job| job.has = servers);
    }

    /// A job is to have so many servers.
    ///
    /// # Errors
    /// There is no such job, or it wants fewer.
    pub(super) fn lend(&mut self, name: &str, servers: Option<usize>) -> Result<(), String> {
        let names: Vec<&str> = self.jobs.keys().map(String::as_str).collect();
        let there = names.join(", ");
        let Some(job) = self.jobs.get_mut(name) else {
            return Err(format!("there is no job {name:?} at this pool; there is: {there}"));
        };
        if let Some(servers) = servers.filter(|servers| *servers > job.most) {
            return Err(format!(
                "job {name:?} takes {} servers at most (RSUM_SERVERS), not {servers}",
                job.most
            ));
        }
        job.pinned = servers;
        Ok(())
    }

    /// What is to be said now.
    pub(super) fn orders(&mut self) -> Vec<(Id, Say)> {
        let shares = self.shares();
        let mut says = Vec::new();
        for (name, share) in &shares {
            let lent: BTreeSet<Id> = self.of_job(name).collect();
            let Some(job) = self.jobs.get_mut(name) else { continue };
            let is_there = |id: &&Id| self.servers.get(id).is_some_and(|server| server.at != At::Free);
            let there = lent.iter().filter(is_there).count().min(*share);
            if job.told != Some(there) {
                job.told = Some(there);
                says.push((job.line, Say::Servers(there)));
            }
            if job.has <= *share {
                says.extend(self.take_back(&lent, *share));
            }
        }
        for (name, share) in shares {
            says.extend(self.hand_out(&name, share));
        }
        says
    }

    /// All that there is.
    pub(super) fn listing(&self) -> Listing {
        let shares = self.shares();
        let job = |(name, job): (&String, &Job)| ListedJob {
            name: name.clone(),
            most: job.most,
            share: shares.get(name).copied().unwrap_or(0),
            lent: self.of_job(name).count(),
            has: job.has,
            pinned: job.pinned.is_some(),
        };
        Listing {
            jobs: self.jobs.iter().map(job).collect(),
            servers: self.servers.values().map(|server| (server.name.clone(), server.job.clone())).collect(),
        }
    }

    fn of_job(&self, name: &str) -> impl Iterator<Item = Id> {
        let of_it = |server: &Server| server.job.as_deref() == Some(name);
        self.servers.iter().filter(move |(_, server)| of_it(server)).map(|(id, _)| *id)
    }

    /// Servers that each job is to have.
    fn shares(&self) -> BTreeMap<String, usize> {
        // A server of a job that has no line here is nobody's to give.
        let is_ours = |server: &&Server| server.job.as_ref().is_none_or(|job| self.jobs.contains_key(job));
        let mut left = self.servers.values().filter(is_ours).count();
        let mut shares = BTreeMap::new();
        for (name, job) in &self.jobs {
            let share = job.pinned.unwrap_or(0).min(left);
            left -= share;
            shares.insert(name.clone(), share);
        }
        while left > 0 {
            let wants =
                self.jobs.iter().filter(|(name, job)| job.pinned.is_none() && shares[*name] < job.most);
            let Some((name, _)) = wants.min_by_key(|(name, _)| shares[*name]) else { break };
            let Some(share) = shares.get_mut(name) else { break };
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

    fn hand_out(&mut self, name: &str, share: usize) -> Vec<(Id, Say)> {
        let missing = share.saturating_sub(self.of_job(name).count());
        let Some(roots) = self.jobs.get(name).map(|job| job.roots.clone()) else { return Vec::new() };
        let free = self.servers.iter_mut().filter(|(_, server)| server.job.is_none());
        let mut says = Vec::new();
        for (id, server) in free.take(missing) {
            server.job = Some(name.to_owned());
            let serve = Order::Serve { job: name.to_owned(), roots: roots.clone() };
            says.push((*id, Say::Order(serve)));
        }
        says
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool of servers 1, 2, … and of jobs a, b, … with lines 101, 102, …, which take so many.
    fn pool(servers: u64, most: &[usize]) -> Book {
        let mut book = Book::default();
        (1..=servers).for_each(|id| book.server(id, format!("server {id}"), None));
        for ((line, name), most) in (101..).zip(["a", "b", "c"]).zip(most) {
            book.job(line, name.to_owned(), vec![format!("{name}:1")], *most, 0);
        }
        book
    }

    fn serve(name: &str) -> Say {
        Say::Order(Order::Serve { job: name.to_owned(), roots: vec![format!("{name}:1")] })
    }

    const RELEASE: Say = Say::Order(Order::Release);

    #[test]
    fn servers_are_dealt_evenly_to_jobs_that_want_them() {
        let shares = |servers, most: &[usize]| pool(servers, most).shares().into_values().collect::<Vec<_>>();
        assert_eq!(shares(5, &[4, 4, 1]), [2, 2, 1]);
        assert_eq!(shares(9, &[4, 4, 1]), [4, 4, 1]);
        assert_eq!((shares(1, &[2, 2]), shares(0, &[2])), (vec![1, 0], vec![0]));
    }

    #[test]
    fn a_job_is_told_of_servers_that_wait_for_it() {
        let mut book = pool(2, &[2]);
        let orders = book.orders();
        assert_eq!(orders, [(101, Say::Servers(0)), (1, serve("a")), (2, serve("a"))]);
        assert_eq!(book.orders(), []);
        book.at(2, At::Waiting);
        assert_eq!(book.orders(), [(101, Say::Servers(1))]);
    }

    #[test]
    fn what_an_operator_takes_is_asked_for_once_the_job_sums_without_it() {
        let mut book = pool(2, &[2, 2]);
        book.lend("a", Some(2)).unwrap();
        book.orders();
        [1, 2].into_iter().for_each(|id| book.at(id, At::Waiting));
        assert_eq!(book.orders(), [(101, Say::Servers(2))]);
        [1, 2].into_iter().for_each(|id| book.at(id, At::Group));
        book.has(101, 2);
        book.lend("a", Some(1)).unwrap();
        assert_eq!(book.orders(), [(101, Say::Servers(1))], "it still sums with both");
        // Between two groups both wait; the old number holds until the job says another one.
        [1, 2].into_iter().for_each(|id| book.at(id, At::Waiting));
        assert_eq!(book.orders(), []);
        book.has(101, 1);
        assert_eq!(book.orders(), [(2, RELEASE)]);
        // It had begun to sum again just then: the other one is asked.
        book.at(2, At::Group);
        assert_eq!(book.orders(), [(1, RELEASE)]);
        book.at(1, At::Free);
        assert_eq!(book.orders(), [(1, serve("b"))]);
    }

    #[test]
    fn lines_that_end_take_their_servers_and_jobs_along() {
        let mut book = pool(2, &[1]);
        book.orders();
        book.at(1, At::Waiting);
        book.orders();
        book.remove(1);
        assert_eq!(book.orders(), [(101, Say::Servers(0)), (2, serve("a"))]);
        book.remove(101);
        assert_eq!((book.orders(), book.shares().len()), (vec![], 0));
        book.at(2, At::Free);
        book.job(7, "b".to_owned(), vec!["b:1".to_owned()], 1, 0);
        assert_eq!(book.orders(), [(7, Say::Servers(0)), (2, serve("b"))]);
    }

    #[test]
    fn who_lends_what_there_is_not_is_told() {
        let mut book = pool(3, &[2, 1]);
        assert_eq!(
            book.lend("x", Some(1)).unwrap_err(),
            "there is no job \"x\" at this pool; there is: a, b"
        );
        let too_many = "job \"a\" takes 2 servers at most (RSUM_SERVERS), not 3";
        assert_eq!(book.lend("a", Some(3)).unwrap_err(), too_many);
        book.lend("a", Some(0)).unwrap();
        assert_eq!(book.shares().into_values().collect::<Vec<_>>(), [0, 1]);
        book.lend("a", None).unwrap();
        assert_eq!(book.shares().into_values().collect::<Vec<_>>(), [2, 1]);
    }
}
