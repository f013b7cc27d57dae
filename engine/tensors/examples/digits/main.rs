//! A small model learns to read handwritten digits, as one data-flow graph over two machines: parameters on one, the worker
//! on the other. No line of it sends or receives: the analyser finds the edges, and the device decides how they travel.
//!
//! All arithmetic is single precision in a fixed order, so the parameters have the same bits over every device.
//!
//! `digits --device local` starts the worker itself. On two machines: `digits --device verbs --machine 0 --address host:port`
//! on the first, and the same with `--machine 1` on the second.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

mod data;
#[path = "../common/grpc.rs"]
mod grpc;
mod model;
mod ops;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

use clap::Parser;
use rtensor::clock::Deadline;
use rtensor::device::{self, Device, Kind, Role};
use rtensor::error::{Error, Result};
use rtensor::executor::{Executor, Options};
use rtensor::graph::{MachineId, Node, analyse};
use sha2::{Digest, Sha256};

use crate::data::Data;
use crate::model::{Losses, Model, PARAMETERS, WORKER};

const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Parser, Clone)]
#[command(about = "Handwritten digits, learnt by a graph over two machines")]
struct Arguments {
    /// How tensors travel: local, tcp, verbs or grpc.
    #[arg(long, default_value = "local")]
    device: String,
    /// Steps of 96 pictures.
    #[arg(long, default_value_t = 100)]
    steps: u32,
    /// Which machine this is: 0 has the parameters, 1 works. Without it, both are started here.
    #[arg(long, requires = "address")]
    machine: Option<usize>,
    /// Where they meet: a name for local, otherwise host:port of machine 0.
    #[arg(long)]
    address: Option<String>,
    /// With gRPC, where machine 1 can be called: host:port. Otherwise the next port of the same host.
    #[arg(long)]
    caller: Option<String>,
    /// The pictures.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/digits/digits.csv.gz"))]
    data: PathBuf,
}

fn main() -> ExitCode {
    let outcome = run(&Arguments::parse());
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("digits: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let data = Data::read(&arguments.data).map_err(|error| {
        Error::system(format!("reading the pictures {}", arguments.data.display()), error)
    })?;
    match arguments.machine {
        Some(machine) => train(arguments, MachineId(machine), &data),
        None => start_both(arguments, &data),
    }
}

/// The other machine as a process, this one here.
fn start_both(arguments: &Arguments, data: &Data) -> Result<()> {
    let address = match arguments.device.as_str() {
        "local" => format!("digits-{}", std::process::id()),
        _ => free_address()?,
    };
    let mut worker = start_worker(arguments, &address)?;
    let here = Arguments { address: Some(address), ..arguments.clone() };
    let outcome = train(&here, PARAMETERS, data);
    if outcome.is_err() {
        let _ = worker.kill();
    }
    let status = worker.wait().map_err(|error| Error::system("waiting for the worker", error))?;
    outcome?;
    if status.success() { Ok(()) } else { Err(Error::Usage("the worker failed".to_owned())) }
}

fn start_worker(arguments: &Arguments, address: &str) -> Result<Child> {
    let failed = |error| Error::system("starting the worker", error);
    Command::new(std::env::current_exe().map_err(failed)?)
        .args(["--machine", "1", "--address", address, "--device", &arguments.device])
        .args(["--steps", &arguments.steps.to_string(), "--data"])
        .arg(&arguments.data)
        .spawn()
        .map_err(failed)
}

/// One of which the next port is free too.
fn free_address() -> Result<String> {
    let failed = |error| Error::system("looking for a free port", error);
    loop {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        if port < u16::MAX && std::net::TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return Ok(format!("127.0.0.1:{port}"));
        }
    }
}

fn connect(arguments: &Arguments, machine: MachineId) -> Result<Box<dyn Device>> {
    let role = if machine == PARAMETERS { Role::Listen } else { Role::Call };
    let address = arguments.address.as_deref().unwrap_or_default();
    let deadline = Deadline::after(PATIENCE);
    if arguments.device == "grpc" {
        let caller = arguments.caller.clone().map_or_else(|| grpc::next_port(address), Ok)?;
        return Ok(Box::new(grpc::connect(role, [address, &caller], deadline)?));
    }
    let no_such = |error| Error::Usage(format!("{error}, and in this program grpc"));
    let kind: Kind = arguments.device.parse().map_err(no_such)?;
    device::connect(kind, role, address, deadline)
}

fn train(arguments: &Arguments, machine: MachineId, data: &Data) -> Result<()> {
    let model = Model::new()?;
    let plan = analyse(&model.graph)?;
    let peer = if machine == PARAMETERS { WORKER } else { PARAMETERS };
    let devices = BTreeMap::from([(peer, connect(arguments, machine)?)]);
    let losses = Losses::default();
    let kernel = |node: &Node| model.kernel(node, data, &losses);
    let options = Options { patience: PATIENCE, ..Options::default() };
    let mut executor = Executor::new(&model.graph, &plan, machine, devices, kernel, options)?;
    let set_up = executor.links().get(&peer).map(|link| link.counts()).unwrap_or_default();
    for _ in 0..arguments.steps {
        executor.iterate()?;
    }
    executor.finish()?;
    if machine != PARAMETERS {
        return Ok(());
    }
    let parameters: Vec<&[u8]> =
        model.parameters().iter().filter_map(|tensor| executor.kept(*tensor)).collect();
    let mut digest = Sha256::new();
    parameters.iter().for_each(|bytes| digest.update(bytes));
    let hash: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let accuracy = model::accuracy(&parameters, data);
    let losses = losses.borrow();
    let (first, last) =
        (losses.first().copied().unwrap_or(f32::NAN), losses.last().copied().unwrap_or(f32::NAN));
    println!("{}: loss {first:.6} to {last:.6}, accuracy {accuracy:.4}, parameters {hash}", arguments.device);
    let (tally, static_edges) =
        (executor.tally(), plan.edges.iter().filter(|edge| edge.shape.is_some()).count());
    let counts = executor.links().get(&peer).map(|link| link.counts()).unwrap_or_default();
    println!(
        "{} edges, {static_edges} static; {} of {} polls found a tensor; of this machine in {} steps: {} work requests, \
         {} messages, {} bytes copied, {} registrations after set-up",
        plan.edges.len(),
        tally.hits,
        tally.polls,
        arguments.steps,
        counts.work_requests - set_up.work_requests,
        counts.messages - set_up.messages,
        counts.copied_bytes - set_up.copied_bytes + tally.copied_bytes,
        counts.registrations - set_up.registrations,
    );
    Ok(())
}
