//! Programs that are the same one though they are not called the same.

use ringscope_api::FindingKind;

use super::{FOUR, Stage};

fn is_straggler(its: &'static str, theirs: &'static str) {
    let program = move |rank| if rank == 2 { its } else { theirs };
    let mut stage = Stage::of_programs(&FOUR, program, |rank, _| 40 + if rank == 2 { 20 } else { 0 });
    let (_, finding) = stage.first(40).unwrap();
    assert_eq!(
        (finding.finding, finding.rank),
        (FindingKind::ComputeStraggler, Some(2)),
        "{}",
        finding.message
    );
}

#[test]
fn another_version_of_the_interpreter_is_no_role() {
    is_straggler("python3.11", "python3.10");
    is_straggler("/opt/conda/bin/python3", "python3.12");
}

/// As the kernel says it of a program whose file was replaced while it runs.
#[test]
fn a_program_whose_file_was_replaced_is_no_role() {
    is_straggler("trainer (deleted)", "trainer");
    is_straggler("python3.12 (deleted)", "python3.12");
}
