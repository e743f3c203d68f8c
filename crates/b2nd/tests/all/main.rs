//! The tests of `b2nd` from outside, in one program: a new file needs a line here.

mod arrays;
mod bad_sectors;
mod checksums;
mod common;
mod control;
mod crash_arrays;
mod create;
mod edit;
mod edit_cases;
mod edit_memory;
mod hooks;
mod hostile;
mod large_array;
mod salvage;
mod salvage_sectors;
mod selections;
mod shared_editor;
mod sources;
mod threads;
mod verify;
