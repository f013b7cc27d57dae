//! What the two ends tell each other before data flow: the handle, by which the sender finds who listens, and a hello each way.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nccl_net::HANDLE_BYTES;
use verbs::Remote;

use crate::config::MAX_QUEUE_PAIRS;

/// The beginning of a handle.
const HANDLE_MAGIC: u64 = u64::from_le_bytes(*b"rsnethnd");
/// The beginning of a hello. Its last byte is what is spoken: every change of it counts one up.
const HELLO_MAGIC: u64 = u64::from_le_bytes(*b"rsnethl2");
/// Bytes of a hello.
pub(crate) const HELLO_BYTES: usize = 384;
/// Bytes of the number that only who has the handle knows.
pub(crate) const SECRET_BYTES: usize = 16;
const NAME_BYTES: usize = 64;

/// Where a sender finds who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    /// The socket.
    pub(crate) address: SocketAddr,
    /// What a caller shows there.
    pub(crate) secret: [u8; SECRET_BYTES],
}

/// What one end says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Shown by the caller; zero from who was called.
    pub(crate) secret: [u8; SECRET_BYTES],
    /// Its queue pairs.
    pub(crate) queue_pairs: Vec<u32>,
    /// Whether each message takes all of them.
    pub(crate) splits: bool,
    /// The caller's: traffic class and service level, which both ends use.
    pub(crate) traffic_class: u8,
    /// See [`Hello::traffic_class`].
    pub(crate) service_level: u8,
    /// Its port's identifier and kind, local identifier, payload of a packet, and whether it is Ethernet.
    pub(crate) gid: [u8; 16],
    /// See [`verbs::GidKind::number`].
    pub(crate) gid_kind: u32,
    /// The port's local identifier.
    pub(crate) lid: u16,
    /// Bytes of payload that a packet may have.
    pub(crate) mtu_bytes: u32,
    /// Whether the link is Ethernet.
    pub(crate) is_ethernet: bool,
    /// Whether packets from here must carry identifiers; not told to the other end.
    pub(crate) needs_gid: bool,
    /// The caller's: where who receives writes what room there is.
    pub(crate) room: Remote,
    /// The process.
    pub(crate) pid: u32,
    /// Its rank in its job; -1: not known.
    pub(crate) rank: i32,
    /// Its device's port.
    pub(crate) port: u8,
    /// Its device.
    pub(crate) device: String,
    /// Its host.
    pub(crate) host: String,
}

impl Handle {
    /// As NCCL carries it. The last eight bytes are the sender's own, and zero.
    pub(crate) fn to_bytes(self) -> [u8; HANDLE_BYTES] {
        let mut bytes = [0; HANDLE_BYTES];
        let ip = match self.address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        bytes[..8].copy_from_slice(&HANDLE_MAGIC.to_le_bytes());
        bytes[8..24].copy_from_slice(&ip.octets());
        bytes[24..26].copy_from_slice(&self.address.port().to_le_bytes());
        bytes[32..48].copy_from_slice(&self.secret);
        bytes
    }

    /// Back from the bytes; none if they are no handle of ours.
    pub(crate) fn from_bytes(bytes: &[u8; HANDLE_BYTES]) -> Option<Self> {
        if u64::from_le_bytes(*bytes.first_chunk()?) != HANDLE_MAGIC {
            return None;
        }
        let ip = Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?);
        let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), |ip: Ipv4Addr| IpAddr::V4(ip));
        let port = u16::from_le_bytes(<[u8; 2]>::try_from(bytes.get(24..26)?).ok()?);
        let secret = <[u8; SECRET_BYTES]>::try_from(bytes.get(32..48)?).ok()?;
        Some(Self { address: SocketAddr::new(ip, port), secret })
    }
}

/// Whether a caller's bytes show the secret. It is looked at before anything else of a hello: a stranger's mistake is nobody's.
pub(crate) fn shows(bytes: &[u8; HELLO_BYTES], secret: &[u8; SECRET_BYTES]) -> bool {
    bytes.get(8..8 + SECRET_BYTES) == Some(secret.as_slice())
}

impl Hello {
    /// As it is sent.
    pub(crate) fn to_bytes(&self) -> [u8; HELLO_BYTES] {
        let mut writer = Writer { bytes: [0; HELLO_BYTES], at: 0 };
        writer.put(&HELLO_MAGIC.to_le_bytes());
        writer.put(&self.secret);
        writer.put(&self.gid);
        writer.put(&self.room.address.to_le_bytes());
        writer.put(&self.room.key.to_le_bytes());
        writer.put(&u32::try_from(self.queue_pairs.len()).unwrap_or(0).to_le_bytes());
        for index in 0..MAX_QUEUE_PAIRS {
            writer.put(&self.queue_pairs.get(index).copied().unwrap_or(0).to_le_bytes());
        }
        writer.put(&self.gid_kind.to_le_bytes());
        writer.put(&self.mtu_bytes.to_le_bytes());
        writer.put(&self.pid.to_le_bytes());
        writer.put(&self.rank.to_le_bytes());
        writer.put(&self.lid.to_le_bytes());
        writer.put(&[self.port, 0]);
        writer.put(&[
            u8::from(self.is_ethernet),
            u8::from(self.splits),
            self.traffic_class,
            self.service_level,
        ]);
        writer.text(&self.device);
        writer.text(&self.host);
        writer.bytes
    }

