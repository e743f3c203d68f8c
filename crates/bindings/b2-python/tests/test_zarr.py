"""The Zarr codecs, used through zarr-python: both pipelines, local and asynchronous stores, sharding."""

import json
import math
import os
import pathlib
import tracemalloc

import numpy as np
import pytest
from conftest import many
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import b2kit

zarr = pytest.importorskip("zarr", minversion="3.1", reason="zarr 3.1 or later is not installed")

from zarr.abc.store import RangeByteRequest, SuffixByteRequest  # noqa: E402
from zarr.storage import LocalStore, MemoryStore  # noqa: E402
from zarr_counting import Counting  # noqa: E402

import b2kit.zarr  # noqa: E402
from b2kit.zarr import B2ndCodec, Blosc2Codec, ChunkCodec  # noqa: E402


def field(shape, dtype="f4"):
    """Returns smooth data with some noise."""
    axes = np.meshgrid(*(np.linspace(0, 3, n) for n in shape), indexing="ij")
    noise = np.random.default_rng(5).normal(0, 1e-3, shape)
    return (sum(np.sin(axis + n) for n, axis in enumerate(axes)) + noise).astype(dtype)


def create(store, items, chunks, codec, **more):
    z = zarr.create_array(
        store, shape=items.shape, chunks=chunks, dtype=items.dtype, serializer=codec, compressors=None, **more
    )
    z[...] = items
    return z


DTYPES = ["u1", "<i2", ">i4", "<f2", "f8", "c16", "?", "M8[s]", "m8[ms]", "<U5", "S3", "V5"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back(tmp_path, pipeline, dtype):
    raw = np.random.default_rng(1).integers(0, 100, (13, 9))
    items = np.asarray(raw > 50) if dtype == "?" else raw.astype("S5").view("V5") if dtype == "V5" else raw.astype(dtype)
    z = create(LocalStore(tmp_path / "z"), items, (5, 4), B2ndCodec(blocks=(2, 3)))
    again = zarr.open_array(tmp_path / "z", mode="r")
    # In Zarr, the byte order is not part of the data type.
    assert again.dtype in (items.dtype, items.dtype.newbyteorder("="))
    np.testing.assert_array_equal(again[...], items)
    np.testing.assert_array_equal(again[3:7, 1::3], items[3:7, 1::3])
    for at in (0, 0), (12, 8), (7, 3):
        assert again[at] == items[at]
    assert z.metadata.codecs[0].to_dict()["name"] == "b2kit.b2nd"


def test_structured_items_come_back(tmp_path, pipeline):
    items = np.zeros((6, 5), dtype=[("a", "<i4"), ("b", "<f8")])
    items["a"], items["b"] = np.arange(30).reshape(6, 5), 0.5
    create(LocalStore(tmp_path / "z"), items, (4, 5), B2ndCodec())
    again = zarr.open_array(tmp_path / "z", mode="r")
    np.testing.assert_array_equal(again[...], items)
    np.testing.assert_array_equal(again[2:5, 3], items[2:5, 3])


@settings(deadline=None, max_examples=many(120), suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("store", ["memory", "counting"])
def test_selections_are_those_of_zarr(data, pipeline, store):
    shape = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple))
    chunks = tuple(data.draw(st.integers(1, n + 2)) for n in shape)
    blocks = data.draw(st.none() | st.just(tuple(data.draw(st.integers(1, n)) for n in chunks)))
    codec = data.draw(st.sampled_from(["zstd", "lz4", "blosclz"]))
    items = np.arange(math.prod(shape), dtype="i4").reshape(shape)
    if data.draw(st.booleans()):
        items = np.zeros_like(items) + 7
    where = MemoryStore() if store == "memory" else Counting(MemoryStore())
    z = create(where, items, chunks, B2ndCodec(codec=codec, blocks=blocks), fill_value=3)
    from zarr.testing import strategies as theirs

    key = data.draw(theirs.basic_indices(shape=shape))
    np.testing.assert_array_equal(z[key], items[key])
    zarr_key, numpy_key = data.draw(theirs.orthogonal_indices(shape=shape))
    np.testing.assert_array_equal(z.oindex[zarr_key], items[numpy_key])
    count = data.draw(st.integers(1, 8))
    points = tuple(
        np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=count, max_size=count))) for n in shape
    )
    np.testing.assert_array_equal(z.vindex[points], items[points])
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=items.size, max_size=items.size))).reshape(shape)
    np.testing.assert_array_equal(z.vindex[mask], items[mask])
    z[key] = 9
    items[key] = 9
    np.testing.assert_array_equal(z[...], items)


