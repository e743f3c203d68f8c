"""References into ``.b2nd`` files and stores, read back through zarr-python, fsspec, VirtualiZarr and xarray."""

import json
import random
import struct

import numpy as np
import pytest

import b2kit

zarr = pytest.importorskip("zarr", minversion="3.4", reason="zarr 3.4 or later is not installed")

import fsspec  # noqa: E402
import numcodecs  # noqa: E402
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper  # noqa: E402
from zarr.storage import FsspecStore, LocalStore, MemoryStore  # noqa: E402

from b2kit import _zarr_blosc, virtual  # noqa: E402
from b2kit.zarr import ChunkCodec  # noqa: E402

FORMATS = [2, 3]
DTYPES = ["u1", "<i2", ">i4", "f8", "c16", "?", "<U5", "S3", "M8[s]"]


@pytest.fixture
def eager(monkeypatch):
    """Parts are read whenever possible, however small the chunks."""
    for name in "_SMALL_FILE", "_WORTH", "_GAP", "_GAP_FILE":
        monkeypatch.setattr(_zarr_blosc, name, 0)
    monkeypatch.setattr(_zarr_blosc, "_MOST", 2.0)
    for name in "_HEAD", "_HEAD_FILE":
        monkeypatch.setattr(_zarr_blosc, name, 20)


def opened(refs, zarr_format=3):
    # Through JSON text, as they are usually stored.
    fs = fsspec.filesystem("reference", fo=json.loads(json.dumps(refs)), remote_protocol="file", skip_instance_cache=True)
    store = FsspecStore(AsyncFileSystemWrapper(fs, asynchronous=True), path="", read_only=True)
    return zarr.open_group(store, mode="r", zarr_format=zarr_format)


def keys(dice, shape):
    """Returns some selections of each kind."""
    for _ in range(6):
        yield "plain", tuple(
            dice.choice([slice(None), slice(*sorted(dice.choices(range(n + 1), k=2)), dice.randrange(1, 4)), dice.randrange(n)])
            for n in shape
        )
    yield "oindex", tuple(np.array(sorted(dice.choices(range(n), k=3))) for n in shape)
    yield "vindex", tuple(np.array(dice.choices(range(n), k=4)) for n in shape)


