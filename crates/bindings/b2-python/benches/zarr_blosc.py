"""Parts of chunks that zarr has compressed with ``blosc``, with and without ``b2kit.zarr.enable()``.

    python benches/zarr_blosc.py [--latency MS] [--bandwidth MBPS] [--rounds N] [--whole]

Both read the same files by turns: directly, or with a latency in a store that waits so long in each request, and as
long as its bytes take. With ``--whole``, whole arrays of many chunks instead, in all combinations of codec and shuffle.
"""

import argparse
import asyncio
import os
import resource
import statistics
import tempfile
import time

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.codecs import BloscCodec
from zarr.storage import LocalStore, WrapperStore

import b2kit.zarr

CHUNK, BOX = 256, 32


class Slow(WrapperStore):
    """Delays each request, and shares a bandwidth between them."""

    _supports_sync_io = False
    get_ranges = Store.get_ranges

    def __init__(self, store, latency, bandwidth):
        super().__init__(store)
        self.latency, self.bandwidth, self.requests, self.bytes = latency, bandwidth, 0, 0
        self._line = 0.0

    async def get(self, key, prototype, byte_range=None):
        found = await super().get(key, prototype, byte_range)
        nbytes = len(found) if found is not None else 0
        self.requests += 1
        self.bytes += nbytes
        if self.latency:
            now = time.perf_counter()
            # The bytes follow those of the requests before.
            self._line = max(self._line, now + self.latency) + nbytes / self.bandwidth
            await asyncio.sleep(self._line - now)
        return found


def field(shape):
    x, y, z = np.ogrid[0 : shape[0], 0 : shape[1], 0 : shape[2]]
    smooth = 280 + 10 * np.sin(x / 31) * np.cos(y / 17) + 3 * np.sin(z / 11)
    return (smooth + np.random.default_rng(0).normal(0, 0.05, shape)).astype("f4")


def opened(store, on):
    if on:
        b2kit.zarr.enable()
    z = zarr.open_array(store, mode="r+")
    b2kit.zarr.disable()
    return z


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def parts(args, folder):
    shape = (CHUNK * 2, CHUNK, CHUNK)
    items = field(shape)
    for name, cname, blocksize in (
        ("zstd, automatic blocks", "zstd", 0),
        ("zstd, blocks of 32 KiB", "zstd", 32 << 10),
        ("lz4, automatic blocks", "lz4", 0),
    ):
        path = f"{folder}/{cname}{blocksize}"
        codec = BloscCodec(cname=cname, blocksize=blocksize, shuffle="shuffle", typesize=4)
        z = zarr.create_array(path, shape=shape, chunks=(CHUNK,) * 3, dtype="f4", compressors=[codec])
        z[...] = items
        direct = not args.latency
        counting = [Slow(LocalStore(path), args.latency / 1000, args.bandwidth * 1e6) for _ in range(2)]
        arrays = [opened(LocalStore(path) if direct else counting[on], on) for on in (False, True)]
        counted = [opened(counting[on], on) for on in (False, True)]
        dice = np.random.default_rng(1)
        for what in "box", "box over 2 chunks", "plane, first axis", "plane, last axis", "half, last axis":
            times, cpus = ([], []), ([], [])
            for _ in range(args.rounds):
                at = [int(n) for n in dice.integers(0, CHUNK - BOX, 3)]
                key = {
                    "box": tuple(slice(n, n + BOX) for n in at),
                    "box over 2 chunks": (slice(240, 272), *(slice(n, n + BOX) for n in at[1:])),
                    "plane, first axis": (at[0],),
                    "plane, last axis": (slice(CHUNK), slice(None), at[2]),
                    "half, last axis": (slice(CHUNK), slice(None), slice(128)),
                }[what]
                for on in (0, 1):
                    began, used = time.perf_counter(), cpu()
                    found = arrays[on][key]
                    times[on].append(time.perf_counter() - began)
                    cpus[on].append(cpu() - used)
                    np.testing.assert_array_equal(found, items[key])
            reported = []
            for on in (0, 1):
                counting[on].requests = counting[on].bytes = 0
                counted[on][key]
                reported.append((counting[on].bytes, counting[on].requests))
            ms = [statistics.median(each) * 1000 for each in (*times, *cpus)]
            print(
                f"{name:24} {what:18} | {reported[0][0] >> 10:7} KiB {reported[0][1]:3} | {reported[1][0] >> 10:7} KiB {reported[1][1]:3} "
                f"(1/{reported[0][0] / reported[1][0]:.1f}) | {ms[0]:7.1f} {ms[1]:7.1f} ms ({ms[1] / ms[0]:.2f}) "
                f"| CPU {ms[2]:7.1f} {ms[3]:7.1f} ms"
            )


def whole(args, folder):
    for side, count in (64, 32), (128, 8), (256, 2):
        shape = (side * count, side, side)
        items = field(shape)
        for cname in "lz4", "zstd", "blosclz", "zlib":
            for shuffle in "shuffle", "bitshuffle":
                path = f"{folder}/{side}{cname}{shuffle}"
                codec = BloscCodec(cname=cname, shuffle=shuffle, typesize=4)
                z = zarr.create_array(path, shape=shape, chunks=(side,) * 3, dtype="f4", compressors=[codec])
                z[...] = items
                arrays = [opened(path, on) for on in (False, True)]
                times, cpus = ([], []), ([], [])
                for _ in range(args.rounds):
                    for on in (0, 1):
                        began, used = time.perf_counter(), cpu()
                        found = arrays[on][...]
                        times[on].append(time.perf_counter() - began)
                        cpus[on].append(cpu() - used)
                        assert found[1, 2, 3] == items[1, 2, 3]
                ms = [statistics.median(each) * 1000 for each in (*times, *cpus)]
                print(
                    f"{count:3} chunks of {side}^3, {cname:8} {shuffle:10} {ms[0]:7.1f} {ms[1]:7.1f} ms "
                    f"({ms[0] / ms[1]:.2f}x) CPU {ms[2]:7.1f} {ms[3]:7.1f} ms ({ms[2] / ms[3]:.2f}x)",
                    flush=True,
                )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0, help="of each request, in ms")
    parser.add_argument("--bandwidth", type=float, default=50, help="in MB/s, where there is a latency")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--whole", action="store_true")
    args = parser.parse_args()
    print(f"zarr {zarr.__version__}, {os.cpu_count()} CPUs; without and with enable()")
    with tempfile.TemporaryDirectory() as folder:
        (whole if args.whole else parts)(args, folder)


main()
