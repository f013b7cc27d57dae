//! What a dry run prints: what would be started where, with which variables.

use std::fmt::Display;

use comfy_table::{ContentArrangement, Table, presets};

use super::place::Place;
use super::plan::Plan;
use super::protocol::{Process, Role};
use super::report;

/// The plan as text; `processes` are those of each host.
pub(super) fn text(
    job: &str,
    plan: &Plan,
    places: &[Place],
    processes: &[Vec<Process>],
    command: &str,
) -> String {
    let mut hosts = Table::new();
    hosts.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    hosts.set_header(["HOST", "BY", "RANKS", "SERVERS", "STARTS"]);
    for (host, place) in plan.hosts.iter().zip(places) {
        let last = (host.first_rank + host.ranks).saturating_sub(1);
        let ranks = match host.ranks {
            0 => "-".to_owned(),
            1 => host.first_rank.to_string(),
            _ => format!("{}-{last}", host.first_rank),
        };
        let servers = host.servers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let servers = if servers.is_empty() { "-".to_owned() } else { servers };
        hosts.add_row([host.host.as_str(), by(place), &ranks, &servers, command]);
    }
    let mut text = format!(
        "job {job}: {} and {}\n\n{hosts}\n",
        count(plan.workers, "worker"),
        count(plan.servers, "server")
    );
    for (host, processes) in plan.hosts.iter().zip(processes) {
        let first = |wanted: fn(&Role) -> bool| processes.iter().find(|process| wanted(&process.role));
        let shown =
            [first(|role| matches!(role, Role::Worker(_))), first(|role| matches!(role, Role::Server(_)))];
        for process in shown.into_iter().flatten() {
            text += &format!("\n{} on {}:\n", report::name(process.role), host.host);
            text.extend(process.variables.iter().map(|(name, value)| format!("  {name}={value}\n")));
        }
    }
    text + "\nNothing was started, and no host was asked: each is asked at the start whether it has the folder and the command.\n"
}

fn by(place: &Place) -> &'static str {
    match place {
        Place::Here => "this machine",
        Place::Ssh => "ssh",
        Place::Srun => "srun",
        Place::Comes => "comes itself",
    }
}

/// So many, in words.
pub(super) fn count(number: impl Display, what: &str) -> String {
    let number = number.to_string();
    if number == "1" { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::hosts::of_list;
    use crate::launch::plan::Facts;

    #[test]
    fn a_plan_says_what_starts_where() {
        let hosts = of_list(&["a:2".to_owned(), "b:1".to_owned()]).unwrap();
        let plan = Plan::new(&hosts, None, 1, false).unwrap();
        let facts = Facts {
            job: "train".into(),
            master: "a".into(),
            master_port: "(free, of 20000-29999)".into(),
            root_port: "(free)".into(),
            secret: "(hidden)".into(),
            restart: (0, 0),
        };
        let processes: Vec<_> = (0..2).map(|node| plan.processes(node, &facts)).collect();
        let text = text("train", &plan, &[Place::Here, Place::Ssh], &processes, "python train.py");
        for part in [
            "job train: 3 workers and 1 server",
            "a     this machine  0-1    -        python train.py",
            "b     ssh           2      0        python train.py",
            "rank 2 on b:\n  RANK=2\n",
            "RSUM_SECRET=(hidden)",
            "summation server 0 on b:",
            "no host was asked",
        ] {
            let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(squeezed(&text).contains(&squeezed(part)), "{part} in {text}");
        }
    }
}