def compare(z, items, dice):
    np.testing.assert_array_equal(z[...], items)
    for kind, key in keys(dice, items.shape):
        if kind == "plain":
            np.testing.assert_array_equal(z[key], items[key])
        elif kind == "oindex":
            np.testing.assert_array_equal(z.oindex[key], items[np.ix_(*key)])
        else:
            np.testing.assert_array_equal(z.vindex[key], items[key])


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_arrays_are_identical(tmp_path, eager, dtype, zarr_format):
    dice = random.Random(dtype)
    for n in range(5):
        shape = tuple(dice.randrange(1, 40) for _ in range(dice.randrange(1, 4)))
        chunks = tuple(dice.randrange(1, length + 1) for length in shape)
        blocks = tuple(dice.randrange(1, length + 1) for length in chunks)
        raw = np.random.default_rng(n).integers(0, 100, shape)
        items = (raw > 50) if dtype == "?" else raw.astype(dtype)
        items[: shape[0] // 2] = np.zeros((), items.dtype)
        path = tmp_path / f"a{n}.b2nd"
        filters = dice.choice([[], ["shuffle"], ["bitshuffle"], ["delta", "shuffle"]])
        b2kit.asarray(items, path, dice.choice(["lz4", "zstd", "blosclz"]), dice.choice([0, 5]), filters, chunks=chunks, blocks=blocks)
        z = opened(virtual.kerchunk(path, zarr_format=zarr_format), zarr_format)[f"a{n}"]
        assert z.chunks == chunks
        compare(z, items, dice)


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_special_chunks_are_missing_or_inline(tmp_path, zarr_format):
    blosc2 = pytest.importorskip("blosc2", reason="python-blosc2 is not installed")
    made = {"nan": blosc2.nans, "zeros": blosc2.zeros, "value": lambda *args, **more: blosc2.full(args[0], 2.5, **more)}
    layout = {"dtype": np.dtype("f8"), "chunks": (20, 30), "blocks": (10, 10)}
    for name, value in ("nan", np.nan), ("zeros", 0), ("value", 2.5):
        made[name]((40, 30), urlpath=str(tmp_path / f"{name}.b2nd"), **layout)
        refs = virtual.kerchunk(tmp_path / f"{name}.b2nd", zarr_format=zarr_format)
        stored = [key for key in refs["refs"] if "z" not in key.rsplit("/", 1)[-1]]
        # In Zarr 2, xarray takes items of the fill value for missing ones, so zeros have none.
        assert len(stored) == (2 if name == "value" or (name, zarr_format) == ("zeros", 2) else 0)
        np.testing.assert_array_equal(opened(refs, zarr_format)[name][...], np.full((40, 30), value))
    # Zeros are the fill value, so NaN must be stored inline.
    blosc2.nans((40, 30), urlpath=str(tmp_path / "both.b2nd"), **layout)
    with b2kit.open(tmp_path / "both.b2nd", "a") as a:
        a.resize((60, 30))
    kinds = [a._chunk_kind(n) for a in [b2kit.open(tmp_path / "both.b2nd")] for n in range(a.nchunks)]
    assert set(kinds) == {"nan", "zeros"} or set(kinds) == {"nan", "uninit"}
    refs = virtual.kerchunk(tmp_path / "both.b2nd", zarr_format=zarr_format)
    assert sum(isinstance(place, str) and place.startswith("base64:") for place in refs["refs"].values()) == 5 - zarr_format
    np.testing.assert_array_equal(opened(refs, zarr_format)["both"][...], b2kit.open(tmp_path / "both.b2nd")[...])


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("suffix", [".b2d", ".b2z"])
def test_stores(tmp_path, suffix, zarr_format):
    dice, path = random.Random(3), tmp_path / "store.b2d"
    arrays = {"top": np.arange(600.0).reshape(20, 30), "group/inner": np.arange(50, dtype="i2")}
    with b2kit.open_group(path, "a") as group:
        for key, items in arrays.items():
            group[key] = items
        group["top"].attrs["units"] = "K"
        group["top"].attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
        if suffix != ".b2d":
            path = tmp_path / f"store{suffix}"
            group.save(path)
    z = opened(virtual.kerchunk(path, zarr_format=zarr_format), zarr_format)
    for key, items in arrays.items():
        compare(z[key], items, dice)
    assert z["top"].attrs["units"] == "K"
    if zarr_format == 3:
        assert z["top"].metadata.dimension_names == ("y", "x")


def test_what_has_no_places_is_refused(tmp_path):
    with b2kit.open_group(tmp_path / "a.b2d", "a") as group:
        group["x"] = np.arange(5)
        group.save(tmp_path / "a.b2e")
    with pytest.raises(b2kit.errors.UnsupportedError, match="x"):
        virtual.kerchunk(tmp_path / "a.b2e")


def test_the_url_is_that_of_readers(tmp_path):
    b2kit.asarray(np.arange(10), tmp_path / "a.b2nd")
    refs = virtual.kerchunk(tmp_path / "a.b2nd", url="s3://bucket/a.b2nd")["refs"]
    assert refs["a/c/0"][0] == "s3://bucket/a.b2nd"


def test_virtualizarr(tmp_path):
    pytest.importorskip("virtualizarr", reason="VirtualiZarr is not installed")
    xr = pytest.importorskip("xarray")
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore as Files
    from virtualizarr import open_virtual_dataset
    from virtualizarr.parsers.typing import Parser

    class Counting:
        def __init__(self):
            self.store, self.count = Files(), 0

        def get(self, *args, **more):
            self.count += 1
            return self.store.get(*args, **more)

        def get_range(self, *args, **more):
            self.count += 1
            return self.store.get_range(*args, **more)

    class Registry:
        def __init__(self):
            self.store = Counting()

        def resolve(self, url):
            return self.store, url.removeprefix("file://")

    assert isinstance(virtual.Parser(), Parser)
    registry = ObjectStoreRegistry({"file://": Files()})
    parts, found = [], []
    for n in range(2):
        items = np.random.default_rng(n).normal(size=(240, 200))
        items[:60] = 0
        path = tmp_path / f"a{n}.b2nd"
        a = b2kit.asarray(items, path, chunks=(60, 100), blocks=(20, 30))
        with b2kit.open(path, "a") as a:
            a.attrs["_ARRAY_DIMENSIONS"] = ["t", "x"]
        counted = Registry()
        virtual.Parser()(f"file://{path}", counted)
        assert counted.store.count <= 2
        store = virtual.Parser("v")(f"file://{path}", registry)
        np.testing.assert_array_equal(zarr.open_group(store, mode="r")["v"][...], items)
        np.testing.assert_array_equal(zarr.open_group(store, mode="r")["v"][7:130:3, 5], items[7:130:3, 5])
        found.append(open_virtual_dataset(f"file://{path}", registry=registry, parser=virtual.Parser("v")))
        parts.append(items)
    both = xr.concat(found, dim="t", coords="minimal", compat="override")
    assert both["v"].data.shape == (480, 200) and both["v"].dims == ("t", "x")
    assert len(both["v"].data.manifest.dict()) == 12


def test_a_thousand_files_are_one_dataset_in_icechunk(tmp_path, monkeypatch):
    pytest.importorskip("virtualizarr", reason="VirtualiZarr is not installed")
    icechunk = pytest.importorskip("icechunk", reason="Icechunk is not installed")
    xr = pytest.importorskip("xarray")
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore as Files
    from virtualizarr import open_virtual_mfdataset

    dice = np.random.default_rng(0)
    items = np.round(dice.normal(280, 1, (1000, 6, 8)), 2).astype("f4")
    files = tmp_path / "files"
    files.mkdir()
    for n, each in enumerate(items):
        b2kit.asarray(each[None], files / f"{n:04}.b2nd", blocks=(1, 3, 4))
    requests = []
    for name in "__init__", "_range":
        asked = getattr(virtual._Object, name)
        monkeypatch.setattr(virtual._Object, name, lambda *args, asked=asked: (requests.append(1), asked(*args))[1])
    found = open_virtual_mfdataset(
        [f"file://{each}" for each in sorted(files.iterdir())],
        registry=ObjectStoreRegistry({"file://": Files()}),
        parser=virtual.Parser("t"),
        combine="nested",
        concat_dim="dim_0",
    )
    assert found["t"].shape == items.shape
    assert len(requests) <= 2 * len(items)

    prefix = f"file://{files}/"
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(files))))
    allowed = {prefix: icechunk.credentials.LocalFileSystemAccess}
    where = icechunk.local_filesystem_storage(str(tmp_path / "repository"))
    repository = icechunk.Repository.create(where, config, authorize_virtual_chunk_access=allowed)
    session = repository.writable_session("main")
    found.vz.to_icechunk(session.store)
    session.commit("references")
    read = xr.open_zarr(repository.readonly_session("main").store, consolidated=False, chunks=None)["t"]
    np.testing.assert_array_equal(read.values, items)
    np.testing.assert_array_equal(read[500:700:3, 2, 1:7].values, items[500:700:3, 2, 1:7])


