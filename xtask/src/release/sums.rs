//! Archives that are the same in every run, checksums, and the comparison with the run before.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use super::place::{Release, list};
use crate::sh;

/// The file with the checksums.
const SUMS: &str = "SHA256SUMS";

/// Writes the checksums, and compares them with those of the run before.
pub(super) fn make(release: &mut Release) -> Result<()> {
    let mut sums = BTreeMap::new();
    for (name, _) in list(&release.artefacts)?.into_iter().filter(|(name, _)| name != SUMS) {
        let sum = sha256(&fs::read(release.artefacts.join(&name))?);
        sums.insert(name, sum);
    }
    ensure!(!sums.is_empty(), "there are no artefacts");
    let text: String = sums.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    fs::write(release.artefacts.join(SUMS), &text)?;
    let mut check = Command::new("sha256sum");
    check.current_dir(&release.artefacts).args(["--check", "--quiet", SUMS]);
    sh::run(check)?;
    // What was made from other sources is not comparable.
    let sources = sh::git(&release.tree, &["rev-parse", "HEAD^{tree}"])?;
    let before = release.work.with_file_name("sums-of-the-run-before");
    let now = format!("{sources}{text}");
    match fs::read_to_string(&before) {
        Ok(old) if old.lines().next() == now.lines().next() => {
            let old: BTreeMap<&str, &str> = old
                .lines()
                .skip(1)
                .filter_map(|line| line.split_once("  "))
                .map(|(sum, name)| (name, sum))
                .collect();
            let (same, other): (Vec<_>, Vec<_>) = sums
                .iter()
                .filter_map(|(name, sum)| Some((name, *old.get(&**name)? == sum)))
                .partition(|(_, same)| *same);
            let same: Vec<String> = same.into_iter().map(|(name, _)| name.clone()).collect();
            let other: Vec<_> = other.into_iter().map(|(name, _)| name.as_str()).collect();
            ensure!(other.is_empty(), "not the same bytes as in the run before: {}", other.join(", "));
            ensure!(!same.is_empty(), "the run before made nothing that this one made");
            same.iter().for_each(|name| release.say(name, "same bytes as in the run before"));
            release.tried(format!(
                "{} of {} artefacts have the bytes of the run before",
                same.len(),
                sums.len()
            ));
        }
        _ => {
            release.not_run("same bytes in a second run", "no run before was of these sources: run it again")
        }
    }
    fs::write(before, now)?;
    Ok(())
}

/// Returns the SHA-256 in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Packs a folder as `NAME.tar.gz`: sorted, with the time of the commit, and nobody's name.
pub(super) fn tarball(release: &Release, folder: &Path) -> Result<PathBuf> {
    let name = folder.file_name().context("a folder without a name")?.to_string_lossy().into_owned();
    let tar = folder.with_file_name(format!("{name}.tar"));
    let mut command = Command::new("tar");
    command.current_dir(folder.parent().context("a folder without a parent")?);
    command.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    command.arg("--mode=go=rX,u+rw").arg(format!("--mtime=@{}", release.epoch));
    command.arg("-cf").arg(&tar).arg(&name);
    sh::output(&mut command)?;
    let packed = release.artefacts.join(format!("{name}.tar.gz"));
    gzip(&tar, &packed)?;
    Ok(packed)
}

/// Compresses a file without its name and time.
pub(super) fn gzip(from: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new("gzip");
    command.args(["-n9c"]).arg(from);
    let output = command.output().context("cannot start gzip")?;
    ensure!(output.status.success(), "gzip: {}", String::from_utf8_lossy(&output.stderr));
    Ok(fs::write(to, output.stdout)?)
}

/// Unpacks an archive without its first folder. Its files are of now: archives say the same time for all versions of a
/// file, and cargo would not compile one again that it has seen before.
pub(super) fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut tar = Command::new("tar");
    tar.arg("-xzmf").arg(archive).arg("--strip-components=1").arg("-C").arg(folder);
    sh::output(&mut tar)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn unpacked_files_are_new() {
        let folder = tempfile::tempdir().unwrap();
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_153_704_088);
        fs::create_dir(folder.path().join("a-1")).unwrap();
        let file = fs::File::create(folder.path().join("a-1/lib.rs")).unwrap();
        file.set_modified(long_ago).unwrap();
        let archive = folder.path().join("a.crate");
        sh::output(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(folder.path()).arg("a-1"))
            .unwrap();
        let unpacked = folder.path().join("unpacked");
        unpack(&archive, &unpacked).unwrap();
        let found = fs::metadata(unpacked.join("lib.rs")).unwrap().modified().unwrap();
        assert!(found > long_ago, "cargo would take it for the file of an earlier run");
    }
}
