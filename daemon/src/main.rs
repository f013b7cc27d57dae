//! The `ringscope` command.
fn main() {}
