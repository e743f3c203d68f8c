"""Random crops per second compared with python-blosc2, as nnU-Net's loader reads them.

    python benches/crops.py [--codec lz4 zstd] [--processes 1 8] [--rounds 5] [--crops 40]

A float32 volume of 256 x 320 x 320 in chunks of 128 and blocks of 32, opened for each crop of 128^3 (python-blosc2 with
mmap, as nnU-Net does), or for each batch of four (`read_boxes`). Every measurement runs in a new
process, or in new forked ones, because the memory that the allocator retains decides how many pages have to be cleared.
Prints crops per second of CPU time and of the clock, and the medians of both over those of python-blosc2 in the same round.

`through_zarr` reads the same items from a Zarr array whose chunks, of the same shape, are stored by `b2kit.b2nd`; it is
opened once. `--inside` takes crops that lie in one chunk, half as long. Otherwise most crops touch eight.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import b2kit
import blosc2
import numpy as np
import zarr
from b2kit.zarr import B2ndCodec

SHAPE, SIDE, BATCH = (256, 320, 320), 128, 4


def volume():
    """Rounded noise around a smooth field, and a constant around a ball, as in a scan."""
    rng = np.random.default_rng(0)
    z, y, x = np.meshgrid(*(np.linspace(0, 8, n, dtype="f4") for n in SHAPE), indexing="ij")
    items = np.round((np.sin(z * 1.3) * np.cos(y) + x * 0.1) * 200 + rng.normal(0, 8, SHAPE))
    items[(z - 4) ** 2 + (y - 4) ** 2 + (x - 4) ** 2 > 14] = -1024
    return ((items - 100) / 230).astype("f4")


def boxes(count, seed, inside=False):
    rng = np.random.default_rng(seed)
    if inside:
        side = SIDE // 2
        starts = rng.integers(0, 2, (count, 3)) * SIDE + rng.integers(0, side + 1, (count, 3))
    else:
        side = SIDE
        starts = rng.integers(0, np.array(SHAPE) - side + 1, (count, 3))
    return [tuple(slice(at, at + side) for at in start) for start in starts.tolist()]


def theirs(path, keys):
    for key in keys:
        blosc2.open(path, mode="r", mmap_mode="r", dparams={"nthreads": 1})[key]


def ours(path, keys):
    for key in keys:
        b2kit.open(path, threads=1)[key]


def batches(path, keys, threads=1):
    out = np.empty((BATCH, *(part.stop - part.start for part in keys[0])), "f4")
    for n in range(0, len(keys), BATCH):
        b2kit.open(path, threads=threads).read_boxes(keys[n : n + BATCH], out)


def batches_2_threads(path, keys):
    batches(path, keys, 2)


def through_zarr(path, keys):
    z = zarr.open_array(path.replace(".b2nd", ".zarr"), mode="r")
    for key in keys:
        z[key]


WAYS = {way.__name__: way for way in (theirs, ours, batches, batches_2_threads, through_zarr)}


def child(way, path, processes, count, seed, inside):
    blosc2.set_nthreads(1)
    if way == "through_zarr":
        b2kit.set_threads(1)
    WAYS[way](path, boxes(BATCH, 99, inside))
    cpu, clock = os.times(), time.perf_counter()
    if processes == 1:
        WAYS[way](path, boxes(count, seed, inside))
    else:
        children = []
        for n in range(processes):
            children.append(os.fork())
            if children[-1] == 0:
                WAYS[way](path, boxes(count, seed * 100 + n, inside))
                os._exit(0)
        if any(os.waitpid(child, 0)[1] for child in children):
            sys.exit("a worker failed")
    clock = time.perf_counter() - clock
    cpu = sum(os.times()[:4]) - sum(cpu[:4])
    print(json.dumps([processes * count / cpu, processes * count / clock]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--codec", nargs="*", default=["lz4", "zstd"])
    parser.add_argument("--processes", nargs="*", type=int, default=[1, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--crops", type=int, default=40)
    parser.add_argument("--inside", action="store_true")
    parser.add_argument("--child", nargs=6, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        way, path, *numbers = given.child
        return child(way, path, *map(int, numbers))
    with tempfile.TemporaryDirectory() as folder:
        items = volume()
        for codec in given.codec:
            path = os.path.join(folder, f"{codec}.b2nd")
            cparams = {"codec": getattr(blosc2.Codec, codec.upper()), "clevel": 5}
            blosc2.asarray(items, urlpath=path, mode="w", chunks=(128,) * 3, blocks=(32,) * 3, cparams=cparams)
            stored = zarr.create_array(
                path.replace(".b2nd", ".zarr"),
                shape=SHAPE,
                chunks=(128,) * 3,
                dtype="f4",
                serializer=B2ndCodec(codec=codec, blocks=(32,) * 3),
                compressors=None,
            )
            stored[...] = items
            for key in boxes(2, 0, given.inside):
                for found in (b2kit.open(path).read_boxes([key])[0], stored[key]):
                    if not np.array_equal(found, items[key]):
                        sys.exit(f"{codec}: the results differ")
            for processes in given.processes:
                found = {way: [] for way in WAYS if processes == 1 or way not in ("batches_2_threads", "through_zarr")}
                for seed in range(given.rounds):
                    for way in found:
                        numbers = (str(n) for n in (processes, given.crops, seed, int(given.inside)))
                        command = [sys.executable, __file__, "--child", way, path, *numbers]
                        found[way].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
                for way, rates in found.items():
                    cells = []
                    for k, unit in enumerate(("CPU second", "second")):
                        ratio = statistics.median(a[k] / b[k] for a, b in zip(rates, found["theirs"]))
                        cells.append(f"{statistics.median(rate[k] for rate in rates):6.1f} per {unit} ({ratio:.2f})")
                    print(f"{codec:5} {processes} processes {way:18} {'   '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
