//! The pictures: 8 by 8 pixels from 0 to 16 and the digit, 1 797 of them; see fixtures/digits.

use std::io::{Error, ErrorKind, Read};
use std::path::Path;

/// Pixels of a picture.
pub(crate) const PIXELS: usize = 64;
/// Pictures of a step.
pub(crate) const BATCH: usize = 96;
/// The others are for the accuracy.
const N_TRAINING: usize = 1440;
const FULL: f32 = 16.0;
const SEED: u64 = 20;

/// All pictures, shuffled.
pub(crate) struct Data {
    pictures: Vec<[f32; PIXELS]>,
    digits: Vec<u8>,
}

impl Data {
    pub(crate) fn read(path: &Path) -> std::io::Result<Self> {
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
        let mut all: Vec<([f32; PIXELS], u8)> = Vec::new();
        for line in text.lines() {
            let numbers: Option<Vec<u8>> = line.split(',').map(|number| number.trim().parse().ok()).collect();
            let odd = || Error::new(ErrorKind::InvalidData, format!("not a picture: {line}"));
            let numbers = numbers.filter(|numbers| numbers.len() == PIXELS + 1).ok_or_else(odd)?;
            let mut picture = [0.0; PIXELS];
            for (pixel, number) in picture.iter_mut().zip(&numbers) {
                *pixel = f32::from(*number) / FULL;
            }
            all.push((picture, numbers.last().copied().unwrap_or(0)));
        }
        shuffle(&mut all, &mut Random(SEED));
        let (pictures, digits) = all.into_iter().unzip();
        Ok(Self { pictures, digits })
    }

    /// The pictures and digits of a step: each epoch goes through all training pictures in another order.
    pub(crate) fn batch(&self, step: u64) -> impl Iterator<Item = (&[f32; PIXELS], u8)> {
        let per_epoch = (N_TRAINING / BATCH) as u64;
        let mut order: Vec<usize> = (0..N_TRAINING).collect();
        shuffle(&mut order, &mut Random(SEED + 1 + step / per_epoch));
        let first = usize::try_from(step % per_epoch).unwrap_or(0) * BATCH;
        let chosen: Vec<usize> = order.into_iter().skip(first).take(BATCH).collect();
        chosen
            .into_iter()
            .filter_map(|picture| self.pictures.get(picture).zip(self.digits.get(picture).copied()))
    }

    /// The pictures that are not learnt from.
    pub(crate) fn others(&self) -> impl Iterator<Item = (&[f32; PIXELS], u8)> {
        self.pictures.iter().zip(self.digits.iter().copied()).skip(N_TRAINING)
    }
}

fn shuffle<T>(all: &mut [T], random: &mut Random) {
    for end in (1..all.len()).rev() {
        let other = usize::try_from(random.next() % (end as u64 + 1)).unwrap_or(0);
        all.swap(end, other);
    }
}

/// Numbers that look random (splitmix64), the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From -1 to 1.
    pub(crate) fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }
}
