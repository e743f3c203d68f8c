"""Other storage by C programs and python-blosc2: attributes that are not msgpack, members in embed.b2e."""

from __future__ import annotations

import b2kit
import numpy as np
import pytest

blosc2 = pytest.importorskip("blosc2")


def test_attributes_that_are_not_msgpack(tmp_path):
    path, raw = str(tmp_path / "a.b2nd"), b"\xc1\xffraw"
    theirs = blosc2.asarray(np.arange(10.0), urlpath=path, mode="w", meta={"m": [1, 2]})
    theirs.schunk.vlmeta.set_vlmeta("raw", raw)
    theirs.schunk.vlmeta["ok"] = "v"
    del theirs
    a = b2kit.open(path, mode="a")
    assert a.attrs.asdict() == {"raw": raw, "ok": "v"} and isinstance(a.attrs["raw"], b2kit.attrs.Raw)
    assert a.attrs.raw("raw") == raw and a.attrs.raw("ok") == b"\xa1v" and a.meta == {"m": [1, 2]}
    a.attrs["again"] = a.attrs["raw"]
    copied = b2kit.copy(a)
    assert copied.attrs.raw("raw") == raw and copied.meta == {"m": [1, 2]}
    assert blosc2.open(path).schunk.vlmeta.get_vlmeta("again") == raw


def test_embedded_members_are_changed(tmp_path):
    path = str(tmp_path / "s.b2d")
    with blosc2.TreeStore(path, mode="w", threshold=1 << 20) as store:
        store["/a"] = np.arange(5)
        store["/g/b"] = np.ones((2, 3))
        store["/g/c"] = np.zeros(4)
    root = b2kit.open_group(path, mode="a")
    assert sorted(root) == ["a", "g"] and root.array("a")[...].tolist() == [0, 1, 2, 3, 4]
    assert not list((tmp_path / "s.b2d").glob("*.b2nd"))
    a = root.array("a")
    a[1] = 10
    a.append([6])
    assert a[...].tolist() == [0, 10, 2, 3, 4, 6] and root.array("a")[1] == 10
    del root["g/c"]
    root["g/b"] = np.zeros(2)
    with blosc2.TreeStore(path, mode="a") as store:
        assert sorted(store.keys()) == ["/a", "/g", "/g/b"]
        assert store["/a"][:].tolist() == [0, 10, 2, 3, 4, 6] and store["/g/b"][:].tolist() == [0, 0]
        del store["/a"]
    assert sorted(b2kit.open(path)) == ["g"]


@pytest.mark.parametrize("dtype", [">f4", ">f8", "c8", "c16", "<i4", "U1", [("x", "<f4")]], ids=str)
def test_items_that_are_no_native_floats_are_refused(tmp_path, dtype):
    options = {"filters": [("trunc_prec", 10)]}
    x = np.full((8, 8), 101, "f4").astype(dtype) if isinstance(dtype, str) else np.zeros((8, 8), dtype)
    path = tmp_path / "x.b2nd"
    with pytest.raises(b2kit.errors.ArgumentError, match="floats"):
        b2kit.asarray(x, path, **options)
    assert not path.exists()
    with pytest.raises(ValueError):
        b2kit.compress(x, **options)
    if x.dtype.kind == "f":
        assert np.allclose(b2kit.asarray(x, dtype="f4", **options)[...], 101, atol=1)
    a = b2kit.asarray(x, path)
    with pytest.raises(b2kit.errors.ArgumentError, match="floats"), a.edit() as e:
        e.set_compression("lz4", 5, [("trunc_prec", 10)])


def test_zfp_is_kept_and_not_chosen_without_its_parameter(tmp_path):
    x, path = np.random.default_rng(0).normal(size=(60, 50)).astype("f4"), str(tmp_path / "x.b2nd")
    within = {"codec": blosc2.Codec.ZFP_ACC, "codec_meta": 256 - 3, "filters": [], "splitmode": blosc2.SplitMode.NEVER_SPLIT}
    blosc2.asarray(x, urlpath=path, chunks=(30, 50), blocks=(10, 10), cparams=within)
    a = b2kit.open_array(path, mode="a")
    for given in {}, {"codec": "zfp_acc"}, {"chunks": (25, 25)}, {"level": 3}, {"dtype": "f8"}, {"dtype": ">f4"}:
        copy = b2kit.copy(a, **given)
        assert np.abs(copy[...] - x).max() < 1e-3, given
        assert copy.codec == ("zstd" if "dtype" in given else "zfp_acc")
    for codec in "zfp_acc", "zfp_prec", "zfp_rate":
        for write in (
            lambda codec=codec: b2kit.asarray(x, codec=codec, filters=[]),
            lambda codec=codec: b2kit.zeros(3, codec=codec, filters=[]),
            lambda codec=codec: b2kit.compress(x, codec, filters=[]),
            lambda codec=codec: b2kit.copy(a, codec=codec, dtype="f8"),
        ):
            with pytest.raises(b2kit.errors.ArgumentError, match="parameter"):
                write()
        with pytest.raises(b2kit.errors.ArgumentError, match="parameter"), a.edit() as e:
            e.set_compression(codec, 5, [])
    # xarray passes on how a variable was compressed.
    xarray = pytest.importorskip("xarray")
    xarray.open_dataset(path, engine="b2kit").b2kit.to_store(tmp_path / "s.b2d")
    assert (b2kit.open_group(tmp_path / "s.b2d").array("x")[...] == a[...]).all()


