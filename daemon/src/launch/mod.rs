//! `ringscope launch`: starts workers and summation servers of one job, on this machine, over ssh, inside a Slurm allocation, or as
//! one of several nodes that somebody else starts.
//!
//! Two sides. The launching side (`job`) reaches each host (`place`, `link`, `meet`) and says what is to be done (`protocol`); the
//! host side (`node`), which is this program too, starts, reads and ends the processes there. What is started where is a plan
//! (`plan`, from `args`, `hosts`, `settings`), which a dry run prints (`dry_run`). What comes back is known by the `roster`, goes out
//! by `output` (`lines`) and `say`, and decides by `ending` when all is ended; `report` names who failed first (`failure`). A name
//! belongs to one job at a time (`claim`, `daemon`). What a launch changes of itself, no job sees (`inherited`), and what it would
//! have to open is counted before (`open_files`). Options of other launchers are told in those of this one (`habits`).

mod args;
mod claim;
mod config;
mod daemon;
mod dry_run;
mod ending;
mod failure;
mod habits;
mod hosts;
mod inherited;
mod job;
mod lines;
mod link;
mod meet;
pub mod node;
mod open_files;
mod os_text;
mod output;
mod place;
mod plan;
mod protocol;
mod report;
mod roster;
mod say;
mod settings;
mod signals;
mod start;

pub use args::LaunchArgs;
pub(crate) use habits::explain;
pub use start::run;

/// The program that runs: also where its file was replaced meanwhile.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// This machine's name.
fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