@settings(deadline=None, max_examples=many(60), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_arrays_of_zarrs_own_strategies_pass(data, pipeline):
    """The arrays of zarr's own tests, with our codec as the default."""
    import zarr.core.array as place
    from zarr.testing import strategies as theirs

    usual = place.default_serializer_v3

    def ours(dtype):
        native = dtype.to_native_dtype()
        return usual(dtype) if native.hasobject or native.itemsize == 0 else B2ndCodec(level=1)

    place.default_serializer_v3 = ours
    try:
        z = data.draw(theirs.arrays(zarr_formats=st.just(3), compressors=st.none()))
    finally:
        place.default_serializer_v3 = usual
    items = z[...]
    key = data.draw(theirs.basic_indices(shape=z.shape))
    np.testing.assert_array_equal(z[key], items[key])
    if all(z.shape):
        zarr_key, numpy_key = data.draw(theirs.orthogonal_indices(shape=z.shape))
        np.testing.assert_array_equal(z.oindex[zarr_key], items[numpy_key])


def test_a_box_takes_two_rounds_and_the_bytes_of_its_blocks(tmp_path):
    items = field((64, 64, 64))
    store = Counting(LocalStore(tmp_path / "z"))
    z = create(store, items, (64, 64, 64), B2ndCodec(blocks=(16, 16, 16)))
    size = os.path.getsize(tmp_path / "z" / "c" / "0" / "0" / "0")
    store.reset()
    np.testing.assert_array_equal(z[16:32, 16:32, 32:48], items[16:32, 16:32, 32:48])
    # First the header with block starts and the end, at the same time; then the run of the block.
    assert store.rounds == 2 and len(store.requests) == 3
    assert store.bytes < size / 64 * 2 + 2 * 4096 + (16 << 10)
    # Across chunk borders: 8 blocks, in pairs that are adjacent in the chunk.
    store.reset()
    np.testing.assert_array_equal(z[24:40, 24:40, 24:40], items[24:40, 24:40, 24:40])
    assert store.rounds == 2 and len(store.requests) <= 6
    # Reading everything takes one request.
    store.reset()
    np.testing.assert_array_equal(z[...], items)
    assert store.rounds == 1 and len(store.requests) == 1


def test_inside_of_sharding(tmp_path, pipeline):
    items = field((40, 50))
    z = zarr.create_array(
        tmp_path / "z",
        shape=items.shape,
        shards=(40, 40),
        chunks=(20, 20),
        dtype="f4",
        serializer=B2ndCodec(blocks=(5, 5)),
        compressors=None,
    )
    z[...] = items
    again = zarr.open_array(tmp_path / "z", mode="r")
    for key in [(slice(3, 7), slice(18, 44)), (5, slice(None)), (slice(None, None, 3), 49), ...]:
        np.testing.assert_array_equal(again[key], items[key])


def test_behind_other_codecs(tmp_path, pipeline):
    items = field((30, 20))
    z = zarr.create_array(
        tmp_path / "z",
        shape=items.shape,
        chunks=(16, 16),
        dtype="f4",
        filters=[zarr.codecs.TransposeCodec(order=(1, 0))],
        serializer=B2ndCodec(),
        compressors=[zarr.codecs.Crc32cCodec()],
    )
    z[...] = items
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "z")[3:20, 2:9], items[3:20, 2:9])


def test_a_forgotten_compressor_is_told_once(monkeypatch, recwarn):
    monkeypatch.setattr(b2kit.zarr, "_hinted", False)
    options = {"shape": (8, 8), "chunks": (4, 4), "dtype": "i4", "serializer": B2ndCodec()}
    for shards in None, (8, 8):
        zarr.create_array({}, compressors=None, shards=shards, **options)
    assert not [each for each in recwarn if "compressors=None" in str(each.message)]
    with pytest.warns(UserWarning, match="ZstdCodec.*compressors=None"):
        zarr.create_array({}, **options)
    recwarn.clear()
    zarr.create_array({}, **options)
    assert not [each for each in recwarn if "compressors=None" in str(each.message)]
    monkeypatch.setattr(b2kit.zarr, "_hinted", False)
    with pytest.warns(UserWarning, match="ZstdCodec.*compressors=None"):
        zarr.create_array({}, shards=(8, 8), **options)


