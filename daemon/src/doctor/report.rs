//! What the doctor found, for people and for programs.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};
use ringscope_api::words::NO_CALL_YET;
use serde::Serialize;

/// A report on a command or a process.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The command or process.
    pub subject: String,
    /// Whether all is seen.
    pub verdict: Verdict,
    /// Copies of the library.
    pub copies: Vec<Copy>,
    /// What each of ringscope's sources sees.
    pub sources: Vec<Source>,
    /// What to do, most useful first.
    pub advice: Vec<String>,
}

/// Whether all is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Calls, completion and rings.
    All,
    /// Not all of these, or not known.
    Partly,
    /// There is no NCCL in it so far.
    Unknown,
}

/// A copy of the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Copy {
    /// The file that it is, or is part of.
    pub path: String,
    /// `2.27.5`, if it says.
    pub version: Option<String>,
    /// How the program has it.
    pub linkage: &'static str,
}

/// One of ringscope's sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// `calls`, `completion`, `rings`; `summation` where a group is not seen.
    pub source: &'static str,
    /// Whether it sees.
    pub sees: Sees,
    /// Why, in words.
    pub why: String,
}

/// What a source sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sees {
    /// All that it is for.
    Yes,
    /// Some of it.
    Partly,
    /// Nothing.
    No,
    /// That cannot be known yet.
    Unknown,
}

impl Verdict {
    /// The exit status that tells it.
    #[must_use]
    pub fn exit_status(self) -> u8 {
        match self {
            Self::All => 0,
            Self::Partly | Self::Unknown => 2,
        }
    }

    /// From what the sources see of these copies.
    fn of(copies: &[Copy], sources: &[Source]) -> Self {
        let has_no_call = sources.iter().any(|one| one.source == "calls" && one.sees == Sees::Unknown);
        if copies.is_empty() && has_no_call {
            return Self::Unknown;
        }
        if sources.iter().all(|source| source.sees == Sees::Yes) { Self::All } else { Self::Partly }
    }
}

impl Sees {
    const fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Partly => "partly",
            Self::No => "no",
            Self::Unknown => "not known",
        }
    }
}

impl Report {
    /// Puts it together.
    pub(super) fn new(
        subject: String,
        copies: Vec<Copy>,
        mut sources: Vec<Source>,
        mut advice: Vec<String>,
    ) -> Self {
        let mut seen = std::collections::BTreeSet::new();
        advice.retain(|line| seen.insert(line.clone()));
        let verdict = Verdict::of(&copies, &sources);
        // What would be seen of NCCL says nothing of a command that may never call it.
        for one in sources.iter_mut().filter(|one| verdict == Verdict::Unknown && one.sees == Sees::Yes) {
            one.sees = Sees::Unknown;
            one.why.push_str("; if it calls NCCL");
        }
        Self { subject, verdict, copies, sources, advice }
    }

    /// Writes it for people.
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let verdict = match self.verdict {
            Verdict::All => "all is seen".to_owned(),
            Verdict::Partly => "partly seen".to_owned(),
            Verdict::Unknown => format!("unknown: {NO_CALL_YET}"),
        };
        writeln!(out, "{}: {verdict}", self.subject)?;
        let mut copies = table(&["NCCL", "version", "how"]);
        for Copy { path, version, linkage } in &self.copies {
            copies.add_row([path.as_str(), version.as_deref().unwrap_or("?"), linkage]);
        }
        if self.copies.is_empty() {
            copies.add_row(["none found", "", ""]);
        }
        writeln!(out, "\n{copies}")?;
        let mut sources = table(&["what", "seen", "why"]);
        for Source { source, sees, why } in &self.sources {
            sources.add_row([source, sees.word(), why]);
        }
        writeln!(out, "\n{sources}")?;
        if !self.advice.is_empty() {
            writeln!(out, "\nTo do:")?;
        }
        for line in &self.advice {
            writeln!(out, "  - {line}")?;
        }
        Ok(())
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    table
}
