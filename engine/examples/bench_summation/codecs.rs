//! What codecs cost a core, and what they save two workers over loopback and over links of given rates.

use std::process::Command;
use std::time::Instant;

use clap::Args;
use rsccl::summation::bench::{Place, Rank as Member, meet};
use rsccl::summation::codec::{Choice, Codec, Feedback};
use rsccl::summation::tensor::{DataType, Declaration};

use crate::round_trips::{WORKERS, Worker, core_seconds};
use crate::spread;

const CODECS: [&str; 4] = ["f16", "bf16", "one-bit", "top-k:0.01"];
/// Elements of a part, as by default.
const PART_ELEMENTS: usize = 1_024_000;
const PARTITION_BYTES: u64 = 4 * PART_ELEMENTS as u64;
/// Parts in turn, so that none is in a cache of its core when its turn comes.
const PARTS: usize = 16;
/// Each worker's address has the rate of a link of its own, both ways: what one sends is what the other receives.
const SHAPE: &str = "rate=$1; shift
ip link set lo mtu 9000 up
tc qdisc add dev lo root handle 1: htb default 9
tc class add dev lo parent 1: classid 1:9 htb rate 100gbit quantum 60000
for worker in 0 1; do
  tc class add dev lo parent 1: classid 1:1$worker htb rate ${rate}mbit burst 256k cburst 256k quantum 60000
  tc filter add dev lo parent 1: protocol ip u32 match ip src 127.0.2$worker.1/32 flowid 1:1$worker
done
exec \"$@\"";

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Rounds of each case
    #[arg(long, default_value_t = 9, value_name = "N")]
    rounds: usize,
    /// Of a tensor, in kB (10^3 bytes)
    #[arg(long, default_value_t = 32_000, value_name = "N")]
    kilobytes: u64,
    /// Rates of the workers' links in Mbit/s (root, iproute2 and util-linux)
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "10000,1000,100")]
    links: Vec<u32>,
    /// In a network whose link is shaped
    #[arg(long, hide = true)]
    inside: bool,
}

/// A worker, which this program starts itself.
#[derive(Args, Debug)]
pub(crate) struct CodecRank {
    #[arg(long)]
    meeting: String,
    #[arg(long)]
    rank: usize,
    #[arg(long)]
    elements: u64,
    #[arg(long)]
    codec: Option<Choice>,
}

impl Options {
    pub(crate) fn run(&self) -> Result<(), String> {
        if self.inside {
            return self.sum();
        }
        println!(
            "one core, {PARTS} parts of {PARTITION_BYTES} bytes, {} rounds: GB/s of f32 by processor time, median",
            self.rounds
        );
        println!("{:<12} {:>8} {:>8} {:>8}", "", "encode", "decode", "add");
        CODECS.into_iter().try_for_each(|codec| self.cost(codec))?;
        println!("\n{WORKERS} workers, a tensor of {} kB, {} rounds, loopback", self.kilobytes, self.rounds);
        self.sum()?;
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        for rate in &self.links {
            println!("\nthe same, links of {rate} Mbit/s");
            let mut command = Command::new("unshare");
            command.args(["--net", "sh", "-ec", SHAPE, "shape", &rate.to_string()]).arg(&program);
            command.args(["codecs", "--inside", "--kilobytes", &self.kilobytes.to_string()]);
            let status = command.args(["--rounds", &self.rounds.to_string()]).status();
            if !status.map_err(|error| format!("unshare: {error}"))?.success() {
                return Err("links are shaped as root, with iproute2 and util-linux".to_owned());
            }
        }
        Ok(())
    }

    /// As workers encode and services add.
    fn cost(&self, codec: &str) -> Result<(), String> {
        let choice: Choice = codec.parse().map_err(text)?;
        let coder = choice.codec();
        let gradients: Vec<Vec<f32>> = (0..PARTS).map(|part| gradient(part, PART_ELEMENTS)).collect();
        let (mut feedback, mut encoded) = (vec![Feedback::default(); PARTS], vec![Vec::new(); PARTS]);
        let mut sums = vec![vec![0.0; PART_ELEMENTS]; PARTS];
        let mut rates = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..=self.rounds {
            let start = Busy::now();
            for ((gradient, feedback), into) in gradients.iter().zip(&mut feedback).zip(&mut encoded) {
                encode(choice, coder.as_ref(), gradient, feedback, into)?;
            }
            let at = start.elapsed();
            encoded
                .iter()
                .zip(&mut sums)
                .try_for_each(|(from, into)| coder.decode(from, into))
                .map_err(text)?;
            let decoded = start.elapsed();
            encoded.iter().zip(&mut sums).try_for_each(|(from, into)| coder.add(from, into)).map_err(text)?;
            let took = [at, decoded - at, start.elapsed() - decoded];
            let rate = |seconds: f64| (PARTS as u64 * PARTITION_BYTES) as f64 / seconds / 1e9;
            rates.iter_mut().zip(took).for_each(|(rates, took)| rates.push(rate(took)));
        }
        // The first round is of new memory.
        let [encode, decode, add] = rates.map(|rates| spread(rates[1..].to_vec()).0);
        println!("{codec:<12} {encode:>8.1} {decode:>8.1} {add:>8.1}");
        Ok(())
    }

