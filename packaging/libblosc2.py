"""Installs libblosc2 for C into a folder (libraries, headers, a file for pkg-config, licences), or removes it from there.

Nothing that another program has put there is replaced or removed. Packagers set --destdir or DESTDIR, and --libdir.
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


def build(system_zstd=False):
    """Builds the libraries with all optimisations, and returns their folder. Takes a few minutes; only Rust and a C compiler
    are needed."""
    # zstd-sys then asks pkg-config for libzstd, and builds nothing.
    variables = {**os.environ, "ZSTD_SYS_USE_PKG_CONFIG": "1"} if system_zstd else os.environ
    command = ["cargo", "build", "--locked", "-p", "b2-c", "--profile", "dist"]
    # zfp is a sixth of the library, and few programs use it.
    command += [word for name in ["zfp-rs", "b2-zfp"] for word in ("--config", f'profile.dist.package.{name}.opt-level="s"')]
    subprocess.run(command, cwd=ROOT, check=True, env=variables)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "dist"


def content(libraries, prefix, lib, system_zstd):
    """Returns what to install: bytes by path within the folder. `lib` is the folder of libraries in it."""
    values = {
        "@PREFIX@": str(prefix),
        "@LIBDIR@": lib,
        "@PREFIX_FROM_LIBDIR@": "/".join(".." for _ in PurePosixPath(lib).parts),
        "@REQUIRES@": "Requires.private: libzstd\n" if system_zstd else "",
        "@ZSTD@": ";zstd" if system_zstd else "",
    }

    def filled(path):
        text = (PACKAGE / path).read_text()
        for name, value in values.items():
            text = text.replace(name, value)
        return text.encode()

    files = {
        f"{lib}/{SONAME}": (libraries / "libblosc2.so").read_bytes(),
        f"{lib}/libblosc2.a": (libraries / "libblosc2.a").read_bytes(),
        f"{lib}/pkgconfig/blosc2.pc": filled("blosc2.pc.in"),
        f"{DOC}/THIRD-PARTY.txt": notices("b2-c").encode(),
    }
    for name in ["Blosc2Config.cmake", "Blosc2ConfigVersion.cmake"]:
        files[f"{lib}/cmake/blosc2/{name}"] = filled(f"cmake/{name}")
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


def staged(prefix, destdir):
    """Returns where the files of a prefix are put: below DESTDIR, if that is set."""
    return Path(destdir) / prefix.relative_to(prefix.anchor) if destdir else prefix


def install(prefix, libraries, lib="lib", destdir="", system_zstd=False):
    prefix = Path(os.path.abspath(prefix))
    root = staged(prefix, destdir)
    lib = Path(lib)
    lib = lib.relative_to(prefix) if lib.is_absolute() and lib.is_relative_to(prefix) else lib
    if lib.is_absolute() or ".." in lib.parts or not lib.parts:
        sys.exit(f"{lib} is not inside of {prefix}")
    lib = lib.as_posix()
    root.mkdir(parents=True, exist_ok=True)
    files = {**content(libraries, prefix, lib, system_zstd), f"{lib}/libblosc2.so": SONAME}
    before = installed(root)
    for path in files:
        if path not in before and os.path.lexists(root / path):
            sys.exit(f"{root / path} is there and not from an earlier installation: choose another folder")
    for path in set(before) - set(files):
        remove(root, path)
    # The list comes first, so that also half an installation can be removed.
    write(root / LIST, "".join(f"{path}\n" for path in sorted(files)).encode())
    for path, data in files.items():
        write(root / path, data)


def uninstall(prefix, destdir=""):
    root = staged(Path(os.path.abspath(prefix)), destdir)
    paths = installed(root) or sys.exit(f"{root} has no {LIST}: nothing was installed there")
    for path in [*paths, LIST]:
        remove(root, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["install", "uninstall"])
    parser.add_argument("--libraries", type=Path, help="the folder of built libraries [default: builds them]")
    parser.add_argument("--libdir", default="lib", help="the folder of libraries, in the prefix [default: lib]")
    destdir = os.environ.get("DESTDIR", "")
    parser.add_argument("--destdir", default=destdir, help="the folder to put files in, for packages [default: $DESTDIR]")
    parser.add_argument("--system-zstd", action="store_true", help="links the libzstd that pkg-config finds")
    parser.add_argument("prefix", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "uninstall":
        return uninstall(arguments.prefix, arguments.destdir)
    libraries = arguments.libraries or build(arguments.system_zstd)
    install(arguments.prefix, libraries, arguments.libdir, arguments.destdir, arguments.system_zstd)
    print(f"installed; PKG_CONFIG_PATH={arguments.prefix}/{arguments.libdir}/pkgconfig pkg-config --cflags --libs blosc2")


if __name__ == "__main__":
    main()
