//! Whether a finding says something new. Pure.

use ringscope_api::{Culprit, Detail, Finding, FindingState};

/// Whether anything but `last_seen` changed that somebody would want to hear of. `told_lately`: ages in its words may
/// grow for a while without a word.
pub(super) fn is_news(before: &Finding, now: &Finding, told_lately: bool) -> bool {
    before.state != FindingState::Firing
        || before.severity != now.severity
        || before.cause != now.cause
        || before.comm != now.comm
        || before.nic != now.nic
        || before.culprits != now.culprits
        || before.n_victims != now.n_victims
        || before.first_seen != now.first_seen
        || before.began_at != now.began_at
        || before.imported != now.imported
        || before.evidence != now.evidence
        || differ(before, now, told_lately)
}

fn differ(before: &Finding, now: &Finding, told_lately: bool) -> bool {
    let text = |one: &str, other: &str| {
        if told_lately { !letters(one).eq(letters(other)) } else { one != other }
    };
    text(&before.message, &now.message)
        || text(&before.advice, &now.advice)
        || before.accused.len() != now.accused.len()
        || before.accused.iter().zip(&now.accused).any(|(one, other)| {
            let place = |culprit: &Culprit| (culprit.pid, culprit.rank, culprit.global_rank);
            place(one) != place(other) || one.host != other.host || text(&one.doing, &other.doing)
        })
        || before.details.len() != now.details.len()
        || before.details.iter().zip(&now.details).any(|(one, other): (&Detail, &Detail)| {
            text(&one.title, &other.title)
                || one.lines.len() != other.lines.len()
                || one.lines.iter().zip(&other.lines).any(|(one, other)| text(one, other))
        })
}

/// The words without their numbers and units of time.
fn letters(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_ascii_digit() || matches!(c, '.' | ':'))
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::letters;

    #[test]
    fn ages_are_no_letters() {
        assert!(letters("in no call for 12.5 s").eq(letters("in no call for 9 s")));
        assert!(!letters("rank 3 was stopped 12 s ago").eq(letters("rank 3 was killed 12 s ago")));
    }
}
