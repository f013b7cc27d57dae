//! Dumps of other tools.

use serde_json::{Value, json as value};

use crate::common::scratch;
use crate::made::{UNEQUAL, pickle, recorded};
use crate::{check, file, fixture, import, import_stdin, json};

#[test]
fn inspector_gives_ranks_counts_and_bandwidth() {
    let document = json(&[&fixture("import/inspector.jsonl").display().to_string()], 0);
    let communicator = &document["communicators"][0];
    assert_eq!(communicator["name"], "dp");
    assert_eq!(communicator["hosts"], value!(["node-a", "node-b"]));
    let all_reduce = &communicator["primitives"][0];
    assert_eq!((&all_reduce["primitive"], &all_reduce["completed_calls"]), (&"all_reduce".into(), &2.into()));
    let busbw = communicator["bandwidth"][0]["bus_bytes_per_s"].as_f64().unwrap();
    assert!((busbw / 1e9 - 277.2).abs() < 0.1, "{busbw}");
}

#[test]
fn ras_and_log_of_one_communicator_meet() {
    let dir = scratch("import");
    let log = file(&dir, "job.log", UNEQUAL.logs());
    let mut dump: Value =
        serde_json::from_str(&std::fs::read_to_string(fixture("import/ras.json")).unwrap()).unwrap();
    dump["communicators"][0]["size"] = 6.into();
    let dump = file(&dir, "ras", dump.to_string());
    let document = json(&[&dump, &log], 2);
    let communicators = document["communicators"].as_array().unwrap();
    assert_eq!(communicators.len(), 1, "{document:#}");
    assert_eq!(communicators[0]["hosts"], value!(["node-a", "node-b", "node-c"]));
    assert_eq!(communicators[0]["primitives"][0]["issued_calls"], 50);
}

#[test]
fn xml_tells_of_one_node_and_names_its_nics() {
    let dir = scratch("import");
    let graph = |id, n_channels| {
        format!(
            "<graph id=\"{id}\" pattern=\"4\" crossnic=\"0\" nchannels=\"{n_channels}\" speedintra=\"24\" \
             speedinter=\"24\" latencyinter=\"0\" typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"1\"/>"
        )
    };
    let graphs = format!("<graphs version=\"1\">{}{}</graphs>", graph(0, 4), graph(1, 3));
    let graphs = file(&dir, "graphs", graphs);
    let topology = file(&dir, "topology", TOPOLOGY);
    let named = "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>";
    let log = file(&dir, "job.log", UNEQUAL.logs().replace(named, "Using network IB"));
    let ended = import(&[&graphs, &topology, &log]);
    check(&ended, 2, &["one node found 3 channels", "a node of 1 GPUs and 1 NICs", "GPU 1 PIX mlx5_7"]);
    let document = json(&[&topology, &log], 2);
    assert_eq!(document["communicators"][0]["rings"][0]["order"][1]["nic"], "mlx5_7", "{document:#}");
    let cut = file(&dir, "cut", "<graphs version=\"1\"><graph id=");
    check(&import(&[&cut]), 1, &["NCCL graph XML: is no XML of NCCL"]);
}

/// The GPU of the made log's odd ranks and a NIC beside it.
const TOPOLOGY: &str = r#"<system version="1"><cpu numaid="0" host_hash="0x1">
  <pci busid="0000:00:01.0" class="0x060400">
    <pci busid="0000:02:00.0" class="0x030200"><gpu dev="1" sm="90" rank="1" gdr="1"/></pci>
    <pci busid="0000:03:00.0" class="0x020000"><nic>
      <net name="mlx5_7" dev="0" speed="400000" port="1" guid="0x1" maxconn="1" gdr="1"/>
    </nic></pci>
  </pci>
</cpu></system>"#;

#[test]
fn broken_and_hostile_dumps_are_failures_and_run_nothing() {
    let dir = scratch("import");
    let whole = pickle(&recorded());
    let cut = file(&dir, "cut_0", &whole[..whole.len() / 2]);
    check(
        &import(&[&cut]),
        1,
        &["PyTorch Flight Recorder dump: is no pickle that can be read: it ends at byte"],
    );
    let mark = dir.join("executed");
    let call = format!("cos\nsystem\n(S'touch {}'\ntR.", mark.display());
    let call = file(&dir, "call_0", [b"\x80\x02".as_slice(), call.as_bytes()].concat());
    check(&import(&[&call]), 1, &["nothing is executed"]);
    assert!(!mark.exists());
    let nameless = file(&dir, "trace", recorded().to_string());
    check(&import(&[&nameless]), 1, &["lacks the rank"]);
    check(
        &import_stdin(&["-"], b"{\"header\": {}, \"metadata\": {}}\n"),
        0,
        &["unknown", "1 line, 1 record not used"],
    );
    let nested = format!("{{\"pg_config\": {}", "[".repeat(100_000));
    check(&import_stdin(&["-"], nested.as_bytes()), 1, &["no whole JSON document"]);
    let bomb = file(&dir, "bomb.gz", [0x1f, 0x8b, 8, 0, 1, 2, 3]);
    check(&import(&[&bomb]), 1, &["cannot be read"]);
}
