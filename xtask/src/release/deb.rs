//! The Debian package: made by dpkg-deb, then installed, upgraded and removed in a clean root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::binaries::{self, PLATFORMS, Platform};
use super::place::Release;
use super::tools;
use super::{metadata, notices, sums};
use crate::{root, sh};

pub(super) fn make(release: &mut Release) -> Result<()> {
    if tools::program("dpkg-deb").is_none() {
        release.not_run("the Debian package", "there is no dpkg-deb");
        return Ok(());
    }
    for platform in PLATFORMS {
        let Some(arch) = platform.debian else { continue };
        if !release.wants(platform.target, &format!("the Debian package for {arch}")) {
            continue;
        }
        let deb = build(release, platform, arch, &release.version.clone())?;
        let name = tools::name_of(&deb);
        fs::copy(&deb, release.artefacts.join(&name))?;
        release.made(&name);
        if platform.arch != std::env::consts::ARCH {
            let command = release.said.get(&binaries::loose(platform.target)).cloned().unwrap_or_default();
            command.iter().for_each(|what| release.say(&name, &format!("its command: {what}")));
            release.left(&name, "not installed", "this is another machine");
            continue;
        }
        match clean_root(release)? {
            Ok(folder) => {
                let older = build(release, platform, arch, "0.0.1~older")?;
                try_package(release, &folder, &deb, &older)?;
                release.ran(&name, "installed, upgraded, run and removed in a clean Debian here");
                let _ = tools::works(Command::new("rm").arg("-rf").arg(&folder));
            }
            Err(why) => release.left(&name, "built only", &why),
        }
    }
    Ok(())
}

/// Lays the files of the package and packs them.
fn build(release: &Release, platform: &Platform, arch: &str, version: &str) -> Result<PathBuf> {
    let version = version.replacen('-', "~", 1);
    let folder = release.work.join("deb").join(format!("b2kit_{version}_{arch}"));
    root::empty(&folder)?;
    let to = |path: &str| -> Result<PathBuf> {
        let path = folder.join(path);
        fs::create_dir_all(&path)?;
        Ok(path)
    };
    let program = platform.program(release);
    ensure!(program.is_file(), "the step `binaries` was not run");
    fs::copy(program, to("usr/bin")?.join("b2kit"))?;
    let man = to("usr/share/man/man1")?;
    for page in binaries::files(&binaries::pages(release)?)? {
        sums::gzip(&page, &man.join(format!("{}.gz", tools::name_of(&page))))?;
    }
    let completions = binaries::completions(release)?;
    fs::copy(completions.join("b2kit"), to("usr/share/bash-completion/completions")?.join("b2kit"))?;
    fs::copy(completions.join("_b2kit"), to("usr/share/zsh/vendor-completions")?.join("_b2kit"))?;
    fs::copy(completions.join("b2kit.fish"), to("usr/share/fish/vendor_completions.d")?.join("b2kit.fish"))?;
    let doc = to("usr/share/doc/b2kit")?;
    let packaging = release.tree.join("packaging").join("debian");
    fs::copy(packaging.join("copyright"), doc.join("copyright"))?;
    sums::gzip(&release.tree.join("CHANGELOG.md"), &doc.join("changelog.gz"))?;
    let notices = release.work.join(notices::FILE);
    ensure!(notices.is_file(), "the step `notices` was not run");
    sums::gzip(&notices, &doc.join(format!("{}.gz", notices::FILE)))?;
    fs::copy(release.tree.join("packaging/magic/blosc2"), to("usr/share/b2kit")?.join("magic"))?;

    let mut sums = String::new();
    let mut size = 0;
    let mut files = Vec::new();
    all_files(&folder, &mut files)?;
    files.sort();
    for file in &files {
        size += file.metadata()?.len().div_ceil(1024);
        // Debian's own tools compare MD5 sums.
        let md5 = sh::output(Command::new("md5sum").arg(file))?;
        let name = file.strip_prefix(&folder)?.display().to_string();
        sums += &format!("{}  {name}\n", md5.split(' ').next().unwrap_or_default());
    }
    let control = fs::read_to_string(packaging.join("control"))?;
    let control = control
        .replace("@VERSION@", &version)
        .replace("@ARCH@", arch)
        .replace("@SIZE@", &size.to_string())
        .replace("@REPOSITORY@", &metadata::repository(&release.tree)?);
    fs::write(to("DEBIAN")?.join("control"), control)?;
    fs::write(folder.join("DEBIAN").join("md5sums"), sums)?;
    let mut modes = Command::new("chmod");
    sh::output(modes.arg("-R").arg("u=rwX,go=rX").arg(&folder))?;
    sh::output(Command::new("chmod").arg("755").arg(folder.join("usr/bin/b2kit")))?;
    let deb = folder.with_file_name(format!("{}.deb", tools::name_of(&folder)));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "-Zxz", "--build"]).arg(&folder).arg(&deb);
    sh::output(pack.env("SOURCE_DATE_EPOCH", release.epoch.to_string()))?;
    Ok(deb)
}

