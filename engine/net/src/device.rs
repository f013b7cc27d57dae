//! The ports that can be used: NCCL calls each of them a device.

use std::ffi::CString;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use verbs::{Access, Buffer, Context, Domain, Gid, GidKind, LinkLayer, Pages};

use crate::config::{Settings, settings};
use crate::failure::{Failure, Result};
use crate::log;
use crate::memory::Cache;

/// A port of an RDMA device, opened once for the process.
#[derive(Debug)]
pub(crate) struct Device {
    /// What is open.
    pub(crate) context: Context,
    /// What its regions and queue pairs belong to.
    pub(crate) domain: Domain,
    /// The port's number, from 1.
    pub(crate) port: u8,
    /// What the link speaks.
    pub(crate) link_layer: LinkLayer,
    /// 10⁶ bits per second, as it was found.
    pub(crate) speed_mbit: u32,
    /// Its name for NCCL.
    pub(crate) name: CString,
    /// The folder of its PCI device below /sys; none for one that has none.
    pub(crate) pci_path: Option<CString>,
    /// Kinds of memory that it can move: NCCL's bits.
    pub(crate) memory_kinds: i32,
    /// Reads in flight that a queue pair of it answers.
    pub(crate) reads: u8,
    /// The identifier of the card.
    pub(crate) guid: u64,
    /// Whether it has said that it is broken as a whole.
    pub(crate) is_broken: AtomicBool,
    /// What is registered.
    pub(crate) cache: Mutex<Cache>,
}

/// Those that the settings want, in the order of the machine's list; found once.
pub(crate) fn all() -> Result<&'static [Arc<Device>]> {
    static ALL: OnceLock<Result<Vec<Arc<Device>>>> = OnceLock::new();
    match ALL.get_or_init(|| find(settings())) {
        Ok(all) => Ok(all),
        Err(failure) => Err(failure.clone()),
    }
}

/// The device of this number.
pub(crate) fn numbered(number: i32) -> Result<&'static Arc<Device>> {
    let found = usize::try_from(number).ok().and_then(|number| all().ok()?.get(number));
    found.ok_or_else(|| Failure::internal(format!("there is no device {number}")))
}

fn find(settings: &Settings) -> Result<Vec<Arc<Device>>> {
    if settings.is_disabled {
        return Err(Failure::system("NCCL_IB_DISABLE is 1"));
    }
    let mut found = Vec::new();
    let mut refused = Vec::new();
    for name in verbs::devices()? {
        if !settings.devices.takes(&name, None) {
            continue;
        }
        match ports(&name, settings) {
            Ok(ports) => found.extend(ports),
            Err(error) => refused.push(error.to_string()),
        }
    }
    // As hosts agree on, whichever order their lists have.
    found.sort_by(|one, next| {
        (&one.pci_path, &one.name, one.port).cmp(&(&next.pci_path, &next.name, next.port))
    });
    if found.is_empty() {
        let why = if refused.is_empty() { String::new() } else { format!(" ({})", refused.join("; ")) };
        return Err(Failure::system(format!("no RDMA device has a port that is active and wanted{why}")));
    }
    Ok(found)
}

fn ports(name: &str, settings: &Settings) -> verbs::Result<Vec<Arc<Device>>> {
    let context = Context::open(name)?;
    let limits = context.limits()?;
    let domain = context.domain()?;
    let memory_kinds = memory_kinds(&domain);
    let mut found = Vec::new();
    for number in 1..=limits.ports {
        let port = context.port(number)?;
        let is_reliable = port.link_layer != LinkLayer::Other;
        if !port.is_active || !is_reliable || !settings.devices.takes(name, Some(u32::from(number))) {
            continue;
        }
        found.push(Arc::new(Device {
            context: context.clone(),
            domain: domain.clone(),
            port: number,
            link_layer: port.link_layer,
            speed_mbit: port.rate_mbit_per_s,
            name: CString::new(name).unwrap_or_default(),
            pci_path: pci_path(name),
            memory_kinds,
            reads: limits.reads,
            guid: limits.guid,
            is_broken: AtomicBool::new(false),
            cache: Mutex::default(),
        }));
    }
    Ok(found)
}

fn pci_path(name: &str) -> Option<CString> {
    let path = Path::new("/sys/class/infiniband").join(name).join("device").canonicalize().ok()?;
    CString::new(path.into_os_string().into_encoded_bytes()).ok()
}

/// Host memory always. A GPU's by its address only where the module is loaded that lets others reach it, as NCCL looks for it
/// (`ncclIbGdrSupport`): with dma-buf alone NCCL asks for that first.
fn memory_kinds(domain: &Domain) -> i32 {
    const MODULES: [&str; 3] = [
        "/sys/module/nvidia_peermem/version",
        "/sys/kernel/mm/memory_peers/nv_mem/version",
        "/sys/kernel/mm/memory_peers/nv_mem_nc/version",
    ];
    let by_address = MODULES.iter().any(|module| Path::new(module).exists());
    let kinds = [(by_address, nccl_net::PTR_CUDA), (reaches_gpus_by_dma_buf(domain), nccl_net::PTR_DMABUF)];
    kinds.iter().filter(|(has, _)| *has).fold(nccl_net::PTR_HOST, |all, (_, kind)| all | kind)
}

/// A wrong descriptor is refused as wrong by a kernel and a device that have dma-buf, and as not supported by others.
fn reaches_gpus_by_dma_buf(domain: &Domain) -> bool {
    if !Path::new("/dev/nvidiactl").exists() {
        return false;
    }
    let Ok(file) = std::fs::File::open("/dev/null") else { return false };
    let refused = domain.register_dma_buf(std::os::fd::AsFd::as_fd(&file), 0, 4096, 0, Access::default());
    let errno = refused.err().and_then(|error| error.errno());
    !matches!(errno, None | Some(libc::EOPNOTSUPP | libc::EPROTONOSUPPORT))
}

