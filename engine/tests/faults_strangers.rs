//! Callers who are not of the job, on every socket that it has: the job goes on, and another user never gets in.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use rustix::process::{Resource, Rlimit};

use common::{Job, Rank, compile, fault_program, folder, unique_id};

/// More than the root keeps of those who have not said who they are (512), and than a rank's listener does (256).
const ROOT_CROWD: usize = 600;
const RANK_CROWD: usize = 300;
const RANKS: usize = 3;

/// Secret and root's address in a unique id.
fn parts(id: &str) -> (Vec<u8>, SocketAddr) {
    let bytes: Vec<u8> =
        (0..128).map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap()).collect();
    let end = 25 + usize::from(bytes[24]);
    (bytes[8..24].to_vec(), std::str::from_utf8(&bytes[25..end]).unwrap().parse().unwrap())
}

/// What strangers send: nothing, garbage, half a greeting, greetings of this and of an older protocol without the secret.
fn openings() -> Vec<Vec<u8>> {
    let hello = |protocol: u8| [b"rsccl\0h", &[protocol][..], &[7; 28]].concat();
    let join = [&[7; 16], &b"\x16\0\0\0{\"rank\":0,\"n_ranks\":3}"[..]].concat();
    let request = b"GET / HTTP/1.1\r\nHost: somebody-else\r\n\r\n".to_vec();
    vec![Vec::new(), request, hello(3)[..20].to_vec(), hello(3), hello(1), join, vec![0xff; 100_000]]
}

/// One caller with each opening, `size` without words, and at last one who goes byte by byte.
fn crowd(address: SocketAddr, size: usize) -> Vec<TcpStream> {
    let call = || TcpStream::connect(address).unwrap();
    let mut callers = Vec::new();
    for opening in openings() {
        let mut caller = call();
        // Who is turned out before all is said cannot go on.
        let _ = caller.write_all(&opening);
        callers.push(caller);
    }
    callers.extend((0..=size).map(|_| call()));
    callers
}

/// Each crowd's slow caller says another byte, if it is still let.
fn drip(crowds: &mut [Vec<TcpStream>]) {
    for slow in crowds.iter_mut().filter_map(|crowd| crowd.last_mut()) {
        let _ = slow.write_all(b"r");
    }
}

/// As many open files as the system lets: both ends of the root's crowd are in this process.
fn raise_file_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// Inodes of the sockets of a process.
fn sockets(rank: &Rank) -> BTreeSet<String> {
    let files = std::fs::read_dir(format!("/proc/{}/fd", rank.child.id())).unwrap();
    let names = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter_map(|name| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect()
}

/// Where a process listens.
fn listeners(rank: &Rank) -> Vec<SocketAddr> {
    let own = sockets(rank);
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let listening = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (address, port) = words.get(1)?.split_once(':')?;
        let is_own = words.get(3) == Some(&"0A") && own.contains(*words.get(9)?);
        let address = u32::from_str_radix(address, 16).ok()?.to_le_bytes();
        is_own.then_some((address, u16::from_str_radix(port, 16).ok()?).into())
    };
    table.lines().filter_map(listening).collect()
}

