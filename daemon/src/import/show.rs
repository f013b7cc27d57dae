//! The document of an import in the terminal: what is wrong first, with the lines that prove it, then the picture.

use std::collections::BTreeSet;
use std::io::{self, Write};

use ringscope_api::words::is_host;
use ringscope_api::{Detail, FileKind, Import, ImportedFile, Proof, Severity, Verdict};

use self::page::{Colour, Page};
use self::words::{count, cut, few};
use ringscope_import::named::name;

mod communicators;
mod page;
mod words;

pub(super) use page::Style;

/// Prints it.
pub(super) fn show(import: &Import, out: &mut impl Write, style: Style) -> io::Result<()> {
    let mut page = Page { out, style };
    let problems = problems(import);
    page.verdict(import, &problems)?;
    page.problems(import, &problems)?;
    page.communicators(import)?;
    page.lacks(&import.lacks)?;
    page.files(&import.files)
}

/// Findings and observations that say the same, of one communicator or many.
struct Problem<'i> {
    severity: Severity,
    kind: &'i str,
    message: &'i str,
    /// Ids of the communicators, where it is a finding.
    communicators: Vec<&'i str>,
    proof: Vec<&'i Proof>,
    /// What to do, and what else is known. Empty: nothing.
    advice: &'i str,
    details: &'i [Detail],
}

fn problems(import: &Import) -> Vec<Problem<'_>> {
    let findings = import.findings.iter().map(|one| Problem {
        severity: one.finding.severity,
        kind: one.finding.finding.label(),
        message: &one.finding.message,
        communicators: vec![&one.finding.comm],
        proof: one.proof.iter().collect(),
        advice: &one.finding.advice,
        details: &one.finding.details,
    });
    let observations = import.observations.iter().map(|one| Problem {
        severity: one.severity,
        kind: &one.kind,
        message: &one.message,
        communicators: Vec::new(),
        proof: one.proof.iter().collect(),
        advice: "",
        details: &[],
    });
    let mut problems: Vec<Problem<'_>> = Vec::new();
    for one in findings.chain(observations) {
        let same = problems.iter_mut().find(|known| {
            (known.severity, known.kind, known.message) == (one.severity, one.kind, one.message)
        });
        match same {
            Some(known) => {
                known.communicators.extend(one.communicators);
                known.proof.extend(one.proof);
            }
            None => problems.push(one),
        }
    }
    // Causes come first as they are; what is only information comes last.
    problems.sort_by_key(|one| one.severity == Severity::Info);
    problems
}

