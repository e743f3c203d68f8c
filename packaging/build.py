"""Builds all packages, and tries each in an empty environment, as a new user would.

Archives of the crates, wheels, source distribution of the Python package, and libblosc2 for C; all of them into target/packages.
Nothing is published; docs/contributing/releasing.md describes how to. Needs cargo, its target wasm32-unknown-unknown, a C compiler, pkg-config and Python 3.11 or later.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import libblosc2
from notices import notices

ROOT = Path(__file__).parents[1]
OUT = ROOT / "target" / "packages"
PYTHON = ROOT / "crates" / "bindings" / "b2-python"
PLUGIN = ROOT / "crates" / "bindings" / "b2-hdf5-plugin"
NOTICES = "NOTICE-THIRD-PARTY.txt"
# The page for browsers, which the package of the command contains.
PAGE = ROOT / "crates" / "apps" / "b2-cli" / "page"
LICENCES = ["LICENSE-APACHE", "LICENSE-MIT"]
# No file of an archive is larger: data for tests is in testdata/ and is not published.
LARGEST = 100_000


def run(*words, cwd=ROOT, **variables):
    words = [str(word) for word in words]
    print("$", *words, flush=True)
    subprocess.run(words, cwd=cwd, check=True, env={**os.environ, **variables})


def output(*words):
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def published():
    """Returns the crates that are published: name and metadata."""
    metadata = json.loads(output("cargo", "metadata", "--format-version=1", "--no-deps", "--locked"))
    return {package["name"]: package for package in metadata["packages"] if package["publish"] != []}


def archives(verify):
    """Packs the crates, compiles each from its archive if asked to, and checks what the archives contain."""
    crates = published()
    if verify:
        run(sys.executable, ROOT / "crates" / "apps" / "b2-wasm" / "build.py", PAGE)
    words = [word for name in crates for word in ("-p", name)]
    run("cargo", "package", "--locked", "--allow-dirty", *words, *([] if verify else ["--no-verify"]))
    problems = []
    for name, package in crates.items():
        path = ROOT / "target" / "package" / f"{name}-{package['version']}.crate"
        folder = Path(package["manifest_path"]).parent
        if not package["description"] or package["metadata"]["docs"]["rs"]["all-features"] is not True:
            problems.append(f"{name}: no description, or docs.rs does not show all features")
        with tarfile.open(path) as archive:
            files = {Path(*Path(member.name).parts[1:]).as_posix(): member for member in archive}
            for licence in LICENCES:
                text = archive.extractfile(files[licence]).read() if licence in files else b""
                if text != (ROOT / licence).read_bytes():
                    problems.append(f"{name}: its {licence} is not that of the repository")
        made = {"Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json"}
        for file, member in files.items():
            if file not in made | {"README.md", "build.rs", *LICENCES} and not file.startswith(("src/", "examples/", "page/")):
                problems.append(f"{name}: its archive has {file}")
            if member.size > LARGEST and file not in {"Cargo.lock", "page/engine.wasm"}:
                problems.append(f"{name}: {file} has {member.size} bytes")
        for part in ["README.md", "examples", "build.rs"]:
            if (folder / part).exists() and not any(file.startswith(part) for file in files):
                problems.append(f"{name}: its archive lacks {part}")
        if verify and name == "b2kit-cli" and "page/engine.wasm" not in files:
            problems.append(f"{name}: its archive lacks the page")
        if verify:
            shutil.copy(path, OUT)
    if problems or len(crates) < 15:
        sys.exit("\n".join(problems) or f"only {len(crates)} crates are published")
    print(f"{len(crates)} archives are complete")


def environment(name):
    """Creates an empty environment and returns its Python."""
    folder = OUT / "environments" / name
    venv.create(folder, clear=True, with_pip=True)
    return folder / "bin" / "python"


def python_package():
    """Builds the wheel and the source distribution, and uses the package that each of them installs."""
    (PYTHON / NOTICES).write_text(notices("b2-python"))
    tools = environment("tools")
    run(tools, "-m", "pip", "install", "-q", "maturin>=1.9,<2")
    for old in [*OUT.glob("b2kit-*.whl"), *OUT.glob("b2kit-*.tar.gz")]:
        old.unlink()
    maturin = [tools, "-m", "maturin"]
    run(*maturin, "build", "--profile", "dist", "--locked", "--compression-level", "9", "--out", OUT, cwd=PYTHON)
    run(*maturin, "sdist", "--out", OUT, cwd=PYTHON)
    version = published()["b2kit"]["version"]
    for what in [*OUT.glob("b2kit-*.whl"), *OUT.glob("b2kit-*.tar.gz")]:
        print(f"{what.name}: {what.stat().st_size} bytes")
        python = environment(what.suffix.strip("."))
        run(python, "-m", "pip", "install", "-q", what)
        run(python, ROOT / "packaging" / "try_package.py", version, "--released", cwd=OUT)


def hdf5_plugin():
    """Builds the wheel with the filters of HDF5, and exchanges files with hdf5plugin in an environment with this wheel."""
    (PLUGIN / NOTICES).write_text(notices("b2-hdf5-plugin"))
    for old in OUT.glob("b2kit_hdf5_plugin-*.whl"):
        old.unlink()
    python = environment("plugin")
    run(python, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", OUT, PLUGIN)
    [wheel] = OUT.glob("b2kit_hdf5_plugin-*-py3-none-*.whl")
    print(f"{wheel.name}: {wheel.stat().st_size} bytes")
    run(python, "-m", "pip", "install", "-q", wheel, "h5py", "hdf5plugin")
    parts = ["reading", "writing", "threads", "damage"]
    run(python, PLUGIN / "tests" / "run.py", "--installed", "--mutations", 2000, *parts, cwd=OUT)


def c_library():
    """Installs libblosc2, compiles a program with it, and runs the program."""
    prefix = OUT / "c"
    shutil.rmtree(prefix, ignore_errors=True)
    libblosc2.install(prefix, libblosc2.build())
    os.environ["PKG_CONFIG_PATH"] = str(prefix / "lib" / "pkgconfig")
    flags = output("pkg-config", "--cflags", "--libs", "blosc2").split()
    program = OUT / "roundtrip"
    run("cc", ROOT / "crates" / "bindings" / "b2-c" / "examples" / "roundtrip.c", "-o", program, *flags)
    run(program, LD_LIBRARY_PATH=str(prefix / "lib"))
    with tarfile.open(OUT / "libblosc2.tar.gz", "w:gz") as archive:
        archive.add(prefix, "libblosc2")


def command():
    """Installs the command from the repository, and packs, checks and unpacks a file."""
    run("cargo", "install", "--locked", "--path", ROOT / "crates" / "apps" / "b2-cli", "--root", OUT / "command")
    b2kit = OUT / "command" / "bin" / "b2kit"
    source, packed, back = ROOT / "Cargo.lock", OUT / "lock.b2frame", OUT / "lock"
    for path in [packed, back]:
        path.unlink(missing_ok=True)
    run(b2kit, "pack", source, packed)
    run(b2kit, "verify", packed)
    run(b2kit, "unpack", packed, "-o", back)
    assert back.read_bytes() == source.read_bytes()


PARTS = {"crates": lambda: archives(True), "command": command, "python": python_package, "hdf5-plugin": hdf5_plugin, "c": c_library}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these: {', '.join(PARTS)}")
    parser.add_argument("--list", action="store_true", help="only check the files in the archives of the crates")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no part {', '.join(unknown)}")
    OUT.mkdir(parents=True, exist_ok=True)
    if arguments.list:
        return archives(False)
    for part in arguments.parts or PARTS:
        PARTS[part]()
    print(f"all of it works; it is in {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
