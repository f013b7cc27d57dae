//! The document of an import in the terminal: what is wrong first, with the lines that prove it, then the picture.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::api::{
    FileKind, Import, ImportedCommunicator, ImportedFile, Observation, Proof, Rank, Ring, Severity, Verdict,
};

/// Prints it; with colours where there is a terminal.
pub(super) fn show(import: &Import, out: &mut impl Write, colours: bool) -> io::Result<()> {
    let mut page = Page { out, colours };
    page.verdict(import)?;
    for finding in &import.findings {
        let one = &finding.finding;
        page.problem(one.severity, one.finding.label(), &one.message, &finding.proof)?;
    }
    for Observation { kind, severity, message, proof } in &import.observations {
        page.problem(*severity, kind, message, proof)?;
    }
    for communicator in import.communicators.iter().take(COMMUNICATORS_SHOWN) {
        page.communicator(communicator)?;
    }
    if let Some(more) = import.communicators.len().checked_sub(COMMUNICATORS_SHOWN).filter(|more| *more > 0) {
        page.paragraph("", &format!("and {more} communicators more: --json or --serve shows all"))?;
    }
    page.lacks(&import.lacks)?;
    page.files(&import.files)
}

struct Page<'o, W> {
    out: &'o mut W,
    colours: bool,
}

#[derive(Clone, Copy)]
enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Grey = 90,
}

