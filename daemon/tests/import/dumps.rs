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
            "rank 2 issued AllReduce 16 times, the others 17. One apart may be what was called",
        ],
    );
}

/// The dump of a job with nothing wrong in it but how often rank 2 has issued AllReduce.
fn ras_counting(dir: &std::path::Path, name: &str, rank_2: u64, others: u64) -> String {
    let text = std::fs::read_to_string(fixture("import/ras.json")).unwrap();
    let mut dump: Value = serde_json::from_str(&text).unwrap();
    let communicator = &mut dump["communicators"][0];
    communicator["missing_ranks"] = value!([]);
    communicator["size"] = 3.into();
    for rank in communicator["ranks"].as_array_mut().unwrap() {
        rank["status"]["async_error"] = 0.into();
        let count = if rank["rank"] == 2 { rank_2 } else { others };
        rank["collective_counts"]["AllReduce"] = count.into();
    }
    file(dir, name, dump.to_string())
}

#[test]
fn counts_one_apart_alarm_only_if_they_stand_still() {
    let dir = scratch("import");
    let first = ras_counting(&dir, "first", 16, 17);
    check(&import(&[&first]), 0, &["healthy", "info counts_differ", "One apart may be"]);
    let moved = ras_counting(&dir, "moved", 40, 41);
    check(&import(&[&first, &moved]), 0, &["healthy", "issued AllReduce 40 times, the others 41"]);
    let same = ras_counting(&dir, "same", 16, 17);
    check(
        &import(&[&first, &same]),
        2,
        &["warning counts_differ", "the others 17, and the same in another dump"],
    );
    let far = ras_counting(&dir, "far", 16, 19);
    check(&import(&[&far]), 2, &["warning counts_differ", "rank 2 issued AllReduce 16 times, the others 19"]);
    let equal = import(&[&ras_counting(&dir, "equal", 17, 17)]);
    check(&equal, 0, &["healthy"]);
    assert!(!equal.stdout.contains("counts_differ"), "{}", equal.stdout);
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
                "rank 1 has not joined all_reduce #2 of pg 0:default_pg; rank 0 waits in it",
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

/// One rank's dump of a job of four with two groups of two. `pg_status` goes by ids that are no names.
fn rank_of_four(rank: u32, called: u64, bytes: u64, element: &str) -> Value {
    let entry = |group: &str, id: u32, number: u64, done: bool| {
        value!({
            "record_id": number, "pg_id": id, "process_group": [group, "desc"], "collective_seq_id": number,
            "p2p_seq_id": 0, "op_id": number, "profiling_name": "nccl:all_reduce", "is_p2p": false,
            "time_created_ns": 1_724_779_239_936_775_119_i64 + i64::try_from(number).unwrap(),
            "duration_ms": 1.5, "input_sizes": [[bytes / 4]], "input_dtypes": [element],
            "output_sizes": [[bytes / 4]], "output_dtypes": [element],
            "state": if done { "completed" } else { "started" }, "timeout_ms": 600_000, "retired": done,
            "time_discovered_started_ns": null,
            "time_discovered_completed_ns": if done { value!(1_724_779_240_000_000_000_i64) } else { Value::Null },
            "frames": [{"name": "step", "filename": "train.py", "line": 57}],
        })
    };
    let pair = if rank < 2 { "[0, 1]" } else { "[2, 3]" };
    let mut entries: Vec<Value> = (1..=3).map(|number| entry("tp", 0, number, true)).collect();
    entries.extend((1..=called).map(|number| entry("world", 1, number, number < called)));
    value!({
        "version": "2.10",
        "pg_config": {
            "world": {"name": "world", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
            "tp": {"name": "tp", "desc": "tensor", "ranks": pair},
        },
        "pg_status": {
            "0": {"last_enqueued_collective": 3, "last_started_collective": 3, "last_completed_collective": 3},
            "1": {"last_enqueued_collective": called, "last_started_collective": called, "last_completed_collective": 1},
        },
        "entries": entries,
    })
}

#[test]
fn the_flight_recorders_of_a_job_are_joined_group_by_group() {
    let dir = scratch("import");
    let dump = |name: &str, rank: u32, value: &Value| file(&dir, &format!("{name}_{rank}"), pickle(value));
    let hung: Vec<String> = (0..4)
        .map(|rank| dump("hung", rank, &rank_of_four(rank, if rank == 2 { 300 } else { 301 }, 48, "Float")))
        .collect();
    let hung: Vec<&str> = hung.iter().map(String::as_str).collect();
    let whole = import(&hung);
    check(
        &whole,
        2,
        &[
            "findings: 1 critical",
            "rank 2 has not joined all_reduce #301 of pg world:default_pg; ranks 0, 1 and 3 wait in it",
            "4 ranks",
            "2 ranks",
        ],
    );
    assert!(!whole.stdout.contains("pg tp"), "{}", whole.stdout);
    // The one that hangs may be the one that could not write: it is told as missing, not as guilty.
    let partly = import(&[hung[0], hung[1], hung[3]]);
    check(
        &partly,
        2,
        &[
            "of pg world:default_pg no file has the dump of rank 2",
            "of pg tp:tensor no file has the dump of rank 2",
        ],
    );
    assert!(!partly.stdout.contains("not_joined"), "{}", partly.stdout);
}

#[test]
fn the_flight_recorder_says_whose_sizes_and_types_differ() {
    let dir = scratch("import");
    for (name, bytes, element, part) in [
        ("sizes", 96, "Float", "rank 1 in all_reduce of 96 bytes of Float"),
        ("types", 48, "Int", "rank 1 in all_reduce of 48 bytes of Int"),
    ] {
        let one = file(&dir, &format!("{name}_0"), pickle(&rank_of_four(0, 1, 48, "Float")));
        let other = file(&dir, &format!("{name}_1"), pickle(&rank_of_four(1, 1, bytes, element)));
        check(
            &import(&[&one, &other]),
            2,
            &[
                "critical mismatch",
                "disagree on collective #1 of pg",
                "rank 0 in all_reduce of 48 bytes of Float",
                part,
            ],
        );
    }
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
