"""Compares reading with h5py and hdf5plugin: the same files in alternation, medians.

    cargo build --release -p b2-hdf5 --example read
    python compare.py TARGET/release/examples/read FOLDER [ROUNDS]

FOLDER is where the files are created, each 160 MB before compression.
"""

import pathlib
import statistics
import subprocess
import sys
import time

import h5py
import hdf5plugin
import numpy as np

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
folder.mkdir(parents=True, exist_ok=True)
shape, chunks = (64, 800, 800), (8, 200, 400)
FILES = {
    "32001 lz4": dict(**hdf5plugin.Blosc(cname="lz4", clevel=5, shuffle=hdf5plugin.Blosc.SHUFFLE)),
    "32026 lz4": dict(**hdf5plugin.Blosc2(cname="lz4", clevel=5, filters=hdf5plugin.Blosc2.SHUFFLE)),
    "32026 zstd": dict(**hdf5plugin.Blosc2(cname="zstd", clevel=5, filters=hdf5plugin.Blosc2.SHUFFLE)),
    "gzip 4, shuffle": dict(compression="gzip", compression_opts=4, shuffle=True),
    "none": {},
}
grid = np.add.outer(np.sin(np.arange(800) / 50), np.cos(np.arange(800) / 70)).astype("f4")
noise = np.random.default_rng(0).normal(0, 0.01, grid.shape).astype("f4")
# Multiples of 1/64: like measured values, whose low bits are zeros.
items = np.stack([(np.round((grid * (1 + n / 100) + noise) * 64) / 64).astype("f4") for n in range(shape[0])])


def boxes(data):
    total, small = 0, 16
    begin = time.perf_counter()
    parts = []
    for n in range(50):
        at = [(n * 7919 + 13) * 31 % (length - small + 1) for length in shape]
        parts.append(data[tuple(slice(a, a + small) for a in at)])
    seconds = (time.perf_counter() - begin) / 50
    return seconds, sum(int(part.view("u1").sum(dtype="u8")) for part in parts)


def whole(path, out):
    with h5py.File(path) as f:
        data = f["group/data"]
        begin = time.perf_counter()
        data.read_direct(out)
        seconds = time.perf_counter() - begin
    return seconds, int(out.view("u1").sum(dtype="u8"))


def h5py_box(path):
    with h5py.File(path) as f:
        return boxes(f["group/data"])


out = np.empty(shape, "f4")
for name, options in FILES.items():
    path = folder / f"{name.replace(' ', '-').replace(',', '')}.h5"
    if not path.exists():
        with h5py.File(path, "w") as f:
            f.create_dataset("group/data", data=items, chunks=chunks, **options)
    ours = {
        threads: subprocess.Popen([program, path, "group/data", str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for threads in (1, 2)
    }

    def ask(threads, what):
        ours[threads].stdin.write(what + "\n")
        ours[threads].stdin.flush()
        seconds, total = ours[threads].stdout.readline().split()
        return float(seconds), int(total)

    times = {}
    for _ in range(rounds + 1):
        results = {
            "h5py all": whole(path, out),
            "1 all": ask(1, "all"),
            "2 all": ask(2, "all"),
            "h5py box": h5py_box(path),
            "1 box": ask(1, "box"),
        }
        assert results["h5py all"][1] == results["1 all"][1] == results["2 all"][1], results
        assert results["h5py box"][1] == results["1 box"][1], results
        for key, (seconds, _) in results.items():
            times.setdefault(key, []).append(seconds)
    # The first round fills caches.
    median = {key: statistics.median(values[1:]) for key, values in times.items()}
    print(
        f"{name:16} {path.stat().st_size / 1e6:6.1f} MB | all: h5py {median['h5py all'] * 1e3:7.1f} ms, "
        f"1 thread {median['h5py all'] / median['1 all']:5.2f}, 2 threads {median['h5py all'] / median['2 all']:5.2f} | "
        f"a box: h5py {median['h5py box'] * 1e3:6.3f} ms, ratio {median['h5py box'] / median['1 box']:5.2f}",
        flush=True,
    )
    for process in ours.values():
        process.stdin.close()
        process.wait()
