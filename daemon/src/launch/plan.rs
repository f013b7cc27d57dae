//! Which process of a job is started where, with which variables. No I/O: what the machines have said comes as arguments.

use super::args::MAX_PROCESSES;
use super::hosts::Slots;
use super::protocol::{Process, Role};

/// What is to be started where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Hosts that take part, in the order of their ranks.
    pub(super) hosts: Vec<HostPlan>,
    /// Workers in all.
    pub(super) workers: u32,
    /// Servers in all.
    pub(super) servers: u32,
}

/// One host's part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostPlan {
    /// Its name, as the user has it.
    pub(super) host: String,
    /// How many workers it takes, where that is said.
    pub(super) slots: Option<u32>,
    /// Its first rank.
    pub(super) first_rank: u32,
    /// How many ranks it has.
    pub(super) ranks: u32,
    /// Numbers of its servers.
    pub(super) servers: Vec<u32>,
}

/// What becomes known when the job begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// The job's name.
    pub(super) job: String,
    /// Where the first host is reached.
    pub(super) master: String,
    /// Port for the program's own rendezvous.
    pub(super) master_port: String,
    /// Port at which the summation service meets.
    pub(super) root_port: String,
    /// What its processes share.
    pub(super) secret: String,
    /// How often the job was started before, and how often it may be.
    pub(super) restart: (u32, u32),
}

impl Plan {
    /// Deals workers and servers out.
    ///
    /// # Errors
    /// What does not fit, and what to do.
    pub(super) fn new(
        hosts: &[Slots],
        workers: Option<u32>,
        servers: u32,
        oversubscribe: bool,
    ) -> Result<Self, String> {
        let slots = all_slots(hosts);
        let workers = workers.or(slots).unwrap_or_else(|| u32::try_from(hosts.len()).unwrap_or(u32::MAX));
        if workers > MAX_PROCESSES {
            return Err(format!(
                "{workers} workers, and a job has {MAX_PROCESSES} at most: say fewer with -n, or give the hosts fewer slots"
            ));
        }
        let shares = match slots {
            Some(slots) if workers > slots && !oversubscribe => return Err(too_many(hosts, workers, slots)),
            Some(slots) if workers > slots => evenly_beyond(hosts, workers),
            Some(_) => filled(hosts, workers),
            None => even(hosts, workers)?,
        };
        let mut first_rank = 0;
        let mut plan: Vec<HostPlan> = Vec::new();
        for (host, ranks) in hosts.iter().zip(shares).filter(|(_, ranks)| *ranks > 0) {
            let Slots { host, slots } = host.clone();
            plan.push(HostPlan { host, slots, first_rank, ranks, servers: Vec::new() });
            first_rank += ranks;
        }
        // From the last host on: the first one has the rendezvous already.
        let n_hosts = plan.len();
        for server in 0..servers {
            let place = n_hosts - 1 - usize::try_from(server).unwrap_or_default() % n_hosts;
            plan[place].servers.push(server);
        }
        Ok(Self { hosts: plan, workers, servers })
    }

    /// One host's processes, servers first: workers wait for them.
    pub(super) fn processes(&self, node: usize, facts: &Facts) -> Vec<Process> {
        let Some(host) = self.hosts.get(node) else { return Vec::new() };
        let server = |server: &u32| Process { role: Role::Server(*server), variables: self.of_all(facts) };
        let worker = |local: u32| Process {
            role: Role::Worker(host.first_rank + local),
            variables: [self.of_worker(node, local), self.of_all(facts)].concat(),
        };
        host.servers.iter().map(server).chain((0..host.ranks).map(worker)).collect()
    }

    /// What a worker is told beside that: its place.
    pub(super) fn of_worker(&self, node: usize, local: u32) -> Vec<(String, String)> {
        let host = &self.hosts[node];
        let rank = host.first_rank + local;
        let (node, nodes) = (node.to_string(), self.hosts.len().to_string());
        variables(&[
            ("RANK", &rank.to_string()),
            ("WORLD_SIZE", &self.workers.to_string()),
            ("LOCAL_RANK", &local.to_string()),
            ("LOCAL_WORLD_SIZE", &host.ranks.to_string()),
            ("NODE_RANK", &node),
            ("GROUP_RANK", &node),
            ("GROUP_WORLD_SIZE", &nodes),
            ("RSUM_RANK", &rank.to_string()),
        ])
    }

