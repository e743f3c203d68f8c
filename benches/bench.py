"""Compares this project with C-Blosc2: time (`speed`), requests to a server (`remote`), and instructions with before (`count`).

    PYTHON benches/bench.py speed [--quick]     about 20 minutes; needs python-blosc2 with its C library, a C compiler, and pip for real arrays
    PYTHON benches/bench.py remote              needs blosc2, zarr, obstore and aiohttp
    python3 benches/bench.py count [--update]   needs valgrind

`cargo xtask conformance` makes such a PYTHON: target/xtask/venv/blosc2-*/bin/python. Results are printed as Markdown.
"""

import argparse
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import geometric_mean, median

ROOT = Path(__file__).parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SCRATCH, RELEASE = TARGET / "bench", TARGET / "release"
COUNTS, TOLERANCE = ROOT / "benches" / "counts.toml", 0.05
CODECS, FILTERS, MIB = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"], ["shuffle", "bitshuffle"], 1 << 20
ROWS = ["real", "generated", "threads", "small", "special", "arrays"]
ARRAY = {"shape": "400,1000,100", "chunks": "100,100,100", "blocks": "5,100,100"}


def run(*words, **variables):
    """Runs a program and returns what it prints. Only options set the number of threads."""
    env = {name: value for name, value in os.environ.items() if name not in ("BLOSC_NTHREADS", "RAYON_NUM_THREADS")}
    words = [str(word) for word in words]
    return subprocess.run(words, cwd=ROOT, check=True, env={**env, **variables}, stdout=subprocess.PIPE, text=True).stdout


def build(*words):
    run("cargo", "build", "--release", "-p", "b2-benches", *words)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def count(update):
    """Counts the instructions of fixed cases. An increase over the stored counts beyond the tolerance is an error."""
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        sys.exit("the stored counts require x86-64 with AVX2")
    build("--bin", "b2-count-cases")
    program, rustc = RELEASE / "b2-count-cases", run("rustc", "--version").strip()

    def instructions(name):
        out = f"{folder}/{name}"
        options = ["--tool=callgrind", "--toggle-collect=*counted*", "--quiet", f"--callgrind-out-file={out}"]
        run("valgrind", *options, program, name, B2KIT_SIMD="avx2")
        return int(re.search(r"^(?:totals|summary): (\d+)", Path(out).read_text(), re.MULTILINE)[1])

    names = sorted(run(program).split())
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        now = dict(zip(names, pool.map(instructions, names)))
    if update:
        head = "# Instructions of the cases of benches/src/count, by callgrind: the guard against slower code.\n"
        head += f'# Written by `benches/bench.py count --update`.\n\nrustc = "{rustc}"\n\n[counts]\n'
        COUNTS.write_text(head + "".join(f"{name} = {number}\n" for name, number in now.items()))
    stored = tomllib.loads(COUNTS.read_text())
    if stored["rustc"] != rustc:
        print(f"the stored counts are from {stored['rustc']}, this is {rustc}")
    changes = {name: now[name] / number - 1 for name, number in stored["counts"].items() if name in now}
    for name, change in changes.items():
        word = "SLOWER" if change > TOLERANCE else "faster: store it with --update" if change < -TOLERANCE else ""
        print(f"{name:40} {stored['counts'][name]:>12} {now[name]:>12} {change:>+8.1%} {word}")
    wrong = [name for name, change in changes.items() if change > TOLERANCE or not now[name]]
    wrong += sorted(set(now) ^ set(stored["counts"]))
    sys.exit(f"slower, new or removed: {', '.join(wrong)}; if intended: benches/bench.py count --update" if wrong else 0)


def c_side():
    """Compiles the C side with the headers and the library of python-blosc2."""
    wheel = Path(importlib.util.find_spec("blosc2").submodule_search_locations[0])
    sources = [ROOT / "benches" / "c" / name for name in ("main.c", "chunks.c", "arrays.c")]
    lib = wheel / "lib"
    words = ["-O2", "-Wall", "-o", SCRATCH / "c-peer", "-I", wheel / "include", *sources, "-L", lib, "-lblosc2", "-lpthread"]
    run(os.environ.get("CC", "cc"), *words, f"-Wl,-rpath,{lib}")
    return SCRATCH / "c-peer"


