//! What travels over the TCP connection beside the queue pair.

use verbs::GidKind;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Where this end's queue pair is.
    Here(Here),
    /// It is ready to send and to receive.
    Ready,
    /// Memory was registered: its key, where it begins, and its bytes.
    Region { key: u64, address: u64, size_bytes: u64 },
    /// It was taken back.
    Revoke { key: u64 },
    /// A control message of the program's.
    Control(Vec<u8>),
}

/// How a queue pair is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Here {
    pub(super) number: u32,
    pub(super) lid: u16,
    pub(super) mtu_bytes: u32,
    pub(super) reads: u8,
    /// [`GidKind::number`].
    pub(super) kind: u32,
    pub(super) gid: [u8; 16],
}

impl Here {
    /// Whether two ends understand each other's packets.
    pub(super) fn understands(&self, other: &Self) -> bool {
        let unknown = GidKind::Unknown.number();
        self.kind == other.kind || self.kind == unknown || other.kind == unknown
    }
}

impl Frame {
    /// As it travels: a kind, then its fields, little-endian.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let words = |kind: u8, words: &[u64]| {
            let mut out = vec![kind];
            words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
            out
        };
        match self {
            Self::Here(here) => {
                let numbers =
                    [here.number, u32::from(here.lid), here.mtu_bytes, u32::from(here.reads), here.kind];
                let mut out = words(1, &numbers.map(u64::from));
                out.extend_from_slice(&here.gid);
                out
            }
            Self::Ready => vec![2],
            Self::Region { key, address, size_bytes } => words(3, &[*key, *address, *size_bytes]),
            Self::Revoke { key } => words(4, &[*key]),
            Self::Control(bytes) => [&[5], bytes.as_slice()].concat(),
        }
    }

    /// What travelled; nothing if it makes no sense.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let word = |place: usize| -> Option<u64> {
            Some(u64::from_le_bytes(rest.get(place * 8..place * 8 + 8)?.try_into().ok()?))
        };
        let number = |place: usize| u32::try_from(word(place)?).ok();
        Some(match kind {
            1 => Self::Here(Here {
                number: number(0)?,
                lid: u16::try_from(number(1)?).ok()?,
                mtu_bytes: number(2)?,
                reads: u8::try_from(number(3)?).ok()?,
                kind: number(4)?,
                gid: rest.get(40..)?.try_into().ok()?,
            }),
            2 => Self::Ready,
            3 => Self::Region { key: word(0)?, address: word(1)?, size_bytes: word(2)? },
            4 => Self::Revoke { key: word(0)? },
            5 => Self::Control(rest.to_vec()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_travel() {
        let here = Here { number: 17, lid: 3, mtu_bytes: 1024, reads: 16, kind: 3, gid: [9; 16] };
        for frame in [
            Frame::Here(here),
            Frame::Ready,
            Frame::Region { key: 1, address: 2, size_bytes: 3 },
            Frame::Revoke { key: 4 },
            Frame::Control(b"edges".to_vec()),
        ] {
            assert_eq!(Frame::from_bytes(&frame.to_bytes()), Some(frame));
        }
        assert_eq!(Frame::from_bytes(&[]), None);
        assert_eq!(Frame::from_bytes(&[1, 0]), None);
        assert!(here.understands(&Here { kind: 0, ..here }) && !here.understands(&Here { kind: 2, ..here }));
    }
}
