//! Rolling up: of each series and bucket the rows are kept from which every coarser step can be told, with their true times.
//!
//! Kept is the last row of a bucket, and both sides of each place where growth cannot be taken as a difference: a series
//! begins, a counter falls, a counter is measured or is no longer. The others lie on the way between two that are kept.
//! Of what is judged by its worst, every row that is kept has the largest value of its bucket.
//!
//! Pure: rows of one series come by time, and nothing is read.

use super::columns::{Packer, Values};
use super::history::LASTING;

/// The rows of one series on their way into coarser ones.
#[derive(Debug)]
pub(super) struct Fold {
    bucket_ms: i64,
    /// The last row, of which the next one says whether it is kept.
    last: Option<Row>,
    /// Rows that are kept of the bucket that is not over; their worst values are not yet known.
    kept: Vec<Row>,
    worst: Values,
    out: Packer,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    ts_ms: i64,
    values: Values,
    begins: bool,
}

impl Fold {
    pub(super) fn new(bucket_ms: i64) -> Self {
        Self { bucket_ms, last: None, kept: Vec::new(), worst: Values::default(), out: Packer::default() }
    }

    /// Takes the next row. Every run of rows begins with one that is kept.
    pub(super) fn push(&mut self, ts_ms: i64, values: &Values) {
        let begins = self.last.is_none_or(|last| !is_growth(&last.values, values));
        if let Some(last) = self.last.take() {
            let is_last_of_bucket = self.bucket(last.ts_ms) != self.bucket(ts_ms);
            if last.begins || begins || is_last_of_bucket {
                self.kept.push(last);
            }
            if is_last_of_bucket {
                self.close_bucket();
            }
        }
        for (worst, value) in self.worst.iter_mut().zip(values).skip(LASTING) {
            *worst = (*worst).max(*value);
        }
        self.last = Some(Row { ts_ms, values: *values, begins });
    }

    /// The value with what is kept; `None` without a row.
    pub(super) fn pack(mut self) -> Option<Vec<u8>> {
        self.kept.extend(self.last.take());
        self.close_bucket();
        self.out.pack()
    }

    fn close_bucket(&mut self) {
        for mut row in self.kept.drain(..) {
            row.values[LASTING..].copy_from_slice(&self.worst[LASTING..]);
            self.out.push(row.ts_ms, &row.values);
        }
        self.worst = Values::default();
    }

    const fn bucket(&self, ts_ms: i64) -> i64 {
        ts_ms.div_euclid(self.bucket_ms)
    }
}

/// Whether every counter of the later row is what the earlier one has, and more.
fn is_growth(earlier: &Values, later: &Values) -> bool {
    let mut lasting = earlier.iter().zip(later).take(LASTING);
    lasting.all(|pair| match pair {
        (Some(earlier), Some(later)) => earlier <= later,
        (None, None) => true,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::columns::unpack;
    use super::*;

    /// Rows as (time, counter, worst), rolled up to buckets of ten.
    fn check(rows: &[(i64, Option<i64>, Option<i64>)], expected: &[(i64, Option<i64>, Option<i64>)]) {
        let mut fold = Fold::new(10);
        for (ts_ms, counter, worst) in rows {
            let mut values = Values::default();
            (values[0], values[LASTING]) = (*counter, *worst);
            fold.push(*ts_ms, &values);
        }
        let mut found = Vec::new();
        if let Some(packed) = fold.pack() {
            unpack(&packed, |ts_ms, values| found.push((ts_ms, values[0], values[LASTING]))).unwrap();
        }
        assert_eq!(found, expected, "{rows:?}");
    }

    #[test]
    fn of_each_bucket_the_last_row_is_kept_and_the_first_of_all() {
        check(&[], &[]);
        check(&[(5, Some(1), None)], &[(5, Some(1), None)]);
        let rows: Vec<_> = (0..35).map(|n| (n, Some(n), None)).collect();
        check(
            &rows,
            &[
                (0, Some(0), None),
                (9, Some(9), None),
                (19, Some(19), None),
                (29, Some(29), None),
                (34, Some(34), None),
            ],
        );
    }

    #[test]
    fn both_sides_of_a_fall_are_kept_and_of_a_counter_that_is_measured_no_longer() {
        check(
            &[
                (1, Some(5), None),
                (2, Some(6), None),
                (3, Some(7), None),
                (4, Some(1), None),
                (5, Some(2), None),
                (6, Some(3), None),
            ],
            &[(1, Some(5), None), (3, Some(7), None), (4, Some(1), None), (6, Some(3), None)],
        );
        check(
            &[
                (1, Some(5), None),
                (2, Some(6), None),
                (3, Some(7), None),
                (4, None, None),
                (5, None, None),
                (6, None, None),
            ],
            &[(1, Some(5), None), (3, Some(7), None), (4, None, None), (6, None, None)],
        );
    }

    #[test]
    fn every_row_that_is_kept_has_the_worst_of_its_bucket() {
        check(
            &[
                (1, Some(1), Some(3)),
                (2, Some(2), Some(9)),
                (3, Some(3), None),
                (12, Some(4), None),
                (13, Some(5), Some(2)),
                (21, Some(6), None),
            ],
            &[(1, Some(1), Some(9)), (3, Some(3), Some(9)), (13, Some(5), Some(2)), (21, Some(6), None)],
        );
    }
}
