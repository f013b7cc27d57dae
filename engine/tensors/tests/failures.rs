//! What goes wrong: said clearly, naming edge and peer, and never by waiting for ever.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use common::{KINDS, address, devices, of_forms, ready, soon};
use rtensor::clock::Deadline;
use rtensor::device::{self, FlagForm, Kind, MAX_CONTROL_BYTES, Role};
use rtensor::error::Error;
use rtensor::link::{Declaration, Hold, Link};
use rtensor::memory::{Address, Region};
use rtensor::tensor::{DataType, Shape};

const CHILD: &str = "RTENSOR_TEST_CHILD";

fn links(kind: Kind) -> (Link, Link) {
    let (one, other) = devices(kind);
    (Link::new(one), Link::new(other))
}

fn floats(count: u64) -> Shape {
    Shape::new(DataType::F32, &[count]).unwrap()
}

/// The peer of the next test: sends once, then waits for its end.
#[test]
fn child_that_is_killed() {
    #[expect(clippy::disallowed_methods, reason = "how a test's own child knows what it is")]
    let Ok(told) = std::env::var(CHILD) else { return };
    let (kind, address) = told.split_once(' ').unwrap();
    let device = device::connect(kind.parse().unwrap(), Role::Call, address, soon()).unwrap();
    let mut link = Link::new(device);
    let edge = link.declare(Declaration::static_sender("gradients", floats(1000), Hold::Release)).unwrap();
    link.ready(soon()).unwrap();
    link.send(edge).unwrap();
    let _ = link.wait_to_send(edge, soon());
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_peer_is_named_with_the_edge_that_waits_for_it() {
    for kind in KINDS {
        let address = address(kind);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_is_killed"])
            .env(CHILD, format!("{kind} {address}"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut link = Link::new(device::connect(kind, Role::Listen, &address, soon()).unwrap());
        let edge = link.declare(Declaration::static_receiver("gradients", floats(1000))).unwrap();
        link.ready(soon()).unwrap();
        link.wait(edge, soon()).unwrap();
        link.release(edge).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let error = link.wait(edge, soon()).unwrap_err();
        assert!(matches!(error, Error::PeerLost { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("edge gradients waits for the flag of transfer 2 from"), "{text}");
        assert!(text.contains("is gone"), "{text}");
    }
}

#[test]
fn what_a_peer_wrote_before_it_went_is_there() {
    for kind in KINDS {
        let (mut one, mut other) = links(kind);
        let sender = one.declare(Declaration::static_sender("last", floats(10), Hold::Release)).unwrap();
        let receiver = other.declare(Declaration::static_receiver("last", floats(10))).unwrap();
        ready(&mut one, &mut other);
        one.tensor_mut(sender).unwrap().fill(7);
        one.send(sender).unwrap();
        one.flush(soon()).unwrap();
        drop(one);
        other.wait(receiver, soon()).unwrap();
        assert_eq!(other.tensor(receiver).unwrap().1, [7; 40]);
    }
}

#[test]
fn a_deadline_without_progress_names_edge_peer_and_what_is_awaited() {
    for kind in KINDS {
        let (mut one, mut other) = links(kind);
        one.declare(Declaration::dynamic_sender("tokens", 100, Hold::Release)).unwrap();
        let receiver = other.declare(Declaration::dynamic_receiver("tokens", 100)).unwrap();
        ready(&mut one, &mut other);
        let text = other.wait(receiver, Deadline::after(Duration::from_millis(30))).unwrap_err().to_string();
        assert!(text.contains("0.03 s: edge tokens waits for the metadata of transfer 1 from"), "{text}");
    }
}

#[test]
fn a_peer_that_does_not_come_to_its_end_is_named_and_one_that_has_is_heard() {
    for kind in KINDS {
        let (mut one, mut other) = links(kind);
        ready(&mut one, &mut other);
        let text = one.finish(Deadline::after(Duration::from_millis(30))).unwrap_err().to_string();
        assert!(text.contains("0.03 s: the link waits for the end of"), "{text}");
        other.finish(soon()).unwrap();
        drop(other);
        one.finish(soon()).unwrap();
        let (mut one, mut other) = links(kind);
        ready(&mut one, &mut other);
        drop(other);
        let text = one.finish(soon()).unwrap_err().to_string();
        assert!(text.contains("is gone") && text.contains("waits for the end of"), "{text}");
    }
}

#[test]
fn word_that_finds_no_room_waits_for_nobody_and_goes_with_later_polls() {
    for kind in KINDS {
        let (mut one, mut other) = devices(kind);
        // More than the sockets take.
        let word: Vec<u8> = (0..MAX_CONTROL_BYTES).map(|at| at.to_le_bytes()[1]).collect();
        one.send_control(&word).unwrap();
        assert!(!one.is_idle(), "{kind}");
        let heard = loop {
            one.poll(&mut Vec::new()).unwrap();
            if let Some(heard) = other.receive_control().unwrap() {
                break heard;
            }
        };
        assert!(heard == word && one.is_idle(), "{kind}");
    }
}

#[test]
fn a_stale_or_wrong_address_is_an_error_of_who_uses_it() {
    for kind in KINDS {
        let (mut one, mut other) = devices(kind);
        let theirs = other.allocate(4096).unwrap();
        let own = one.allocate(4096).unwrap();
        let address = Address { key: theirs.key(), offset: 0 };
        one.write(&own.part(0, 64).unwrap(), address).unwrap();
        let mut write = |bytes: u64, to: Address| -> Error {
            let part = own.part(0, bytes).unwrap();
            let mut events = Vec::new();
            if let Err(error) = one.write(&part, to) {
                return error;
            }
            loop {
                other.poll(&mut events).unwrap();
                if let Err(error) = one.poll(&mut events) {
                    return error;
                }
            }
        };
        let text = write(64, Address { offset: 4090, ..address }).to_string();
        assert!(text.contains("64 bytes at 4090 lie outside of memory"), "{text}");
        assert!(matches!(write(64, Address { key: 77, offset: 0 }), Error::StaleKey { key: 77, .. }));
    }
}

#[test]
fn memory_that_was_taken_back_is_refused() {
    for kind in KINDS {
        let (mut one, mut other) = devices(kind);
        let theirs = other.allocate(4096).unwrap();
        let own = one.allocate(4096).unwrap();
        let (part, to) = (own.part(0, 64).unwrap(), Address { key: theirs.key(), offset: 0 });
        one.write(&part, to).unwrap();
        let mut events = Vec::new();
        other.poll(&mut events).unwrap();
        other.release(&theirs).unwrap();
        assert!(other.release(&theirs).is_err());
        let error = loop {
            if let Err(error) = one.write(&part, to).map(|_| ()).and_then(|()| one.poll(&mut events)) {
                break error;
            }
            other.poll(&mut events).unwrap();
        };
        assert!(matches!(error, Error::StaleKey { .. }), "{error}");
    }
}

#[test]
fn tensors_that_are_too_large_and_full_arenas_are_refused() {
    for kind in KINDS {
        let (mut one, mut other) = links(kind);
        one.set_arena_bytes(64 << 10).unwrap();
        other.set_arena_bytes(4096).unwrap();
        let sender = one.declare(Declaration::dynamic_sender("tokens", 1 << 20, Hold::Release)).unwrap();
        let receiver = other.declare(Declaration::dynamic_receiver("tokens", 1 << 20)).unwrap();
        ready(&mut one, &mut other);
        let text = one.begin(sender, &floats(1 << 20)).unwrap_err().to_string();
        assert!(text.contains("edge tokens: a tensor of 4194304 bytes, where 1048576"), "{text}");
        let text = one.begin(sender, &floats(1 << 17)).unwrap_err().to_string();
        assert!(
            text.contains("the arena of the link") && text.contains("524288 bytes in one piece"),
            "{text}"
        );
        one.begin(sender, &floats(2000)).unwrap();
        one.send(sender).unwrap();
        let error = other.wait(receiver, soon()).unwrap_err();
        assert!(matches!(error, Error::Exhausted { wanted_bytes: 8000, .. }), "{error}");
    }
}

#[test]
fn memory_that_the_machine_does_not_have_is_refused() {
    let (mut one, _other) = devices(Kind::Local);
    let error = one.allocate(1 << 50).unwrap_err();
    assert!(matches!(error, Error::NoMemory { .. }), "{error}");
}

#[test]
fn ends_that_do_not_fit_say_which_edge_and_how() {
    for kind in KINDS {
        let refused = |here: Declaration, there: Declaration| {
            let (mut one, mut other) = links(kind);
            one.declare(here).unwrap();
            other.declare(there).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| other.ready(soon()).unwrap_err());
                one.ready(soon()).unwrap_err().to_string()
            })
        };
        let sender = |count| Declaration::static_sender("w", floats(count), Hold::Release);
        let check = |text: String, why: &str| {
            assert!(text.starts_with("edge ") && text.ends_with(why), "{text}");
        };
        let text = refused(sender(3), Declaration::static_receiver("w", floats(4)));
        check(text, ": here it sends float32 [3], there it receives float32 [4]");
        let text = refused(sender(3), sender(3));
        check(text, ": here it sends float32 [3], there it sends float32 [3]");
        let text = refused(sender(3), Declaration::dynamic_receiver("w", 77));
        check(text, ", there it receives tensors of any shape and up to 77 bytes");
        let text = refused(sender(3), Declaration::static_receiver("v", floats(3)));
        check(text, ": there is no edge w there (it has: v)");
        let held = Declaration::static_sender("w", floats(3), Hold::By("nothing".to_owned()));
        let text = refused(held.clone(), Declaration::static_receiver("w", floats(3)));
        check(text, ": it is held by \"nothing\", which is no edge from the peer");
        let text = refused(Declaration::static_receiver("w", floats(3)), held);
        check(text, ": there it is held by \"nothing\", which is no edge from here");
    }
}

#[test]
fn ends_that_do_not_fit_both_hear_of_it_however_many_edges_they_have() {
    for kind in KINDS {
        let (mut one, mut other) = links(kind);
        // More than the sockets take.
        for number in 0..200 {
            let name = format!("{number}{}", "x".repeat(60_000));
            one.declare(Declaration::static_sender(name.clone(), floats(1), Hold::Release)).unwrap();
            other.declare(Declaration::static_receiver(name, floats(1 + number / 199))).unwrap();
        }
        let errors = std::thread::scope(|scope| {
            let there = scope.spawn(|| other.ready(soon()).unwrap_err());
            [one.ready(soon()).unwrap_err(), there.join().unwrap()]
        });
        assert!(errors.iter().all(|error| matches!(error, Error::Mismatch { .. })), "{kind}");
    }
}

fn place(kind: Kind, address: &str) -> String {
    if kind == Kind::Local { format!("the name {address} of this host") } else { address.to_owned() }
}

#[test]
fn two_listeners_at_an_address_are_told_that_one_end_calls() {
    for kind in KINDS {
        let address = address(kind);
        std::thread::scope(|scope| {
            let (tell, told) = channel();
            for tell in [tell.clone(), tell] {
                let address = &address;
                scope.spawn(move || {
                    tell.send(device::connect(kind, Role::Listen, address, soon()).map(drop)).unwrap();
                });
            }
            // Whoever comes second is refused; the first is called then.
            let text = told.recv().unwrap().unwrap_err().to_string();
            let why = "(another process listens there: one end listens, the other calls)";
            assert!(text.starts_with(&format!("listening at {} {why}", place(kind, &address))), "{text}");
            device::connect(kind, Role::Call, &address, soon()).unwrap();
            told.recv().unwrap().unwrap();
        });
    }
}

#[test]
fn nobody_at_an_address_is_an_error_after_the_deadline() {
    for kind in KINDS {
        for role in [Role::Listen, Role::Call] {
            let address = address(kind);
            let error = device::connect(kind, role, &address, Deadline::after(Duration::from_millis(30)))
                .err()
                .unwrap();
            let (text, place) = (error.to_string(), place(kind, &address));
            let what = if role == Role::Listen { "called" } else { "answered" };
            assert!(text.starts_with(&format!("nobody {what} at {place} for 0.03 s")), "{text}");
        }
    }
}

#[test]
fn memory_that_is_not_free_yet_is_too_early_and_not_a_mistake() {
    for kind in KINDS {
        let (mut one, mut other) = links(kind);
        let sender = one.declare(Declaration::dynamic_sender("tokens", 100, Hold::Release)).unwrap();
        let receiver = other.declare(Declaration::dynamic_receiver("tokens", 100)).unwrap();
        ready(&mut one, &mut other);
        one.begin(sender, &floats(3)).unwrap();
        one.send(sender).unwrap();
        let error = one.begin(sender, &floats(3)).unwrap_err();
        assert!(matches!(error, Error::TooEarly { sequence: 2, released: 1, .. }), "{error}");
        let error = one.tensor_mut(sender).unwrap_err();
        assert!(matches!(error, Error::TooEarly { .. } | Error::Leaving { .. }), "{error}");
        while !other.poll(receiver).unwrap() {
            one.serve().unwrap();
        }
        one.wait_to_send(sender, soon()).unwrap();
        one.begin(sender, &floats(3)).unwrap();
    }
}

#[test]
fn a_tensor_that_still_leaves_its_memory_is_left_alone() {
    let (mut one, mut other) = links(Kind::Tcp);
    // More than the sockets take.
    let sender = one.declare(Declaration::static_sender("w", floats(16 << 20), Hold::Release)).unwrap();
    let receiver = other.declare(Declaration::static_receiver("w", floats(16 << 20))).unwrap();
    ready(&mut one, &mut other);
    one.send(sender).unwrap();
    let error = one.tensor_mut(sender).unwrap_err();
    assert!(matches!(error, Error::Leaving { .. }), "{error}");
    let text = one.flush(Deadline::after(Duration::from_millis(10))).unwrap_err().to_string();
    assert!(text.contains("0.01 s: what was sent to") && text.contains("on edge w leaves"), "{text}");
    drop(other);
    let error = loop {
        match one.may_send(sender) {
            Ok(may_send) => assert!(!may_send),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("edge w"), "{error}");
    let _ = receiver;
}

#[test]
fn a_tensor_of_too_few_bytes_is_a_mistake() {
    let (mut one, mut other) = links(Kind::Local);
    let sender = one.declare(Declaration::static_sender("w", floats(10), Hold::Release)).unwrap();
    other.declare(Declaration::static_receiver("w", floats(10))).unwrap();
    ready(&mut one, &mut other);
    let region = one.register(&Region::new(4096).unwrap()).unwrap();
    let error = one.send_from(sender, &floats(10), &region.part(0, 39).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
    assert_eq!(error.to_string(), "edge w carries 40 bytes, and not 39");
}

#[test]
fn polls_of_both_kinds_on_one_edge_leave_the_arena_whole() {
    for kind in KINDS {
        let (mut one, mut other) = links(kind);
        let sender = one.declare(Declaration::dynamic_sender("tokens", 100, Hold::Release)).unwrap();
        let receiver = other.declare(Declaration::dynamic_receiver("tokens", 100)).unwrap();
        let kept = one.declare(Declaration::dynamic_sender("kept", 100, Hold::Release)).unwrap();
        let keeps = other.declare(Declaration::dynamic_receiver("kept", 100)).unwrap();
        ready(&mut one, &mut other);
        one.begin(kept, &floats(2)).unwrap();
        one.send(kept).unwrap();
        while !other.poll(keeps).unwrap() {
            one.serve().unwrap();
        }
        let region = other.register(&Region::new(4096).unwrap()).unwrap();
        let used = other.arena_used_bytes();
        for (count, elsewhere) in [(3, true), (0, true), (3, false), (0, false)] {
            one.wait_to_send(sender, soon()).unwrap();
            one.begin(sender, &floats(count)).unwrap();
            one.send(sender).unwrap();
            let mut take = |shape: &Shape| region.part(0, shape.size_bytes());
            let mut is_here = elsewhere && other.poll_into(receiver, &mut take).unwrap();
            while !is_here {
                one.serve().unwrap();
                is_here = other.poll(receiver).unwrap();
            }
            other.release(receiver).unwrap();
            assert_eq!(other.arena_used_bytes(), used, "{kind}");
        }
        other.release(keeps).unwrap();
        assert_eq!(other.arena_used_bytes(), 0, "{kind}");
    }
}

#[test]
fn a_read_that_is_refused_keeps_no_memory() {
    let (mut one, mut other) = links(Kind::Local);
    let sender = one.declare(Declaration::dynamic_sender("tokens", 100, Hold::Release)).unwrap();
    let receiver = other.declare(Declaration::dynamic_receiver("tokens", 100)).unwrap();
    ready(&mut one, &mut other);
    let region = one.register(&Region::new(4096).unwrap()).unwrap();
    one.send_from(sender, &floats(3), &region.part(0, 12).unwrap()).unwrap();
    one.device().release(&region).unwrap();
    for _ in 0..3 {
        let error = other.poll(receiver).unwrap_err();
        assert!(matches!(error, Error::StaleKey { .. }), "{error}");
        assert_eq!(other.arena_used_bytes(), 0);
    }
}

#[test]
fn a_link_whose_set_up_failed_is_broken_and_one_that_is_set_up_stays_as_it_is() {
    let (mut one, mut other) = links(Kind::Local);
    one.declare(Declaration::static_receiver("w", floats(10))).unwrap();
    let text = one.ready(Deadline::after(Duration::ZERO)).unwrap_err().to_string();
    assert!(text.contains("no progress for 0 s"), "{text}");
    let text = one.ready(soon()).unwrap_err().to_string();
    assert!(text.contains("make a new link"), "{text}");
    assert!(one.declare(Declaration::static_receiver("v", floats(10))).is_err());
    let (mut third, mut fourth) = links(Kind::Local);
    ready(&mut third, &mut fourth);
    assert!(third.set_arena_bytes(4096).unwrap_err().to_string().contains("is set up already"));
    other.set_arena_bytes(4096).unwrap();
}

#[test]
fn ends_that_end_their_transfers_otherwise_say_which_setting_that_is() {
    let (one, other) = of_forms([FlagForm::Immediate, FlagForm::Behind], 1);
    let (mut one, mut other) = (Link::new(one), Link::new(other));
    let text = std::thread::scope(|scope| {
        scope.spawn(|| other.ready(soon()).unwrap_err());
        one.ready(soon()).unwrap_err().to_string()
    });
    assert!(
        text.contains("Immediate") && text.contains("Behind") && text.contains("RTENSOR_IB_FLAG"),
        "{text}"
    );
}

#[test]
fn a_link_that_is_not_set_up_carries_nothing_and_tells_the_peer_nothing() {
    for kind in KINDS {
        let (mut one, mut other) = links(kind);
        let sender = one.declare(Declaration::static_sender("w", floats(3), Hold::Release)).unwrap();
        let receiver = other.declare(Declaration::static_receiver("w", floats(3))).unwrap();
        let early = |outcome: Result<(), Error>| {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{error}");
            let text = error.to_string();
            assert!(text.contains("is not set up: call ready (in C rtensor_ready) first"), "{text}");
        };
        early(one.finish(soon()));
        early(other.finish(soon()));
        early(one.may_send(sender).map(drop));
        early(one.wait_to_send(sender, soon()));
        early(one.tensor_mut(sender).map(drop));
        early(one.send(sender));
        early(other.wait(receiver, soon()));
        early(other.release(receiver));
        ready(&mut one, &mut other);
        one.send(sender).unwrap();
        other.wait(receiver, soon()).unwrap();
    }
}

#[test]
fn an_edge_that_goes_the_other_way_is_refused_by_its_direction() {
    let (mut one, mut other) = links(Kind::Local);
    let sender = one.declare(Declaration::static_sender("w", floats(3), Hold::Release)).unwrap();
    let receiver = other.declare(Declaration::static_receiver("w", floats(3))).unwrap();
    ready(&mut one, &mut other);
    let text = one.wait(sender, soon()).unwrap_err().to_string();
    assert_eq!(text, "edge w is one to send on, not to receive on");
    let text = other.wait_to_send(receiver, soon()).unwrap_err().to_string();
    assert_eq!(text, "edge w is one to receive on, not to send on");
}

#[test]
fn a_link_that_is_finished_carries_nothing_more() {
    for kind in KINDS {
        let (mut one, mut other) = links(kind);
        let sender = one.declare(Declaration::static_sender("w", floats(3), Hold::Release)).unwrap();
        let receiver = other.declare(Declaration::static_receiver("w", floats(3))).unwrap();
        ready(&mut one, &mut other);
        one.send(sender).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| other.finish(soon()).unwrap());
            one.finish(soon()).unwrap();
        });
        let finished = |outcome: Result<(), Error>| {
            let text = outcome.unwrap_err().to_string();
            assert!(text.contains("edge w: the link to") && text.contains("is finished"), "{text}");
        };
        finished(one.may_send(sender).map(drop));
        finished(one.send(sender));
        // What came before is there, and nothing else is waited for.
        other.wait(receiver, soon()).unwrap();
        other.release(receiver).unwrap();
        finished(other.wait(receiver, soon()));
    }
}

#[test]
fn an_edge_that_one_end_lacks_is_told_with_some_of_what_it_has() {
    let (mut one, mut other) = links(Kind::Local);
    one.declare(Declaration::static_sender("both", floats(1), Hold::Release)).unwrap();
    one.declare(Declaration::static_sender("w", floats(1), Hold::Release)).unwrap();
    other.declare(Declaration::static_receiver("both", floats(1))).unwrap();
    for number in 0..10 {
        other.declare(Declaration::static_receiver(format!("v{number}"), floats(1))).unwrap();
    }
    let text = std::thread::scope(|scope| {
        scope.spawn(|| other.ready(soon()).unwrap_err());
        one.ready(soon()).unwrap_err().to_string()
    });
    let why = "there is no edge w there (it has: v0, v1, v2, v3, v4, v5, v6, v7 and 2 more)";
    assert!(text.ends_with(why), "{text}");
    let (mut one, mut other) = links(Kind::Local);
    one.declare(Declaration::static_sender("w", floats(1), Hold::Release)).unwrap();
    let text = std::thread::scope(|scope| {
        let there = scope.spawn(|| other.ready(soon()).unwrap_err().to_string());
        assert!(one.ready(soon()).unwrap_err().to_string().ends_with(": there is no edge w there"));
        there.join().unwrap()
    });
    assert!(text.ends_with(": there is no edge w here"), "{text}");
}