def test_the_codec_writes_too(tmp_path, eager):
    items = np.random.default_rng(1).normal(size=(50, 40)).astype("f4")
    for endian in "little", "big":
        for store in MemoryStore(), LocalStore(tmp_path / endian):
            codec = ChunkCodec(blocks=(8, 5), endian=endian)
            z = zarr.create_array(store, shape=items.shape, chunks=(20, 30), dtype="f4", serializer=codec, compressors=None)
            z[...] = items
            z[3:30, 7] = 4
            items[3:30, 7] = 4
            z = zarr.open_array(store, mode="r")
            assert z.metadata.codecs == (codec,)
            compare(z, items, random.Random(2))
    for wrong in dict(blocks=(0,)), dict(blocks=(4,), endian="middle"):
        with pytest.raises(b2kit.errors.ArgumentError):
            ChunkCodec(**wrong)
    with pytest.raises(ValueError, match="dimensions"):
        zarr.create_array({}, shape=(4, 4), chunks=(2, 2), dtype="i4", serializer=ChunkCodec(blocks=(2,)), compressors=None)


def test_damaged_chunks_are_errors(tmp_path, eager):
    dice = random.Random(9)
    items = np.random.default_rng(1).normal(size=(60, 40)).astype("f4")
    path = tmp_path / "c" / "0" / "0"
    codec = ChunkCodec(blocks=(16, 16))
    z = zarr.create_array(tmp_path, shape=items.shape, chunks=items.shape, dtype="f4", serializer=codec, compressors=None)
    z[...] = items
    good = path.read_bytes()
    numcodec = numcodecs.get_codec({"id": "b2kit.chunk", "shape": [60, 40], "blocks": [16, 16], "itemsize": 4})
    np.testing.assert_array_equal(numcodec.decode(good).view("f4").reshape(60, 40), items)
    bad = [good[:cut] for cut in (0, 3, 15, 31, 33, 60, len(good) - 1)]
    for at in 4, 8, 12, 16, 20, 32, 36:
        bad += [good[:at] + struct.pack("<I", value) + good[at + 4 :] for value in (0, 1, 1024, 0x7FFFFFFF, 0xFFFFFFFF)]
    for _ in range(60):
        spot = dice.randrange(len(good))
        bad.append(good[:spot] + bytes([good[spot] ^ 1 << dice.randrange(8)]) + good[spot + 1 :])
    bad.append(b2kit.asarray(items, None)._frame())
    bad.append(b2kit.asarray(items, None, chunks=(60, 40), blocks=(16, 8))._chunk(0))
    errors = 0
    for damaged in bad:
        path.write_bytes(damaged)
        for read in (lambda: z[3:5, 7], lambda: z[...], lambda: numcodec.decode(damaged)):
            try:
                read()
            except ValueError:
                errors += 1
    assert errors > 120
    # Other blocks would be items in another order.
    for damaged in bad[-2:]:
        path.write_bytes(damaged)
        for read in (lambda: z[3:5, 7], lambda: z[...], lambda: numcodec.decode(damaged)):
            with pytest.raises(b2kit.errors.DamagedError):
                read()