def test_chunks_that_are_missing_are_the_fill_value(tmp_path, pipeline):
    z = zarr.create_array(
        tmp_path / "z", shape=(8, 8), chunks=(4, 4), dtype="i4", fill_value=-5, serializer=B2ndCodec(), compressors=None
    )
    z[:4, :4] = 1
    assert z[2:6, 2:6].tolist() == [[1, 1, -5, -5], [1, 1, -5, -5], [-5] * 4, [-5] * 4]


def test_chunks_in_files_are_read_without_requests(tmp_path, pipeline, monkeypatch):
    items = field((64, 64))
    create(LocalStore(tmp_path / "z"), items, (32, 32), B2ndCodec(blocks=(8, 8)), fill_value=7)
    z = zarr.open_array(tmp_path / "z", mode="r")
    (tmp_path / "z" / "c" / "1" / "1").unlink()
    items[32:, 32:] = 7
    asked = []
    get = zarr.storage._local._get
    monkeypatch.setattr(zarr.storage._local, "_get", lambda path, *more: asked.append(path) or get(path, *more))
    for key in np.s_[3:40, 20:62], np.s_[...], np.s_[5, 7], np.s_[::3, 1::2], np.s_[40:, 3]:
        np.testing.assert_array_equal(z[key], items[key])
    np.testing.assert_array_equal(z.vindex[[3, 60, 3], [9, 2, 50]], items[[3, 60, 3], [9, 2, 50]])
    # Only the store knows what a missing chunk means.
    assert all(path.name == "1" and path.parent.name == "1" for path in asked)

    class Other(LocalStore):
        """May read differently."""

    asked.clear()
    np.testing.assert_array_equal(zarr.open_array(Other(tmp_path / "z"), mode="r")[3:9, 3:9], items[3:9, 3:9])
    assert any(path.name == "0" for path in asked)


def test_arrays_without_dimensions(pipeline):
    z = zarr.create_array({}, shape=(), chunks=(), dtype="f8", serializer=B2ndCodec(), compressors=None)
    z[()] = 2.5
    assert z[()] == 2.5


@pytest.mark.parametrize("dtype", ["<U5", "S5", "f8"])
def test_single_items_in_files(tmp_path, pipeline, dtype):
    """Also strings that are shorter than their type, of which NumPy's scalars forget the length."""
    point = np.array("2", dtype=dtype)
    create(LocalStore(tmp_path / "z"), point, (), B2ndCodec())
    assert zarr.open_array(tmp_path / "z", mode="r")[()] == point[()]
    row = np.array(["1", "22", "333"], dtype=dtype)
    create(LocalStore(tmp_path / "row"), row, (2,), B2ndCodec())
    again = zarr.open_array(tmp_path / "row", mode="r")
    assert [again[n] for n in range(3)] == [row[n] for n in range(3)]


@pytest.mark.parametrize("filters", [[], ["shuffle"], ["bitshuffle"], ["delta", "shuffle"], [("trunc_prec", 20)]])
def test_bytes_to_bytes(tmp_path, pipeline, filters):
    items = field((50, 30))
    z = zarr.create_array(
        tmp_path / "z",
        shape=items.shape,
        chunks=(20, 20),
        dtype="f4",
        compressors=[Blosc2Codec(codec="lz4", level=3, filters=filters)],
    )
    z[...] = items
    again = zarr.open_array(tmp_path / "z", mode="r")
    assert again.metadata.codecs[-1].typesize == 4
    np.testing.assert_allclose(again[...], items, rtol=1e-5 if filters == [("trunc_prec", 20)] else 0)


def test_a_payload_is_a_frame_for_everybody(tmp_path):
    blosc2 = pytest.importorskip("blosc2", reason="python-blosc2 is not installed")
    items = field((32, 32))
    create(LocalStore(tmp_path / "z"), items, (32, 32), B2ndCodec(blocks=(8, 8)))
    payload = (tmp_path / "z" / "c" / "0" / "0").read_bytes()
    np.testing.assert_array_equal(blosc2.ndarray_from_cframe(payload)[:], items)
    opened = b2kit.open(payload)
    assert (opened.chunks, opened.blocks) == ((32, 32), (8, 8))
    np.testing.assert_array_equal(opened[...], items)


