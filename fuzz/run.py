"""Builds the fuzz targets, makes their corpora, and runs them: docs/contributing/fuzzing.md.

Fails if there is a finding, or if a target made no execution. `versus_c` runs only if it is named, with python-blosc2 in this Python.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
COVERAGE = """--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
-Cllvm-args=-sanitizer-coverage-trace-compares""".split()


def build(address):
    """Builds all targets; returns their folder. The triple is named so that the flags do not apply to build scripts."""
    host = re.search(r"host: (\S+)", subprocess.run(["rustc", "-vV"], stdout=subprocess.PIPE, text=True, check=True).stdout)[1]
    folder = TARGET / ("fuzz-address" if address else "fuzz")
    cargo = ["rustup", "run", "nightly", "cargo"] if address else ["cargo"]
    flags = " ".join(COVERAGE + ["-Zsanitizer=address"] * address)
    words = ["build", "--profile", "fuzz", "--locked", "-p", "b2-fuzz", "--target", host]
    variables = {"RUSTFLAGS": flags, "CARGO_TARGET_DIR": str(folder)}
    if address:
        # The sanitizer of a C compiler does not fit that of Rust: it reports errors in zstd that are none.
        variables["CFLAGS"] = "-fno-sanitize=all"
    subprocess.run([*cargo, *words], cwd=ROOT, check=True, env={**os.environ, **variables})
    return folder / host / "fuzz"


def fuzz(name, binaries, limits):
    """Runs one target to its limit, or until its first finding. Returns its line of the table, and what is wrong."""
    artifacts, corpus = TARGET / "fuzz-artifacts" / name, TARGET / "fuzz-corpus" / name
    for folder in [artifacts, corpus]:
        folder.mkdir(parents=True, exist_ok=True)
    variables = {"ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=0"}
    if name == "versus_c":
        variables |= {"B2KIT_FUZZ_PYTHON": sys.executable, "B2KIT_FUZZ_CLASSES": str(TARGET / "fuzz-classes")}
    options = ["-timeout=30", "-rss_limit_mb=2048", "-malloc_limit_mb=2048", "-print_final_stats=1", f"-artifact_prefix={artifacts}/"]
    log = artifacts.with_suffix(".log")
    with open(log, "w") as out:
        words = [binaries / name, corpus, *limits, *options]
        code = subprocess.run(words, cwd=ROOT, stdout=out, stderr=out, env={**os.environ, **variables}).returncode
    text = log.read_text(errors="replace")
    last = lambda pattern: int((re.findall(pattern, text) or [0])[-1])
    executions = last(r"stat::number_of_executed_units: (\d+)")
    wrong = text[-3000:] if code else "" if executions else "no executions"
    edges = last(r" cov: (\d+)")
    return f"{name:14} {executions:>12} {edges:>8}  {wrong}".rstrip(), bool(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="default: all but versus_c")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--ci", action="store_true", help="a minute over all targets, always with the same inputs first")
    parser.add_argument("--sanitizer", choices=["address"], help="needs a nightly compiler")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    bins = sorted(path.stem for path in (ROOT / "fuzz" / "src" / "bin").glob("*.rs") if path.stem != "seeds")
    if arguments.list:
        return print("\n".join(bins))
    if unknown := set(arguments.targets) - set(bins):
        parser.error(f"no target {', '.join(unknown)}")
    targets = arguments.targets or [name for name in bins if name != "versus_c"]
    binaries = build(arguments.sanitizer is not None)
    subprocess.run([binaries / "seeds", TARGET / "fuzz-corpus", ROOT / "testdata"], check=True)
    seconds = max(1, 60 * arguments.jobs // len(targets)) if arguments.ci else arguments.seconds
    limits = [f"-max_total_time={seconds}", "-max_len=4096", *["-seed=1"] * arguments.ci]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        ran = list(pool.map(lambda name: fuzz(name, binaries, limits), targets))
    print("\ntarget           executions    edges", *(line for line, _ in ran), sep="\n")
    sys.exit(f"findings: {TARGET / 'fuzz-artifacts'}; the program TARGET with a file repeats one" if any(wrong for _, wrong in ran) else 0)


if __name__ == "__main__":
    main()
