//! Tables in Markdown for people, and JSON for programs.

#![expect(clippy::print_stdout, reason = "the report is what the chore is for")]

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};

use super::contender::{self, Library};
use super::options::{Options, Transport, show_size};
use super::rounds::{Cell, Results};
use super::statistics::Spread;

/// From this size on the limit is worth a comparison: below, messages cost more than bytes.
const LIMIT_FROM_BYTES: usize = 16 << 20;

/// Prints the tables, and writes the JSON where it is wanted.
pub(crate) fn write(options: &Options, results: &Results) -> Result<()> {
    println!("{}", text(results));
    let Some(path) = &options.json else { return Ok(()) };
    let json = serde_json::to_string_pretty(results)?;
    fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))
}

fn text(results: &Results) -> String {
    let machine = &results.machine;
    let congestion = machine.congestion.as_ref().unwrap_or(&machine.host_congestion);
    let mut text = format!(
        "{} x {}, Linux {}, TCP with {}; {} rounds in turns; f32 sum, out of place; median (least to most), us\n",
        machine.cores, machine.processor, machine.kernel, congestion, results.rounds
    );
    for transport in [Transport::Shm, Transport::Tcp] {
        let mut ranks: Vec<usize> = results.prompt(transport).map(|cell| cell.n_ranks).collect();
        ranks.sort_unstable();
        ranks.dedup();
        for n_ranks in ranks {
            let view = View { results, transport, n_ranks };
            text += &view.summary();
            text += &view.everyone();
        }
        text += &waiting(results, transport);
    }
    for (name, reason) in &results.missing {
        let _ = writeln!(text, "Left out: {name}: {reason}");
    }
    text
}

impl Results {
    /// Figures of ranks that are on time.
    fn prompt(&self, transport: Transport) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.transport == transport && cell.late_us == 0)
    }
}

/// What was measured with one transport and number of ranks.
struct View<'a> {
    results: &'a Results,
    transport: Transport,
    n_ranks: usize,
}

impl View<'_> {
    fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.results.prompt(self.transport).filter(|cell| cell.n_ranks == self.n_ranks)
    }

    fn time(&self, name: &str, bytes: usize) -> Option<Spread> {
        self.cells().find(|cell| cell.bytes == bytes && cell.name == name)?.time_ns()
    }

    fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.cells().map(|cell| cell.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn best_peer(&self, bytes: usize) -> Option<(&str, Spread)> {
        let peers = self.cells().filter(|cell| cell.bytes == bytes && is_peer(&cell.name));
        peers
            .filter_map(|cell| Some((cell.name.as_str(), cell.time_ns()?)))
            .min_by(|(_, a), (_, b)| a.median.total_cmp(&b.median))
    }

    /// With the better kind of store.
    fn limit(&self, bytes: usize) -> Option<Spread> {
        let variants = [contender::PLAIN, contender::STREAMING].into_iter();
        let times = variants.filter_map(|name| self.time(&format!("limit ({name})"), bytes));
        times.min_by(|a, b| a.median.total_cmp(&b.median))
    }

    fn summary(&self) -> String {
        let mut text = format!("\n{:?}, {} ranks\n\n", self.transport, self.n_ranks);
        text += "| size | ours, malloc | ours, ncclMemAlloc | best peer | | peer / ours | peer / ours, ncclMemAlloc | limit | limit / ours | limit / ours, ncclMemAlloc |\n";
        text += "|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|\n";
        for bytes in self.sizes() {
            let ours = self.time(&format!("rsccl ({})", contender::MALLOC), bytes);
            let own = self.time(&format!("rsccl ({})", contender::MEM_ALLOC), bytes);
            let peer = self.best_peer(bytes);
            let limit = self.limit(bytes).filter(|_| bytes >= LIMIT_FROM_BYTES);
            let (name, peer) = peer.map_or(("", None), |(name, time)| (name, Some(time)));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {name} | {} | {} | {} | {} | {} |",
                show_size(bytes),
                show(ours),
                show(own),
                show(peer),
                ratio(peer, ours),
                ratio(peer, own),
                show(limit),
                ratio(limit, ours),
                ratio(limit, own),
            );
        }
        text
    }

    /// Every contender's median at every size.
    fn everyone(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for cell in self.cells() {
            if !names.contains(&cell.name.as_str()) {
                names.push(&cell.name);
            }
        }
        let mut text = format!("\n| medians, us | {} |\n|---:|", names.join(" | "));
        text += &"---:|".repeat(names.len());
        text.push('\n');
        for bytes in self.sizes() {
            let _ = write!(text, "| {} |", show_size(bytes));
            for name in &names {
                let median = self.time(name, bytes).map_or_else(String::new, |time| micros(time.median));
                let _ = write!(text, " {median} |");
            }
            text.push('\n');
        }
        text
    }
}

/// Processor time while waiting for a late rank, and while nobody waits longer than needed.
fn waiting(results: &Results, transport: Transport) -> String {
    let late: Vec<&Cell> =
        results.cells.iter().filter(|cell| cell.transport == transport && cell.late_us > 0).collect();
    let Some(first) = late.first() else { return String::new() };
    let mut text = format!(
        "\nProcessor time of all ranks per operation, us, {:?}, {} ranks: the last one is {} us late to each; and back to back\n\n",
        transport, first.n_ranks, first.late_us
    );
    text += "| size | who | processor, late | operation, late | processor, back to back |\n|---:|---|---:|---:|---:|\n";
    for cell in late {
        let prompt = results.prompt(transport).find(|prompt| {
            prompt.name == cell.name && prompt.n_ranks == cell.n_ranks && prompt.bytes == cell.bytes
        });
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            show_size(cell.bytes),
            cell.name,
            show(cell.cpu_ns()),
            show(cell.time_ns()),
            show(prompt.and_then(Cell::cpu_ns)),
        );
    }
    text
}

fn is_peer(name: &str) -> bool {
    Library::ALL.iter().any(|library| library.is_peer() && name.starts_with(library.name()))
}

fn show(spread: Option<Spread>) -> String {
    spread.map_or_else(String::new, |spread| {
        format!("{} ({} to {})", micros(spread.median), micros(spread.min), micros(spread.max))
    })
}

/// Three figures.
fn micros(ns: f64) -> String {
    let us = ns / 1e3;
    let digits = if us < 10.0 { 2 } else { usize::from(us < 100.0) };
    format!("{us:.digits$}")
}

fn ratio(of: Option<Spread>, to: Option<Spread>) -> String {
    of.zip(to).map_or_else(String::new, |(of, to)| format!("{:.2}", of.median / to.median))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_figures() {
        assert_eq!([0.4, 12.34, 123.4].map(|us| micros(us * 1e3)), ["0.40", "12.3", "123"]);
    }
}
