//! Which NICs can be used now. Judged afresh at every communicator's init: a NIC may go down between two.

use std::net::IpAddr;

use crate::config::{NicSpec, Settings};
use crate::error::{Error, Result, advice};
use crate::net::acceptor::{Acceptor, Listening};
use crate::net::interfaces;
use crate::topology::seat::Seat;
use crate::topology::sysfs::Sysfs;

/// NCCL's default where an interface does not tell its speed (`src/graph/topo.cc`): 10 000 Mbit/s.
const DEFAULT_SPEED_MBIT: u32 = 10_000;

/// A NIC that can be used, at whose address this process listens.
#[derive(Debug)]
pub(crate) struct Nic {
    /// Its name in the log.
    pub(crate) name: String,
    /// Its address.
    pub(crate) address: IpAddr,
    /// 10⁶ bits per second.
    pub(crate) speed_mbit: u32,
    /// The port of its card, from 1; 0 where it does not tell.
    pub(crate) port: u32,
    /// Where it is in the machine.
    pub(crate) seat: Seat,
    /// Where peers connect to.
    pub(crate) listening: Listening,
}

/// The NICs that are set, or those of the machine.
fn listed(settings: &Settings) -> Result<Vec<NicSpec>> {
    match &settings.nics {
        Some(nics) => Ok(nics.clone()),
        None => interfaces::machine_nics().map_err(|error| Error::system("listing the interfaces", &error)),
    }
}

/// 10⁶ bits per second of the first NIC that is up, if it tells.
pub fn told_speed_mbit(settings: &Settings) -> Option<u32> {
    let mut sysfs = Sysfs::new(&settings.sysfs, &settings.sysfs_net);
    let facts = listed(settings).ok()?.into_iter().map(|spec| sysfs.nic(&spec.name));
    facts.into_iter().find(|facts| facts.down.is_none())?.speed_mbit
}

/// The NICs that are up and can be bound, in the order of the list.
pub(crate) fn usable(settings: &Settings) -> Result<Vec<Nic>> {
    let listed = listed(settings)?;
    let mut sysfs = Sysfs::new(&settings.sysfs, &settings.sysfs_net);
    let mut refused = Vec::new();
    let mut nics: Vec<Nic> = Vec::new();
    // Of one number on all NICs, others need to be told only once.
    let mut port = 0;
    for spec in listed {
        match open(&spec, &mut sysfs, port) {
            Ok(nic) => {
                port = nic.listening.address().port();
                nics.push(nic);
            }
            Err(why) => refused.push(format!("{}: {why}", spec.name)),
        }
    }
    if nics.is_empty() {
        return Err(Error::System(format!("no usable NIC ({})", refused.join("; "))));
    }
    Ok(nics)
}

/// The address for bootstrap: `RSCCL_SOCKET_IFNAME`'s, else the first NIC's.
pub fn bootstrap_address(settings: &Settings) -> Result<IpAddr> {
    let nics = usable(settings)?;
    let chosen = match &settings.socket_ifname {
        Some(name) => nics.iter().find(|nic| nic.name == *name),
        None => nics.first(),
    };
    chosen.map(|nic| nic.address).ok_or_else(|| {
        let name = settings.socket_ifname.as_deref().unwrap_or("");
        Error::InvalidUsage(format!("RSCCL_SOCKET_IFNAME: no usable NIC is named \"{name}\""))
    })
}

/// A NIC of which the machine knows nothing can be used, as a pretended one. It listens on `port` if that is free.
fn open(spec: &NicSpec, sysfs: &mut Sysfs, port: u16) -> std::result::Result<Nic, String> {
    let facts = sysfs.nic(&spec.name);
    if let Some(state) = facts.down {
        return Err(format!("operstate is {state}"));
    }
    let acceptor = Acceptor::of_process().map_err(|error| error.to_string())?;
    let listening = acceptor.listen(spec.address, port);
    let listening =
        listening.map_err(|error| format!("cannot listen on {}: {error}{}", spec.address, advice(&error)))?;
    Ok(Nic {
        name: spec.name.clone(),
        address: spec.address,
        speed_mbit: facts.speed_mbit.unwrap_or(DEFAULT_SPEED_MBIT),
        port: facts.port,
        seat: facts.seat,
        listening,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str, states: &[(&str, &str)]) -> Settings {
        let root = std::env::temp_dir().join(format!("rsccl-nic-{name}-{}", std::process::id()));
        for (nic, state) in states {
            std::fs::create_dir_all(root.join(nic)).unwrap();
            std::fs::write(root.join(nic).join("operstate"), format!("{state}\n")).unwrap();
        }
        let list = states.iter().enumerate();
        let list: Vec<_> = list.map(|(index, (nic, _))| format!("{nic}=127.0.9.{}", index + 1)).collect();
        let list = list.join(",");
        Settings::parse(|key| match key {
            "RSCCL_NICS" => Some(list.clone()),
            "RSCCL_SYSFS_NET" => Some(root.to_string_lossy().into_owned()),
            _ => None,
        })
        .unwrap()
    }

    fn names(settings: &Settings) -> Vec<String> {
        usable(settings).unwrap().into_iter().map(|nic| nic.name).collect()
    }

    #[test]
    fn up_and_unknown_count() {
        let settings =
            fixture("count", &[("a", "up"), ("b", "down"), ("c", "unknown"), ("d", "lowerlayerdown")]);
        assert_eq!(names(&settings), ["a", "c"]);
    }

    #[test]
    fn state_is_read_at_each_call() {
        let settings = fixture("again", &[("a", "up"), ("b", "up")]);
        assert_eq!(names(&settings), ["a", "b"]);
        std::fs::write(settings.sysfs_net.join("b/operstate"), "down\n").unwrap();
        assert_eq!(names(&settings), ["a"]);
    }

    #[test]
    fn none_usable_says_why() {
        let settings = fixture("none", &[("a", "down"), ("b", "dormant")]);
        let text = usable(&settings).unwrap_err().to_string();
        assert!(text.contains("a: operstate is down") && text.contains("b: operstate is dormant"), "{text}");
    }

    #[test]
    fn a_foreign_address_is_not_usable() {
        let mut settings = fixture("foreign", &[("a", "up"), ("b", "up")]);
        settings.nics.as_mut().unwrap()[0].address = "192.0.2.1".parse().unwrap();
        assert_eq!(names(&settings), ["b"]);
    }
}
