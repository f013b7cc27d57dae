//! Ranks as threads: every way of a payload, every size, and what must be refused.

use std::thread;
use std::time::Duration;

use super::ranks::*;
use crate::net::link::Header;
use crate::transport::shm::connect::{self, Endpoint};
use crate::transport::shm::host::Host;
use crate::transport::shm::layout::BLOCK_BYTES;
use crate::transport::shm::recv::Receiver;
use crate::transport::shm::ring::{SLOT_BYTES, SLOTS};
use crate::transport::shm::send::Sender;
use crate::transport::shm::{Tuning, unix};
use crate::transport::{Description, Fault, Part, Progress, RecvHalf, SendHalf};

const SIZES: [usize; 9] = [
    1,
    7,
    64,
    4096,
    SLOT_BYTES - 1,
    SLOT_BYTES,
    SLOT_BYTES + 1,
    SLOTS * SLOT_BYTES,
    3 * SLOTS * SLOT_BYTES + 13,
];

/// Rank 0 sends each size to rank 1, which checks every byte.
fn all_sizes(tuning: Tuning, reduces: bool) {
    threads(2, tuning, |rank, host| {
        let bell = host.doorbell();
        if rank == 0 {
            let mut sender = host.open_send(3, 1).unwrap();
            for (part, len) in (0_u32..).zip(SIZES) {
                let payload = pattern(len, len);
                send(bell, &mut sender, part, &payload);
                wait_released(bell, &mut sender, u64::from(part) + 1);
            }
        } else {
            let mut receiver = host.open_recv(3, 0).unwrap();
            for (part, len) in (0_u32..).zip(SIZES) {
                let mut sink = Target::new(len, reduces);
                recv(bell, &mut receiver, part, &mut sink);
                assert!(sink.bytes == pattern(len, len), "{len} bytes");
            }
        }
    });
}

#[test]
fn slots_carry_every_size() {
    all_sizes(SLOTS_ONLY, false);
    all_sizes(SLOTS_ONLY, true);
}

#[test]
fn ranks_of_one_process_read_each_other() {
    all_sizes(Tuning { own_bytes: 1, ..SLOTS_ONLY }, false);
    all_sizes(Tuning { own_bytes: 1, ..SLOTS_ONLY }, true);
}

#[test]
fn a_receiver_without_a_sender_is_idle() {
    threads(2, SLOTS_ONLY, |rank, host| {
        let mut receiver = host.open_recv(0, 1 - rank).unwrap();
        let progress = receiver.pull(&header(0, 8), &mut Target::new(8, false)).unwrap();
        assert_eq!(progress, Progress::Idle);
        assert!(host.open_send(0, rank).is_err() && host.open_send(0, 9).is_err());
        assert!(receiver.wait_fd().is_none());
        assert_eq!(receiver.describe(), Description::Shm { direct: false }, "with slots only");
    });
}

/// Two ranks of one process, and a connection from the first to the second one.
fn pair(tuning: Tuning) -> (Host, Sender, Host, Receiver) {
    let (endpoints, announcements) = endpoints(2);
    let [first, second] = <[Endpoint; 2]>::try_from(endpoints).unwrap();
    let (host, other) = thread::scope(|scope| {
        let other = scope.spawn(|| connect::join(second, &plan(1, &announcements, tuning), None).unwrap());
        (connect::join(first, &plan(0, &announcements, tuning), None).unwrap(), other.join().unwrap())
    });
    let (sender, receiver) = (host.open_send(0, 1).unwrap(), other.open_recv(0, 0).unwrap());
    (host, sender, other, receiver)
}

#[test]
fn a_sender_whom_nobody_asks_what_is_released_remembers_no_more_than_the_ring() {
    for own_bytes in [1, usize::MAX] {
        let (_host, mut sender, _other, mut receiver) = pair(Tuning { own_bytes, ..SLOTS_ONLY });
        let payload = pattern(0, 100);
        for number in (0_u32..).take(20 * SLOTS) {
            let part = Part { header: header(number, 100), payload: &payload };
            assert_eq!(sender.post(part).unwrap(), Progress::Done);
            let mut sink = Target::new(100, false);
            assert_eq!(receiver.pull(&header(number, 100), &mut sink).unwrap(), Progress::Done);
            assert!(sender.remembered() <= SLOTS, "{} parts", sender.remembered());
        }
        assert_eq!(sender.released().unwrap(), 20 * SLOTS as u64);
    }
}

#[test]
fn a_copy_behind_a_part_that_is_read_in_place_is_released_after_it() {
    let (_host, mut sender, _other, mut receiver) = pair(Tuning { own_bytes: 50, ..SLOTS_ONLY });
    let payload = pattern(0, 100);
    for (number, len) in (0_u32..).zip([10, 100, 10]) {
        let part = Part { header: header(number, len), payload: &payload[..len] };
        assert_eq!(sender.post(part).unwrap(), Progress::Done);
    }
    assert_eq!(sender.released().unwrap(), 1, "the first copy needs its memory no more");
    for (number, len) in (0_u32..).zip([10, 100]) {
        let mut sink = Target::new(len, false);
        assert_eq!(receiver.pull(&header(number, len), &mut sink).unwrap(), Progress::Done);
    }
    assert_eq!(sender.released().unwrap(), 3, "the second one came behind the part that was taken");
}

