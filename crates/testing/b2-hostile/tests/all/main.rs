//! Damaged and hostile files through the command `b2kit`, in processes with limits (docs/contributing/hostile.md), and flipped bits
//! (docs/explanation/reliability-tests.md). Linux only, because memory is measured through `/proc`.

mod base;
mod bombs;
mod classify;
mod commands;
mod content;
mod expect;
mod fixtures;
mod flips;
mod generated;
mod groups;
mod lab;
mod mutate;
mod peer;
mod plan;
mod rebuild;
mod relations;
mod sparse;
mod stores;
mod worker;

use std::env;

use anyhow::{Context, Result, ensure};
use b2kit::chunk::Plugins;
use sha2::{Digest, Sha256};

use self::lab::Lab;
use self::plan::CasePlan;

/// Returns a number from the environment, or the default.
fn number(name: &str, default: u64) -> Result<u64> {
    let Ok(text) = env::var(name) else { return Ok(default) };
    text.parse().with_context(|| format!("{name} is not a number: {text}"))
}

/// Returns the SHA-256 in hexadecimal.
fn digest(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the built-in codecs and filters, and those of zfp.
fn plugins() -> Plugins {
    Plugins::builtin().with_codecs(b2_zfp::codecs())
}

/// Each case is verified in two processes, in different order, with different bytes in fresh memory and different
/// numbers of threads; some also go through other commands.
#[test]
fn no_file_harms_the_command() -> Result<()> {
    let (cases, seed) = (number("B2KIT_HOSTILE_CASES", 1500)?, number("B2KIT_HOSTILE_SEED", 2)?);
    let folder = tempfile::Builder::new().prefix("hostile-").tempdir_in(lab::playground())?;
    let plan = CasePlan::new(seed, folder.path())?;
    let lab = Lab::new(folder.path(), &plan)?;
    if env::var_os("B2KIT_HOSTILE_CASE").is_some() {
        return lab.only(&plan, number("B2KIT_HOSTILE_CASE", 0)?);
    }
    let done = lab.all(&plan, plan.choose(cases as usize))?;
    ensure!(
        done.failures.is_empty(),
        "{} of {} cases failed:\n{}",
        done.failures.len(),
        done.cases,
        done.failures[..done.failures.len().min(20)].join("\n")
    );
    // Groups that always run completely may exceed a small number.
    ensure!(done.cases >= cases.min(plan.len() as u64) * 9 / 10, "only {} cases were run", done.cases);
    ensure!(done.accepted > 0 && done.accepted < done.cases, "{} cases were accepted", done.accepted);
    println!("{} cases, {} of them accepted", done.cases, done.accepted);
    Ok(())
}
