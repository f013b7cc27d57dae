//! One QEMU process: how it is started, what its console says, whether it lives. It dies with the thread that started it, whatever
//! ended that.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};

use super::image::Image;
use super::options::Options;
use super::{network, packages};
use crate::clock::{Stopwatch, eventually};

/// A guest may take that long to be ready; 6 to 12 s are usual where nothing else runs.
const BOOT_LIMIT: Duration = Duration::from_secs(150);
/// QEMU ends so soon after its guest has closed a connection, if that was the end of both.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Of a console, in a message.
const TAIL_LINES: usize = 12;
/// Words of the kernel's that say why a guest ended, though they may be far from the end.
const REASONS: [&str; 5] = ["FAILED", "Kernel panic", "Out of memory", "Oops", "BUG:"];

/// The ends of the two cables that a guest is plugged to.
#[derive(Debug)]
pub(super) struct Cables {
    /// Of `rdma0`.
    pub(super) rdma: UnixStream,
    /// Of `tcp0`.
    pub(super) tcp: UnixStream,
}

/// A running guest.
#[derive(Debug)]
pub(super) struct Machine {
    name: String,
    console: PathBuf,
    /// Ports here, by the guest's ports that they lead to.
    ports: BTreeMap<u16, u16>,
    process: Mutex<Child>,
    /// Why it was ended by us, if it was.
    killed: Mutex<Option<String>>,
}

impl Machine {
    /// Starts QEMU; the guest is not yet ready.
    pub(super) fn start(
        number: u8,
        image: &Image,
        folder: &Path,
        cables: &Cables,
        options: &Options,
    ) -> Result<Self> {
        let name = network::name(number);
        let console = folder.join(format!("{name}.console"));
        let said = OpenOptions::new().create(true).append(true).open(&console);
        let said = said.context("cannot make a console's file")?;
        let ports = free_ports(options.extras.ports.iter().copied().chain([AGENT_PORT]))?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "sh", "-c", WITH_CABLES, "sh", packages::QEMU]);
        command.args(MACHINE).args(["-accel", if options.kvm { "kvm" } else { "tcg,thread=multi" }]);
        command.args(["-smp", &options.processors.to_string(), "-m", &options.memory_mib.to_string()]);
        command.arg("-kernel").arg(&image.kernel).arg("-initrd").arg(&image.files);
        command.args(["-append", &format!("{KERNEL} guest={number}")]);
        command.args(nics(number, &ports));
        command.args(["-virtfs", &shared(&folder.join(SHARE))?]);
        command.stdin(OwnedFd::from(cables.rdma.try_clone()?)).stdout(OwnedFd::from(cables.tcp.try_clone()?));
        // The console and QEMU's own complaints, in the order in which they come.
        command.arg("-chardev").arg(format!("file,id=console,append=on,path={}", console.display()));
        command.args(["-serial", "chardev:console"]).stderr(said);
        let process = command.spawn().context("cannot start setpriv: apt-get install util-linux")?;
        Ok(Self { name, console, ports, process: Mutex::new(process), killed: Mutex::new(None) })
    }

    /// Waits until it takes commands.
    pub(super) fn wait_until_ready(&self) -> Result<()> {
        let ready = eventually(&format!("{} is ready", self.name), BOOT_LIMIT, || {
            let text = self.console_text();
            if let Some(reason) = text.lines().find(|line| line.starts_with("FAILED")) {
                bail!("{} cannot be set up: {reason}", self.name);
            }
            if let Some(status) = self.process().try_wait()? {
                bail!("{} has ended before it was ready ({status})", self.name);
            }
            Ok(text.lines().any(|line| line.trim() == "READY").then_some(()))
        });
        ready.map_err(|error| anyhow!("{error:#}; its console: {}", self.tail()))
    }

    /// As the guest calls itself.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The port here that leads to one of the guest's.
    pub(super) fn port(&self, of_guest: u16) -> Option<u16> {
        self.ports.get(&of_guest).copied()
    }

    /// Whether QEMU runs.
    pub(super) fn is_alive(&self) -> bool {
        matches!(self.process().try_wait(), Ok(None))
    }

    /// Why the guest answers no more, with its last words.
    pub(super) fn obituary(&self) -> String {
        if let Some(reason) = self.killed.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            return format!("{} is gone: {reason}", self.name);
        }
        let watch = Stopwatch::start();
        let ended = eventually("the end", END_LIMIT, || Ok(self.process().try_wait()?));
        let how = match ended {
            Ok(status) => format!("is gone ({status})"),
            Err(_) => format!("has closed a connection, and still runs after {:.0} s", watch.seconds()),
        };
        format!("{} {how}; its console: {}", self.name, self.tail())
    }

    /// The end of what its console says, and before it what says why.
    pub(super) fn tail(&self) -> String {
        let text = self.console_text();
        let lines: Vec<&str> = text.lines().collect();
        let (before, tail) = lines.split_at(lines.len().saturating_sub(TAIL_LINES));
        let why = before.iter().filter(|line| REASONS.iter().any(|words| line.contains(words)));
        let told: String = why.chain(tail).flat_map(|line| ["\n    ", line.trim_end()]).collect();
        if told.is_empty() { "it says nothing".to_owned() } else { told }
    }

    fn console_text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.console).unwrap_or_default()).into_owned()
    }

    /// Ends it at once, as a power failure does.
    pub(super) fn kill(&self, reason: &str) {
        self.killed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.to_owned());
        let mut process = self.process();
        let _ = process.kill();
        let _ = process.wait();
    }

    fn process(&self) -> MutexGuard<'_, Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill("it was ended");
    }
}

