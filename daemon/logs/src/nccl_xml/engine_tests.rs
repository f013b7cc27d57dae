//! Files that ringscope's own engine writes are read as NCCL's are. The texts are what `engine/collective/src/topology/xml/tests.rs`
//! expects the engine to write.

use super::{Graph, GraphKind, Graphs, Place, Topology};

/// Ranks have no PCI device: they hang at their NUMA node.
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
</graphs>"#;

#[test]
fn the_engines_topology() {
    let topology = Topology::parse(TOPOLOGY).expect("a topology");
    let gpus: Vec<_> = topology.gpus.iter().map(|gpu| (gpu.dev, gpu.rank, gpu.bus_id.as_deref())).collect();
    assert_eq!(gpus, [(0, Some(4), None), (1, Some(5), None)]);
    let nics: Vec<_> = topology.nics.iter().map(|nic| (nic.dev, &*nic.name, nic.bus_id.as_deref())).collect();
    let card = Some("0000:1a:00.0");
    assert_eq!(nics, [(0, "mlx5_0", card), (1, "mlx5_1", card), (2, "v\"eth<0>", None)]);
    let distance = |gpu: usize| Some(Topology::distance(&topology.gpus[gpu], topology.nic(0)?)?.word());
    assert_eq!((distance(0), distance(1)), (Some("PHB"), Some("SYS")));
}

#[test]
fn the_engines_graphs() {
    let graphs = Graphs::parse(GRAPHS).expect("graphs");
    let ring: &Graph = graphs.of(GraphKind::Ring).expect("a ring");
    assert_eq!((ring.n_channels, ring.bw_inter, ring.type_inter.as_deref()), (2, Some(2.4), Some("PHB")));
    let net = |dev| Place::Net { system: 0, dev };
    let gpu = |dev| Place::Gpu { system: 0, dev, rank: None };
    assert_eq!(ring.channels, [[net(0), gpu(0), gpu(1), net(10)], [net(10), gpu(1), gpu(0), net(0)]]);
}
