#!/usr/bin/env python3
"""Measures reading and writing with the filters inside h5py, next to those of hdf5plugin.

    python tests/speed.py [--libraries FOLDER] [--rounds N]

Files are in memory. Both read the same chunks, those of hdf5plugin. A round runs each side once, in a separate process; sides take
turns at being first. Printed are medians over the rounds of the time on the processor, in milliseconds, and how many times as fast we are; below 1 we are
slower.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()
SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
CODECS = {"blosclz": 0, "lz4": 1, "zstd": 5}
# Shape, chunk and dtype; chunks of 5,250 items are those of hdf5plugin#270.
SHAPES = {
    "5,250 x f4": ((3_150_000,), (5250,), "f4"),
    "75 x 70 x f4": ((1500, 2100), (75, 70), "f4"),
    "512 x 512 x f4": ((2048, 4096), (512, 512), "f4"),
    "64 x 64 x 64 x f8": ((256, 128, 128), (64, 64, 64), "f8"),
    "300,000 x i4": ((9_000_000,), (300_000,), "i4"),
}
REPEAT = 3


def cases():
    for number in (32001, 32026):
        for shape in SHAPES:
            for codec, code in CODECS.items():
                yield f"{number} {codec}, {shape}", number, code, *SHAPES[shape]


def values(shape, dtype):
    """Returns a smooth field with some noise, as measurements are."""
    rng = np.random.default_rng(0)
    count = int(np.prod(shape))
    wave = 1000 * np.sin(np.arange(count) / 5000) + rng.integers(0, 16, count)
    return (np.round(wave) / 8 if dtype[0] == "f" else wave).astype(dtype).reshape(shape)


def best(work):
    times = []
    for _ in range(REPEAT):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times) * 1000


def child(folder, write_only):
    import h5py

    out = {}
    for at, (name, number, code, shape, chunks, dtype) in enumerate(cases()):
        path = Path(folder) / f"{at}.h5"
        data = values(shape, dtype)
        arguments = dict(chunks=chunks, compression=number, compression_opts=(0, 0, 0, 0, 5, 1, code))
        if write_only:
            with h5py.File(path, "w") as file:
                file.create_dataset("data", data=data, **arguments)
            continue

        def write():
            with h5py.File("memory", "w", driver="core", backing_store=False) as file:
                file.create_dataset("data", data=data, **arguments)
                file.flush()
                out[name + "|size"] = file["data"].id.get_storage_size()

        result = np.empty_like(data)
        with h5py.File(path, "r", driver="core", backing_store=False, rdcc_nbytes=0) as file:
            out[name + "|read"] = best(lambda: file["data"].read_direct(result))
        assert np.array_equal(result, data), name
        out[name + "|write"] = best(write)
    print(json.dumps(out))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", default=HERE.parents[1] / "target" / "release")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="b2-hdf5-speed-") as folder:
        plugins, empty, files = (Path(folder) / name for name in ("plugins", "empty", "files"))
        for path in (plugins, empty, files):
            path.mkdir()
        for name in ("blosc", "blosc2"):
            shutil.copy(Path(arguments.libraries) / f"libh5b2kit_{name}{SUFFIX}", plugins)

        def run(side, *words):
            env = dict(os.environ, HDF5_PLUGIN_PATH=str(plugins if side == "ours" else empty))
            env.pop("BLOSC_NTHREADS", None)
            command = [sys.executable, str(HERE), "--child", side, str(files), *words]
            return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout

        run("theirs", "write")
        measured = {"ours": [], "theirs": []}
        for turn in range(arguments.rounds):
            for side in ("ours", "theirs") if turn % 2 else ("theirs", "ours"):
                measured[side].append(json.loads(run(side)))
    print(f"{'':34} {'read':>8} {'theirs':>8} {'ratio':>6} {'write':>8} {'theirs':>8} {'ratio':>6} {'size':>6}")
    for name, *_ in cases():
        median = lambda side, what: statistics.median(one[f"{name}|{what}"] for one in measured[side])
        row = [f"{name:34}"]
        for what in ("read", "write"):
            ours, theirs = median("ours", what), median("theirs", what)
            row.append(f"{ours:8.1f} {theirs:8.1f} {theirs / ours:6.2f}")
        row.append(f"{median('ours', 'size') / median('theirs', 'size'):6.2f}")
        print(*row)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        if sys.argv[2] == "theirs":
            import hdf5plugin
        child(sys.argv[3], sys.argv[4:] == ["write"])
    else:
        main()
