//! Pretended hosts with ranks of one way of summing, and with servers where that has some. All fleets stand at once, and
//! rest but for the one whose turn it is.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context as _, Result, bail};

use super::super::job::Job;
use super::super::network::{Network, address, nic};
use super::super::stage::{STEP, SUMD};
use super::formulas::{Message, Shape, Way};
use crate::process::{say, target_dir};

/// The hosts.
#[derive(Debug)]
pub(super) struct Ground {
    programs: PathBuf,
    folder: PathBuf,
    network: Network,
    rate_mbit: u32,
}

/// Ranks that all sum in one way.
#[derive(Debug)]
pub(super) struct Fleet {
    way: Way,
    job: Job,
    /// Dropped after the ranks, which need them.
    _servers: Servers,
}

/// Processes that only sum; killed when dropped, if they have not left with their ranks.
#[derive(Debug)]
struct Servers(Vec<Child>);

impl Ground {
    /// So many hosts behind links of this rate.
    pub(super) fn lay(programs: &Path, n_hosts: usize, rate_mbit: u32) -> Result<Self> {
        let folder = folder();
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let network = Network::build(n_hosts, rate_mbit)?;
        say(&format!("scaling: {n_hosts} hosts at {rate_mbit} Mbit/s; logs in {}", folder.display()));
        Ok(Self { programs: programs.to_owned(), folder, network, rate_mbit })
    }

    /// Takes the hosts away.
    pub(super) fn clear(self) -> Result<()> {
        self.network.clear()
    }

    /// Ranks that know these layouts, and each other. `number` is another one for each fleet.
    pub(super) fn fleet(
        &self,
        number: u16,
        way: Way,
        shape: Shape,
        layouts: &[Vec<Message>],
    ) -> Result<Fleet> {
        let name = format!("{number}-{}-{}x{}", word(way), shape.hosts, shape.ranks_per_host);
        let meeting = Meeting { number, way, shape };
        let servers = (0..meeting.n_servers()).map(|server| self.server(&name, meeting, server));
        let servers = Servers(servers.collect::<Result<_>>()?);
        let ranks = (0..shape.n_ranks()).map(|rank| self.rank(meeting, rank));
        let mut job = Job::of(&name, &self.folder, ranks)?;
        let n_ranks = shape.n_ranks();
        job.ask_each(|rank| format!("rank {rank} {n_ranks}"))?;
        for layout in layouts {
            let sizes: Vec<String> = layout.iter().map(|message| message.bytes.to_string()).collect();
            job.ask_all(&format!("layout {}", sizes.join(" ")))?;
        }
        if let Way::Summation { .. } = way {
            job.ask_all("join")?;
        } else {
            let id = job.ask(0, "id")?;
            job.ask_all(&format!("init {} {id}", word(way)))?;
        }
        Ok(Fleet { way, job, _servers: servers })
    }

    fn rank(&self, meeting: Meeting, rank: usize) -> Command {
        let host = rank / meeting.shape.ranks_per_host;
        let mut command = self.process(host, STEP, meeting);
        command.env("RSUM_RANK", rank.to_string());
        command
    }

    fn server(&self, fleet: &str, meeting: Meeting, server: usize) -> Result<Child> {
        let log = self.folder.join(format!("{fleet}-server-{server}.log"));
        let file = File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        let mut command = self.process(meeting.shape.hosts + server, SUMD, meeting);
        command.stdout(file.try_clone()?).stderr(file);
        command.spawn().with_context(|| format!("cannot start {command:?}"))
    }

    /// A program on a host, before what else this machine does.
    fn process(&self, host: usize, program: &str, meeting: Meeting) -> Command {
        let mut command = self.network.command_on(host, Path::new("nice"));
        command.args(["-n", NICE]).arg(self.programs.join(program));
        command.env("RSCCL_NICS", format!("{}={}", nic(0), address(host, 0))).envs([RING_BUFFER]);
        command.env("RSUM_ROOT", format!("{}:{}", address(0, 0), FIRST_PORT + meeting.number));
        command.env("RSUM_WORKERS", meeting.shape.n_ranks().to_string());
        command.env("RSUM_SERVERS", meeting.n_servers().to_string());
        command.env("RSUM_NIC_MBIT_S", self.rate_mbit.to_string());
        command.env("RSUM_PARTITION_BYTES", PARTITION_BYTES.to_string()).env("RSUM_SECRET", "scaling");
        command
    }
}

