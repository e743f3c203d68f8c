"""Runs C-Blosc2's own test programs and those of its plugins with a library.

Compiles them from a checkout of C-Blosc2 against the headers in INCLUDE and, for what they include of C-Blosc2's private headers, those
of the checkout. Programs that need functions that LIBRARY does not export are counted separately. Prints each program that fails.
"""

import argparse
import csv
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PLUGINS = "plugins/*/*/test_*.c"


def compiled(source, target, args):
    """Returns whether the program could be linked."""
    root = args.checkout
    include = [args.work, args.include, root / "include", root / "blosc", root / "tests", source.parent, root]
    command = ["cc", "-w", "-O1", "-DBLOSC_TESTING", "-o", target, source, *(f"-I{folder}" for folder in include)]
    command += [args.library, f"-Wl,-rpath,{args.library.parent}", "-lm", "-lpthread", "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode == 0:
        return True
    if "undefined reference" not in made.stderr:
        print(f"{source}: does not compile\n{made.stderr}", file=sys.stderr)
    return False


def parameters(source):
    """Returns the command lines of a program: one for each line of its table, if it has one."""
    table = source.with_suffix(".csv")
    if not table.exists():
        return [[]]
    with table.open() as lines:
        return [row for row in list(csv.reader(lines))[1:] if row]


def run(source, args):
    """Returns `unlinked`, an empty string for a pass, or what failed."""
    folder = args.work / source.stem
    folder.mkdir(parents=True)
    if not compiled(source, folder / "program", args):
        return "unlinked"
    for data in (args.checkout / "plugins/test_data").glob("*.b2nd"):
        shutil.copy(data, folder)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BLOSC_")}
    environment["LD_LIBRARY_PATH"] = str(args.library.parent)
    for words in parameters(source):
        try:
            done = subprocess.run(
                [folder / "program", *words], cwd=folder, env=environment, capture_output=True, timeout=args.timeout
            )
        except subprocess.TimeoutExpired:
            return f"{' '.join(words)} takes more than {args.timeout} s"
        if done.returncode != 0:
            lines = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
            return f"{' '.join(words)} exit code {done.returncode}: {' | '.join(lines[-3:])}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT", help="C-Blosc2's sources")
    parser.add_argument("include", type=Path, metavar="INCLUDE", help="the folder of blosc2.h to compile with")
    parser.add_argument("library", type=Path, metavar="LIBRARY", help="libblosc2.so.9")
    parser.add_argument("work", type=Path, metavar="WORK", help="an empty folder")
    parser.add_argument("--timeout", type=int, default=600, help="seconds for each program [%(default)s]")
    parser.add_argument("--jobs", type=int, default=2, help="programs that run concurrently [%(default)s]")
    parser.add_argument("--only", default="", help="the start of the names of the programs")
    args = parser.parse_args()
    for name in ("checkout", "include", "library", "work"):
        setattr(args, name, getattr(args, name).resolve())
    if args.library.name != "libblosc2.so.9":
        parser.error("the library must have the name that the programs load: libblosc2.so.9")
    if args.work.exists() and any(args.work.iterdir()):
        parser.error(f"{args.work} is not empty")
    args.work.mkdir(parents=True, exist_ok=True)
    # What C-Blosc2's build generates; its codecs are all there.
    (args.work / "config.h").write_text("#define HAVE_ZLIB 1\n#define HAVE_ZSTD 1\n")
    failed = False
    for suite, patterns in {"tests": ["tests/test_*.c", "tests/b2nd/test_*.c"], "plugins": [PLUGINS]}.items():
        sources = sorted(source for pattern in patterns for source in args.checkout.glob(pattern))
        sources = [source for source in sources if source.name.startswith(args.only)]
        with ThreadPoolExecutor(args.jobs) as pool:
            results = dict(zip(sources, pool.map(lambda source: run(source, args), sources), strict=True))
        linked = {source: result for source, result in results.items() if result != "unlinked"}
        for source, result in linked.items():
            if result:
                print(f"{source.stem}: {result}")
        unlinked = [source.stem for source, result in results.items() if result == "unlinked"]
        passed = sum(not result for result in linked.values())
        print(f"{suite}: {passed} of {len(linked)} passed; {len(unlinked)} not linked: {', '.join(unlinked)}")
        failed |= passed < len(linked) or not linked
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
