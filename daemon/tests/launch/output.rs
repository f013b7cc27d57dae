//! What ranks write: whose it is, how much of it is held, who does not take it, and where there is no room for it.

use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;

use ringscope_api::clock;

use crate::common::scratch;
use crate::{PATIENCE, Running, end, fresh, launch, mark, nothing_is_left, with_mark};

#[test]
fn prefixes_are_chosen() {
    let said = |prefix: &str| {
        let ended = end(&mut launch(&["--prefix", prefix, "--", "sh", "-c", "echo out; echo err >&2"]));
        ended.check(0, &[]);
        (ended.out, ended.err)
    };
    assert_eq!(said("none"), ("out\n".to_owned(), "err\n".to_owned()));
    assert_eq!(said("rank").0, "[rank 0] out\n");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!(said("full").1, format!("[rank 0 {host}] err\n"));
}

#[test]
fn nothing_is_lost_of_much() {
    let ended = end(&mut launch(&["-n", "2", "--prefix", "rank", "--", "seq", "1", "100000"]));
    ended.check(0, &[]);
    for rank in 0..2 {
        let prefix = format!("[rank {rank}] ");
        let numbers = ended.out.lines().filter_map(|line| line.strip_prefix(&prefix)?.parse::<u32>().ok());
        assert!(numbers.eq(1..=100_000), "rank {rank}");
    }
}