fn all_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { all_files(&path, found)? } else { found.push(path) }
    }
    Ok(())
}

/// Lays a clean root of Debian, or says why that cannot be done. It is kept packed for later runs.
fn clean_root(release: &Release) -> Result<Result<PathBuf, String>> {
    if !tools::is_root() {
        return Ok(Err("only root can enter a clean root".into()));
    }
    let packed = root::scratch(&format!("debian-{}.tar", tools::OLDEST_DEBIAN));
    if !packed.is_file() {
        let Some(mmdebstrap) = tools::program("mmdebstrap") else {
            return Ok(Err("there is no mmdebstrap".into()));
        };
        fs::create_dir_all(root::scratch(""))?;
        let partial = packed.with_extension("partial.tar");
        let mut make = Command::new(mmdebstrap);
        make.args(["--quiet", "--variant=minbase", tools::OLDEST_DEBIAN]).arg(&partial);
        if let Err(e) = sh::output(&mut make) {
            return Ok(Err(format!("mmdebstrap: {}", tools::end(&e.to_string()))));
        }
        fs::rename(&partial, &packed)?;
    }
    let folder = release.work.join("debian-root");
    sh::output(Command::new("rm").arg("-rf").arg(&folder))?;
    fs::create_dir_all(&folder)?;
    // Devices cannot be made everywhere, and nothing here needs them but this one.
    sh::output(Command::new("tar").args(["--exclude=./dev/*", "-xf"]).arg(&packed).arg("-C").arg(&folder))?;
    let _ = fs::write(folder.join("dev/null"), "");
    Ok(Ok(folder))
}

/// Installs an older package, upgrades it, runs the command, and removes it without a trace.
fn try_package(release: &Release, folder: &Path, deb: &Path, older: &Path) -> Result<()> {
    let inside = |words: &[&str]| -> Result<String> {
        let mut command = Command::new("chroot");
        command.arg(folder).args(words).env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("DEBIAN_FRONTEND", "noninteractive");
        sh::output(&mut command)
    };
    for file in [deb, older] {
        fs::copy(file, folder.join("root").join(tools::name_of(file)))?;
    }
    let array = "sea_surface_temperature.npy";
    fs::copy(release.tree.join("testdata/arrays").join(array), folder.join("root").join(array))?;
    let path = |file: &Path| format!("/root/{}", tools::name_of(file));
    let before = list(folder)?;
    inside(&["dpkg", "--install", &path(older)])?;
    inside(&["dpkg", "--install", &path(deb)]).context("the upgrade")?;
    let status = inside(&["dpkg", "--status", "b2kit"])?;
    ensure!(status.contains("Status: install ok installed"), "{status}");
    ensure!(inside(&["dpkg", "--verify", "b2kit"])?.is_empty(), "installed files differ from the package");
    let said = inside(&["b2kit", "--version"])?;
    ensure!(said.contains(&release.version), "the command says that it is {said}");
    let array = format!("/root/{array}");
    inside(&["b2kit", "pack", &array, "/root/x.b2nd"])?;
    inside(&["b2kit", "verify", "/root/x.b2nd"])?;
    let back = inside(&[
        "sh",
        "-c",
        &format!("b2kit cat /root/x.b2nd --npy -o /root/y.npy && cmp {array} /root/y.npy"),
    ])?;
    ensure!(back.is_empty(), "{back}");
    for file in ["x.b2nd", "y.npy"] {
        fs::remove_file(folder.join("root").join(file))?;
    }
    inside(&["dpkg", "--remove", "b2kit"])?;
    inside(&["dpkg", "--purge", "b2kit"])?;
    let left: Vec<_> = list(folder)?.into_iter().filter(|path| !before.contains(path)).collect();
    ensure!(left.is_empty(), "removing the package leaves {left:?}");
    Ok(())
}

/// Returns the paths under `usr` and `etc`.
fn list(folder: &Path) -> Result<Vec<String>> {
    let mut find = Command::new("find");
    let text = sh::output(find.current_dir(folder).args(["usr", "etc"]))?;
    Ok(text.lines().map(str::to_owned).collect())
}