@pytest.mark.parametrize("blocks", [None, (8, 8)])
def test_imagecodecs_reads_ours_and_the_other_way(tmp_path, pipeline, blocks):
    theirs = pytest.importorskip("imagecodecs.zarr", reason="imagecodecs-zarr is not installed")
    items = field((40, 32))
    create(LocalStore(tmp_path / "ours"), items, (20, 32), B2ndCodec(blocks=blocks, name="imagecodecs_b2nd"))
    create(LocalStore(tmp_path / "theirs"), items, (20, 32), theirs.B2nd(level=3, blockshape=blocks))
    for name in "ours", "theirs":
        for reader in "b2kit.zarr.B2ndCodec", "imagecodecs.zarr.B2nd":
            with zarr.config.set({"codecs.imagecodecs_b2nd": reader}):
                z = zarr.open_array(tmp_path / name, mode="r")
                assert type(z.metadata.codecs[0]).__module__ == reader.rpartition(".")[0]
                np.testing.assert_array_equal(z[...], items)
                np.testing.assert_array_equal(z[3:30:2, 7], items[3:30:2, 7])


def test_imagecodecs_and_chunks_of_blosc2(tmp_path, pipeline):
    theirs = pytest.importorskip("imagecodecs.zarr", reason="imagecodecs-zarr is not installed")
    items = field((40, 32))
    for name, codec in ("ours", Blosc2Codec(name="imagecodecs_blosc2")), ("theirs", theirs.Blosc2(level=3, typesize=4)):
        z = zarr.create_array(tmp_path / name, shape=(40, 32), chunks=(20, 32), dtype="f4", compressors=[codec])
        z[...] = items
        for reader in "b2kit.zarr.Blosc2Codec", "imagecodecs.zarr.Blosc2":
            with zarr.config.set({"codecs.imagecodecs_blosc2": reader}):
                np.testing.assert_array_equal(zarr.open_array(tmp_path / name, mode="r")[...], items)


def test_metadata_fits_the_schema():
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    docs = pathlib.Path(__file__).parents[4] / "docs" / "reference"
    codecs = {
        "b2nd": [B2ndCodec(), B2ndCodec(codec="lz4", level=0, filters=[("trunc_prec", 10), "shuffle"], blocks=(3, 4))],
        "blosc2": [Blosc2Codec(), Blosc2Codec(codec="blosclz", typesize=8, filters=[])],
        "chunk": [ChunkCodec(blocks=(3, 4)), ChunkCodec(blocks=(), endian="big")],
    }
    for name, made in codecs.items():
        schema = json.loads((docs / f"zarr-{name}.schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        for codec in made:
            reported = json.loads(json.dumps(codec.to_dict()))
            jsonschema.validate(reported, schema)
            assert type(codec).from_dict(reported) == codec
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"name": reported["name"], "configuration": {"codec": "zstd", "level": 10}}, schema)


def test_what_cannot_be_stored_is_refused():
    for wrong in dict(level=10), dict(blocks=(0,)), dict(name="b2nd"), dict(level="5"):
        with pytest.raises((ValueError, b2kit.Error)):
            B2ndCodec(**wrong)
    with pytest.raises(TypeError):
        B2ndCodec(filters="shuffle")
    with pytest.raises(ValueError, match="dimensions"):
        zarr.create_array({}, shape=(4, 4), chunks=(2, 2), dtype="i4", serializer=B2ndCodec(blocks=(2,)))
    with pytest.raises(ValueError, match="fixed size"):
        zarr.create_array({}, shape=(4,), chunks=(2,), dtype=str, serializer=B2ndCodec())
    with pytest.raises(ValueError, match="bytes"):
        zarr.create_array({}, shape=(2**40,), chunks=(2**31,), dtype="i4", serializer=B2ndCodec())