    /// Back from the bytes; what is wrong with them, if anything is.
    pub(crate) fn from_bytes(bytes: &[u8; HELLO_BYTES]) -> Result<Self, &'static str> {
        let mut reader = Reader { bytes, at: 0 };
        let magic = reader.long();
        if magic.to_le_bytes()[..7] != HELLO_MAGIC.to_le_bytes()[..7] {
            return Err("who called does not speak this");
        }
        if magic != HELLO_MAGIC {
            return Err(
                "the other end has another version of libnccl-net-ringscope.so: all hosts need the same",
            );
        }
        let (secret, gid) = (reader.array(), reader.array());
        let room = Remote { address: reader.long(), key: reader.word() };
        let count = (reader.word() as usize).min(MAX_QUEUE_PAIRS);
        let numbers: Vec<u32> = (0..MAX_QUEUE_PAIRS).map(|_| reader.word()).collect();
        let (gid_kind, mtu_bytes, pid) = (reader.word(), reader.word(), reader.word());
        let rank = reader.word().cast_signed();
        let lid = u16::from_le_bytes(reader.array());
        let [port, _] = reader.array::<2>();
        let [is_ethernet, splits, traffic_class, service_level] = reader.array::<4>();
        Ok(Self {
            secret,
            queue_pairs: numbers.into_iter().take(count).collect(),
            splits: splits != 0,
            traffic_class,
            service_level,
            gid,
            gid_kind,
            lid,
            port,
            mtu_bytes,
            is_ethernet: is_ethernet != 0,
            needs_gid: false,
            room,
            pid,
            rank,
            device: reader.text(),
            host: reader.text(),
        })
    }

    /// As a peer is named in errors: `rank 3 (host-2, mlx5_1)`.
    pub(crate) fn shown(&self) -> String {
        let who = if self.rank < 0 { format!("process {}", self.pid) } else { format!("rank {}", self.rank) };
        format!("{who} ({}, {})", self.host, self.device)
    }
}

struct Writer {
    bytes: [u8; HELLO_BYTES],
    at: usize,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn text(&mut self, text: &str) {
        let cut = text.floor_char_boundary(NAME_BYTES - 1);
        let mut bytes = [0; NAME_BYTES];
        bytes[..cut].copy_from_slice(&text.as_bytes()[..cut]);
        self.put(&bytes);
    }
}

struct Reader<'a> {
    bytes: &'a [u8; HELLO_BYTES],
    at: usize,
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let found = self.bytes.get(self.at..self.at + N).and_then(|bytes| bytes.try_into().ok());
        self.at += N;
        found.unwrap_or([0; N])
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    fn text(&mut self) -> String {
        let bytes = self.array::<NAME_BYTES>();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_survive_the_bytes() {
        for address in ["10.8.0.1:4711", "[2001:db8::1]:80"] {
            let handle = Handle { address: address.parse().unwrap(), secret: [7; SECRET_BYTES] };
            let bytes = handle.to_bytes();
            assert_eq!(Handle::from_bytes(&bytes), Some(handle));
            assert_eq!(bytes[120..], [0; 8], "the sender's own");
        }
        assert_eq!(Handle::from_bytes(&[0; HANDLE_BYTES]), None);
    }

    #[test]
    fn hellos_survive_the_bytes_and_other_versions_are_told() {
        let hello = Hello {
            secret: [3; SECRET_BYTES],
            queue_pairs: vec![17, 18, 19],
            splits: true,
            traffic_class: 106,
            service_level: 3,
            gid: [9; 16],
            gid_kind: 3,
            lid: 5,
            port: 2,
            mtu_bytes: 4096,
            is_ethernet: true,
            needs_gid: false,
            room: Remote { address: 1 << 40, key: 77 },
            pid: 1234,
            rank: -1,
            device: "mlx5_0".to_owned(),
            host: "h".repeat(80),
        };
        let mut bytes = hello.to_bytes();
        let expected = Hello { host: "h".repeat(63), ..hello.clone() };
        assert_eq!(Hello::from_bytes(&bytes), Ok(expected));
        assert_eq!(hello.shown(), format!("process 1234 ({}, mlx5_0)", "h".repeat(80)));
        bytes[7] += 1;
        assert!(Hello::from_bytes(&bytes).unwrap_err().contains("another version"));
        assert!(Hello::from_bytes(&[0; HELLO_BYTES]).unwrap_err().contains("does not speak"));
    }
}
