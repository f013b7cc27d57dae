//! Communicators in the terminal. Those that look the same, as the hundreds that a framework makes, are told once.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use ringscope_api::words::is_host;
use ringscope_api::{Import, ImportedCommunicator, Rank, Ring};
use ringscope_import::named::name;

use super::page::{Page, Style};
use super::words::{HOSTS_DRAWN, count, drawn, few, ranges};

impl<W: Write> Page<'_, W> {
    /// All of them, those of which something was found first.
    pub(super) fn communicators(&mut self, import: &Import) -> io::Result<()> {
        let mut alike: Vec<([String; 2], Vec<&ImportedCommunicator>)> = Vec::new();
        for communicator in &import.communicators {
            let text = [shape(communicator), body(communicator, self.style)?];
            match alike.iter_mut().find(|(known, _)| *known == text) {
                Some((_, members)) => members.push(communicator),
                None => alike.push((text, vec![communicator])),
            }
        }
        let worst = |known: &ImportedCommunicator| {
            let here = import.findings.iter().filter(|one| one.finding.comm == known.communicator.summary.id);
            here.map(|one| one.finding.severity).max()
        };
        alike.sort_by_cached_key(|(_, members)| {
            Reverse(members.iter().filter_map(|known| worst(known)).max())
        });
        for ([shape, body], members) in alike.iter().take(COMMUNICATORS_SHOWN) {
            writeln!(self.out)?;
            self.wrapped("", "  ", &format!("{}{shape}", names(members)))?;
            self.out.write_all(body.as_bytes())?;
        }
        let hidden: usize = alike.iter().skip(COMMUNICATORS_SHOWN).map(|(_, members)| members.len()).sum();
        if hidden > 0 {
            writeln!(self.out)?;
            self.paragraph(
                "",
                &format!("and {}: --json or --serve shows all", count(hidden, "other communicator")),
            )?;
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
            let causes: Vec<&str> =
                rank.causes.iter().map(String::as_str).filter(|cause| *cause != "unknown").collect();
            let causes = if causes.is_empty() { String::new() } else { format!("  {}", causes.join(", ")) };
            let text = format!(
                "init {} -> final {}{causes}",
                number(rank.init_channels),
                number(rank.final_channels)
            );
            match lines.iter_mut().find(|(known, _)| *known == text) {
                Some((_, hosts)) if hosts.contains(&rank.host.as_str()) => {}
                Some((_, hosts)) => hosts.push(&rank.host),
                None => lines.push((text, vec![&rank.host])),
            }
        }
        for (index, (text, hosts)) in lines.iter().take(LINES_SHOWN).enumerate() {
            self.paragraph(title(index, "channels"), &format!("{text}  on {}", few(hosts, HOSTS_DRAWN)))?;
        }
        self.more(lines.len(), "group")
    }

    /// Channels whose rings visit the ranks in the same order take one line.
    fn rings(&mut self, rings: &[Ring]) -> io::Result<()> {
        let mut lines: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for ring in rings {
            lines.entry(drawn(ring)).or_default().push(ring.channel);
        }
        let mut lines: Vec<_> = lines.into_iter().collect();
        lines.sort_by_key(|(_, channels)| channels[0]);
        for (index, (text, channels)) in lines.iter().take(LINES_SHOWN).enumerate() {
            let word = if channels.len() == 1 { "channel" } else { "channels" };
            self.paragraph(title(index, "rings"), &format!("{word} {}: {text}", ranges(channels)))?;
        }
        self.more(lines.len(), "order")
    }

    /// What the nodes' own searches found, and what became of it.
    fn searches(&mut self, known: &ImportedCommunicator) -> io::Result<()> {
        let Some(graphs) = &known.communicator.graphs else { return Ok(()) };
        let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
        for node in &graphs.searches {
            let changes: String = node.changes.iter().map(|change| format!("; {change}")).collect();
            let text =
                format!("{}, {}{changes}", count(node.rings.len(), "ring"), count(node.trees.len(), "tree"));
            match lines.iter_mut().find(|(known, _)| *known == text) {
                Some((_, hosts)) => hosts.push(&node.host),
                None => lines.push((text, vec![&node.host])),
            }
        }
        for (index, (text, hosts)) in lines.iter().take(LINES_SHOWN).enumerate() {
            self.paragraph(title(index, "searched"), &format!("{}: {text}", few(hosts, HOSTS_DRAWN)))?;
        }
        self.more(lines.len(), "search")
    }

    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    fn calls(&mut self, known: &ImportedCommunicator) -> io::Result<()> {
        for (index, totals) in known.primitives.iter().enumerate() {
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
                title(index, "calls"),
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

    fn pending(&mut self, known: &ImportedCommunicator) -> io::Result<()> {
        let pending: Vec<String> = (known.pending.iter().take(PENDING_SHOWN))
            .map(|one| {
                format!("rank {} {} #{} ({} bytes)", one.rank, one.primitive, one.seq_number, one.bytes)
            })
            .collect();
        if pending.is_empty() {
            return Ok(());
        }
        let more = known.pending.len().saturating_sub(PENDING_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        self.paragraph(title(0, "pending"), &format!("{}{more}", pending.join(", ")))
    }

    fn more(&mut self, n_lines: usize, what: &str) -> io::Result<()> {
        let more = n_lines.saturating_sub(LINES_SHOWN);
        if more > 0 {
            self.paragraph(title(1, ""), &format!("and {} more", count(more, what)))
        } else {
            Ok(())
        }
    }
}

/// All lines but the first.
fn body(known: &ImportedCommunicator, style: Style) -> io::Result<String> {
    let mut text = Vec::new();
    let mut page = Page { out: &mut text, style };
    page.channels(&known.communicator.ranks)?;
    page.searches(known)?;
    page.rings(&known.rings)?;
    page.calls(known)?;
    page.pending(known)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// What those that look the same are called.
fn names(members: &[&ImportedCommunicator]) -> String {
    if let [one] = members {
        return format!("communicator {}: ", name(one));
    }
    let names: Vec<String> = members.iter().map(|known| name(known)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!("communicators {}: each ", few(&names, NAMED))
}

/// How large it is, and what made it.
fn shape(known: &ImportedCommunicator) -> String {
    let summary = &known.communicator.summary;
    let seen = if summary.n_ranks_seen < summary.n_ranks {
        format!(" ({} seen)", summary.n_ranks_seen)
    } else {
        String::new()
    };
    let version = known.version.as_ref().map(|version| format!(", library {version}")).unwrap_or_default();
    let (n_ranks, hosts) = (summary.n_ranks, summary.hosts.iter().filter(|host| is_host(host)).count());
    // Whose host is not said is on no node either.
    if hosts < summary.hosts.len() {
        let place = if hosts == 0 {
            "hosts not said".to_owned()
        } else {
            format!("on {} and others that are not said", count(hosts, "host"))
        };
        return format!("{n_ranks} ranks{seen}, {place}{version}");
    }
    let nodes = count(summary.n_nodes as usize, "NCCL node");
    format!("{n_ranks} ranks{seen} on {}, {nodes}{version}", count(hosts, "host"))
}

const fn title(index: usize, word: &'static str) -> &'static str {
    match (index, word.as_bytes()) {
        (0, b"channels") => "  channels  ",
        (0, b"searched") => "  searched  ",
        (0, b"rings") => "  rings     ",
        (0, b"calls") => "  calls     ",
        (0, b"pending") => "  pending   ",
        _ => "            ",
    }
}

const COMMUNICATORS_SHOWN: usize = 12;
const LINES_SHOWN: usize = 12;
const PENDING_SHOWN: usize = 8;
/// Communicators that look the same and are named.
const NAMED: usize = 4;
