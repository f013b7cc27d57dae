//! Workers and servers of a summation group killed at random moments: all others name the dead one, none hangs, no sum is
//! wrong, and with `RSUM_ON_LOSS=continue` the rest goes on with right sums.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::deaths::kill_members;
use common::sum::sum_program;

#[test]
fn members_die_at_any_moment() {
    kill_members(&sum_program("sum-chaos"), None);
}