/// Three NICs: the cables come as open sockets, so there are no names that two runs could both take.
fn nics(number: u8, ports: &BTreeMap<u16, u16>) -> Vec<String> {
    let nic = |backend: String, id: &str, more: &str| {
        let mac = network::mac(id, number);
        ["-netdev".to_owned(), backend, "-device".to_owned(), format!("{NIC},netdev={id},mac={mac}{more}")]
    };
    let rdma_mtu = format!(",host_mtu={}", network::RDMA_MTU);
    let cable = |id: &str, open: u8| format!("stream,id={id},server=off,addr.type=fd,addr.str={open}");
    let forward = |(guest, here): (&u16, &u16)| format!(",hostfwd=tcp:127.0.0.1:{here}-:{guest}");
    let user = format!("user,id=c,restrict=on{}", ports.iter().map(forward).collect::<String>());
    let nics = [nic(cable("a", 3), "a", &rdma_mtu), nic(cable("b", 4), "b", ""), nic(user, "c", "")];
    nics.into_iter().flatten().collect()
}

/// A free port for each, all of them held until the last is found.
fn free_ports(of_guest: impl Iterator<Item = u16>) -> Result<BTreeMap<u16, u16>> {
    let held = of_guest.map(|port| Ok((port, TcpListener::bind("127.0.0.1:0")?)));
    let held: Vec<(u16, TcpListener)> = held.collect::<Result<_>>().context("no free port on 127.0.0.1")?;
    held.iter().map(|(port, listener)| Ok((*port, listener.local_addr()?.port()))).collect()
}

fn shared(folder: &Path) -> Result<String> {
    let path = folder.to_str().context("the build folder's name is not UTF-8")?.replace(',', ",,");
    Ok(format!("local,path={path},mount_tag=share,security_model=none,multidevs=remap"))
}

/// The folder that both guests see as `/share`, in that of the run.
pub(super) const SHARE: &str = "share";
/// Where the agent listens, in `agent.c`.
pub(super) const AGENT_PORT: u16 = 7000;
/// QEMU's words where another program has taken the port that was free a moment ago.
pub(super) const PORT_TAKEN: &str = "Could not set up host forwarding rule";
/// A program that is started through Rust's library has three open files: two cables and a place for complaints.
const WITH_CABLES: &str = r#"exec "$@" 3<&0 4>&1 0</dev/null 1>&2"#;
const NIC: &str = "virtio-net-pci,romfile=";
/// Errors to the console; an end where others would start again; and no test whether the timer ticks often enough, which fails, with
/// the boot, where this machine is busy.
const KERNEL: &str = "console=ttyS0 loglevel=4 panic=-1 no_timer_check";
/// An empty machine that ends instead of starting again.
const MACHINE: [&str; 9] =
    ["-machine", "pc", "-cpu", "max", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"];