def test_frames_that_are_no_arrays(tmp_path):
    path, x = str(tmp_path / "s.b2frame"), np.arange(2500, dtype="i4")
    theirs = blosc2.SChunk(
        chunksize=4000, data=x, urlpath=path, mode="w", contiguous=True, cparams={"typesize": 4}, meta={"note": {"a": 1}}
    )
    theirs.vlmeta["x"] = 5
    for found in (b2kit.open(path), b2kit.open((tmp_path / "s.b2frame").read_bytes())):
        assert isinstance(found, b2kit.SuperChunk) and found.kind == "SChunk"
        assert (len(found), found.typesize, found.nbytes, found.nchunks) == (2500, 4, 10_000, 3)
        assert found[7:12] == x[7:12].tobytes() and found[-1] == x[-1:].tobytes() and found.read() == x.tobytes()
        assert found[12:7] == b"" and found.chunk(2) == x[2000:].tobytes()
        assert found.meta == {"note": {"a": 1}} and found.attrs == {"x": 5} and found.verify() in ("ok", "none")
        for wrong in (lambda found=found: found[2500], lambda found=found: found[::2], lambda found=found: found.chunk(3)):
            with pytest.raises(IndexError):
                wrong()
    with pytest.raises(b2kit.errors.ReadOnlyError):
        b2kit.open(path, mode="a")
    for wrong in (b2kit.open_array, b2kit.open_group):
        with pytest.raises(ValueError):
            wrong(path)
    # Neither are they converted to arrays, of texts, unasked.
    for wrong in (b2kit.copy, np.asarray, b2kit.asarray):
        with pytest.raises(TypeError, match="bytes, not items"):
            wrong(path if wrong is b2kit.copy else found)


@pytest.mark.parametrize("dtype", ["f4", ">i8", "S3", [("a", "u1"), ("b", "<f8")]], ids=str)
@pytest.mark.parametrize("shape", [(12,), (3, 4, 5), (0, 3)], ids=str)
def test_saved_tensors_open_as_arrays(tmp_path, dtype, shape):
    x = np.zeros(shape, dtype)
    x = (np.arange(x.size).reshape(shape) % 250).astype(dtype) if isinstance(dtype, str) else x
    path = str(tmp_path / "t.b2frame")
    blosc2.save_tensor(x, path, mode="w")
    found = b2kit.open(path)
    assert found.shape == shape and found.dtype == x.dtype and np.asarray(found[...]).tobytes() == x.tobytes()
    assert b2kit.open(blosc2.pack_tensor(x)).shape == shape


@pytest.mark.parametrize("dtype", ["i2", "u2", "i4", "u8", "f4", "f8", "c8", "c16", ">f8", "M8[s]", "f2"], ids=str)
def test_pcodec_keeps_every_bit(tmp_path, dtype):
    """The codec takes numbers and no filters; python-blosc2 can read only copies with another codec."""
    rng = np.random.default_rng(7)
    x = rng.integers(0, 2**15, (90, 111)).astype("i8").astype(dtype)
    if x.dtype.kind == "f":
        x[3, :4] = [np.nan, -0.0, np.inf, 0.01]
    path = tmp_path / "x.b2nd"
    a = b2kit.asarray(x, path, codec="pco", filters=[], chunks=(40, 50), blocks=(20, 50))
    assert a.codec == "pco" and b2kit.open(path)[...].tobytes() == x.tobytes() and a[5:17, 60].tobytes() == x[5:17, 60].tobytes()
    with pytest.raises(b2kit.errors.ArgumentError, match="no filter may come before"):
        b2kit.asarray(x, codec="pco")
    with pytest.raises(RuntimeError):
        blosc2.open(str(path), mode="r")[...]
    b2kit.asarray(a, tmp_path / "y.b2nd", codec="lz4", filters=["shuffle"])
    assert blosc2.open(str(tmp_path / "y.b2nd"), mode="r")[...].tobytes() == x.tobytes()
    assert b2kit.decompress(b2kit.compress(x, codec="pco", filters=[])) == x.tobytes()
