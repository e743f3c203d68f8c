//! What failing system calls leave behind, and appends by many processes, some of them C-Blosc2 (docs/explanation/reliability-tests.md).

mod faults;
mod writers;

use std::env;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Returns a number from the environment, or the default.
fn number(name: &str, default: u64) -> Result<u64> {
    let Ok(text) = env::var(name) else { return Ok(default) };
    text.parse().with_context(|| format!("{name} is no number: {text}"))
}

/// Returns the SHA-256 in hexadecimal.
fn digest(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}