    /// What all processes are told.
    pub(super) fn of_all(&self, facts: &Facts) -> Vec<(String, String)> {
        let Facts { job, master, master_port, root_port, secret, restart: (restart, restarts) } = facts;
        let root = if master.contains(':') {
            format!("[{master}]:{root_port}")
        } else {
            format!("{master}:{root_port}")
        };
        variables(&[
            ("MASTER_ADDR", master),
            ("MASTER_PORT", master_port),
            ("RSUM_ROOT", &root),
            ("RSUM_SECRET", secret),
            ("RSUM_WORKERS", &self.workers.to_string()),
            ("RSUM_SERVERS", &self.servers.to_string()),
            ("RINGSCOPE_JOB", job),
            ("RINGSCOPE_RESTART", &restart.to_string()),
            ("TORCHELASTIC_RESTART_COUNT", &restart.to_string()),
            ("TORCHELASTIC_MAX_RESTARTS", &restarts.to_string()),
        ])
    }
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Slots of all hosts, where any says how many it has; one that does not has one.
fn all_slots(hosts: &[Slots]) -> Option<u32> {
    let is_said = hosts.iter().any(|host| host.slots.is_some());
    is_said.then(|| hosts.iter().map(|host| host.slots.unwrap_or(1)).fold(0, u32::saturating_add))
}

/// Host by host, each up to its slots.
fn filled(hosts: &[Slots], workers: u32) -> Vec<u32> {
    let mut left = workers;
    let share = |host: &Slots| {
        let share = left.min(host.slots.unwrap_or(1));
        left -= share;
        share
    };
    hosts.iter().map(share).collect()
}

/// All slots, and the rest dealt out.
fn evenly_beyond(hosts: &[Slots], workers: u32) -> Vec<u32> {
    let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
    let beyond = workers - all_slots(hosts).unwrap_or_default();
    let share = |(place, host): (u32, &Slots)| {
        host.slots.unwrap_or(1) + beyond / count + u32::from(place < beyond % count)
    };
    (0..).zip(hosts).map(share).collect()
}

fn even(hosts: &[Slots], workers: u32) -> Result<Vec<u32>, String> {
    let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
    if workers.is_multiple_of(count) {
        return Ok(vec![workers / count; hosts.len()]);
    }
    let names: Vec<&str> = hosts.iter().take(SHOWN).map(|host| host.host.as_str()).collect();
    Err(format!(
        "{workers} workers cannot be dealt out evenly over {count} hosts ({}{}): say how many each takes, e.g. -H {}:{}, or take \
         -n {}",
        names.join(", "),
        if hosts.len() > SHOWN { ", …" } else { "" },
        names.join(":1,"),
        workers.saturating_sub(count - 1).max(1),
        (workers / count + 1).saturating_mul(count),
    ))
}

fn too_many(hosts: &[Slots], workers: u32, slots: u32) -> String {
    let shown = hosts.iter().take(SHOWN).map(|host| format!("{} {}", host.host, host.slots.unwrap_or(1)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = if hosts.len() > SHOWN { ", …" } else { "" };
    format!(
        "{workers} workers, and the hosts have {slots} slots ({shown}{more}): name more hosts, give them more slots (-H {}:N), or \
         say --oversubscribe",
        hosts.first().map_or("a", |host| &host.host)
    )
}

/// Hosts that an error names.
const SHOWN: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::hosts::of_list;

    fn plan(hosts: &str, workers: Option<u32>, servers: u32) -> Result<Plan, String> {
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        Plan::new(&of_list(&hosts).unwrap(), workers, servers, false)
    }

    fn shown(hosts: &str, workers: Option<u32>, servers: u32) -> String {
        match plan(hosts, workers, servers) {
            Ok(plan) => {
                let one = |host: &HostPlan| {
                    format!("{} {}+{} {:?}", host.host, host.first_rank, host.ranks, host.servers)
                };
                plan.hosts.iter().map(one).collect::<Vec<_>>().join("; ")
            }
            Err(error) => format!("! {error}"),
        }
    }

    #[test]
    fn ranks_fill_the_slots_of_one_host_after_the_other() {
        assert_eq!(shown("a:4,b:4", Some(8), 2), "a 0+4 [1]; b 4+4 [0]");
        assert_eq!(shown("a:4,b:4", Some(6), 0), "a 0+4 []; b 4+2 []");
        assert_eq!(shown("a:4,b:4", Some(3), 1), "a 0+3 [0]");
        assert_eq!(shown("a:2,b", None, 0), "a 0+2 []; b 2+1 []");
        assert_eq!(shown("a,b", Some(4), 3), "a 0+2 [1]; b 2+2 [0, 2]");
        assert_eq!(shown("a,b", None, 0), "a 0+1 []; b 1+1 []");
    }

    #[test]
    fn what_does_not_fit_is_said_with_what_to_do() {
        let text = shown("a:2,b:2", Some(8), 0);
        assert!(text.starts_with("! 8 workers, and the hosts have 4 slots (a 2, b 2)"), "{text}");
        assert!(text.contains("--oversubscribe"), "{text}");
        let text = shown("a,b", Some(5), 0);
        assert!(text.contains("5 workers cannot be dealt out evenly over 2 hosts (a, b)"), "{text}");
        assert!(text.contains("-H a:1,b:4") && text.contains("-n 6"), "{text}");
    }

    #[test]
    fn slots_without_end_are_no_job_but_may_be_filled_in_part() {
        for hosts in ["a:4000000000", "a:4000000000,b:4000000000", "a:131072,b"] {
            let text = shown(hosts, None, 0);
            assert!(text.contains("131072 at most") && text.contains("-n"), "{text}");
        }
        assert_eq!(shown("a:131072", None, 0), "a 0+131072 []");
        assert_eq!(shown("a:4000000000", Some(4), 0), "a 0+4 []");
    }

    #[test]
    fn slots_can_be_overfilled_on_purpose() {
        let hosts = of_list(&["a:2".to_owned(), "b:1".to_owned()]).unwrap();
        let plan = Plan::new(&hosts, Some(6), 0, true).unwrap();
        assert_eq!(plan.hosts.iter().map(|host| host.ranks).collect::<Vec<_>>(), [4, 2]);
    }

    fn facts() -> Facts {
        Facts {
            job: "j".into(),
            master: "10.0.0.1".into(),
            master_port: "20001".into(),
            root_port: "20002".into(),
            secret: "s".into(),
            restart: (1, 3),
        }
    }

    fn value<'a>(process: &'a Process, name: &str) -> Option<&'a str> {
        process.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_worker_knows_its_place_and_a_server_has_none() {
        let plan = plan("a:2,b:2", Some(4), 1).unwrap();
        let processes = plan.processes(1, &facts());
        assert_eq!(processes.len(), 3);
        assert_eq!(processes[0].role, Role::Server(0));
        assert_eq!(value(&processes[0], "RANK"), None);
        assert_eq!(value(&processes[0], "RSUM_ROOT"), Some("10.0.0.1:20002"));
        let last = &processes[2];
        for (name, expected) in [
            ("RANK", "3"),
            ("WORLD_SIZE", "4"),
            ("LOCAL_RANK", "1"),
            ("LOCAL_WORLD_SIZE", "2"),
            ("NODE_RANK", "1"),
            ("GROUP_RANK", "1"),
            ("MASTER_ADDR", "10.0.0.1"),
            ("MASTER_PORT", "20001"),
            ("RSUM_WORKERS", "4"),
            ("RSUM_SERVERS", "1"),
            ("RINGSCOPE_JOB", "j"),
            ("RINGSCOPE_RESTART", "1"),
            ("TORCHELASTIC_RESTART_COUNT", "1"),
        ] {
            assert_eq!(value(last, name), Some(expected), "{name}");
        }
    }

    #[test]
    fn an_address_with_colons_is_put_in_brackets() {
        let plan = plan("a", Some(1), 0).unwrap();
        let facts = Facts { master: "fd00::1".into(), ..facts() };
        assert_eq!(value(&plan.processes(0, &facts)[0], "RSUM_ROOT"), Some("[fd00::1]:20002"));
    }
}
