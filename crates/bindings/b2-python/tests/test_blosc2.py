"""Reads files of python-blosc2 here, and our files there."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
import subprocess
import sys
import time
import zipfile

import b2kit
import numpy as np
import pytest
from b2kit import errors
from conftest import many
from hypothesis import given, settings
from hypothesis import strategies as st

blosc2 = pytest.importorskip("blosc2")

DTYPES = [
    "?", "i1", "u1", "<i2", ">i2", "<u4", ">i8", "<f2", "<f4", ">f8", "<c8", "<c16", "<U5", ">U3", "S7", "V3",
    "<M8[ns]", "<M8[D]", "<m8[25s]", ">M8[us]",
    [("a", "i1"), ("b", "<f8")],
    [("p", "<f4", (2, 3)), ("in", [("x", ">u2"), ("s", "U2")])],
]  # fmt: skip
PADDED = [
    np.dtype([("a", "i1"), ("b", "<f8"), ("c", "<i2")], align=True),
    np.dtype({"names": ["late", "early"], "formats": ["<i4", "u1"], "offsets": [8, 1], "itemsize": 20}),
    np.dtype({"names": ["all", "part"], "formats": ["<u4", "<u2"], "offsets": [0, 2], "itemsize": 4}),
]


def items(dtype, shape=(6, 5)):
    """Items of any type, made from bytes that are valid for every type."""
    dtype = np.dtype(dtype)
    x = np.zeros(shape, dtype)
    rng = np.random.default_rng(1)

    def fill(view):
        if view.dtype.fields:
            for name in view.dtype.names:
                fill(view[name])
        elif view.dtype.kind in "US":
            view[...] = rng.choice(np.array(["", "a", "bcd", "efg"]), view.shape)
        elif view.dtype.kind == "V":
            view[...] = np.frombuffer(rng.bytes(view.size * view.itemsize), view.dtype).reshape(view.shape)
        elif view.dtype.kind in "Mm":
            view[...] = rng.integers(0, 10**6, view.shape).astype(view.dtype)
        else:
            view[...] = rng.integers(0, 2 if view.dtype.kind == "b" else 100, view.shape)

    fill(x)
    return x


def same(got, x):
    assert got.dtype == x.dtype
    assert got.shape == x.shape
    assert got.tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_both_ways(tmp_path, dtype):
    x = items(dtype)
    ours = b2kit.asarray(x, tmp_path / "ours.b2nd", chunks=(4, 3), blocks=(2, 2))
    assert ours.dtype == x.dtype
    same(ours[...], x)
    same(b2kit.open(tmp_path / "ours.b2nd")[1:], x[1:])
    assert ours[1, 2] == x[1, 2] and type(ours[1, 2]) is type(x[1, 2])
    blosc2.asarray(x, urlpath=str(tmp_path / "theirs.b2nd"), mode="w", chunks=(4, 3), blocks=(2, 2))
    theirs = b2kit.open(tmp_path / "theirs.b2nd")
    assert theirs.chunks == (4, 3) and theirs.blocks == (2, 2)
    # python-blosc2 turns opaque bytes into a field.
    same(theirs[...], x.view([("f0", "V3")]) if x.dtype == "V3" else x)
    same(blosc2.open(str(tmp_path / "ours.b2nd"))[:], x)


@pytest.mark.parametrize("dtype", PADDED, ids=str)
def test_padding_stays(tmp_path, dtype):
    x = items(dtype)
    a = b2kit.asarray(x, tmp_path / "a.b2nd")
    assert a.dtype == dtype and b2kit.open(tmp_path / "a.b2nd").dtype == dtype
    got = a[...]
    assert got.dtype == dtype
    for name in dtype.names:
        np.testing.assert_array_equal(got[name], x[name])
        np.testing.assert_array_equal(a[name], x[name])


def test_fields_without_bytes(tmp_path):
    x = np.zeros((20, 30), [("a", "i4"), ("s", "S0"), ("u", "U0")])
    blosc2.asarray(x, urlpath=str(tmp_path / "a.b2nd"), mode="w")
    a = b2kit.open(tmp_path / "a.b2nd")
    # Memory that held something else.
    np.full((20, 30), -1, "i4")
    for name in ("s", "u"):
        assert (a[name] == "").all() if name == "u" else (a[name] == b"").all()
        assert a[name].shape == x.shape and not a[name].tobytes().strip(b"\0")


def test_dtypes_that_cannot_be_stored():
    for dtype in ("O", [("a", "O")], "T"):
        with pytest.raises(TypeError):
            b2kit.asarray(np.zeros(3, dtype))
    with pytest.raises(b2kit.Error):
        b2kit.zeros(3, "S0")


@given(st.data())
@settings(max_examples=many(60), deadline=None)
def test_files_both_ways(tmp_path_factory, data):
    path = str(tmp_path_factory.mktemp("files") / "a.b2nd")
    shape = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=3))
    chunks = [data.draw(st.integers(1, n)) for n in shape]
    blocks = [data.draw(st.integers(1, n)) for n in chunks]
    x = np.arange(int(np.prod(shape)), dtype=data.draw(st.sampled_from(["i4", "f8", "u1"]))).reshape(shape)
    codec = data.draw(st.sampled_from(["BLOSCLZ", "LZ4", "LZ4HC", "ZLIB", "ZSTD"]))
    filters = data.draw(st.sampled_from([[], ["SHUFFLE"], ["BITSHUFFLE"], ["DELTA"], ["DELTA", "SHUFFLE"], ["SHUFFLE", "BYTEDELTA"]]))
    # python-blosc2 drops the filter for single bytes.
    filters = filters[: 1 if x.itemsize == 1 else None]
    level = data.draw(st.integers(0, 9))
    cparams = {
        "codec": getattr(blosc2.Codec, codec),
        "clevel": level,
        "filters": [getattr(blosc2.Filter, name) for name in filters] or [blosc2.Filter.NOFILTER],
        "filters_meta": [0] * max(1, len(filters)),
    }
    if data.draw(st.booleans()):
        blosc2.asarray(x, urlpath=path, mode="w", chunks=chunks, blocks=blocks, cparams=cparams)
        a = b2kit.open(path)
        np.testing.assert_array_equal(a[...], x)
        found = [name if isinstance(name, str) else name[0] for name in a.filters]
        assert (a.codec, a.level, found) == (codec.lower(), level, [name.lower() for name in filters])
        assert a.verify() == "none"
    else:
        # C-Blosc2 misreads parts of chunks with delta (docs/format/limits-and-hostile-input.md), as it does at edges.
        names = [name.lower() for name in filters if name != "DELTA"]
        b2kit.asarray(x, path, codec.lower(), level, names, chunks, blocks, sync=False)
        b = blosc2.open(path)
        np.testing.assert_array_equal(b[:], x)
        assert b.chunks == tuple(chunks) and b.blocks == tuple(blocks)


def test_changes_both_ways(tmp_path):
    path = str(tmp_path / "a.b2nd")
    x = np.arange(60.0).reshape(10, 6)
    blosc2.asarray(x, urlpath=path, mode="w", chunks=(4, 3))
    a = b2kit.open(path, mode="a")
    with a.edit() as e:
        e[2:5] = -1
        e.append(x[:3])
        e.delete(0)
    x = np.delete(np.vstack([x, x[:3]]), 0, axis=0)
    x[1:4] = -1
    b = blosc2.open(path, mode="a")
    np.testing.assert_array_equal(b[:], x)
    b[0] = 5
    b.resize((14, 6))
    x = np.vstack([x, np.zeros((2, 6))])
    x[0] = 5
    assert a.refresh()
    np.testing.assert_array_equal(a[...], x)


def test_attributes_both_ways(tmp_path):
    path = str(tmp_path / "a.b2nd")
    b = blosc2.zeros((3,), urlpath=path, mode="w")
    values = {
        "units": "K",
        "n": 3,
        "tuple": (1, (2, "x")),
        "list": [None, True, 0.5],
        "map": {"a": [1], "b": {"c": b"raw"}},
        "set": {1, 2},
        "complex": 1 - 2j,
        "array": np.arange(4, dtype="i2").reshape(2, 2),
        "structured": np.zeros(2, [("a", "i4"), ("b", "f8", (2,))]),
    }

    def check(attrs):
        assert set(attrs) == set(values)
        for name, value in values.items():
            got = attrs[name]
            assert type(got) is type(value)
            if isinstance(value, np.ndarray):
                assert got.dtype == value.dtype and (got == value).all()
            else:
                assert got == value

    for name, value in values.items():
        b.schunk.vlmeta[name] = value
    a = b2kit.open(path, mode="a")
    check(a.attrs)
    a.attrs.clear()
    a.attrs.update(values)
    b = blosc2.open(path)
    check(b.schunk.vlmeta[:])
    # References to other files are not followed.
    from b2kit.attrs import Ext

    b = blosc2.open(path, mode="a")
    b.schunk.vlmeta["inner"] = blosc2.asarray(np.arange(3))
    a.refresh()
    assert isinstance(a.attrs["inner"], Ext) and a.attrs["inner"].code == 42


def test_stores_of_python_blosc2(tmp_path):
    x, y = np.arange(10), np.random.default_rng(0).random((100, 100))
    for name in ("s.b2d", "s.b2z"):
        with blosc2.TreeStore(str(tmp_path / name), mode="w") as tree:
            tree["/g/x"] = x
            tree["/g/deep/y"] = y
            tree["/top"] = y[0]
            tree.attrs["title"] = "a store"
            tree["/g"].attrs["list"] = [1, (2,)]
        g = b2kit.open(tmp_path / name)
        assert isinstance(g, b2kit.Group)
        assert list(g.keys()) == ["g", "top"] and list(g["g"]) == ["deep", "x"]
        assert "g/deep/y" in g and "/g/deep" in g and "nothing" not in g and "g/x/z" not in g
        np.testing.assert_array_equal(g["g/x"][...], x)
        np.testing.assert_array_equal(g["g"]["deep"]["y"][5], y[5])
        np.testing.assert_array_equal(g["/top"][::2], y[0][::2])
        assert dict(g.attrs) == {"title": "a store"} and dict(g["g"].attrs) == {"list": [1, (2,)]}
        assert sorted(key for key, _ in g.walk()) == ["g/deep/y", "g/x", "top"]
        assert g.verify() == b2kit.verify(tmp_path / name) == "none"
        for bad in ("nothing", "g/../top", "", "/", "a\\b", "g/__vlmeta__"):
            with pytest.raises(KeyError):
                g[bad]
    store = blosc2.EmbedStore(urlpath=str(tmp_path / "e.b2e"), mode="w")
    store["/x"] = x
    store["/deep/y"] = y
    del store
    g = b2kit.open(tmp_path / "e.b2e")
    assert list(g) == ["deep", "x"]
    np.testing.assert_array_equal(g["x"][...], x)
    np.testing.assert_array_equal(g["deep/y"][...], y)
    small = str(tmp_path / "small.b2d")
    with blosc2.TreeStore(small, mode="w", threshold=10**6) as tree:
        tree["/x"] = x
        tree.attrs["n"] = 1
    g = b2kit.open(small, mode="r")
    np.testing.assert_array_equal(g["x"][...], x)
    assert dict(g.attrs) == {"n": 1}
    with pytest.raises(b2kit.Error):
        b2kit.open(tmp_path / "s.b2z", mode="a")


def test_stores_of_ours(tmp_path):
    path = tmp_path / "ours.b2d"
    x = np.arange(1000.0).reshape(10, 100)
    with pytest.raises(FileNotFoundError):
        b2kit.open(path)
    g = b2kit.open(path, mode="a")
    a = g.create("ocean/sst", x, codec="lz4", chunks=(5, 50), attrs={"units": "K"})
    a.append(x)
    g["top"] = x[0]
    g["ocean/copy"] = a
    g.create("later", shape=(3, 4), dtype="i2")
    g.attrs["title"] = "ours"
    g["ocean"].attrs.update({"a": 1, "b": [2]})
    g["ocean"].attrs["a"] = 2
    del g["ocean"].attrs["b"]
    with pytest.raises(KeyError):
        del g["ocean"].attrs["b"]
    for wrong in ("top", "ocean", "top/below"):
        with pytest.raises(FileExistsError):
            g.create(wrong, x)
    for wrong in ("../out", "a/./b", "", "ocean/__vlmeta__"):
        with pytest.raises((KeyError, ValueError)):
            g.create(wrong, x)
    with blosc2.TreeStore(str(path), mode="r") as tree:
        assert set(tree.keys()) == {"/later", "/ocean", "/ocean/copy", "/ocean/sst", "/top"}
        np.testing.assert_array_equal(tree["/ocean/sst"][:], np.vstack([x, x]))
        np.testing.assert_array_equal(tree["/ocean/copy"][:], np.vstack([x, x]))
        member = tree["/ocean/copy"]
        assert member.schunk.vlmeta["units"] == "K"
        assert dict(tree.attrs[:]) == {"title": "ours"} and dict(tree["/ocean"].attrs[:]) == {"a": 2}
    with blosc2.TreeStore(str(path), mode="a") as tree:
        tree["/ocean/theirs"] = x[1]
        tree["/ocean"].attrs["c"] = 3
        tree.to_b2z(filename=str(tmp_path / "packed.b2z"))
    for again in (b2kit.open(path), b2kit.open(tmp_path / "packed.b2z")):
        assert list(again["ocean"]) == ["copy", "sst", "theirs"] and dict(again["ocean"].attrs) == {"a": 2, "c": 3}
        np.testing.assert_array_equal(again["ocean/theirs"][...], x[1])
        with pytest.raises(b2kit.Error):
            again["new"] = x
        with pytest.raises(b2kit.Error):
            again.attrs["x"] = 1
        with pytest.raises(b2kit.Error):
            del again["top"]
    del g["top"]
    del g["ocean"]
    with pytest.raises(KeyError):
        del g["ocean"]
    assert list(g) == ["later"] and "later" in repr(g)
    with blosc2.TreeStore(str(path), mode="r") as tree:
        assert set(tree.keys()) == {"/later"}


def keys_of(dice):
    """Random keys in groups, none of which is inside of another."""
    groups = ["", "g/", "g/deep/", "other/"]
    return [f"{dice.choice(groups)}m{n} ä.x" for n in range(dice.integers(0, 7))]


def opened(path, kind):
    """A store as python-blosc2 opens it for adding."""
    if path.suffix == ".b2e":
        return blosc2.EmbedStore(urlpath=str(path), mode="a")
    return kind(str(path), mode="a")


def closed(store):
    if isinstance(store, blosc2.DictStore):
        store.close()


@pytest.mark.parametrize("seed", range(12))
def test_stores_go_back_and_forth(tmp_path, seed):
    """A store of python-blosc2 is read and copied by us in all layouts, and each copy is read and changed by python-blosc2."""
    dice = np.random.default_rng(seed)
    arrays = {key: dice.integers(0, 9, dice.integers(1, 60, dice.integers(1, 3))) for key in keys_of(dice)}
    suffix = str(dice.choice([".b2d", ".b2z", ".b2e"]))
    first = tmp_path / f"first{suffix}"
    attrs = {"": {"title": "random", "list": [seed, "ä"]}, "g": {"n": seed}}
    if suffix == ".b2e":
        attrs = {}
        store = blosc2.EmbedStore(urlpath=str(first), mode="w")
    else:
        # With a threshold some members are files, and the smaller ones are embedded.
        store = blosc2.TreeStore(str(first), mode="w", threshold=int(dice.choice([0, 200, 10**6])))
    for key, x in arrays.items():
        store[f"/{key}"] = x
    store["/plain"] = blosc2.SChunk(chunksize=64, data=b"a super-chunk")
    batches = blosc2.BatchArray()
    batches.append([1, "two", 3.0])
    store["/batches"] = batches
    if arrays:
        del store[f"/{next(iter(arrays))}"]
        arrays.pop(next(iter(arrays)))
    attrs = {group: values for group, values in attrs.items() if not group or any(key.startswith("g/") for key in arrays)}
    for group, values in attrs.items():
        (store[f"/{group}"] if group else store).vlmeta[:] = values
    closed(store)
    del store
    ours = b2kit.open(first)
    for copied in (".b2d", ".b2z", ".b2e"):
        path = tmp_path / f"copy{copied}"
        ours.save(path)
        with pytest.raises(FileExistsError):
            ours.save(path)
        theirs = opened(path, blosc2.DictStore if seed % 3 == 0 else blosc2.TreeStore)
        names = {key for key in theirs.keys() if not key.endswith("__vlmeta__") and key not in ("/g", "/g/deep", "/other")}
        assert names == {f"/{key}" for key in arrays} | {"/plain", "/batches"}
        for key, x in arrays.items():
            np.testing.assert_array_equal(theirs[f"/{key}"][:], x)
        assert theirs["/plain"][:] == b"a super-chunk" and theirs["/batches"][0][:] == [1, "two", 3.0]
        added = np.arange(seed + 5)
        theirs["/g/added"] = added
        if isinstance(theirs, blosc2.TreeStore):
            for group, values in attrs.items():
                assert dict((theirs[f"/{group}"] if group else theirs).vlmeta[:]) == values
            theirs.vlmeta["more"] = 1
        closed(theirs)
        kind = type(theirs)
        del theirs
        again = b2kit.open(path)
        for key, x in {**arrays, "g/added": added}.items():
            np.testing.assert_array_equal(again[key][...], x)
            np.testing.assert_array_equal(pickle.loads(pickle.dumps(again[key]))[...], x)
        for group, values in attrs.items():
            more = {"more": 1} if kind is blosc2.TreeStore and not group else {}
            assert dict((again[group] if group else again).attrs) == {**values, **more}
        if copied == ".b2z":
            with zipfile.ZipFile(path) as archive:
                assert archive.testzip() is None
                assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}


def test_a_copy_takes_dictionaries_only_if_the_codec_has_them():
    x = np.arange(10_000)
    for a in (b2kit.asarray(x, use_dict=True), blosc2.asarray(x, cparams={"codec": blosc2.Codec.ZSTD, "use_dict": True})):
        for codec in ("zlib", "blosclz", "lz4"):
            np.testing.assert_array_equal(b2kit.copy(a, codec=codec)[:], x)
    a = b2kit.asarray(x, use_dict=True)
    sizes = [b2kit.copy(a, use_dict=use_dict).cbytes for use_dict in (True, False)]
    assert sizes[0] == b2kit.copy(a).cbytes == a.cbytes and sizes[1] == b2kit.asarray(x).cbytes != sizes[0]
    with pytest.raises(errors.ArgumentError, match="dictionaries"):
        b2kit.copy(a, codec="zlib", use_dict=True)


def test_copies_of_groups(tmp_path):
    x = np.arange(20.0)
    g = b2kit.open(tmp_path / "s.b2d", mode="a")
    g.create("a/b/x", x, sparse=True)
    g["y"] = x
    g["a"].attrs["n"] = 1
    for suffix in (".b2d", ".b2z", ".b2e"):
        path = tmp_path / f"part{suffix}"
        g["a"].save(path)
        part = b2kit.open(path)
        assert list(part) == ["b"] and dict(part.attrs) == {"n": 1} and part.verify() == "ok"
        np.testing.assert_array_equal(part["b/x"][...], x)
        if suffix != ".b2d":
            g.save(path, overwrite=True)
            assert list(b2kit.open(path)) == ["a", "y"]
    with blosc2.TreeStore(str(tmp_path / "part.b2z"), mode="r") as tree:
        assert set(tree.keys()) == {"/a", "/a/b", "/a/b/x", "/y"} and dict(tree["/a"].vlmeta[:]) == {"n": 1}
        offset, length = tree.member_window("/y")
        frame = (tmp_path / "part.b2z").read_bytes()[offset : offset + length]
        np.testing.assert_array_equal(blosc2.ndarray_from_cframe(frame)[:], x)
    with pytest.raises(FileExistsError):
        g.save(tmp_path / "part.b2d", overwrite=True)
    with pytest.raises(errors.NotFoundError):
        g.save(tmp_path / "missing" / "s.b2z")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["part.b2d", "part.b2e", "part.b2z", "s.b2d"]


def test_stores_in_stores_and_references(tmp_path):
    inner = blosc2.EmbedStore()
    inner["/x"] = np.arange(5)
    store = blosc2.EmbedStore(urlpath=str(tmp_path / "e.b2e"), mode="w")
    store["/inner"] = inner
    store["/y"] = np.arange(3)
    # As python-blosc2 stores a reference to an array on a server.
    store._embed_map["/far"] = {"urlbase": "http://127.0.0.1:9/", "path": "@public/a.b2nd"}
    store._save_metadata()
    del store
    g = b2kit.open(tmp_path / "e.b2e")
    assert list(g) == ["far", "inner", "y"]
    np.testing.assert_array_equal(g["y"][...], np.arange(3))
    with pytest.raises(errors.UnsupportedError, match="not followed"):
        g["far"]


def test_directories_and_frames(tmp_path):
    x = np.arange(100).reshape(10, 10)
    blosc2.asarray(x, urlpath=str(tmp_path / "sparse.b2nd"), mode="w", contiguous=False, chunks=(3, 10))
    a = b2kit.open(tmp_path / "sparse.b2nd", mode="a")
    np.testing.assert_array_equal(a[...], x)
    a[1] = 0
    assert blosc2.open(str(tmp_path / "sparse.b2nd"))[1].sum() == 0
    ours = b2kit.asarray(x, tmp_path / "ours.b2nd", sparse=True)
    np.testing.assert_array_equal(blosc2.open(str(tmp_path / "ours.b2nd"))[:], x)
    assert ours.verify() == "ok"
    schunk = blosc2.SChunk(chunksize=800, data=x, urlpath=str(tmp_path / "plain.b2frame"), mode="w")
    assert schunk.nchunks == 1
    with pytest.raises(b2kit.Error, match="not an array"):
        b2kit.open_array(tmp_path / "plain.b2frame")
    assert b2kit.verify(tmp_path / "plain.b2frame") == "none"
    np.testing.assert_array_equal(b2kit.asarray(blosc2.asarray(x))[...], x)


@pytest.mark.parametrize("sparse", [False, True])
def test_changes_that_keep_all_sizes_are_seen_by_a_refresh(tmp_path, sparse):
    path = str(tmp_path / "a.b2nd")
    theirs = blosc2.asarray(np.zeros(20, "i4"), urlpath=path, mode="w", chunks=(10,), contiguous=not sparse)
    theirs.schunk.vlmeta["n"] = "ab"
    ours = b2kit.open(path, "a")
    theirs.schunk.vlmeta["n"] = "cd"
    assert ours.refresh() and ours.attrs["n"] == "cd"
    theirs = blosc2.open(path, mode="a")
    theirs.schunk.vlmeta["n"] = "ef"
    ours.resize(20)
    assert ours.attrs["n"] == "ef" and not ours.refresh()
    dice = np.random.default_rng(0)
    for _ in range(100):
        x = np.concatenate([np.full(10, dice.choice([0, 1])) * dice.integers(0, 2**31, 10) for _ in range(2)]).astype("i4")
        theirs = blosc2.open(path, mode="a")
        theirs[:] = x
        ours.refresh()
        np.testing.assert_array_equal(ours[:], x)


def test_chunks_both_ways():
    data = np.arange(10_000, dtype="f8").tobytes()
    assert b2kit.decompress(blosc2.compress2(data, typesize=8)) == data
    assert blosc2.decompress2(b2kit.compress(data, "lz4", typesize=8)) == data


@pytest.mark.parametrize("itemsize", [1, 4, 127, 128, 131, 200, 255, 256, 257, 300, 1000])
def test_bytedelta_of_items_of_any_size(tmp_path, itemsize):
    data = (np.arange(itemsize * 1000) // 3).astype("u1").tobytes()
    filters = ("shuffle", "bytedelta")
    chunk = b2kit.compress(data, filters=filters, typesize=itemsize)
    assert b2kit.decompress(chunk) == data == blosc2.decompress2(chunk)
    # blosc2.open reads the parameter as a signed byte.
    x = np.frombuffer(data, f"V{itemsize}")
    path = str(tmp_path / "a.b2nd")
    b2kit.asarray(x, path, filters=filters, chunks=400, blocks=100)
    theirs = blosc2.open(path, mode="a")
    assert theirs[:].tobytes() == data and theirs[399:401].tobytes() == x[399:401].tobytes()
    # Inside the last chunk: this changes the shape in the header, and no data.
    theirs.resize((1010,))
    with pytest.warns(errors.ChangedWarning):
        assert b2kit.open(path)[:].tobytes() == data + bytes(10 * itemsize)
    theirs[5:450] = x[0:445]
    theirs.resize((1100,))
    theirs[1000:] = x[100:200]
    want = np.concatenate([x, x[100:200]])
    want[5:450] = x[0:445]
    assert b2kit.open(path)[:].tobytes() == want.tobytes()
    b2kit.verify(path)
    ours = b2kit.open(path, mode="a")
    ours[700:] = x[:400]
    want[700:] = x[:400]
    assert blosc2.open(path)[:].tobytes() == want.tobytes()


def _overwrite(path, shape, ready, stop):
    w = blosc2.open(path, mode="a", locking=True)
    ready.set()
    value = 0
    while not stop.is_set():
        value += 1
        w[...] = np.full(shape, value, "i4")
        # Without a pause, the file could never be read.
        time.sleep(0.05)


def test_reading_beside_a_writer_with_locking(tmp_path):
    path, shape = str(tmp_path / "a.b2nd"), (200, 300)
    blosc2.asarray(np.zeros(shape, "i4"), urlpath=path, mode="w", chunks=(50, 60), locking=True)
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    writer = context.Process(target=_overwrite, args=(path, shape, ready, stop))
    writer.start()
    try:
        assert ready.wait(60)
        held, seen, reads = b2kit.open(path), set(), 0
        # The test ends when enough states were seen, however slow the writer is.
        while reads < 150 or len(seen) <= 5:
            reads += 1
            assert writer.is_alive()
            for reader in (lambda: held, lambda: b2kit.open(path)):
                # Changes are read again automatically, and each read sees a single state.
                try:
                    values = np.unique(reader()[...])
                except b2kit.errors.ChangedError:
                    continue
                assert len(values) == 1, values
                seen.add(int(values[0]))
    finally:
        stop.set()
        writer.join(60)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("between", [False, True])
def test_a_writer_that_begins_to_lock_after_a_reader_has_verified(tmp_path, sparse, between):
    """The reader compares a chunk only once, and C-Blosc2 overwrites the chunk of the state that the reader shows."""
    path = tmp_path / "a.b2nd"
    x = np.arange(80, dtype="i4").reshape(16, 5)
    b2kit.asarray(x, path, chunks=(17, 2), blocks=(4, 1), sparse=sparse)
    reader, new = b2kit.open_array(path), x.copy()
    assert reader[0, 0] == 0
    if between:
        b2kit.open_array(path, mode="a")[10:12, 2:3] = new[10:12, 2:3] = 99
    writer = blosc2.open(str(path), mode="a", locking=True)
    writer[4:6, 1:2] = new[4:6, 1:2] = [[12345], [66666]]
    np.testing.assert_array_equal(reader[...], new)


def test_chunk_files_that_c_blosc2_has_removed(tmp_path):
    """A reader moves on to the new state, as after other changes; without one it is an error that names the change."""
    path = tmp_path / "a.b2nd"
    x = np.random.default_rng(0).integers(0, 10**9, 1000)
    b2kit.asarray(x, path, chunks=100, blocks=20, sparse=True)
    reader = b2kit.open_array(path)
    writer = blosc2.open(str(path), mode="a")
    writer.resize((250,))
    with pytest.raises(errors.ChangedError):
        reader[...]
    writer.resize((1000,))
    np.testing.assert_array_equal(reader[...], writer[:])
    (path / "00000001.chunk").unlink()
    with pytest.raises(errors.NotFoundError):
        reader[...]


def test_arrays_without_items_are_refused_by_name(tmp_path, monkeypatch):
    """Lazy objects and caches of other arrays are stored as empty arrays with a note: reading zeros would be wrong."""
    monkeypatch.chdir(tmp_path)
    a = blosc2.asarray(np.arange(100.0).reshape(10, 10), urlpath="a.b2nd", mode="w")
    (a * 2 + 1).save(urlpath="lazyexpr.b2nd", mode="w")

    @blosc2.dsl_kernel
    def twice(v):
        return v * 2

    blosc2.lazyudf(twice, (a,), dtype=a.dtype).save(urlpath="lazyudf.b2nd", mode="w")
    proxy = blosc2.Proxy(a, urlpath="proxy.b2nd", mode="w")
    proxy.fetch((slice(0, 1), slice(0, 1)))
    b2objects = pytest.importorskip("blosc2.b2objects")
    carrier = b2objects.make_b2object_carrier("c2array", (10, 10), "f8", urlpath="c2array.b2nd", mode="w")
    b2objects.write_b2object_payload(carrier, blosc2.Ref.c2array_ref("@public/a.b2nd", "https://x.test/").to_dict())
    older = blosc2.empty((10, 10), dtype="f8", urlpath="older.b2nd", mode="w", meta={"LazyArray": 0})
    del proxy, carrier, older
    tree = blosc2.TreeStore("s.b2d", mode="w")
    tree["/plain"] = a[...]
    tree.close()
    shutil.copy("lazyexpr.b2nd", "s.b2d/lazy.b2nd")
    names = {"lazyexpr": "LazyExpr", "lazyudf": "LazyUDF", "proxy": "Proxy", "c2array": "C2Array", "older": "LazyArray"}
    for name, reported in names.items():
        path = f"{name}.b2nd"
        frame = (tmp_path / path).read_bytes()
        calls = [
            lambda: b2kit.open(path),
            lambda: b2kit.open(path, mode="a"),
            lambda: b2kit.open(frame),
            lambda: b2kit.open(open(path, "rb")),
        ]
        for call in calls:
            with pytest.raises(errors.UnsupportedError, match=reported):
                call()
        # The file itself is intact, or damaged.
        assert b2kit.verify(path) == b2kit.verify(frame) == "none"
        done = subprocess.run([sys.executable, "-m", "b2kit", "cat", path], capture_output=True, text=True)
        assert done.returncode and reported in done.stderr and not done.stdout, done
    g = b2kit.open("s.b2d")
    assert (g["plain"][...] == a[...]).all()
    with pytest.raises(errors.UnsupportedError, match="LazyExpr"):
        g["lazy"]
    # A cache of a super-chunk has its properties, but not its bytes.
    chunks = blosc2.SChunk(chunksize=400, data=np.arange(100.0), urlpath="chunks.b2frame", mode="w")
    blosc2.Proxy(chunks, urlpath="cache.b2frame", mode="w")
    cache = b2kit.open("cache.b2frame")
    assert isinstance(cache, b2kit.SuperChunk) and cache.nbytes == 800 and cache.verify() == "none"
    for read in (cache.read, lambda: cache.chunk(0), lambda: cache[3]):
        with pytest.raises(errors.UnsupportedError, match="Proxy"):
            read()
    assert g.verify() == b2kit.verify("s.b2d") == "none"
    assert [key for key, _ in g.walk()] == ["plain"]
    assert (b2kit.open("a.b2nd")[...] == np.arange(100.0).reshape(10, 10)).all()
    # Once evaluated, they are ordinary arrays.
    (a * 2 + 1).compute(urlpath="computed.b2nd", mode="w")
    assert (b2kit.open("computed.b2nd")[...] == np.arange(100.0).reshape(10, 10) * 2 + 1).all()
