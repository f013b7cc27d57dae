//! Prints how close each way of placing parts comes to the best time.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command's output")]

use std::process::ExitCode;

use clap::Parser;
use rsccl::summation::placement::machines::{Machines, Refused};
use rsccl::summation::placement::models::Model;
use rsccl::summation::placement::predict::{Prediction, predict};
use rsccl::summation::placement::strategy::Strategy;
use rsccl::summation::tensor::{DEFAULT_PARTITION_BYTES, Declarations, DeclareError};

/// Bytes per second of 1 Gb/s.
const GBPS: f64 = 125e6;

/// Compare ways to place a model's parts: the time of one push-pull over the least that is possible.
#[derive(Debug, Parser)]
#[command(
    name = "placement",
    after_help = "Examples:
  cargo xtask placement -- --model vgg-16 --machines 8,4
  cargo xtask placement -- --strategy greedy --json
  cargo xtask placement -- --odd-worker 3@25 --nodes"
)]
struct Cli {
    /// vgg-16, resnet-50 or bert-large [default: all]
    #[arg(long, value_name = "NAME", value_parser = model)]
    model: Vec<Model>,
    /// Workers and servers
    #[arg(long, value_name = "N,K", value_parser = pair, default_values = ["4,2", "8,4", "32,16"])]
    machines: Vec<(usize, usize)>,
    /// greedy, key-order, shipped, hash-mod-d, good-hash-mod-d, hash-mod-services, all-reduce, parameter-server or equal
    /// [default: all]
    #[arg(long, value_name = "NAME", value_parser = strategy)]
    strategy: Vec<Strategy>,
    /// Bytes of a part at most
    #[arg(long, default_value_t = DEFAULT_PARTITION_BYTES, value_name = "N")]
    partition_bytes: u64,
    /// Bandwidth of a NIC, in 10^9 bits per second and direction
    #[arg(long, default_value_t = 100.0, value_name = "N")]
    gbps: f64,
    /// A worker whose NIC has another bandwidth
    #[arg(long, value_name = "WORKER@GBPS", value_parser = odd_worker)]
    odd_worker: Vec<(usize, f64)>,
    /// The bytes and time of every machine
    #[arg(long)]
    nodes: bool,
    /// One JSON object for each model and number of machines, instead of words
    #[arg(long)]
    json: bool,
}

/// What was found for a model and its machines.
struct Row<'a> {
    model: Model,
    declarations: &'a Declarations,
    machines: Machines,
    found: Vec<(Strategy, Result<Prediction, Refused>)>,
}

fn main() -> ExitCode {
    match Cli::parse().print() {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("placement: {what}");
            ExitCode::from(64)
        }
    }
}

impl Cli {
    fn print(&self) -> Result<(), String> {
        let models = if self.model.is_empty() { &Model::ALL[..] } else { &self.model };
        for &model in models {
            let declarations = Declarations::of(self.partition_bytes, model.tensors());
            let declarations = declarations.map_err(|error: DeclareError| error.to_string())?;
            for &(n_workers, n_servers) in &self.machines {
                let machines = self.fleet(n_workers, n_servers)?;
                let row = self.row(model, &declarations, machines);
                if self.json {
                    println!("{}", row.json());
                } else {
                    row.words(self.nodes);
                }
            }
        }
        Ok(())
    }

    fn fleet(&self, n_workers: usize, n_servers: usize) -> Result<Machines, String> {
        let rate = bytes_per_s(self.gbps);
        let mut workers = vec![rate; n_workers];
        for &(worker, gbps) in &self.odd_worker {
            let rate = workers.get_mut(worker).ok_or_else(|| format!("there is no worker {worker}"))?;
            *rate = bytes_per_s(gbps);
        }
        Machines::new(&workers, &vec![rate; n_servers]).map_err(|refused| refused.to_string())
    }

