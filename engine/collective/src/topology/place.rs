//! What a rank finds out about its own place, and what it writes down about its node.

use std::io::Write;

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::config::Settings;
use crate::file;
use crate::net::nic::Nic;
use crate::topology::machine::view::MachineSpec;
use crate::topology::peers::{PeerInfo, Placement};
use crate::topology::processor::Processor;
use crate::topology::ranks::Topology;
use crate::topology::seat::Seat;
use crate::topology::settings::MachineSettings;
use crate::topology::sysfs::{self, Cores, Sysfs};
use crate::topology::xml::{self, Host};

/// A rank's place, and what the log says about how it was found.
#[derive(Debug, Default)]
pub(crate) struct Detected {
    /// The place.
    pub(crate) placement: Placement,
    /// Lines for the log.
    pub(crate) notes: Vec<String>,
    /// The same of files that cannot be used.
    pub(crate) warnings: Vec<String>,
}

/// Where this rank is: its cores, and what the topology and graph files say. A topology file also says where the NICs
/// are, by name. A file that cannot be used is warned of, and the machine is searched instead, as without one.
pub(crate) fn find(settings: &Settings, nics: &mut [Nic]) -> Detected {
    let mut sysfs = Sysfs::new(&settings.sysfs, &settings.sysfs_net);
    let numa = sysfs::home(&sysfs.numa_nodes(), &own_cores());
    let mut found = Detected::default();
    found.placement.seat = Seat { numa, pci: Vec::new() };
    found.placement.cross_nic = settings.topology.cross_nic;
    found.placement.machine = told_machine(&settings.machine);
    if let (count @ 1.., Some(file)) = sysfs.bad() {
        found.notes.push(format!("{count} values of the machine make no sense, as in {}", file.display()));
    }
    if let Some(path) = &settings.topology.topology_file {
        match read(path).and_then(|text| xml::read_topology(&text).map_err(|error| error.to_string())) {
            Ok(file) => {
                found.notes.push(format!("Loading topology file {path}"));
                place_nics(&file, nics);
                if settings.is_silent() {
                    found.placement.compute_capability = file.compute_capability;
                }
                found.placement.seats = file.gpus.into_iter().map(|(_, seat)| seat).collect();
            }
            Err(why) => found.warnings.push(format!("Could not use topology file {path}: {why}")),
        }
    }
    if let Some(path) = &settings.topology.graph_file {
        match read(path).and_then(|text| xml::read_graphs(&text).map_err(|error| error.to_string())) {
            Ok(channels) => {
                found.notes.push(format!("Search 0 : {} channels loaded from XML graph", channels.len()));
                found.placement.channels = channels;
            }
            Err(why) => found.warnings.push(format!("Could not use graph file {path}: {why}")),
        }
    }
    found
}

/// The described machine of the settings, in the faithful mode.
fn told_machine(settings: &MachineSettings) -> Option<MachineSpec> {
    let machine = settings.text.clone()?;
    Some(MachineSpec { machine, collnet: settings.collnet, nvls: settings.nvls })
}

/// Writes the node's topology and graph, if this rank was told to, as NCCL does before the ranks agree. Returns what the
/// log says about it; a file that cannot be written is no reason to stop.
pub(crate) fn dump(settings: &Settings, peers: &[PeerInfo], topology: &Topology, rank: usize) -> Vec<String> {
    let told = &settings.topology;
    let node = topology.nodes[rank];
    let inter = topology.n_nodes() > 1;
    let mut notes = Vec::new();
    let mut write = |name: &str, path: &str, text: String| {
        notes.push(match file::create(path).and_then(|mut file| file.write_all(text.as_bytes())) {
            Ok(()) => format!("{name} set by environment to {path}"),
            Err(error) => format!("{name}: cannot write {path}: {error}"),
        });
    };
    if let Some(path) = told.topology_dump.as_ref().filter(|_| told.topology_dump_rank == rank) {
        write("NCCL_TOPO_DUMP_FILE", path, topology_text(settings, peers, topology, rank));
    }
    if let Some(path) = told.graph_dump.as_ref().filter(|_| told.graph_dump_rank == rank) {
        write("NCCL_GRAPH_DUMP_FILE", path, xml::write_graphs(&topology.graphs[node], inter));
    }
    notes
}

/// The rank's node: its machine, if one is described, else what was found.
fn topology_text(settings: &Settings, peers: &[PeerInfo], topology: &Topology, rank: usize) -> String {
    let node = topology.nodes[rank];
    if let Some(machine) = &topology.machine {
        let members = machine.members(node);
        let rank_of = |device: &str| {
            let device = device.trim().parse::<u32>().ok()?;
            members.iter().copied().find(|rank| machine.device(*rank) == device)
        };
        return xml::write_machine(&machine.view(node).machine.tree, &rank_of);
    }
    let mut sysfs = Sysfs::new(&settings.sysfs, &settings.sysfs_net);
    let host = Host {
        hash: peers[rank].host_hash,
        cpu: &Processor::of_machine(),
        numa_nodes: &sysfs.numa_nodes(),
        ranks: &topology.members[node],
    };
    xml::write_topology(&topology.system(peers, node), &host)
}

fn place_nics(file: &xml::TopologyFile, nics: &mut [Nic]) {
    for nic in nics {
        let Some(told) = file.nics.iter().find(|told| told.name == nic.name) else { continue };
        nic.speed_mbit = told.speed_mbit.unwrap_or(nic.speed_mbit);
        (nic.port, nic.seat) = (told.port, told.seat.clone());
    }
}

fn read(path: &str) -> Result<String, String> {
    file::read_text(path).map_err(|error| error.to_string())
}

/// The cores that this thread, and what it starts, may run on.
fn own_cores() -> Cores {
    let Ok(set) = sched_getaffinity(None) else { return Cores::new() };
    let cores = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
    cores.filter_map(|core| u32::try_from(core).ok()).collect()
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_setaffinity;

    use super::*;

    fn machine(numa_nodes: &[String]) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("rsccl-place-{}", std::process::id()));
        for (id, cores) in numa_nodes.iter().enumerate() {
            let folder = root.join(format!("devices/system/node/node{id}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cpulist"), format!("{cores}\n")).unwrap();
        }
        root
    }

    #[test]
    fn a_rank_is_where_its_thread_may_run() {
        let allowed = own_cores();
        let core = *allowed.first().unwrap();
        let root = machine(&["60000".to_owned(), core.to_string()]);
        let settings =
            Settings::parse(|name| (name == "RSCCL_SYSFS").then(|| root.to_string_lossy().into_owned()));
        let mut alone = CpuSet::new();
        alone.set(core as usize);
        // This thread belongs to this test.
        sched_setaffinity(None, &alone).unwrap();
        let found = find(&settings.unwrap(), &mut []);
        std::fs::remove_dir_all(root).unwrap();
        assert_eq!((found.placement.seat.numa, found.notes), (Some(1), vec![]));
    }
}
