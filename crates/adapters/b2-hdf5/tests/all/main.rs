//! All tests in one program, which is linked once.

#[path = "../../src/checksum.rs"]
mod checksum;
mod common;
mod flips;
mod generated;
mod hostile;
mod made;
mod matrix;
mod objects;
mod remote;
mod scaled;
mod selected;
mod threads;
mod written;
