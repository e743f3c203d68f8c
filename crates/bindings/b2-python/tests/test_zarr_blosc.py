"""Zarr's own codec ``blosc``, read in parts, compared with zarr-python without this package, with both of its pipelines."""

import math
import random
import resource
import struct
import sys

import numpy as np
import pytest
from conftest import PIPELINES, many
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import b2kit

zarr = pytest.importorskip("zarr", minversion="3.4", reason="zarr 3.4 or later is not installed")

import numcodecs  # noqa: E402
import zarr.codecs.numcodecs  # noqa: E402
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, TransposeCodec  # noqa: E402
from zarr.storage import LocalStore, MemoryStore, ZipStore  # noqa: E402
from zarr.testing import strategies as theirs  # noqa: E402
from zarr_counting import Counting  # noqa: E402

import b2kit.numcodecs  # noqa: E402
import b2kit.zarr  # noqa: E402
from b2kit import _zarr_blosc  # noqa: E402

NAMES = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
DTYPES = ["u1", "<i2", ">i4", "<f2", "f8", "c16", "?", "M8[s]", "<U5", "S3", "V12"]


@pytest.fixture
def eager(monkeypatch):
    """Parts are read wherever they can be, however small the chunks."""
    for name in "_SMALL_FILE", "_WORTH", "_INNER", "_GAP", "_GAP_FILE":
        monkeypatch.setattr(_zarr_blosc, name, 0)
    monkeypatch.setattr(_zarr_blosc, "_MOST", 2.0)
    for name in "_HEAD", "_HEAD_FILE":
        monkeypatch.setattr(_zarr_blosc, name, 20)
    monkeypatch.setattr(_zarr_blosc, "_AUTOMATIC", 1024)


class enabled:
    """Switches reading in parts on for a while."""

    def __enter__(self):
        b2kit.zarr.enable()

    def __exit__(self, *_):
        b2kit.zarr.disable()


def opened(store, mode="r+"):
    # Stores that are opened for reading only are other objects, which do not count here.
    with enabled():
        z = zarr.open_array(store, mode=mode)
    kind = type(z._async_array.codec_pipeline)
    assert kind in (b2kit.zarr.BatchedPipeline, b2kit.zarr.FusedPipeline)
    return z


def reader_of(z):
    return z._async_array.codec_pipeline.array_bytes_codec


def field(shape, dtype="f4"):
    """Returns smooth data with some noise."""
    axes = np.meshgrid(*(np.linspace(0, 3, n) for n in shape), indexing="ij")
    noise = np.random.default_rng(5).normal(0, 1e-3, shape)
    return (sum(np.sin(axis + n) for n, axis in enumerate(axes)) + noise).astype(dtype)


def items_of(dice, shape, dtype):
    raw = np.random.default_rng(dice.randrange(1 << 30)).integers(0, dice.choice([2, 100, 30000]), shape)
    if dtype == "?":
        return raw % 2 > 0
    if dtype == "V12":
        return raw.astype("S12").view("V12")
    return raw.astype(dtype)


def create(store, items, chunks, *, zarr_format, cname, shuffle, blocksize, level=5, order="C", **more):
    """Writes an array with zarr's own codecs."""
    if zarr_format == 2:
        codec = numcodecs.Blosc(cname, level, ["noshuffle", "shuffle", "bitshuffle"].index(shuffle), blocksize)
        more["order"] = order
    else:
        codec = BloscCodec(cname=cname, clevel=level, shuffle=shuffle, blocksize=blocksize, typesize=more.pop("typesize", None))
    z = zarr.create_array(
        store, shape=items.shape, chunks=chunks, dtype=items.dtype, zarr_format=zarr_format, compressors=[codec], **more
    )
    z[...] = items
    return z