#[test]
fn without_credit_nothing_is_posted_and_nothing_released() {
    let tuning = Tuning { own_bytes: 1, ..SLOTS_ONLY };
    let (_host, mut sender, _other, mut receiver) = pair(tuning);
    let payload = pattern(0, 100);
    let part = |number| Part { header: header(number, 100), payload: &payload };
    for number in (0_u32..).take(SLOTS) {
        assert_eq!(sender.post(part(number)).unwrap(), Progress::Done);
    }
    assert_eq!(sender.post(part(8)).unwrap(), Progress::Idle);
    assert_eq!(sender.released().unwrap(), 0);
    let mut sink = Target::new(100, false);
    assert_eq!(receiver.pull(&header(0, 100), &mut sink).unwrap(), Progress::Done);
    assert_eq!(sender.released().unwrap(), 1);
    assert_eq!(sender.post(part(8)).unwrap(), Progress::Done);
}

#[test]
fn another_part_than_the_expected_is_a_mismatch() {
    threads(2, SLOTS_ONLY, |rank, host| {
        if rank == 0 {
            let mut sender = host.open_send(0, 1).unwrap();
            send(host.doorbell(), &mut sender, 4, &[1; 16]);
        } else {
            let mut receiver = host.open_recv(0, 0).unwrap();
            let expected = Header { signature: 1, ..header(4, 16) };
            let fault =
                drive(host.doorbell(), || receiver.pull(&expected, &mut Target::new(16, false))).unwrap_err();
            assert!(matches!(fault, Fault::Mismatch(theirs) if theirs == header(4, 16)), "{fault:?}");
        }
    });
}

#[test]
fn flat_rounds_bring_everybody_everything() {
    for n_ranks in [1, 2, 3, 5] {
        threads(n_ranks, SLOTS_ONLY, |rank, host| {
            let mut flat = host.flat();
            for (round, len) in (0_u32..).zip([0, 1, 24, 25, 64, 1000, BLOCK_BYTES, 3, 24]) {
                let (header, at) = (header(round, len), round as usize);
                flat.start(&header, &pattern(rank + at, len)).unwrap();
                drive(host.doorbell(), || flat.poll(&header)).unwrap();
                for member in 0..n_ranks {
                    assert!(flat.block(member) == pattern(member + at, len), "{n_ranks} ranks, {len} bytes");
                }
            }
        });
    }
}

#[test]
fn flat_rounds_of_different_calls_are_a_mismatch() {
    threads(2, SLOTS_ONLY, |rank, host| {
        let mut flat = host.flat();
        let call = |rank: usize| Header { signature: rank as u64, ..header(0, 0) };
        let (own, theirs) = (call(rank), call(1 - rank));
        flat.start(&own, &pattern(0, 8)).unwrap();
        assert!(flat.start(&own, &[]).is_err(), "the round is not over");
        let fault = drive(host.doorbell(), || flat.poll(&own)).unwrap_err();
        assert!(matches!(fault, Fault::Mismatch(header) if header == theirs), "{fault:?}");
    });
}

#[test]
fn strangers_and_absent_ranks_are_told_apart() {
    let (mut endpoints, announcements) = endpoints(2);
    let wrong = plan(1, &announcements, SLOTS_ONLY);
    let wrong = connect::Plan { secret: [8; 16], timeout: Duration::from_millis(300), ..wrong };
    let right = connect::Plan { timeout: Duration::from_millis(300), ..plan(0, &announcements, SLOTS_ONLY) };
    let (stranger, host) = (endpoints.pop().unwrap(), endpoints.pop().unwrap());
    thread::scope(|scope| {
        let stranger = scope.spawn(|| connect::join(stranger, &wrong, None).map(drop));
        let text = connect::join(host, &right, None).map(drop).unwrap_err().to_string();
        assert!(text.contains("ranks [1]"), "{text}");
        assert!(stranger.join().unwrap().is_err());
    });
}

#[test]
fn silent_and_garbled_callers_hold_up_nobody() {
    let (endpoints, announcements) = endpoints(2);
    let name = announcements[0].as_ref().unwrap().name.clone();
    let silent = unix::call(name.as_bytes()).unwrap().unwrap();
    let garbled = unix::call(name.as_bytes()).unwrap().unwrap();
    assert!(unix::send(&garbled, &[0; 64], &[]).unwrap());
    thread::scope(|scope| {
        for (rank, endpoint) in endpoints.into_iter().enumerate() {
            let announcements = &announcements;
            scope.spawn(move || {
                connect::join(endpoint, &plan(rank, announcements, SLOTS_ONLY), None).map(drop).unwrap();
            });
        }
    });
    assert!(unix::call(name.as_bytes()).is_err(), "the listener is gone");
    drop(silent);
}

#[test]
fn the_front_says_what_comes_and_takes_no_payload() {
    let lens = [0, 1, SLOT_BYTES, 3 * SLOTS * SLOT_BYTES + 13];
    for tuning in [SLOTS_ONLY, Tuning { own_bytes: 1, ..SLOTS_ONLY }] {
        threads(2, tuning, |rank, host| {
            let bell = host.doorbell();
            if rank == 0 {
                let mut sender = host.open_send(3, 1).unwrap();
                for (part, len) in (0_u32..).zip(lens) {
                    let payload = pattern(len, len);
                    send(bell, &mut sender, part, &payload);
                    wait_released(bell, &mut sender, u64::from(part) + 1);
                }
                return;
            }
            let mut receiver = host.open_recv(3, 0).unwrap();
            for (part, len) in (0_u32..).zip(lens) {
                let mut sink = Target::new(len, false);
                drive(bell, || match receiver.front()? {
                    Some(front) => {
                        assert_eq!(front, header(part, len));
                        receiver.pull(&front, &mut sink)
                    }
                    None => Ok(Progress::Idle),
                })
                .unwrap();
                assert!(sink.bytes == pattern(len, len), "{len} bytes");
            }
            assert!(receiver.front().unwrap().is_none());
        });
    }
}
