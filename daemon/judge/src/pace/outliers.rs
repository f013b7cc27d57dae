//! Who stands out above the others. Pure.

/// Those that stand out, and what is usual.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outliers {
    /// Their places among what was asked.
    pub(super) places: Vec<usize>,
    /// What is usual: a quarter of all is not above it.
    pub(super) usual: f64,
}

/// Those of `values` that are above what is usual by `least` at least, and apart from all others: where values spread without a gap,
/// nobody stands out. At most half of them.
pub(super) fn outliers(values: &[f64], least: f64) -> Option<Outliers> {
    if values.len() < 2 {
        return None;
    }
    let mut order: Vec<usize> = (0..values.len()).collect();
    let value = |at: usize| values.get(at).copied().unwrap_or_default();
    order.sort_by(|one, other| value(*one).total_cmp(&value(*other)));
    let usual = order.get((values.len() - 1) / 4).copied().map(value)?;
    // The widest gap above the middle parts those who stand out from the others.
    let middle = values.len().div_ceil(2);
    let gap = |at: usize| {
        value(order.get(at).copied().unwrap_or_default())
            - value(order.get(at - 1).copied().unwrap_or_default())
    };
    let cut = (middle..order.len()).max_by(|one, other| gap(*one).total_cmp(&gap(*other)))?;
    let places: Vec<usize> = order.get(cut..)?.to_vec();
    let lowest = places.first().copied().map(value)?;
    let highest_other = value(order.get(cut - 1).copied()?);
    let stands_out = lowest - usual >= least && lowest - highest_other >= APART * (lowest - usual);
    stands_out.then_some(Outliers { places, usual })
}

/// The values that so many percent of all are not above.
pub(super) fn quantiles<const N: usize>(mut all: Vec<f64>, percent: [usize; N]) -> [f64; N] {
    all.sort_by(f64::total_cmp);
    percent.map(|percent| all.get(all.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default())
}

/// The value that so many percent of all are not above.
pub(super) fn quantile(all: Vec<f64>, percent: usize) -> f64 {
    let [value] = quantiles(all, [percent]);
    value
}

/// Who stands out is so far from the others, as a share of how far it is from what is usual.
const APART: f64 = 0.4;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[f64], expected: &[usize]) {
        let found = outliers(values, 0.06).map(|found| found.places).unwrap_or_default();
        assert_eq!(found, expected, "{values:?}");
    }

    #[test]
    fn one_that_is_apart_stands_out() {
        check(&[0.3, 0.3, 0.3, 0.5], &[3]);
        check(&[0.3, 0.5], &[1]);
        check(&[0.3, 0.32, 0.29, 0.5, 0.31, 0.3], &[3]);
        check(&[0.3, 0.3, 0.5, 0.6], &[2, 3]);
    }

    #[test]
    fn nobody_stands_out() {
        check(&[], &[]);
        check(&[0.9], &[]);
        check(&[0.3, 0.34], &[]);
        check(&[0.3, 0.3, 0.3, 0.3], &[]);
        // A spread without a gap, as of experts that get more or less.
        check(&[0.30, 0.33, 0.36, 0.39, 0.42, 0.45, 0.48], &[]);
    }
}
