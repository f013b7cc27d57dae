//! AVX-512 F, BW, DQ and VL: sixteen lanes.
//!
//! `vcvtneps2bf16` (AVX512-BF16) is not used: it takes subnormals for zero, which the oracle does not.

#![expect(unsafe_code, reason = "AVX-512, which is entered only where the processor has it")]
#![expect(clippy::multiple_unsafe_ops_per_block, reason = "one promise, the features, covers each function")]

use std::arch::x86_64::*;

use crate::kernels::body::{Body, Job};
use crate::kernels::float8::{E4M3, E5M2, Layout};
use crate::kernels::isa::Isa;
use crate::kernels::vector::{Bf16, Codec, E4m3, E5m2, F16, F32, StreamedF32, Vector};

/// Entered where [`super::isa::Variant::Avx512`] is available.
pub(super) struct Avx512;

impl Isa for Avx512 {
    type Lanes = __m512;

    #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn enter<B: Body<__m512>>(job: &Job) {
        // SAFETY: the caller's promise is the body's.
        unsafe { B::run(job) }
    }
}

impl Vector for __m512 {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm512_add_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm512_mul_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm512_div_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe {
            let take = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(other, self)
                | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self, self);
            let picked = _mm512_mask_mov_ps(self, take, other);
            _mm512_mask_or_ps(picked, _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self, other), self, other)
        }
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe {
            let take = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(other, self)
                | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self, self);
            let picked = _mm512_mask_mov_ps(self, take, other);
            _mm512_mask_and_ps(picked, _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self, other), self, other)
        }
    }
}

impl Codec<__m512> for F32 {
    const SIZE_BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512 {
        // SAFETY: sixteen elements are readable.
        unsafe { _mm512_loadu_ps(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(into: *mut u8, value: __m512) {
        // SAFETY: sixteen elements are writable.
        unsafe { _mm512_storeu_ps(into.cast(), value) }
    }
}

impl Codec<__m512> for StreamedF32 {
    const SIZE_BYTES: usize = 4;
    const ALIGN_BYTES: usize = 64;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512 {
        // SAFETY: the same promise.
        unsafe { F32::load(from) }
    }

    #[inline(always)]
    unsafe fn store(into: *mut u8, value: __m512) {
        // SAFETY: sixteen elements are writable, at an aligned address.
        unsafe { _mm512_stream_ps(into.cast(), value) }
    }
}

impl Codec<__m512> for F16 {
    const SIZE_BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512 {
        // SAFETY: sixteen elements are readable.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(into: *mut u8, value: __m512) {
        // SAFETY: sixteen elements are writable.
        unsafe { _mm256_storeu_si256(into.cast(), _mm512_cvtps_ph::<_MM_FROUND_NO_EXC>(value)) }
    }
}

impl Codec<__m512> for Bf16 {
    const SIZE_BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512 {
        // SAFETY: sixteen elements are readable.
        unsafe {
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(
                from.cast(),
            ))))
        }
    }

    #[inline(always)]
    unsafe fn store(into: *mut u8, value: __m512) {
        // SAFETY: sixteen elements are writable.
        unsafe {
            let bits = _mm512_castps_si512(value);
            let high = _mm512_srli_epi32::<16>(bits);
            let odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
            let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
            let quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value);
            let result = _mm512_mask_mov_epi32(_mm512_srli_epi32::<16>(rounded), nan, quiet);
            _mm256_storeu_si256(into.cast(), _mm512_cvtepi32_epi16(result));
        }
    }
}

impl Codec<__m512> for E4m3 {
    const SIZE_BYTES: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512 {
        // SAFETY: sixteen elements are readable.
        unsafe {
            let bits = _mm256_cvtepu8_epi16(_mm_loadu_si128(from.cast()));
            let magnitude = _mm256_and_si256(bits, _mm256_set1_epi16(0x7f));
            let sign = _mm256_slli_epi16::<8>(_mm256_and_si256(bits, _mm256_set1_epi16(0x80)));
            let nan = _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x7f));
            let half =
                _mm256_mask_mov_epi16(_mm256_slli_epi16::<7>(magnitude), nan, _mm256_set1_epi16(0x7e00));
            _mm512_mul_ps(_mm512_cvtph_ps(_mm256_or_si256(half, sign)), _mm512_set1_ps(256.0))
        }
    }

    #[inline(always)]
    unsafe fn store(into: *mut u8, value: __m512) {
        // SAFETY: sixteen elements are writable.
        unsafe { _mm_storeu_si128(into.cast(), narrow::<20>(E4M3, value)) }
    }
}

impl Codec<__m512> for E5m2 {
    const SIZE_BYTES: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512 {
        // SAFETY: sixteen elements are readable.
        unsafe {
            let bits = _mm256_cvtepu8_epi16(_mm_loadu_si128(from.cast()));
            _mm512_cvtph_ps(_mm256_slli_epi16::<8>(bits))
        }
    }

    #[inline(always)]
    unsafe fn store(into: *mut u8, value: __m512) {
        // SAFETY: sixteen elements are writable.
        unsafe { _mm_storeu_si128(into.cast(), narrow::<21>(E5M2, value)) }
    }
}

#[inline(always)]
unsafe fn splat(bits: u32) -> __m512i {
    // SAFETY: the caller has the features.
    unsafe { _mm512_set1_epi32(bits.cast_signed()) }
}

/// See [`super::float8`]. `SHIFT` is the layout's, which an immediate has to be.
#[inline(always)]
unsafe fn narrow<const SHIFT: u32>(layout: Layout, value: __m512) -> __m128i {
    // SAFETY: the caller has the features.
    unsafe {
        let bits = _mm512_castps_si512(value);
        let sign = _mm512_and_si512(_mm512_srli_epi32::<24>(bits), splat(0x80));
        let clamped = _mm512_min_epi32(_mm512_and_si512(bits, splat(0x7fff_ffff)), splat(layout.max));
        let magic = splat(layout.magic);
        let aligned = _mm512_add_ps(_mm512_castsi512_ps(clamped), _mm512_castsi512_ps(magic));
        let subnormal = _mm512_sub_epi32(_mm512_castps_si512(aligned), magic);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<SHIFT>(clamped), splat(1));
        let half = splat(((1 << (SHIFT - 1)) - 1_u32).wrapping_sub(layout.rebias));
        let normal = _mm512_srli_epi32::<SHIFT>(_mm512_add_epi32(_mm512_add_epi32(clamped, odd), half));
        let small = _mm512_cmplt_epi32_mask(clamped, splat(layout.min_normal));
        let finite = _mm512_mask_mov_epi32(normal, small, subnormal);
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value);
        let rounded = _mm512_mask_mov_epi32(finite, nan, splat(0x7f));
        _mm512_cvtepi32_epi8(_mm512_or_si512(rounded, sign))
    }
}
