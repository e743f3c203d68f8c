"""Exchanges random arrays between zarr-python and `b2kit convert`, in both directions, and `.npz` files with NumPy.

    zarr_python.py B2KIT FOLDER CASES
"""

import io
import json
import pathlib
import random
import subprocess
import sys
import warnings

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

warnings.simplefilter("ignore")

B2KIT, FOLDER, CASES = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
DTYPES = ["?", "i1", "u1", "<i2", ">i4", "<u8", "<f2", "<f4", ">f8", "<c8", "<c16", "S5", "<U3", "V7", "<M8[ns]", "<m8[25s]"]
STRUCT = [("a", "<i4"), ("b", "<f8"), ("c", "S3")]


def b2kit(*args):
    done = subprocess.run([B2KIT, "-q", *map(str, args)], capture_output=True)
    assert done.returncode == 0, (args, done.stderr.decode())
    return done.stdout


def values(random_, dtype, shape):
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=int))
    if dtype.kind == "b":
        items = np.frombuffer(random_.randbytes(count), "u1") % 2 == 1
    elif dtype.kind == "U":
        items = np.array(["".join(random_.choice("aé€z") for _ in range(random_.randrange(4))) for _ in range(count)], dtype)
    elif dtype.kind == "S":
        items = np.array([random_.randbytes(dtype.itemsize).replace(b"\0", b"x") for _ in range(count)], dtype)
    elif dtype.names:
        items = np.zeros(count, dtype)
        for name in dtype.names:
            items[name] = values(random_, dtype[name], (count,))
    elif dtype.kind in "fc":
        items = np.cumsum(np.frombuffer(random_.randbytes(count), "i1").astype("f4")).astype(dtype)
    else:
        items = np.frombuffer(random_.randbytes(count * dtype.itemsize), dtype)
    return items.reshape(shape)


def same(found, expected):
    assert found.shape == expected.shape, (found.shape, expected.shape)
    native = lambda array: np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()
    assert native(found) == native(expected), (found.dtype, expected.dtype)


def version_2(random_, path, dtype, shape, chunks):
    compressor = random_.choice([
        None, numcodecs.Blosc("lz4", 5, random_.choice([0, 1, 2])), numcodecs.Blosc("zstd"), numcodecs.Zstd(3),
        numcodecs.GZip(5), numcodecs.Zlib(5), numcodecs.LZ4(),
    ])
    filters, kind = [], np.dtype(dtype).kind
    if kind in "iu" and random_.random() < 0.5:
        filters = [numcodecs.Delta(dtype=dtype)]
    elif kind == "f" and random_.random() < 0.3:
        filters = [numcodecs.BitRound(5)] if np.dtype(dtype) in ("<f4", "<f2") else []
    if not filters and random_.random() < 0.3 and np.dtype(dtype).itemsize > 1:
        filters = [numcodecs.Shuffle(np.dtype(dtype).itemsize)]
    separator = random_.choice([".", "/"])
    return zarr.create_array(
        path, shape=shape, chunks=chunks, dtype=dtype, zarr_format=2, compressors=compressor, filters=filters or None,
        order=random_.choice("CF"), chunk_key_encoding={"name": "v2", "separator": separator}, overwrite=True,
        fill_value=fill(random_, dtype),
    )


def version_3(random_, path, dtype, shape, chunks):
    compressors = random_.choice([
        (), (ZstdCodec(level=3, checksum=random_.random() < 0.5),), (GzipCodec(level=5),),
        (BloscCodec(cname=random_.choice(["lz4", "zstd", "zlib"])),), (ZstdCodec(), Crc32cCodec()),
    ])
    filters = ()
    if len(shape) > 1 and random_.random() < 0.4:
        order = list(range(len(shape)))
        random_.shuffle(order)
        filters = (TransposeCodec(order=order),)
    shards = tuple(chunk * random_.randrange(1, 4) for chunk in chunks) if shape and random_.random() < 0.4 else None
    endian = random_.choice(["little", "big"])
    serializer = BytesCodec(endian=endian) if np.dtype(dtype).kind in "iufc" and np.dtype(dtype).itemsize > 1 else "auto"
    return zarr.create_array(
        path, shape=shape, chunks=chunks, shards=shards, dtype=dtype, compressors=compressors, filters=filters,
        serializer=serializer, overwrite=True, fill_value=fill(random_, dtype),
        dimension_names=[f"d{n}" for n in range(len(shape))] if random_.random() < 0.5 else None,
        chunk_key_encoding=random_.choice([{"name": "default", "separator": "/"}, {"name": "default", "separator": "."},
                                           {"name": "v2", "separator": "."}]),
    )


def fill(random_, dtype):
    dtype = np.dtype(dtype)
    if random_.random() < 0.5:
        return {"i": 7, "u": 200 if dtype.itemsize == 1 else 7, "f": random_.choice([np.nan, np.inf, -1.5]), "c": 1 + 2j, "b": True,
                "U": "ab", "S": b"ab"}.get(dtype.kind, 0 if dtype.kind not in "VMm" else None)
    return None


