//! What a system call is about, in words: a file's path, a socket with both its ends, a pipe. Names, never contents.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::FileExt as _;

use super::syscalls::About;
use crate::foreign::clean;
use crate::procfs;

/// Bytes of a path that are read from the process.
const MAX_PATH: usize = 512;
/// Descriptors of one `poll` or one epoll that are named.
const MAX_NAMED: usize = 3;
/// Bytes of a table of sockets that are looked through.
const MAX_TABLE: u64 = 32 << 20;

/// One process, whose descriptors are named.
pub(super) struct Subjects {
    pid: u32,
    memory: Option<File>,
    /// As in [`TABLES`], each read once it is needed: what its sockets are, by their numbers. A busy host has a hundred
    /// thousand.
    tables: [OnceCell<HashMap<u64, String>>; TABLES.len()],
}

/// Tables of sockets: the file, what its lines are, and what one of them says.
type Table = (&'static str, fn(&str) -> Option<(u64, String)>);

/// Source: proc(5), `/proc/net`.
const TABLES: [Table; 5] = [
    ("net/tcp", |line| internet(line, "socket")),
    ("net/tcp6", |line| internet(line, "socket")),
    ("net/udp", |line| internet(line, "UDP socket")),
    ("net/udp6", |line| internet(line, "UDP socket")),
    ("net/unix", unix),
];

impl Subjects {
    pub(super) fn of(pid: u32) -> Self {
        Self { pid, memory: File::open(procfs::path(pid, "mem")).ok(), tables: Default::default() }
    }

    /// What a call with these arguments is about. Empty: nothing that can be named.
    pub(super) fn of_call(&self, about: About, arguments: &[u64; 6]) -> String {
        let argument = |n: usize| arguments.get(n).copied().unwrap_or_default();
        let subject = match about {
            About::Descriptor(n) => self.descriptor(low(argument(n))),
            About::Path(n) => self.path(argument(n)),
            About::Poll => self.polled(argument(0), argument(1)),
            About::Process(n) => {
                let pid = low(argument(n));
                (pid > 0 && pid < 1 << 30).then(|| format!("process {pid}"))
            }
            About::Nothing => None,
        };
        clean(&subject.unwrap_or_default(), MAX_PATH)
    }

    /// What a descriptor leads to.
    fn descriptor(&self, number: u32) -> Option<String> {
        let link = std::fs::read_link(procfs::path(self.pid, &format!("fd/{number}"))).ok()?;
        let link = link.to_string_lossy().into_owned();
        if let Some(inode) = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
            return Some(self.socket(inode.parse().ok()?).unwrap_or_else(|| "socket".to_owned()));
        }
        if link.starts_with("pipe:[") {
            return Some("pipe".to_owned());
        }
        if link == "anon_inode:[eventpoll]" {
            return Some(self.watched(number));
        }
        Some(
            link.strip_prefix("anon_inode:")
                .map_or(link.clone(), |kind| kind.trim_matches(['[', ']']).to_owned()),
        )
    }

    /// What an epoll waits for. Source: proc(5), `fdinfo`.
    fn watched(&self, epoll: u32) -> String {
        let info = procfs::text(self.pid, &format!("fdinfo/{epoll}")).unwrap_or_default();
        let target = |line: &str| {
            let number: u32 = line.strip_prefix("tfd:")?.split_ascii_whitespace().next()?.parse().ok()?;
            // An epoll may watch another: those are not followed.
            self.descriptor(number).filter(|_| number != epoll)
        };
        let targets: Vec<&str> = info.lines().filter(|line| line.starts_with("tfd:")).collect();
        if targets.iter().any(|line| self.is_epoll(line)) {
            return "epoll".to_owned();
        }
        let mut words: Vec<String> = targets.iter().filter_map(|line| target(line)).take(MAX_NAMED).collect();
        if targets.len() > words.len() && !words.is_empty() {
            words.push(format!("{} more", targets.len() - words.len()));
        }
        if words.is_empty() { "epoll".to_owned() } else { format!("epoll of {}", words.join(", ")) }
    }

    fn is_epoll(&self, line: &str) -> bool {
        let number = line.strip_prefix("tfd:").and_then(|rest| rest.split_ascii_whitespace().next());
        let link = number
            .and_then(|number| std::fs::read_link(procfs::path(self.pid, &format!("fd/{number}"))).ok());
        link.is_some_and(|link| link.as_os_str() == "anon_inode:[eventpoll]")
    }

    /// What `poll` waits for: `struct pollfd { int fd; short events; short revents; }`.
    fn polled(&self, address: u64, n: u64) -> Option<String> {
        let named = usize::try_from(n).ok()?.min(MAX_NAMED);
        let mut bytes = vec![0; named * 8];
        self.memory.as_ref()?.read_exact_at(&mut bytes, address).ok()?;
        let mut words: Vec<String> = (bytes.as_chunks::<8>().0.iter())
            .filter_map(|entry| self.descriptor(u32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]])))
            .collect();
        let more = n.saturating_sub(named as u64);
        if more > 0 && !words.is_empty() {
            words.push(format!("{more} more"));
        }
        Some(words.join(", "))
    }

    fn path(&self, address: u64) -> Option<String> {
        let mut bytes = vec![0; MAX_PATH];
        let memory = self.memory.as_ref()?;
        // The path may end just before memory that is not there.
        let page_end = usize::try_from(4096 - address % 4096).ok()?.min(MAX_PATH);
        let n = memory
            .read_at(&mut bytes, address)
            .or_else(|_| memory.read_at(&mut bytes[..page_end], address))
            .ok()?;
        let end = bytes[..n].iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// A socket by its number, with both ends.
    fn socket(&self, inode: u64) -> Option<String> {
        let mut tables = self.tables.iter().zip(TABLES);
        tables.find_map(|(table, kind)| table.get_or_init(|| self.read(kind)).get(&inode).cloned())
    }

    fn read(&self, (file, socket): Table) -> HashMap<u64, String> {
        let Ok(file) = File::open(procfs::path(self.pid, file)) else { return HashMap::new() };
        let lines = BufReader::new(file.take(MAX_TABLE)).lines().map_while(Result::ok);
        lines.filter_map(|line| socket(&line)).collect()
    }
}

