//! Logs of the library.

use std::io::Write as _;
use std::process::Stdio;

use crate::common::scratch;
use crate::made::{EQUAL, UNEQUAL};
use crate::{check, command, file, fixture, import, import_stdin, json};

#[test]
fn an_unequal_job_names_the_culprit_and_the_lines_that_prove_it() {
    let dir = scratch("import");
    let log = file(&dir, "job-7.log", UNEQUAL.logs());
    let ended = import(&[&log]);
    check(
        &ended,
        2,
        &[
            "job-7: findings:",
            "channel_shortfall",
            "node-c found 1 channel, the others 4: every rank runs on 2 channels instead of 8",
            "channels init 4 -> final 2 capped_by_peer on node-a, node-b",
            "init 1 -> final 2 doubled on node-c",
            "node-a[0 1] -> node-b[2 3] -> node-c[4 5]",
        ],
    );
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let number =
        UNEQUAL.logs().lines().position(|line| line.contains("node-c") && line.contains("Pattern 4"));
    let place = format!("{log}:{}", number.unwrap() + 1);
    let at =
        lines.iter().position(|line| line.trim() == place).unwrap_or_else(|| panic!("{place} in {lines:#?}"));
    assert!(lines[at + 1].contains("nChannels 1,"), "{}", lines[at + 1]);
}

#[test]
fn its_healthy_twin_says_so() {
    let dir = scratch("import");
    let ended = import(&[&file(&dir, "job-8.log", EQUAL.ended())]);
    check(&ended, 0, &["job-8: healthy:", "1 communicator on 3 hosts", "init 4 -> final 8 doubled"]);
    assert!(!ended.stdout.contains("warning") && !ended.stdout.contains('\x1b'), "{}", ended.stdout);
}

#[test]
fn a_log_that_does_not_end_well_is_not_green() {
    let dir = scratch("import");
    let aborted = EQUAL.ended().replace("Destroy COMPLETE", "Abort COMPLETE");
    // One rank of six may be the one that hangs.
    let one_hangs = EQUAL.logs() + &EQUAL.ends(0) + &EQUAL.ends(1);
    for (name, log) in [("open.log", EQUAL.logs()), ("aborted.log", aborted), ("one.log", one_hangs)] {
        let log = file(&dir, name, log);
        let reason = "its log tells of its channels, and not whether its calls end: add Flight Recorder dumps or RAS answers";
        check(&import(&[&log]), 0, &["unknown: 1 communicator on 3 hosts cannot be judged whole", reason]);
        let document = json(&[&log], 0);
        assert_eq!(document["verdict"], "unknown", "{document:#}");
        assert!(document["lacks"][0].as_str().unwrap().contains(reason), "{document:#}");
    }
}

#[test]
fn a_run_of_the_engine_is_judged_by_its_log_alone() {
    let log = fixture("import/engine-degraded.log").display().to_string();
    let degraded = import(&[&log]);
    check(
        &degraded,
        2,
        &[
            "engine-degraded: findings: 1 critical in 7 communicators on 4 hosts",
            "critical channel_shortfall in 3 communicators",
            "host-2 found 1 channel, the others 2: every rank runs on 2 channels instead of 4",
            "init 1 -> final 2 doubled on host-2",
            "communicators c21e9b058cc2 (0x7f0234b632dc6a2d), de2caa4702ec (0x27cf9d679ba9f0fc): each 4 ranks on 4 hosts",
        ],
    );
    let lines: Vec<&str> = degraded.stdout.lines().collect();
    let text = std::fs::read_to_string(&log).unwrap();
    let proving = |pattern: &str| {
        let at = lines.iter().position(|line| line.contains(pattern)).unwrap_or_else(|| panic!("{pattern}"));
        let number = lines[at - 1].trim().strip_prefix(&format!("{log}:")).unwrap().parse::<usize>().unwrap();
        text.lines().nth(number - 1).unwrap().starts_with(lines[at].trim().trim_end_matches("..."))
    };
    assert!(
        proving("NCCL INFO Pattern 4, crossNic 0, nChannels 1,") && proving("] NCCL INFO 2 coll channels")
    );
    check(
        &import(&[&fixture("import/engine-healthy.log").display().to_string()]),
        0,
        &["engine-healthy: healthy"],
    );
}

