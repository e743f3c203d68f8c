"""Prints the licences of all crates that a package contains, and of the C code that they bring.

    python3 packaging/notices.py b2-python
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
STARTS = ("LICEN", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
# Tests and documents are not compiled.
NOT_COMPILED = {"tests", "docs", "examples", "benches"}


def cargo(*words):
    return subprocess.run(["cargo", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def components(package):
    """Returns the crates of others that are compiled into a package on any platform, with its default features."""
    tree = cargo("tree", "--locked", "-p", package, "-e", "no-dev", "--target", "all", "--prefix", "none", "--no-dedupe", "-f", "{p}")
    wanted = {" ".join(line.split(" ")[:2]) for line in tree.splitlines() if line}
    packages = json.loads(cargo("metadata", "--locked", "--format-version=1"))["packages"]
    known = {f"{one['name']} v{one['version']}": one for one in packages}
    return [known[name] for name in sorted(wanted) if known[name]["source"]]


def licence_files(folder, depth=3):
    """Finds files with licences, also those of C code that a crate brings."""
    for path in folder.iterdir():
        if path.is_dir():
            if depth and path.name.lower() not in NOT_COMPILED:
                yield from licence_files(path, depth - 1)
        elif path.name.upper().startswith(STARTS) and path.suffix.lower() not in {".rs", ".toml", ".json"}:
            yield path


def notices(package):
    """Collects the licence texts; a text that several crates share is there once."""
    crates, lines, texts = components(package), [], {}
    for crate in crates:
        name, folder = f"{crate['name']} {crate['version']}", Path(crate["manifest_path"]).parent
        licence = (crate["license"] or "").replace(" / ", "/").replace("/", " OR ")
        assert licence, f"{name} has no licence"
        lines.append(f"{name}: {licence}  {crate['repository'] or ''}\n")
        files = sorted(licence_files(folder))
        if not files:
            texts.setdefault(f"This crate comes without the text of its licence, {licence}.", []).append(name)
        for file in files:
            text = file.read_text("utf-8", "replace").rstrip()
            texts.setdefault(text, []).append(f"{name} ({file.relative_to(folder).as_posix()})")
    assert any(crate["name"] == "zstd-sys" for crate in crates), "the licences are not complete"
    parts = ["\n{}\n{}\n\n{}\n".format("=" * 80, "\n".join(names), text) for text, names in sorted(texts.items(), key=lambda one: one[1])]
    head = "b2kit contains these crates, and C code that some of them bring. Each text below is the licence of what is named above it."
    return "".join([head, "\n\n", *lines, *parts])


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    print(notices(sys.argv[1]), end="")
