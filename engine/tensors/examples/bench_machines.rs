//! What a transfer between two machines costs their processors in user space: over verbs, over TCP messages, and over gRPC (tonic).
//!
//! `bench_machines --machine 0 --address A:port --caller B:port` on machine A, the same with `--machine 1` on B. Each says its own
//! share. The ways take turns in one run. Tensors are neither written nor read by these programs, so that only their way costs. The
//! two ports after those that are given have to be free too.

#![expect(clippy::print_stdout, reason = "a report")]

#[path = "common/grpc.rs"]
mod grpc;

use std::time::Duration;

use clap::Parser;
use rtensor::clock::Deadline;
use rtensor::device::{self, Device, Kind, Role};
use rtensor::error::{Error, Result};
use rtensor::link::{Declaration, EdgeId, Hold, Link};
use rtensor::tensor::{DataType, Shape};

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Parser)]
#[command(about = "User-space processor time of a tensor between two machines")]
struct Arguments {
    /// Which machine this is, 0 or 1.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..2))]
    machine: u8,
    /// host:port of machine 0.
    #[arg(long)]
    address: String,
    /// host:port of machine 1, which gRPC calls too.
    #[arg(long)]
    caller: String,
    /// KiB of a tensor.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    kib: u64,
    /// Tensors there and back over each way in its turn.
    #[arg(long, default_value_t = 10)]
    tensors: u32,
    /// Turns.
    #[arg(long, default_value_t = 4)]
    turns: u32,
}

/// One end of a way, and what this process spent on it.
struct Way {
    name: &'static str,
    link: Link,
    there: EdgeId,
    back: EdgeId,
    spent: Duration,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut ways = ["verbs", "tcp", "grpc"]
        .into_iter()
        .zip(0..)
        .map(|(name, place)| Way::connect(name, place, &arguments))
        .collect::<Result<Vec<_>>>()?;
    // Each once, so that pages and windows are there.
    for turn in 0..=arguments.turns {
        for way in &mut ways {
            let before = user_time()?;
            for _ in 0..if turn == 0 { 1 } else { arguments.tensors } {
                way.round(arguments.machine == 0)?;
            }
            if turn > 0 {
                way.spent += user_time()?.saturating_sub(before);
            }
        }
    }
    let kibs = 2 * arguments.kib * u64::from(arguments.tensors * arguments.turns);
    for way in &mut ways {
        println!("{}: {:.0} ns of user time a KiB", way.name, way.spent.as_secs_f64() * 1e9 / kibs as f64);
        way.link.finish(Deadline::after(PATIENCE))?;
    }
    Ok(())
}

impl Way {
    fn connect(name: &'static str, place: u16, arguments: &Arguments) -> Result<Self> {
        let role = if arguments.machine == 0 { Role::Listen } else { Role::Call };
        let deadline = Deadline::after(PATIENCE);
        let (mut address, mut caller) = (arguments.address.clone(), arguments.caller.clone());
        for _ in 0..place {
            (address, caller) = (grpc::next_port(&address)?, grpc::next_port(&caller)?);
        }
        let device: Box<dyn Device> = match name {
            "grpc" => Box::new(grpc::connect(role, [&address, &caller], deadline)?),
            name => device::connect(name.parse::<Kind>()?, role, &address, deadline)?,
        };
        let mut link = Link::new(device);
        let shape = Shape::new(DataType::F32, &[arguments.kib * 256])?;
        let (sent, received) = if arguments.machine == 0 { ("there", "back") } else { ("back", "there") };
        let sender = Declaration::static_sender(sent, shape.clone(), Hold::By(received.to_owned()));
        let (sender, receiver) =
            (link.declare(sender)?, link.declare(Declaration::static_receiver(received, shape))?);
        let (there, back) = if arguments.machine == 0 { (sender, receiver) } else { (receiver, sender) };
        link.ready(deadline)?;
        Ok(Self { name, link, there, back, spent: Duration::ZERO })
    }

    /// A tensor from machine 0 to machine 1, and one back.
    fn round(&mut self, is_first: bool) -> Result<()> {
        if is_first {
            self.send(self.there)?;
            self.receive(self.back)
        } else {
            self.receive(self.there)?;
            self.send(self.back)?;
            // Over messages this end has to take part until the tensor has gone.
            self.link.flush(Deadline::after(PATIENCE))
        }
    }

    fn send(&mut self, edge: EdgeId) -> Result<()> {
        self.link.wait_to_send(edge, Deadline::after(PATIENCE))?;
        self.link.send(edge)
    }

    fn receive(&mut self, edge: EdgeId) -> Result<()> {
        self.link.wait(edge, Deadline::after(PATIENCE))?;
        self.link.release(edge)
    }
}

/// Of all threads of this process, without what the kernel does for them.
fn user_time() -> Result<Duration> {
    let told = std::fs::read_to_string("/proc/self/stat")
        .map_err(|error| Error::system("reading /proc/self/stat", error))?;
    // After the name, in brackets: state, 10 numbers, and the time in hundredths of a second (`man proc`).
    let ticks = told.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(11)?.parse::<u64>().ok());
    Ok(Duration::from_millis(10 * ticks.unwrap_or(0)))
}
