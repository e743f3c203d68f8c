//! Inputs shared by the benches.
