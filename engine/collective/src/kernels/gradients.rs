//! What codecs of gradients do to slices of `f32`: signs, magnitudes, sums with what was left out before.
//!
//! Each is one loop, which the compiler makes for each instruction set. No sum is associated in another way in any of them,
//! so all give the same bits.

#![expect(
    unsafe_code,
    reason = "enters functions of a variant only where the processor has it, and bytes as elements"
)]

use super::Variant;

/// Sums side by side: enough to fill registers with, and always the same, for the same bits everywhere.
const LANES: usize = 16;
/// Elements that are looked at together where few are wanted.
const BLOCK: usize = 32;
/// The sign of an `f32`.
const SIGN: u32 = 1 << 31;

/// Bytes as elements, where they are aligned and whole.
#[must_use]
pub fn floats(bytes: &[u8]) -> Option<&[f32]> {
    // SAFETY: any four bytes are an element.
    let (before, floats, after) = unsafe { bytes.align_to::<f32>() };
    (before.is_empty() && after.is_empty()).then_some(floats)
}

/// The same, to be written.
#[must_use]
pub fn floats_mut(bytes: &mut [u8]) -> Option<&mut [f32]> {
    // SAFETY: any four bytes are an element, and any element four bytes.
    let (before, floats, after) = unsafe { bytes.align_to_mut::<f32>() };
    (before.is_empty() && after.is_empty()).then_some(floats)
}

