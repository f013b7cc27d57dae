//! RSCCL_DETERMINISTIC=rank-order: one result, bit for bit, whatever the number of processes and channels.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{Job, compile, folder};

/// What the ranks of one job say, which must be the same.
fn fingerprints(program: &Path, n_ranks: usize, settings: &[(&str, &str)]) -> String {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let environment = |_| settings.iter().map(own).collect();
    let job = Job { program, n_ranks, command: &["8"], environment: &environment };
    let said: BTreeSet<String> = job.start().into_iter().map(common::Rank::rest).collect();
    assert_eq!(said.len(), 1, "{n_ranks} ranks with {settings:?}: {said:?}");
    said.into_iter().next().unwrap()
}

#[test]
fn eight_virtual_ranks_have_one_result_on_any_number_of_processes() {
    let program = folder("virtual").join("virtual");
    compile("virtual.c", &program, &["-lrsccl"]);
    let mut results = BTreeSet::new();
    for (form, algorithm) in [("rank-order", "ring"), ("rank-order:fixed-tree", "direct")] {
        let common = [("RSCCL_DETERMINISTIC", form), ("RSCCL_ALGO", algorithm)];
        let reference = fingerprints(&program, 1, &common);
        assert_eq!(reference.lines().count(), 18, "{reference}");
        for (n_ranks, n_channels) in [(2, "1"), (4, "3"), (8, "2"), (8, "4")] {
            let channels = [("RSCCL_MIN_NCHANNELS", n_channels), ("RSCCL_MAX_NCHANNELS", n_channels)];
            let settings = [&common[..], &channels[..]].concat();
            assert_eq!(
                fingerprints(&program, n_ranks, &settings),
                reference,
                "{n_ranks} ranks, {settings:?}"
            );
        }
        results.insert(reference);
    }
    assert_eq!(results.len(), 2, "another association gives other bits, or the test would show nothing");
}
