use super::{Terms, connect};
use crate::net::link::Header;
use crate::transport::{Fault, Part, Progress, RecvHalf, SendHalf, Sink};

struct Taken(Vec<u8>);

impl Sink for Taken {
    fn take(&mut self, offset: usize, bytes: &[u8]) {
        assert_eq!((offset, bytes.len() % 4), (self.0.len(), 0));
        self.0.extend_from_slice(bytes);
    }

    fn space(&mut self, _offset: usize) -> Option<&mut [u8]> {
        None
    }

    fn filled(&mut self, _offset: usize, _len: usize) {}

    fn grain(&self) -> usize {
        4
    }
}

fn header(part: u32, len: u32) -> Header {
    Header { function: 4, sequence: 1, signature: 2, part, len }
}

/// Moves parts of these lengths; what the other end took, or the first fault.
fn carry(lens: &[u32], terms: Terms) -> Result<Vec<Vec<u8>>, Fault> {
    let (mut sender, mut receiver) = connect(terms);
    let mut taken = Vec::new();
    for (index, len) in (0..).zip(lens) {
        let payload: Vec<u8> = (0..*len).map(|byte| (byte % 251) as u8).collect();
        let part = Part { header: header(index, *len), payload: &payload };
        let (mut sink, mut sent, mut received) = (Taken(Vec::new()), false, false);
        while !(sent && received) {
            sent = sent || sender.post(part)? == Progress::Done;
            received = received || receiver.pull(&part.header, &mut sink)? == Progress::Done;
        }
        assert_eq!(sink.0, payload);
        taken.push(sink.0);
    }
    assert_eq!(sender.released().unwrap(), lens.len() as u64);
    Ok(taken)
}

#[test]
fn parts_arrive_whole_whatever_the_delays_and_bounds() {
    for (seed, bound_bytes) in (1..50).zip((4..).step_by(3)) {
        let terms = Terms { seed, bound_bytes, lost_after: None };
        assert_eq!(carry(&[0, 4, 400, 0, 1000], terms).unwrap().len(), 5);
    }
}

#[test]
fn a_lost_connection_is_closed_at_an_end_that_needs_it() {
    let terms = Terms { seed: 7, bound_bytes: 64, lost_after: Some(200) };
    assert!(matches!(carry(&[400], terms), Err(Fault::Closed)));
}

#[test]
fn another_part_than_the_expected_one_is_a_mismatch() {
    let terms = Terms { seed: 7, bound_bytes: 64, lost_after: None };
    let (mut sender, mut receiver) = connect(terms);
    let part = Part { header: header(0, 0), payload: &[] };
    while sender.post(part).unwrap() != Progress::Done {}
    let fault =
        std::iter::repeat_with(|| receiver.pull(&header(1, 0), &mut Taken(Vec::new()))).find_map(Result::err);
    assert!(matches!(fault, Some(Fault::Mismatch(found)) if found == part.header));
}

#[test]
fn the_front_says_what_comes_and_takes_no_payload() {
    for seed in 1..50 {
        let (mut sender, mut receiver) = connect(Terms { seed, bound_bytes: 20, lost_after: None });
        for (part, payload) in (0..).zip([&[7; 100][..], &[], &[9; 4]]) {
            let part = Part { header: header(part, payload.len().try_into().unwrap()), payload };
            let (mut sink, mut sent, mut received) = (Taken(Vec::new()), false, false);
            while !(sent && received) {
                sent = sent || sender.post(part).unwrap() == Progress::Done;
                if !received && let Some(front) = receiver.front().unwrap() {
                    assert_eq!(front, part.header);
                    received = receiver.pull(&front, &mut sink).unwrap() == Progress::Done;
                }
            }
            assert_eq!(sink.0, payload);
        }
    }
}
