//! A program that answers each line with numbers: what one round of it took.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::folder::Result;

/// Such a program, which ends with this.
pub(crate) struct Driver {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Driver {
    pub(crate) fn start(mut program: Command) -> Result<Self> {
        let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let ask = child.stdin.take().ok_or("no stdin")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        Ok(Self { child, ask, answers })
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line)
    }

    /// Has it run a round; its numbers.
    pub(crate) fn round<const N: usize>(&mut self) -> Result<[f64; N]> {
        self.ask.write_all(b"\n")?;
        let line = self.line()?;
        let numbers = line.split_ascii_whitespace().map(str::parse);
        let numbers: Vec<f64> = numbers.collect::<std::result::Result<_, _>>()?;
        numbers.try_into().map_err(|_| format!("the driver answered {line:?}").into())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processor's name.
pub(crate) fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name")).unwrap_or_default();
    line.split(": ").nth(1).unwrap_or("unknown CPU").replace('"', "")
}
