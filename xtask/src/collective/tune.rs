//! The table by which the engine chooses its algorithm and its channels, from measurements in turns.

#![expect(clippy::print_stdout, reason = "the table is what the chore is for")]

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser as _};
use serde::Serialize;

use super::contender::{Contender, Library};
use super::options::{Options, Transport, parse_size};
use super::programs;
use super::rounds::{Cell, Field, Results};

/// A change of algorithm must be worth this much, or noise would cut the table to pieces.
const WORTH: f64 = 0.95;

/// What to measure for the table.
#[derive(Clone, Debug, Args)]
pub(crate) struct Tune {
    /// Primitives: all_reduce, reduce_scatter, all_gather, broadcast, reduce
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "all_reduce,reduce_scatter,all_gather,broadcast,reduce"
    )]
    primitives: Vec<String>,
    /// Algorithms, by their names in RSCCL_ALGO
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "ring,tree,halving-doubling,recursive-doubling,direct"
    )]
    algorithms: Vec<String>,
    /// Numbers of channels
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    channels: Vec<usize>,
    /// Numbers of ranks, in ascending order; each also stands for the numbers below it, down to the one before
    #[arg(long, value_delimiter = ',', default_value = "2,4")]
    ranks: Vec<usize>,
    /// Transports: shared memory gives the rows of one host, TCP those of a host for each rank
    #[arg(long, value_delimiter = ',', default_value = "shm,tcp")]
    transports: Vec<Transport>,
    /// Bytes of the whole buffer, in ascending order
    #[arg(long, value_delimiter = ',', value_parser = parse_size,
        default_value = "256B,1KiB,4KiB,16KiB,64KiB,256KiB,1MiB,4MiB,16MiB,64MiB")]
    sizes: Vec<usize>,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Where the table goes, instead of being printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A rule of the engine's table: see engine/collective/src/collective/choose.rs.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    primitive: String,
    hosts: &'static str,
    ranks: [usize; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    up_to_bytes: Option<usize>,
    algorithm: String,
    channels: usize,
    source: String,
}

#[derive(Debug, Serialize)]
struct Table {
    rows: Vec<Row>,
}

/// What is measured together: all algorithms and channels of one primitive, transport and number of ranks.
struct Group<'a> {
    primitive: &'a str,
    transport: Transport,
    ranks: [usize; 2],
}

impl Tune {
    /// Measures, and prints or writes the table.
    pub(crate) fn run(&self) -> Result<()> {
        let options = self.options()?;
        let programs = programs::build(&options)?;
        let mut rows = Vec::new();
        for primitive in &self.primitives {
            for &transport in &self.transports {
                let mut fewest = 2;
                for &n_ranks in &self.ranks {
                    let mut results = Results::new(&options, &programs);
                    let contenders = self.contenders(primitive, transport);
                    Field::start(&options, &programs, &contenders, n_ranks, &mut results)
                        .measure(&mut results);
                    let group = Group { primitive, transport, ranks: [fewest, n_ranks] };
                    rows.extend(group.rows(&results, &self.sizes));
                    fewest = n_ranks + 1;
                }
            }
        }
        self.write(&Table { rows })
    }

    fn write(&self, table: &Table) -> Result<()> {
        if table.rows.is_empty() {
            bail!("nothing could be measured");
        }
        let json = serde_json::to_string_pretty(table)? + "\n";
        match &self.out {
            Some(path) => fs::write(path, json).with_context(|| format!("cannot write {}", path.display())),
            None => {
                print!("{json}");
                Ok(())
            }
        }
    }

    fn options(&self) -> Result<Options> {
        let only = format!("--only={}", Library::Rsccl.name());
        let rounds = format!("--rounds={}", self.rounds);
        let mut options = Options::try_parse_from(["tune", &only, &rounds])?;
        options.sizes.clone_from(&self.sizes);
        Ok(options)
    }

    fn contenders(&self, primitive: &str, transport: Transport) -> Vec<Contender> {
        let each = |algorithm: &String| {
            let settings = |channels: &usize| {
                let settings = vec![
                    ("BENCH_MEMORY", "ncclMemAlloc".to_owned()),
                    ("BENCH_PRIMITIVE", primitive.to_owned()),
                    ("RSCCL_ALGO", algorithm.clone()),
                    ("RSCCL_MIN_NCHANNELS", channels.to_string()),
                    ("RSCCL_MAX_NCHANNELS", channels.to_string()),
                ];
                Contender::rsccl(transport, Choice::name(primitive, algorithm, *channels), settings)
            };
            self.channels.iter().map(settings).collect::<Vec<_>>()
        };
        self.algorithms.iter().filter(|algorithm| carries_out(algorithm, primitive)).flat_map(each).collect()
    }
}