@settings(deadline=None, max_examples=many(60), suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("where", ["memory", "counting", "files"])
def test_selections_are_those_of_zarr(data, pipeline, eager, tmp_path_factory, where):
    """Random arrays, layouts and selections."""
    dice = random.Random(data.draw(st.integers(0, 1 << 30)))
    shape = tuple(dice.randrange(1, (5000, 70, 20, 9)[ndim]) for ndim in [dice.randrange(4)] for _ in range(ndim + 1))
    chunks = tuple(dice.randrange(1, n + 3) for n in shape)
    items = items_of(dice, shape, dice.choice(DTYPES))
    zarr_format = dice.choice([2, 3])
    options = {
        "zarr_format": zarr_format,
        "cname": dice.choice(NAMES),
        "shuffle": dice.choice(["noshuffle", "shuffle", "bitshuffle"]),
        "blocksize": dice.choice([0, 64, 100, 512, 1000]),
        "level": dice.choice([0, 1, 5]),
        "order": dice.choice("CF"),
    }
    if zarr_format == 3:
        options["typesize"] = dice.choice([None, 1, 3, 16])
        options["serializer"] = BytesCodec(endian=dice.choice(["little", "big"]))
        if dice.random() < 0.3:
            options["filters"] = [
                TransposeCodec(order=tuple(dice.sample(range(len(shape)), len(shape)))) for _ in range(dice.randrange(1, 3))
            ]
        if dice.random() < 0.3:
            options["shards"] = tuple(2 * n for n in chunks)
    if zarr_format == 3 and items.dtype.kind in "SV?" or items.dtype.itemsize == 1:
        options.pop("serializer", None)
    store = {
        "memory": MemoryStore,
        "counting": lambda: Counting(MemoryStore()),
        "files": lambda: LocalStore(tmp_path_factory.mktemp("z")),
    }[where]()
    create(store, items, chunks, **options)
    plain = zarr.open_array(store, mode="r")
    mine = opened(store)
    assert isinstance(reader_of(mine), (_zarr_blosc.BlockReader, _zarr_blosc.ShardReader))

    def same(found, key):
        expected, got = found(plain)[key], found(mine)[key]
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)

    for _ in range(4):
        same(lambda z: z, data.draw(theirs.basic_indices(shape=shape)))
    zarr_key, _ = data.draw(theirs.orthogonal_indices(shape=shape))
    same(lambda z: z.oindex, zarr_key)
    count = dice.randrange(1, 9)
    points = tuple(np.array([dice.randrange(-n, n) for _ in range(count)]) for n in shape)
    same(lambda z: z.vindex, points)
    same(lambda z: z, ...)
    mask = np.random.default_rng(dice.randrange(1000)).random(shape) < 0.05
    same(lambda z: z.vindex, mask)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_is_written_is_the_same(pipeline, zarr_format, tmp_path):
    items = field((50, 40))
    options = {"zarr_format": zarr_format, "cname": "zstd", "shuffle": "shuffle", "blocksize": 512}
    create(tmp_path / "a", items, (20, 20), **options)
    with enabled():
        z = create(tmp_path / "b", items, (20, 20), **options)
        z[3:25, 7] = 5
        assert isinstance(reader_of(z), _zarr_blosc.BlockReader)
    y = zarr.open_array(tmp_path / "a")
    y[3:25, 7] = 5
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert len(files) > 6
    for path in files:
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_box_takes_two_rounds_and_the_bytes_of_its_blocks(zarr_format, tmp_path, pipeline):
    items = field((128, 128, 128))
    store = Counting(LocalStore(tmp_path))
    create(store, items, items.shape, zarr_format=zarr_format, cname="zstd", shuffle="shuffle", blocksize=32 << 10)
    plain, z = zarr.open_array(store, mode="r+"), opened(store)
    store.reset()
    assert (plain[40:56, 40:56, 40:56] == items[40:56, 40:56, 40:56]).all()
    all_bytes, all_requests = store.bytes, len(store.requests)
    assert all_requests == 1
    store.reset()
    assert (z[40:56, 40:56, 40:56] == items[40:56, 40:56, 40:56]).all()
    assert store.rounds == 2 and len(store.requests) <= 17
    assert store.bytes < all_bytes / 5
    # A plane of the first dimension is one run.
    store.reset()
    assert (z[77] == items[77]).all()
    assert store.rounds == 2 and len(store.requests) == 2 and store.bytes < all_bytes / 30
    # A plane of the last dimension has something in every block: the default's request.
    store.reset()
    assert (z[:, :, 5] == items[:, :, 5]).all()
    assert store.requests[0][1] is None and len(store.requests) == 1


