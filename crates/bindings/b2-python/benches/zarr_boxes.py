"""Boxes of 32^3 from chunks of 256^3: bytes, requests and time of b2kit.b2nd next to zarr's default and sharding.

    python benches/zarr_boxes.py [--latency MS] [--rounds N]

The stores are read by turns. Without a latency they are files; with one, files in a store that waits so long in
each request.
"""

import argparse
import asyncio
import statistics
import tempfile
import time

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.storage import LocalStore, WrapperStore

from b2kit.zarr import B2ndCodec

SHAPE, CHUNK, BOX = (512, 256, 256), 256, 32


class Slow(WrapperStore):
    def __init__(self, store, latency):
        super().__init__(store)
        self.latency, self.requests, self.bytes = latency, 0, 0

    # Through `get`, as in stores without a separate method; a wrapper would forward it.
    get_ranges = Store.get_ranges

    async def get(self, key, prototype, byte_range=None):
        if self.latency:
            await asyncio.sleep(self.latency)
        found = await super().get(key, prototype, byte_range)
        self.requests += 1
        self.bytes += len(found) if found is not None else 0
        return found


def field():
    x, y, z = np.ogrid[0 : SHAPE[0], 0 : SHAPE[1], 0 : SHAPE[2]]
    smooth = 280 + 10 * np.sin(x / 31) * np.cos(y / 17) + 3 * np.sin(z / 11)
    return (smooth + np.random.default_rng(0).normal(0, 0.05, SHAPE)).astype("f4")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0, help="of each request, in ms")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    folder, items = tempfile.mkdtemp(), field()
    kinds = {
        "zarr's default (zstd)": dict(chunks=(CHUNK,) * 3),
        "sharding, inner 32^3, zstd": dict(shards=(CHUNK,) * 3, chunks=(BOX,) * 3),
        "sharding, inner 32^3, blosc zstd": dict(
            shards=(CHUNK,) * 3, chunks=(BOX,) * 3, compressors=[zarr.codecs.BloscCodec(cname="zstd", clevel=5)]
        ),
        "b2kit.b2nd, blocks 32^3": dict(
            chunks=(CHUNK,) * 3, serializer=B2ndCodec(blocks=(BOX,) * 3), compressors=None
        ),
    }
    arrays, stores = {}, {}
    for n, (kind, how) in enumerate(kinds.items()):
        store = LocalStore(f"{folder}/{n}")
        zarr.create_array(store, shape=SHAPE, dtype="f4", **how)[...] = items
        stores[kind] = Slow(LocalStore(f"{folder}/{n}"), args.latency / 1000)
        arrays[kind] = zarr.open_array(stores[kind])
    rng = np.random.default_rng(1)
    for name, starts in (
        ("aligned box", rng.integers(0, 8, (args.rounds, 3)) * 32),
        ("box anywhere in a chunk", rng.integers(0, 7, (args.rounds, 3)) * 32 + rng.integers(1, 32, (args.rounds, 3))),
    ):
        times = {kind: [] for kind in kinds}
        reported = {kind: (0, 0) for kind in kinds}
        for start in starts:
            key = tuple(slice(int(at), int(at) + BOX) for at in start)
            for kind, z in arrays.items():
                stores[kind].requests = stores[kind].bytes = 0
                began = time.perf_counter()
                found = z[key]
                times[kind].append(time.perf_counter() - began)
                requests, nbytes = reported[kind]
                reported[kind] = (requests + stores[kind].requests, nbytes + stores[kind].bytes)
                np.testing.assert_array_equal(found, items[key])
        print(f"\n{name}, latency {args.latency} ms, median of {args.rounds}")
        for kind in kinds:
            requests, nbytes = reported[kind]
            print(
                f"  {kind:34} {statistics.median(times[kind]) * 1000:8.2f} ms "
                f"{nbytes / args.rounds / 1024:9.0f} KiB {requests / args.rounds:5.1f} requests"
            )


main()
