//! What is committed of settings is what the program takes: the table of docs/configure.md, the files that packages put into
//! /etc/ringscope, and the keys of the chart's `daemon.settings`.
//!
//! `BLESS=1 cargo test -p ringscope --test configure` writes them anew.

#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use ringscope_daemon::config::{self, ServeArgs, ServeConfig};

/// What the packages' daemon is told otherwise than by default: its state is in its own folder, and the agent of the host is
/// a service of its own, with other rights.
const SERVE: [(&str, &str); 2] = [("data_dir", "\"/var/lib/ringscope\""), ("with_agent", "false")];
/// What the packages' agent is told.
const AGENT: [(&str, &str); 2] =
    [("RINGSCOPE_DAEMON", "http://127.0.0.1:9440"), ("RINGSCOPE_STATE_DIR", "/var/lib/ringscope-agent")];

/// Settings that the Helm chart gives the daemon itself, of other values.
const CHARTS_OWN: [&str; 13] = [
    "allowed_hosts",
    "cluster_url",
    "data_dir",
    "database_url",
    "kubernetes_archs",
    "kubernetes_folder",
    "kubernetes_image",
    "listen",
    "public_url",
    "tls_cert",
    "tls_client_ca",
    "tls_key",
    "with_agent",
];

/// What stands behind a variable that switches something off.
const OFF: &str = "=off";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// An option as people read of it.
struct Setting {
    option: String,
    variable: Option<String>,
    in_file: Option<&'static str>,
    default: String,
    meaning: String,
}

fn settings(command: &str) -> Vec<Setting> {
    let all = ringscope_daemon::cli::command();
    let found = all.find_subcommand(command).unwrap();
    let visible = found.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_long().is_some());
    visible.map(|arg| setting(command, found, arg)).collect()
}

fn setting(name: &str, command: &Command, arg: &Arg) -> Setting {
    let option = arg.get_long().unwrap();
    let in_file = if name == "serve" { config::name_in_file(option) } else { None };
    let variable = match (name, option) {
        ("serve", "config") => Some("RINGSCOPE_CONFIG".to_owned()),
        ("serve", _) => in_file.map(|name| format!("RINGSCOPE_{}", name.to_uppercase())),
        _ => variable(command, arg),
    };
    let (meaning, mut default) = meaning(arg);
    if variable.as_deref().is_some_and(|variable| variable.ends_with(OFF)) {
        default.clear();
    }
    let value = if arg.get_action().takes_values() { value_names(arg) } else { String::new() };
    Setting { option: format!("--{option}{value}"), variable, in_file, default, meaning }
}

/// The variable of an option, which may stand at a hidden one that is asked after it, or at the end of its default.
fn variable(command: &Command, arg: &Arg) -> Option<String> {
    let option = arg.get_long()?;
    if let Some((_, variable)) = meaning(arg).1.split_once(", else $") {
        return Some(variable.to_owned());
    }
    let inherited = format!("inherited-{}", option.trim_start_matches("no-"));
    let hidden = command.get_arguments().find(|other| other.get_long() == Some(&inherited));
    let variable = arg.get_env().or_else(|| hidden?.get_env())?.to_str()?;
    // What `--no-look` says is said by `RINGSCOPE_LOOK=off`.
    Some(format!("{variable}{}", if option.starts_with("no-") { OFF } else { "" }))
}

fn value_names(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.iter().map(|name| format!(" {name}")).collect()
}