/// The name on which a process takes ranks of its host, once it does.
fn unix_name(rank: &Rank) -> String {
    loop {
        let own = sockets(rank);
        let table = std::fs::read_to_string("/proc/net/unix").unwrap();
        let found = table.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let name = words.get(7)?.strip_prefix("@rsccl-")?;
            own.contains(*words.get(6)?).then(|| format!("rsccl-{name}"))
        });
        if let Some(name) = found {
            return name;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_crowd_of_strangers_disturbs_nobody() {
    raise_file_limit();
    let program = fault_program(&folder("crowd"));
    let id = unique_id();
    let mut crowds = vec![crowd(parts(&id).1, ROOT_CROWD)];
    let script = |_| {
        let steps = "all_reduce:1000 ask all_reduce:300 all_reduce:200000 ask all_reduce:10 alive";
        vec![("SCRIPT".to_owned(), steps.to_owned())]
    };
    let job = Job { program: &program, n_ranks: RANKS, command: &["script"], environment: &script };
    let mut ranks = Vec::new();
    for rank in 0..RANKS {
        ranks.push(job.start_rank(rank, &id));
        drip(&mut crowds);
    }
    for rank in &mut ranks {
        assert_eq!(rank.line(), "ASK");
    }
    let addresses: Vec<SocketAddr> = ranks.iter().flat_map(listeners).collect();
    assert!(addresses.len() >= 2 * RANKS, "two NICs each: {addresses:?}");
    crowds.extend(addresses.iter().map(|address| crowd(*address, RANK_CROWD)));
    for next in ["ASK", "ALIVE"] {
        for rank in &mut ranks {
            rank.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
            drip(&mut crowds);
        }
        for rank in &mut ranks {
            assert_eq!(rank.line(), next);
        }
    }
    for rank in ranks {
        assert_eq!(rank.rest(), "CLEAN\n");
    }
    // Nobody was told anything.
    for mut stranger in crowds.into_iter().flatten() {
        let _ = stranger.shutdown(Shutdown::Write);
        let mut said = Vec::new();
        let _ = stranger.read_to_end(&mut said);
        assert!(said.is_empty(), "{said:?}");
    }
}

#[test]
fn a_rank_of_an_old_protocol_is_named() {
    let program = fault_program(&folder("old"));
    let id = unique_id();
    let (secret, root) = parts(&id);
    let mut old = TcpStream::connect(root).unwrap();
    old.write_all(&[&secret, &b"\x16\0\0\0{\"rank\":1,\"n_ranks\":2}"[..]].concat()).unwrap();
    let job = Job { program: &program, n_ranks: 2, command: &["script"], environment: &common::plain };
    let said = job.start_rank(0, &id).rest();
    assert!(said.starts_with("ERROR ") && said.contains("rank 1 speaks protocol 1, this is "), "{said}");
}

/// What the ranks of a host say to a caller that knows the secret and claims to be the last of them.
fn impostor(name: &str, as_user: &[&str]) -> (String, Vec<Rank>) {
    let folder = folder(name);
    let (program, stranger) = (fault_program(&folder), folder.join("stranger"));
    compile("stranger.c", &stranger, &[]);
    let id = unique_id();
    let settings = |_| {
        let own = [("RSCCL_HOST", "host-1"), ("ROUNDS", "1"), ("RSCCL_TIMEOUT_S", "60")];
        own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let job = Job { program: &program, n_ranks: RANKS, command: &["many"], environment: &settings };
    // All but the last make their sockets, and wait for it.
    let mut ranks: Vec<Rank> = (0..RANKS - 1).map(|rank| job.start_rank(rank, &id)).collect();
    for rank in &mut ranks {
        assert_eq!(rank.line(), "INIT");
    }
    let name = unix_name(&ranks[0]);
    let greeting = [b"rsccl\0m\x01", &parts(&id).0[..], &2_u64.to_le_bytes(), &[0; 24]].concat();
    let greeting: String = greeting.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut caller = as_user_command(as_user, &stranger);
    let mut caller = Rank::start(caller.args([&name, &greeting]));
    assert_eq!(caller.line(), "CONNECTED");
    ranks.push(job.start_rank(RANKS - 1, &id));
    assert_eq!(ranks[RANKS - 1].line(), "INIT");
    (caller.rest(), ranks)
}

fn as_user_command(as_user: &[&str], program: &Path) -> Command {
    let words: Vec<&str> = as_user.iter().copied().chain([program.to_str().unwrap()]).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

#[test]
fn another_user_gets_no_memory_even_with_the_secret() {
    const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let allowed = Command::new(NOBODY[0]).args(&NOBODY[1..]).arg("true").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        #[expect(clippy::disallowed_methods, reason = "the settings of this test")]
        let is_required = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        assert!(!is_required, "CI must run this test: it needs root and util-linux");
        println!("skipped: becoming another user needs root and util-linux");
        return;
    }
    let (answer, ranks) = impostor("nobody", &NOBODY);
    assert_eq!(answer, "CLOSED\n");
    for rank in ranks {
        assert_eq!(rank.rest(), "READY\nDONE\nCLEAN\n");
    }
    // The same caller of the same user would have been let in.
    let (answer, ranks) = impostor("somebody", &["env"]);
    assert_eq!(answer, "GREETED\n");
    for mut rank in ranks {
        rank.child.kill().unwrap();
        rank.rest();
    }
}
