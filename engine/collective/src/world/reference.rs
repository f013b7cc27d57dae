//! What a reduction must give, by its definition, and how far rounding may take the engine from it.
//!
//! Whole numbers wrap and have one right result; so have maxima and minima. A sum of n floats in any order is off by at
//! most γ(n−1)·Σ|x|, with γ(k) = (1+u)^k − 1 and u = 2^-24 (`f32`, and what is accumulated in it) or 2^-53 (`f64`); a product
//! by γ(n−1)·|Πx| (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, §3.1 and §4.2). An average is divided
//! once: γ(n)·Σ|x|/n. The reference itself is computed in `f64`, so its own γ is added. A narrower type is rounded at the
//! end, by half of its unit in the last place at most; where its partial results have its width, each is, so that u is
//! its own and half of its least number is added for each (Higham, §2.1). That notices little, so
//! [`replay`](crate::world::replay) says which bits are right. Where the order is fixed, so are the bits.

use crate::collective::algorithm::Algorithm;
use crate::types::{DataType, RedOp};
use crate::world::numbers::{accumulator, float, float_bytes, integer, integer_bytes, precision};

/// One element of a result.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// These bytes.
    Exactly(Vec<u8>),
    /// A float, give or take.
    Near(f64, f64),
}

/// Whose order of reduction is part of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Nobody's.
    Free,
    /// Left to right by rank.
    Left,
    /// Along the fixed tree.
    Tree,
}

impl Order {
    /// That of an algorithm.
    pub(super) fn of(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Direct => Self::Left,
            Algorithm::FixedTree => Self::Tree,
            _ => Self::Free,
        }
    }
}

/// The reduction of one element of each rank, in the order of the ranks.
pub(super) fn reduced(data_type: DataType, op: RedOp, order: Order, elements: &[&[u8]]) -> Wanted {
    if data_type.is_float() {
        let values: Vec<f64> = elements.iter().map(|element| float(data_type, element)).collect();
        if matches!(op, RedOp::Max | RedOp::Min) {
            let picked = values.into_iter().reduce(|one, other| extreme(op, one, other)).unwrap_or(0.0);
            return Wanted::Exactly(float_bytes(data_type, picked));
        }
        return if order == Order::Free {
            bounded(data_type, op, &values)
        } else {
            Wanted::Exactly(float_bytes(data_type, in_order(data_type, op, order, &values)))
        };
    }
    let wrap = |value| integer(data_type, &integer_bytes(data_type, value));
    let values = elements.iter().map(|element| integer(data_type, element));
    let reduced = values.reduce(|one, other| match op {
        RedOp::Prod => wrap(one.wrapping_mul(other)),
        RedOp::Max => one.max(other),
        RedOp::Min => one.min(other),
        RedOp::Sum | RedOp::Avg => wrap(one + other),
    });
    let divisor = if op == RedOp::Avg { elements.len() as i128 } else { 1 };
    Wanted::Exactly(integer_bytes(data_type, reduced.unwrap_or(0) / divisor))
}

/// The element times a scalar of its type, rounded to it.
pub(super) fn scaled(data_type: DataType, element: &[u8], scalar: &[u8]) -> Vec<u8> {
    if data_type.is_float() {
        float_bytes(data_type, float(data_type, element) * float(data_type, scalar))
    } else {
        integer_bytes(data_type, integer(data_type, element).wrapping_mul(integer(data_type, scalar)))
    }
}

/// Of two zeros, the maximum is the positive one and the minimum the negative one.
fn extreme(op: RedOp, one: f64, other: f64) -> f64 {
    let first_is_less = one < other || one == other && one.is_sign_negative();
    if first_is_less == (op == RedOp::Min) { one } else { other }
}

fn bounded(data_type: DataType, op: RedOp, values: &[f64]) -> Wanted {
    let n = values.len() as f64;
    let (value, scale, roundings) = match op {
        RedOp::Prod => {
            let product: f64 = values.iter().product();
            (product, product.abs(), n - 1.0)
        }
        RedOp::Avg => {
            let size = values.iter().map(|value| value.abs()).sum::<f64>() / n;
            (values.iter().sum::<f64>() / n, size, n)
        }
        _ => (values.iter().sum(), values.iter().map(|value| value.abs()).sum(), n - 1.0),
    };
    let gamma = |unit: f64| (roundings * unit.ln_1p()).exp_m1();
    let precision = precision(data_type);
    let narrow = precision.narrow;
    let unit = precision.unit + narrow.map_or(0.0, |(mantissa, _)| f64::from(-mantissa - 1).exp2());
    // What a product lost below the least number, later factors may enlarge.
    let enlarged =
        if op == RedOp::Prod { values.iter().map(|value| value.abs().max(1.0)).product() } else { 1.0 };
    let lost =
        narrow.map_or(0.0, |(mantissa, least)| roundings * f64::from(least - mantissa - 1).exp2() * enlarged);
    let error = (gamma(unit) + gamma((-53_f64).exp2())) * scale + lost;
    let rounding = precision.narrow.map_or(0.0, |(mantissa, least)| {
        let exponent = (value.abs() + error).log2().floor().max(f64::from(least));
        (exponent - f64::from(mantissa) - 1.0).exp2()
    });
    Wanted::Near(value, error + rounding)
}

fn in_order(data_type: DataType, op: RedOp, order: Order, values: &[f64]) -> f64 {
    let reducer = |one: f64, other: f64| {
        accumulator(data_type, if op == RedOp::Prod { one * other } else { one + other })
    };
    let reduced = if order == Order::Tree {
        along_tree(values, &reducer)
    } else {
        values.iter().copied().reduce(reducer).unwrap_or(0.0)
    };
    if op == RedOp::Avg { accumulator(data_type, reduced / values.len() as f64) } else { reduced }
}

/// The left part is as large as a power of two can be that leaves something.
fn along_tree(values: &[f64], reducer: &impl Fn(f64, f64) -> f64) -> f64 {
    if let [value] = values {
        return *value;
    }
    let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
    reducer(along_tree(left, reducer), along_tree(right, reducer))
}

impl Wanted {
    /// Whether these bytes will do.
    pub(super) fn accepts(&self, data_type: DataType, bytes: &[u8]) -> bool {
        match self {
            Self::Exactly(exact) => bytes == exact,
            Self::Near(value, error) => (float(data_type, bytes) - value).abs() <= *error,
        }
    }
}

#[test]
fn bounds_are_tight_enough_to_notice_a_missing_rank() {
    let values: Vec<Vec<u8>> = [1.0, 0.5, -2.0].map(|value| float_bytes(DataType::F32, value)).to_vec();
    let elements: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let wanted = reduced(DataType::F32, RedOp::Sum, Order::Free, &elements);
    assert!(wanted.accepts(DataType::F32, &float_bytes(DataType::F32, -0.5)));
    assert!(!wanted.accepts(DataType::F32, &float_bytes(DataType::F32, -0.500_001)));
    assert!(!wanted.accepts(DataType::F32, &float_bytes(DataType::F32, 1.5)));
}
