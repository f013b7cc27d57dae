//! What to do about findings: `dashboards/runbook.md`, read for the API. Sections that are not called as a finding is
//! belong to alerts, and are left out. Has no text of its own.

use std::sync::LazyLock;

use ringscope_api::{FindingKind, RunbookEntry};

/// An entry for each kind of finding, in the order of the runbook.
#[must_use]
pub fn entries() -> &'static [RunbookEntry] {
    static ENTRIES: LazyLock<Vec<RunbookEntry>> =
        LazyLock::new(|| parse(include_str!("../../../dashboards/runbook.md")));
    &ENTRIES
}

fn parse(runbook: &str) -> Vec<RunbookEntry> {
    runbook.split("\n## ").skip(1).filter_map(section).collect()
}

fn section(text: &str) -> Option<RunbookEntry> {
    let (heading, body) = text.split_once('\n')?;
    let finding = FindingKind::ALL.into_iter().find(|kind| kind.label() == heading.trim())?;
    Some(RunbookEntry {
        finding,
        title: title(finding),
        meaning: joined(part(body, "**Meaning.**")),
        checks: items(part(body, "**Check.**")),
        actions: items(part(body, "**Do.**")),
    })
}

/// From after the mark to the next one.
fn part<'a>(body: &'a str, mark: &str) -> &'a str {
    let after = body.split_once(mark).map_or("", |(_, after)| after);
    MARKS.iter().filter_map(|mark| after.find(mark)).min().map_or(after, |end| &after[..end])
}

/// The items of a list, numbered or not; an item's other lines follow on its own.
fn items(list: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in list.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match (start(line), items.last_mut()) {
            (Some(item), _) => items.push(item.to_owned()),
            (None, Some(item)) => *item = format!("{item} {line}"),
            (None, None) => {}
        }
    }
    items
}

/// What follows `1. `, `- ` or `* `.
fn start(line: &str) -> Option<&str> {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let item = if numbered.len() < line.len() { numbered.strip_prefix(". ") } else { None };
    item.or_else(|| line.strip_prefix("- ")).or_else(|| line.strip_prefix("* "))
}

fn joined(paragraph: &str) -> String {
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `nic_degraded` → `NIC degraded`.
fn title(finding: FindingKind) -> String {
    let words = finding.label().split('_').enumerate().map(|(index, word)| match word {
        "nic" | "gpu" => word.to_uppercase(),
        word if index == 0 => format!("{}{}", word[..1].to_uppercase(), &word[1..]),
        word => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

const MARKS: [&str; 3] = ["**Meaning.**", "**Check.**", "**Do.**"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_has_an_entry() {
        let found: Vec<FindingKind> = entries().iter().map(|entry| entry.finding).collect();
        for kind in FindingKind::ALL {
            let here = found.iter().filter(|found| **found == kind).count();
            assert_eq!(here, 1, "sections of {} in dashboards/runbook.md", kind.label());
        }
        for entry in entries() {
            let kind = entry.finding.label();
            assert!(entry.meaning.len() > 40, "{kind} says what it means: {:?}", entry.meaning);
            assert!(!entry.checks.is_empty(), "{kind} says what to look at");
            assert!(!entry.actions.is_empty(), "{kind} says what to do");
            for text in entry.checks.iter().chain(&entry.actions).chain([&entry.meaning]) {
                assert!(text.matches('`').count().is_multiple_of(2), "{kind}: open backquote in {text:?}");
            }
        }
    }

    #[test]
    fn a_section_is_read_as_it_is_written() {
        let runbook = "# Runbook\nWords.\n\n## agent_away\n\nOf an alert.\n\n## nic_degraded\n\n**Meaning.** A NIC\nis \
                       down.\n\n**Check.**\n1. `ibstat`\n   there.\n2. Errors.\n\n**Do.**\n- Mend it.\n";
        let entry = RunbookEntry {
            finding: FindingKind::NicDegraded,
            title: "NIC degraded".into(),
            meaning: "A NIC is down.".into(),
            checks: vec!["`ibstat` there.".into(), "Errors.".into()],
            actions: vec!["Mend it.".into()],
        };
        assert_eq!(parse(runbook), [entry]);
    }
}
