"""Times `b2kit convert` and `h5repack` in alternation, medians.

    cargo build --release -p b2kit-cli --features hdf5
    python crates/bindings/b2-python/benches/hdf5.py FOLDER 1    # makes the files
    python convert.py TARGET/release/b2kit FOLDER [ROUNDS]

h5repack (of Debian's hdf5-tools) reads and writes Blosc and Blosc2 through the libraries of hdf5plugin. Files are in the page cache and
not synced (`--no-sync`).
"""

import os
import pathlib
import statistics
import subprocess
import sys
import time

import h5py
import hdf5plugin
import numpy as np

b2kit, folder = sys.argv[1], pathlib.Path(sys.argv[2])
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
env = dict(os.environ, HDF5_PLUGIN_PATH=str(hdf5plugin.PLUGIN_PATH))
BLOSC2 = ["-f", "UD=32026,1,7,0,0,0,0,5,1,1"]
GZIP = ["-f", "SHUF", "-f", "GZIP=4"]
lz4 = ["--codec", "lz4", "--clevel", "5"]
array, source = folder / "source.b2nd", folder / "32026-lz4.h5"
# Name, input and filters of h5repack, input and options of `convert`, and its output.
CASES = [
    ("gzip 4 to Blosc2, lz4", folder / "gzip-4-shuffle.h5", BLOSC2, folder / "gzip-4-shuffle.h5", lz4, "out.b2nd"),
    ("32001 lz4 to Blosc2, lz4", folder / "32001-lz4.h5", BLOSC2, folder / "32001-lz4.h5", lz4, "out.b2nd"),
    ("32026, as it is", source, [], source, [], "out.b2nd"),
    ("Blosc2 to gzip 4", source, GZIP, array, ["--codec", "gzip", "--clevel", "4"], "out.h5"),
    ("Blosc2 to 32026, as it is", source, [], array, [], "out.h5"),
]


def timed(*command):
    begin = time.perf_counter()
    subprocess.run([str(word) for word in command], check=True, capture_output=True, env=env)
    return time.perf_counter() - begin


timed(b2kit, "convert", source, "/group/data", array, "--force")
expected = h5py.File(source)["group/data"][...]
for name, theirs, filters, ours, options, out in CASES:
    mine, other = folder / out, folder / "repacked.h5"
    inside = ["/group/data"] if ours.suffix == ".h5" else []
    goal = f"{mine}::/group/data" if out.endswith(".h5") else mine
    times = {"h5repack": [], "1": [], "2": []}
    for _ in range(rounds):
        other.unlink(missing_ok=True)
        times["h5repack"].append(timed("h5repack", *filters, theirs, other))
        for threads in ("1", "2"):
            times[threads].append(timed(b2kit, "convert", ours, *inside, goal, *options, "--force", "--no-sync", "-t", threads))
    np.testing.assert_array_equal(h5py.File(other)["group/data"][...], expected)
    if out.endswith(".h5"):
        np.testing.assert_array_equal(h5py.File(mine)["group/data"][...], expected)
    median = {key: statistics.median(values) for key, values in times.items()}
    sizes = f"{other.stat().st_size / 1e6:.1f} and {mine.stat().st_size / 1e6:.1f} MB"
    print(
        f"{name:28} h5repack {median['h5repack'] * 1e3:7.0f} ms, 1 thread {median['h5repack'] / median['1']:5.2f}, "
        f"2 threads {median['h5repack'] / median['2']:5.2f} | {sizes}",
        flush=True,
    )