impl<W: Write> Page<'_, W> {
    fn verdict(&mut self, import: &Import, problems: &[Problem<'_>]) -> io::Result<()> {
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
                let of = |severity| problems.iter().filter(|one| one.severity == severity).count();
                let (critical, warnings) = (of(Severity::Critical), of(Severity::Warning));
                let words = match (critical, warnings) {
                    (0, n) => count(n, "warning"),
                    (n, 0) => format!("{n} critical"),
                    (n, m) => format!("{n} critical, {}", count(m, "warning")),
                };
                format!("{words} in {}", subject(import))
            }
            Verdict::Unknown if import.communicators.is_empty() && import.files.iter().any(has_problem) => {
                "what could be read names no communicator: see below why the rest could not".to_owned()
            }
            Verdict::Unknown if import.communicators.is_empty() => {
                "these files name no communicator, so there is nothing to judge".to_owned()
            }
            Verdict::Unknown => {
                format!("{} cannot be judged whole, for lack of what is named below", subject(import))
            }
            Verdict::NotOfThese => "no file is a log of NCCL or a dump that can be imported".to_owned(),
        };
        let word = self.coloured(colour, word);
        self.wrapped("", "  ", &format!("{}: {word}: {what}", import.job))
    }

    /// Each with what proves it. What is for information only, a finding that follows from a worse one, takes one
    /// paragraph.
    fn problems(&mut self, import: &Import, problems: &[Problem<'_>]) -> io::Result<()> {
        let n_bad = problems.iter().filter(|one| one.severity > Severity::Info).count();
        for one in problems.iter().take(n_bad.min(PROBLEMS_SHOWN)) {
            self.problem(import, one, PROOFS_SHOWN)?;
        }
        let info = &problems[n_bad..];
        for one in info.iter().take(INFO_SHOWN) {
            let follows = n_bad > 0 && !one.communicators.is_empty();
            self.problem(import, one, if follows { 0 } else { PROOFS_OF_INFO_SHOWN })?;
        }
        let hidden = n_bad.saturating_sub(PROBLEMS_SHOWN) + info.len().saturating_sub(INFO_SHOWN);
        if hidden > 0 {
            writeln!(self.out)?;
            self.paragraph("", &format!("and {hidden} more of this kind: --json shows all"))?;
        }
        Ok(())
    }

    fn problem(&mut self, import: &Import, one: &Problem<'_>, n_proofs: usize) -> io::Result<()> {
        let word = self.coloured(one.severity.into(), one.severity.label());
        let place = place(import, &one.communicators);
        writeln!(self.out)?;
        self.wrapped("", "  ", &format!("{word} {}{place}", one.kind))?;
        self.paragraph("  ", one.message)?;
        let proofs: Vec<_> = one.proof.iter().take(n_proofs).collect();
        for Proof { file, line, text } in &proofs {
            let place = line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
            let place = self.coloured(Colour::Grey, &place);
            writeln!(self.out, "    {place}\n      {}", cut(text))?;
        }
        let more = one.proof.len().saturating_sub(n_proofs);
        if more > 0 && n_proofs > 0 {
            writeln!(self.out, "    and {more} more")?;
        }
        if n_proofs == 0 {
            return Ok(());
        }
        for Detail { title, lines } in one.details {
            let more = lines.len().saturating_sub(DETAIL_LINES);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            let lines: Vec<&str> =
                lines.iter().take(DETAIL_LINES).map(|line| line.trim_end_matches('.')).collect();
            self.paragraph("  - ", &format!("{title}: {}{more}", lines.join("; ")))?;
        }
        if !one.advice.is_empty() {
            self.paragraph("  ", &format!("What to do: {}", one.advice))?;
        }
        Ok(())
    }

    fn lacks(&mut self, lacks: &[String]) -> io::Result<()> {
        if lacks.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\nmissing for the full picture")?;
        for lack in lacks.iter().take(LACKS_SHOWN) {
            self.paragraph("  - ", lack)?;
        }
        if let Some(more) = lacks.len().checked_sub(LACKS_SHOWN).filter(|more| *more > 0) {
            self.paragraph("  - ", &format!("and {more} more: --json shows all"))?;
        }
        Ok(())
    }

    /// A few files one by one; of many, those that went well by their kind, for more than a number they do not tell.
    fn files(&mut self, files: &[ImportedFile]) -> io::Result<()> {
        writeln!(self.out, "\nread {}", count(files.len(), "file"))?;
        if files.len() <= FILES_SHOWN {
            return files.iter().try_for_each(|file| self.file(file));
        }
        let (good, bad): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.problem.is_none());
        bad.iter().take(FILES_SHOWN).try_for_each(|file| self.file(file))?;
        if let Some(more) = bad.len().checked_sub(FILES_SHOWN).filter(|more| *more > 0) {
            self.wrapped("  ", "    ", &format!("and {more} more that could not be read: --json shows all"))?;
        }
        let mut kinds: Vec<(FileKind, Vec<&ImportedFile>)> = Vec::new();
        for file in good {
            match kinds.iter_mut().find(|(kind, _)| *kind == file.kind) {
                Some((_, members)) => members.push(file),
                None => kinds.push((file.kind, vec![file])),
            }
        }
        kinds.into_iter().try_for_each(|(kind, members)| match (kind, members.as_slice()) {
            (_, [one]) => self.file(one),
            (FileKind::NotOfThese, many) => {
                let names: Vec<&str> = many.iter().map(|file| file.file.as_str()).collect();
                let n = many.len();
                self.wrapped(
                    "  ",
                    "    ",
                    &format!("{n} files, {}: {}", kind.label(), few(&names, FILES_NAMED)),
                )
            }
            (_, many) => {
                let lines = many.iter().map(|file| file.lines).sum();
                let unused = many.iter().map(|file| unused(file)).sum();
                self.wrapped(
                    "  ",
                    "    ",
                    &format!("{} files, {}: {}", many.len(), kind.label(), amount(lines, unused)),
                )
            }
        })
    }

    fn file(&mut self, file: &ImportedFile) -> io::Result<()> {
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
            (None, None) if file.lines == 0 => format!("{}: {} bytes", file.kind.label(), file.bytes),
            (None, None) => format!("{}: {}", file.kind.label(), amount(file.lines, unused(file))),
        };
        self.wrapped("  ", "    ", &format!("{}: {text}", file.file))
    }
}

fn has_problem(file: &ImportedFile) -> bool {
    file.problem.is_some()
}

fn unused(file: &ImportedFile) -> u64 {
    file.unparsed.values().sum()
}

fn amount(lines: u64, unused: u64) -> String {
    let counted = |n: u64, what| count(usize::try_from(n).unwrap_or(usize::MAX), what);
    let unused = if unused > 0 { format!(", {} not used", counted(unused, "record")) } else { String::new() };
    format!("{}{unused}", counted(lines, "line"))
}

/// Which communicators a finding is about, where there are several to choose from.
fn place(import: &Import, ids: &[&str]) -> String {
    if import.communicators.len() < 2 || ids.is_empty() {
        return String::new();
    }
    let mut names: Vec<String> = Vec::new();
    for known in
        import.communicators.iter().filter(|known| ids.contains(&known.communicator.summary.id.as_str()))
    {
        names.push(name(known));
    }
    match names.as_slice() {
        [] => String::new(),
        [one] => format!(" in communicator {one}"),
        [first, ..] => format!(" in {} communicators, as {first}", names.len()),
    }
}

fn subject(import: &Import) -> String {
    let hosts = import.communicators.iter().flat_map(|one| &one.communicator.summary.hosts);
    let hosts: BTreeSet<&String> = hosts.filter(|host| is_host(host)).collect();
    let communicators = count(import.communicators.len(), "communicator");
    if hosts.is_empty() {
        communicators
    } else {
        format!("{communicators} on {}", count(hosts.len(), "host"))
    }
}

const PROBLEMS_SHOWN: usize = 24;
const INFO_SHOWN: usize = 8;
const LACKS_SHOWN: usize = 12;
const FILES_SHOWN: usize = 6;
/// Of those of no use.
const FILES_NAMED: usize = 3;
/// Lines of one detail.
const DETAIL_LINES: usize = 6;
const PROOFS_SHOWN: usize = 6;
const PROOFS_OF_INFO_SHOWN: usize = 2;
