//! What a line of the kernel says: which of them mean that something is wrong, and about what. Each rule looks at how the
//! line begins, for what follows may hold a process's name, and that may be anything.
//!
//! Not told, because healthy machines say them too: links that come up, errors that the hardware has corrected (PCIe,
//! memory), what the kernel prints about something that it has told already.

use ringscope_api::xid;
use ringscope_wire::batch::KernelMessageKind as Kind;

use super::words::{device, interface, last_pci, number, pci, pci_at, process};

/// What a line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) kind: Kind,
    pub(super) meaning: String,
    pub(super) pci: Option<String>,
    pub(super) nic: Option<String>,
    pub(super) pid: Option<u32>,
    pub(super) xid: Option<u32>,
}

/// What a line says on its own; `None`: nothing that is wrong.
pub(super) fn judge(line: &str) -> Option<Said> {
    RULES.iter().find_map(|rule| rule(line))
}

type Rule = fn(&str) -> Option<Said>;

const RULES: [Rule; 9] = [gpu, out_of_memory, crash, blocked, machine_check, pcie, mlx5, link, storage];

fn said(kind: Kind, meaning: impl Into<String>) -> Said {
    Said { kind, meaning: meaning.into(), ..Said::default() }
}

/// NVIDIA's driver and switches, and AMD's driver.
fn gpu(line: &str) -> Option<Said> {
    if let Some(rest) = line.strip_prefix("NVRM: Xid (") {
        let (place, rest) = rest.split_once("): ")?;
        let address = pci_at(place.strip_prefix("PCI:").unwrap_or(place))?;
        let xid = number(rest)?;
        let meaning = match xid::meaning(xid) {
            Some((words, _)) => format!("{words} (Xid {xid})"),
            None => format!("GPU driver's error {xid} (Xid {xid})"),
        };
        let pid = rest.split_once(", pid=").and_then(|(_, pid)| number(pid)).filter(|pid| *pid > 0);
        return Some(Said { pci: Some(address), pid, xid: Some(xid), ..said(Kind::GpuXid, meaning) });
    }
    if line.starts_with("NVRM: ") && line.contains("fallen off the bus") {
        return Some(Said { pci: pci(line), ..said(Kind::GpuXid, "GPU has fallen off the bus") });
    }
    if let Some((switch, rest)) =
        line.strip_prefix("nvidia-nvswitch").and_then(|rest| rest.split_once(": SXid ("))
        && switch.bytes().all(|byte| byte.is_ascii_digit())
    {
        let (place, rest) = rest.split_once("): ")?;
        let error = number(rest).filter(|_| rest.contains(", Fatal"))?;
        let meaning = format!("fatal error of an NVSwitch (SXid {error})");
        return Some(Said { pci: pci(place), ..said(Kind::GpuXid, meaning) });
    }
    let (driver, address, _, rest) = device(line)?;
    let is_reset = driver == "amdgpu"
        && (rest.contains("GPU reset begin") || rest.contains("ring ") && rest.contains(" timeout"));
    is_reset.then(|| Said { pci: Some(address), ..said(Kind::GpuXid, "GPU stopped answering and is reset") })
}

fn out_of_memory(line: &str) -> Option<Said> {
    let whole = ["Out of memory: ", "Memory cgroup out of memory: ", ""];
    let (scope, rest) = whole
        .iter()
        .find_map(|scope| Some((*scope, line.strip_prefix(scope)?.strip_prefix("Killed process ")?)))?;
    let pid = number(rest)?;
    let name = rest.split_once(" (").and_then(|(_, rest)| Some(rest.rsplit_once(") total-vm")?.0));
    let name = name.unwrap_or("a process");
    let meaning = if scope.starts_with("Memory cgroup") {
        format!("out of memory in its cgroup: the kernel killed {name}")
    } else {
        format!("out of memory: the kernel killed {name}")
    };
    Some(Said { pid: Some(pid), ..said(Kind::OutOfMemory, meaning) })
}

