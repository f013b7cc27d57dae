//! Simulates the push-pulls of a training step and prints what they take: `simulate_summation --help`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command's output")]

#[path = "simulate_summation/fabric.rs"]
mod fabric;
#[path = "simulate_summation/rounds.rs"]
mod rounds;

use std::process::ExitCode;

use clap::Parser;
use rsccl::summation::placement::machines::Machines;
use rsccl::summation::placement::predict::predict;
use rsccl::summation::placement::strategy::Strategy;
use rsccl::summation::tensor::{DataType, Declaration, Declarations};

use fabric::{Nanos, Nic};
use rounds::{Message, Step};

/// Bytes per second of 1 Gb/s.
const GBPS: f64 = 125e6;
/// Parts that a service owns at least, on the average, where nothing else is said: of fewer whole ones, shares cannot be made.
const PARTS_PER_SERVICE: u64 = 8;
/// Bytes of a part at most, where nothing else is said: as on the rig's slow links.
const MOST_PARTITION_BYTES: u64 = 16_000;
/// And at least: a frame's header is no longer small beside fewer.
const LEAST_PARTITION_BYTES: u64 = 512;

/// Simulate the pushes and pulls of a step over workers and servers, placed as the service places them.
///
/// Every machine has a NIC with both directions. Workers push parts in the order of their tensors, each when it is ready; the owner
/// of a part answers all workers when the last one's contribution is in. Sums take no time, headers no bytes.
#[derive(Debug, Parser)]
#[command(
    name = "simulate_summation",
    after_help = "Examples:
  simulate_summation --machines 8,4 --gbps 0.1 --message 4194304@0
  simulate_summation --machines 1024,512 --message 1048576@200000 --message 3145728@600000 --json"
)]
struct Cli {
    /// Workers and servers
    #[arg(long, value_name = "N,K", value_parser = pair, default_value = "4,2")]
    machines: (usize, usize),
    /// A tensor, and when its gradients are ready, in microseconds; in this order
    #[arg(long, value_name = "BYTES@US", value_parser = message, required = true)]
    message: Vec<Message>,
    /// Bytes of a part at most [default: 16000, less where services would own fewer than 8 parts each, but 512 at least]
    #[arg(long, value_name = "N")]
    partition_bytes: Option<u64>,
    /// Bandwidth of a NIC, in 10^9 bits per second and direction
    #[arg(long, default_value_t = 100.0, value_name = "N")]
    gbps: f64,
    /// Latency from machine to machine, in microseconds
    #[arg(long, default_value_t = 5.0, value_name = "US")]
    alpha_us: f64,
    /// One JSON object instead of words
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match Cli::parse().print() {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("simulate_summation: {what}");
            ExitCode::from(64)
        }
    }
}

impl Cli {
    fn print(&self) -> Result<(), String> {
        let (n_workers, n_servers) = self.machines;
        let total_bytes: u64 = self.message.iter().map(|message| message.bytes).sum();
        let partition_bytes = self.partition_bytes.unwrap_or_else(|| {
            let services = (n_workers + n_servers) as u64;
            let few = total_bytes / services.max(1) / PARTS_PER_SERVICE;
            few.clamp(LEAST_PARTITION_BYTES, MOST_PARTITION_BYTES)
        });
        let tensors = (0..).zip(&self.message).map(|(index, message)| Declaration {
            name: format!("gradient.{index}"),
            elements: (message.bytes / 4).max(1),
            data_type: DataType::F32,
        });
        let declarations = Declarations::of(partition_bytes, tensors).map_err(|error| error.to_string())?;
        let nic = Nic::new(self.gbps * GBPS, self.alpha_us).ok_or("rates and times must be positive")?;
        let machines = Machines::even(n_workers, n_servers, nic.whole_bytes_per_s());
        let machines = machines.map_err(|refused| refused.to_string())?;
        let placement = Strategy::Greedy.place(0, &declarations, &machines);
        let placement = placement.map_err(|refused| refused.to_string())?;
        let end =
            Step { messages: &self.message, declarations: &declarations, placement: &placement, n_workers }
                .simulate(nic, n_workers + n_servers);
        let predicted = predict(&machines, &placement);
        let end_s = seconds(end);
        if self.json {
            println!(
                "{}",
                serde_json::json!({
                    "n_workers": n_workers,
                    "n_servers": n_servers,
                    "size_bytes": total_bytes,
                    "partition_bytes": partition_bytes,
                    "n_parts": declarations.n_parts(),
                    "end_s": end_s,
                    "busiest_s": predicted.seconds(),
                    "optimal_s": predicted.optimal_seconds(),
                })
            );
            return Ok(());
        }
        println!(
            "{n_workers} workers and {n_servers} servers · {total_bytes} bytes in {} parts",
            declarations.n_parts()
        );
        println!("simulated      {:.6} ms", 1e3 * end_s);
        println!("busiest NIC    {:.6} ms", 1e3 * predicted.seconds());
        println!("best shares    {:.6} ms", 1e3 * predicted.optimal_seconds());
        Ok(())
    }
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

fn pair(text: &str) -> Result<(usize, usize), String> {
    let pair = text.split_once(',').and_then(|(n, k)| Some((n.parse().ok()?, k.parse().ok()?)));
    pair.ok_or_else(|| "write it as N,K, such as 8,4".to_owned())
}

fn message(text: &str) -> Result<Message, String> {
    let parts =
        text.split_once('@').and_then(|(bytes, us)| Some((bytes.parse().ok()?, us.parse::<f64>().ok()?)));
    let (bytes, us) = parts.ok_or_else(|| "write it as BYTES@US, such as 4194304@0".to_owned())?;
    let ready = fabric::nanos(us / 1e6).ok_or_else(|| format!("{us} is no time"))?;
    Ok(Message { bytes, ready })
}