def test_blocks_of_inner_chunks(tmp_path, pipeline):
    items = field((256, 128, 64))
    store = Counting(LocalStore(tmp_path))
    create(store, items, (128, 128, 64), zarr_format=3, cname="lz4", shuffle="shuffle", blocksize=16 << 10, shards=(256, 128, 64))
    z = opened(store)
    size = (tmp_path / "c" / "0" / "0" / "0").stat().st_size
    store.reset()
    # The index, the head of the chunk, and a block.
    np.testing.assert_array_equal(z[40, 3:9, 5:10], items[40, 3:9, 5:10])
    assert store.rounds == 3 and store.bytes < size / 16


def test_small_chunks_are_read_at_once(tmp_path, pipeline):
    items = field((64, 64))
    store = Counting(MemoryStore())
    create(store, items, (64, 64), zarr_format=3, cname="lz4", shuffle="shuffle", blocksize=1024)
    z = opened(store)
    store.reset()
    np.testing.assert_array_equal(z[3:5, 3:5], items[3:5, 3:5])
    assert store.requests == [("c/0/0", None)]


@pytest.mark.parametrize(
    "filters, compressors",
    [
        ([zarr.codecs.numcodecs.Delta(dtype="<i4")], [BloscCodec()]),
        ([], [BloscCodec(), Crc32cCodec()]),
        ([], [Crc32cCodec(), BloscCodec()]),
        ([], [BloscCodec(), BloscCodec()]),
    ],
    ids=["filter", "after", "before", "twice"],
)
def test_other_chains_are_left_alone(pipeline, eager, filters, compressors):
    items = np.arange(4000, dtype="i4").reshape(80, 50)
    store = MemoryStore()
    z = zarr.create_array(store, shape=items.shape, chunks=(40, 40), dtype="i4", filters=filters, compressors=compressors)
    z[...] = items
    z = opened(store)
    assert not isinstance(reader_of(z), _zarr_blosc.BlockReader)
    np.testing.assert_array_equal(z[30:50, 5:45], items[30:50, 5:45])


def test_filters_of_zarr2_are_left_alone(pipeline, eager):
    items = np.arange(4000, dtype="i4").reshape(80, 50)
    store = MemoryStore()
    create(store, items, (40, 40), zarr_format=2, cname="lz4", shuffle="shuffle", blocksize=0, filters=[numcodecs.Delta("i4")])
    z = opened(store)
    assert not isinstance(reader_of(z), _zarr_blosc.BlockReader)
    np.testing.assert_array_equal(z[30:50, 5:45], items[30:50, 5:45])


@pytest.mark.parametrize("codec", ["b2kit.blosc2", "delta", "numcodecs.blosc", "numcodecs.blosc2", "v2"])
def test_chunks_of_blosc2_and_of_numcodecs(pipeline, eager, codec):
    items = field((300, 40))
    more = {"zarr_format": 3}
    if codec == "v2":
        compressor, more = b2kit.numcodecs.Blosc2("zstd", blocksize=1024), {"zarr_format": 2}
    elif codec.startswith("numcodecs"):
        compressor = {"name": codec, "configuration": {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 1024}}
    else:
        compressor = b2kit.zarr.Blosc2Codec(codec="lz4", filters=["delta", "shuffle"] if codec == "delta" else ["shuffle"])
    store = Counting(MemoryStore())
    z = zarr.create_array(store, shape=items.shape, chunks=(250, 40), dtype="f4", compressors=[compressor], **more)
    z[...] = items
    z = opened(store)
    assert isinstance(reader_of(z), _zarr_blosc.BlockReader)
    for key in np.s_[3:5, 7], np.s_[100:290:7, 1:3], np.s_[...]:
        np.testing.assert_array_equal(z[key], items[key])


