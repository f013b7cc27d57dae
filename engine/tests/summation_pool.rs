//! A pool of servers, lent to jobs and taken back while these run: every sum has the bits that it must have, whatever servers
//! there are. `RSUM_POOL_CHANGES` is how often servers are lent and taken; without it there are few. `RSUM_POOL_SEED` repeats a
//! run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use common::folder;
use common::process::{HANG_WAIT, Process, Random, now, setting};
use common::sum::{Group, sum_program};

/// Changes where their number is not given.
const CHANGES: u64 = 12;
const JOBS: [&str; 3] = ["ada", "bea", "cleo"];
const SERVERS: usize = 3;
/// Servers that a job takes at most.
const MOST: usize = 2;

/// A broker, and how its operator asks it.
struct Pool<'a> {
    group: Group<'a>,
    broker: Process,
    address: String,
}

impl<'a> Pool<'a> {
    fn start(program: &'a std::path::Path) -> Self {
        let group = Group::new(program, 2, MOST);
        let broker = Self::broker(&group, "127.0.0.1:0");
        let (_, line) = broker.wait_for("the broker is at", "broker");
        let address = line.rsplit(' ').next().unwrap().to_owned();
        Self { group, broker, address }
    }

    fn broker(group: &Group<'_>, address: &str) -> Process {
        Process::start(&mut group.server_command(&["--broker", address], &[]))
    }

    /// Kills the broker, and starts another one at its address.
    fn restart(&mut self) {
        self.broker.child.kill().unwrap();
        self.broker.child.wait().unwrap();
        self.broker = Self::broker(&self.group, &self.address);
        self.broker.wait_for("the broker is at", "broker");
    }

    fn server(&self) -> Process {
        let server = Process::start(&mut self.group.server_command(&["--pool", &self.address], &[]));
        server.wait_for("free, at the pool", "server");
        server
    }

