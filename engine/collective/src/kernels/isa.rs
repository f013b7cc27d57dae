//! Which instruction sets there are kernels for, and which of them this processor has.

#![expect(unsafe_code, reason = "an instruction set is entered only where the processor has it")]

use std::sync::OnceLock;

use crate::kernels::body::{Body, Job};
use crate::kernels::vector::Vector;

/// An instruction set: its registers, and the way into code compiled for it.
pub(super) trait Isa {
    /// A register of `f32` lanes.
    type Lanes: Vector;

    /// Runs a body with the set's features.
    ///
    /// # Safety
    ///
    /// What [`Body::run`] asks for.
    unsafe fn enter<B: Body<Self::Lanes>>(job: &Job);
}

/// A set of kernels, from the least to the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// One lane; the oracle.
    Scalar,
    /// AVX2 with F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Variant {
    const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// What this processor has.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|variant| variant.is_available())
    }

    /// The widest that this processor has.
    pub(crate) fn best() -> Self {
        static BEST: OnceLock<Variant> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().last().unwrap_or(Self::Scalar))
    }

    #[cfg(target_arch = "x86_64")]
    fn is_available(self) -> bool {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c");
        match self {
            Self::Scalar => true,
            Self::Avx2 => avx2,
            Self::Avx512 => {
                let foundation = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq");
                avx2 && foundation
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_available(self) -> bool {
        self == Self::Scalar
    }
}
