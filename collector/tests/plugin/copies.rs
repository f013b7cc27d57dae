//! Several copies of the library in one process, each with a mask of its own.

use crate::harness::copies_job;

/// Calls, tasks, channels and network steps, as the level `steps` asks.
const STEPS: &str = "165e";

#[test]
fn a_level_reaches_every_copy() {
    assert_eq!(copies_job("both").env("RINGSCOPE_LEVEL", "counters").left().said, format!("{STEPS} {STEPS}"));
}

#[test]
fn a_copy_that_is_unloaded_is_written_to_no_more() {
    assert_eq!(copies_job("unloaded").env("RINGSCOPE_LEVEL", "counters").left().said, STEPS);
}

#[test]
fn a_level_may_change_while_a_copy_comes_or_goes() {
    assert_eq!(copies_job("churn").env("RINGSCOPE_LEVEL", "counters").left().said, STEPS);
}