    fn row<'a>(&self, model: Model, declarations: &'a Declarations, machines: Machines) -> Row<'a> {
        let strategies = if self.strategy.is_empty() { &Strategy::ALL[..] } else { &self.strategy };
        let found = strategies.iter().map(|&strategy| {
            let placement = strategy.place(0, declarations, &machines);
            (strategy, placement.map(|placement| predict(&machines, &placement)))
        });
        let found = found.collect();
        Row { model, declarations, machines, found }
    }
}

impl Row<'_> {
    fn words(&self, nodes: bool) {
        println!(
            "{} · {} bytes in {} parts · {} workers, {} servers",
            self.model.name(),
            self.declarations.total_bytes(),
            self.declarations.n_parts(),
            self.machines.n_workers(),
            self.machines.n_servers()
        );
        for (strategy, prediction) in &self.found {
            match prediction {
                Ok(prediction) => line(*strategy, prediction, nodes),
                Err(refused) => println!("  {:<18} {refused}", strategy.name()),
            }
        }
        println!();
    }

    fn json(&self) -> serde_json::Value {
        let found = self.found.iter().map(|(strategy, prediction)| match prediction {
            Ok(prediction) => serde_json::json!({
                "strategy": strategy.name(),
                "over_optimal": prediction.over_optimal(),
                "seconds": prediction.seconds(),
                "binding": prediction.binding().map(|load| load.machine.to_string()),
                "sent_bytes": prediction.loads().iter().map(|load| load.sent_bytes).collect::<Vec<_>>(),
                "loop_back_bytes": prediction.loads().iter().map(|load| load.loop_back_bytes).collect::<Vec<_>>(),
            }),
            Err(refused) => {
                serde_json::json!({"strategy": strategy.name(), "refused": refused.to_string()})
            }
        });
        serde_json::json!({
            "model": self.model.name(),
            "size_bytes": self.declarations.total_bytes(),
            "n_parts": self.declarations.n_parts(),
            "n_workers": self.machines.n_workers(),
            "n_servers": self.machines.n_servers(),
            "strategies": found.collect::<Vec<_>>(),
        })
    }
}

fn line(strategy: Strategy, prediction: &Prediction, nodes: bool) {
    let binding = prediction.binding().map_or_else(String::new, |load| load.machine.to_string());
    println!(
        "  {:<18} {:>6.3} x optimal  {:>9.3} ms  {binding}",
        strategy.name(),
        prediction.over_optimal(),
        1e3 * prediction.seconds()
    );
    for load in prediction.loads().iter().filter(|_| nodes) {
        println!(
            "    {:<16} {:>12} bytes out and in  {:>12} stay  {:>9.3} ms",
            load.machine.to_string(),
            load.sent_bytes,
            load.loop_back_bytes,
            1e3 * load.seconds
        );
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "0 and too much are refused later"
)]
fn bytes_per_s(gbps: f64) -> u64 {
    (gbps * GBPS).round() as u64
}

fn model(name: &str) -> Result<Model, String> {
    Model::from_name(name).ok_or_else(|| format!("there are {}", Model::ALL.map(Model::name).join(", ")))
}

fn strategy(name: &str) -> Result<Strategy, String> {
    Strategy::from_name(name)
        .ok_or_else(|| format!("there are {}", Strategy::ALL.map(Strategy::name).join(", ")))
}

fn pair(text: &str) -> Result<(usize, usize), String> {
    let pair = text.split_once(',').and_then(|(n, k)| Some((n.parse().ok()?, k.parse().ok()?)));
    pair.ok_or_else(|| "write it as N,K, such as 8,4".to_owned())
}

fn odd_worker(text: &str) -> Result<(usize, f64), String> {
    let odd =
        text.split_once('@').and_then(|(worker, gbps)| Some((worker.parse().ok()?, gbps.parse().ok()?)));
    odd.ok_or_else(|| "write it as WORKER@GBPS, such as 3@25".to_owned())
}
