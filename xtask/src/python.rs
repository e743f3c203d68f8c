//! Python environments: one folder under `target/xtask/venv` for each set of requirements.
//!
//! Nothing is installed globally. The only external inputs are `python3` (3.10 or later, with its `venv` and `pip`
//! modules; `B2KIT_PYTHON` selects another one) and the package index.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{root, sh};

/// The release of python-blosc2 used for conformance tests, with pinned dependencies.
pub(crate) const PEER: &[&str] = &["blosc2==4.14.1", "numpy==2.3.5"];

/// Returns the interpreter of an environment with exactly `requirements`, and creates it if it does not exist.
pub(crate) fn environment(requirements: &[impl AsRef<str>]) -> Result<PathBuf> {
    let wanted: Vec<&str> = requirements.iter().map(AsRef::as_ref).collect();
    let Some(first) = wanted.first() else { bail!("an environment without requirements") };
    let home = root::scratch("venv");
    fs::create_dir_all(&home)?;
    // Concurrent tasks must not build the same environment twice.
    let lock = File::create(home.join("lock"))?;
    lock.lock().context("waiting for another task that sets up an environment")?;

    let folder = home.join(first.replace("==", "-"));
    let python = folder.join("bin").join("python");
    let stamp = folder.join("requirements.txt");
    if python.exists() && fs::read_to_string(&stamp).is_ok_and(|text| text == wanted.join("\n")) {
        return Ok(python);
    }
    root::remove(&folder)?;
    eprintln!("setting up Python with {} in {}", wanted.join(", "), folder.display());
    let base = base_interpreter()?;
    sh::output(Command::new(&base).args(["-m", "venv"]).arg(&folder))
        .context("`python3 -m venv` failed; on Debian and Ubuntu it needs the package python3-venv")?;
    // Wheels only: building from source would need a C compiler and CMake.
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"];
    sh::output(Command::new(&python).args(pip).args(&wanted))
        .with_context(|| format!("pip could not install {}", wanted.join(", ")))?;
    fs::write(&stamp, wanted.join("\n"))?;
    Ok(python)
}

/// Returns the `python3` from which environments are created.
pub(crate) fn base_interpreter() -> Result<PathBuf> {
    let python = PathBuf::from(std::env::var_os("B2KIT_PYTHON").unwrap_or_else(|| "python3".into()));
    let probe = "import sys, venv; sys.exit(sys.version_info < (3, 10))";
    sh::output(Command::new(&python).args(["-c", probe])).with_context(|| {
        format!(
            "{} is not a Python 3.10 or later with the venv module. The peer, C-Blosc2, comes from PyPI: install it, \
             or name one in B2KIT_PYTHON",
            python.display()
        )
    })?;
    Ok(python)
}

/// Returns a command that runs one of the scripts of this crate. Limits the peer's threads and log output.
pub(crate) fn script(python: &Path, name: &str) -> Command {
    let mut command = Command::new(python);
    command.arg("-B").arg(root::workspace().join("xtask").join("py").join(name));
    // Otherwise the peer would start a thread per core, competing with ours.
    command.env("OMP_NUM_THREADS", "1").env("BLOSC_NTHREADS", "1").env("PYTHONFAULTHANDLER", "1");
    command
}
