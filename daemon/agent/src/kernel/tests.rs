use std::io::Write as _;
use std::path::PathBuf;

use super::*;
use crate::foreign::tests::write_script;
use crate::programs::Paths;

/// Microseconds since the boot, now.
fn now_us() -> u64 {
    Moment::now().since_boot_us
}

fn programs(journalctl: impl Into<PathBuf>) -> Programs {
    let paths = Paths { journalctl: journalctl.into(), ..Paths::default() };
    Programs { paths, starter: None }
}

fn kernel(log: KernelLog) -> Kernel {
    let mut config = AgentConfig::new("http://127.0.0.1:1", "/none");
    config.kernel_log = Some(log);
    Kernel::new(&config)
}

/// Takes until `done` says that it is enough. Within ten seconds, or the test fails.
fn until(
    kernel: &mut Kernel,
    done: impl Fn(&[KernelMessage], Option<&KernelReading>) -> bool,
) -> (Vec<KernelMessage>, KernelReading) {
    let (mut all, mut last) = (Vec::new(), None);
    let start = ringscope_api::clock::monotonic();
    while !done(&all, last.as_ref()) {
        assert!(start.elapsed() < Duration::from_secs(10), "{all:?} {last:?}");
        let (messages, reading) = kernel.take();
        assert!(messages.len() <= MAX_PER_BATCH);
        all.extend(messages);
        last = reading.or(last);
        std::thread::yield_now();
    }
    (all, last.unwrap_or_default())
}

#[test]
fn messages_are_followed_and_what_was_lost_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let kmsg = dir.path().join("kmsg");
    let old = now_us().saturating_sub(700_000_000);
    let now = now_us();
    let xid = |number: u64, at: u64, xid: u32| {
        format!("4,{number},{at},-;NVRM: Xid (PCI:0000:3b:00): {xid}, pid=7\n")
    };
    let mut text = String::new();
    if old > 0 {
        text += &xid(1, old, 13);
    }
    text += &format!(
        "6,2,{now},-;eth0: link up\n SUBSYSTEM=net\n DEVICE=n3\n12,3,{now},-;NVRM: Xid (PCI:0000:3b:00): 48\n"
    );
    text += &xid(4, now, 79);
    // 5 to 8 were overwritten.
    text += &xid(9, now + 1, 94);
    std::fs::write(&kmsg, &text).unwrap();
    let mut kernel = kernel(KernelLog { kmsg: kmsg.clone(), journalctl: "/none".into() });
    let (messages, reading) = until(&mut kernel, |all, _| all.len() == 2);
    let xids: Vec<_> = messages.iter().map(|one| (one.number, one.xid, one.pid)).collect();
    assert_eq!(
        xids,
        [(4, Some(79), Some(7)), (9, Some(94), Some(7))],
        "not the old one, nor what a user wrote"
    );
    assert_eq!(reading, KernelReading { readable: true, how: kmsg.display().to_string(), lost: 4 });
    assert_eq!(messages[0].boot_id, boot_id());
    let skew_ns = ringscope_api::clock::now().0.abs_diff(messages[0].at_ns);
    assert!(skew_ns < 60_000_000_000, "{skew_ns}");

    let mut file = std::fs::OpenOptions::new().append(true).open(&kmsg).unwrap();
    file.write_all(xid(10, now + 2, 119).as_bytes()).unwrap();
    until(&mut kernel, |all, _| all.len() == 1 && all[0].xid == Some(119));
    assert!(!kernel.is_new());
    kernel.unsay();
    let (again, reading) = kernel.take();
    assert_eq!((again.len(), reading.map(|reading| reading.lost)), (3, Some(4)), "told again");
}

#[test]
fn a_flood_is_cut_by_kind_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let kmsg = dir.path().join("kmsg");
    let now = now_us();
    let mut text: String = (1..=1000)
        .map(|n| format!("4,{n},{now},-;nfs: server a{n} not responding, still trying\n"))
        .collect();
    text += &format!("4,1001,{now},-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n");
    std::fs::write(&kmsg, text).unwrap();
    let mut kernel = kernel(KernelLog { kmsg, journalctl: "/none".into() });
    let (messages, reading) = until(&mut kernel, |all, _| all.iter().any(|one| one.xid == Some(79)));
    assert!(messages.len() < 100, "{}", messages.len());
    let told = u64::try_from(messages.len()).unwrap();
    let reading = if reading.lost == 0 { kernel.inbox.lock().unwrap().reading().unwrap() } else { reading };
    assert_eq!(reading.lost + told, 1001, "each is told or counted");
}

