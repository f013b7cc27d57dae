//! `ringscope incidents` and `ringscope incident`: what somebody has to look after, in the terminal.
//!
//! Asks the REST API and judges nothing itself.

use std::io::{self, Write};
use std::time::Duration;

use ringscope_api::clock::{self, Timestamp};
use ringscope_api::words::{duration, plural};
use ringscope_api::{
    FindingState, Incident, IncidentBy, IncidentDetail, IncidentSilence, IncidentText, Session,
};
use ringscope_judge::health::moment;

use crate::client::{Client, ClientError, DaemonArgs};
use crate::config;

/// Arguments of `ringscope incidents`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope incidents
  ringscope incidents --all --json

An incident is one cause with all that follows from it. `ringscope incident ID` shows all that is known of one.

An incident closes when what it tells of is over, also soon after its job has ended. A critical one that ended with a job
that did not end well is told below the first line of `ringscope status`, and on the page, until somebody acknowledges it,
the job runs again, or a day has passed. It does not change the exit status.

Exit status: 0 printed, also where incidents are open (ask `ringscope status`), 1 no answer, 64 wrong usage")]
pub struct IncidentsArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Show those that are over too
    #[arg(long)]
    all: bool,
    /// Print them as JSON instead
    #[arg(long)]
    json: bool,
}

/// Arguments of `ringscope incident`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope incident 3f2a9c1b7d5e8046
  ringscope incident 3f2a9c1b7d5e8046 --acknowledge --by ann
  ringscope incident 3f2a9c1b7d5e8046 --silence 2h --note \"The cable is ordered.\"

While an incident is silenced nobody is sent a message of it. Page and terminal still show it, and `ringscope status`
still exits with 2.

Exit status: 0 done, 1 no answer, no such incident, or refused, 64 wrong usage")]
pub struct IncidentArgs {
    /// Id of the incident, as `ringscope incidents` prints it
    id: String,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Say that you look after it
    #[arg(long, conflicts_with = "unacknowledge")]
    acknowledge: bool,
    /// Take back that somebody looks after it
    #[arg(long)]
    unacknowledge: bool,
    /// Tell nobody of it for so long, e.g. 30m, 2h; at most 30 days
    #[arg(long, value_name = "TIME", value_parser = ringscope_api::words::parse_duration, conflicts_with = "unsilence")]
    silence: Option<Duration>,
    /// End the silence
    #[arg(long)]
    unsilence: bool,
    /// Write a note under it
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// For whom you say so, kept beside the name of your token [default: where no token is needed, $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Print it as JSON instead
    #[arg(long)]
    json: bool,
}

