//! How samples lie in the database: many of them in one value, column by column, each as its difference from the one before,
//! packed by zstd. A sample takes some bytes so, where a row of its own takes a hundred.
//!
//! Layout: a version, the length unpacked, and a zstd frame of: the number of rows, their keys, which columns of each are
//! there, and the values of one column after the other. All numbers are varints; differences are zigzag.

use std::cell::RefCell;

use prost::encoding::{decode_varint, encode_varint};
use zstd::bulk::{Compressor, Decompressor};

/// What a row has at most: the columns of [`super::history::History::values`], in their order.
pub(super) type Values = [Option<i64>; WIDTH];

/// Columns of a row.
pub(super) const WIDTH: usize = 7;

/// A value of the database that is none of ours.
#[derive(Debug, thiserror::Error)]
#[error("a value of the history is damaged: {0}")]
pub(super) struct Damaged(&'static str);

/// Rows on their way into one value. Of a key that comes again the last row stays.
#[derive(Debug, Default)]
pub(super) struct Packer {
    n_rows: u64,
    keys: Vec<u8>,
    masks: Vec<u8>,
    columns: [Vec<u8>; WIDTH],
    last_key: i64,
    last: [i64; WIDTH],
}

impl Packer {
    /// Adds a row; its key is a time, or the number of a series.
    pub(super) fn push(&mut self, key: i64, values: &Values) {
        self.n_rows += 1;
        put(&mut self.keys, key.wrapping_sub(self.last_key));
        self.last_key = key;
        let mut mask = 0;
        for (index, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            mask |= 1 << index;
            put(&mut self.columns[index], value.wrapping_sub(self.last[index]));
            self.last[index] = *value;
        }
        self.masks.push(mask);
    }

    /// The value; `None` without a row.
    pub(super) fn pack(self) -> Option<Vec<u8>> {
        if self.n_rows == 0 {
            return None;
        }
        let mut raw = Vec::with_capacity(10 + self.keys.len() + self.masks.len());
        encode_varint(self.n_rows, &mut raw);
        raw.extend(&self.keys);
        raw.extend(&self.masks);
        self.columns.iter().for_each(|column| raw.extend(column));
        let mut packed = vec![VERSION];
        encode_varint(raw.len() as u64, &mut packed);
        let frame = COMPRESSOR.with_borrow_mut(|compressor| match compressor {
            Ok(compressor) => compressor.compress(&raw).ok(),
            Err(_) => None,
        });
        match frame {
            Some(frame) => packed.extend(frame),
            // Without memory for zstd.
            None => {
                packed[0] = VERSION_PLAIN;
                packed.extend(raw);
            }
        }
        Some(packed)
    }
}

/// Gives `take` the rows of a value, in the order in which they were packed.
pub(super) fn unpack(packed: &[u8], mut take: impl FnMut(i64, Values)) -> Result<(), Damaged> {
    let Some((version, mut rest)) = packed.split_first() else { return Err(Damaged("it is empty")) };
    let n_bytes = number(&mut rest)?;
    let n_bytes = usize::try_from(n_bytes).ok().filter(|n| *n <= UNPACKED_MAX_BYTES);
    let n_bytes = n_bytes.ok_or(Damaged("it would be larger than any that is written"))?;
    let unpacked;
    let raw = match *version {
        VERSION => {
            unpacked = DECOMPRESSOR.with_borrow_mut(|decompressor| match decompressor {
                Ok(decompressor) => decompressor.decompress(rest, n_bytes).ok(),
                Err(_) => None,
            });
            unpacked.as_deref().ok_or(Damaged("it cannot be unpacked"))?
        }
        VERSION_PLAIN => rest,
        _ => return Err(Damaged("it is of a version that this ringscope does not know")),
    };
    rows(raw, &mut take)
}

fn rows(mut raw: &[u8], take: &mut impl FnMut(i64, Values)) -> Result<(), Damaged> {
    let n_rows = usize::try_from(number(&mut raw)?).ok().filter(|n| *n <= raw.len()).ok_or(CUT)?;
    let mut key = 0_i64;
    let mut keys = Vec::with_capacity(n_rows);
    for _ in 0..n_rows {
        key = key.wrapping_add(difference(&mut raw)?);
        keys.push(key);
    }
    let (masks, mut raw) = raw.split_at_checked(n_rows).ok_or(CUT)?;
    let mut columns: [Vec<i64>; WIDTH] = std::array::from_fn(|_| Vec::new());
    for (index, column) in columns.iter_mut().enumerate() {
        let mut value = 0_i64;
        for _ in masks.iter().filter(|mask| **mask & 1 << index != 0) {
            value = value.wrapping_add(difference(&mut raw)?);
            column.push(value);
        }
    }
    let mut columns = columns.map(Vec::into_iter);
    for (key, mask) in keys.into_iter().zip(masks) {
        let value = |index: usize| if mask & 1 << index == 0 { None } else { columns[index].next() };
        take(key, std::array::from_fn(value));
    }
    Ok(())
}

fn put(bytes: &mut Vec<u8>, difference: i64) {
    encode_varint(((difference << 1) ^ (difference >> 63)).cast_unsigned(), bytes);
}

fn difference(bytes: &mut &[u8]) -> Result<i64, Damaged> {
    let zigzag = number(bytes)?;
    Ok((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
}

fn number(bytes: &mut &[u8]) -> Result<u64, Damaged> {
    decode_varint(bytes).map_err(|_| CUT)
}

thread_local! {
    // Making one takes longer than packing a value.
    static COMPRESSOR: RefCell<std::io::Result<Compressor<'static>>> = RefCell::new(Compressor::new(ZSTD_LEVEL));
    static DECOMPRESSOR: RefCell<std::io::Result<Decompressor<'static>>> = RefCell::new(Decompressor::new());
}

const CUT: Damaged = Damaged("it ends too early");
const VERSION: u8 = 1;
/// The same, not packed.
const VERSION_PLAIN: u8 = 2;
/// zstd's own default.
const ZSTD_LEVEL: i32 = 3;
/// A value has some thousand rows, of some tens of bytes before they are packed.
const UNPACKED_MAX_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(packed: &[u8]) -> Result<Vec<(i64, Values)>, Damaged> {
        let mut found = Vec::new();
        unpack(packed, |key, values| found.push((key, values)))?;
        Ok(found)
    }

    fn packed(rows: &[(i64, Values)]) -> Option<Vec<u8>> {
        let mut packer = Packer::default();
        rows.iter().for_each(|(key, values)| packer.push(*key, values));
        packer.pack()
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(rows in prop::collection::vec((any::<i64>(), any::<[Option<i64>; WIDTH]>()), 1..200)) {
            prop_assert_eq!(read(&packed(&rows).unwrap()).unwrap(), rows);
        }

        #[test]
        fn damage_is_an_error_or_other_rows_and_no_panic(
            rows in prop::collection::vec((any::<i64>(), any::<[Option<i64>; WIDTH]>()), 1..20),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            n_kept in any::<prop::sample::Index>(),
        ) {
            let mut bytes = packed(&rows).unwrap();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = read(&bytes);
            let n_kept = n_kept.index(bytes.len());
            let _ = read(&bytes[..n_kept]);
            bytes[0] = VERSION_PLAIN;
            let _ = read(&bytes);
        }
    }

    #[test]
    fn nothing_is_no_value() {
        assert_eq!(packed(&[]), None);
        assert!(read(&[]).is_err());
    }

    /// Ten minutes of a rank that works: a row of its own takes a hundred bytes.
    #[test]
    fn a_sample_takes_some_bytes() {
        let mut packer = Packer::default();
        for n in 0..600_i64 {
            let calls = 1_000_000 + n * 97 + n % 3;
            let bytes = calls * 4_194_304;
            packer.push(
                1_760_000_000_000 + n * 1_000 + n % 5,
                &[
                    Some(calls),
                    Some(bytes),
                    Some(calls - 2),
                    Some(bytes - 8_388_608),
                    None,
                    Some(bytes / 3),
                    None,
                ],
            );
        }
        let n_bytes = packer.pack().unwrap().len();
        assert!(n_bytes < 600 * 12, "{n_bytes}");
    }
}
