//! Schedules over a simulated fabric: when each rank is done, how many bytes each link and port carries, whether every
//! result is right, and who waits for whom when a rank is lost.
//!
//! The same schedules run here as over real transports. There is no clock and no thread: time is a number, equal input
//! gives equal output, and 16 384 ranks fit into one process. What is simulated: latency and bandwidth of each port, in
//! the order of asking; the cost of reducing; the order that the schedule's data and connections impose. What is not:
//! bounded buffers of transports, their cutting of large transfers, congestion inside the network.

#[cfg(test)]
mod algorithms_tests;
pub mod closed_form;
mod dataflow;
pub mod experiment;
pub mod fabric;
mod memory;
mod ordered;
pub mod outcome;
#[cfg(test)]
mod tests;
mod time;
mod value;

use std::time::Duration;

use dataflow::follow;
use fabric::Fabric;
use outcome::{Outcome, port_uses};
use time::Picos;
use value::Meaning;

use crate::collective::primitive::Primitive;
use crate::collective::schedule::Schedule;

/// One operation to be simulated.
pub(crate) struct Job<'a> {
    fabric: &'a Fabric,
    /// One for each channel.
    schedules: &'a [Box<dyn Schedule + 'a>],
    meaning: Meaning,
    /// Bytes of an element, and of a partial result.
    element_bytes: usize,
    partial_bytes: usize,
    reduce_picos_per_byte: f64,
    lose: Option<(usize, Picos)>,
}

impl<'a> Job<'a> {
    /// `primitive` over `count` elements of 4 bytes, as its call counts them.
    pub(crate) fn new(
        fabric: &'a Fabric,
        schedules: &'a [Box<dyn Schedule + 'a>],
        primitive: Primitive,
        count: usize,
    ) -> Self {
        Self {
            fabric,
            schedules,
            meaning: Meaning::new(primitive, count, fabric.n_ranks(), 1),
            element_bytes: 4,
            partial_bytes: 4,
            reduce_picos_per_byte: time::picos_per_byte(fabric.reduced_bytes_per_s),
            lose: None,
        }
    }

    /// The same with a rank that is lost at a time: nothing that it had not ended by then happens.
    pub(crate) fn losing(mut self, rank: usize, at: Duration) -> Self {
        self.lose = Some((rank, time::from_duration(at)));
        self
    }

    /// The same with elements and partial results of other sizes.
    pub(crate) fn of_bytes(mut self, element_bytes: usize, partial_bytes: usize) -> Self {
        (self.element_bytes, self.partial_bytes) = (element_bytes, partial_bytes);
        self
    }

    fn n_ranks(&self) -> usize {
        self.fabric.n_ranks()
    }

    fn bytes(&self, len: usize, partial: bool) -> u64 {
        (len * if partial { self.partial_bytes } else { self.element_bytes }) as u64
    }
}

/// Runs one operation.
pub(crate) fn simulate(job: &Job<'_>) -> Outcome {
    let pass = follow(job);
    let holds = pass.flaw.is_some() || pass.in_order && pass.is_complete() && job.lose.is_none();
    let (ports, fates, mut links, n_transfers) = if holds {
        (pass.ports, pass.fates, pass.links, pass.n_transfers)
    } else {
        let pass = ordered::run(job);
        (pass.ports, pass.fates, pass.links, pass.n_transfers)
    };
    links.sort_unstable_by_key(|link| (link.from, link.to));
    Outcome { fates, links, ports: port_uses(job.fabric, &ports), n_transfers, flaw: pass.flaw }
}
