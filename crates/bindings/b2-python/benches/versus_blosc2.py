"""Times operations and those of python-blosc2 in one process, in alternating rounds.

    python benches/versus_blosc2.py [--threads 1] [--wall] [--rounds 7] [--codec lz4 zstd] [--only item write]
    python benches/versus_blosc2.py --readers

The files are those of python-blosc2. Times are CPU time, which other programs disturb less, or with `--wall` those of the
clock, for several threads; a figure is the median over rounds of their time by ours, the geometric mean over the arrays.
`--readers` measures how much faster two threads of Python read one array of ours than one of them: by the clock, without
the time for which other programs had the cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict

import b2kit
import blosc2
import numpy as np


def sources():
    rng = np.random.default_rng(0)
    side = 192
    axes = np.meshgrid(*(np.linspace(0, 6, side, dtype="f4"),) * 3, indexing="ij")
    smooth = np.sin(axes[0]) * np.cos(axes[1]) + axes[2]
    yield "smooth f4", (smooth * 1000).round().astype("f4")
    yield "counts u2", rng.poisson(20, (400, 300, 100)).astype("u2")
    yield "walk i8", np.cumsum(rng.integers(-3, 4, (200, 200, 100)), axis=2)
    yield "noisy f8", (np.add.outer(np.arange(150.0), rng.normal(size=(150, 150))) * 8).round() / 8


def operations(x, path, codec, folder, threads):
    rng = np.random.default_rng(1)
    shape = x.shape
    item = tuple(n // 3 for n in shape)
    box = tuple(slice(n // 4, n // 4 + 32) for n in shape)
    rows = sorted(rng.choice(shape[0], 20, replace=False).tolist())
    points = tuple(rng.integers(0, n, 1000) for n in shape)
    marks = rng.random(shape)
    region = np.zeros(shape, bool)
    region[box] = True
    ours, theirs = b2kit.open(path, threads=threads), blosc2.open(path, mode="r", dparams={"nthreads": threads})
    cparams = {"codec": getattr(blosc2.Codec, codec.upper()), "clevel": 5, "nthreads": threads}
    both = lambda key: (lambda: ours[key], lambda: theirs[key])  # noqa: E731
    yield (
        "open, item",
        lambda: b2kit.open(path, threads=threads)[item],
        lambda: blosc2.open(path, mode="r", dparams={"nthreads": threads})[item],
    )
    yield ("item", *both(item))
    yield ("whole", *both(...))
    yield ("first plane", *both(shape[0] // 2))
    yield ("last plane", *both((..., shape[2] // 2)))
    yield ("box", *both(box))
    yield ("steps", *both((slice(None, None, -3), slice(None, None, 2), slice(5, None, 7))))
    yield ("rows", *both(rows))
    yield ("points", *both(points))
    yield ("mask", *both(marks < 0.1))
    for share in (0, 1e-5, 1e-4, 1e-3, 1e-2, 1):
        yield (f"mask {share:g}", *both(marks < share))
    yield ("mask, box", *both(region))
    target = os.path.join(folder, "written.b2nd")
    yield (
        "write",
        lambda: b2kit.asarray(x, target, codec, overwrite=True, sync=False, threads=threads),
        lambda: blosc2.asarray(x, urlpath=target, mode="w", cparams=cparams),
    )


def seconds(call, clock):
    """Time of a call, repeated until it is long enough to be measured."""
    count, start = 0, clock()
    while True:
        call()
        count += 1
        spent = clock() - start
        if spent > 0.02:
            return spent / count


def waiting():
    """Seconds for which this thread was ready to run, and others had the cores."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


def readers(given, folder):
    """Two threads of Python against one, with one thread of ours in each call."""
    for codec in given.codec:
        for name, x in sources():
            a = b2kit.asarray(x, os.path.join(folder, f"{name}.b2nd"), codec, overwrite=True)
            a = b2kit.open(a.path, threads=1)
            rng = np.random.default_rng(2)
            boxes = [tuple(slice(at, at + 32) for at in rng.integers(0, np.array(x.shape) - 32)) for _ in range(400)]
            planes = rng.integers(0, x.shape[0], 200).tolist()
            wholes = [...] * 6
            for what, keys in (("boxes", boxes), ("planes", planes), ("whole", wholes)):

                def read(keys):
                    for key in keys:
                        a[key]

                def with_threads(count, keys=keys):
                    spent = [0.0] * count

                    def work(n):
                        waited, began = waiting(), time.perf_counter()
                        read(keys[n::count])
                        spent[n] = time.perf_counter() - began - (waiting() - waited)

                    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
                    [thread.start() for thread in threads]
                    [thread.join() for thread in threads]
                    return max(spent)

                ratios = [with_threads(1) / with_threads(2) for _ in range(given.rounds)]
                print(f"{codec:5} {name:10} {what:7} {statistics.median(ratios):5.2f} (best {max(ratios):.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--readers", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--codec", nargs="*", default=["lz4", "zstd"])
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    blosc2.set_nthreads(given.threads)
    table = defaultdict(lambda: defaultdict(list))
    clock = time.perf_counter if given.wall else time.process_time
    with tempfile.TemporaryDirectory() as folder:
        if given.readers:
            return readers(given, folder)
        for codec in given.codec:
            for name, x in sources():
                path = os.path.join(folder, f"{name}-{codec}.b2nd")
                cparams = {"codec": getattr(blosc2.Codec, codec.upper()), "clevel": 5, "nthreads": given.threads}
                blosc2.asarray(x, urlpath=path, mode="w", cparams=cparams)
                for operation, ours, theirs in operations(x, path, codec, folder, given.threads):
                    if given.only and operation not in given.only:
                        continue
                    if operation != "write":
                        first, second = ours(), theirs()
                        if not np.array_equal(first, second):
                            sys.exit(f"{name}, {codec}, {operation}: the results differ")
                    ratios, times = [], []
                    for _ in range(given.rounds):
                        mine, other = seconds(ours, clock), seconds(theirs, clock)
                        ratios.append(other / mine)
                        times.append(mine)
                    table[operation][codec].append(statistics.median(ratios))
                    print(
                        f"{codec:5} {name:10} {operation:12} {statistics.median(ratios):6.2f}  "
                        f"ours {statistics.median(times) * 1e6:10.0f} us",
                        flush=True,
                    )
    print(f"\n{'':12} " + " ".join(f"{codec:>18}" for codec in given.codec) + "    (mean, least and most)")
    for operation, columns in table.items():
        cells = [
            f"{statistics.geometric_mean(columns[codec]):6.2f} ({min(columns[codec]):.2f}-{max(columns[codec]):.2f})"
            for codec in given.codec
        ]
        print(f"{operation:12} " + " ".join(f"{cell:>18}" for cell in cells))


if __name__ == "__main__":
    main()