/// What the help says, and the default that it ends with.
fn meaning(arg: &Arg) -> (String, String) {
    let help = arg.get_long_help().or(arg.get_help()).unwrap_or_else(|| panic!("{arg:?} has no help"));
    let help = help.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    for (before, after) in [(" [default: ", "]"), (". Default: ", ""), ("; default: ", "")] {
        if let Some((meaning, default)) = help.split_once(before) {
            return (meaning.to_owned(), default.trim_end_matches(after).to_owned());
        }
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
    (help, if is_flag { "off".to_owned() } else { defaults.join(" ") })
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}

fn table() -> String {
    let mut text = String::new();
    for (command, title) in [
        ("serve", "The daemon: `ringscope serve`"),
        ("agent", "The agent: `ringscope agent`"),
        ("run", "A rank: `ringscope run`"),
    ] {
        let has_file = command == "serve";
        let (head, line) = if has_file { (" in the file |", "---|") } else { ("", "") };
        writeln!(text, "\n### {title}\n\n| option | variable |{head} default | what it is |").unwrap();
        writeln!(text, "|---|---|{line}---|---|").unwrap();
        for setting in settings(command) {
            let in_file = setting.in_file.map_or_else(String::new, |name| format!("`{name}`"));
            let in_file = if has_file { format!(" {in_file} |") } else { String::new() };
            let (option, variable) =
                (code(&setting.option), code(setting.variable.as_deref().unwrap_or_default()));
            let (default, meaning) = (code(&setting.default), setting.meaning.replace('|', "\\|"));
            writeln!(text, "| {option} | {variable} |{in_file} {default} | {meaning} |").unwrap();
        }
    }
    text.lines().map(|line| line.replace("  ", " ").trim_end().to_owned() + "\n").collect()
}

/// Lines of comment, no longer than people's terminals are wide.
fn comment(text: &str) -> String {
    let mut lines = vec!["#".to_owned()];
    for word in text.split(' ') {
        let line = lines.last_mut().unwrap();
        if line.len() + word.len() > 99 {
            lines.push(format!("# {word}"));
        } else {
            write!(line, " {word}").unwrap();
        }
    }
    lines.join("\n")
}

fn explained(setting: &Setting) -> String {
    match setting.default.as_str() {
        "" => comment(&format!("{}.", setting.meaning)),
        default => comment(&format!("{}. Default: {default}.", setting.meaning)),
    }
}

/// A default that can be written as a value, else what stands for one.
fn example<'a>(setting: &'a Setting, placeholder: &'a str) -> &'a str {
    let is_value = |text: &str| !text.is_empty() && text != "none" && !text.contains([' ', '$']);
    let is_word = setting.default.chars().any(|c| c.is_ascii_uppercase()) && setting.default.contains("://");
    if is_value(&setting.default) && !is_word { &setting.default } else { placeholder }
}

fn serve_file() -> String {
    let mut text = comment(
        "Settings of the ringscope daemon (ringscope-serve.service). What is commented out has its default. Each may also \
         be an option or a variable: man ringscope-serve. A change holds after: systemctl restart ringscope-serve",
    );
    for setting in settings("serve") {
        let Some(name) = setting.in_file else { continue };
        let told = SERVE.iter().find(|(told, _)| *told == name);
        let value = setting.option.split_once(' ').map_or("", |(_, value)| value);
        let line = match told {
            Some((_, value)) => format!("{name} = {value}"),
            None if config::takes_several(name) => format!("#{name} = [\"{value}\"]"),
            None => match example(&setting, value) {
                plain if plain.parse::<i64>().is_ok() || plain.parse::<bool>().is_ok() => {
                    format!("#{name} = {plain}")
                }
                text => format!("#{name} = \"{text}\""),
            },
        };
        write!(text, "\n\n{}\n{line}", explained(&setting)).unwrap();
    }
    text + "\n"
}

fn agent_file() -> String {
    let mut text = comment(
        "Settings of the ringscope agent (ringscope-agent.service), read by systemd: NAME=value, without quotes. What is \
         commented out has its default: man ringscope-agent. A change holds after: systemctl restart ringscope-agent",
    );
    for setting in settings("agent") {
        let Some(name) = &setting.variable else { continue };
        let told = AGENT.iter().find(|(told, _)| told == name);
        let value = setting.option.split_once(' ').map_or("", |(_, value)| value);
        let line = match told {
            Some((_, value)) => format!("{name}={value}"),
            None if name.ends_with(OFF) => format!("#{name}"),
            None => format!("#{name}={}", example(&setting, value)),
        };
        write!(text, "\n\n{}\n{line}", explained(&setting)).unwrap();
    }
    text + "\n"
}

/// What the schema of the chart's values says of `daemon.settings`, as it stands there.
fn chart_settings() -> String {
    let all = settings("serve").into_iter().filter_map(|setting| setting.in_file);
    let kind = |name: &str| if config::takes_several(name) { "settings" } else { "setting" };
    let of_users = all.filter(|name| !CHARTS_OWN.contains(name));
    let keys: serde_json::Map<_, _> = of_users
        .map(|name| (name.to_owned(), serde_json::json!({ "$ref": format!("#/definitions/{}", kind(name)) })))
        .collect();
    let schema = serde_json::json!({ "type": "object", "additionalProperties": false, "properties": keys });
    serde_json::to_string_pretty(&schema).unwrap().replace('\n', "\n        ")
}

fn check(file: &str, text: &str) {
    let path = repository().join(file);
    #[allow(clippy::disallowed_methods, reason = "how golden files are blessed")]
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "{file} is not what the program takes; if the change is meant: BLESS=1 cargo test -p ringscope --test configure"
    );
}

