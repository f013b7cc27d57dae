//! One process of an experiment on the summation service. It reads commands from stdin, a JSON object each line, and
//! answers each with one line on stdout, which begins with `ok`, and a JSON object, or with `error`. `cargo xtask rig` is
//! what starts it, one process on each host.

#![expect(clippy::print_stdout, reason = "answers are what stdout is for")]

mod asynchronous;
mod delays;
mod halves;
mod member;
mod naive;
mod stream;
mod timed;
mod values;

use std::io::BufRead as _;
use std::net::IpAddr;

use clap::Parser;
use rsccl::summation::trial;
use serde::Deserialize;
use serde_json::{Value, json};

use delays::Delayed;
use member::{Join, Member};
use stream::Sink;
use timed::Rounds;

/// Why a command could not be obeyed.
type Failure = Box<dyn std::error::Error>;

/// Obey commands from stdin, as one process of an experiment on the summation service.
#[derive(Debug, Parser)]
#[command(
    name = "summing",
    after_help = "Example:
  echo '{\"do\":\"halves\",\"elements\":20000,\"workers\":[4]}' | summing"
)]
struct Cli {}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Command {
    /// A new id of a group whose processes meet at an address of this host.
    Id { address: IpAddr },
    /// Joins a group, and leaves the one before.
    Join(Join),
    /// Rounds of all tensors at once, each from a barrier on, with their times.
    Rounds(Rounds),
    /// Rounds of the first tensor with delays between push and pull.
    Delayed(Delayed),
    /// The same with a server that adds as contributions come, into one buffer, as BytePS does.
    NaiveDelayed {
        address: IpAddr,
        port: u16,
        worker: usize,
        n_workers: usize,
        elements: usize,
        delayed: Delayed,
    },
    /// Is such a server until its workers have gone; answers with its port at once.
    NaiveServe { address: IpAddr, n_workers: usize },
    /// Listens for one stream; answers with the port at once.
    Sink { address: IpAddr },
    /// Takes the stream in, and says how fast it came.
    Drain,
    /// Sends a stream to a sink.
    Pour { address: IpAddr, port: u16, bytes: usize },
    /// Rounds until they fail, and why.
    Endless,
    /// Serves until the group has ended or failed, and why it did.
    Serve,
    /// Leaves the group, and tells what went over the network; a server serves until then.
    Leave,
    /// What rounding each sum to 16 bits costs, beside rounding once.
    Halves { elements: usize, workers: Vec<usize> },
    /// Asynchronous sums of many made-up schedules.
    Asynchronous { schedules: u64 },
}

fn main() {
    Cli::parse();
    let mut process = Process::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match process.obey(&line) {
            Ok(answer) => println!("ok {answer}"),
            Err(error) => println!("error {}", error.to_string().replace('\n', " ")),
        }
    }
}

/// What a process has from one command to the next.
#[derive(Debug, Default)]
struct Process {
    member: Option<Member>,
    sink: Option<Sink>,
}

impl Process {
    fn obey(&mut self, line: &str) -> Result<Value, Failure> {
        match serde_json::from_str(line)? {
            Command::Id { address } => Ok(json!({ "id": member::hex(&trial::new_id(address)?) })),
            Command::Join(join) => {
                self.member = None;
                self.member.insert(Member::join(join)?).predicted()
            }
            Command::Rounds(rounds) => rounds.run(self.member()?),
            Command::Delayed(delayed) => delayed.run(self.member()?),
            Command::NaiveDelayed { address, port, worker, n_workers, elements, delayed } => {
                let server = (address, port).into();
                delayed.run(&mut naive::Worker::connect(server, worker, n_workers, elements)?)
            }
            Command::NaiveServe { address, n_workers } => {
                Ok(json!({ "port": naive::serve(address, n_workers)? }))
            }
            Command::Sink { address } => {
                Ok(json!({ "port": self.sink.insert(Sink::open(address)?).port()? }))
            }
            Command::Drain => self.sink.take().ok_or("there is no sink")?.drain(),
            Command::Pour { address, port, bytes } => stream::pour((address, port).into(), bytes),
            Command::Endless => Ok(json!({ "error": self.member()?.until_failure() })),
            Command::Serve => Ok(json!({ "error": self.leave().err().map(|failed| failed.to_string()) })),
            Command::Leave => {
                let trial::Traffic { sent_bytes, received_bytes, pushed_bytes } = self.leave()?;
                Ok(json!({ "sent": sent_bytes, "received": received_bytes, "pushed": pushed_bytes }))
            }
            Command::Halves { elements, workers } => halves::compare(elements, &workers),
            Command::Asynchronous { schedules } => asynchronous::replay(schedules),
        }
    }

    fn member(&mut self) -> Result<&mut Member, Failure> {
        self.member.as_mut().ok_or_else(|| "this process is in no group".into())
    }

    fn leave(&mut self) -> Result<trial::Traffic, Failure> {
        self.member()?;
        let left = self.member.take().map(Member::leave).transpose()?;
        Ok(left.unwrap_or_default())
    }
}
