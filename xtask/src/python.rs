//! The Python programs that tests need, in an environment of their own in the build folder.

use anyhow::{Context as _, Result};

use crate::process::{command, run, target_dir};

/// Sends the API what its document allows and what it does not; pinned, for what it tries changes with its version.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// Makes `target/python` with schemathesis in it, or fails with the command that does.
pub(crate) fn ensure() -> Result<()> {
    let folder = target_dir().join("python");
    if folder.join("bin/schemathesis").exists() {
        return Ok(());
    }
    let made = run(command("python3", ["-m", "venv"]).arg(&folder)).and_then(|()| {
        let pip = folder.join("bin/python");
        let mut install = std::process::Command::new(pip);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", SCHEMATHESIS]);
        run(&mut install)
    });
    made.with_context(|| {
        format!("cannot get {SCHEMATHESIS}; `cargo xtask python` tries again, with python3 and its venv")
    })
}
