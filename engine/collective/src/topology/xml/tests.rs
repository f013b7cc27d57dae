//! What is written is NCCL's form, and comes back as it was.

use proptest::prelude::*;

use super::*;
use crate::topology::graph::{NodeNic, PathType, System, TopoNode};
use crate::topology::processor::Processor;
use crate::topology::search::{Channel, Graph};
use crate::topology::seat::{PciDevice, Seat};
use crate::topology::sysfs::{NumaNode, parse_cores};

fn device(bus_id: &str, class: &str) -> PciDevice {
    PciDevice {
        bus_id: bus_id.to_owned(),
        class: class.to_owned(),
        link_speed: "32.0 GT/s PCIe".to_owned(),
        link_width: "16".to_owned(),
    }
}

fn nic(name: &str, numa: u32, pci: Vec<PciDevice>) -> NodeNic {
    NodeNic { name: name.to_owned(), speed_mbit: 400_000, port: 1, seat: Seat { numa: Some(numa), pci } }
}

/// Two NUMA nodes with a rank each; a card with two NICs behind a switch, and a NIC without a PCI device.
fn node() -> System {
    let rank = |numa| Seat { numa: Some(numa), pci: Vec::new() };
    let card = vec![device("0000:16:00.0", "0x060400"), device("0000:1a:00.0", "0x020700")];
    System::new(
        &[rank(0), rank(1)],
        &[nic("mlx5_0", 0, card.clone()), nic("mlx5_1", 0, card), nic("v\"eth<0>", 1, Vec::new())],
    )
}

fn written() -> String {
    let processor = Processor { arch: "x86_64", vendor: "GenuineIntel".to_owned(), family: 6, model: 207 };
    let numa = |id, cores| NumaNode { id, cores: parse_cores(cores).unwrap() };
    let host = Host {
        hash: 0xab,
        cpu: &processor,
        numa_nodes: &[numa(0, "0-3"), numa(1, "4-7,32")],
        ranks: &[4, 5],
    };
    write_topology(&node(), &host)
}

const TOPOLOGY: &str = r#"<system version="1">
  <cpu host_hash="0xab" numaid="0" affinity="0000000f" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <gpu dev="0" sm="0" rank="4" gdr="0"/>
    <pci busid="0000:16:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:1a:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" latency="0" speed="400000" port="1" guid="0x0" maxconn="65536" gdr="0"/>
        </nic>
        <nic>
          <net name="mlx5_1" dev="1" latency="0" speed="400000" port="1" guid="0x1" maxconn="65536" gdr="0"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu host_hash="0xab" numaid="1" affinity="00000001,000000f0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <gpu dev="1" sm="0" rank="5" gdr="0"/>
    <nic>
      <net name="v&quot;eth&lt;0&gt;" dev="2" latency="0" speed="400000" port="1" guid="0x2" maxconn="65536" gdr="0"/>
    </nic>
  </cpu>
</system>
"#;

const GRAPHS: &str = r#"<graphs version="1">
  <graph id="0" pattern="4" crossnic="2" nchannels="2" speedintra="2.4" speedinter="2.4" latencyinter="0" typeintra="SYS" typeinter="PHB" samechannels="0">
    <channel>
      <net dev="0x0"/>
      <gpu dev="0x0"/>
      <gpu dev="0x1"/>
      <net dev="0xa"/>
    </channel>
    <channel>
      <net dev="0xa"/>
      <gpu dev="0x1"/>
      <gpu dev="0x0"/>
      <net dev="0x0"/>
    </channel>
  </graph>
"#;

fn graph() -> Graph {
    let channel = |enter, exit, order: [usize; 2]| Channel { enter, exit, order: order.to_vec() };
    Graph {
        cross_nic: 2,
        channels: vec![channel(0, 10, [0, 1]), channel(10, 0, [1, 0])],
        type_intra: PathType::Sys,
        type_inter: PathType::Phb,
        ..Graph::bare(2.4)
    }
}

#[test]
fn a_topology_is_written_as_nccl_writes_it() {
    assert_eq!(written(), TOPOLOGY);
}

#[test]
fn a_topology_comes_back() {
    let file = read_topology(&written()).unwrap();
    assert_eq!(file.gpus.len(), 2);
    let system = node();
    let nics: Vec<NodeNic> = file
        .nics
        .into_iter()
        .map(|nic| NodeNic {
            name: nic.name,
            speed_mbit: nic.speed_mbit.unwrap(),
            port: nic.port,
            seat: nic.seat,
        })
        .collect();
    assert_eq!(nics, system.nics());
    let seats: Vec<Seat> = file.gpus.into_iter().map(|(_, seat)| seat).collect();
    let again = System::new(&seats, &nics);
    assert!(again.parts().eq(system.parts()));
}

