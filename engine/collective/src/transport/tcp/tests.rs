//! Parts through a real socket, whole and in pieces, stored and taken.

use std::io::Read;
use std::net::{TcpListener, TcpStream};

use super::connect::tune;
use super::recv::TcpRecv;
use super::send::TcpSend;
use crate::net::link::{HEADER_BYTES, Header};
use crate::transport::{Fault, Part, Progress, RecvHalf, SendHalf, Sink};

/// Stores, or takes in elements of `grain` bytes.
struct Target {
    bytes: Vec<u8>,
    grain: Option<usize>,
    filled: usize,
}

impl Sink for Target {
    fn take(&mut self, offset: usize, bytes: &[u8]) {
        assert_eq!((offset % self.grain.unwrap(), bytes.len() % self.grain.unwrap()), (0, 0));
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }

    fn space(&mut self, offset: usize) -> Option<&mut [u8]> {
        self.grain.is_none().then(|| &mut self.bytes[offset..])
    }

    fn filled(&mut self, offset: usize, len: usize) {
        assert!(offset + len <= self.bytes.len());
        self.filled += len;
    }

    fn grain(&self) -> usize {
        self.grain.unwrap_or(1)
    }
}

fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (taker, _) = listener.accept().unwrap();
    tune(&caller).unwrap();
    tune(&taker).unwrap();
    (caller, taker)
}

fn pair_of(n_sockets: usize) -> (TcpSend, TcpRecv) {
    let (callers, takers) = (0..n_sockets).map(|_| connected()).unzip();
    (TcpSend::new(callers), TcpRecv::new(takers, 0))
}

fn pair() -> (TcpSend, TcpRecv) {
    pair_of(1)
}

fn header(part: u32, len: usize) -> Header {
    Header { function: 4, sequence: 9, signature: 7, part, len: u32::try_from(len).unwrap() }
}

fn through(sender: &mut TcpSend, receiver: &mut TcpRecv, part: u32, grain: Option<usize>, len: usize) {
    let payload: Vec<u8> = (0..251).cycle().take(len).collect();
    let mut target = Target { bytes: vec![0; len], grain, filled: 0 };
    let (mut sent, mut received) = (Progress::Idle, Progress::Idle);
    while sent != Progress::Done || received != Progress::Done {
        if sent != Progress::Done {
            sent = sender.post(Part { header: header(part, len), payload: &payload }).unwrap();
        }
        if received != Progress::Done {
            received = receiver.pull(&header(part, len), &mut target).unwrap();
        }
    }
    assert_eq!((target.filled, &target.bytes), (len, &payload));
}

#[test]
fn parts_arrive_whole_and_in_order_over_any_number_of_sockets() {
    for n_sockets in [1, 2, 5] {
        let (mut sender, mut receiver) = pair_of(n_sockets);
        for (part, (grain, len)) in
            (0..).zip([(None, 1), (Some(8), 8), (Some(8), 1_000_000), (None, 3_000_001), (Some(2), 262_146)])
        {
            through(&mut sender, &mut receiver, part, grain, len);
            assert_eq!(sender.released().unwrap(), u64::from(part) + 1);
        }
    }
}

#[test]
fn every_socket_carries_its_stripe() {
    let (callers, mut takers): (Vec<_>, Vec<_>) = (0..4).map(|_| connected()).unzip();
    let mut sender = TcpSend::new(callers);
    let payload = vec![7; 1 << 20];
    let mut carried = [0; 4];
    let mut sent = Progress::Idle;
    while sent != Progress::Done || carried.iter().sum::<usize>() < payload.len() + HEADER_BYTES {
        if sent != Progress::Done {
            sent = sender.post(Part { header: header(0, payload.len()), payload: &payload }).unwrap();
        }
        for (taker, carried) in takers.iter_mut().zip(&mut carried) {
            *carried += taker.read(&mut [0; 4096]).unwrap_or(0);
        }
    }
    let stripe = payload.len() / 4;
    assert_eq!(carried, [stripe + HEADER_BYTES, stripe, stripe, stripe]);
}

#[test]
fn another_part_than_the_expected_one_is_a_mismatch() {
    let (mut sender, mut receiver) = pair();
    let sent = sender.post(Part { header: header(3, 4), payload: &[0; 4] }).unwrap();
    assert_eq!(sent, Progress::Done);
    let mut target = Target { bytes: vec![0; 4], grain: None, filled: 0 };
    let fault = loop {
        match receiver.pull(&header(2, 4), &mut target) {
            Ok(_) => {}
            Err(fault) => break fault,
        }
    };
    assert!(matches!(fault, Fault::Mismatch(other) if other == header(3, 4)));
}

#[test]
fn the_end_of_the_peer_is_its_closing() {
    let (sender, mut receiver) = pair();
    drop(sender);
    let mut target = Target { bytes: vec![0; 4], grain: None, filled: 0 };
    let fault = loop {
        match receiver.pull(&header(0, 4), &mut target) {
            Ok(progress) => assert_eq!(progress, Progress::Idle),
            Err(fault) => break fault,
        }
    };
    assert!(matches!(fault, Fault::Closed));
}

#[test]
fn the_front_says_what_comes_and_takes_no_payload() {
    for n_sockets in [1, 3] {
        let (mut sender, mut receiver) = pair_of(n_sockets);
        assert!(receiver.front().unwrap().is_none());
        for (part, len) in (0..).zip([4, 0, 300_000, 1]) {
            let payload: Vec<u8> = (0..251).cycle().take(len).collect();
            let mut target = Target { bytes: vec![0; len], grain: None, filled: 0 };
            let (mut sent, mut received) = (Progress::Idle, Progress::Idle);
            while sent != Progress::Done || received != Progress::Done {
                if sent != Progress::Done {
                    sent = sender.post(Part { header: header(part, len), payload: &payload }).unwrap();
                }
                if received != Progress::Done
                    && let Some(front) = receiver.front().unwrap()
                {
                    assert_eq!(front, header(part, len));
                    received = receiver.pull(&front, &mut target).unwrap();
                }
            }
            assert_eq!((target.filled, &target.bytes), (len, &payload));
        }
        sender.post(Part { header: header(9, 0), payload: &[] }).unwrap();
        while receiver.front().unwrap().is_none() {}
        let mut target = Target { bytes: Vec::new(), grain: None, filled: 0 };
        let other = receiver.pull(&header(8, 0), &mut target);
        assert!(matches!(other, Err(Fault::Mismatch(front)) if front == header(9, 0)));
        drop(sender);
        assert_eq!(receiver.pull(&header(9, 0), &mut target).unwrap(), Progress::Done);
        let fault = std::iter::repeat_with(|| receiver.front()).find_map(Result::err).unwrap();
        assert!(matches!(fault, Fault::Closed));
    }
}
