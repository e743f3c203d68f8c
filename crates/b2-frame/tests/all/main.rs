//! The integration tests of `b2-frame`, as a single program: a new file needs a line here.

mod block_starts;
mod block_sums;
mod cancellation;
mod checksums;
mod common;
mod crash;
mod crash_concurrency;
mod crash_edit;
mod crash_kill9;
mod crash_other;
mod crash_writer;
mod damage;
mod edit;
mod failing_storage;
mod files;
mod fixtures;
mod format;
mod fuzz_findings;
mod hostile;
mod postfilter;
mod reads;
mod roundtrip;
mod salvage;
mod salvage_sums;
mod unbacked_bytes;
