"""Installs libblosc2 for C into a folder (libraries, headers, a file for pkg-config, licences), or removes it from there.

Nothing that another program has put there is replaced or removed.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path, PurePosixPath

from notices import ROOT, notices

PACKAGE = ROOT / "crates" / "bindings" / "b2-c"
SONAME = "libblosc2.so.9"
DOC = "share/doc/libblosc2-b2kit"
# The list of what was installed, one path within the folder per line.
LIST = f"{DOC}/FILES"


def build():
    """Builds the libraries with all optimisations, and returns their folder."""
    subprocess.run(["cargo", "build", "--locked", "-p", "b2-c", "--profile", "dist"], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "dist"


def content(libraries, prefix):
    """Returns what to install: bytes by path within the folder."""
    described = (PACKAGE / "blosc2.pc.in").read_text().replace("@PREFIX@", str(prefix))
    files = {
        f"lib/{SONAME}": (libraries / "libblosc2.so").read_bytes(),
        "lib/libblosc2.a": (libraries / "libblosc2.a").read_bytes(),
        "lib/pkgconfig/blosc2.pc": described.encode(),
        f"{DOC}/THIRD-PARTY.txt": notices("b2-c").encode(),
    }
    for name in ["Blosc2Config.cmake", "Blosc2ConfigVersion.cmake"]:
        files[f"lib/cmake/blosc2/{name}"] = (PACKAGE / "cmake" / name).read_bytes()
    for header in (PACKAGE / "include").rglob("*.h"):
        files[header.relative_to(PACKAGE).as_posix()] = header.read_bytes()
    for name in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"]:
        files[f"{DOC}/{name}"] = (PACKAGE / name).read_bytes()
    return files


def installed(prefix):
    """Returns the paths that an earlier installation has put into a folder."""
    paths = (prefix / LIST).read_text().splitlines() if (prefix / LIST).exists() else []
    if any(PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts for path in paths):
        sys.exit(f"{prefix / LIST} has paths outside of its folder")
    return paths


def write(path, data):
    """Writes a file next to its place and renames it: programs may use the one that it replaces. A text is the target of a link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".b2kit-new-{path.name}")
    new.unlink(missing_ok=True)
    new.symlink_to(data) if isinstance(data, str) else new.write_bytes(data)
    if path.name == SONAME:
        new.chmod(0o755)
    new.replace(path)


def remove(prefix, path):
    """Removes a file, and the folders that are empty then."""
    (prefix / path).unlink(missing_ok=True)
    for folder in list(PurePosixPath(path).parents)[:-1]:
        if any((prefix / folder).iterdir()) if (prefix / folder).is_dir() else True:
            break
        (prefix / folder).rmdir()


def install(prefix, libraries):
    prefix.mkdir(parents=True, exist_ok=True)
    prefix = prefix.resolve()
    files = {**content(libraries, prefix), "lib/libblosc2.so": SONAME}
    before = installed(prefix)
    for path in files:
        if path not in before and os.path.lexists(prefix / path):
            sys.exit(f"{prefix / path} is there and not from an earlier installation: choose another folder")
    for path in set(before) - set(files):
        remove(prefix, path)
    # The list comes first, so that also half an installation can be removed.
    write(prefix / LIST, "".join(f"{path}\n" for path in sorted(files)).encode())
    for path, data in files.items():
        write(prefix / path, data)


def uninstall(prefix):
    paths = installed(prefix) or sys.exit(f"{prefix} has no {LIST}: nothing was installed there")
    for path in [*paths, LIST]:
        remove(prefix, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["install", "uninstall"])
    parser.add_argument("--libraries", type=Path, help="the folder of built libraries [default: builds them]")
    parser.add_argument("prefix", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "uninstall":
        return uninstall(arguments.prefix)
    install(arguments.prefix, arguments.libraries or build())
    print(f"installed; PKG_CONFIG_PATH={arguments.prefix}/lib/pkgconfig pkg-config --cflags --libs blosc2")


if __name__ == "__main__":
    main()
