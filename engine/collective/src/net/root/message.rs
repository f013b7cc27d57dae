//! What ranks and root say to each other once they have met: in each round, an offer of each rank and one answer to all.

use std::io::{self, ErrorKind};

use crate::net::gathered::words::{self, Reader};
use crate::net::gathered::{Blob, Gathered};

const IS_LAST: u8 = 1;
const HAS_FAILED: u8 = 2;
const ALL: u8 = 0;
const FAILED: u8 = 1;

/// What a rank hands in in each round.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// No round follows; all ranks say the same.
    pub(crate) is_last: bool,
    /// For all ranks.
    pub(crate) blob: Blob,
    /// Why the rank cannot go on, which ends it for all.
    pub(crate) failure: Option<String>,
}

/// What the root answers in each round.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// What all have handed in.
    All(Gathered),
    /// Bootstrap has failed, and why.
    Failed(String),
}

impl Offer {
    /// As it is sent: flags, then why it failed, or the length of the text, the text, and the rank's own bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![if self.is_last { IS_LAST } else { 0 }];
        if let Some(why) = &self.failure {
            bytes[0] |= HAS_FAILED;
            bytes.extend_from_slice(why.as_bytes());
        } else {
            words::put_bytes(&mut bytes, &self.blob.text);
            bytes.extend_from_slice(&self.blob.own);
        }
        bytes
    }

    /// Back from the bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        let malformed = || io::Error::new(ErrorKind::InvalidData, "its message is malformed");
        let (flags, rest) = bytes.split_first().ok_or_else(malformed)?;
        let is_last = flags & IS_LAST != 0;
        if flags & HAS_FAILED != 0 {
            let failure = Some(String::from_utf8_lossy(rest).into_owned());
            return Ok(Self { is_last, failure, ..Self::default() });
        }
        let mut reader = Reader(rest);
        let text = reader.bytes().ok_or_else(malformed)?.to_vec();
        Ok(Self { is_last, blob: Blob { text, own: reader.0.to_vec() }, failure: None })
    }
}

impl Answer {
    /// As it is sent.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::All(gathered) => [&[ALL][..], &gathered.to_bytes()].concat(),
            Self::Failed(why) => [&[FAILED], why.as_bytes()].concat(),
        }
    }

    /// To one of `n_ranks` ranks, back from the bytes.
    pub(crate) fn from_bytes(bytes: &[u8], n_ranks: usize) -> io::Result<Self> {
        match bytes.split_first() {
            Some((&ALL, gathered)) => Gathered::from_bytes(gathered, n_ranks).map(Self::All),
            Some((&FAILED, why)) => Ok(Self::Failed(String::from_utf8_lossy(why).into_owned())),
            _ => Err(io::Error::new(ErrorKind::InvalidData, "its answer is malformed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_bytes() {
        let blob = Blob { text: b"text".to_vec(), own: b"own".to_vec() };
        let failure = Some("why".to_owned());
        for offer in [
            Offer { is_last: true, blob: blob.clone(), failure: None },
            Offer { is_last: false, failure, ..Offer::default() },
        ] {
            assert_eq!(Offer::from_bytes(&offer.to_bytes()).unwrap(), offer);
        }
        for answer in [Answer::All(Gathered::new([blob])), Answer::Failed("why".to_owned())] {
            assert_eq!(Answer::from_bytes(&answer.to_bytes(), 1).unwrap(), answer);
        }
        assert!(Offer::from_bytes(&[]).is_err() && Offer::from_bytes(&[0, 9]).is_err());
        assert!(Answer::from_bytes(&[], 1).is_err() && Answer::from_bytes(&[7], 1).is_err());
    }
}