/// Whether the engine has such a schedule; it would take another one without a word, and that would be measured twice.
fn carries_out(algorithm: &str, primitive: &str) -> bool {
    match algorithm {
        "tree" => matches!(primitive, "all_reduce" | "broadcast" | "reduce"),
        "halving-doubling" => matches!(primitive, "all_reduce" | "reduce_scatter" | "all_gather"),
        "recursive-doubling" | "hierarchical" => primitive == "all_reduce",
        _ => true,
    }
}

/// An algorithm and its channels.
#[derive(Clone, Debug, PartialEq)]
struct Choice {
    algorithm: String,
    channels: usize,
}

impl Choice {
    fn name(primitive: &str, algorithm: &str, channels: usize) -> String {
        format!("{primitive} {algorithm} x{channels}")
    }

    /// From a cell's name, `rsccl (all_reduce ring x2)`.
    fn of(cell: &Cell) -> Option<Self> {
        let inside = cell.name.split_once('(')?.1.strip_suffix(')')?;
        let mut words = inside.split(' ').skip(1);
        let algorithm = words.next()?.to_owned();
        Some(Self { algorithm, channels: words.next()?.strip_prefix('x')?.parse().ok()? })
    }
}

impl Group<'_> {
    /// One row for each run of sizes with the same winner; it ends half way, by ratio, to the next size.
    fn rows(&self, results: &Results, sizes: &[usize]) -> Vec<Row> {
        let winners = winners(&results.cells, sizes);
        let mut rows: Vec<Row> = Vec::new();
        for (index, (bytes, choice)) in winners.iter().enumerate() {
            let next = winners.get(index + 1);
            if next.is_some_and(|(_, next)| next == choice) {
                continue;
            }
            rows.push(Row {
                primitive: self.primitive.to_owned(),
                hosts: if self.transport == Transport::Shm { "one" } else { "each" },
                ranks: self.ranks,
                up_to_bytes: next.map(|(next, _)| bytes.saturating_mul(*next).isqrt()),
                algorithm: choice.algorithm.clone(),
                channels: choice.channels,
                source: source(results, self.ranks[1]),
            });
        }
        rows
    }
}

fn source(results: &Results, n_ranks: usize) -> String {
    let machine = &results.machine;
    format!(
        "cargo xtask tune, {n_ranks} ranks on {} x {}, {} rounds",
        machine.cores, machine.processor, results.rounds
    )
}

/// The fastest at each size; who won the size before keeps it unless another is clearly faster.
fn winners(cells: &[Cell], sizes: &[usize]) -> Vec<(usize, Choice)> {
    let mut winners: Vec<(usize, Choice)> = Vec::new();
    for &bytes in sizes {
        let times = cells
            .iter()
            .filter(|cell| cell.bytes == bytes)
            .filter_map(|cell| Some((Choice::of(cell)?, cell.time_ns()?.median)))
            .collect::<Vec<_>>();
        let Some((fastest, least)) = times.iter().min_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
        let before = winners.last().map(|(_, choice)| choice);
        let kept = times.iter().find(|(choice, ns)| Some(choice) == before && least / ns > WORTH);
        winners.push((bytes, kept.map_or(fastest, |(choice, _)| choice).clone()));
    }
    winners
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(name: &str, bytes: usize, ns: f64) -> Cell {
        Cell {
            transport: Transport::Shm,
            name: format!("rsccl (all_reduce {name})"),
            n_ranks: 2,
            bytes,
            late_us: 0,
            rounds_ns: vec![ns],
            rounds_cpu_ns: vec![ns],
        }
    }

    fn shown(cells: &[Cell]) -> Vec<String> {
        let shown =
            |(bytes, choice): (usize, Choice)| format!("{bytes} {} {}", choice.algorithm, choice.channels);
        winners(cells, &[1024, 4096, 16_384]).into_iter().map(shown).collect()
    }

    #[test]
    fn the_fastest_wins_and_keeps_its_lead_until_another_is_clearly_faster() {
        let cells = [
            cell("direct x1", 1024, 5.0),
            cell("ring x2", 1024, 6.0),
            cell("direct x1", 4096, 10.0),
            cell("ring x2", 4096, 9.8),
            cell("direct x1", 16_384, 40.0),
            cell("ring x2", 16_384, 30.0),
        ];
        assert_eq!(shown(&cells), ["1024 direct 1", "4096 direct 1", "16384 ring 2"]);
    }

    #[test]
    fn what_failed_at_a_size_cannot_win_it() {
        let mut broken = cell("direct x1", 1024, 1.0);
        broken.rounds_ns.clear();
        assert_eq!(shown(&[broken, cell("ring x1", 1024, 9.0)]), ["1024 ring 1"]);
    }
}
