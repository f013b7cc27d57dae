//! Messages in the shape that Slack takes, and Mattermost, Rocket.Chat and others with it. Pure.

use serde::Serialize;

use super::links::Links;
use super::told::{Due, News};
use crate::api::{Finding, Severity};
use crate::clock::Timestamp;
use crate::words;

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Message {
    /// What a notification on a telephone shows.
    pub(super) text: String,
    pub(super) attachments: Vec<Attachment>,
}

/// The part with the coloured edge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Attachment {
    color: &'static str,
    fallback: String,
    text: String,
    fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Field {
    title: &'static str,
    value: String,
    short: bool,
}

/// What to send of one subject; `now` tells how long it lasted.
pub(super) fn message(due: &Due, links: &Links, now: Timestamp) -> Message {
    let finding = &due.finding;
    let severity = finding.severity.label();
    let (headline, color) = match due.news {
        News::Fires(n) => {
            let more = if n > 1 { format!(" ({n} times)") } else { String::new() };
            (format!("[{severity}] {}{more}", subject(finding)), color(finding.severity))
        }
        News::Worse => (format!("[now {severity}] {}", subject(finding)), color(finding.severity)),
        News::Over => {
            let lasted = words::duration(now.since(finding.first_seen));
            (format!("[resolved] {}, after {lasted}", subject(finding)), "good")
        }
    };
    let text = format!(
        "{}\n<{}|evidence> · <{}|what to do>",
        escape(&finding.message),
        links.finding(finding),
        links.runbook(finding.finding),
    );
    let attachment = Attachment { color, fallback: finding.message.clone(), text, fields: fields(finding) };
    Message { text: escape(&headline), attachments: vec![attachment] }
}

/// What to send of those that are too many for a message each.
pub(super) fn more(n: usize, links: &Links) -> Message {
    Message {
        text: format!("{n} more changed: <{}|see all findings>", links.findings()),
        attachments: Vec::new(),
    }
}

/// A message that says itself that nothing is wrong.
pub(super) fn test(links: &Links) -> Message {
    let text = format!(
        "[test] This is a test of ringscope: nothing is wrong. Findings will come here, with links to <{}|the page>.",
        links.findings()
    );
    Message { text, attachments: Vec::new() }
}

fn subject(finding: &Finding) -> String {
    let kind = finding.finding.label().replace('_', " ");
    if finding.job.is_empty() {
        format!("{kind}: {}", finding.host)
    } else {
        format!("{kind}: {} in job {}", finding.host, finding.job)
    }
}

fn fields(finding: &Finding) -> Vec<Field> {
    let all = [
        ("Host", finding.host.clone()),
        ("Job", finding.job.clone()),
        ("Cause", finding.cause.replace('_', " ")),
        ("NIC", finding.nic.clone().unwrap_or_default()),
        ("Since", finding.first_seen.to_string()),
    ];
    let told = all.into_iter().filter(|(_, value)| !value.is_empty());
    told.map(|(title, value)| Field { title, value: escape(&value), short: true }).collect()
}

const fn color(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "danger",
        Severity::Warning => "warning",
        Severity::Info => "#888888",
    }
}

/// The three letters that have a meaning in Slack's text; a job's name may hold `<!channel>`.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::told::tests::finding;

    fn told(news: News, job: &str) -> Message {
        let finding = Finding { job: job.into(), ..finding("1f", "node-b", 0) };
        let due = Due { subject: String::new(), finding, news };
        message(&due, &Links::new("https://rs/"), Timestamp(840_000_000_000))
    }

    #[test]
    fn a_headline_says_what_where_and_whether_it_is_over() {
        for (news, expected) in [
            (News::Fires(1), "[critical] channel shortfall: node-b in job train"),
            (News::Fires(3), "[critical] channel shortfall: node-b in job train (3 times)"),
            (News::Worse, "[now critical] channel shortfall: node-b in job train"),
            (News::Over, "[resolved] channel shortfall: node-b in job train, after 14 min"),
        ] {
            assert_eq!(told(news, "train").text, expected);
        }
        let text = told(News::Fires(1), "train").attachments[0].text.clone();
        assert!(text.contains("found 2 channels where others found 8"), "{text}");
        assert!(text.contains("<https://rs/#/findings?id=1f|evidence>"), "{text}");
        assert!(text.contains("<https://rs/#/runbook/channel_shortfall|what to do>"), "{text}");
    }

    #[test]
    fn a_job_cannot_call_the_whole_channel() {
        let message = serde_json::to_string(&told(News::Fires(1), "<!channel>")).unwrap();
        assert!(!message.contains("<!channel>") && message.contains("&lt;!channel&gt;"), "{message}");
    }
}