/// As NCCL 2.21 dumps it: GPUs behind switches, attributes that are not ours, ids in hexadecimal.
#[test]
fn a_topology_of_nccl_says_where_ranks_are() {
    let text = r#"<system version="1">
  <cpu numaid="1" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <pci busid="0000:15:00.0" class="0x060400" vendor="0x1000" device="0xc010" subsystem_vendor="0x1000" subsystem_device="0xa096" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:1B:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1" gdr="1"><nvlink target="0000:05:00.0" count="4" tclass="0x068000"/></gpu>
      </pci>
      <pci busid="0000:1a:00.0" class="0x020700" link_speed="" link_width="">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" guid="0xa8" gdr="1"/></nic>
      </pci>
    </pci>
    <gpu dev="0"/>
  </cpu>
</system>"#;
    let file = read_topology(text).unwrap();
    let bus_ids = |seat: &Seat| seat.pci.iter().map(|device| device.bus_id.clone()).collect::<Vec<_>>();
    let gpus: Vec<_> = file.gpus.iter().map(|(dev, seat)| (*dev, seat.numa, bus_ids(seat))).collect();
    let behind = vec!["0000:15:00.0".to_owned(), "0000:1b:00.0".to_owned()];
    assert_eq!(gpus, [(0, Some(1), vec![]), (1, Some(1), behind)]);
    assert_eq!((file.nics[0].speed_mbit, file.nics[0].port), (Some(400_000), 1));
    let generation = |text: &str| read_topology(text).unwrap().compute_capability;
    let both = text.replace("<gpu dev=\"0\"/>", "<gpu dev=\"0\" sm=\"94\"/>");
    assert_eq!((generation(&both), generation(&both.replace("nvlink", "xgmi"))), (90, 0), "AMD's numbers");
    let seats: Vec<Seat> = file.gpus.into_iter().map(|(_, seat)| seat).collect();
    let nics = [nic("mlx5_0", 1, file.nics[0].seat.pci.clone())];
    let system = System::new(&seats, &nics);
    let to = system.parts().position(|(part, _)| *part == TopoNode::Nic(0)).unwrap();
    let kind = |rank| system.paths(&TopoNode::Rank(rank))[to].unwrap().kind;
    assert_eq!((kind(0), kind(1)), (PathType::Phb, PathType::Pix));
}

#[test]
fn a_machine_is_written_as_far_as_it_is_used() {
    let text = r#"<system version="1">
  <cpu numaid="0" arch="x86_64">
    <pci busid="0000:05:00.0" class="0x030200">
      <gpu dev="0" sm="90" rank="-1" gdr="1"><nvlink target="0000:01:00.0" count="4" tclass="0x068000"/></gpu>
    </pci>
    <pci busid="0000:06:00.0" class="0x030200"><gpu dev="1" sm="90" gdr="1"/></pci>
    <pci busid="0000:1a:00.0" class="0x020700"><nic><net name="mlx5_0" dev="0"/></nic></pci>
  </cpu>
  <cpu numaid="1"><pci busid="0000:85:00.0"><gpu dev="2" sm="90"/></pci></cpu>
</system>"#;
    let written = write_machine(&read_tree(text, "system").unwrap(), &|dev| (dev == "0").then_some(7));
    let expected = r#"<system version="1">
  <cpu numaid="0" arch="x86_64">
    <pci busid="0000:05:00.0" class="0x030200">
      <gpu dev="0" sm="90" gdr="1" rank="7">
        <nvlink target="0000:01:00.0" count="4" tclass="0x068000"/>
      </gpu>
    </pci>
    <pci busid="0000:1a:00.0" class="0x020700">
      <nic>
        <net name="mlx5_0" dev="0"/>
      </nic>
    </pci>
  </cpu>
</system>
"#;
    assert_eq!(written, expected);
}

#[test]
fn graphs_are_written_as_nccl_writes_them_and_come_back() {
    let text = write_graphs(&graph(), true);
    assert!(text.starts_with(GRAPHS), "{text}");
    assert!(text.contains(r#"<graph id="1" pattern="1""#) && text.ends_with("</graphs>\n"), "{text}");
    assert_eq!(read_graphs(&text).unwrap(), graph().channels);
    let inside = write_graphs(&graph(), false);
    assert!(!inside.contains("<net"), "{inside}");
    assert_eq!(read_graphs(&inside).unwrap()[1].order, [1, 0]);
}

#[test]
fn only_the_ring_counts_and_system_ids_are_cut_off() {
    let text = r#"<graphs><graph id="1"><channel><gpu dev="7"/></channel></graph>
        <graph id="0"><channel><net dev="0x100000000000002"/><gpu dev="1"/><gpu dev="0"/></channel></graph></graphs>"#;
    assert_eq!(read_graphs(text).unwrap(), [Channel { enter: 2, exit: 2, order: vec![1, 0] }]);
}

#[test]
fn what_is_wrong_is_said() {
    let check = |text: &str, expected: &str| {
        let error = read_graphs(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("<system/>", "has <system> and not <graphs>");
    check("<graphs><graph id=\"0\">", "<graph> does not end");
    check("<graphs><graph/></graphs>", "<graph> has no attribute id");
    check("<graphs><graph id=\"x\"/></graphs>", "id=\"x\" of <graph>");
    check("<graphs></graph>", "no XML");
    let deep = format!("<system>{}", "<pci busid=\"0\">".repeat(MAX_DEPTH + 1));
    assert!(matches!(read_topology(&deep), Err(XmlError::TooLarge)));
}

proptest! {
    #[test]
    fn no_text_stops_the_reader(text in any::<String>(), at in 0..GRAPHS.len(), byte in 32..127_u8) {
        let _ = (read_graphs(&text), read_topology(&text));
        for good in [GRAPHS, TOPOLOGY] {
            let mut broken = good.as_bytes().to_vec();
            broken[at] = byte;
            let broken = String::from_utf8_lossy(&broken).into_owned();
            let _ = (read_graphs(&broken), read_topology(&broken));
            let _ = (read_graphs(&good[..at]), read_topology(&good[..at]));
        }
    }
}