fn crash(line: &str) -> Option<Said> {
    if ["BUG: unable to handle ", "kernel BUG at ", "Kernel panic - ", "Oops: ", "Internal error: Oops"]
        .iter()
        .any(|start| line.starts_with(start))
    {
        return Some(said(Kind::Crash, "the kernel itself failed"));
    }
    let trapped = line.strip_prefix("traps: ").and_then(|rest| {
        let at = [" general protection", " trap "].iter().filter_map(|word| rest.rfind(word)).min()?;
        Some((&rest[..at], &rest[at..]))
    });
    let (who, rest) = trapped
        .or_else(|| line.split_once(": segfault at "))
        .or_else(|| line.split_once(": unhandled exception: "))?;
    let (name, pid) = process(who, '[', "]")?;
    // The last: a name may hold " in " too, but stands before.
    let object =
        rest.rsplit_once(" in ").map(|(_, object)| object.split(['[', ' ']).next().unwrap_or_default());
    let meaning = match object.filter(|object| !object.is_empty()) {
        Some(object) => format!("{name} crashed in {object}"),
        None => format!("{name} crashed"),
    };
    Some(Said { pid: Some(pid), ..said(Kind::Crash, meaning) })
}

fn blocked(line: &str) -> Option<Said> {
    if let Some(rest) = line.strip_prefix("INFO: task ") {
        let (task, time) = rest
            .rsplit_once(" blocked for more than ")
            .or_else(|| rest.rsplit_once(" blocked in I/O wait for more than "))?;
        let (name, pid) = process(task, ':', "")?;
        let time = time.trim_end_matches('.');
        let meaning = format!("{name} does not wake up in the kernel for more than {time}");
        return Some(Said { pid: Some(pid), ..said(Kind::Blocked, meaning) });
    }
    let line = line.strip_prefix("watchdog: ").unwrap_or(line);
    if let Some(rest) = line.strip_prefix("BUG: soft lockup - CPU#") {
        let (cpu, rest) = rest.split_once(" stuck for ")?;
        let (time, task) = rest.split_once("! [")?;
        let (name, pid) = process(task, ':', "]")?;
        let meaning = format!("processor {} hangs in the kernel for {time} with {name}", number(cpu)?);
        return Some(Said { pid: Some(pid), ..said(Kind::Blocked, meaning) });
    }
    if line.starts_with("Watchdog detected hard LOCKUP on cpu ") {
        return Some(said(Kind::Blocked, "a processor hangs and takes no interrupts"));
    }
    let stall = line.strip_prefix("rcu: ").unwrap_or(line);
    let is_stall = stall.starts_with("INFO: rcu_")
        && (stall.contains(" self-detected stall on CPU")
            || stall.contains(" detected stalls on CPUs/tasks"));
    is_stall.then(|| said(Kind::Blocked, "a processor hangs in the kernel"))
}

fn machine_check(line: &str) -> Option<Said> {
    let told = |meaning: &str| Some(said(Kind::MachineCheck, meaning));
    if let Some(rest) = line.strip_prefix("EDAC MC") {
        let is_uncorrected = rest.split_once(": ").is_some_and(|(_, rest)| {
            rest.split_once(' ')
                .is_some_and(|(count, rest)| number(count).is_some() && rest.starts_with("UE "))
        });
        return if is_uncorrected { told("memory error that cannot be corrected") } else { None };
    }
    if let Some(rest) = line.strip_prefix("Memory failure: ") {
        let killed = rest.split_once(": Killing ")?.1.split_once(" due to hardware memory corruption")?.0;
        let (name, pid) = process(killed, ':', "")?;
        let meaning = format!("memory error: the kernel killed {name}");
        return Some(Said { pid: Some(pid), ..said(Kind::MachineCheck, meaning) });
    }
    if line.starts_with("mce: Uncorrected hardware memory error") {
        return told("memory error that cannot be corrected");
    }
    let (_, rest) = line.split_once("[Hardware Error]: ").filter(|(start, _)| start.len() < 8)?;
    if rest.starts_with("event severity: fatal")
        || rest.starts_with("Uncorrected")
        || rest.starts_with("Deferred")
    {
        return told("hardware error that cannot be corrected");
    }
    // Bit 61 of the status says that it was not corrected. Source: Intel SDM volume 3, IA32_MCi_STATUS.
    let (_, bank) = rest.strip_prefix("CPU ")?.split_once(" Bank ")?;
    let status = u64::from_str_radix(bank.split_once(": ")?.1.trim(), 16).ok()?;
    if status & 1 << 61 != 0 { told("machine check: hardware error that cannot be corrected") } else { None }
}