#[test]
fn lines_fit_a_terminal_and_their_number_does_not_grow_with_the_job() {
    let logs = fixture("logs");
    let folder = logs.display().to_string();
    for path in [folder.as_str(), &format!("{folder}/nccl-2.22.3-p5-h100-efa-16ranks-mpirun.log")] {
        let shown = import(&[path]).stdout;
        assert!(shown.lines().count() < 300, "{} lines", shown.lines().count());
        let is_raw =
            |line: &&str| line.starts_with("    ") && (line.contains(" NCCL ") || line.contains(".log:"));
        for line in shown.lines().filter(|line| !is_raw(line)) {
            let fits = line.chars().count() <= 80 || line.split_whitespace().any(|word| word.len() > 40);
            assert!(fits, "{line}");
        }
    }
}

#[test]
fn communicators_that_no_line_names_are_not_given_a_name() {
    let log = fixture("logs/nccl-2.11.4-8xa100pcie-3comms.log").display().to_string();
    check(
        &import(&[&log]),
        0,
        &["communicators 16369ebc5d55, c1b8089649bd, c9d2b1772979: each 8 ranks on 1 host"],
    );
    let document = json(&[&log], 0);
    let all = document["communicators"].as_array().unwrap();
    assert!(all.len() == 3 && all.iter().all(|one| one["hash_is_made_up"] == true), "{document:#}");
}

#[test]
fn connections_count_where_only_rank_0_tells_the_rings() {
    let log = fixture("logs/nccl-2.18.5-h100-2node-8ranks-4comms.log").display().to_string();
    check(
        &import(&[&log]),
        0,
        &["channels 0, 4, 8, 12: xe8640node05[0 1 2 3] -> xe8640node06[4 5 6 7] over P2P/IPC, NET/IBext"],
    );
}

#[test]
fn files_of_one_job_join_whatever_packs_them() {
    let dir = scratch("import");
    file(&dir, "a.log", UNEQUAL.log(0));
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(UNEQUAL.log(1).as_bytes()).unwrap();
    file(&dir, "b", gz.finish().unwrap());
    file(&dir, "c.txt", zstd::encode_all(UNEQUAL.log(2).as_bytes(), 1).unwrap());
    let folder = dir.display().to_string();
    let document = json(&[&folder, "--job", "mine"], 2);
    assert_eq!(document["job"], "mine");
    assert_eq!(document["communicators"][0]["n_ranks_seen"], 6);
    assert_eq!(document["files"].as_array().unwrap().len(), 3);
    assert_eq!(document["lacks"], serde_json::json!([]));
    let one = json(&[&file(&dir, "a.log", UNEQUAL.log(0))], 0);
    let lacks = one["lacks"].to_string();
    assert!(one["verdict"] == "unknown" && lacks.contains("ranks 2 to 5"), "{one:#}");
}