/// Why nothing was shown or said.
#[derive(Debug, thiserror::Error)]
pub enum IncidentsError {
    /// The daemon.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The terminal.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

/// Prints the incidents.
///
/// # Errors
/// [`IncidentsError`].
pub async fn list(args: &IncidentsArgs, out: &mut impl Write) -> Result<(), IncidentsError> {
    let incidents = args.daemon.client()?.incidents(args.all).await?;
    if args.json {
        return print_json(&incidents, out);
    }
    let now = clock::now();
    if incidents.is_empty() {
        writeln!(out, "{}", if args.all { "There was no incident." } else { "No incident is open." })?;
    }
    for incident in &incidents {
        out.write_all(line(incident, now).as_bytes())?;
    }
    Ok(())
}

/// Says what the arguments say, and prints the incident.
///
/// # Errors
/// [`IncidentsError`].
pub async fn one(args: &IncidentArgs, out: &mut impl Write) -> Result<(), IncidentsError> {
    let client = args.daemon.client()?;
    let name = if args.speaks() { speaker(args, &client).await } else { String::new() };
    let by = || IncidentBy { by: name.clone() };
    if args.acknowledge {
        client.speak(&args.id, "acknowledge", &by()).await?;
    }
    if args.unacknowledge {
        client.speak(&args.id, "unacknowledge", &by()).await?;
    }
    if let Some(time) = args.silence {
        let silence = IncidentSilence { by: name.clone(), until: None, for_s: Some(time.as_secs()) };
        client.speak(&args.id, "silence", &silence).await?;
    }
    if args.unsilence {
        client.speak(&args.id, "unsilence", &by()).await?;
    }
    if let Some(text) = &args.note {
        let note = IncidentText { by: name.clone(), text: text.clone() };
        client.speak(&args.id, "notes", &note).await?;
    }
    let detail = client.incident(&args.id).await?;
    if args.json {
        return print_json(&detail, out);
    }
    out.write_all(whole(&detail, clock::now()).as_bytes())?;
    Ok(())
}

impl IncidentArgs {
    /// Whether they say anything of it.
    const fn speaks(&self) -> bool {
        self.acknowledge
            || self.unacknowledge
            || self.silence.is_some()
            || self.unsilence
            || self.note.is_some()
    }
}

/// Who says so: whom the arguments name, else as whom the daemon knows who asks, else the user here.
async fn speaker(args: &IncidentArgs, client: &Client) -> String {
    if let Some(by) = &args.by {
        return by.clone();
    }
    // One that does not say who asks is of an older release: it takes any name.
    let known = client.get::<Session>("session").await.map(|session| session.name).unwrap_or_default();
    let names = [known, config::user(), "somebody".to_owned()];
    names.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
}

fn print_json(what: &impl serde::Serialize, out: &mut impl Write) -> Result<(), IncidentsError> {
    serde_json::to_writer_pretty(&mut *out, what).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// One incident in two lines.
fn line(incident: &Incident, now: Timestamp) -> String {
    let ended = incident.resolved_at;
    let lasted = duration(ended.unwrap_or(now).since(incident.began_at));
    let time = match ended {
        _ if incident.imported => format!("imported: began {}", moment(incident.began_at, now)),
        Some(_) if incident.job_ended_at.is_some() => format!("ended with its job, after {lasted}"),
        Some(_) => format!("over, after {lasted}"),
        None => format!("for {lasted}"),
    };
    let back = match incident.times_back {
        0 => String::new(),
        1 => ", came back once".to_owned(),
        n => format!(", came back {n} times"),
    };
    let said = said(incident, now).map(|said| format!(", {said}")).unwrap_or_default();
    let job = if incident.job.is_empty() { String::new() } else { format!(", job {}", incident.job) };
    format!(
        "{}  {}{job}, {time}{back}{}{said}\n    {}\n",
        incident.id,
        incident.severity.label(),
        victims(incident),
        incident.sentence
    )
}

fn victims(incident: &Incident) -> String {
    match incident.n_victims {
        0 => String::new(),
        n => format!(", {} waiting", plural(n as usize, "rank")),
    }
}

/// What people have said of it.
fn said(incident: &Incident, now: Timestamp) -> Option<String> {
    let looks = incident.acknowledged.as_ref().map(|one| format!("{} looks after it", one.by));
    let silent = incident.silenced_until.map(|until| format!("silenced until {}", moment(until, now)));
    let all: Vec<String> = [looks, silent].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn whole(detail: &IncidentDetail, now: Timestamp) -> String {
    let incident = &detail.incident;
    let mut text = line(incident, now);
    let mut part = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            text += &format!("\n{title}\n");
            lines.iter().for_each(|line| text += &format!("  {line}\n"));
        }
    };
    part("What to do", incident.advice.lines().map(str::to_owned).collect());
    let culprits = incident.culprits.iter().filter(|one| !one.doing.is_empty()).map(|one| {
        let rank = one.rank.map(|rank| format!("rank {rank} on ")).unwrap_or_default();
        let place = one.place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        format!("{rank}{}{place}: {}", one.host, one.doing)
    });
    part("Culprits", culprits.collect());
    let at = |at: Timestamp, words: &str| format!("{}  {words}", moment(at, now));
    part("What was known when", incident.timeline.iter().map(|event| at(event.at, &event.text)).collect());
    let notes = incident.notes.iter().map(|note| at(note.at, &format!("{}: {}", note.by, note.text)));
    part("Notes", notes.collect());
    let findings = detail.members.iter().map(|finding| {
        let over = if finding.state == FindingState::Resolved { " (over)" } else { "" };
        format!("{} {}{over}: {}", finding.severity.label(), finding.finding.label(), finding.message)
    });
    part("Findings", findings.collect());
    let details = detail.members.first().into_iter().flat_map(|root| &root.details);
    for one in details {
        part(&one.title, one.lines.clone());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringscope_api::{Acknowledgement, Culprit, IncidentEvent, IncidentNote, Severity};
    use ringscope_samples::objects::{NOW, incident};

    #[test]
    fn an_incident_is_told_whole() {
        let mut one = incident("a1", "node-2", Severity::Critical, "Rank 5 on node-2 has not called #7.");
        one.n_victims = 7;
        one.acknowledged = Some(Acknowledgement { by: "ann".into(), at: NOW });
        one.culprits = vec![Culprit {
            host: "node-2".into(),
            rank: Some(5),
            doing: "stopped (SIGSTOP)".into(),
            ..Culprit::default()
        }];
        one.timeline = vec![IncidentEvent { at: NOW, text: "Found: it".into() }];
        one.notes = vec![IncidentNote { by: "ann".into(), at: NOW, text: "I look.".into() }];
        let text = whole(&IncidentDetail { incident: one, members: Vec::new() }, NOW);
        assert_eq!(
            text,
            "a1  critical, job train, for 14 min, 7 ranks waiting, ann looks after it\n    Rank 5 on node-2 has not called #7.\n\
             \nWhat to do\n  Look at its NICs.\n\
             \nCulprits\n  rank 5 on node-2: stopped (SIGSTOP)\n\
             \nWhat was known when\n  12:00:00Z  Found: it\n\
             \nNotes\n  12:00:00Z  ann: I look.\n"
        );
    }
}
