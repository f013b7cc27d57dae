//! The log that `ringscope env` lends to commands whose user has asked the library for none. No process of ours stays beside
//! such a command, so nothing could be copied to where a user asks for it later: then he gets his own log back, and ringscope
//! goes without.
//!
//! What is lent is known by its spelling, which the library reads as any other, and by `RINGSCOPE_LENT_LOG`, which names
//! the file. The collector compares at the first call of the library, and takes back what is lent where the user has said
//! something of his own meanwhile (`config.rs` there).

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use ringscope_agent::log_folder;
use ringscope_agent::sweep::is_read;
use ringscope_wire::settings::{LENT_LEVEL, LENT_SUBSYSTEMS};

use super::args::{Inherited, said};
use super::variables::{Prepared, Variables};
use super::{log, nccl_conf};

/// The user's own settings of the log.
pub(super) fn users_own(inherited: &Inherited) -> log::Inherited<'_> {
    let lent = said(&inherited.lent_log);
    let own = |value, lent: Option<&OsStr>| said(value).filter(|value| Some(*value) != lent);
    log::Inherited {
        level: own(&inherited.debug, lent.and(Some(OsStr::new(LENT_LEVEL)))),
        subsystems: own(&inherited.debug_subsys, lent.and(Some(OsStr::new(LENT_SUBSYSTEMS)))),
        file: own(&inherited.debug_file, lent),
    }
}

/// Lends a log, where the user has asked for none and an agent reads and frees it. Not one that ended a moment ago: it may not
/// come back, and the log would fill the memory.
///
/// # Errors
/// There is no folder for logs that is this user's alone.
pub(super) fn lend(variables: &mut Variables, inherited: &Inherited, place: &Prepared) -> io::Result<()> {
    let own = users_own(inherited);
    let of_outer_run = own.file.map(Path::new).filter(|file| log::is_private(file, &place.dir));
    let says_nothing = [own.level, own.subsystems, own.file].iter().all(Option::is_none);
    let says_nothing = says_nothing && !nccl_conf::asks_for_log(inherited);
    if let Some(name) = of_outer_run.and_then(Path::file_name) {
        // It may have begun on another machine, where the folder is there already.
        let folder = log_folder::own(&place.dir, log_folder::PREFIX)?;
        variables.set("NCCL_DEBUG_FILE", folder.join(name));
    } else if says_nothing && place.lack.is_none() && is_read(&place.dir) {
        let file = log::private(&log_folder::own(&place.dir, log_folder::PREFIX)?, &place.run_id);
        variables.set("NCCL_DEBUG", LENT_LEVEL);
        variables.set("NCCL_DEBUG_SUBSYS", LENT_SUBSYSTEMS);
        variables.set("NCCL_DEBUG_FILE", &file);
        variables.set("RINGSCOPE_LENT_LOG", file);
    } else if said(&inherited.lent_log).is_some() {
        take_back(variables, inherited, own);
    }
    Ok(())
}

