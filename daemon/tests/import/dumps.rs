//! Dumps of other tools.

use serde_json::{Value, json as value};

use crate::common::scratch;
use crate::made::{UNEQUAL, pickle};
use crate::{check, file, fixture, import, import_stdin, json};

fn recorded() -> Value {
    let text = std::fs::read_to_string(fixture("import/flight-recorder.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

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
fn ras_names_who_is_missing_failed_and_behind() {
    let dump = fixture("import/ras.json").display().to_string();
    check(
        &import(&[&dump]),
        2,
        &[
            "rank 3 of communicator 0xabc0000000000001 is missing: its peers consider it dead",
            "asynchronous error 6 (ncclRemoteError; process 101 on 10.0.0.1)",
            "rank 2 issued AllReduce 16 times or more, the others 17",
        ],
    );
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
fn the_flight_recorder_says_who_has_not_joined() {
    let dir = scratch("import");
    let mut ahead = recorded();
    ahead["pg_status"]["0"]["last_enqueued_collective"] = 2.into();
    let mut behind = recorded();
    behind["entries"].as_array_mut().unwrap().pop();
    behind["pg_status"]["0"]["last_enqueued_collective"] = 1.into();
    for (name, bytes) in [
        ("json", [ahead.to_string().into_bytes(), behind.to_string().into_bytes()]),
        ("pickle", [pickle(&ahead), pickle(&behind)]),
    ] {
        let [ahead, behind] = bytes;
        let ahead = file(&dir, &format!("{name}_rank_0"), ahead);
        let behind = file(&dir, &format!("{name}_rank_1"), behind);
        check(
            &import(&[&ahead, &behind]),
            2,
            &[
                "rank 1 has not joined all_reduce #2 of pg 0:default_pg; rank 0 wait in it",
                "called from step at train.py:57",
                "pending rank 0 all_reduce #2 (48 bytes)",
            ],
        );
    }
}

#[test]
fn the_flight_recorder_says_who_calls_something_else() {
    let dir = scratch("import");
    let mut other = recorded();
    other["entries"][1]["profiling_name"] = "nccl:_all_gather_base".into();
    let one = file(&dir, "trace_0", recorded().to_string());
    let other = file(&dir, "trace_1", other.to_string());
    check(
        &import(&[&one, &other]),
        2,
        &["the ranks disagree on collective #2", "rank 1 in _all_gather_base", "rank 0 in all_reduce"],
    );
    // The same call on all ranks that does not end.
    let same = file(&dir, "same_1", recorded().to_string());
    let first = file(&dir, "same_0", recorded().to_string());
    check(
        &import(&[&first, &same]),
        2,
        &["all_reduce #2 of pg 0:default_pg has not started on ranks 0 and 1: every rank has joined"],
    );
    let mut done = recorded();
    done["entries"].as_array_mut().unwrap().pop();
    done["pg_status"]["0"]["last_enqueued_collective"] = 1.into();
    let files = [file(&dir, "done_0", done.to_string()), file(&dir, "done_1", done.to_string())];
    check(&import(&[&files[0], &files[1]]), 0, &["healthy"]);
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
    check(&import_stdin(&["-"], b"{\"header\": {}, \"metadata\": {}}\n"), 0, &["unknown", "1 other records"]);
    let nested = format!("{{\"pg_config\": {}", "[".repeat(100_000));
    check(&import_stdin(&["-"], nested.as_bytes()), 1, &["no whole JSON document"]);
    let bomb = file(&dir, "bomb.gz", [0x1f, 0x8b, 8, 0, 1, 2, 3]);
    check(&import(&[&bomb]), 1, &["cannot be read"]);
}
