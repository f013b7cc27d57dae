use std::path::{Path, PathBuf};

use ringscope_wire::batch::Thread;

use super::*;
use crate::foreign::tests::write_script;
use crate::programs::Paths;

fn asked(inquiry: &str, pid: Option<Pid>) -> Asked {
    Asked { process: "h/1/2".into(), inquiry: inquiry.into(), watch: false, pid }
}

fn by(look: impl Into<PathBuf>) -> Looker {
    let paths = Paths { look: look.into(), ..Paths::default() };
    Looker::new(Some(Programs { paths, starter: None }))
}

fn own() -> Option<Pid> {
    Pid::of(std::process::id())
}

/// A program that says this and then does that.
fn program(dir: &Path, said: &Look, then: &str) -> PathBuf {
    let (path, answer) = (dir.join("look"), dir.join("answer"));
    std::fs::write(&answer, said.encode_length_delimited_to_vec()).unwrap();
    write_script(&path, &format!("#!/bin/sh\ncat {}\n{then}\n", answer.display()));
    path
}

fn until_answered(looker: &mut Looker) -> Look {
    let start = ringscope_api::clock::monotonic();
    loop {
        if let Some((key, look)) = looker.poll(ringscope_api::clock::monotonic()).pop() {
            assert_eq!(key, "h/1/2");
            return look;
        }
        assert!(start.elapsed() < Duration::from_secs(120));
        std::thread::yield_now();
    }
}

#[test]
fn what_cannot_be_is_said() {
    let mut off = Looker::new(None);
    off.ask(asked("1", own()));
    let look = until_answered(&mut off);
    assert!(look.inquiry == "1" && look.lacks[0].contains("--no-look"), "{look:?}");
    let mut looker = by("/none/look");
    looker.ask(asked("2", None));
    assert!(until_answered(&mut looker).lacks[0].contains("not found on this machine"));
    looker.ask(asked("3", own()));
    let look = until_answered(&mut looker);
    assert!(look.inquiry == "3" && look.lacks[0].contains("/none/look cannot be run"), "{look:?}");
    let mut failing = by("/bin/false");
    failing.ask(asked("4", own()));
    assert_eq!(until_answered(&mut failing).lacks, ["the program that looks has failed"]);
}

#[test]
fn one_that_hangs_is_given_up_and_what_it_said_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let seen = Look {
        at_ns: 7,
        threads: vec![Thread { thread: 1, state: "D".into(), ..Thread::default() }],
        ..Look::default()
    };
    let program = program(dir.path(), &seen, "exec sleep 1000");
    let mut looker = by(program);
    looker.limit = Duration::from_secs(3);
    looker.ask(asked("1", own()));
    looker.ask(asked("2", own()));
    let look = until_answered(&mut looker);
    assert_eq!((look.inquiry.as_str(), look.at_ns, look.threads.len()), ("1", 7, 1));
    assert!(look.lacks[0].contains("given up"), "{look:?}");
    assert_eq!(until_answered(&mut looker).inquiry, "2", "then the next");
}

#[test]
fn the_last_word_counts_and_looks_are_bounded() {
    let first = Look { at_ns: 1, ..Look::default() };
    let second = Look { at_ns: 2, ..Look::default() };
    let mut bytes = first.encode_length_delimited_to_vec();
    bytes.extend(second.encode_length_delimited_to_vec());
    assert_eq!(last(&bytes).at_ns, 2);
    assert_eq!(last(&bytes[..bytes.len() - 1]).at_ns, 1, "a half one is none");
    assert_eq!(last(b"\xff\xff").at_ns, 0);

    let mut looker = by("/bin/false");
    let now = ringscope_api::clock::monotonic();
    looker.started = (0..MAX_PER_MINUTE).map(|_| now).collect();
    for n in 0..=MAX_WAITING {
        looker.ask(asked(&n.to_string(), own()));
    }
    let refused = looker.poll(now);
    assert!(refused.len() == 1 && refused[0].1.lacks[0].contains("too many"), "{refused:?}");
    assert!(looker.running.is_none(), "enough for this minute");
    looker.poll(now + Duration::from_secs(60));
    assert!(looker.running.is_some());
}