impl Device {
    /// As it is shown: `mlx5_0:1/RoCE`.
    pub(crate) fn shown(&self) -> String {
        let layer = if self.link_layer == LinkLayer::Ethernet { "RoCE" } else { "IB" };
        format!("{}:{}/{layer}", self.context.name(), self.port)
    }

    /// The identifier to use, as the table is now.
    pub(crate) fn gid(&self, settings: &Settings) -> Result<Gid> {
        let port = self.context.port(self.port)?;
        let table = self.context.gids(self.port, port.gid_table_len);
        choose(&table, self.link_layer, settings).ok_or_else(|| {
            Failure::usage(match settings.gid_index {
                Some(index) => format!("{} has no GID {index} (NCCL_IB_GID_INDEX)", self.shown()),
                None => format!("{} has no GID: has its interface an address?", self.shown()),
            })
        })
    }

    /// Memory of its own that the other end writes or reads.
    pub(crate) fn buffer(&self, len: usize) -> Result<Buffer> {
        Ok(Buffer::new(&self.domain, len, Pages::Ordinary, Access::ALL)?)
    }

    /// Says what the device says by itself.
    pub(crate) fn say_events(&self) {
        while let Some(event) = self.context.next_event() {
            let what = match event.about {
                verbs::About::PortDown(port) => format!("port {port} is down"),
                verbs::About::Port(port) => {
                    log::info(&format!(
                        "NET/ringscope : {}: port {port}: {}",
                        self.context.name(),
                        event.words
                    ));
                    continue;
                }
                verbs::About::QueuePair(number) => format!("queue pair {number}: {}", event.words),
                verbs::About::Device => {
                    self.is_broken.store(true, Ordering::Relaxed);
                    event.words
                }
                verbs::About::Other => event.words,
            };
            log::warn(&format!("NET/ringscope : {}: {what}", self.context.name()));
        }
    }

    /// The registered regions.
    pub(crate) fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// On InfiniBand the first, as NCCL has it. On Ethernet by index, if one is set; else by content: of the wanted version and family and in the
/// wanted range, then one that routers forward, then any.
fn choose(table: &[Gid], link_layer: LinkLayer, settings: &Settings) -> Option<Gid> {
    if link_layer == LinkLayer::InfiniBand {
        return table.first().copied();
    }
    if let Some(index) = settings.gid_index {
        return table.iter().find(|gid| gid.index == index).copied();
    }
    let kind = if settings.roce_version == 1 { GidKind::RoceV1 } else { GidKind::RoceV2 };
    let score = |gid: &&Gid| {
        let is_in_range = settings.range.is_none_or(|range| lies_in(gid.bytes, range));
        (gid.kind == kind, is_in_range, gid.is_ipv4() != settings.is_ipv6, !gid.is_link_local())
    };
    // The first of the best: tables list the address of the interface itself first.
    table.iter().rev().max_by_key(score).copied()
}

fn lies_in(gid: [u8; 16], (net, bits): (IpAddr, u8)) -> bool {
    let (net, bits) = match net {
        IpAddr::V4(net) => (net.to_ipv6_mapped(), 96 + u32::from(bits)),
        IpAddr::V6(net) => (net, u32::from(bits)),
    };
    let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
    u128::from(Ipv6Addr::from(gid)) & mask == u128::from(net) & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(index: u32, text: &str, kind: GidKind) -> Gid {
        Gid { index, bytes: text.parse::<Ipv6Addr>().unwrap().octets(), kind }
    }

    fn chosen(pairs: &[(&str, &str)], link_layer: LinkLayer) -> Option<u32> {
        let table = [
            gid(0, "fe80::5054:ff:fe00:101", GidKind::RoceV1),
            gid(1, "fe80::5054:ff:fe00:101", GidKind::RoceV2),
            gid(2, "::ffff:10.9.0.1", GidKind::RoceV1),
            gid(3, "::ffff:10.9.0.1", GidKind::RoceV2),
            gid(4, "2001:db8::1", GidKind::RoceV2),
            gid(5, "::ffff:192.168.1.1", GidKind::RoceV2),
        ];
        let find = |name: &str| pairs.iter().find(|(known, _)| *known == name);
        let settings = Settings::parse(|name| find(name).map(|(_, value)| (*value).to_owned()));
        choose(&table, link_layer, &settings).map(|gid| gid.index)
    }

    #[test]
    fn a_gid_is_chosen_by_content() {
        let ethernet = LinkLayer::Ethernet;
        assert_eq!(chosen(&[], ethernet), Some(3));
        assert_eq!(chosen(&[("NCCL_IB_ADDR_FAMILY", "AF_INET6")], ethernet), Some(4));
        assert_eq!(chosen(&[("NCCL_IB_ROCE_VERSION_NUM", "1")], ethernet), Some(2));
        assert_eq!(chosen(&[("NCCL_IB_ADDR_RANGE", "192.168.0.0/16")], ethernet), Some(5));
        assert_eq!(chosen(&[("NCCL_IB_GID_INDEX", "1")], ethernet), Some(1));
        assert_eq!(chosen(&[("NCCL_IB_GID_INDEX", "9")], ethernet), None);
        assert_eq!(chosen(&[("NCCL_IB_GID_INDEX", "3")], LinkLayer::InfiniBand), Some(0));
    }
}