/// The same log, as other tools hand it out, says the same.
#[test]
fn logs_in_other_dresses_say_the_same() {
    let log = UNEQUAL.logs();
    let expected = ["stdin: findings", "node-c found 1 channel"];
    let events: Vec<_> = log
        .lines()
        .map(|line| serde_json::json!({"timestamp": 1, "message": line, "ingestionTime": 2}))
        .collect();
    // Most of what a job prints is not NCCL's.
    let steps =
        (0..400).map(|n| serde_json::json!({"timestamp": 1, "message": format!("step {n} loss 0.1")}));
    let all: Vec<_> = steps.chain(events.iter().cloned()).collect();
    let compact = serde_json::json!({"events": all, "nextToken": "x"}).to_string();
    assert!(compact.len() > 16 * 1024 && !compact.contains('\n'));
    let pretty = serde_json::to_string_pretty(&events).unwrap();
    let little: Vec<u8> =
        std::iter::once(0xfeff).chain(log.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = std::iter::once(0xfeff).chain(log.encode_utf16()).flat_map(u16::to_be_bytes).collect();
    let html = log.replace('>', "&gt;");
    let dresses = [compact.as_bytes(), pretty.as_bytes(), &little, &big, html.as_bytes()];
    for (dress, bytes) in dresses.into_iter().enumerate() {
        let ended = import_stdin(&["-"], bytes);
        assert_eq!(ended.code, Some(2), "{dress}: {ended:?}");
        for part in expected {
            assert!(ended.stdout.contains(part), "{dress}: {ended:?}");
        }
    }
}

#[test]
fn stdin_is_a_file_too() {
    check(
        &import_stdin(&["-"], UNEQUAL.logs().as_bytes()),
        2,
        &["stdin: findings", "node-c found 1 channel"],
    );
}

#[test]
fn folders_in_a_folder_are_said_to_be_left_out() {
    let dir = scratch("import");
    file(&dir, "job.log", EQUAL.ended());
    std::fs::create_dir(dir.join("node-d")).unwrap();
    file(&dir, "node-d/job.log", EQUAL.logs());
    let folder = dir.display().to_string();
    let document = json(&[&folder], 0);
    assert_eq!(document["files"].as_array().unwrap().len(), 1);
    let left_out = format!("not read: 1 folder in {folder}: a folder stands for the files right in it");
    assert!(document["lacks"][0].as_str().unwrap().starts_with(&left_out), "{document:#}");
}

#[test]
fn a_failed_init_hides_no_warning_of_others() {
    let dir = scratch("import");
    let failed = fixture("logs/nccl-2.21.5-perlmutter-failed-init.log").display().to_string();
    let warning = "node-b:1002:1002 [0] NCCL WARN NET/IB : Got completion with error 12\n";
    let other = file(&dir, "other.log", EQUAL.logs() + warning);
    let document = json(&[&other, &failed], 2);
    let observations = document["observations"].as_array().unwrap();
    let warned = observations.iter().find(|one| one["kind"] == "library_warned").unwrap();
    let lines = warned["proof"].to_string();
    assert!(lines.contains("Got completion with error 12"), "{warned:#}");
    assert!(!lines.contains("Unable to register memory"), "it is proof already: {warned:#}");
}

#[test]
fn text_that_is_none_of_these_is_64_and_says_what_was_seen() {
    let other = fixture("logs/not-nccl-mlperf-gaudi2.log").display().to_string();
    let ended = import(&[&other]);
    check(&ended, 64, &["not one of these", "47 lines of text without one record of NCCL"]);
    assert!(!ended.stdout.contains("MLLOG"), "whose text it is nobody knows: {ended:?}");
    check(&import_stdin(&["-"], b""), 64, &["an empty file"]);
    check(&import_stdin(&["-"], &[0; 100]), 64, &["bytes that are no text"]);
    assert_eq!(import(&[]).code, Some(64));
}

#[test]
fn a_bad_file_is_named_and_the_others_are_judged() {
    let dir = scratch("import");
    let good = file(&dir, "good.log", EQUAL.logs());
    let cut = file(&dir, "cut.json", "{\"nccl_version\": \"2.28.9\", \"communicators\": [{\"hash\":");
    check(
        &import(&[&good, "/nonexistent/log", &cut]),
        1,
        &[
            "good: unknown",
            "/nonexistent/log: cannot be read: No such file",
            "cut.json: NCCL RAS JSON: is no whole JSON",
        ],
    );
    let bad = file(&dir, "bad.log", UNEQUAL.logs());
    check(&import(&[&bad, "/nonexistent/log"]), 2, &["node-c", "cannot be read"]);
}

#[test]
fn nothing_of_a_file_of_another_kind_is_repeated() {
    let dir = scratch("import");
    let files = [
        (
            "shadow",
            "root:$6$s3cret$s3cret:19000:0:99999:7:::\nNOTE s3cret\n".to_owned(),
            "without one record of NCCL",
        ),
        (
            "typed.json",
            r#"{"communicators": [{"hash": 7, "ranks": "s3cret"}], "communicators_count": 1}"#.to_owned(),
            "line 1 at column",
        ),
        ("cut.json", r#"{"pg_config": {"s3cret": s3cret"#.to_owned(), "line 1 at column"),
        ("other.xml", "<s3cret><graphs></s3cret>".to_owned(), "not well-formed at line 1"),
        ("kind.xml", "<s3cret><graphs/></s3cret>".to_owned(), "is not <graphs>"),
        ("value.xml", r#"<graphs><graph id="s3cret"/></graphs>"#.to_owned(), "id of <graph>"),
    ];
    for (name, text, part) in files {
        let path = file(&dir, name, text);
        for args in [&[&*path][..], &[&*path, "--json"]] {
            let ended = import(args);
            assert!(!ended.stdout.contains("s3cret") && !ended.stderr.contains("s3cret"), "{ended:?}");
            let flat = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(part) && ended.code != Some(0), "{part:?} in {flat}");
        }
    }
}

#[test]
fn logs_found_in_public_say_what_is_missing() {
    for (name, code, parts) in [
        ("nccl-2.16.5-2node-ib-graph.log", 0, vec!["healthy", "init 1 -> final 2 doubled on n013, n014"]),
        (
            "rccl-2.27.7-2x7900xtx-graph.log",
            0,
            vec!["unknown", "TARS[0 1]", "library RCCL 2.27.7", "not judged: RCCL 2.27.7 chooses"],
        ),
        (
            "nccl-2.8.3-p4d-efa-16ranks-mpirun.log",
            0,
            vec!["unknown", "no GRAPH lines", "NCCL_DEBUG_SUBSYS=INIT,GRAPH"],
        ),
        ("fragment-timestamps-k8s-16ranks.log", 0, vec!["unknown", "no INIT lines"]),
        (
            "nccl-2.21.5-perlmutter-failed-init.log",
            2,
            vec![
                "findings: 1 critical in",
                "Ranks 0, 3, 4 and 7 failed to join the init of",
                "NCCL WARN NET/OFI Unable to register memory",
            ],
        ),
    ] {
        check(&import(&[&fixture("logs").join(name).display().to_string()]), code, &parts);
    }
}

/// Jobs that ran well, as far as their logs tell.
#[test]
fn nothing_of_a_real_job_that_ran_well_is_called_wrong() {
    let mut n = 0;
    for entry in std::fs::read_dir(fixture("logs")).unwrap() {
        let path = entry.unwrap().path().display().to_string();
        if !path.ends_with(".log") || path.contains("failed-init") || path.contains("not-nccl") {
            continue;
        }
        let document = json(&[&path], 0);
        let bad = |one: &&serde_json::Value| one["severity"] != "info";
        let found: Vec<_> = document["findings"].as_array().unwrap().iter().filter(bad).collect();
        assert!(found.is_empty(), "{path}: {found:#?}");
        n += 1;
    }
    assert!(n > 10, "{n}");
}

#[test]
fn the_document_has_all_of_it() {
    let dir = scratch("import");
    let log = file(&dir, "job-7.log", UNEQUAL.logs());
    let document = json(&[&log], 2);
    assert_eq!(document["verdict"], "findings");
    let read = &document["files"][0];
    assert_eq!((&read["kind"], &read["file"]), (&"nccl_log".into(), &log.clone().into()));
    assert_eq!(read["lines"].as_u64().unwrap(), UNEQUAL.logs().lines().count() as u64);
    let communicator = &document["communicators"][0];
    assert_eq!(communicator["comm_hash"], "0xabc0000000000001");
    assert_eq!(communicator["rings"].as_array().unwrap().len(), 2);
    assert_eq!(communicator["ranks"].as_array().unwrap().len(), 6);
    let findings = document["findings"].as_array().unwrap();
    let culprit = findings.iter().find(|one| one["finding"] == "channel_shortfall").unwrap();
    assert_eq!(culprit["host"], "node-c");
    assert!(culprit["proof"][0]["line"].as_u64().unwrap() > 0, "{culprit:#}");
}

#[test]
fn what_the_searches_found_and_the_trees_are_told() {
    let log = fixture("logs/nccl-2.27.3-a800-8gpu-graph.log").display().to_string();
    let document = json(&[&log], 0);
    let graphs = &document["communicators"][0]["graphs"];
    assert_eq!(graphs["searches"].as_array().unwrap().len(), 1, "one node");
    let search = &graphs["searches"][0];
    assert_eq!(search["rings"].as_array().unwrap().len(), 8);
    assert_eq!(search["rings"][7]["ranks"], serde_json::json!([0, 1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(search["changes"], serde_json::json!(["channels 8 to 15 repeat the first 8"]));
    assert_eq!(graphs["trees"].as_array().unwrap().len(), 16);
    assert_eq!(graphs["trees"][0]["places"][3], serde_json::json!({"rank": 3, "up": 2, "down": [4]}));
    check(
        &import(&[&log]),
        0,
        &["searched gpu-a800-28: 8 rings, 8 trees; channels 8 to 15 repeat the first 8"],
    );
}

#[test]
fn files_of_three_hosts_join_and_what_no_rule_explains_is_said_though_it_was_aborted() {
    let files = [0, 1, 2].map(|node| fixture(&format!("logs/nccl-2.20.5-rxe-3node-max1-node{node}.log")));
    let files: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
    check(
        &import(&files),
        0,
        &[
            "unknown: 1 communicator on 3 hosts cannot be judged whole",
            "every rank runs on 1 channel, where the library's rules give 2",
            "node0[0] -> node1[1] -> node2[2] over NET/IB",
        ],
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child = command(&[fixture("logs").to_str().unwrap()]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn what_half_of_the_files_tell_is_not_green() {
    let dir = scratch("import");
    let whole = file(&dir, "whole.log", EQUAL.ended());
    check(&import(&[&whole]), 0, &["healthy"]);
    let half = EQUAL.log(0) + &EQUAL.log(1) + &EQUAL.ends(0) + &EQUAL.ends(1);
    let half = file(&dir, "half.log", half);
    check(&import(&[&half]), 0, &["half: unknown:", "no file tells of ranks 4 and 5 of"]);
}