class Speed:
    """Alternating rounds of both sides. A figure is the median of the rounds' ratios of best repeats: CPU time with one thread, else wall time."""

    def __init__(self, quick, rounds):
        self.quick, self.rounds, self.budget = quick, rounds or (3 if quick else 5), 0.02 if quick else 0.05
        self.c, self.cells = c_side(), {}

    def lines(self, program, what, **options):
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return [json.loads(line) for line in run(program, what, *words).splitlines()]

    def note(self, key, ours, lines):
        """Adds the best repeats of a round. C's getitem returns wrong bytes for some filters; that is its line's error."""
        for line in lines:
            if "error" in line:
                assert not ours, line
                continue
            cell = self.cells.setdefault((*key, line["op"]), {"c": [], "ours": []})
            cell["ours" if ours else "c"].append(line["cpu_min_s"] if key[2] == 1 else line["min_s"])
            cell |= {"bytes": line["bytes_per_rep"], "calls": line["calls"], "ours_size" if ours else "c_size": line["cbytes"]}

    def sides(self, turn):
        return [bool(turn % 2), not turn % 2]

    def chunks(self, rows, name, path, typesize, codec, filter, chunk, threads):
        fast = codec in ("blosclz", "lz4")
        limit = MIB // 2 if rows == "small" else (12 if self.quick else 32) * MIB if fast else (4 if self.quick else 8) * MIB
        options = {"input": path, "typesize": typesize, "codec": codec, "filter": filter, "chunk": chunk}
        for turn in range(self.rounds):
            for count in threads:
                ops = "compress,decompress" + ",getitem" * (rows in ("real", "generated") and count == 1)
                more = {"threads": count, "op": ops, "repeat": 100, "calls": 4000, "budget": self.budget, "limit": limit}
                for ours in self.sides(turn):
                    lines = self.lines(RELEASE / "b2kit" if ours else self.c, "bench", **options, **more)
                    self.note((rows, f"{name} {codec} {filter}" + f" {chunk}" * (rows in ("threads", "small")), count), ours, lines)
        # Each side decodes the chunks of the other: several chunks, the last of which is shorter.
        if rows not in ("threads", "small"):
            for encoder, decoder in [(self.c, RELEASE / "b2-bench-peer"), (RELEASE / "b2-bench-peer", self.c)]:
                for program, what in [(encoder, "encode"), (decoder, "decode")]:
                    self.lines(program, what, **options, path=SCRATCH / "chunks", limit=5 * MIB + 1234)

    def all_chunks(self, wanted, sets, codecs):
        for name, (typesize, real) in sets.items():
            path, odd = SCRATCH / "data" / f"{name}.bin", name.startswith("items_")
            for codec in codecs:
                for filter in FILTERS:
                    jobs = [("real", 4 * MIB, [1])] * real + [("generated", 4 * MIB, [1] if self.quick else [1, 2])] * (not real and not odd)
                    if odd and (codec == "lz4" or codec in ("blosclz", "zstd") and filter == "shuffle"):
                        jobs.append(("special", 4 * MIB, [1]))
                    fast = codec in ("blosclz", "lz4") and (codec, filter) != ("blosclz", "bitshuffle")
                    if name in ("tomogram_f32", "labels_i32", "walk_f32") and fast:
                        jobs += [("threads", kib << 10, [1, 2]) for kib in ((64, 512) if self.quick else (64, 128, 256, 512))]
                    if name in ("sea_surface_temperature", "tomogram_f32", "distance_i64", "walk_f32") and codec in ("blosclz", "lz4", "zstd"):
                        jobs += [("small", chunk, [1]) for chunk in (1024, 4096, 16384, 5250 * typesize)]
                    for rows, chunk, threads in jobs:
                        if rows in wanted:
                            self.chunks(rows, name, path, typesize, codec, filter, chunk, threads)

    def arrays(self):
        """Reading, writing, opening, many readers; each side also reads and compares the other's files. Returns memory peaks."""
        field, files = SCRATCH / "data" / "field_f32.bin", {}

        def nd(ours, of_ours, codec, storage, threads, ops, budget=self.budget):
            path = files.setdefault((of_ours, codec), SCRATCH / f"{'ours' if of_ours else 'c'}-{codec}.b2nd")
            options = {"codec": codec, "storage": storage, "path": path, "threads": threads, "op": ops, "repeat": 20, "budget": budget}
            return self.lines(RELEASE / "b2-bench-peer" if ours else self.c, "nd", input=field, **ARRAY, **options)

        work = "write,read,plane0,plane1,plane2,box,element,append,set"
        for codec in ["lz4"] if self.quick else ["lz4", "zstd"]:
            jobs = [(storage, work, threads) for storage in ("memory", "disk") for threads in (1, 2)]
            for storage, ops, threads in [*jobs, ("disk", "open", 1), ("disk", "readers", 1), ("disk", "readers", 2)]:
                for turn in range(self.rounds):
                    for ours in self.sides(turn):
                        self.note(("arrays", f"{codec} {storage}", threads), ours, nd(ours, ours, codec, storage, threads, ops))
            for ours in (True, False):
                nd(ours, not ours, codec, "disk", 1, "read,open")
        peak = lambda ours, op, threads: f"{nd(ours, ours, 'lz4', 'disk', threads, f'scratch-{op}', 0)[-1]['kib']:.0f}"
        jobs = [(op, threads) for op in ("read", "plane2", "box") for threads in (1, 2)]
        return [[op, threads, peak(True, op, threads), peak(False, op, threads)] for op, threads in jobs]

    def report(self, memory):
        ratio = lambda cell: median(c / ours for c, ours in zip(cell["c"], cell["ours"]))
        cells = {key: cell for key, cell in self.cells.items() if cell["c"] and cell["ours"]}
        means, rows = {"real": {}, "generated": {}}, {}
        for (group, name, threads, op), cell in cells.items():
            ratios = [c / ours for c, ours in zip(cell["c"], cell["ours"])]
            if group in means:
                _, codec, filter = name.split()
                means[group].setdefault((op, threads), {}).setdefault(codec, {}).setdefault(filter, []).append(ratio(cell))
            micros = op == "getitem" or group in ("small", "arrays") and cell["calls"] > 1
            speed = [median(cell[side]) / cell["calls"] * 1e6 if micros else cell["bytes"] / median(cell[side]) / 1e9 for side in ("ours", "c")]
            size = cell["ours_size"] / cell["c_size"] if cell["c_size"] else math.nan
            figures = [ratio(cell), min(ratios), max(ratios), *speed]
            rows.setdefault(group, []).append([name, op, threads, *(f"{one:.2f}" for one in figures), "us" if micros else "GB/s", f"{size:.3f}"])
        mean = lambda filters: " / ".join(f"{geometric_mean(filters[name]):.2f}" for name in FILTERS if name in filters)
        out = "Ratios of speed, ours over C's; geometric means over the arrays, shuffle / bitshuffle:\n"
        for group, by_op in means.items():
            codecs = [codec for codec in CODECS if any(codec in row for row in by_op.values())]
            lines = [[f"{op}, {threads}", *(mean(row[codec]) for codec in codecs)] for (op, threads), row in by_op.items()]
            names = {name.split()[0] for of_group, name, *_ in cells if of_group == group}
            out += f"\n{group} ({len(names)}):\n\n{table(['operation, threads', *codecs], lines)}" * bool(names)
        for group, lines in rows.items():
            head = ["what", "operation", "threads", "ratio", "lowest", "highest", "ours", "C", "", "size"]
            out += f"\n## {group}\n\n{table(head, lines)}"
        return out + "\nMemory peaks in addition to array and result, KiB:\n\n" * bool(memory) + table(["operation", "threads", "ours", "C"], memory) * bool(memory)