/// Makes a function of each loop, which runs it as the processor's widest variant.
macro_rules! for_all_variants {
    ($($(#[$doc:meta])* pub fn $name:ident / $plain:ident / $avx2:ident / $avx512:ident ($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {$(
        $(#[$doc])*
        pub fn $name($($arg: $type),*) $(-> $result)? {
            match Variant::best() {
                Variant::Scalar => $plain($($arg),*),
                // SAFETY: a variant is chosen only where the processor has it.
                #[cfg(target_arch = "x86_64")]
                Variant::Avx2 => unsafe { $avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Variant::Avx512 => unsafe { $avx512($($arg),*) },
                #[cfg(not(target_arch = "x86_64"))]
                _ => $plain($($arg),*),
            }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        fn $avx2($($arg: $type),*) $(-> $result)? {
            $plain($($arg),*)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn $avx512($($arg: $type),*) $(-> $result)? {
            $plain($($arg),*)
        }
    )*};
}

for_all_variants! {
    /// Σ|x| in `f64`, always associated in the same way.
    pub fn magnitudes / magnitudes_plain / magnitudes_avx2 / magnitudes_avx512(values: &[f32]) -> f64;

    /// The same of the sums of two; as many as both have.
    pub fn magnitudes_of_sums / magnitudes_of_sums_plain / magnitudes_of_sums_avx2 / magnitudes_of_sums_avx512(
        values: &[f32],
        others: &[f32],
    ) -> f64;

    /// The signs of elements, eight in a byte, the first in the lowest bit, set for negative ones.
    pub fn signs / signs_plain / signs_avx2 / signs_avx512(values: &[f32], into: &mut [u8]);

    /// The signs of the sums x of `values` and `rest`, which becomes x − (`scale` with the sign of x).
    pub fn signs_of_sums / signs_of_sums_plain / signs_of_sums_avx2 / signs_of_sums_avx512(
        values: &[f32],
        rest: &mut [f32],
        scale: f32,
        into: &mut [u8],
    );

    /// `into` = `scale` with each sign.
    pub fn scale_signs / scale_signs_plain / scale_signs_avx2 / scale_signs_avx512(signs: &[u8], scale: f32, into: &mut [f32]);

    /// `into` = `into` + (`scale` with each sign).
    pub fn add_signs / add_signs_plain / add_signs_avx2 / add_signs_avx512(signs: &[u8], scale: f32, into: &mut [f32]);

    /// `into` = `values` + `others`; the bits of the largest magnitude among the sums, NaNs being the largest.
    pub fn add_up / add_up_plain / add_up_avx2 / add_up_avx512(values: &[f32], others: &[f32], into: &mut [f32]) -> u32;

    /// Appends the places of elements whose magnitude has these bits or higher ones.
    pub fn find_large / find_large_plain / find_large_avx2 / find_large_avx512(values: &[f32], bar: u32, into: &mut Vec<usize>);
}

/// In the order of magnitudes, NaNs last.
#[must_use]
#[inline(always)]
pub fn magnitude(value: f32) -> u32 {
    value.to_bits() & !SIGN
}

#[inline(always)]
fn magnitudes_plain(values: &[f32]) -> f64 {
    let mut sums = [0.0; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for group in whole {
        for (sum, value) in sums.iter_mut().zip(group) {
            *sum += f64::from(value.abs());
        }
    }
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum += f64::from(value.abs());
    }
    sums.iter().sum()
}

#[inline(always)]
fn magnitudes_of_sums_plain(values: &[f32], others: &[f32]) -> f64 {
    let mut sums = [0.0; LANES];
    let ((whole, rest), (others, others_rest)) = (values.as_chunks::<LANES>(), others.as_chunks::<LANES>());
    for (group, others) in whole.iter().zip(others) {
        for ((sum, value), other) in sums.iter_mut().zip(group).zip(others) {
            *sum += f64::from((value + other).abs());
        }
    }
    for ((sum, value), other) in sums.iter_mut().zip(rest).zip(others_rest) {
        *sum += f64::from((value + other).abs());
    }
    sums.iter().sum()
}

/// Of up to eight elements.
#[inline(always)]
fn signs_of(eight: &[f32]) -> u8 {
    let bit = |(lane, value): (usize, &f32)| u8::from(value.is_sign_negative()) << lane;
    eight.iter().enumerate().map(bit).fold(0, std::ops::BitOr::bitor)
}

#[inline(always)]
fn signs_of_eight(eight: &[f32; 8]) -> u8 {
    let mut bits = 0;
    for (lane, value) in (0..).zip(eight) {
        bits |= (value.to_bits() >> 31) << lane;
    }
    bits.to_le_bytes()[0]
}

#[inline(always)]
fn signs_plain(values: &[f32], into: &mut [u8]) {
    let (whole, rest) = values.as_chunks::<8>();
    let (bytes, last) = into.split_at_mut(whole.len().min(into.len()));
    for (byte, eight) in bytes.iter_mut().zip(whole) {
        *byte = signs_of_eight(eight);
    }
    last.iter_mut().take(usize::from(!rest.is_empty())).for_each(|byte| *byte = signs_of(rest));
}

#[inline(always)]
fn signs_of_sums_plain(values: &[f32], rest: &mut [f32], scale: f32, into: &mut [u8]) {
    let scale = scale.to_bits();
    let left_out = |x: f32| x - f32::from_bits(scale | x.to_bits() & SIGN);
    let ((whole, last), (rests, rest_last)) = (values.as_chunks::<8>(), rest.as_chunks_mut::<8>());
    for ((byte, eight), rests) in into.iter_mut().zip(whole).zip(rests) {
        let mut sums = [0.0; 8];
        for ((sum, value), rest) in sums.iter_mut().zip(eight).zip(rests.iter_mut()) {
            *sum = value + *rest;
            *rest = left_out(*sum);
        }
        *byte = signs_of_eight(&sums);
    }
    let Some(byte) = into.get_mut(whole.len()).filter(|_| !last.is_empty()) else { return };
    *byte = 0;
    for ((lane, value), rest) in (0..).zip(last).zip(rest_last) {
        let sum = value + *rest;
        *rest = left_out(sum);
        *byte |= u8::from(sum.is_sign_negative()) << lane;
    }
}

#[inline(always)]
fn visit_signs(signs: &[u8], scale: f32, into: &mut [f32], apply: impl Fn(&mut f32, f32)) {
    let scale = scale.to_bits();
    let signed = |byte: u8, lane: u32| f32::from_bits(scale | (u32::from(byte) << (31 - lane)) & SIGN);
    let (whole, last) = into.as_chunks_mut::<8>();
    let last_byte = signs.get(whole.len()).copied();
    for (eight, byte) in whole.iter_mut().zip(signs) {
        for (lane, element) in (0..).zip(eight) {
            apply(element, signed(*byte, lane));
        }
    }
    for (lane, element) in (0..).zip(last) {
        last_byte.into_iter().for_each(|byte| apply(element, signed(byte, lane)));
    }
}

#[inline(always)]
fn scale_signs_plain(signs: &[u8], scale: f32, into: &mut [f32]) {
    visit_signs(signs, scale, into, |element, value| *element = value);
}

#[inline(always)]
fn add_signs_plain(signs: &[u8], scale: f32, into: &mut [f32]) {
    visit_signs(signs, scale, into, |element, value| *element += value);
}

#[inline(always)]
fn add_up_plain(values: &[f32], others: &[f32], into: &mut [f32]) -> u32 {
    let mut most = [0; LANES];
    let (whole, last) = into.as_chunks_mut::<LANES>();
    let ((values, values_last), (others, others_last)) =
        (values.as_chunks::<LANES>(), others.as_chunks::<LANES>());
    for ((group, values), others) in whole.iter_mut().zip(values).zip(others) {
        for (((sum, value), other), most) in group.iter_mut().zip(values).zip(others).zip(&mut most) {
            *sum = value + other;
            *most = (*most).max(magnitude(*sum));
        }
    }
    for (((sum, value), other), most) in last.iter_mut().zip(values_last).zip(others_last).zip(&mut most) {
        *sum = value + other;
        *most = (*most).max(magnitude(*sum));
    }
    most.into_iter().max().unwrap_or(0)
}

#[inline(always)]
fn find_large_plain(values: &[f32], bar: u32, into: &mut Vec<usize>) {
    for (index, block) in values.chunks(BLOCK).enumerate() {
        let most = match block.first_chunk::<BLOCK>() {
            Some(block) => block.iter().fold(0, |most, value| magnitude(*value).max(most)),
            None => u32::MAX,
        };
        if most >= bar {
            let large = block.iter().enumerate().filter(|(_, value)| magnitude(**value) >= bar);
            into.extend(large.map(|(place, _)| index * BLOCK + place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of all kinds, NaNs, infinities and zeros of both signs among them.
    fn numbers(seed: u32, count: usize) -> Vec<f32> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match state >> 28 {
                0 => f32::from_bits(state << 4),
                1 => f32::NEG_INFINITY,
                2 => -0.0,
                _ => f32::from_bits(0x3f80_0000 | (state >> 9)) * if state & 256 == 0 { 1.0 } else { -1.0 },
            }
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| if value.is_nan() { 1 } else { value.to_bits() }).collect()
    }

    #[test]
    fn every_variant_does_what_the_plain_loop_does() {
        for count in [0, 1, 7, 8, 9, 16, 31, 32, 33, 1000, 4099] {
            let (values, others) = (numbers(1, count), numbers(2, count));
            let sums: Vec<f32> = values.iter().zip(&others).map(|(a, b)| a + b).collect();
            let finite: Vec<f32> =
                values.iter().map(|value| if value.is_finite() { *value } else { 1.0 }).collect();
            assert_eq!(magnitudes(&finite).to_bits(), magnitudes_plain(&finite).to_bits());
            assert_eq!(
                magnitudes_of_sums(&finite, &finite).to_bits(),
                magnitudes_plain(&finite.iter().map(|x| x + x).collect::<Vec<_>>()).to_bits()
            );
            let mut signed = vec![0xff; count.div_ceil(8)];
            signs(&values, &mut signed);
            let wanted: Vec<u8> = values.chunks(8).map(signs_of).collect();
            assert_eq!(signed, wanted);
            let mut scaled = vec![0.0; count];
            scale_signs(&signed, 2.5, &mut scaled);
            assert!(scaled.iter().zip(&values).all(|(scaled, value)| *scaled == 2.5_f32.copysign(*value)));
            let mut added = others.clone();
            add_signs(&signed, 2.5, &mut added);
            let wanted: Vec<f32> = others.iter().zip(&scaled).map(|(a, b)| a + b).collect();
            assert_eq!(bits(&added), bits(&wanted));
            let mut rest = others.clone();
            signs_of_sums(&values, &mut rest, 0.5, &mut signed);
            let wanted: Vec<f32> = sums.iter().map(|x| x - 0.5_f32.copysign(*x)).collect();
            assert_eq!(bits(&rest), bits(&wanted));
            assert!(sums.iter().enumerate().all(|(at, x)| {
                x.is_nan() || (signed[at / 8] >> (at % 8) & 1 == 1) == x.is_sign_negative()
            }));
            let mut into = vec![0.0; count];
            let most = add_up(&values, &others, &mut into);
            assert_eq!(bits(&into), bits(&sums));
            assert_eq!(most, sums.iter().map(|x| magnitude(*x)).max().unwrap_or(0));
            let bar = magnitude(1.5);
            let mut found = Vec::new();
            find_large(&values, bar, &mut found);
            let wanted: Vec<usize> = (0..count).filter(|at| magnitude(values[*at]) >= bar).collect();
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn bytes_are_elements_where_they_are_aligned_and_whole() {
        let mut values = [1.0_f32, -2.0];
        let address = values.as_mut_ptr().cast::<u8>();
        // SAFETY: the bytes of two elements.
        let bytes = unsafe { std::slice::from_raw_parts_mut(address, 8) };
        assert_eq!(floats(bytes), Some(&[1.0, -2.0][..]));
        assert_eq!((floats(&bytes[1..5]), floats(&bytes[..6])), (None, None));
        floats_mut(bytes).unwrap()[1] = 7.0;
        assert!(floats_mut(&mut bytes[1..]).is_none());
        assert_eq!(values, [1.0, 7.0]);
    }
}
