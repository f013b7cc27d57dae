use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use super::*;
use crate::clock::Deadline;
use crate::net::frame;
use crate::net::hello::{HAS_ENDED, Hello, Join, PROTOCOL, Purpose, Strand, WELCOME};
use crate::net::wake;

const PATIENCE: Duration = Duration::from_secs(20);

/// An acceptor of the test's own.
fn acceptor() -> Arc<Acceptor> {
    Arc::new(Acceptor { callees: Mutex::default(), wake: Wake::new().unwrap() })
}

/// Each test has an address of its own.
fn listening(acceptor: &Arc<Acceptor>, number: u8) -> Listening {
    acceptor.listen(IpAddr::from([127, 0, 77, number]), 0).unwrap()
}

fn call(listening: &Listening, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(listening.address()).unwrap();
    // Who is turned out before all is said cannot go on.
    let _ = stream.write_all(bytes);
    stream
}

fn control(rank: usize, to: usize) -> Hello {
    Hello { purpose: Purpose::Control, rank, to }
}

/// What comes until there is enough of it.
fn take(inbox: &Inbox, n: usize) -> Vec<(Hello, TcpStream)> {
    let (deadline, mut come) = (Deadline::after(PATIENCE), Vec::new());
    while come.len() < n && !deadline.passed() {
        let mut fds = [PollFd::new(inbox.wake(), PollFlags::IN)];
        wake::sleep(&mut fds, deadline.left()).unwrap();
        inbox.wake().reset();
        come.extend(inbox.take());
    }
    come
}

fn hellos(calls: &[(Hello, TcpStream)]) -> Vec<Hello> {
    calls.iter().map(|(hello, _)| *hello).collect()
}

fn join(secret: &Secret, rank: usize) -> Vec<u8> {
    let join = frame::encode(&Join { rank, n_ranks: 3, protocol: PROTOCOL }).unwrap();
    [&secret[..], &join].concat()
}

fn answer(stream: &mut TcpStream) -> u8 {
    let mut answer = [0];
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut answer).unwrap();
    answer[0]
}

#[test]
fn a_call_goes_to_its_communicator_and_rank_and_to_nobody_else() {
    let acceptor = acceptor();
    let listening = listening(&acceptor, 1);
    let inbox = |secret: u8, rank| acceptor.expect_calls(&[secret; 16], rank, Wake::new().unwrap());
    let inboxes = [inbox(3, 0), inbox(3, 1), inbox(4, 1)];
    let strand = Purpose::Data(Strand { channel: 1, index: 0, n: 1 });
    let hello = Hello { purpose: strand, rank: 5, to: 1 };
    // Data follow the hello, and are left to whom is called.
    let caller = call(&listening, &[&hello.to_bytes(&[3; 16])[..], b"data"].concat());
    let mut come = take(&inboxes[1], 1);
    assert_eq!(hellos(&come), [hello]);
    let mut data = [0; 4];
    come[0].1.set_nonblocking(false).unwrap();
    come[0].1.read_exact(&mut data).unwrap();
    assert_eq!(&data, b"data");
    assert!(inboxes[0].take().is_empty() && inboxes[2].take().is_empty());
    drop(caller);
}

#[test]
fn an_address_has_one_listener_until_its_last_use_has_ended() {
    let acceptor = acceptor();
    let (one, other) = (listening(&acceptor, 2), listening(&acceptor, 2));
    assert_eq!(one.address(), other.address());
    let address = one.address();
    drop(one);
    drop(TcpStream::connect(address).unwrap());
    drop(other);
    let deadline = Deadline::after(PATIENCE);
    while TcpStream::connect(address).is_ok() {
        assert!(!deadline.passed(), "still listens");
        std::thread::yield_now();
    }
    // The next one finds a thread again.
    let inbox = acceptor.expect_calls(&[3; 16], 0, Wake::new().unwrap());
    let again = listening(&acceptor, 2);
    let _caller = call(&again, &control(1, 0).to_bytes(&[3; 16]));
    assert_eq!(hellos(&take(&inbox, 1)), [control(1, 0)]);
}

#[test]
fn who_calls_before_it_is_expected_waits() {
    let acceptor = acceptor();
    let listening = listening(&acceptor, 3);
    let _caller = call(&listening, &control(1, 0).to_bytes(&[3; 16]));
    let mut early = call(&listening, &join(&[4; 16], 2));
    // What calls later has been heard, so both of these have been too.
    let heard = acceptor.expect_calls(&[5; 16], 0, Wake::new().unwrap());
    let _heard = call(&listening, &control(1, 0).to_bytes(&[5; 16]));
    assert_eq!(take(&heard, 1).len(), 1);
    let inbox = acceptor.expect_calls(&[3; 16], 0, Wake::new().unwrap());
    assert_eq!(hellos(&take(&inbox, 1)), [control(1, 0)]);
    let (_door, joined) = acceptor.expect_joins(&[4; 16]);
    assert_eq!(joined.recv_timeout(PATIENCE).unwrap().unwrap().0.rank, 2);
    assert_eq!(answer(&mut early), WELCOME);
}

#[test]
fn who_joins_a_root_that_has_ended_is_told() {
    let acceptor = acceptor();
    let listening = listening(&acceptor, 4);
    drop(acceptor.expect_joins(&[6; 16]));
    assert_eq!(answer(&mut call(&listening, &join(&[6; 16], 0))), HAS_ENDED);
}