@pytest.mark.parametrize("key", [(slice(3, 9), slice(2, 30)), ...], ids=["part", "whole"])
def test_damaged_chunks_raise_and_never_answer_something_else(tmp_path, pipeline, key):
    """Bytes of the head are changed, and the chunk is truncated at many lengths."""
    items = field((32, 32))
    create(LocalStore(tmp_path / "z"), items, (32, 32), B2ndCodec(codec="lz4", blocks=(8, 8)))
    path = tmp_path / "z" / "c" / "0" / "0"
    good = path.read_bytes()
    z = zarr.open_array(tmp_path / "z", mode="r")
    raised = 0
    cuts = [good[:n] for n in range(0, len(good), max(1, len(good) // 60))]
    flips = [good[:n] + bytes([good[n] ^ 0x55]) + good[n + 1 :] for n in range(0, 400)]
    for bad in cuts + flips:
        path.write_bytes(bad)
        try:
            found = z[key]
        except (b2kit.Error, ValueError):
            raised += 1
        else:
            # The damaged bytes do not matter for this part.
            np.testing.assert_array_equal(found, items[key])
    assert raised >= len(cuts) // 2


def test_another_shape_in_the_chunk_is_an_error(tmp_path, pipeline):
    items = field((16, 16))
    create(LocalStore(tmp_path / "z"), items, (16, 16), B2ndCodec())
    other = b2kit.asarray(field((16, 8)))._frame()
    (tmp_path / "z" / "c" / "0" / "0").write_bytes(other)
    z = zarr.open_array(tmp_path / "z", mode="r")
    for key in (slice(2, 4), slice(1, 3)), ...:
        with pytest.raises(b2kit.errors.DamagedError, match="shape"):
            z[key]


def test_frames_that_were_changed_are_read_by_their_index(tmp_path):
    """Only in a frame that was written in one go does the chunk follow the header."""
    items = field((64, 64))
    path = tmp_path / "a.b2nd"
    a = b2kit.asarray(items, path, chunks=(64, 64), blocks=(8, 8), codec="lz4")
    a[:32] = np.random.default_rng(3).normal(size=(32, 64))
    items = a[...]
    reader = b2kit._b2kit.RangeReader(path.read_bytes()[:900], 900, path.read_bytes()[-900:])
    rounds = 0
    while missing := reader.open():
        rounds += 1
        for start, stop in missing:
            reader.put(start, stop, path.read_bytes()[start:stop])
    found = reader.read((slice(5, 9), slice(60, 64)))
    while isinstance(found, list):
        rounds += 1
        for start, stop in found:
            reader.put(start, stop, path.read_bytes()[start:stop])
        found = reader.read((slice(5, 9), slice(60, 64)))
    np.testing.assert_array_equal(found, items[5:9, 60:64])
    assert rounds <= 5


def test_many_chunks_at_once_over_an_asynchronous_store(tmp_path):
    items = field((60, 60))
    store = Counting(MemoryStore())
    z = create(store, items, (10, 10), B2ndCodec(blocks=(5, 5)))
    store.reset()
    np.testing.assert_array_equal(z[3:57, 2:58:5], items[3:57, 2:58:5])
    kinds = RangeByteRequest | SuffixByteRequest | None
    assert all(isinstance(range, kinds) for _, range in store.requests)


def _claiming(nbytes):
    """A chunk of 32 bytes that claims to be zeros."""
    return b2kit.zeros((nbytes,), dtype="u1", chunks=(nbytes,))._chunk(0)


@pytest.mark.parametrize("codec", ["b2kit.blosc2", "numcodecs.blosc2", 2])
def test_what_a_chunk_claims_is_compared_before_memory_is_taken(tmp_path, codec):
    nbytes = 1 << 30
    assert len(_claiming(nbytes)) == 32
    where = tmp_path / "z"
    if codec == 2:
        import numcodecs

        z = zarr.create_array(
            where, shape=(100,), chunks=(100,), dtype="i4", zarr_format=2, compressors=numcodecs.get_codec({"id": "blosc2"})
        )
        name = where / "0"
    else:
        z = zarr.create_array(where, shape=(100,), chunks=(100,), dtype="i4", compressors=[{"name": codec, "configuration": {}}])
        name = where / "c" / "0"
    z[...] = np.arange(100)
    assert zarr.open_array(where)[7] == 7
    name.write_bytes(_claiming(nbytes))
    tracemalloc.start()
    with pytest.raises(b2kit.errors.LimitError, match="1073741824 bytes"):
        zarr.open_array(where)[...]
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()
    with pytest.raises(b2kit.errors.LimitError):
        b2kit.decompress(_claiming(nbytes), max_nbytes=nbytes - 1)


def test_the_item_size_of_a_b2nd_chunk_is_compared_first(tmp_path):
    z = zarr.create_array(tmp_path / "z", shape=(64,), chunks=(64,), dtype="i4", serializer=B2ndCodec(), compressors=None)
    z[...] = 1
    claims = b2kit.zeros((64,), dtype="V10000000", chunks=(1,), blocks=(1,))
    (tmp_path / "z" / "c" / "0").write_bytes(claims._frame())
    with pytest.raises(b2kit.errors.DamagedError, match="items of 10000000 bytes"):
        zarr.open_array(tmp_path / "z")[...]


@pytest.mark.parametrize("wrong", [{"codec": "gzip"}, {"filters": ("nope",)}, {"level": 11}, {"filters": ("shuffle",) * 7}], ids=str)
def test_wrong_options_are_refused_when_a_codec_is_created(wrong):
    for codec in (B2ndCodec, Blosc2Codec):
        with pytest.raises(ValueError):
            codec(**wrong)
        with pytest.raises(ValueError):
            codec.from_dict({"name": codec().name, "configuration": wrong})