def speed(arguments):
    SCRATCH.mkdir(parents=True, exist_ok=True)
    build("--features", "b2-benches/programs", "-p", "b2kit-cli", "--bins")
    real = sorted((ROOT / "testdata" / "arrays").glob("*.npy")) + arguments.array
    run(sys.executable, ROOT / "benches" / "data.py", SCRATCH / "data", ",".join([*arguments.sets, "field_f32"] if arguments.sets else []), *real)
    sets = json.loads((SCRATCH / "data" / "datasets.json").read_text())
    sets = {name: (one["typesize"], one["real"]) for name, one in sets.items() if name != "field_f32"}
    started, bench = time.time(), Speed(arguments.quick, arguments.rounds)
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]
    version, kernels = run(bench.c, "version").strip(), run(RELEASE / "b2-bench-peer", "kernels").strip()
    print(f"# Speed compared with C-Blosc2, {time.strftime('%Y-%m-%d')}\n\n{os.cpu_count()} cores of {model}; load {os.getloadavg()[0]:.1f}")
    print(f"C-Blosc2 {version}; b2kit with kernels for {kernels}, {run('rustc', '--version').strip()}\n", flush=True)
    bench.all_chunks(arguments.rows, sets, arguments.codecs)
    memory = bench.arrays() if "arrays" in arguments.rows else []
    print(bench.report(memory), f"\nThe run took {(time.time() - started) / 60:.0f} minutes.", sep="")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = parser.add_subparsers(dest="task", required=True)
    tasks.add_parser("count").add_argument("--update", action="store_true")
    tasks.add_parser("remote").add_argument("--rounds", type=int, default=5)
    one = tasks.add_parser("speed")
    one.add_argument("--quick", action="store_true", help="fewer rounds, less data")
    one.add_argument("--rounds", type=int)
    words = lambda text: text.split(",")
    for name, default in [("sets", []), ("codecs", CODECS), ("rows", ROWS)]:
        one.add_argument(f"--{name}", type=words, default=default, help="only these, separated by commas")
    one.add_argument("--array", type=Path, action="append", default=[], help="one more real array, as .npy")
    arguments = parser.parse_args()
    if arguments.task == "count":
        return count(arguments.update)
    if arguments.task == "speed":
        return speed(arguments)
    build("--features", "b2-benches/programs", "-p", "b2kit-cli", "--bins")
    subprocess.run([sys.executable, ROOT / "benches" / "remote.py", RELEASE, SCRATCH / "remote", str(arguments.rounds)], check=True)


if __name__ == "__main__":
    main()
