//! Both guests are there: their device is active, they reach each other on both links, a command's outputs and exit status come back, and
//! so do files.

use std::fs;
use std::io::Read as _;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::clock::eventually;
use crate::rdma::image::Extras;
use crate::rdma::network::Link;
use crate::rdma::pair::Pair;
use crate::rig::report::{Limit, Report};

const STAGE: &str = "boot";
/// What two guests took on two idle cores.
const USUAL_S: f64 = 10.0;
const QUICK: Duration = Duration::from_secs(60);

pub(super) fn run(pair: &Pair, report: &mut Report) -> Result<()> {
    report.number(STAGE, "seconds to both ready", (USUAL_S, pair.boot_seconds), 1, Limit::None);
    for guest in pair.guests() {
        guest.wait_for_port("ACTIVE")?;
        report.equal(STAGE, format!("RDMA port of {}", guest.name()), "ACTIVE", guest.port_state()?.as_str());
        let other = 3 - guest.number();
        for link in [Link::Rdma, Link::Tcp] {
            let ping = format!("ping -c 3 -i 0.2 -W 20 -q {}", link.address(other));
            let code = guest.run(&ping, QUICK)?.code;
            report.equal(STAGE, format!("{} reaches g{other} on {}", guest.name(), link.nic()), 0, code);
        }
    }
    commands(pair, report)?;
    let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let here = pair.share().join("bytes");
    fs::write(&here, &bytes)?;
    let there = pair.guest(1).run("cp /share/bytes /tmp/bytes && cp /tmp/bytes /share/back", QUICK)?.ok();
    let is_same = there.is_ok() && fs::read(pair.share().join("back"))? == bytes;
    report.equal(STAGE, "a file of 12 MB through a guest is the same", true, is_same);
    let _serving = pair.guest(2).spawn(&format!("while echo hello | nc -l -p {ECHO_PORT}; do :; done"))?;
    pair.guest(2).wait_for_listener(ECHO_PORT)?;
    let mut told = String::new();
    TcpStream::connect(pair.guest(2).address(ECHO_PORT)?)?.read_to_string(&mut told)?;
    report.equal(STAGE, "what a server in g2 says to this machine", "hello", told.trim());
    let program = pair.guest(2).put(Path::new("/bin/true"))?;
    report.equal(STAGE, "a program of this machine runs there", 0, pair.guest(2).run(&program, QUICK)?.code);
    Ok(())
}

fn commands(pair: &Pair, report: &mut Report) -> Result<()> {
    let output = pair.guest(2).run("echo out; echo err >&2; exit 7", QUICK)?;
    let told = format!("{} {} {}", output.code, output.text().trim(), output.complaints().trim());
    report.equal(STAGE, "exit status and both outputs of a command", "7 out err", told.as_str());
    let mut sleeping = pair.guest(1).spawn("echo sleeping; exec sleep 1000")?;
    sleeping.wait_for("sleeping", QUICK)?;
    sleeping.signal(TERM)?;
    report.equal(
        STAGE,
        "exit status of a command that gets SIGTERM",
        128 + i32::from(TERM),
        sleeping.wait(QUICK)?.code,
    );
    let hung = pair.guest(1).run("sleep 1001", Duration::from_secs(1));
    report.equal(STAGE, "a command beyond its limit is an error", true, hung.is_err());
    eventually("no command is left in g1", QUICK, || {
        Ok((pair.guest(1).run("pidof sleep", QUICK)?.code == 1).then_some(()))
    })
}

/// What the boot stage needs: a port of guests that can be reached from here.
pub(super) fn prepare() -> Result<Extras> {
    Ok(Extras { ports: vec![ECHO_PORT], ..Extras::default() })
}

const ECHO_PORT: u16 = 7007;
const TERM: u8 = 15;
