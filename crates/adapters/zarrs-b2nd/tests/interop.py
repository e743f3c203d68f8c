"""Reads the arrays that the tests of zarrs-b2nd have written, and writes others for them to read.

    python interop.py FOLDER

`FOLDER/rust/NAME.zarr` and `FOLDER/rust/NAME.bytes` are an array and its items in C order; those written here are in
`FOLDER/python`. Prints how many there are of each kind.
"""

import pathlib
import sys

import numpy as np
import zarr

from b2kit.zarr import B2ndCodec, Blosc2Codec

folder = pathlib.Path(sys.argv[1])
read = 0
for path in sorted((folder / "rust").glob("*.zarr")):
    expected = path.with_suffix(".bytes").read_bytes()
    array = zarr.open_array(path, mode="r")
    found = np.ascontiguousarray(array[...])
    assert found.tobytes() == expected, path
    whole = found.reshape(array.shape)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        cut = tuple(slice(*sorted(rng.integers(0, n + 1, 2))) for n in array.shape)
        assert np.ascontiguousarray(array[cut]).tobytes() == whole[cut].tobytes(), (path, cut)
    read += 1
print("read", read)

try:
    from imagecodecs.zarr import B2nd, Blosc2

    theirs = True
except ImportError:
    theirs = False

target = folder / "python"
target.mkdir()
dtypes = ["?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16"]
dtypes += ["<M8[ns]", "<M8[10us]", "<m8[s]", "<U5"]
written = 0


def write(name, items, chunks, **codecs):
    global written
    path = target / f"{name}.zarr"
    array = zarr.create_array(path, shape=items.shape, chunks=chunks, dtype=items.dtype, **codecs)
    array[...] = items
    path.with_suffix(".bytes").write_bytes(items.tobytes())
    written += 1


for n, dtype in enumerate(dtypes):
    rng = np.random.default_rng(n)
    dtype = np.dtype(dtype)
    shape = (100, 90)
    if dtype.kind == "b":
        items = rng.integers(0, 2, shape).astype("?")
    elif dtype.kind == "U":
        items = rng.choice(np.array(["", "a", "bc", "äöü", "12345"]), shape).astype(dtype)
    else:
        items = rng.integers(0, 4, (*shape, dtype.itemsize), dtype="u1").view(dtype)[..., 0]
    blocks = (13, 20)
    write(f"b2nd-{n}", items, (60, 50), serializer=B2ndCodec(blocks=blocks), compressors=None)
    codec = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"][n % 5]
    filters = [(), ("shuffle",), ("bitshuffle",), ("delta", "shuffle")][n % 4]
    write(f"codec-{n}", items, (100, 90), serializer=B2ndCodec(codec=codec, level=n % 10, filters=filters), compressors=None)
    write(f"blosc2-{n}", items, (60, 50), compressors=[Blosc2Codec(codec=codec, filters=filters)])
    if theirs and dtype.kind in "iufc":
        write(f"theirs-b2nd-{n}", items, (60, 50), serializer=B2nd(blockshape=blocks), compressors=None)
        write(f"theirs-blosc2-{n}", items, (60, 50), compressors=[Blosc2()])
print("written", written)
print("imagecodecs", int(theirs))