#[test]
fn only_whom_its_root_takes_is_welcome() {
    let acceptor = acceptor();
    let listening = listening(&acceptor, 9);
    let (door, joined) = acceptor.expect_joins(&[3; 16]);
    let mut taken = call(&listening, &join(&[3; 16], 0));
    assert!(joined.recv_timeout(PATIENCE).unwrap().is_ok());
    assert_eq!(answer(&mut taken), WELCOME);
    let mut late = call(&listening, &join(&[3; 16], 1));
    // What calls later has been heard, so the second rank has been handed on.
    let heard = acceptor.expect_calls(&[5; 16], 0, Wake::new().unwrap());
    let _heard = call(&listening, &control(1, 0).to_bytes(&[5; 16]));
    assert_eq!(take(&heard, 1).len(), 1);
    drop((door, joined));
    late.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(late.read(&mut [0]).unwrap(), 0);
    assert_eq!(answer(&mut call(&listening, &join(&[3; 16], 1))), HAS_ENDED);
}

#[test]
fn strangers_are_passed_over() {
    let acceptor = acceptor();
    let listening = listening(&acceptor, 5);
    let inbox = acceptor.expect_calls(&[3; 16], 0, Wake::new().unwrap());
    let (_door, joined) = acceptor.expect_joins(&[3; 16]);
    let hello = control(1, 0).to_bytes(&[3; 16]);
    let wrong_secret = control(1, 0).to_bytes(&[9; 16]);
    let endless = [&[3; 16][..], &[0xff; 100_000]].concat();
    let garbled = [&[3; 16][..], &2_u32.to_le_bytes(), b"{}"].concat();
    let openings =
        [&b""[..], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", &hello[..20], &wrong_secret, &endless, &garbled];
    let strangers: Vec<TcpStream> = openings.iter().map(|opening| call(&listening, opening)).collect();
    let _rank = call(&listening, &hello);
    assert_eq!(hellos(&take(&inbox, 1)), [control(1, 0)]);
    assert!(joined.recv_timeout(Duration::ZERO).is_err());
    for mut stranger in strangers {
        let _ = stranger.shutdown(Shutdown::Write);
        let mut said = Vec::new();
        let _ = stranger.read_to_end(&mut said);
        assert!(said.is_empty(), "{said:?}");
    }
}

#[test]
fn a_rank_of_another_protocol_is_an_error_and_no_stranger() {
    let acceptor = acceptor();
    let listening = listening(&acceptor, 6);
    let inbox = acceptor.expect_calls(&[3; 16], 0, Wake::new().unwrap());
    // The hello of protocol 5 was shorter.
    let mut old = control(1, 0).to_bytes(&[3; 16])[..36].to_vec();
    old[7] = 5;
    let _old = call(&listening, &old);
    assert!(take_error(&inbox).contains(&format!("speaks protocol 5, this is {PROTOCOL}")));
}

fn take_error(inbox: &Inbox) -> String {
    let mut fds = [PollFd::new(inbox.wake(), PollFlags::IN)];
    wake::sleep(&mut fds, PATIENCE).unwrap();
    inbox.check().unwrap_err().to_string()
}

#[test]
fn thousands_of_strangers_give_way_and_ranks_do_not() {
    crate::net::descriptors::raise_limit();
    let acceptor = acceptor();
    let listening = listening(&acceptor, 7);
    let inbox = acceptor.expect_calls(&[3; 16], 0, Wake::new().unwrap());
    let hello = control(1, 0).to_bytes(&[3; 16]);
    // It has shown the secret and is slow with the rest.
    let mut slow = call(&listening, &hello[..30]);
    let strangers: Vec<TcpStream> = (0..5000).map(|_| call(&listening, b"")).collect();
    slow.write_all(&hello[30..]).unwrap();
    assert_eq!(hellos(&take(&inbox, 1)), [control(1, 0)]);
    drop(strangers);
}

#[test]
fn more_ranks_than_strangers_are_let_in_at_once() {
    let acceptor = acceptor();
    let listening = listening(&acceptor, 8);
    let (_door, joined) = acceptor.expect_joins(&[3; 16]);
    let ranks = 0..1000_usize;
    let _callers: Vec<TcpStream> =
        ranks.clone().map(|rank| call(&listening, &join(&[3; 16], rank))).collect();
    let mut come: Vec<usize> =
        ranks.clone().map(|_| joined.recv_timeout(PATIENCE).unwrap().unwrap().0.rank).collect();
    come.sort_unstable();
    assert!(come.into_iter().eq(ranks));
}

#[test]
fn the_process_has_one() {
    let [one, other] = [Acceptor::of_process(), Acceptor::of_process()].map(Result::unwrap);
    assert!(Arc::ptr_eq(&one, &other));
}

#[test]
fn a_root_is_told_why_there_is_no_use_in_it() {
    let acceptor = acceptor();
    let (_door, joined) = acceptor.expect_joins(&[3; 16]);
    acceptor.give_up(&[4; 16], "another's".to_owned());
    acceptor.give_up(&[3; 16], "its rank cannot come".to_owned());
    assert_eq!(joined.recv_timeout(PATIENCE).unwrap().unwrap_err(), "its rank cannot come");
}
