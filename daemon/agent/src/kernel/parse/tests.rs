//! Recorded messages against what they say: `fixtures/kernel/faults.txt`, and a corpus that must say nothing.

use std::path::PathBuf;

use super::*;

fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/kernel").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn record(number: u64, text: &str) -> Record {
    // Far apart, so that no limit cuts anything.
    Record { number, since_boot_us: number * WINDOW_US, wall_ns: None, text: text.to_owned() }
}

/// What is told of a message, on one line: kind, meaning, and what it is about.
fn told(message: &KernelMessage) -> String {
    let mut about = String::new();
    for (name, value) in [
        ("pci", Some(message.pci.clone())),
        ("nic", Some(message.nic.clone())),
        ("pid", message.pid.map(|pid| pid.to_string())),
        ("xid", message.xid.map(|xid| xid.to_string())),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            about += &format!(" {name}={value}");
        }
    }
    let kind = message.kind().as_str_name().trim_start_matches("KERNEL_MESSAGE_KIND_").to_lowercase();
    format!(
        "{kind}: {}{}",
        message.meaning,
        if about.is_empty() { String::new() } else { format!(" |{about}") }
    )
}

/// Each line of the file with what is expected of it: a line that begins with `= ` tells what the one before says; one
/// without says nothing.
#[test]
fn recorded_faults_are_told() {
    let text = fixture("faults.txt");
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let mut reader = Reader::default();
    let mut wrong = Vec::new();
    let mut n = 0;
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.starts_with("= ")) {
        n += 1;
        let expected = lines.get(at + 1).and_then(|next| next.strip_prefix("= "));
        let found = reader.read(&record(n, line), 5 + n * WINDOW_US * 1000, "boot");
        if let Some(found) = &found {
            assert_eq!((found.number, found.boot_id.as_str(), found.text.as_str()), (n, "boot", *line));
            assert_eq!(found.at_ns, 5 + n * WINDOW_US * 1000);
        }
        let found = found.as_ref().map(told);
        if found.as_deref() != expected {
            wrong.push(format!("{line}\n  expected {expected:?}\n  found    {found:?}"));
        }
    }
    assert!(n > 60, "{n}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn healthy_machines_say_nothing() {
    let text = fixture("benign.txt");
    let mut reader = Reader::default();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut n = 0;
    for line in lines {
        n += 1;
        let found = reader.read(&record(n, line), 0, "b");
        assert_eq!(found, None, "{line}");
    }
    assert!(n > 80, "{n}");
}

#[test]
fn a_process_cannot_name_itself_a_fault() {
    let mut reader = Reader::default();
    for line in [
        "audit: comm=\"x\" NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:[4711]: segfaul at 0",
        "x: nfs: server a not responding, still trying",
        "[Hardware Error]: ",
        "python: Out of memory: Killed process 1 (init) total-vm:1kB",
    ] {
        assert_eq!(reader.read(&record(1, line), 0, "b"), None, "{line}");
    }
    let named = reader
        .read(&record(2, "Killed process 9 (a) total-vm:1 (b) total-vm:26kB, anon-rss:1kB"), 0, "b")
        .unwrap();
    assert_eq!(named.meaning, "out of memory: the kernel killed a) total-vm:1 (b");
}

#[test]
fn each_kind_has_its_own_room() {
    let mut reader = Reader::default();
    let mut read = |number: u64, at_us: u64, text: &str| {
        let record = Record { number, since_boot_us: at_us, wall_ns: None, text: text.to_owned() };
        reader.read(&record, 0, "b").is_some()
    };
    let nfs = "nfs: server a not responding, still trying";
    let told = (0..100).filter(|n| read(*n, 0, nfs)).count();
    assert_eq!(told, MAX_PER_WINDOW as usize);
    assert!(read(200, 1, "NVRM: Xid (PCI:0000:3b:00): 79, x"), "another kind");
    assert!(!read(201, WINDOW_US - 1, nfs) && read(202, WINDOW_US, nfs), "a new window");
    assert_eq!(reader.lost, 100 - u64::from(MAX_PER_WINDOW) + 1);
}

proptest::proptest! {
    #[test]
    fn any_text_is_data(text in "[ -~ä]{0,120}", start in 0_usize..8) {
        let starts = ["", "NVRM: Xid (", "oom-kill:", "INFO: task ", "mlx5_core 0000:3b:00.0", "EDAC MC", "traps: ", "nfs: server "];
        let _ = Reader::default().read(&record(1, &format!("{}{text}", starts[start])), 0, "b");
    }
}