/// Who is in a fleet.
#[derive(Clone, Copy, Debug)]
struct Meeting {
    number: u16,
    way: Way,
    shape: Shape,
}

impl Meeting {
    fn n_servers(self) -> usize {
        if let Way::Summation { helpers } = self.way { helpers } else { 0 }
    }
}

impl Fleet {
    /// One step of a layout whose messages are ready at these times: seconds, of the slowest rank.
    pub(super) fn step(&mut self, layout: usize, messages: &[Message]) -> Result<f64> {
        let at: u64 = self.job.ask(0, "now")?.parse().context("nanoseconds")?;
        let at = at + START_NS;
        let readies: Vec<String> =
            messages.iter().map(|message| format!("{:.0}", message.ready_s * 1e9)).collect();
        let command = format!("step {} {layout} {at} {}", word(self.way), readies.join(" "));
        let answers = self.job.ask_all(&command)?;
        let ns = answers.iter().map(|ns| ns.parse::<f64>().with_context(|| format!("nanoseconds: {ns}")));
        Ok(ns.collect::<Result<Vec<f64>>>()?.into_iter().fold(0.0, f64::max) / 1e9)
    }

    /// Ends it in order.
    pub(super) fn leave(mut self) -> Result<()> {
        self.job.ask_all("leave")?;
        self.job.finish()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.0 {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Where logs and results are left.
pub(super) fn folder() -> PathBuf {
    target_dir().join("rig").join("scaling")
}

/// Says so where ranks of a plan would not find the memory that they need.
pub(super) fn check_memory(n_ranks: usize, gradient_bytes: u64) -> Result<()> {
    let text = std::fs::read_to_string(MEMORY).with_context(|| format!("cannot read {MEMORY}"))?;
    let Some(free_bytes) = available_bytes(&text) else { return Ok(()) };
    let needed_bytes = (n_ranks as u64).saturating_mul(COPIES * gradient_bytes + RANK_BYTES);
    if needed_bytes > free_bytes {
        let mib = |bytes: u64| bytes >> 20;
        bail!(
            "{n_ranks} ranks with {} MiB of gradients each need some {} MiB of memory, and {} are free; give less \
             --gradients or fewer --hosts, or ask for formulas and simulation alone with --predict",
            mib(gradient_bytes),
            mib(needed_bytes),
            mib(free_bytes)
        );
    }
    Ok(())
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// As the rank program has it.
fn word(way: Way) -> &'static str {
    match way {
        Way::Ring => "ring",
        Way::Hierarchical => "hierarchical",
        Way::Summation { .. } => "summation",
    }
}

/// Parts of 16 kB are small beside what a link of 100 Mbit/s carries in 10 ms, as in the experiments on summation.
pub(super) const PARTITION_BYTES: u64 = 16_000;
/// Steps of 64 KiB, 5 ms at 100 Mbit/s.
const RING_BUFFER: (&str, &str) = ("RSCCL_BUFFSIZE", "524288");
/// What is measured comes before what is built beside it.
const NICE: &str = "-10";
/// From when ranks are told of a step until it begins: all of them have read it by then.
const START_NS: u64 = 100_000_000;
/// Of the rendezvous of summation groups, in namespaces where nobody else listens.
const FIRST_PORT: u16 = 21_000;
const MEMORY: &str = "/proc/meminfo";
/// What each rank gives and gets, and what its service and its connections hold of it.
const COPIES: u64 = 4;
/// A rank without gradients, and its share of servers.
const RANK_BYTES: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_does_not_fit_into_memory_is_refused_in_words() {
        assert!(check_memory(1, 4).is_ok());
        let error = check_memory(100, 1 << 50).unwrap_err().to_string();
        assert!(error.contains("100 ranks") && error.contains("--predict"), "{error}");
        assert_eq!(available_bytes("MemFree: 1 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available_bytes("MemFree: 1 kB\n"), None);
    }
}
