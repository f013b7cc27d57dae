//! What all ranks have handed in, packed: what several ranks say alike travels once.
//!
//! Each rank hands in a text, which the ranks of a host have in common as a rule, and a few bytes of its own. What is gathered has
//! each text once, and of one that looks like another only the words in which they differ: hosts of a cluster differ in
//! names and addresses. So every rank gets some ten bytes for each rank and some sixty for each host, and no rank needs to
//! pass anything on to others, who would have to be told of its death.
//!
//! Layout, numbers as LEB128: ranks; texts; of each text its difference ([`words`]); runs of ranks with one text, as text
//! and length; bytes of each rank's own, plus one, where all have as many, else 0. Then, in the first case, of each byte
//! whether it is the same for all ranks, and it, or that of each rank; else each rank's bytes after their length.

pub(crate) mod words;

use std::collections::HashMap;
use std::io::{self, ErrorKind};

use words::Reader;

/// Bytes of all texts at most, however little was sent: those of 60 000 hosts of a kilobyte.
const MAX_TEXT_BYTES: usize = 64 << 20;
/// Earlier texts that one is compared with at most.
const MAX_COMPARED: usize = 16;

/// Own bytes of a rank at most that are told byte by byte: two of a message may stand for one of each rank there.
const MAX_OWN_BYTES: usize = 1024;

/// What one rank hands in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blob {
    /// What others may say too.
    pub(crate) text: Vec<u8>,
    /// What nobody else says.
    pub(crate) own: Vec<u8>,
}

/// What all have handed in.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Gathered {
    /// The texts, each once, in the order of the first ranks that say them.
    pub(crate) texts: Vec<Vec<u8>>,
    /// By rank: which text.
    pub(crate) which: Vec<usize>,
    /// By rank: its own bytes.
    pub(crate) own: Vec<Vec<u8>>,
}

impl Gathered {
    /// Of all ranks, in their order.
    pub(crate) fn new(blobs: impl IntoIterator<Item = Blob>) -> Self {
        let mut gathered = Self::default();
        let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
        for Blob { text, own } in blobs {
            let next = known.len();
            let which = *known.entry(text).or_insert_with_key(|text| {
                gathered.texts.push(text.clone());
                next
            });
            gathered.which.push(which);
            gathered.own.push(own);
        }
        gathered
    }

    /// As it is sent.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        words::put(&mut bytes, self.which.len());
        words::put(&mut bytes, self.texts.len());
        let split: Vec<Vec<&[u8]>> = self.texts.iter().map(|text| words::split(text)).collect();
        for (index, text) in split.iter().enumerate() {
            let earlier = split[index.saturating_sub(MAX_COMPARED)..index].iter().rev();
            let differences = earlier
                .enumerate()
                .filter_map(|(back, other)| Some((back + 1, words::difference(other, text)?)));
            match differences.min_by_key(|(_, difference)| difference.len()) {
                Some((back, difference)) => {
                    words::put(&mut bytes, back);
                    words::put_bytes(&mut bytes, &difference);
                }
                None => {
                    words::put(&mut bytes, 0);
                    words::put_bytes(&mut bytes, &self.texts[index]);
                }
            }
        }
        for run in self.which.chunk_by(|one, other| one == other) {
            words::put(&mut bytes, run[0]);
            words::put(&mut bytes, run.len());
        }
        self.put_own(&mut bytes);
        bytes
    }

    fn put_own(&self, bytes: &mut Vec<u8>) {
        let first = self.own.first().map_or(&[][..], Vec::as_slice);
        let fits = first.len() <= MAX_OWN_BYTES;
        let are_alike = fits && self.own.iter().all(|own| own.len() == first.len());
        if !are_alike {
            words::put(bytes, 0);
            self.own.iter().for_each(|own| words::put_bytes(bytes, own));
            return;
        }
        words::put(bytes, first.len() + 1);
        for (at, byte) in first.iter().enumerate() {
            let is_same = self.own.iter().all(|own| own[at] == *byte);
            bytes.push(u8::from(is_same));
            let told = if is_same { 1 } else { self.own.len() };
            bytes.extend(self.own[..told].iter().map(|own| own[at]));
        }
    }

    /// Of `n_ranks` ranks, back from the bytes.
    pub(crate) fn from_bytes(bytes: &[u8], n_ranks: usize) -> io::Result<Self> {
        Self::parse(&mut Reader(bytes), n_ranks)
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "what all ranks have told is malformed"))
    }

    fn parse(reader: &mut Reader<'_>, n_ranks: usize) -> Option<Self> {
        let told = reader.number()?;
        let n_texts = reader.number()?;
        let mut gathered = Self::default();
        let mut room = MAX_TEXT_BYTES;
        for index in 0..n_texts {
            let back = reader.number()?;
            let told = reader.bytes()?;
            let text = match back {
                0 => told.to_vec(),
                _ => words::apply(gathered.texts.get(index.checked_sub(back)?)?, told)?,
            };
            room = room.checked_sub(text.len())?;
            gathered.texts.push(text);
        }
        while gathered.which.len() < n_ranks {
            let (which, run) = (reader.number()?, reader.number()?);
            if which >= n_texts || !(1..=n_ranks - gathered.which.len()).contains(&run) {
                return None;
            }
            gathered.which.resize(gathered.which.len() + run, which);
        }
        gathered.own = own(reader, n_ranks)?;
        (reader.0.is_empty() && told == n_ranks).then_some(gathered)
    }
}

fn own(reader: &mut Reader<'_>, n_ranks: usize) -> Option<Vec<Vec<u8>>> {
    let Some(len) = reader.number()?.checked_sub(1) else {
        return (0..n_ranks).map(|_| reader.bytes().map(<[u8]>::to_vec)).collect();
    };
    if len > MAX_OWN_BYTES {
        return None;
    }
    let mut all = vec![Vec::new(); n_ranks];
    for _ in 0..len {
        let [is_same] = *reader.take(1)?.first_chunk()?;
        let told = reader.take(if is_same == 1 { n_ranks.min(1) } else { n_ranks })?;
        let bytes = all.iter_mut().zip(told.iter().chain(std::iter::repeat(told.last()?)));
        bytes.for_each(|(own, byte)| own.push(*byte));
    }
    Some(all)
}

#[cfg(test)]
mod tests;