fn pcie(line: &str) -> Option<Said> {
    let (driver, address, _, rest) = device(line)?;
    let uncorrected = |text: &str| text.starts_with("Uncorrect");
    let rest = rest.strip_prefix("AER: ").unwrap_or(rest).trim_start_matches("Multiple ");
    let told = |pci: String, meaning: &str| Some(Said { pci: Some(pci), ..said(Kind::Pcie, meaning) });
    if uncorrected(rest) && rest.contains(" error ") {
        let source = last_pci(rest).unwrap_or(address);
        return told(source, "PCIe error that cannot be corrected");
    }
    if rest.strip_prefix("PCIe Bus Error: severity=").is_some_and(uncorrected) {
        return told(address, "PCIe error that cannot be corrected");
    }
    if rest == "device recovery failed" {
        return told(address, "PCIe device did not recover after an error");
    }
    if rest.starts_with("DPC: containment event") {
        return told(address, "PCIe port switched off after an error");
    }
    if rest.contains("device inaccessible") && rest.contains("power state") {
        return told(address, "PCIe device does not answer");
    }
    let slot = rest.split_once("Slot(").filter(|_| driver == "pcieport" || driver == "pciehp");
    let (_, event) = slot.and_then(|(_, rest)| rest.split_once("): "))?;
    ["Link Down", "Card not present"]
        .contains(&event)
        .then(|| Said { pci: Some(address), ..said(Kind::Pcie, "PCIe link of a slot went down") })
}

/// What the driver of NVIDIA's NICs says besides links.
fn mlx5(line: &str) -> Option<Said> {
    let (_, address, nic, rest) = device(line).filter(|(driver, ..)| *driver == "mlx5_core")?;
    let told = |meaning: &str| {
        let nic = nic.map(ToOwned::to_owned);
        Some(Said { pci: Some(address.clone()), nic, ..said(Kind::Link, meaning) })
    };
    if let Some((_, event)) = rest.strip_prefix("Port module event").and_then(|rest| rest.split_once(", ")) {
        return match event {
            "Cable unplugged" => told("cable unplugged"),
            event if event.starts_with("Cable error") => told("cable error"),
            event if event.starts_with("High Temperature") => told("cable or module is too hot"),
            _ => None,
        };
    }
    if let Some((_, state)) = rest.strip_prefix("Port: ").and_then(|rest| rest.split_once(' ')) {
        return if state == "Link DOWN" { told("link is down") } else { None };
    }
    if rest.contains("device's health compromised") || rest.contains("health recovery failed") {
        return told("NIC's firmware does not answer");
    }
    if rest.contains("insufficient power on the PCIe slot") {
        return told("NIC gets too little power from its slot");
    }
    None
}