    fn sum(&self) -> Result<(), String> {
        println!("{:<12} {:>12} {:>20} {:>8} {:>12}", "", "median", "least to most", "GB/s", "core s/GB");
        self.sum_with(None)?;
        CODECS.into_iter().try_for_each(|codec| self.sum_with(Some(codec)))
    }

    fn sum_with(&self, codec: Option<&str>) -> Result<(), String> {
        let (meeting, bytes) = (meet()?, self.kilobytes * 1000);
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let spawn = |rank: usize| {
            let mut command = Command::new(&program);
            command.args(["codec-rank", "--meeting", &meeting, "--rank", &rank.to_string()]);
            command.args(["--elements", &(bytes / 4).to_string()]);
            command.args(codec.iter().flat_map(|codec| ["--codec", codec]));
            command.env("RSCCL_SHM_DISABLE", "1").env("RSCCL_NICS", format!("lo=127.0.2{rank}.1"));
            command.env("RSCCL_HOST", format!("host-{rank}")).env("NCCL_PROFILER_PLUGIN", "none");
            Worker::start(command)
        };
        let mut workers = (0..WORKERS).map(spawn).collect::<Result<Vec<_>, _>>()?;
        workers.iter_mut().try_for_each(|worker| worker.word().map(drop))?;
        let (mut seconds, mut busy) = (Vec::new(), 0.0);
        for round in 0..=self.rounds {
            let used = |workers: &[Worker]| {
                workers.iter().map(|worker| core_seconds(worker.id())).sum::<Result<f64, _>>()
            };
            let before = used(&workers)?;
            workers.iter_mut().try_for_each(Worker::order)?;
            let took = workers.iter_mut().map(Worker::word).collect::<Result<Vec<_>, _>>()?;
            if round > 0 {
                seconds.push(took.into_iter().fold(0.0, f64::max));
                busy += used(&workers)? - before;
            }
        }
        workers.iter_mut().for_each(Worker::dismiss);
        workers.iter_mut().try_for_each(Worker::end)?;
        let (median, least, most) = spread(seconds);
        println!(
            "{:<12} {:>9.1} ms {:>9.1} to {:>7.1} {:>8.3} {:>12.2}",
            codec.unwrap_or("none"),
            median * 1e3,
            least * 1e3,
            most * 1e3,
            bytes as f64 / median / 1e9,
            busy / self.rounds as f64 / (WORKERS as f64 * bytes as f64) * 1e9
        );
        Ok(())
    }
}

impl CodecRank {
    /// Says 0 when it has started, and then, for each line, the seconds of a round.
    pub(crate) fn run(&self) -> Result<(), String> {
        let Self { meeting, rank, elements, codec } = self;
        let tensor =
            Declaration { name: "gradient".to_owned(), elements: *elements, data_type: DataType::F32 };
        let member = Member::join(Place {
            meeting,
            n_workers: WORKERS,
            n_servers: 0,
            rank: *rank,
            partition_bytes: PARTITION_BYTES,
            tensors: &[tensor],
            codec: *codec,
            frame_bytes: None,
        })?;
        let gradient: Vec<u8> = gradient(*rank, usize::try_from(*elements).unwrap_or(0))
            .into_iter()
            .flat_map(f32::to_ne_bytes)
            .collect();
        let mut sums = gradient.clone();
        println!("0");
        for line in std::io::stdin().lines() {
            line.map_err(text)?;
            sums.copy_from_slice(&gradient);
            let start = Instant::now();
            member.push_pull(&mut sums)?;
            println!("{}", start.elapsed().as_secs_f64());
        }
        member.leave()
    }
}

/// Processor time of this thread: others may be at work on the machine.
struct Busy(f64);

impl Busy {
    fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Self(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
    }

    /// Seconds of it since then.
    fn elapsed(&self) -> f64 {
        Self::now().0 - self.0
    }
}

fn encode(
    choice: Choice,
    codec: &dyn Codec,
    gradient: &[f32],
    feedback: &mut Feedback,
    into: &mut Vec<u8>,
) -> Result<(), String> {
    into.clear();
    let done = if choice.wants_feedback() {
        feedback.encode(codec, gradient, into)
    } else {
        codec.encode(gradient, into)
    };
    done.map_err(text)
}

/// Sums of four uniform numbers: many small ones and few large ones, as gradients are.
fn gradient(seed: usize, elements: usize) -> Vec<f32> {
    let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 16_777_216.0 - 0.5
    };
    (0..elements).map(|_| uniform() + uniform() + uniform() + uniform()).collect()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