impl<W: Write> Page<'_, W> {
    fn coloured(&self, colour: Colour, text: &str) -> String {
        if self.colours { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_owned() }
    }

    fn verdict(&mut self, import: &Import) -> io::Result<()> {
        let (colour, word) = match import.verdict {
            Verdict::Healthy => (Colour::Green, "healthy"),
            Verdict::Findings => (Colour::Red, "findings"),
            Verdict::Unknown => (Colour::Yellow, "unknown"),
            Verdict::NotOfThese => (Colour::Yellow, "not one of these"),
        };
        let what = match import.verdict {
            Verdict::Healthy => {
                format!("nothing is wrong with {}, as far as these files tell", subject(import))
            }
            Verdict::Findings => {
                let findings = import.findings.iter().map(|one| one.finding.severity);
                let all = findings.chain(import.observations.iter().map(|one| one.severity));
                let n = all.filter(|severity| *severity >= Severity::Warning).count();
                format!("{n} of severity warning or above in {}", subject(import))
            }
            Verdict::Unknown => format!("{}, and too little of it to judge", subject(import)),
            Verdict::NotOfThese => "no file is a log of NCCL or a dump that can be imported".to_owned(),
        };
        let word = self.coloured(colour, word);
        writeln!(self.out, "{}: {word}: {what}", import.job)
    }

    fn problem(&mut self, severity: Severity, kind: &str, message: &str, proof: &[Proof]) -> io::Result<()> {
        let colour = match severity {
            Severity::Critical => Colour::Red,
            Severity::Warning => Colour::Yellow,
            Severity::Info => Colour::Grey,
        };
        writeln!(self.out)?;
        let word = self.coloured(colour, severity.label());
        writeln!(self.out, "{word} {kind}")?;
        self.paragraph("  ", message)?;
        for Proof { file, line, text } in proof.iter().take(PROOFS_SHOWN) {
            let place = line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
            let place = self.coloured(Colour::Grey, &place);
            writeln!(self.out, "    {place}\n      {}", cut(text))?;
        }
        if let Some(more) = proof.len().checked_sub(PROOFS_SHOWN).filter(|more| *more > 0) {
            writeln!(self.out, "    and {more} lines more")?;
        }
        Ok(())
    }

    fn communicator(&mut self, known: &ImportedCommunicator) -> io::Result<()> {
        let summary = &known.communicator.summary;
        let name = summary.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
        let seen = if summary.n_ranks_seen < summary.n_ranks {
            format!(" ({} seen)", summary.n_ranks_seen)
        } else {
            String::new()
        };
        let version = known.version.as_ref().map(|version| format!(", NCCL {version}")).unwrap_or_default();
        writeln!(self.out)?;
        writeln!(
            self.out,
            "communicator {}{name}: {} ranks{seen} on {}, {}{version}",
            summary.comm_hash,
            summary.n_ranks,
            count(summary.hosts.len(), "host"),
            count(summary.n_nodes as usize, "NCCL node"),
        )?;
        self.channels(&known.communicator.ranks)?;
        self.rings(&known.rings)?;
        self.bytes(known)?;
        let pending: Vec<String> = (known.pending.iter().take(PENDING_SHOWN))
            .map(|one| {
                format!("rank {} {} #{} ({} bytes)", one.rank, one.primitive, one.seq_number, one.bytes)
            })
            .collect();
        if !pending.is_empty() {
            let more = known.pending.len().saturating_sub(PENDING_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            self.paragraph("  pending   ", &format!("{}{more}", pending.join(", ")))?;
        }
        Ok(())
    }

    /// Hosts of which all ranks are alike take one line.
    fn channels(&mut self, ranks: &[Rank]) -> io::Result<()> {
        if ranks.iter().all(|rank| rank.init_channels.is_none() && rank.final_channels.is_none()) {
            return Ok(());
        }
        let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
        for rank in ranks {
            let number = |channels: Option<u32>| channels.map_or_else(|| "?".to_owned(), |n| n.to_string());
            let causes = rank.causes.join(", ");
            let text =
                format!("{} -> {}  {causes}", number(rank.init_channels), number(rank.final_channels),);
            match lines.iter_mut().find(|(known, _)| *known == text) {
                Some((_, hosts)) if hosts.contains(&rank.host.as_str()) => {}
                Some((_, hosts)) => hosts.push(&rank.host),
                None => lines.push((text, vec![&rank.host])),
            }
        }
        for (index, (text, hosts)) in lines.iter().take(LINES_SHOWN).enumerate() {
            let title = if index == 0 { "  channels  " } else { "            " };
            self.paragraph(title, &format!("{text}  on {}", few(hosts)))?;
        }
        Ok(())
    }

    /// Channels whose rings visit the hosts in the same order take one line.
    fn rings(&mut self, rings: &[Ring]) -> io::Result<()> {
        let mut lines: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for ring in rings {
            lines.entry(drawn(ring)).or_default().push(ring.channel);
        }
        let mut lines: Vec<_> = lines.into_iter().collect();
        lines.sort_by_key(|(_, channels)| channels[0]);
        for (index, (text, channels)) in lines.iter().take(LINES_SHOWN).enumerate() {
            let title = if index == 0 { "  rings     " } else { "            " };
            self.paragraph(title, &format!("channel {}: {text}", ranges(channels)))?;
        }
        if let Some(more) = lines.len().checked_sub(LINES_SHOWN).filter(|more| *more > 0) {
            self.paragraph("            ", &format!("and {more} orders more"))?;
        }
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    fn bytes(&mut self, known: &ImportedCommunicator) -> io::Result<()> {
        for (index, totals) in known.primitives.iter().enumerate() {
            let title = if index == 0 { "  calls     " } else { "            " };
            let bandwidth = known.bandwidth.iter().find(|one| one.primitive == totals.primitive);
            let bandwidth = bandwidth.map(|one| {
                format!(
                    ", algbw {:.2} GB/s, busbw {:.2} GB/s",
                    one.algorithm_bytes_per_s / 1e9,
                    one.bus_bytes_per_s / 1e9
                )
            });
            let bytes = if totals.completed_bytes > 0 {
                format!(", {:.1} MiB", totals.completed_bytes as f64 / f64::from(1 << 20))
            } else {
                String::new()
            };
            self.paragraph(
                title,
                &format!(
                    "{}: {} issued, {} completed{bytes}{}",
                    totals.primitive,
                    totals.issued_calls,
                    totals.completed_calls,
                    bandwidth.unwrap_or_default()
                ),
            )?;
        }
        Ok(())
    }

    fn lacks(&mut self, lacks: &[String]) -> io::Result<()> {
        if lacks.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\nmissing for the full picture")?;
        for lack in lacks.iter().take(LINES_SHOWN) {
            self.paragraph("  - ", lack)?;
        }
        Ok(())
    }

    fn files(&mut self, files: &[ImportedFile]) -> io::Result<()> {
        writeln!(self.out, "\nread {}", count(files.len(), "file"))?;
        // Those that went well tell nothing that a number does not.
        let (good, odd): (Vec<_>, Vec<_>) =
            files.iter().partition(|file| file.problem.is_none() && file.kind != FileKind::NotOfThese);
        for file in odd.iter().chain(&good).take(FILES_SHOWN) {
            let text = match (&file.problem, &file.seen) {
                (Some(problem), _) => {
                    let kind = if file.kind == FileKind::NotOfThese {
                        String::new()
                    } else {
                        format!("{}: ", file.kind.label())
                    };
                    self.coloured(Colour::Red, &format!("{kind}{problem}"))
                }
                (None, Some(seen)) => format!("{}: {seen}", file.kind.label()),
                (None, None) => {
                    let unparsed: u64 = file.unparsed.values().sum();
                    let unparsed =
                        if unparsed > 0 { format!(", {unparsed} other records") } else { String::new() };
                    format!("{}: {} lines{unparsed}", file.kind.label(), file.lines)
                }
            };
            writeln!(self.out, "  {}: {text}", file.file)?;
        }
        Ok(())
    }

    /// Text broken at words, with a title on its first line.
    fn paragraph(&mut self, title: &str, text: &str) -> io::Result<()> {
        let indent = " ".repeat(title.len());
        let mut line = title.to_owned();
        let mut is_fresh = true;
        for word in text.split(' ') {
            if !is_fresh && line.chars().count() + 1 + word.chars().count() > COLUMNS {
                writeln!(self.out, "{line}")?;
                line.clone_from(&indent);
                is_fresh = true;
            }
            if !is_fresh {
                line.push(' ');
            }
            line.push_str(word);
            is_fresh = false;
        }
        writeln!(self.out, "{}", line.trim_end())
    }
}

fn subject(import: &Import) -> String {
    let mut hosts: Vec<&String> =
        import.communicators.iter().flat_map(|one| &one.communicator.summary.hosts).collect();
    hosts.sort();
    hosts.dedup();
    format!("{} on {}", count(import.communicators.len(), "communicator"), count(hosts.len(), "host"))
}

/// The ring as its hosts, each with its ranks in the order of the ring.
fn drawn(ring: &Ring) -> String {
    let mut hosts: Vec<(&str, Vec<u32>)> = Vec::new();
    let mut via: Vec<&str> = Vec::new();
    for hop in &ring.order {
        match hosts.last_mut() {
            Some((host, ranks)) if *host == hop.host => ranks.push(hop.rank),
            _ => hosts.push((&hop.host, vec![hop.rank])),
        }
        if let Some(transport) = hop.transport.as_deref().filter(|transport| !via.contains(transport)) {
            via.push(transport);
        }
    }
    let drawn: Vec<String> = (hosts.iter().take(HOSTS_DRAWN))
        .map(|(host, ranks)| {
            let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
            format!("{host}[{}]", ranks.join(" "))
        })
        .collect();
    let more = if hosts.len() > HOSTS_DRAWN {
        format!(" -> {} more", hosts.len() - HOSTS_DRAWN)
    } else {
        String::new()
    };
    let via = if via.is_empty() { String::new() } else { format!(" over {}", via.join(", ")) };
    let open = ring.problem.as_ref().map(|problem| format!(" (open: {problem})")).unwrap_or_default();
    format!("{}{more}{via}{open}", drawn.join(" -> "))
}

/// `0-3, 6` of 0, 1, 2, 3, 6.
fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let words = ranges.iter().map(
        |(first, last)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        },
    );
    words.collect::<Vec<_>>().join(", ")
}

fn cut(text: &str) -> String {
    if text.chars().count() <= PROOF_COLUMNS {
        return text.to_owned();
    }
    let kept: String = text.chars().take(PROOF_COLUMNS).collect();
    format!("{kept}...")
}

fn few(names: &[&str]) -> String {
    let more = names.len().saturating_sub(HOSTS_DRAWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names[..names.len().min(HOSTS_DRAWN)].join(", "))
}

fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Fits the narrower half of a screen, and mails.
const COLUMNS: usize = 100;
const COMMUNICATORS_SHOWN: usize = 12;
const LINES_SHOWN: usize = 12;
const FILES_SHOWN: usize = 24;
const PROOFS_SHOWN: usize = 6;
const PENDING_SHOWN: usize = 8;
/// A line that proves something is cut later than others: its end may be what matters.
const PROOF_COLUMNS: usize = 150;
const HOSTS_DRAWN: usize = 8;
