"""The other sides of `cargo xtask bench --remote`: python-blosc2, and Zarr through obstore.

`bench_remote.py make FOLDER` writes the array as raw items, as a frame of C-Blosc2, and as Zarr arrays with chunks and with
shards. `bench_remote.py blosc2|zarr|package` opens URLs and reads parts, or copies all to a file or through a pipe, one command per
line of standard input, and answers each with seconds and a sum of the items.
"""

import json
import subprocess
import sys
import time

import numpy as np

SHAPE, CHUNKS, BLOCKS = (400, 400, 256), (100, 100, 128), (25, 25, 32)

PARTS = {
    "item": np.s_[137, 201, 77],
    "plane0": np.s_[137],
    "plane2": np.s_[:, :, 77],
    "box": np.s_[110:142, 110:142, 40:72],
    "whole": np.s_[:],
}


def field():
    """A smooth field with noise in its last digits, as instruments write it."""
    rng = np.random.default_rng(7)
    x, y, z = (np.linspace(0, 9, n, dtype="f4") for n in SHAPE)
    smooth = 20 * np.sin(x)[:, None, None] + 5 * np.cos(2 * y)[None, :, None] + 3 * np.sin(5 * z)[None, None, :]
    noise = rng.standard_normal(SHAPE, dtype="f4") * 0.2
    return np.round((smooth + noise) * 16).astype("f4") / 16


def make(folder):
    import blosc2
    import zarr
    from zarr.codecs import BloscCodec

    items = field()
    items.tofile(f"{folder}/raw")
    cparams = {"codec": blosc2.Codec.ZSTD, "clevel": 5, "filters": [blosc2.Filter.SHUFFLE], "nthreads": 1}
    blosc2.asarray(items, urlpath=f"{folder}/c.b2nd", chunks=CHUNKS, blocks=BLOCKS, cparams=cparams, mode="w")
    codec = BloscCodec(cname="zstd", clevel=5, shuffle="shuffle", typesize=4)
    for name, shards, chunks in [("chunks", None, CHUNKS), ("shards", CHUNKS, BLOCKS)]:
        store = zarr.storage.LocalStore(f"{folder}/{name}.zarr")
        array = zarr.create_array(store, shape=SHAPE, dtype="f4", chunks=chunks, shards=shards, compressors=codec)
        array[:] = items


def copy(array, target, path):
    """Writes the whole array to a file, or to a pipe that ``cat`` reads."""
    found = np.ascontiguousarray(array[:], dtype="f4")
    if target == "file":
        found.tofile(path)
        return
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0) as reader:
        rest = memoryview(found).cast("B")
        while rest:
            rest = rest[reader.stdin.write(rest) :]


def serve(opens):
    array = None
    for line in sys.stdin:
        command, what, *path = line.split()
        start = time.perf_counter()
        if command in ("file", "pipe"):
            copy(opens(what), command, *path)
            print(json.dumps([time.perf_counter() - start, 0]), flush=True)
            continue
        if command == "open":
            array = opens(what)
            array.shape
            print(json.dumps([time.perf_counter() - start, 0]), flush=True)
            continue
        found = np.ascontiguousarray(array[PARTS[what]], dtype="f4")
        seconds = time.perf_counter() - start
        print(json.dumps([seconds, int(found.view("u4").sum(dtype="u8"))]), flush=True)


def open_blosc2(url):
    import blosc2

    return blosc2.RemoteArray(url)


def open_package(url):
    import b2kit

    return b2kit.open(url)


def open_zarr(url):
    import zarr
    from obstore.store import HTTPStore

    store = HTTPStore.from_url(url, client_options={"allow_http": True})
    return zarr.open_array(zarr.storage.ObjectStore(store, read_only=True), mode="r")


if sys.argv[1] == "make":
    make(sys.argv[2])
else:
    serve({"blosc2": open_blosc2, "zarr": open_zarr, "package": open_package}[sys.argv[1]])
