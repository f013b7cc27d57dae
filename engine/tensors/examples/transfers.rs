//! Tensors of random shapes, at random moments, between two machines: each is looked at byte by byte. 10 000 static ones,
//! 10 000 dynamic ones, and as many mixed, or a share of them.
//!
//! `transfers --device verbs --machine 0 --address host:port` on one machine, and the same with `--machine 1` on the other.
//! It ends with an error at the first tensor that is not whole, or that does not come.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it checks, and fails by panicking")]
#![expect(clippy::print_stdout, reason = "a report")]

#[path = "../tests/common/contents.rs"]
mod contents;
#[path = "../tests/common/mixes.rs"]
mod mixes;

use std::time::Duration;

use clap::Parser;
use rtensor::clock::Deadline;
use rtensor::device::{self, Role};
use rtensor::error::Result;

use crate::contents::Random;
use crate::mixes::{Edges, LINKS, Mix, run};

#[derive(Parser)]
#[command(about = "Random tensors between two machines, each looked at")]
struct Arguments {
    /// How tensors travel: local, tcp or verbs.
    #[arg(long)]
    device: device::Kind,
    /// Which machine this is, 0 or 1.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..2))]
    machine: u8,
    /// Where they meet: a name for local, otherwise host:port of machine 0.
    #[arg(long)]
    address: String,
    /// One in so many of the 30 000 transfers.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    share: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let role = if arguments.machine == 0 { Role::Listen } else { Role::Call };
    for mix in [Mix::Static, Mix::Dynamic, Mix::Both] {
        let mut random = Random(mix as u64 + 1);
        let (mut transfers, mut requests) = (0, 0);
        for number in 0..LINKS {
            let edges = Edges::random(mix, &mut random);
            let iterations = edges.iterations().div_ceil(arguments.share);
            let deadline = Deadline::after(Duration::from_secs(60));
            let device = device::connect(arguments.device, role, &arguments.address, deadline)?;
            let seed = number + 1000 * u64::from(arguments.machine);
            let link = run(device, &edges, arguments.machine == 0, iterations, seed);
            transfers += link.polls().hits;
            requests += link.counts().work_requests;
        }
        println!("{mix:?}: {transfers} tensors came and were whole; {requests} work requests of this end");
    }
    Ok(())
}
