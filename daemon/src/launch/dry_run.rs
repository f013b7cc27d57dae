//! What a dry run prints: what would be started where, how, and with which variables. Asks no host; shows no secret.

use std::ffi::OsStr;

use comfy_table::{ContentArrangement, Table, presets};
use ringscope_api::terminal::without_passwords;
use ringscope_api::words::plural;

use super::place::{Place, quoted};
use super::plan::{Facts, HostPlan};
use super::protocol::Hello;
use super::settings::{self, Settings};

/// All of it.
pub(super) fn text(settings: &Settings) -> String {
    let Settings { plan, job, .. } = settings;
    let n_hosts = plan.hosts.len();
    let (workers, servers) = (number(plan.workers), number(plan.servers));
    [
        format!(
            "job {job}: {} and {} on {}\n\n",
            plural(workers, "worker"),
            plural(servers, "server"),
            plural(n_hosts, "host")
        ),
        format!("{}\n\n", lines(&hosts(settings))),
        commands(settings),
        ways(settings),
        format!("Agents: {}\n\n", agents(settings)),
        format!("Each worker gets:\n{}\n", ranks(settings)),
        variables(settings),
        END.to_owned(),
    ]
    .concat()
}

fn hosts(settings: &Settings) -> Table {
    let mut table = table(&["HOST", "REACHED BY", "SLOTS", "RANKS", "SERVERS"]);
    for (host, place) in settings.plan.hosts.iter().zip(&settings.places) {
        let last = (host.first_rank + host.ranks).saturating_sub(1);
        let ranks = match host.ranks {
            0 => NONE.to_owned(),
            1 => host.first_rank.to_string(),
            _ => format!("{}-{last}", host.first_rank),
        };
        let servers = host.servers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let servers = if servers.is_empty() { NONE.to_owned() } else { servers };
        let slots = host.slots.map_or_else(|| NONE.to_owned(), |slots| slots.to_string());
        table.add_row([host.host.as_str(), by(place), &slots, &ranks, &servers]);
    }
    table
}

fn by(place: &Place) -> &'static str {
    match place {
        Place::Here => "this machine",
        Place::Ssh => "ssh",
        Place::Srun => "srun",
        Place::Comes => "comes itself",
    }
}

/// What is started on each host, and where.
fn commands(settings: &Settings) -> String {
    let Settings { args, plan, dir, .. } = settings;
    let run = settings.watch().map(|options| [vec!["ringscope".into(), "run".into()], options].concat());
    let run = run.map_or_else(String::new, |words| format!("{} -- ", line(&words)));
    let own = if args.node.is_some() { ", which of other nodes their own lines say" } else { "" };
    let mut text = format!(
        "Each worker is, in {}{own}:\n  {run}{}\n",
        quoted(&dir.to_string_lossy()),
        line(&args.command)
    );
    if plan.servers > 0 {
        let (server, place) = match &args.sumd {
            Some(path) => (quoted(&path.to_string_lossy()), ""),
            None => {
                ("ringscope-sumd".to_owned(), ", where ringscope-sumd lies beside ringscope or else in PATH")
            }
        };
        text += &format!("Each server is, in the same folder{place}:\n  {run}{server}\n");
    }
    text + "\n"
}

/// The command by which other hosts are reached.
fn ways(settings: &Settings) -> String {
    let ways = [Place::Ssh, Place::Srun].into_iter().filter(|place| settings.places.contains(place));
    let reached = ways.map(|place| {
        let command = settings.ways.command(&place, "HOST");
        let command = command.as_std();
        let words = [command.get_program()].into_iter().chain(command.get_args());
        format!("Other hosts are reached by:\n  {}\n\n", line(&words.collect::<Vec<_>>()))
    });
    let meeting =
        settings.args.meet.as_ref().map(|meeting| {
            format!("Other nodes come by themselves to {}:{}.\n\n", meeting.host, meeting.port)
        });
    reached.chain(meeting).collect()
}

fn agents(settings: &Settings) -> String {
    let args = &settings.args;
    if args.no_agent {
        return "none is started, for --no-agent was said".to_owned();
    }
    if args.daemon.is_empty() {
        return "none is started, for no --daemon is named".to_owned();
    }
    let daemons = args.daemon.join(",");
    format!(
        "where none runs one is started that sends to {}, and is ended with the job",
        without_passwords(&daemons)
    )
}

/// What differs between workers.
fn ranks(settings: &Settings) -> String {
    let plan = &settings.plan;
    let of_host = |(node, host): (usize, &HostPlan)| (0..host.ranks).map(move |local| (node, local));
    let workers = plan.hosts.iter().enumerate().flat_map(of_host);
    let mut listed = table(&[]);
    for (node, local) in workers.take(LISTED) {
        let variables = plan.of_worker(node, local);
        if listed.row_count() == 0 {
            listed.set_header(variables.iter().map(|(name, _)| name));
        }
        listed.add_row(variables.iter().map(|(_, value)| value));
    }
    let more = number(plan.workers).saturating_sub(LISTED);
    let more = if more > 0 { format!("  and so on for {more} more\n") } else { String::new() };
    format!("{}\n{more}", lines(&listed))
}

/// What all processes get, and what goes along to them of this one's environment: that by its names, for it may be secret.
fn variables(settings: &Settings) -> String {
    let Settings { args, environment, plan, .. } = settings;
    let mut text = "Each worker and server gets:\n".to_owned();
    text.extend(plan.of_all(&facts(settings)).iter().map(|(name, value)| format!("  {name}={value}\n")));
    let names = environment.iter().map(|(name, _)| name.to_string_lossy());
    let names = names.collect::<Vec<_>>().join(", ");
    let names = if names.is_empty() { "nothing".to_owned() } else { names };
    text +=
        &format!("and, as they are set here or by -x (on this machine all that are set here):\n  {names}\n");
    let (master, ports) = (&plan.hosts[0].host, args.ports);
    text += &format!(
        "Ports are picked on {master} at the start, free ones of {}-{} (--ports); rank 0 listens there. Servers come to RSUM_ROOT, and \
         listen on ports that the system gives them.\n\n",
        ports.first, ports.last
    );
    text
}

/// What is known before the start.
fn facts(settings: &Settings) -> Facts {
    Facts {
        job: settings.job.clone(),
        master: settings::master(settings, &Hello::default(), &[])
            .unwrap_or_else(|_| format!("({} as the others see it)", settings.plan.hosts[0].host)),
        master_port: PICKED.to_owned(),
        root_port: PICKED.to_owned(),
        secret: "(made at the start)".to_owned(),
        restart: (0, settings.args.restarts),
    }
}

/// Words as a shell takes them.
fn line(words: &[impl AsRef<OsStr>]) -> String {
    let words = words.iter().map(|word| quoted(&word.as_ref().to_string_lossy()));
    words.collect::<Vec<_>>().join(" ")
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// A table without the spaces at the ends of its lines.
fn lines(table: &Table) -> String {
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn number(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

const NONE: &str = "-";
const PICKED: &str = "(picked)";
/// Workers that are listed one by one: more than anybody reads.
const LISTED: usize = 1024;
const END: &str = "Nothing was started, and no host was asked: each is asked at the start whether it has the folder and the command.\n";
