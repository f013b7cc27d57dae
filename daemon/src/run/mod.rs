//! `ringscope run -- CMD…`: gives a command the collector and a log that ringscope can read, and becomes that command.
//! `ringscope env`: prints what it would give, for who starts commands himself.
//!
//! Never stays between the launcher and the job: after `exec` there is only the job's own process, with its own pid,
//! signals and exit status. Where the user wants to see the library's log themselves, or no agent reads it, a
//! [`relay`] runs beside it.

mod args;
mod descriptors;
mod error;
pub mod export;
mod lent_log;
mod libraries;
mod library_folder;
mod lines;
mod log;
mod nccl_conf;
pub(crate) mod note;
pub mod relay;
mod sanitizers;
pub mod shim;
mod variables;

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringscope_agent::log_folder;
use ringscope_agent::sweep::is_read;

pub use args::RunArgs;
use args::Watch;
pub use error::RunError;
use libraries::Unpacked;
use variables::{Prepared, Variables};

/// Replaces this process by the command. Returns only if that failed.
#[must_use]
pub fn run(args: &RunArgs) -> RunError {
    let mut command = match prepare(args) {
        Ok(command) => command,
        Err(error) if error.is_wrong_option() => return error,
        Err(error) => {
            tracing::warn!("the command is started and not watched: {error}");
            args.plain()
        }
    };
    let source = command.exec();
    RunError::Exec { command: command.get_program().to_owned(), source }
}

fn prepare(args: &RunArgs) -> Result<Command, RunError> {
    let watch = &args.watch;
    let place = Prepared::prepare(watch)?;
    if let Some(lack) = &place.lack {
        tracing::warn!("the job will not be watched, because {lack}");
    }
    let shim = shim(args, &place)?;
    let preloaded = shim.as_ref().map(|shim| shim.path.as_path());
    let mut variables = place.variables(watch, preloaded, Some(&args.command))?;
    if let Some(shim) = &shim {
        variables.set("RINGSCOPE_NCCL", &shim.real);
    }
    // Its user has asked for it: no prolog takes it away again.
    variables.unset("RINGSCOPE_SET_BY");
    // A log would fill what is full, and could hold up the job on a disk, and nothing would come of it.
    if place.lack.is_none() {
        set_log(&mut variables, watch, &place);
    }
    if let Err(error) = args.note().leave(&place.dir, &place.run_id)
        && place.lack.is_none()
    {
        tracing::warn!(%error, dir = %place.dir.display(), "cannot leave a note of this run for the agent");
    }
    let mut command = args.plain();
    variables.give_to(&mut command);
    Ok(command)
}

/// The stand-in for the library, if there is to be one and can be.
fn shim(args: &RunArgs, place: &Prepared) -> Result<Option<shim::Shim>, RunError> {
    let Some(real) = &args.shim else { return Ok(None) };
    let Unpacked { folder, preload, .. } = &place.unpacked;
    match shim::prepare(Path::new(real), &args.command, &place.libraries, preload, folder) {
        Ok(shim) => {
            library_folder::touch(&shim.path);
            Ok(Some(shim))
        }
        Err(error) if !real.is_empty() && error.is_of_library() => Err(error.into()),
        Err(error) => {
            tracing::warn!("{error}; callers by dlsym and ctypes are not seen");
            Ok(None)
        }
    }
}

fn set_log(variables: &mut Variables, watch: &Watch, place: &Prepared) {
    let (dir, run_id) = (&place.dir, &place.run_id);
    let Some(settings) = log::settings(lent_log::users_own(&watch.inherited), dir) else { return };
    let file = match private_log(settings.wish.as_ref(), dir, run_id) {
        Ok(file) => file,
        Err(error) => {
            tracing::warn!(
                dir = %dir.display(),
                "the rings of the job will not be known, and NCCL_DEBUG stays as it is: {error}"
            );
            return;
        }
    };
    variables.set("NCCL_DEBUG", settings.level);
    variables.set("NCCL_DEBUG_SUBSYS", settings.subsystems);
    variables.set("NCCL_DEBUG_FILE", file);
}

/// The name of the private logs, in a folder into which nobody else can put anything.
fn private_log(wish: Option<&log::Wish>, dir: &Path, run_id: &str) -> io::Result<PathBuf> {
    let folder = log_folder::own(dir, log_folder::PREFIX).map_err(|error| {
        io::Error::other(format!(
            "there is no folder for the library's log that is this user's alone: {error}"
        ))
    })?;
    let file = log::private(&folder, run_id);
    // Where an agent reads the log, it frees what it has read. One that ended a moment ago may not come back; for one that does, the
    // relay leaves what it has still to read.
    let is_wanted = wish.is_some() || !is_read(dir);
    if is_wanted && let Err(error) = relay::start(wish, &folder, run_id) {
        let error = format!("the process that reads the library's log cannot be started: {error}");
        if wish.is_some() {
            // What the user wants to see comes before what we do.
            return Err(io::Error::other(error));
        }
        tracing::warn!("{error}; nobody keeps the log short");
    }
    Ok(file)
}