#[test]
fn a_line_without_end_takes_no_memory() {
    let bytes = 64 << 20;
    let script = format!("head -c {bytes} /dev/zero | tr '\\0' x");
    let limited = "ulimit -v 1500000; exec \"$@\"";
    let mut command = fresh("sh");
    command.args([
        "-c",
        limited,
        "sh",
        crate::RINGSCOPE,
        "launch",
        "--prefix",
        "none",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let (mut all, mut buffer) = (0, vec![0; 1 << 16]);
    while let read @ 1.. = out.read(&mut buffer).unwrap() {
        all += read;
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        assert!(resident.unwrap_or_default() < 200_000, "{resident:?} kB");
    }
    assert_eq!(all, bytes + 1, "and a line end");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_reader_that_takes_nothing_holds_up_the_ranks_and_not_the_end() {
    let mark = mark();
    let mut command = launch(&["--drain", "2s", "--", "yes", &mark]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Nobody reads: the rank waits in its own pipe, as it would without us, and Ctrl-C still ends all.
    let since = clock::monotonic();
    let (mut written, mut same) = (0, 0);
    while same < 20 {
        assert!(child.try_wait().unwrap().is_none() && since.elapsed() < PATIENCE, "{written} bytes");
        std::thread::sleep(Duration::from_millis(20));
        let now = written_by(&format!("yes {mark}"));
        same = if now > 0 && now == written { same + 1 } else { 0 };
        written = now;
    }
    assert!(written < 2 << 20, "{written} bytes are held somewhere");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let since = clock::monotonic();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(since.elapsed() < PATIENCE, "it hangs for a reader");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(130));
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(err.contains("nobody has taken the job's output for 2 s"), "{err}");
    nothing_is_left(&mark, Duration::from_secs(2));
}

#[test]
fn a_reader_that_takes_nothing_after_the_end_is_left_at_a_signal() {
    let (dir, mark) = (scratch("launch-left"), mark());
    // More than is taken without a reader, and less than holds the rank up.
    let script = format!("yes {mark} | head -c 120000; touch ended");
    let mut command = launch(&["--drain", "1h", "--", "sh", "-c", &script]);
    command.current_dir(&dir.0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let since = clock::monotonic();
    while !dir.join("ended").exists() {
        assert!(child.try_wait().unwrap().is_none() && since.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    let since = clock::monotonic();
    let status = loop {
        // The first may still find the rank running.
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
            .unwrap();
        std::thread::sleep(Duration::from_millis(500));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(since.elapsed() < Duration::from_secs(30), "it hangs for a reader");
    };
    assert_eq!(status.code(), Some(130));
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(err.contains("what nobody has taken yet of the job's output is not written"), "{err}");
    nothing_is_left(&mark, PATIENCE);
}

#[test]
fn a_reader_that_takes_nothing_after_a_failure_is_waited_for_once_and_no_host_is_called_lost() {
    // More than is taken without a reader, and less than holds the rank up.
    let script = "yes | head -c 100000; exit 3";
    let options = ["--drain", "20s", "--grace", "1s", "--prefix", "none", "--", "sh", "-c", script];
    let mut command = launch(&options);
    let since = clock::monotonic();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "{err}");
    assert!(since.elapsed() < Duration::from_secs(32), "{:?}: {err}", since.elapsed());
    assert!(err.contains("nobody has taken the job's output for 20 s") && !err.contains("lost"), "{err}");
}

#[test]
fn no_reader_is_waited_for_where_none_is_to_be() {
    // As above.
    let script = "yes | head -c 100000; exit 3";
    let mut command = launch(&["--drain", "0s", "--prefix", "none", "--", "sh", "-c", script]);
    let since = clock::monotonic();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "{err}");
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}: {err}", since.elapsed());
    assert!(err.contains("what nobody has taken yet of the job's output is not written"), "{err}");
    let ended = end(&mut launch(&["--drain", "0s", "--prefix", "none", "--", "seq", "1000"]));
    ended.check(0, &[]);
    assert_eq!((ended.out.lines().count(), ended.err.as_str()), (1000, ""), "who reads gets all");
}

#[test]
fn a_slow_reader_gets_all_however_long_it_takes() {
    // More than launch and its pipes hold, so that the rest is in the rank's own pipe when the rank has ended.
    let bytes = 170_000;
    let script = format!("yes | head -c {bytes}");
    let mut command = launch(&["--drain", "1s", "--prefix", "none", "--", "sh", "-c", &script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let (mut all, mut buffer) = (0, vec![0; 8192]);
    while let read @ 1.. = out.read(&mut buffer).unwrap() {
        all += read;
        std::thread::sleep(Duration::from_millis(400));
    }
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((all, err.as_str()), (bytes, ""));
    assert!(child.wait().unwrap().success());
}

/// Bytes that the process with these arguments has written.
fn written_by(arguments: &str) -> u64 {
    let found = with_mark(arguments).into_iter().find(|one| one.contains(&format!(": {arguments}")));
    let pid = found.and_then(|one| Some(one.split_once(':')?.0.to_owned()));
    let io = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/io")).ok()).unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap_or_default()
}

#[test]
fn a_reader_that_is_gone_stops_no_job() {
    let dir = scratch("launch-gone");
    let script = "seq 1 200000; touch done";
    let mut command = launch(&["--", "sh", "-c", script]);
    let mut child =
        command.current_dir(&dir.0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(child.wait().unwrap().success(), "{err}");
    assert!(dir.join("done").exists());
    assert_eq!(err.matches("the job's output can be written no more").count(), 1, "{err}");
}

#[test]
fn a_prompt_without_a_line_end_is_shown() {
    let mark = mark();
    let mut running =
        Running::start(&mut launch(&["--", "sh", "-c", &format!("printf 'ready? '; sleep {mark}")]));
    running.wait_for("ready? ");
    running.signal(rustix::process::Signal::TERM);
    running.end().check(143, &[]);
}

#[test]
fn each_process_has_a_file_of_its_own() {
    let dir = scratch("launch-files");
    let ended = end(launch(&[
        "-n",
        "2",
        "--prefix",
        "none",
        "--output",
        "logs",
        "--",
        "sh",
        "-c",
        "echo out $RANK; echo err $RANK >&2",
    ])
    .current_dir(&dir.0));
    ended.check(0, &[]);
    for rank in 0..2 {
        let text = std::fs::read_to_string(dir.join(format!("logs/rank-{rank}.log"))).unwrap();
        assert!(text.contains(&format!("out {rank}\n")) && text.contains(&format!("err {rank}\n")), "{text}");
    }
}

#[test]
fn a_full_disk_is_said_once_and_stops_no_job() {
    let dir = scratch("launch-full");
    std::fs::create_dir(dir.join("logs")).unwrap();
    // Every write to it finds no room.
    for rank in 0..2 {
        std::os::unix::fs::symlink("/dev/full", dir.join(format!("logs/rank-{rank}.log"))).unwrap();
    }
    let ended = end(launch(&["-n", "2", "--output", "logs", "--", "seq", "1", "5000"]).current_dir(&dir.0));
    ended.check(0, &["No space left"]);
    assert_eq!(ended.err.matches("cannot write logs/rank-").count(), 1, "{ended:#?}");
    assert_eq!(ended.out.lines().count(), 10_000);
}