def test_frames_under_the_id_blosc2(pipeline, eager, tmp_path):
    """HDF5's filter stores whole arrays, which only the codec itself decodes."""
    items = field((30, 40))
    z = zarr.create_array(
        tmp_path, shape=items.shape, chunks=(30, 40), dtype="f4", zarr_format=2, compressors=b2kit.numcodecs.Blosc2()
    )
    z[...] = items
    (tmp_path / "0.0").write_bytes(b2kit.asarray(items, None)._frame())
    for store in LocalStore(tmp_path), Counting(LocalStore(tmp_path)):
        z = opened(store)
        assert isinstance(reader_of(z), _zarr_blosc.BlockReader)
        np.testing.assert_array_equal(z[3:9, 5], items[3:9, 5])
        np.testing.assert_array_equal(z[...], items)


def test_missing_chunks_are_the_fill_value(pipeline, eager, tmp_path):
    z = zarr.create_array(
        tmp_path, shape=(80, 80), chunks=(40, 40), dtype="i4", fill_value=-5, compressors=[BloscCodec(blocksize=512)]
    )
    z[:40, :40] = np.arange(1600).reshape(40, 40)
    for store in LocalStore(tmp_path), Counting(LocalStore(tmp_path)):
        z = opened(store)
        assert z[38:42, 39:41].tolist() == [[1559, -5], [1599, -5], [-5, -5], [-5, -5]]


def test_arrays_without_dimensions_or_items(pipeline, eager):
    for shape, chunks in ((), ()), ((0,), (4,)), ((0, 3), (2, 2)):
        for zarr_format in 2, 3:
            store = MemoryStore()
            codec = BloscCodec() if zarr_format == 3 else numcodecs.Blosc()
            z = zarr.create_array(store, shape=shape, chunks=chunks, dtype="f8", compressors=[codec], zarr_format=zarr_format)
            z[...] = 2.5
            assert opened(store)[...].shape == shape
            assert (opened(store)[...] == 2.5).all()


def test_archives_are_read_too(pipeline, eager, tmp_path):
    items = field((60, 60))
    store = ZipStore(tmp_path / "a.zip", mode="w")
    create(store, items, (50, 50), zarr_format=3, cname="lz4", shuffle="shuffle", blocksize=512)
    store.close()
    z = opened(ZipStore(tmp_path / "a.zip", mode="r"), "r")
    np.testing.assert_array_equal(z[40:55, 7:52], items[40:55, 7:52])


def test_on_and_off():
    for path in PIPELINES:
        with zarr.config.set({"codec_pipeline.path": path}):
            b2kit.zarr.enable()
            b2kit.zarr.enable()
            name = zarr.config.get("codec_pipeline.path")
            assert name == "b2kit.zarr." + path.rpartition(".")[2].replace("CodecPipeline", "Pipeline")
            assert zarr.registry.get_pipeline_class().__name__ == name.rpartition(".")[2]
            b2kit.zarr.disable()
            assert zarr.config.get("codec_pipeline.path") == path
            b2kit.zarr.disable()
    with zarr.config.set({"codec_pipeline.path": "somebody.Elses"}):
        with pytest.raises(b2kit.errors.UnsupportedError, match=r"somebody\.Elses"):
            b2kit.zarr.enable()
        b2kit.zarr.disable()
        assert zarr.config.get("codec_pipeline.path") == "somebody.Elses"


def test_readers_can_be_sent_to_other_processes(pipeline, eager, tmp_path):
    import pickle

    items = field((60, 60))
    for shards in None, (60, 60):
        create(tmp_path / str(shards), items, (30, 30), zarr_format=3, cname="lz4", shuffle="shuffle", blocksize=512, shards=shards)
        z = pickle.loads(pickle.dumps(opened(tmp_path / str(shards))))
        np.testing.assert_array_equal(z[20:40, 7:52], items[20:40, 7:52])


