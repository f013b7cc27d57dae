//! AVX2 with F16C: eight lanes.

#![expect(unsafe_code, reason = "AVX2, which is entered only where the processor has it")]
#![expect(clippy::multiple_unsafe_ops_per_block, reason = "one promise, the features, covers each function")]

use std::arch::x86_64::*;

use crate::kernels::body::{Body, Job};
use crate::kernels::float8::{E4M3, E5M2, Layout};
use crate::kernels::isa::Isa;
use crate::kernels::vector::{Bf16, Codec, E4m3, E5m2, F16, F32, StreamedF32, Vector};

/// Entered where [`super::isa::Variant::Avx2`] is available.
pub(super) struct Avx2;

impl Isa for Avx2 {
    type Lanes = __m256;

    #[target_feature(enable = "avx2,f16c")]
    unsafe fn enter<B: Body<__m256>>(job: &Job) {
        // SAFETY: the caller's promise is the body's.
        unsafe { B::run(job) }
    }
}

impl Vector for __m256 {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm256_add_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm256_mul_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm256_div_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe {
            let less = _mm256_cmp_ps::<_CMP_LT_OQ>(other, self);
            let take = _mm256_or_ps(less, _mm256_cmp_ps::<_CMP_UNORD_Q>(self, self));
            let equal = _mm256_cmp_ps::<_CMP_EQ_OQ>(self, other);
            _mm256_blendv_ps(_mm256_blendv_ps(self, other, take), _mm256_or_ps(self, other), equal)
        }
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe {
            let more = _mm256_cmp_ps::<_CMP_GT_OQ>(other, self);
            let take = _mm256_or_ps(more, _mm256_cmp_ps::<_CMP_UNORD_Q>(self, self));
            let equal = _mm256_cmp_ps::<_CMP_EQ_OQ>(self, other);
            _mm256_blendv_ps(_mm256_blendv_ps(self, other, take), _mm256_and_ps(self, other), equal)
        }
    }
}

impl Codec<__m256> for F32 {
    const SIZE_BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m256 {
        // SAFETY: eight elements are readable.
        unsafe { _mm256_loadu_ps(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(into: *mut u8, value: __m256) {
        // SAFETY: eight elements are writable.
        unsafe { _mm256_storeu_ps(into.cast(), value) }
    }
}

impl Codec<__m256> for StreamedF32 {
    const SIZE_BYTES: usize = 4;
    const ALIGN_BYTES: usize = 32;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m256 {
        // SAFETY: the same promise.
        unsafe { F32::load(from) }
    }

    #[inline(always)]
    unsafe fn store(into: *mut u8, value: __m256) {
        // SAFETY: eight elements are writable, at an aligned address.
        unsafe { _mm256_stream_ps(into.cast(), value) }
    }
}

impl Codec<__m256> for F16 {
    const SIZE_BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m256 {
        // SAFETY: eight elements are readable.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(into: *mut u8, value: __m256) {
        // SAFETY: eight elements are writable.
        unsafe { _mm_storeu_si128(into.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value)) }
    }
}

impl Codec<__m256> for Bf16 {
    const SIZE_BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m256 {
        // SAFETY: eight elements are readable.
        unsafe {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()))))
        }
    }

    #[inline(always)]
    unsafe fn store(into: *mut u8, value: __m256) {
        // SAFETY: eight elements are writable.
        unsafe {
            let bits = _mm256_castps_si256(value);
            let high = _mm256_srli_epi32::<16>(bits);
            let odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            let quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(value, value));
            let result = _mm256_blendv_epi8(_mm256_srli_epi32::<16>(rounded), quiet, nan);
            _mm_storeu_si128(into.cast(), low_halves(result));
        }
    }
}

impl Codec<__m256> for E4m3 {
    const SIZE_BYTES: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m256 {
        // SAFETY: eight elements are readable.
        unsafe {
            let bits = _mm_cvtepu8_epi16(_mm_loadl_epi64(from.cast()));
            let magnitude = _mm_and_si128(bits, _mm_set1_epi16(0x7f));
            let sign = _mm_slli_epi16::<8>(_mm_and_si128(bits, _mm_set1_epi16(0x80)));
            let nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f));
            let half = _mm_blendv_epi8(_mm_slli_epi16::<7>(magnitude), _mm_set1_epi16(0x7e00), nan);
            _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(half, sign)), _mm256_set1_ps(256.0))
        }
    }

    #[inline(always)]
    unsafe fn store(into: *mut u8, value: __m256) {
        // SAFETY: eight elements are writable.
        unsafe { _mm_storel_epi64(into.cast(), narrow::<20>(E4M3, value)) }
    }
}

impl Codec<__m256> for E5m2 {
    const SIZE_BYTES: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m256 {
        // SAFETY: eight elements are readable.
        unsafe { _mm256_cvtph_ps(_mm_slli_epi16::<8>(_mm_cvtepu8_epi16(_mm_loadl_epi64(from.cast())))) }
    }

    #[inline(always)]
    unsafe fn store(into: *mut u8, value: __m256) {
        // SAFETY: eight elements are writable.
        unsafe { _mm_storel_epi64(into.cast(), narrow::<21>(E5M2, value)) }
    }
}

/// The low 16 bits of each lane, where the high ones are zero.
#[inline(always)]
unsafe fn low_halves(lanes: __m256i) -> __m128i {
    // SAFETY: the caller has the features.
    unsafe { _mm_packus_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes)) }
}

#[inline(always)]
unsafe fn splat(bits: u32) -> __m256i {
    // SAFETY: the caller has the features.
    unsafe { _mm256_set1_epi32(bits.cast_signed()) }
}

/// See [`super::float8`]. `SHIFT` is the layout's, which an immediate has to be.
#[inline(always)]
unsafe fn narrow<const SHIFT: i32>(layout: Layout, value: __m256) -> __m128i {
    // SAFETY: the caller has the features.
    unsafe {
        let bits = _mm256_castps_si256(value);
        let sign = _mm256_and_si256(_mm256_srli_epi32::<24>(bits), splat(0x80));
        let clamped = _mm256_min_epi32(_mm256_and_si256(bits, splat(0x7fff_ffff)), splat(layout.max));
        let magic = splat(layout.magic);
        let aligned = _mm256_add_ps(_mm256_castsi256_ps(clamped), _mm256_castsi256_ps(magic));
        let subnormal = _mm256_sub_epi32(_mm256_castps_si256(aligned), magic);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<SHIFT>(clamped), splat(1));
        let half = splat(((1 << (SHIFT - 1)) - 1_u32).wrapping_sub(layout.rebias));
        let normal = _mm256_srli_epi32::<SHIFT>(_mm256_add_epi32(_mm256_add_epi32(clamped, odd), half));
        let small = _mm256_cmpgt_epi32(splat(layout.min_normal), clamped);
        let finite = _mm256_blendv_epi8(normal, subnormal, small);
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(value, value));
        let rounded = _mm256_blendv_epi8(finite, splat(0x7f), nan);
        let halves = low_halves(_mm256_or_si256(rounded, sign));
        _mm_packus_epi16(halves, halves)
    }
}
