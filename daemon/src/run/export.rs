//! `ringscope env`: prints the variables that `ringscope run` would set, for those who start commands themselves: prologs of
//! schedulers, shells, launchers.
//!
//! Whatever goes wrong, what is printed on standard output is either all of it or nothing: who takes it never gets half.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;

use super::args::Watch;
use super::error::RunError;
use super::lent_log;
use super::variables::{Prepared, Variables};

/// Arguments of `ringscope env`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  eval \"$(ringscope env)\"; python train.py         in a shell or a script
  ringscope env --format slurm --quiet-on-error    in a TaskProlog of Slurm: docs/slurm.md
  ringscope env --format json                      for programs that start others

What `ringscope run` does besides, this cannot: copy the library's log to who asks for it. So NCCL_DEBUG, NCCL_DEBUG_SUBSYS and
NCCL_DEBUG_FILE stay as they are where one of them is set, now or later; then the rings of the job are not known. Where
none is set and an agent reads this host's logs, the library is asked for a private log.

Exit status: 0 printed; 1 nothing is printed, and the reason on stderr (with --quiet-on-error: 0, and no word); 64 wrong options")]
pub struct EnvArgs {
    #[command(flatten)]
    watch: Watch,
    /// How they are printed
    #[arg(long, value_enum, default_value_t = Format::Sh)]
    format: Format,
    /// Print them for `eval` in a shell: --format sh
    #[arg(long, conflicts_with = "format")]
    shell: bool,
    /// Where something is wrong print nothing, say nothing, and exit with 0: no job fails by it
    #[arg(long)]
    quiet_on_error: bool,
    /// Where something is wrong tell it to who reads standard output: in the format slurm to the task's own output, in sh as a
    /// comment
    #[arg(long)]
    say_why: bool,
}

/// How variables are printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Format {
    /// `export NAME='value'` and `unset NAME`, for a shell
    Sh,
    /// `export NAME=value` and `unset NAME`, as Slurm reads them from a TaskProlog
    Slurm,
    /// `{"set": {"NAME": "value"}, "unset": ["NAME"]}`
    Json,
}

/// Why nothing was printed.
#[derive(Debug, thiserror::Error)]
pub enum EnvError {
    /// There is nothing to print.
    #[error("nothing is set: {0}")]
    Run(#[from] RunError),
    /// The folder for logs.
    #[error("nothing is set: there is no folder for the library's log that is this user's alone: {0}")]
    Log(io::Error),
    /// The format has no way of saying a value.
    #[error("nothing is set: the value of {name} cannot be written in this format ({why})")]
    Value {
        /// Which variable.
        name: &'static str,
        /// What it holds.
        why: &'static str,
    },
    /// It would be cut.
    #[error(
        "nothing is set: {name} would take a line of {bytes} bytes, and Slurm takes {SLURM_LINE_BYTES} of a TaskProlog; make \
         it shorter"
    )]
    TooLong {
        /// Which variable.
        name: &'static str,
        /// How long its line is.
        bytes: usize,
    },
    /// Standard output.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

/// Prints the variables.
///
/// # Errors
/// [`EnvError`]; then nothing stands on `out` but what `--say-why` wants. With `--quiet-on-error` there is none.
pub fn print(args: &EnvArgs, out: &mut impl Write) -> Result<(), EnvError> {
    let text = variables(&args.watch).and_then(|variables| args.format.text(&variables));
    match text {
        Ok(text) => out.write_all(&text).and_then(|()| out.flush()).map_err(EnvError::Io),
        Err(error) => {
            if args.say_why {
                out.write_all(args.format.remark(&error.to_string()).as_bytes())?;
            }
            if args.quiet_on_error { Ok(()) } else { Err(error) }
        }
    }
}

fn variables(watch: &Watch) -> Result<Variables, EnvError> {
    let place = Prepared::prepare(watch)?;
    if let Some(lack) = place.lack {
        return Err(RunError::Unwatched { lack }.into());
    }
    let mut variables = place.variables(watch, None, None)?;
    // So that the next prolog knows what may be taken away again.
    variables.set("RINGSCOPE_SET_BY", "env");
    lent_log::lend(&mut variables, &watch.inherited, &place).map_err(EnvError::Log)?;
    Ok(variables)
}

impl Format {
    fn text(self, variables: &Variables) -> Result<Vec<u8>, EnvError> {
        match self {
            Self::Sh => lines(variables, usize::MAX, |value| [b"'", quoted(value).as_slice(), b"'"].concat()),
            Self::Slurm => lines(variables, SLURM_LINE_BYTES, <[u8]>::to_vec),
            Self::Json => json(variables),
        }
    }

