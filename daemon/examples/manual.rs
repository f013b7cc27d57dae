//! Writes what packages tell of the command line: a man page for each command, and completions for three shells.
//!
//! `cargo run -p ringscope --example manual -- FOLDER` makes `FOLDER/man` and `FOLDER/completions`.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap_complete::Shell;

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("say where to: manual FOLDER"))?;
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    for folder in [&man, &completions] {
        fs::create_dir_all(folder)?;
    }
    // Hidden commands get no page.
    clap_mangen::generate_to(ringscope_daemon::cli::command(), &man)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut ringscope_daemon::cli::command(), "ringscope", &completions)?;
    }
    Ok(())
}
