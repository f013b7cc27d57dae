//! The `ringscope` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ringscope_daemon::cli::main()
}
