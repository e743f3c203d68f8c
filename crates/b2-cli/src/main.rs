//! The b2kit command.
fn main() {}
