//! Experiments on the summation service, predicted beside measured, on hosts with one NIC each and without ringscope.
//!
//! Source: BytePS (OSDI 2020), and what a prototype in a few lines measured on such hosts.

mod b1;
mod b10;
mod b11;
mod b12;
mod b2;
mod b3;
mod b4;
mod b5;
mod b6;
mod b7;
mod b8;
mod b9;
mod calibration;
mod group;
mod theory;

use std::path::Path;

use anyhow::Result;

use super::report::Report;

/// Which experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Experiment {
    B1,
    B2,
    B3,
    B4,
    B5,
    B6,
    B7,
    B8,
    B9,
    B10,
    B11,
    B12,
}

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Small models and few rounds: says whether it works, and little of how fast.
    pub(super) is_small: bool,
    /// Rounds with random delays.
    pub(super) rounds: Option<u64>,
    /// Deaths of each kind.
    pub(super) repeat: Option<u32>,
}

impl Experiment {
    /// All of them.
    pub(super) const ALL: [Self; 12] = [
        Self::B1,
        Self::B2,
        Self::B3,
        Self::B4,
        Self::B5,
        Self::B6,
        Self::B7,
        Self::B8,
        Self::B9,
        Self::B10,
        Self::B11,
        Self::B12,
    ];

    /// Runs it.
    pub(super) fn run(self, programs: &Path, scale: Scale, report: &mut Report) -> Result<()> {
        let small = scale.is_small;
        let rounds = scale.rounds.unwrap_or(if small { 100 } else { 1000 });
        let repeat = scale.repeat.unwrap_or(if small { 2 } else { 10 });
        match self {
            Self::B1 => b1::run(programs, if small { &b1::QUICK } else { &b1::FULL }, report),
            Self::B2 => b2::run(programs, if small { &b2::QUICK } else { &b2::FULL }, report),
            Self::B3 => b3::run(programs, small, report),
            Self::B4 => b4::run(programs, small, report),
            Self::B5 => b5::run(programs, small, report),
            Self::B6 => b6::run(programs, small, report),
            Self::B7 => b7::run(programs, rounds, report),
            Self::B8 => b8::run(programs, rounds, report),
            Self::B9 => b9::run(programs, small, report),
            Self::B10 => b10::run(programs, small, report),
            Self::B11 => b11::run(programs, small, report),
            Self::B12 => b12::run(programs, repeat, report),
        }
    }
}
