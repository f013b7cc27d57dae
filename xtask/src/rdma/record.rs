//! What guests show of their RDMA devices, into `fixtures/rdma/`: trees of sysfs, and the kernel's and `rdma`'s words of queue pairs.
//!
//! Trees are in the format of `fixtures/sysfs`: `[folder]`, `name<TAB>text`, `name -> target`, `< tree` for all of another tree.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::network::{DEVICE, Link};
use super::options::Options;
use super::pair::{Guest, Pair};
use super::stages::perftest::{self, Run, USUAL_TIMEOUT};
use crate::clock::eventually;
use crate::process::{root, say};

/// Some thousand files, read by a shell in an emulated machine.
const LIMIT: Duration = Duration::from_secs(120);
/// What guests do before each look.
const WRITE: Run = Run { program: "ib_write_bw", n: 200, size_bytes: 65536, ack_timeout: USUAL_TIMEOUT };

/// Folder, name, and text or link.
type Tree = BTreeMap<(String, String), String>;

/// Records everything anew.
pub(super) fn all(options: &Options) -> Result<()> {
    let pair = Pair::boot(options)?;
    let [one, two] = pair.guests();
    perftest::bandwidth(&pair, WRITE)?;
    let base = tree(one)?;
    write("g1-before.tree", whole(&base))?;
    write("g2-before.tree", onto(&base, &tree(two)?)?)?;
    queue_pairs(&pair)?;
    two.set_netem(Link::Rdma, "loss 1%")?;
    perftest::bandwidth(&pair, WRITE)?;
    two.clear_netem(Link::Rdma)?;
    write("g1-after-loss.tree", onto(&base, &tree(one)?)?)?;
    write("g2-after-loss.tree", onto(&base, &tree(two)?)?)?;
    write("g2-statistic.json", two.run("rdma -j statistic show", LIMIT)?.ok()?.text())?;
    two.set_link(Link::Rdma, false)?;
    two.wait_for_port("DOWN")?;
    // Of a NIC that is down the kernel shows fewer files.
    write("g2-port-down.tree", whole(&tree(two)?))?;
    write("g2-port-down-link.json", two.run("rdma -j link", LIMIT)?.ok()?.text())
}

/// What guest 2 says of queue pairs while `ib_write_bw` writes.
fn queue_pairs(pair: &Pair) -> Result<()> {
    let [one, two] = pair.guests();
    let mut server = one.spawn(&perftest::endless(one)?)?;
    one.wait_for_listener(perftest::PORT)?;
    let mut client = two.spawn(&format!("{} {}", perftest::endless(two)?, Link::Tcp.address(1)))?;
    eventually("a queue pair of ib_write_bw that can send", LIMIT, || {
        let told = two.run("rdma res show qp", LIMIT)?.ok()?.text();
        Ok(told.lines().any(|line| line.contains("ib_write_bw") && line.contains("RTS")).then_some(()))
    })?;
    write("res-qp.bin", two.run("res_qp", LIMIT)?.ok()?.stdout)?;
    write("res-qp.json", two.run("rdma -j -d res show qp", LIMIT)?.ok()?.text())?;
    write("link.json", two.run("rdma -j link", LIMIT)?.ok()?.text())?;
    client.signal(KILL)?;
    server.signal(KILL)?;
    client.wait(LIMIT)?;
    server.wait(LIMIT).map(drop)
}

/// The RDMA device, and the NIC below it. The kernel's files are copied first: they do not say how long they are.
fn tree(guest: &Guest) -> Result<Tree> {
    let nic = Link::Rdma.nic();
    let command = format!(
        "rm -rf /tmp/sys; for class in infiniband/{DEVICE} net/{nic}; do \
           real=$(readlink -f /sys/class/$class); mkdir -p /tmp/sys/class/${{class%/*}} /tmp$real; \
           cp -a /sys/class/$class /tmp/sys/class/$class; cp -a $real/. /tmp$real 2>/dev/null; \
         done; tar -c -C /tmp/sys ."
    );
    let archive = guest.run(&command, LIMIT)?.ok()?.stdout;
    let mut tree = Tree::new();
    for entry in tar::Archive::new(archive.as_slice()).entries()? {
        let mut entry = entry?;
        let path: PathBuf = entry.path()?.components().filter(|part| part.as_os_str() != ".").collect();
        let text = if let Some(target) = entry.link_name()? {
            format!(" -> {}", target.display())
        } else {
            let mut text = String::new();
            entry.read_to_string(&mut text).with_context(|| path.display().to_string())?;
            format!("\t{}", text.trim_end_matches('\n'))
        };
        // What could not be read is empty; what has several lines has no place in the format.
        if text.len() > 1 && !text.contains('\n') {
            let folder = path.parent().unwrap_or(Path::new("")).display().to_string();
            let name = path.file_name().context("a name")?.to_string_lossy().into_owned();
            tree.insert((folder, name), text);
        }
    }
    ensure!(!tree.is_empty(), "{} shows no device", guest.name());
    Ok(tree)
}

fn whole(tree: &Tree) -> String {
    let mut text = String::new();
    let mut last = None;
    for ((folder, name), content) in tree {
        if last.replace(folder) != Some(folder) {
            text.push_str(&format!("[{folder}]\n"));
        }
        text.extend([name, content, "\n"]);
    }
    text
}

/// What differs from the tree of guest 1 before.
fn onto(base: &Tree, tree: &Tree) -> Result<String> {
    let gone: Vec<_> = base.keys().filter(|name| !tree.contains_key(name)).collect();
    ensure!(gone.is_empty(), "gone since the first look, which the format cannot say: {gone:?}");
    let other = tree.iter().filter(|(name, content)| base.get(*name) != Some(content));
    let other = other.map(|(name, content)| (name.clone(), content.clone())).collect();
    Ok(format!("< g1-before\n{}", whole(&other)))
}

fn write(name: &str, content: impl AsRef<[u8]>) -> Result<()> {
    let path = root().join("fixtures/rdma").join(name);
    fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    say(&format!("recorded {}", path.display()));
    Ok(())
}

const KILL: u8 = 9;