fn link(line: &str) -> Option<Said> {
    let told = |nic: &str, pci: Option<String>, meaning: &str| {
        Some(Said { pci, nic: Some(interface(nic)?.to_owned()), ..said(Kind::Link, meaning) })
    };
    if let Some((_, address, Some(nic), rest)) = device(line) {
        if rest.eq_ignore_ascii_case("link down") || rest.ends_with("NIC Link is Down") {
            return told(nic, Some(address), "link is down");
        }
        if rest.starts_with("NETDEV WATCHDOG: ") && rest.contains("transmit queue") {
            return told(nic, Some(address), "NIC sends nothing: a transmit queue stands still");
        }
    }
    if let Some(rest) = line.strip_prefix("NETDEV WATCHDOG: ") {
        let (nic, rest) = rest.split_once(" (")?;
        return rest
            .contains("transmit queue")
            .then(|| told(nic, None, "NIC sends nothing: a transmit queue stands still"))?;
    }
    if let Some((_, nic)) = line.strip_suffix(" NIC Link is Down").and_then(|who| who.split_once(": ")) {
        return told(nic, None, "link is down");
    }
    let (bond, rest) = line.split_once(": ")?;
    interface(bond)?;
    if let Some((nic, rest)) = rest.strip_prefix("(slave ").and_then(|rest| rest.split_once("): ")) {
        return rest.starts_with("link status definitely down").then(|| told(nic, None, "link is down"))?;
    }
    let (nic, _) = rest.strip_prefix("link status definitely down for interface ")?.split_once(',')?;
    told(nic, None, "link is down")
}

fn storage(line: &str) -> Option<Said> {
    let told = |meaning: String| Some(said(Kind::Storage, meaning));
    if let Some(rest) = line.strip_prefix("nfs: server ") {
        let (server, rest) = rest.split_once(' ')?;
        return rest
            .starts_with("not responding")
            .then(|| told(format!("NFS server {server} does not answer")))?;
    }
    if let Some(rest) = line.strip_prefix("Lustre: ").filter(|rest| rest.contains(" was lost")) {
        let (_, target) = rest.split_once("Connection to ")?;
        let target = target.split(' ').next().unwrap_or_default();
        return told(format!("connection to Lustre's {target} is lost"));
    }
    if line.starts_with("CIFS: ") && line.contains(" has not responded in ") {
        return told("file server does not answer (CIFS)".to_owned());
    }
    if line.starts_with("ceph: mds") && line.ends_with(" hung") {
        return told("Ceph's metadata server does not answer".to_owned());
    }
    let request = ["blk_update_request: ", "print_req_error: ", "Buffer "];
    let rest = request.iter().find_map(|start| line.strip_prefix(start)).unwrap_or(line);
    let disk = ["I/O error, dev ", "I/O error on dev ", "critical medium error, dev "]
        .iter()
        .find_map(|start| rest.strip_prefix(start));
    if let Some(disk) = disk {
        let disk = disk.split([',', ' ']).next().unwrap_or_default();
        // A drive without a disk in it.
        let is_removable = ["fd", "sr", "loop"].iter().any(|kind| {
            disk.strip_prefix(kind).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        return (!is_removable).then(|| told(format!("disk {disk} cannot be read or written")))?;
    }
    if let Some((disk, rest)) = line.strip_prefix("nvme ").and_then(|rest| rest.split_once(": ")) {
        let is_away = rest.starts_with("controller is down") || rest.contains(" timeout, ");
        return is_away.then(|| told(format!("disk {disk} does not answer")))?;
    }
    if let Some((_, disk)) =
        line.strip_prefix("md/raid").and_then(|rest| rest.split_once(": Disk failure on "))
    {
        let disk = disk.split([',', ' ']).next().unwrap_or_default();
        return told(format!("disk {disk} failed and is no longer in its RAID"));
    }
    let filesystem = ["EXT4-fs error (device ", "BTRFS error (device ", "XFS ("]
        .iter()
        .find_map(|start| line.strip_prefix(start))?;
    let (disk, rest) = filesystem.split_once("): ").or_else(|| filesystem.split_once(')'))?;
    let disk = disk.split(' ').next().unwrap_or_default();
    let is_error = !line.starts_with("XFS")
        || [
            "Corruption",
            "I/O error",
            "I/O Error",
            "log I/O error",
            "Filesystem has been shut down",
            "metadata I/O error",
        ]
        .iter()
        .any(|word| rest.contains(word));
    is_error.then(|| told(format!("file system on {disk} has errors")))?
}