def case(seed):
    random_ = random.Random(seed)
    dtype = random_.choice(DTYPES + [STRUCT])
    ndim = random_.randrange(0, 4)
    shape = tuple(random_.randrange(0 if random_.random() < 0.1 else 1, 30) for _ in range(ndim))
    chunks = tuple(random_.randrange(1, max(2, length + 2)) for length in shape)
    path = FOLDER / f"a{seed}.zarr"
    make = version_2 if random_.random() < 0.5 else version_3
    array = make(random_, str(path), np.dtype(dtype), shape, chunks)
    array.attrs.update({"units": "K", "list": [1, 2.5], "seed": seed})
    # Some chunks are never written, so they are not stored.
    if shape and random_.random() < 0.5 and all(shape):
        array[: shape[0] // 2 + 1] = values(random_, array.dtype, (shape[0] // 2 + 1, *shape[1:]))
    else:
        array[...] = values(random_, array.dtype, shape)
    expected = array[...] if shape else np.asarray(array[()], array.dtype)
    # To Blosc2, and all of its items.
    new = FOLDER / f"a{seed}.b2nd"
    b2kit("convert", path, new, "--verify", "--force")
    same(np.load(io.BytesIO(b2kit("cat", new, "--npy"))), expected)
    meta = json.loads(b2kit("info", "--json", new))["vlmetalayers"]
    assert (meta["units"], meta["list"], meta["seed"]) == ("K", [1, 2.5], seed), meta
    # A part.
    if shape and all(shape):
        spec = random_.choice(["::2", "-1", "::-1", "1:"])
        b2kit("convert", path, FOLDER / "part.b2nd", f"--slice={spec}", "--force", "--verify")
        part = eval(f"expected[{spec}]")
        same(np.load(io.BytesIO(b2kit("cat", FOLDER / "part.b2nd", "--npy"))), np.asarray(part, expected.dtype))
    # And back.
    back = FOLDER / f"b{seed}.zarr"
    options = random_.choice([[], ["--codec", "gzip"], ["--codec", "lz4", "--clevel", "9"]])
    b2kit("convert", new, back, "--verify", *options)
    again = zarr.open_array(str(back), mode="r")
    same(again[...] if shape else np.asarray(again[()], again.dtype), expected)
    assert dict(again.attrs)["seed"] == seed
    if make is version_3:
        assert again.metadata.dimension_names == array.metadata.dimension_names
    # .npz: from NumPy and to NumPy.
    archive = FOLDER / "c.npz"
    save = random_.choice([np.savez, np.savez_compressed])
    save(archive, **{"a/b": np.asarray(expected, order=random_.choice("CF")), "other": np.arange(5)})
    b2kit("convert", f"{archive}::a/b", FOLDER / "c.b2nd", "--force", "--verify")
    same(np.load(io.BytesIO(b2kit("cat", FOLDER / "c.b2nd", "--npy"))), expected)
    b2kit("convert", new, FOLDER / "d.npz", "--force", "--verify", *random_.choice([[], ["--codec", "gzip"]]))
    with np.load(FOLDER / "d.npz") as found:
        same(found[f"a{seed}"], expected)


def groups():
    for version in [2, 3]:
        path = FOLDER / f"g{version}.zarr"
        root = zarr.open_group(str(path), mode="w", zarr_format=version)
        root.attrs["title"] = "groups"
        inner = root.create_group("inner")
        inner.attrs["level"] = 1
        inner.create_array("a", data=np.arange(60.0).reshape(6, 10), chunks=(4, 4))
        root.create_array("b", data=np.arange(7), chunks=(3,))
        store = FOLDER / f"g{version}.b2d"
        b2kit("convert", path, store, "--verify")
        assert b2kit("ls", store).decode().split() == ["/b", "/inner/a"]
        same(np.load(io.BytesIO(b2kit("cat", store, "--key", "/inner/a", "--npy"))), root["inner/a"][...])
        back = FOLDER / f"h{version}.zarr"
        b2kit("convert", store, back, "--verify")
        again = zarr.open_group(str(back), mode="r")
        assert dict(again.attrs) == {"title": "groups"} and dict(again["inner"].attrs) == {"level": 1}
        same(again["inner/a"][...], root["inner/a"][...])
        archive = FOLDER / f"i{version}.npz"
        b2kit("convert", store, archive, "--verify")
        with np.load(archive) as found:
            assert sorted(found) == ["b", "inner/a"]
            same(found["inner/a"], root["inner/a"][...])


def xarray_stores():
    """Names of dimensions, times and missing values are the same as xarray reads from Zarr."""
    import xarray as xr

    t = np.array([1.5, np.nan, 3.0, -9.0], "f4")
    dataset = xr.Dataset({"t": ("x", t)}, {"x": ("x", np.array(["2020-01-01", "2020-01-03", "2020-02-01", "2021-01-01"], "M8[ns]"))}, {"title": "x"})
    for version in [2, 3]:
        path, store, back = (FOLDER / f"x{version}.{end}" for end in ["zarr", "b2d", "back.zarr"])
        dataset.to_zarr(path, zarr_format=version, encoding={"t": {"_FillValue": -9.0}})
        expected = xr.open_zarr(path).load()
        b2kit("convert", path, store)
        b2kit("convert", store, back)
        found = xr.open_zarr(back, consolidated=False).load()
        xr.testing.assert_identical(found, expected)
        assert np.isnan(found["t"][3]), version


groups()
xarray_stores()
for seed in range(CASES):
    try:
        case(seed)
    except BaseException:
        print("case", seed, file=sys.stderr)
        raise
print(CASES, "cases")
