//! Long runs that must stay quiet.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::process::{command, root, say, target_dir};
use crate::{build, tools};

/// Runs the healthy demo for `seconds` under a Prometheus with the committed rules, and prints every alert that fired.
pub(crate) fn healthy(seconds: u32) -> Result<()> {
    tools::ensure(&[tools::PROMETHEUS])?;
    let ringscope = build::beside()?;
    let dir = target_dir().join("soak");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut demo = Command::new(ringscope);
    demo.args(["demo", "--healthy", "--listen", DAEMON]);
    let mut demo = Running::start(&mut demo, &dir.join("demo.log"))?;
    let mut prometheus = Running::start(&mut prometheus(&dir)?, &dir.join("prometheus.log"))?;
    say(&format!("{seconds} s of the healthy demo; logs in {}", dir.display()));
    for elapsed in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        demo.check()?;
        prometheus.check()?;
        if elapsed % 60 == 59 {
            say(&format!("{} s", elapsed + 1));
        }
    }
    let window = format!("[{seconds}s]");
    if query("job:ringscope_completed_bytes:rate5m > 0")?.is_empty() {
        bail!("Prometheus sees no job that moves bytes: see {}", dir.display());
    }
    verdict(&query(&format!(
        "max by (alertname, severity, job, host) (max_over_time(ALERTS{{alertstate=\"firing\"}}{window}))"
    ))?)
}

/// Explained and quiet alerts may fire: one of the demo's jobs has a floor of channels.
fn verdict(fired: &[String]) -> Result<()> {
    for alert in fired {
        say(&format!("fired: {alert}"));
    }
    let loud: Vec<&String> = fired.iter().filter(|alert| !alert.contains("severity=\"info\"")).collect();
    if !loud.is_empty() {
        bail!("{} alerts of severity warning or above fired in a healthy run: {loud:?}", loud.len());
    }
    say("no alert of severity warning or above fired");
    Ok(())
}

/// Prometheus with the committed example; only addresses and the place of the rules are others.
fn prometheus(dir: &Path) -> Result<Command> {
    let dashboards = root().join("dashboards");
    let config =
        fs::read_to_string(dashboards.join("prometheus.yml")).context("dashboards/prometheus.yml")?;
    let config = config
        .replace("127.0.0.1:9440", DAEMON)
        .replace("- rules/", &format!("- {}/rules/", dashboards.display()));
    let file = dir.join("prometheus.yml");
    fs::write(&file, config).with_context(|| format!("cannot write {}", file.display()))?;
    let mut prometheus = Command::new("prometheus");
    prometheus.arg(format!("--config.file={}", file.display()));
    prometheus.arg(format!("--storage.tsdb.path={}", dir.join("data").display()));
    prometheus.arg(format!("--web.listen-address={PROMETHEUS}"));
    Ok(prometheus)
}

/// The series that an expression gives now, as promtool prints them.
fn query(expression: &str) -> Result<Vec<String>> {
    let url = format!("http://{PROMETHEUS}");
    let output = command("promtool", ["query", "instant", &url, expression]).output().context("promtool")?;
    if !output.status.success() {
        bail!("{expression}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// A process that is ended with the value.
struct Running {
    child: Child,
    log: String,
}

impl Running {
    fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let file = fs::File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self { child, log: log.display().to_string() })
    }

    fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("it ended with {status}: see {}", self.log),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGTERM, so that the demo ends its ranks too; it may have ended by itself.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// Ports below those that the system gives to others.
const DAEMON: &str = "127.0.0.1:19440";
const PROMETHEUS: &str = "127.0.0.1:19090";
