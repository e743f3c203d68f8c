//! Code shared by all measurements.

use std::num::NonZeroUsize;

use anyhow::Result;
use b2kit::CodecId;

use crate::args::values::{Codec, parse_codec};
use crate::process::error::Trouble;

/// Options of both the JSON output and the table.
pub(super) struct BenchOptions {
    pub(super) threads: usize,
    pub(super) typesize: Option<NonZeroUsize>,
    pub(super) limit: Option<u64>,
}

/// Fails with exit code 2: if the round trip gives wrong data, that is a bug of this program, not of the file.
pub(super) fn ensure_same(same: bool, message: &str) -> Result<()> {
    if same { Ok(()) } else { Err(Trouble(anyhow::anyhow!("{message}")).into()) }
}

/// Parses a codec name. Rejects `auto`, which would choose one, while the benchmark tries all.
pub(super) fn one_codec(name: &str) -> Result<CodecId, String> {
    match parse_codec(name)? {
        Codec::Id(codec) => Ok(codec),
        Codec::Auto => Err("name the codecs to measure".into()),
    }
}
