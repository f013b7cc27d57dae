//! Pretended hosts: each has a name, two NICs that are loopback addresses of its own, and a folder in the shape of `/sys`
//! where a NIC can go down. What loopback does not have (PCI addresses, counters) is not made up.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// NICs of each pretended host.
pub const NICS_PER_HOST: usize = 2;
/// Speed that each NIC says it has: what the engine takes for one that says none.
const SPEED_MBIT: &str = "10000";
/// ARPHRD_ETHER of the kernel's if_arp.h.
const TYPE_ETHERNET: &str = "1";

/// One pretended host.
#[derive(Clone, Debug)]
pub struct PretendedHost {
    /// Name, e.g. `host-2`.
    pub name: String,
    /// Folder in the shape of `/sys`, which is what the engine and the agent see of the host's NICs.
    pub sysfs: PathBuf,
    index: usize,
}

impl PretendedHost {
    /// Makes the host's folder under `dir`, with every NIC up.
    ///
    /// # Errors
    /// Those of writing the folder.
    pub fn create(dir: &Path, index: usize) -> io::Result<Self> {
        let name = format!("host-{index}");
        let host = Self { sysfs: dir.join(&name).join("sys"), name, index };
        for nic in 0..NICS_PER_HOST {
            host.make_nic(nic)?;
            host.set_nic(nic, true)?;
        }
        Ok(host)
    }

    /// What `/sys/class/net/<nic>/operstate` says from now on.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn set_nic(&self, nic: usize, up: bool) -> io::Result<()> {
        let (state, carrier, speed) = if up { ("up", "1", SPEED_MBIT) } else { ("down", "0", "-1") };
        let folder = self.sysfs_net().join(nic_name(nic));
        write(&folder, "carrier", carrier)?;
        write(&folder, "speed", speed)?;
        write(&folder, "operstate", state)
    }

    /// The environment that makes a process believe that it runs on this host.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let nics: Vec<String> =
            (0..NICS_PER_HOST).map(|nic| format!("{}={}", nic_name(nic), self.address(nic))).collect();
        vec![
            ("RINGSCOPE_HOST", self.name.clone()),
            ("RSCCL_HOST", self.name.clone()),
            ("RSCCL_NICS", nics.join(",")),
            ("RSCCL_SYSFS_NET", self.sysfs_net().display().to_string()),
        ]
    }

    /// All of 127.0.0.0/8 is loopback: every NIC has an address of its own that can really be bound.
    fn address(&self, nic: usize) -> String {
        format!("127.1.{}.{}", self.index + 1, nic + 1)
    }

    fn sysfs_net(&self) -> PathBuf {
        self.sysfs.join("class/net")
    }

    /// As the kernel shows an interface: in the folder of its device, with a link from the class.
    fn make_nic(&self, nic: usize) -> io::Result<()> {
        let (name, class) = (nic_name(nic), self.sysfs_net());
        let device = format!("devices/platform/{name}");
        let folder = self.sysfs.join(&device).join("net").join(&name);
        fs::create_dir_all(&folder)?;
        fs::create_dir_all(&class)?;
        write(&folder, "type", TYPE_ETHERNET)?;
        link("../..", &folder.join("device"))?;
        link(&format!("../../{device}/net/{name}"), &class.join(name))
    }
}

/// Name of a NIC, e.g. `nic1`.
#[must_use]
pub fn nic_name(nic: usize) -> String {
    format!("nic{nic}")
}

/// Under another name first: who reads meanwhile sees the old or the new state.
fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let unfinished = folder.join(format!(".{name}"));
    fs::write(&unfinished, format!("{text}\n"))?;
    fs::rename(unfinished, folder.join(name))
}

/// The folder may be that of an earlier demo.
fn link(target: &str, path: &Path) -> io::Result<()> {
    match symlink(target, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use ringscope_agent::hardware::read;
    use ringscope_wire::batch::Nic;

    use super::*;

    #[test]
    fn a_nic_of_a_pretended_host_goes_down_for_the_agent_too() {
        let dir = tempfile::tempdir().unwrap();
        let host = PretendedHost::create(dir.path(), 2).unwrap();
        let nics = || {
            let nics = read("host-2", &host.sysfs).nics.into_iter();
            let nic = |nic: Nic| (nic.name, nic.up, nic.state, nic.rate_bits_per_s, nic.pci, nic.sent_bytes);
            nics.map(nic).collect::<Vec<_>>()
        };
        let up = |name: &str| (name.into(), true, "up".into(), Some(10_000_000_000), String::new(), None);
        assert_eq!(nics(), [up("nic0"), up("nic1")]);
        host.set_nic(1, false).unwrap();
        assert_eq!(nics(), [up("nic0"), ("nic1".into(), false, "down".into(), None, String::new(), None)]);
        PretendedHost::create(dir.path(), 2).unwrap();
        assert_eq!(nics(), [up("nic0"), up("nic1")], "made anew in the folder of an earlier demo");
    }
}
