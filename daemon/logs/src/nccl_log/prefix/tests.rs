use super::*;

type Expected<'l> = (&'l str, u32, u32, Option<u32>, &'l str);

fn read<'l>(line: &'l str, hosts: &[&str]) -> (Vec<(Expected<'l>, bool)>, bool) {
    let mut found = Vec::new();
    let torn = records(
        line,
        |host| hosts.contains(&host),
        |r| found.push(((r.host, r.pid, r.tid, r.cuda_device, r.message), r.cut)),
    );
    (found, torn)
}

fn check(line: &str, expected: Option<Expected<'_>>) {
    let expected: Vec<_> = expected.into_iter().map(|record| (record, false)).collect();
    assert_eq!(read(line, &[]), (expected, false), "{line}");
}

#[test]
fn prefixes_of_launchers_and_runtimes() {
    let record = "node0:4744:4763 [0] NCCL INFO Using network IB";
    let plain = Some(("node0", 4744, 4763, Some(0), "Using network IB"));
    for front in [
        "",
        "3: ",
        "3:",
        "[2026-04-28 14:14:48] ",
        "2026-04-28 14:14:48 ",
        "2026-04-28T14:14:48.123456Z ",
        "2026-04-28T14:14:48.123456789+02:00 ",
        "1777385688.123 ",
        "2026-04-28T14:14:48.123456789Z stdout F ",
        "2026-04-28T14:14:48.123456789Z stderr F ",
        "[1,0]<stdout>:",
        "[1,0]<stderr>: ",
        "Tue Apr 28 14:14:48 2026[1,3]<stdout>:",
        "[prterun-login-4711@1,3]<stdout>: ",
        "[0] ",
        "[default0]:",
        "[rank0]:",
        "[rank0]: ",
        "(worker pid=9) ",
        "(RayTrainWorker pid=9, ip=10.0.0.3) ",
        "trainer-0 pytorch ",
        "trainer-0 › pytorch ",
        "[pod/trainer-worker-0/pytorch] ",
        "trainer-0 | ",
        "45%|####      | 45/100 [00:12<00:15, 3.6it/s]",
    ] {
        check(&format!("{front}{record}"), plain);
    }
    check("node0.cluster.local:1:2 NCCL INFO x", Some(("node0.cluster.local", 1, 2, None, "x")));
    check("node0:4744 [0] NCCL INFO x", None);
    check(":1:2 [0] NCCL INFO x", None);
    check("NCCL version 2.20.5+cuda12.4", None);
    check("rank 0/3 ok val=3.0", None);
}

#[test]
fn warnings_name_their_source_in_between() {
    let line = "node0:4744:4763 [1] transport/net_ib.cc:115 NCCL WARN no path";
    let mut level = None;
    assert!(!records(
        line,
        |_| false,
        |record| level = Some((record.level, record.message, record.cuda_device))
    ));
    assert_eq!(level, Some((Level::Warn, "no path", Some(1))));
}

#[test]
fn of_records_run_together_the_last_is_whole() {
    let line = "node0:1:2 [0] NCCL INFO a 1 - Init STARTnode1:3:4 [5] NCCL INFO Ring 00 : 1 -> 2 -> 3";
    let first = ("node0", 1, 2, Some(0), "a 1 - Init START");
    let last = (("node1", 3, 4, Some(5), "Ring 00 : 1 -> 2 -> 3"), false);
    assert_eq!(read(line, &["node1"]), (vec![(first, true), last], true));
    assert_eq!(read(line, &[]).0[1].0.0, "node1", "no host begins with the last word of a message");
    let unknown = read("node0:1:2 [0] NCCL INFO Ring 00 : 1 -> 2xnode1:3:4 [5] NCCL INFO x", &[]).0;
    assert_eq!(
        unknown[0],
        (("node0", 1, 2, Some(0), "Ring 00 : 1 ->"), true),
        "an unknown host takes the word with it"
    );
    let alone = read("xnode1:3:4 [5] NCCL INFO x", &["node1"]);
    assert_eq!(
        alone,
        (vec![(("xnode1", 3, 4, Some(5), "x"), false)], false),
        "a host may end as another does"
    );
}

#[test]
fn writers_remembered_are_those_of_the_line() {
    let mut writers = Writers::default();
    let long = "x ".repeat(200);
    // More than are remembered, several times, behind prefixes of all lengths.
    for n in 0..4000_u32 {
        let front = ["", "3: ", "[1,0]<stdout>:", &long, "2026-04-28 14:14:48 "][n as usize % 5];
        let line = format!("{front}node{}:{}:{} [{}] NCCL WARN x{n} ", n % 7, n % 900, n % 900 + 1, n % 8);
        let mark = line.find("CCL ").unwrap();
        let found = writers.record(&line, mark);
        let mut expected = Vec::new();
        records(&line, |_| false, |record| expected.push(record));
        assert_eq!(found, expected.pop(), "{line}");
        assert!(found.is_some(), "{line}");
    }
    for line in ["NCCL version 2.18", "a NCCL INFO x", "CCL ", "h:5:5 NCCL INFOx", "é NCCL INFO é"] {
        assert_eq!(writers.record(line, line.find("CCL ").unwrap()), None, "{line}");
    }
}