/// A line of a table of connections: number and words of its socket.
fn internet(line: &str, protocol: &str) -> Option<(u64, String)> {
    Some((field(line, 9)?, format!("{protocol} {}", ends(line)?)))
}

/// The same of a socket within the machine, which may have no path.
fn unix(line: &str) -> Option<(u64, String)> {
    let path = line.split_ascii_whitespace().nth(7).unwrap_or_default();
    Some((field(line, 6)?, format!("Unix socket {path}").trim_end().to_owned()))
}

/// A number in a line of a table.
fn field(line: &str, at: usize) -> Option<u64> {
    line.split_ascii_whitespace().nth(at)?.parse().ok()
}

/// A descriptor or a process: an `int` in the low half of the register.
fn low(argument: u64) -> u32 {
    u32::try_from(argument & u64::from(u32::MAX)).unwrap_or_default()
}

/// `10.0.0.3:5000 -> 10.0.0.4:3301`, and what is not usual of the connection.
fn ends(line: &str) -> Option<String> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, remote, state) = (address(words.next()?)?, address(words.next()?)?, words.next()?);
    Some(match state {
        "0A" => format!("{local}, listening"),
        "01" => format!("{local} -> {remote}"),
        "02" => format!("{local} -> {remote}, connecting"),
        "08" => format!("{local} -> {remote}, closed by the peer"),
        _ if remote.ends_with(":0") => local,
        _ => format!("{local} -> {remote}, closing"),
    })
}

/// `0100007F:1F90` or its longer kin: words in the machine's order, then the port.
fn address(text: &str) -> Option<String> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(host.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let host: IpAddr = if host.len() == 8 {
        Ipv4Addr::from(word(0)?).into()
    } else {
        let mut bytes = [0; 16];
        for n in 0..4 {
            bytes[n * 4..n * 4 + 4].copy_from_slice(&word(n * 8)?);
        }
        let host = Ipv6Addr::from(bytes);
        host.to_ipv4_mapped().map_or(host.into(), Into::into)
    };
    Some(if host.is_ipv4() { format!("{host}:{port}") } else { format!("[{host}]:{port}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_found_in_its_table_by_its_number() {
        use std::os::fd::AsRawFd as _;

        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let subjects = Subjects::of(std::process::id());
        let named = |fd: i32| subjects.descriptor(u32::try_from(fd).unwrap());
        assert_eq!(named(listener.as_raw_fd()), Some(format!("socket {address}, listening")));
        assert_eq!(named(one.as_raw_fd()).as_deref(), Some("Unix socket"));
        assert!(subjects.tables.iter().all(|table| table.get().is_some()), "each is read once");
        let long = "ffff8: 00000002 00000000 00010000 0001 01 4711 /run/x.sock";
        assert_eq!(unix(long), Some((4711, "Unix socket /run/x.sock".to_owned())));
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn ends_of_connections_are_read() {
        let check = |line: &str, expected: &str| assert_eq!(ends(line).as_deref(), Some(expected), "{line}");
        check(" 0: 0300000A:1388 0400000A:0CE5 01 x", "10.0.0.3:5000 -> 10.0.0.4:3301");
        check(" 0: 0100007F:1F90 00000000:0000 0A x", "127.0.0.1:8080, listening");
        check(" 0: 0100007F:1F90 0100007F:0050 02 x", "127.0.0.1:8080 -> 127.0.0.1:80, connecting");
        check(
            " 0: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000000000000:0000 0A x",
            "127.0.0.1:8080, listening",
        );
        check(
            " 0: 00000000000000000000000001000000:0016 000080FE000000000000000001000000:0017 08 x",
            "[::1]:22 -> [fe80::1]:23, closed by the peer",
        );
        for line in ["", "0: x y z", " 0: 0300000A:1388", " 0: 03:1388 04:1 01"] {
            assert_eq!(ends(line), None, "{line}");
        }
    }
}