HOSTILE = ["files", "memory", "counting", "shards"]


@pytest.mark.parametrize("where", HOSTILE)
def test_damaged_chunks_are_errors_in_bounded_memory(pipeline, eager, tmp_path, where):
    """Truncated chunks, flipped bits, and headers that lie about sizes: an error, or items of the right number."""
    dice = random.Random(11)
    items = field((300, 40))
    root = tmp_path / "z"
    shards = (300, 40) if where == "shards" else None
    create(LocalStore(root), items, (150, 40) if shards else (300, 40), zarr_format=3, cname="lz4", shuffle="shuffle", blocksize=2048, shards=shards)
    path = root / "c" / "0" / "0"
    good = path.read_bytes()
    head = good.index(struct.pack("<I", 300 * 40 * 4 // (2 if shards else 1))) - 4
    bad = [good[:cut] for cut in (0, 1, 3, 15, 16, 17, 40, len(good) // 2, len(good) - 1)]
    for _ in range(60):
        spot = dice.randrange(head, head + 200) if dice.random() < 0.5 else dice.randrange(len(good))
        bad.append(good[:spot] + bytes([good[spot] ^ 1 << dice.randrange(8)]) + good[spot + 1 :])
    for at in 4, 8, 12, 16, 20, 60:
        for value in 0, 1, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(good), 1 << 24:
            bad.append(good[: head + at] + struct.pack("<I", value) + good[head + at + 4 :])
    errors = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for damaged in bad:
        path.write_bytes(damaged)
        if where == "memory":
            store = MemoryStore({key.relative_to(root).as_posix(): zarr.core.buffer.cpu.Buffer.from_bytes(key.read_bytes()) for key in root.rglob("*") if key.is_file()})
        else:
            store = Counting(LocalStore(root)) if where in ("counting", "shards") and dice.random() < 0.7 else LocalStore(root)
        for key in np.s_[100:102, 3:5], np.s_[...], np.s_[:, 7]:
            try:
                found = opened(store)[key]
            except (ValueError, OSError, RuntimeError, TypeError, IndexError) as error:
                errors += 1
                assert "panicked" not in str(error)
            else:
                assert found.shape == items[key].shape
    assert errors > len(bad)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < (200 << 20) / (1 if sys.platform == "darwin" else 1024), grown


def test_touched_blocks_are_those_with_selected_items():
    """Compared with a count of every byte."""
    dice = random.Random(4)
    for _ in range(600):
        shape = tuple(dice.randrange(1, 12) for _ in range(dice.randrange(1, 4)))
        itemsize, blocksize = dice.choice([1, 2, 4, 12]), dice.choice([1, 5, 16, 100])
        if dice.random() < 0.3:
            count = dice.randrange(1, 5)
            key = tuple(np.array([dice.randrange(-n, n) for _ in range(count)]) for n in shape)
        else:
            key = tuple(
                dice.choice([slice(*sorted(dice.choices(range(n + 1), k=2))), slice(None, None, dice.randrange(1, 4)), slice(None, None, -1), dice.randrange(-n, n)])
                for n in shape
            )
        offsets = np.arange(math.prod(shape)).reshape(shape) * itemsize
        nblocks = -(-offsets.size * itemsize // blocksize)
        touched = {byte // blocksize for offset in np.ravel(offsets[key]) for byte in range(offset, offset + itemsize)}
        reader = b2kit._b2kit.RangeReader.chunk(shape, np.dtype(f"V{itemsize}"), dice.choice([blocksize, 7, 64]))
        assert reader.touched_part(key, blocksize) == len(touched) / nblocks


def test_blocks_in_any_order_are_read_together():
    assert _zarr_blosc._joined([(50, 60), (0, 10), (12, 20), (15, 17)], 2) == [(0, 20), (50, 60)]