def test_the_number_of_references_is_limited(tmp_path):
    b2kit.zeros((1 << 27,), path=tmp_path / "many.b2nd", dtype="u1", chunks=(1,), blocks=(1,))
    assert (tmp_path / "many.b2nd").stat().st_size < 1000
    with pytest.raises(b2kit.errors.LimitError, match="max_references"):
        virtual.kerchunk(tmp_path / "many.b2nd")
    group = b2kit.open_group(tmp_path / "s.b2d", mode="a")
    for name in "abc":
        group.create(name, np.arange(10), chunks=(1,))
    with pytest.raises(b2kit.errors.LimitError, match="max_references"):
        virtual.kerchunk(tmp_path / "s.b2d", max_references=29)
    assert len(virtual.kerchunk(tmp_path / "s.b2d", max_references=30)["refs"]) >= 30


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_xarray_sees_the_same_values_and_attributes(tmp_path, zarr_format):
    xr = pytest.importorskip("xarray")
    import b2kit.xarray  # noqa: F401

    x = np.array([0.0, 1.5, -9.0, 0.0, 0.0, 0.0])
    made = {
        "plain": (x, {}, {}),
        "fill": (np.where(x < 0, np.nan, x), {"_FillValue": -9.0}, {"n": np.inf}),
        "nan": (np.where(x < 0, np.nan, x), {}, {"n": np.nan}),
        "packed": (np.where(x < 0, np.nan, x), {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9}, {}),
        "zero": (np.where(x == 0, np.nan, x), {"_FillValue": 0.0}, {}),
        "ints": (x.astype("i4"), {}, {}),
    }
    ds = xr.Dataset({name: ("x", values, attrs) for name, (values, _, attrs) in made.items()}, attrs={"title": "t"})
    for name, (_, encoding, _) in made.items():
        ds[name].encoding = {**encoding, "chunks": (2,)}
    ds.b2kit.to_store(tmp_path / "s.b2d", group="g")
    refs = virtual.kerchunk(tmp_path / "s.b2d", zarr_format=zarr_format)
    options = {"storage_options": {"fo": refs}, "consolidated": False, "zarr_format": zarr_format}
    with xr.open_zarr("reference://", group="g", **options) as found:
        assert found.load().identical(ds), found