#[test]
fn the_journal_stands_in_and_neither_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let none = dir.path().join("none");
    let mut silent = kernel(KernelLog { kmsg: none.clone(), journalctl: "/bin/true".into() });
    let (_, reading) = until(&mut silent, |_, reading| reading.is_some());
    assert!(!reading.readable);
    for part in ["none cannot be read", "No such file", "shows no message", "systemd-journal"] {
        assert!(reading.how.contains(part), "{part} in {}", reading.how);
    }
    let mut absent = kernel(KernelLog { kmsg: none.clone(), journalctl: none.clone() });
    let (_, reading) = until(&mut absent, |_, reading| reading.is_some());
    assert!(!reading.readable && reading.how.contains("cannot be run"), "{reading:?}");

    let journalctl = dir.path().join("journalctl");
    let line = format!(
        r#"{{"SYSLOG_FACILITY":"0","_SOURCE_MONOTONIC_TIMESTAMP":"{}","MESSAGE":"NVRM: Xid (PCI:0000:3b:00): 79, x"}}"#,
        now_us()
    );
    let script = format!("#!/bin/sh\necho '{line}'\ncase \"$*\" in *--follow*) exec sleep 30;; esac\n");
    write_script(&journalctl, &script);
    let mut journal = kernel(KernelLog { kmsg: none, journalctl });
    let (messages, reading) = until(&mut journal, |all, _| all.len() == 1);
    assert_eq!((messages[0].xid, reading.how.as_str(), reading.readable), (Some(79), "journal", true));
}

fn xid(number: u64, since_boot_us: u64) -> Read {
    let text = "NVRM: Xid (PCI:0000:3b:00): 79, x".to_owned();
    Read::Kernel(Record { number, since_boot_us, wall_ns: None, text })
}

const NOW: Moment = Moment { wall_ns: 5_000_000_000_000, since_boot_us: 2_000_000_000 };

#[test]
fn a_live_message_has_the_time_at_which_it_came() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut source = Source::open(file.path(), &programs("/none")).unwrap();
    let mut following = Following::default();
    following.take_up(&source);
    let (waited, _) = following.read(vec![xid(1, NOW.since_boot_us - 30_000_000)], &source, NOW);
    assert_eq!(waited[0].at_ns, NOW.wall_ns - 30_000_000_000);
    assert!(source.next().unwrap().is_empty());
    // By now the kernel's clock is far behind.
    let (live, _) = following.read(vec![xid(2, NOW.since_boot_us - 900_000_000)], &source, NOW);
    assert_eq!(live[0].at_ns, NOW.wall_ns);
    let Read::Kernel(record) = xid(3, 7) else { panic!("it is the kernel's") };
    let of_journal = Read::Kernel(Record { wall_ns: Some(NOW.wall_ns - 5), ..record });
    let (said, _) = following.read(vec![of_journal], &source, NOW);
    assert_eq!(said[0].at_ns, NOW.wall_ns - 5);
}

#[test]
fn a_crash_of_a_thread_is_that_of_its_process() {
    let mut following = Following::default();
    let file = tempfile::NamedTempFile::new().unwrap();
    let source = Source::open(file.path(), &programs("/none")).unwrap();
    let (wake, sleeps) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()).unwrap();
        sleeps.recv().ok();
    });
    let number = told.recv().unwrap();
    let mut pid = |at: u64, age_us: u64| {
        let text =
            format!("worker[{number}]: segfault at 0 ip 0 sp 0 error 4 in libc.so.6[7f0000000000+1000]");
        let record = Record { number: at, since_boot_us: NOW.since_boot_us - age_us, wall_ns: None, text };
        following.read(vec![Read::Kernel(record)], &source, NOW).0[0].pid
    };
    assert_eq!(pid(1, 60_000_000), Some(number), "an old one may be of another process");
    assert_eq!(pid(2, 1000), Some(std::process::id()));
    drop(wake);
    thread.join().unwrap();
}

#[test]
fn another_source_begins_where_the_last_one_ended() {
    let dir = tempfile::tempdir().unwrap();
    let (none, journalctl) = (dir.path().join("none"), dir.path().join("journalctl"));
    write_script(&journalctl, "#!/bin/sh\necho '{}'\n");
    let file = tempfile::NamedTempFile::new().unwrap();
    let journal = Source::open(&none, &programs(&journalctl)).unwrap();
    let kmsg = Source::open(file.path(), &programs(&none)).unwrap();
    let mut following = Following::default();
    let first_us = NOW.since_boot_us - 3_000_000;
    let mut told = |source: &Source, read: Vec<Read>| {
        following.take_up(source);
        let (messages, lost) = following.read(read, source, NOW);
        (messages.iter().map(|one| one.number).collect::<Vec<_>>(), lost)
    };
    let number = |since_boot_us: u64| since_boot_us * 16;
    assert_eq!(told(&journal, vec![xid(number(first_us), first_us)]), (vec![number(first_us)], 0));
    let later_us = first_us + 1;
    assert_eq!(
        told(&kmsg, vec![xid(5, first_us), xid(6, later_us)]),
        (vec![6], 0),
        "new, with other numbers"
    );
    let both = [later_us, later_us + 1].map(|us| xid(number(us), us)).to_vec();
    assert_eq!(told(&journal, both), (vec![number(later_us + 1)], 0));
}

#[test]
fn off_is_silent() {
    let mut config = AgentConfig::new("http://127.0.0.1:1", "/none");
    config.kernel_log = None;
    let mut kernel = Kernel::new(&config);
    assert!(!kernel.is_new());
    assert_eq!(kernel.take(), (Vec::new(), None));
}