#[test]
fn the_table_of_settings_is_that_of_the_program() {
    const FILE: &str = "docs/configure.md";
    const MARK: &str = "<!-- from here on made by daemon/tests/configure.rs -->\n";
    let committed = std::fs::read_to_string(repository().join(FILE)).unwrap();
    let (words, _) = committed.split_once(MARK).unwrap_or_else(|| panic!("{FILE} has no line {MARK}"));
    check(FILE, &format!("{words}{MARK}{}", table()));
}

#[test]
fn the_packages_files_name_every_setting() {
    check("packaging/etc/ringscope.toml", &serve_file());
    check("packaging/etc/agent.env", &agent_file());
}

#[test]
fn helm_knows_the_settings_that_the_daemon_takes() {
    const FILE: &str = "packaging/chart/ringscope/values.schema.json";
    const KEY: &str = "\n        \"settings\": ";
    const END: &str = "\n        }";
    let committed = std::fs::read_to_string(repository().join(FILE)).unwrap();
    let (before, rest) = committed.split_once(KEY).unwrap_or_else(|| panic!("{FILE} has no{KEY}"));
    let (_, after) = rest.split_once(END).unwrap();
    check(FILE, &format!("{before}{KEY}{}{after}", chart_settings()));
    for own in CHARTS_OWN {
        assert!(settings("serve").iter().any(|setting| setting.in_file == Some(own)), "{own} is no setting");
    }
}

#[test]
fn the_packages_file_is_taken_by_the_daemon() {
    let config = repository().join("packaging/etc/ringscope.toml");
    let args = ServeArgs { config: Some(config), ..ServeArgs::default() };
    let config = ServeConfig::load(&args, &|_| None).unwrap();
    assert_eq!((config.data_dir, config.with_agent), (PathBuf::from("/var/lib/ringscope"), false));
}

#[test]
fn a_setting_of_the_file_that_is_uncommented_as_it_stands_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ringscope.toml");
    let text = serve_file();
    let lines =
        text.lines().map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line));
    std::fs::write(&file, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let args = ServeArgs { config: Some(file), ..ServeArgs::default() };
    let mistakes = ServeConfig::load(&args, &|_| None).err().map_or_else(Vec::new, |error| error.mistakes);
    // `"URL"` and `"GROUP=ROLE"` stand for a value and are none; all other lines must be good as they stand.
    let stands_for_one = |quoted: &str| {
        !quoted.is_empty() && quoted.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'=')
    };
    let placeholders: Vec<&str> = text
        .lines()
        .filter(|line| line.split('"').skip(1).step_by(2).any(stands_for_one))
        .filter_map(|line| line.split([' ', '#']).find(|word| !word.is_empty()))
        .collect();
    for mistake in mistakes {
        assert!(placeholders.iter().any(|name| mistake.contains(name)), "{mistake}");
    }
}