/// Of what is lent nothing stays, and all of the user's own.
fn take_back(variables: &mut Variables, inherited: &Inherited, own: log::Inherited<'_>) {
    for (name, inherited, own) in [
        ("NCCL_DEBUG", &inherited.debug, own.level),
        ("NCCL_DEBUG_SUBSYS", &inherited.debug_subsys, own.subsystems),
        ("NCCL_DEBUG_FILE", &inherited.debug_file, own.file),
    ] {
        if said(inherited).is_some() && own.is_none() {
            variables.unset(name);
        }
    }
    variables.unset("RINGSCOPE_LENT_LOG");
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Cli {
        #[command(flatten)]
        inherited: Inherited,
    }

    fn inherited(level: &str, subsystems: &str, file: &str, lent: &str) -> Inherited {
        let text = |text: &str| Some(OsString::from(text));
        let mut inherited = Cli::try_parse_from(["test"]).unwrap().inherited;
        inherited.debug = text(level);
        inherited.debug_subsys = text(subsystems);
        inherited.debug_file = text(file);
        inherited.lent_log = text(lent);
        inherited
    }

    fn check(settings: [&str; 4], own: [&str; 3], unset: &[&str]) {
        let [level, subsystems, file, lent] = settings;
        let inherited = inherited(level, subsystems, file, lent);
        let found = users_own(&inherited);
        let text = |value: Option<&OsStr>| value.unwrap_or_default().to_string_lossy().into_owned();
        let texts = [text(found.level), text(found.subsystems), text(found.file)];
        assert_eq!(texts, own, "{settings:?}");
        let mut variables = Variables::default();
        take_back(&mut variables, &inherited, found);
        let names: Vec<&str> = variables.iter().map(|(name, _)| name).collect();
        let expected: Vec<&str> = unset.iter().copied().chain(["RINGSCOPE_LENT_LOG"]).collect();
        assert_eq!(names, expected, "{settings:?}");
    }

    #[test]
    fn the_task_prolog_of_slurm_takes_back_what_was_lent_and_what_was_set_and_no_more() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/slurm/task_prolog.sh");
        let check = |variables: &[(&str, &str)], unset: &[&str]| {
            let mut shell = std::process::Command::new("sh");
            shell.arg(&script).env_clear().envs(variables.iter().copied());
            let printed =
                shell.env("RINGSCOPE_OFF", "1").env("RINGSCOPE_SET_BY", "env").output().unwrap().stdout;
            let printed = String::from_utf8(printed).unwrap();
            let mut found: Vec<&str> =
                printed.lines().filter_map(|line| line.strip_prefix("unset ")).collect();
            found.retain(|name| !ALWAYS.contains(name));
            assert_eq!(found, unset, "{variables:?}: {printed}");
        };
        let lent = ("RINGSCOPE_LENT_LOG", "/d/lent");
        let all = [
            ("NCCL_DEBUG", LENT_LEVEL),
            ("NCCL_DEBUG_SUBSYS", LENT_SUBSYSTEMS),
            ("NCCL_DEBUG_FILE", "/d/lent"),
            lent,
        ];
        check(&all, &["NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "RINGSCOPE_LENT_LOG"]);
        check(
            &[("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "NET"), ("NCCL_DEBUG_FILE", "/mine"), lent],
            &[lent.0],
        );
        check(&all[..3], &[]);
        let host = |host| [("RINGSCOPE_HOST", host), ("RINGSCOPE_SET_HOST", "n1")];
        check(&host("n1"), &["RINGSCOPE_HOST", "RINGSCOPE_SET_HOST"]);
        check(&host("mine"), &["RINGSCOPE_SET_HOST"]);
        check(&host("mine")[..1], &[]);
    }

    /// What is of nobody but ringscope.
    const ALWAYS: [&str; 4] =
        ["RINGSCOPE_SET_BY", "RINGSCOPE_COLLECTOR", "RINGSCOPE_CHAIN_PLUGIN", "RINGSCOPE_RUN_ID"];

    #[test]
    fn what_is_lent_is_told_from_what_is_the_users() {
        let all = ["NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"];
        check([LENT_LEVEL, LENT_SUBSYSTEMS, "/d/lent", "/d/lent"], ["", "", ""], &all);
        check(["INFO", LENT_SUBSYSTEMS, "/d/lent", "/d/lent"], ["INFO", "", ""], &all[1..]);
        check([LENT_LEVEL, "COLL", "/d/lent", "/d/lent"], ["", "COLL", ""], &all[..2]);
        check([LENT_LEVEL, LENT_SUBSYSTEMS, "/mine", "/d/lent"], ["", "", "/mine"], &[all[0], all[2]]);
        check(["WARN", "NET", "/mine", "/d/lent"], ["WARN", "NET", "/mine"], &[]);
        check([LENT_LEVEL, LENT_SUBSYSTEMS, "/mine", ""], [LENT_LEVEL, LENT_SUBSYSTEMS, "/mine"], &[]);
    }
}
