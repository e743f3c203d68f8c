//! Compares with C-Blosc2 on the same files: valid files that it reads must not be refused, or read differently.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::commands::{self, Verdict};
use crate::groups::Group;
use crate::lab::{self, Lab};
use crate::number;
use crate::plan::CasePlan;

#[test]
#[ignore = "needs Python with blosc2, named by B2KIT_PEER"]
fn what_c_blosc2_reads_is_not_refused() -> Result<()> {
    let python = std::env::var_os("B2KIT_PEER").context("B2KIT_PEER names no Python")?;
    let folder = tempfile::Builder::new().prefix("hostile-peer-").tempdir_in(lab::playground())?;
    let plan = CasePlan::new(number("B2KIT_HOSTILE_SEED", 1)?, folder.path())?;
    let mut worker = Lab::new(folder.path(), &plan)?.worker("peer", 0, 1)?;
    let (mut ours, mut paths) = (Vec::new(), String::new());
    for case in plan.cases_of(Group::Valid) {
        // C-Blosc2 returns arbitrary bytes for uninitialised items, and for blocks of unrounded sizes (docs/format/chunk.md).
        if ["uninit", "special", "unrounded"].iter().any(|word| case.name.contains(word)) {
            continue;
        }
        let name = format!("c{}", case.id);
        let path = worker.setup.folder.join(&name);
        case.content.write(&path)?;
        paths.push_str(&format!("{}\n", path.display()));
        ours.push((case, commands::verify(&mut worker, &name)?));
    }
    let list = folder.path().join("paths");
    fs::write(&list, paths)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/judge_files.py");
    let mut command = Command::new(&python);
    command.arg("-B").arg(&script).stdin(File::open(&list)?).stderr(Stdio::inherit());
    let output = command.env("BLOSC_NTHREADS", "1").output()?;
    ensure!(output.status.success(), "C-Blosc2 ended with {}", output.status);
    let theirs = String::from_utf8(output.stdout)?;
    ensure!(theirs.lines().count() == ours.len(), "{} files, but:\n{theirs}", ours.len());
    let is_hash = |line: &str| line.len() == 64 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
    let read = || ours.iter().zip(theirs.lines()).filter(|(_, line)| is_hash(line));
    let wrong: Vec<String> = read()
        .filter(|((_, ours), hash)| !matches!(ours, Some(Verdict::Ok { sha256, .. }) if sha256 == hash))
        .map(|((case, ours), _)| format!("case {}, {}: {ours:?}", case.id, case.name))
        .collect();
    ensure!(wrong.is_empty(), "C-Blosc2 reads other data:\n{}", wrong.join("\n"));
    ensure!(read().count() > 100, "C-Blosc2 reads only {} files:\n{theirs}", read().count());
    Ok(())
}