    /// A line that says something to people and sets nothing.
    fn remark(self, text: &str) -> String {
        let text = text.replace(['\n', '\r'], " ");
        match self {
            Self::Sh => format!("# ringscope: {text}\n"),
            Self::Slurm => format!("print ringscope: {text}\n"),
            Self::Json => String::new(),
        }
    }
}

/// A line for each, none of them longer than this.
fn lines(
    variables: &Variables,
    max_bytes: usize,
    value_of: impl Fn(&[u8]) -> Vec<u8>,
) -> Result<Vec<u8>, EnvError> {
    let mut text = Vec::new();
    for (name, value) in variables.iter() {
        let line = match value.map(OsStr::as_bytes) {
            Some(value) if value.contains(&b'\n') => {
                return Err(EnvError::Value { name, why: "it has several lines" });
            }
            Some(value) => [b"export ", name.as_bytes(), b"=", &value_of(value), b"\n"].concat(),
            None => format!("unset {name}\n").into_bytes(),
        };
        if line.len() > max_bytes {
            return Err(EnvError::TooLong { name, bytes: line.len() });
        }
        text.extend(line);
    }
    Ok(text)
}

/// For between single quotes of a shell.
fn quoted(value: &[u8]) -> Vec<u8> {
    value.split(|byte| *byte == b'\'').collect::<Vec<_>>().join(br"'\''".as_slice())
}

fn json(variables: &Variables) -> Result<Vec<u8>, EnvError> {
    let (mut set, mut unset) = (serde_json::Map::new(), Vec::new());
    for (name, value) in variables.iter() {
        match value.map(OsStr::to_str) {
            Some(Some(value)) => drop(set.insert(name.to_owned(), value.into())),
            Some(None) => return Err(EnvError::Value { name, why: "it is no UTF-8" }),
            None => unset.push(name),
        }
    }
    let mut text = serde_json::to_vec_pretty(&serde_json::json!({ "set": set, "unset": unset }))
        .map_err(io::Error::from)?;
    text.push(b'\n');
    Ok(text)
}

/// Older releases of Slurm read so much of a line that a TaskProlog prints, and take the rest for another one. Source:
/// `src/slurmd/slurmstepd/task.c`, `_run_script_and_set_env`, `fgets` into 4096 bytes less one.
const SLURM_LINE_BYTES: usize = 4094;

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: Format, variables: &Variables) -> String {
        String::from_utf8(format.text(variables).unwrap()).unwrap()
    }

    #[test]
    fn each_format_says_the_same() {
        let mut variables = Variables::default();
        variables.set("PYTHONPATH", "/it's/a b:$HOME");
        variables.unset("NCCL_DEBUG");
        assert_eq!(
            printed(Format::Sh, &variables),
            "unset NCCL_DEBUG\nexport PYTHONPATH='/it'\\''s/a b:$HOME'\n"
        );
        assert_eq!(
            printed(Format::Slurm, &variables),
            "unset NCCL_DEBUG\nexport PYTHONPATH=/it's/a b:$HOME\n"
        );
        let json: serde_json::Value = serde_json::from_str(&printed(Format::Json, &variables)).unwrap();
        let expected =
            serde_json::json!({ "set": { "PYTHONPATH": "/it's/a b:$HOME" }, "unset": ["NCCL_DEBUG"] });
        assert_eq!(json, expected);
    }

    #[test]
    fn what_would_be_cut_is_not_printed() {
        let mut variables = Variables::default();
        let longest = SLURM_LINE_BYTES - "export LD_PRELOAD=\n".len();
        variables.set("LD_PRELOAD", "x".repeat(longest));
        assert_eq!(printed(Format::Slurm, &variables).len(), SLURM_LINE_BYTES);
        variables.set("LD_PRELOAD", "x".repeat(longest + 1));
        let error = Format::Slurm.text(&variables).unwrap_err().to_string();
        assert!(error.contains("nothing is set") && error.contains("LD_PRELOAD"), "{error}");
        assert!(Format::Sh.text(&variables).is_ok());
        variables.set("LD_PRELOAD", "a\nexport PATH=/evil");
        for format in [Format::Sh, Format::Slurm] {
            assert!(format.text(&variables).unwrap_err().to_string().contains("LD_PRELOAD"));
        }
        assert_eq!(Format::Slurm.remark("a\nexport X=1"), "print ringscope: a export X=1\n");
    }
}
