//! Files of Debian for 64-bit ARM, so that its programs, and its Python with our wheel, can be run under QEMU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::place::Release;
use super::tools;
use crate::{root, sh};

/// The architecture, and Debian's name of it.
pub(super) const ARCH: (&str, &str) = ("aarch64", "arm64");
/// What is unpacked: Python, and what it and NumPy load.
const PACKAGES: &str = "python3.11,libc6,libgcc-s1,libstdc++6,libffi8,zlib1g";

/// The emulator, and the folder that stands in for the root of the other machine.
pub(super) struct Machine {
    emulator: PathBuf,
    root: PathBuf,
}

impl Machine {
    /// Unpacks the files, which are kept for later runs, or says why that cannot be done.
    pub(super) fn new() -> Result<Result<Self, String>> {
        let Some(emulator) = tools::emulator(ARCH.0) else {
            return Ok(Err("no emulator here; on Debian: qemu-user-static".into()));
        };
        let root = root::scratch(&format!("debian-{}", ARCH.1));
        if !root.is_dir() {
            let Some(mmdebstrap) = tools::program("mmdebstrap") else {
                return Ok(Err("there is no mmdebstrap, which brings the C library of that machine".into()));
            };
            fs::create_dir_all(root::scratch(""))?;
            let partial = root.with_extension("partial");
            root::remove(&partial)?;
            // Nothing of it is run while it is unpacked, so the system need not know the emulator.
            let mut make = Command::new(mmdebstrap);
            make.args(["--quiet", "--variant=extract", "--architectures", ARCH.1]);
            make.arg(format!("--include={PACKAGES}")).arg(tools::OLDEST_DEBIAN).arg(&partial);
            if let Err(e) = sh::output(&mut make) {
                return Ok(Err(format!("mmdebstrap: {}", tools::end(&e.to_string()))));
            }
            fs::rename(&partial, &root)?;
        }
        Ok(Ok(Self { emulator, root: root::absolute(&root)? }))
    }

    /// The words that a command of that machine begins with.
    pub(super) fn runner(&self) -> Result<[&str; 3]> {
        let (emulator, root) = (self.emulator.to_str(), self.root.to_str());
        let wrong = "a path that is not UTF-8";
        Ok([emulator.context(wrong)?, "-L", root.context(wrong)?])
    }

    /// Installs a wheel for Python 3.11 of that machine, and tries it. Programs of that machine cannot start others.
    pub(super) fn try_wheel(&self, release: &Release, python: &Path, wheel: &Path) -> Result<String> {
        let site = release.work.join("emulated").join("site-packages");
        root::empty(&site)?;
        let mut install = Command::new(python);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        install.args(["--only-binary", ":all:", "--python-version", "3.11", "--target"]).arg(&site);
        for old in ["manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014"] {
            install.arg("--platform").arg(format!("{old}_{}", ARCH.0));
        }
        sh::output(install.arg(wheel).current_dir(&release.work))?;
        let [emulator, option, root] = self.runner()?;
        let mut run = Command::new(emulator);
        run.args([option, root]).arg(self.root.join("usr/bin/python3.11"));
        run.arg(release.tree.join("packaging/python/try_package.py")).arg(&release.version);
        run.args(["--alone", "--released"]);
        run.env("PYTHONHOME", self.root.join("usr"))
            .env("PYTHONPATH", &site)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let said = sh::output(run.current_dir(&release.work))?;
        print!("{said}");
        Ok(said.lines().next().unwrap_or_default().to_owned())
    }
}
