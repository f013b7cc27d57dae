//! Messages in the shape that Slack takes, and Mattermost, Rocket.Chat and others with it. Pure.

use ringscope_api::clock::Timestamp;
use ringscope_api::words;
use ringscope_api::{Incident, Severity};
use serde::Serialize;

use super::links::Links;
use super::told::{Due, News};

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
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

/// What to send of one incident; `now` tells how long it lasted.
pub(super) fn message(due: &Due, links: &Links, now: Timestamp) -> Message {
    let incident = &due.incident;
    let (severity, sentence) = (incident.severity.label(), &incident.sentence);
    let (headline, color) = match due.news {
        News::Open => (format!("[{severity}] {sentence}"), color(incident.severity)),
        News::Worse => (format!("[now {severity}] {sentence}"), color(incident.severity)),
        News::Over => {
            let ended = incident.resolved_at.unwrap_or(now);
            let lasted = words::duration(ended.since(incident.began_at));
            (format!("[resolved] after {lasted}: {sentence}"), "good")
        }
    };
    // What is over needs nothing done.
    let advice = if incident.advice.is_empty() || matches!(due.news, News::Over) {
        String::new()
    } else {
        format!("{}\n", incident.advice)
    };
    let text = format!(
        "{}<{}|evidence> · <{}|what to do>",
        escape(&advice),
        links.incident(incident),
        links.runbook(incident.finding),
    );
    let attachment = Attachment { color, fallback: escape(sentence), text, fields: fields(incident) };
    Message { text: escape(&headline), attachments: vec![attachment] }
}

/// What to send of those that are too many for a message each.
pub(super) fn more(n: usize, links: &Links) -> Message {
    Message {
        text: format!("{n} more changed: <{}|see all incidents>", links.incidents()),
        attachments: Vec::new(),
    }
}

/// A message that says itself that nothing is wrong.
pub fn test(links: &Links) -> Message {
    let text = format!(
        "[test] This is a test of ringscope: nothing is wrong. Incidents will come here, with links to <{}|the page>.",
        links.incidents()
    );
    Message { text, attachments: Vec::new() }
}

fn fields(incident: &Incident) -> Vec<Field> {
    let victims = (incident.n_victims > 0).then(|| words::plural(incident.n_victims as usize, "rank"));
    let all = [
        ("What", incident.finding.label().replace('_', " ")),
        ("Host", incident.host.clone()),
        ("Job", incident.job.clone()),
        ("Rank", incident.rank.map(|rank| rank.to_string()).unwrap_or_default()),
        ("Wait for it", victims.unwrap_or_default()),
        ("Since", incident.began_at.to_string()),
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
    use ringscope_samples::objects::{NOW, incident};

    fn told(news: News, sentence: &str) -> Message {
        let incident = incident("1f", "node-b", Severity::Critical, sentence);
        message(&Due { incident, news }, &Links::new("https://rs/"), NOW)
    }

    #[test]
    fn a_headline_is_the_sentence_and_says_whether_it_is_over() {
        let sentence = "node-b found 2 channels where others found 8";
        for (news, expected) in [
            (News::Open, format!("[critical] {sentence}")),
            (News::Worse, format!("[now critical] {sentence}")),
            (News::Over, format!("[resolved] after 14 min: {sentence}")),
        ] {
            assert_eq!(told(news, sentence).text, expected);
        }
        let text = told(News::Open, sentence).attachments[0].text.clone();
        assert!(text.starts_with("Look at its NICs."), "{text}");
        assert!(text.contains("<https://rs/#/incidents/1f|evidence>"), "{text}");
        assert!(text.contains("<https://rs/#/runbook/channel_shortfall|what to do>"), "{text}");
    }

    #[test]
    fn a_job_cannot_call_the_whole_channel() {
        let message = serde_json::to_string(&told(News::Open, "<!channel> is slow")).unwrap();
        assert!(!message.contains("<!channel>") && message.contains("&lt;!channel&gt;"), "{message}");
    }
}