    /// Asks until all that is in the list.
    fn wait_for(&self, texts: &[String], case: &str) {
        let latest = now() + HANG_WAIT;
        loop {
            let list = self.ask(&["list"]);
            if texts.iter().all(|text| list.contains(text)) {
                return;
            }
            assert!(now() < latest, "{case}: no {texts:?} in {list}");
        }
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let pool = ("RSUM_POOL", &*self.address);
        let output = self.group.server_command(&[&["pool"], arguments].concat(), &[pool]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A job's workers, which sum until a file is there.
struct Job {
    workers: Vec<Process>,
    stop: std::path::PathBuf,
}

impl Job {
    fn start(program: &std::path::Path, pool: &Pool<'_>, name: &str) -> Self {
        let group = Group::new(program, 2, MOST);
        let stop = folder(&format!("pool-{name}")).join("stop");
        let environment = [("RSUM_POOL", &*pool.address), ("RSUM_JOB", name), ("RSUM_ON_LOSS", "continue")];
        let arguments = ["borrow", stop.to_str().unwrap()];
        let worker = |worker| Process::start(&mut group.worker_command(worker, &arguments, &environment));
        Self { workers: (0..2).map(worker).collect(), stop }
    }

    /// The job's workers have had no other servers since they were looked at last.
    fn has_what_it_had(&self) {
        for worker in &self.workers {
            let said: Vec<String> = worker.lines.try_iter().map(|(_, line)| line).collect();
            assert!(said.is_empty(), "{said:?}");
        }
    }

    fn has(&self, servers: usize, case: &str) {
        for worker in &self.workers {
            worker.wait_for(&format!("SERVERS {servers} of"), case);
        }
    }

    fn end(mut self) {
        std::fs::write(&self.stop, "").unwrap();
        for worker in &mut self.workers {
            worker.wait_for("DONE", "end");
            assert!(worker.child.wait().unwrap().success());
        }
    }
}

/// What each job has where an operator has said all their shares: those before it come first.
fn shares(said: &[usize]) -> Vec<usize> {
    let mut left = SERVERS;
    let share = |said: &usize| {
        let share = left.min(*said);
        left -= share;
        share
    };
    said.iter().map(share).collect()
}

#[test]
fn servers_are_lent_and_taken_back_while_jobs_run() {
    let seed = setting("RSUM_POOL_SEED").unwrap_or_else(|| u64::from(std::process::id()) + 1);
    let changes = setting("RSUM_POOL_CHANGES").unwrap_or(CHANGES);
    println!("RSUM_POOL_SEED={seed}");
    let program = sum_program("sum-pool");
    let pool = Pool::start(&program);
    let servers: Vec<Process> = (0..SERVERS).map(|_| pool.server()).collect();
    let mut jobs = Vec::new();
    for name in JOBS {
        let job = Job::start(&program, &pool, name);
        job.has(0, name);
        jobs.push(job);
    }
    // Nobody has said anything: each job is dealt one.
    jobs.iter().for_each(|job| job.has(1, "dealt"));
    let (mut random, mut said) = (Random::new(seed), [1; 3]);
    JOBS.iter().for_each(|name| assert!(pool.ask(&["lend", name, "1"]).contains("as an operator said")));
    let (mut times, mut before) = (Vec::<Duration>::new(), vec![1; 3]);
    for number in 0..changes {
        // What changes nothing for any job proves nothing.
        let job = loop {
            let (job, servers) = (random.index(JOBS.len()), random.index(MOST + 1));
            let drawn = std::mem::replace(&mut said[job], servers);
            if shares(&said) != before {
                break job;
            }
            said[job] = drawn;
        };
        let case = format!("change {number}, {said:?}");
        let asked = now();
        assert!(!pool.ask(&["lend", JOBS[job], &said[job].to_string()]).is_empty(), "{case}");
        let after = shares(&said);
        for (job, (before, after)) in jobs.iter().zip(before.iter().zip(&after)) {
            if before != after {
                job.has(*after, &case);
            }
        }
        times.push(now().saturating_duration_since(asked));
        before = after;
    }
    times.sort_unstable();
    println!(
        "{changes} times lent or taken; all jobs had their servers after {:.0} ms in the median, {:.0} ms at most; 0 wrong sums",
        times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e3),
        times.last().map_or(0.0, |time| time.as_secs_f64() * 1e3)
    );
    jobs.into_iter().for_each(Job::end);
    for server in &servers {
        server.wait_for("free, at the pool", "after all jobs");
    }
}

#[test]
fn a_job_goes_on_without_what_dies_and_gets_what_comes() {
    let program = sum_program("sum-pool-loss");
    let mut pool = Pool::start(&program);
    let mut servers = vec![pool.server(), pool.server()];
    let mut job = Job::start(&program, &pool, "dora");
    job.has(MOST, "dealt");
    // A server that sums.
    servers[0].child.kill().unwrap();
    job.has(1, "a server has died");
    pool.broker.wait_for(&format!("/{} has gone", servers[0].child.id()), "server");
    servers.push(pool.server());
    job.has(MOST, "a server has come");
    // The worker that gives the rendezvous, and hears of the pool.
    let mut root = job.workers.remove(0);
    root.child.kill().unwrap();
    job.workers[0].wait_for("SERVERS 2 of 1", "worker 0 has died");
    assert!(pool.ask(&["lend", "dora", "1"]).contains("job dora"));
    job.has(1, "lent by the next worker 0");
    // Without a broker the job keeps what it has.
    pool.broker.child.kill().unwrap();
    job.end();
}

#[test]
fn a_broker_that_is_started_again_takes_nothing_from_jobs_and_knows_what_operators_said() {
    let program = sum_program("sum-pool-again");
    let mut pool = Pool::start(&program);
    let (eve, flo) = (Job::start(&program, &pool, "eve"), Job::start(&program, &pool, "flo"));
    [&eve, &flo].into_iter().for_each(|job| job.has(0, "none yet"));
    // Without that, eve would have two.
    assert!(pool.ask(&["lend", "eve", "1"]).contains("as an operator said"));
    let servers = [pool.server(), pool.server(), pool.server()];
    eve.has(1, "said");
    flo.has(2, "the rest");
    for round in 0..3 {
        let case = format!("start {round}");
        pool.restart();
        // Jobs and servers call again every second.
        let has = |name, n, by| {
            format!("job {name}: sums with {n} servers, is to have {n} of at most 2{by}; {n} are lent\n")
        };
        let lent = servers.iter().map(|server| format!("/{}: lent to ", server.child.id()));
        let jobs = [has("eve", 1, ", as an operator said"), has("flo", 2, "")];
        pool.wait_for(&jobs.into_iter().chain(lent).collect::<Vec<_>>(), &case);
    }
    [&eve, &flo].into_iter().for_each(Job::has_what_it_had);
    // What it knows is not only shown.
    assert!(pool.ask(&["lend", "flo", "0"]).contains("job flo"));
    flo.has(0, "said to the new broker");
    [eve, flo].into_iter().for_each(Job::end);
}

#[test]
fn two_jobs_of_one_name_have_their_own_servers() {
    let program = sum_program("sum-pool-namesakes");
    let pool = Pool::start(&program);
    let servers = [pool.server(), pool.server()];
    let [one, other] = [Job::start(&program, &pool, "gil"), Job::start(&program, &pool, "gil")];
    [&one, &other].into_iter().for_each(|job| job.has(1, "dealt"));
    let list = pool.ask(&["list"]);
    assert_eq!(list.matches("job gil#").count(), 2, "{list}");
    let which = |line: &str| line.split(' ').nth(1).unwrap().trim_end_matches(':').to_owned();
    let names: Vec<String> = list.lines().filter(|line| line.starts_with("job ")).map(which).collect();
    let list = pool.ask(&["list"]);
    assert!(servers.iter().all(|server| list.contains(&format!("/{}: lent to gil#", server.child.id()))));
    let said = Process::start(
        &mut pool.group.server_command(&["pool", "lend", "gil", "1"], &[("RSUM_POOL", &*pool.address)]),
    );
    said.wait_for("there are several jobs \"gil\": say which", "namesakes");
    // Whichever it is: the other one gets what it loses.
    assert!(pool.ask(&["lend", &names[0], "2"]).contains("as an operator said"));
    let mut said = [String::new(), String::new()];
    while !(said.iter().any(|said| said.contains("SERVERS 2"))
        && said.iter().any(|said| said.contains("SERVERS 0")))
    {
        for (said, job) in said.iter_mut().zip([&one, &other]) {
            said.extend(job.workers[0].lines.try_iter().map(|(_, line)| line));
        }
    }
    [one, other].into_iter().for_each(Job::end);
}

#[test]
fn a_server_says_that_no_broker_is_there_and_is_free_once_one_is() {
    let program = sum_program("sum-pool-nobody");
    let group = Group::new(&program, 1, 1);
    let address = format!("127.0.0.1:{}", group.port);
    let server = Process::start(&mut group.server_command(&["--pool", &address], &[]));
    let nobody = format!("no broker is at {address} (RSUM_POOL)");
    let mut line = String::new();
    while !line.contains(&nobody) {
        line = server.line("nobody is there").1;
        assert!(!line.contains("free"), "{line}");
    }
    let broker = Pool::broker(&group, &address);
    server.wait_for(&format!("free, at the pool {address}"), "a broker is there");
    drop(broker);
    server.wait_for(&nobody, "the broker has gone");
}

/// Says no to who comes; when.
fn refuse_next(listener: &TcpListener) -> Instant {
    let (mut stream, _) = listener.accept().unwrap();
    // No rendezvous says that. Who has gone by then hears it no more.
    let _ = stream.write_all(&[0xff; 64]);
    now()
}

#[test]
fn a_server_that_a_job_refuses_waits_longer_each_time_and_ends_at_once_when_it_is_told_to() {
    let program = sum_program("sum-pool-refused");
    let pool = Pool::start(&program);
    let mut server = pool.server();
    // The job says that its processes meet here first.
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let group = Group::new(&program, 1, 1);
    let roots = format!("{},127.0.0.1:{}", stranger.local_addr().unwrap(), group.port);
    let stop = folder("pool-refused").join("stop");
    let settings = [("RSUM_POOL", &*pool.address), ("RSUM_JOB", "ada"), ("RSUM_ROOT", &*roots)];
    let worker = group.worker_command(0, &["borrow", stop.to_str().unwrap()], &settings);
    let _worker = Process::start(&mut { worker });
    let came: Vec<Instant> = (0..3).map(|_| refuse_next(&stranger)).collect();
    let least = [Duration::from_secs(1), Duration::from_secs(2)];
    for (pair, least) in came.windows(2).zip(least) {
        assert!(pair[1] - pair[0] >= least, "{:?} after {:?}", pair[1] - pair[0], least);
    }
    for seconds in [1, 2, 4] {
        server.wait_for(&format!("; the next attempt is in {seconds} s"), "refused");
    }
    let killed = now();
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let (stopped, _) = server.wait_for("stopped", "told to stop");
    assert!(server.child.wait().unwrap().success());
    assert!(stopped - killed < Duration::from_secs(3), "{:?}", stopped - killed);
}

#[test]
fn a_job_that_refuses_a_server_gets_another_one() {
    let program = sum_program("sum-pool-wrong");
    let pool = Pool::start(&program);
    let arguments = ["--pool", &pool.address];
    let wrong = Process::start(&mut pool.group.server_command(&arguments, &[("RSUM_ASYNC", "1")]));
    wrong.wait_for("free, at the pool", "one that sums otherwise");
    let group = Group::new(&program, 1, 1);
    let stop = folder("pool-wrong").join("stop");
    let settings = [("RSUM_POOL", &*pool.address), ("RSUM_JOB", "ida")];
    let mut worker =
        Process::start(&mut group.worker_command(0, &["borrow", stop.to_str().unwrap()], &settings));
    wrong.wait_for("the next attempt is in 2 s", "refused twice");
    let server = pool.server();
    worker.wait_for("SERVERS 1 of 1", "another one");
    std::fs::write(&stop, "").unwrap();
    worker.wait_for("DONE", "end");
    assert!(worker.child.wait().unwrap().success());
    server.wait_for("free, at the pool", "after the job");
}

#[test]
fn a_worker_that_is_busy_changes_nothing_for_all() {
    let program = sum_program("sum-pool-busy");
    let pool = Pool::start(&program);
    let group = Group::new(&program, 2, MOST);
    let environment = [("RSUM_POOL", &*pool.address), ("RSUM_JOB", "hal")];
    let worker = |worker| Process::start(&mut group.worker_command(worker, &["busy"], &environment));
    for mut worker in [worker(0), worker(1)] {
        worker.wait_for("DONE", "rounds that were open");
        assert!(worker.child.wait().unwrap().success());
    }
}

#[test]
fn who_does_not_belong_to_a_pool_is_turned_away() {
    let program = sum_program("sum-pool-strangers");
    let pool = Pool::start(&program);
    let other = [("RSUM_POOL", &*pool.address), ("RSUM_SECRET", "another one")];
    let said = Process::start(&mut pool.group.server_command(&["pool", "list"], &other));
    said.wait_for("refuses this process: RSUM_SECRET is another one there", "stranger");
    pool.broker.wait_for("a caller is turned away", "stranger");
    let lend = &["pool", "lend", "nobody", "1"];
    let said = Process::start(&mut pool.group.server_command(lend, &other[..1]));
    said.wait_for("there is no job \"nobody\" at this pool", "no job");
    assert_eq!(pool.ask(&["list"]), "the pool has no jobs and no servers\n");
    let alone = Group::new(&program, 1, 1);
    let settings = [("RSUM_POOL", "nowhere")];
    let said = Process::start(&mut alone.worker_command(0, &["sums"], &settings));
    said.wait_for("RSUM_POOL: \"nowhere\" is not HOST:PORT", "address");
    let status = Command::new("kill").args(["-0", &pool.broker.child.id().to_string()]).status().unwrap();
    assert!(status.success(), "the broker lives");
}
