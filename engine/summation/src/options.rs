//! How a tensor travels: which goes first, and in how many bytes.

use serde::{Deserialize, Serialize};

use super::codec::Choice;

/// What is declared of a tensor beside its length and type. The same on all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Parts of a lower one go first; equal ones in the order of declaration.
    pub priority: i32,
    /// None: as it is.
    pub codec: Option<Choice>,
}

/// What a caller asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Its codec is used where the tensor is long enough.
    pub options: Options,
    /// The fewest bytes of the tensor with which it is; none: as the process's settings say.
    pub min_bytes: Option<u64>,
}

impl Asked {
    /// What becomes of it for a tensor of so many bytes. The tensor decides, and not its parts: how it is cut is no matter of
    /// its caller's.
    #[must_use]
    pub fn settle(self, size_bytes: u64, default_min_bytes: u64) -> Options {
        let is_long = size_bytes >= self.min_bytes.unwrap_or(default_min_bytes);
        Options { codec: self.options.codec.filter(|_| is_long), ..self.options }
    }
}

/// As they are sent: the codec by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sent {
    priority: i32,
    codec: Option<String>,
}

impl Options {
    /// What all processes hash; nothing for the default ones.
    pub(super) fn digested(self) -> Vec<u8> {
        if self == Self::default() {
            return Vec::new();
        }
        [&self.priority.to_le_bytes()[..], self.codec_name().as_bytes()].concat()
    }

    /// For other processes.
    pub(super) fn to_sent(self) -> Sent {
        Sent { priority: self.priority, codec: self.codec.map(|codec| codec.to_string()) }
    }

    /// From another process; nothing if there is no such codec.
    pub(super) fn from_sent(sent: &Sent) -> Option<Self> {
        let codec = sent.codec.as_ref().map(|codec| codec.parse());
        Some(Self { priority: sent.priority, codec: codec.transpose().ok()? })
    }

    /// Behind a tensor's description; empty for the default ones.
    pub(super) fn words(self) -> String {
        let priority =
            if self.priority == 0 { String::new() } else { format!(", priority {}", self.priority) };
        let codec = self.codec.map_or_else(String::new, |codec| format!(", as {codec}"));
        priority + &codec
    }

    fn codec_name(self) -> String {
        self.codec.map_or_else(String::new, |codec| codec.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codec_is_for_tensors_that_are_long_enough() {
        let options = Options { priority: 7, codec: Some(Choice::F16) };
        let codec = |min_bytes, size_bytes| {
            let settled = Asked { options, min_bytes }.settle(size_bytes, 1000);
            assert_eq!(settled.priority, 7);
            settled.codec
        };
        assert_eq!([codec(None, 999), codec(Some(1000), 999), codec(Some(1001), 1000)], [None; 3]);
        assert_eq!([codec(None, 1000), codec(Some(1), 4), codec(Some(0), 0)], [Some(Choice::F16); 3]);
    }

    #[test]
    fn options_survive_the_way() {
        for codec in [None, Some("top-k:0.1".parse().unwrap()), Some(Choice::Bf16)] {
            let options = Options { priority: -3, codec };
            assert_eq!(Options::from_sent(&options.to_sent()), Some(options));
        }
        assert_eq!(Options::from_sent(&Sent { priority: 0, codec: Some("zip".to_owned()) }), None);
        assert_eq!(Options::default().words(), "");
        let options = Options { priority: 2, codec: Some(Choice::F16) };
        assert_eq!(options.words(), ", priority 2, as f16");
    }
}
