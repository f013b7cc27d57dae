//! Pretended hosts: each has a name, two NICs that are loopback addresses of its own, and a folder in the shape of
//! `/sys/class/net` where a NIC can go down.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// NICs of each pretended host.
pub const NICS_PER_HOST: usize = 2;

/// One pretended host.
#[derive(Clone, Debug)]
pub struct PretendedHost {
    /// Name, e.g. `host-2`.
    pub name: String,
    sysfs_net: PathBuf,
    index: usize,
}

impl PretendedHost {
    /// Makes the host's folder under `dir`, with every NIC up.
    ///
    /// # Errors
    /// Those of writing the folder.
    pub fn create(dir: &Path, index: usize) -> io::Result<Self> {
        let name = format!("host-{index}");
        let host = Self { sysfs_net: dir.join(&name).join("net"), name, index };
        for nic in 0..NICS_PER_HOST {
            host.set_nic(nic, true)?;
        }
        Ok(host)
    }

    /// What `/sys/class/net/<nic>/operstate` says from now on.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn set_nic(&self, nic: usize, up: bool) -> io::Result<()> {
        let dir = self.sysfs_net.join(nic_name(nic));
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("operstate"), if up { "up\n" } else { "down\n" })
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
            ("RSCCL_SYSFS_NET", self.sysfs_net.display().to_string()),
        ]
    }

    /// All of 127.0.0.0/8 is loopback: every NIC has an address of its own that can really be bound.
    fn address(&self, nic: usize) -> String {
        format!("127.1.{}.{}", self.index + 1, nic + 1)
    }
}

/// Name of a NIC, e.g. `nic1`.
#[must_use]
pub fn nic_name(nic: usize) -> String {
    format!("nic{nic}")
}
