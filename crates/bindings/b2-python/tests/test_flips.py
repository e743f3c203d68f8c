"""One flipped bit anywhere: every way to read raises, reports a change, or returns the right values."""

import math
import os
import pathlib
import warnings

import numpy as np
import pytest
from conftest import many

import b2kit

DTYPES = ["u1", "<i2", "<f4", "<f8", ">i4", "<u8", "<c16"]
CODECS = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
FILTERS = [[], ["shuffle"], ["bitshuffle"], ["delta", "shuffle"]]
ARRAYS = 10
FLIPS = many(50)


def make(rng):
    """Noise, smooth data, or small numbers: from a hundred to some ten thousand items, some chunks with block sums."""
    dtype = np.dtype(str(rng.choice(DTYPES)))
    ndim = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(10, {1: 60_000, 2: 250, 3: 40}[ndim], ndim))
    nbytes = math.prod(shape) * dtype.itemsize
    raw = [
        rng.integers(0, 256, nbytes, "u1"),
        (np.arange(nbytes) // 64 % 256).astype("u1"),
        rng.integers(0, 256, nbytes, "u1") * (np.arange(nbytes) % 4 == 0).astype("u1"),
    ][int(rng.integers(3))]
    chunks = tuple(-(-n // int(rng.integers(1, 3))) for n in shape)
    return raw.view(dtype).reshape(shape), chunks


def same(found, items):
    return np.asarray(found).tobytes() == np.asarray(items).tobytes()


def ways(shape, rng):
    box = tuple(slice(n // 4, n // 4 + max(1, n // 3)) for n in shape)
    return [..., box, tuple(n // 2 for n in shape), tuple(slice(None, None, -3) for _ in shape), rng.random(shape) < 0.1]


def judge(read, items, errors=b2kit.Error):
    """Returns the outcome of a read: `error`, `reported`, `right` or `wrong`."""
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        try:
            found = read()
        except errors:
            return "error"
    if same(found, items):
        return "right"
    return "reported" if any(issubclass(w.category, b2kit.errors.ChangedWarning) for w in reported) else "wrong"


def flip(path, rng):
    """Flips one bit in one of the files, and returns the arguments to undo it."""
    files = sorted(p for p in path.iterdir() if p.name != ".b2lock") if path.is_dir() else [path]
    sizes = np.array([p.stat().st_size for p in files])
    file = files[int(rng.choice(len(files), p=sizes / sizes.sum()))]
    good = file.read_bytes()
    bad, at = bytearray(good), int(rng.integers(len(good) * 8))
    bad[at // 8] ^= 1 << at % 8
    file.write_bytes(bad)
    return file, good, at


@pytest.mark.parametrize("number", range(ARRAYS))
def test_no_flipped_bit_gives_wrong_values(tmp_path, number):
    rng = np.random.default_rng([19, number])
    items, chunks = make(rng)
    path = tmp_path / "a.b2nd"
    codec, filters = CODECS[number % 5], FILTERS[int(rng.integers(len(FILTERS)))]
    b2kit.asarray(items, path, codec=codec, filters=filters, chunks=chunks, sparse=number % 4 == 0)
    keys = ways(items.shape, rng)
    ends = {"error": 0, "reported": 0, "right": 0}
    for _ in range(FLIPS):
        file, good, at = flip(path, rng)
        for key in keys:
            end = judge(lambda key=key: b2kit.open(path)[key], items[key])
            assert end != "wrong", (items.dtype, items.shape, codec, filters, file.name, at, key)
            ends[end] += 1
        # Opened before the damage.
        file.write_bytes(good)
        opened = b2kit.open(path)
        bad = bytearray(good)
        bad[at // 8] ^= 1 << at % 8
        file.write_bytes(bad)
        end = judge(lambda opened=opened: opened[...], items)
        assert end != "wrong", (items.dtype, items.shape, codec, filters, file.name, at, "opened before")
        file.write_bytes(good)
    print(ends)
    # Flips in the header and in its copy are harmless: the other one is read.
    assert 3 * ends["error"] > ends["right"]


@pytest.mark.parametrize("number", range(ARRAYS))
def test_no_flipped_bit_of_a_zarr_chunk_gives_wrong_values(tmp_path, number):
    zarr = pytest.importorskip("zarr", minversion="3.1", reason="zarr 3.1 or later is not installed")
    from b2kit.zarr import B2ndCodec

    rng = np.random.default_rng([20, number])
    items, chunks = make(rng)
    codec = CODECS[number % 5]
    how = {"serializer": B2ndCodec(codec=codec), "compressors": None}
    if number % 3 == 2:
        how["shards"] = tuple(2 * n for n in chunks)
    z = zarr.create_array(tmp_path / "z", shape=items.shape, chunks=chunks, dtype=items.dtype, **how)
    z[...] = items
    # Zarr does not support negative steps.
    keys = ways(items.shape, rng)[:3]
    ends = {"error": 0, "reported": 0, "right": 0}
    folder = pathlib.Path(tmp_path, "z", "c")
    files = sorted(pathlib.Path(at, name) for at, _, names in os.walk(folder) for name in names)
    z = zarr.open_array(tmp_path / "z", mode="r")
    for _ in range(FLIPS):
        file, good, at = flip(files[int(rng.integers(len(files)))], rng)
        for key in keys:
            # Zarr itself compares the checksum of a shard's index.
            end = judge(lambda key=key: z[key], items[key], (b2kit.Error, ValueError))
            assert end in ("error", "right"), (items.dtype, items.shape, codec, file.name, at, key)
            ends[end] += 1
        file.write_bytes(good)
    print(ends)
    assert ends["error"] > 0
