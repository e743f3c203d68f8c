"""Creating, changing and checking arrays."""

from __future__ import annotations

import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import b2kit
import numpy as np
import pytest
from b2kit import errors
from conftest import many
from hypothesis import given, settings
from hypothesis import strategies as st

ramp = np.arange(6000, dtype="f4").reshape(60, 100)


def test_made_on_disk_and_in_memory(tmp_path):
    path = tmp_path / "a.b2nd"
    a = b2kit.asarray(ramp, path, codec="lz4", level=3, filters=["bitshuffle"], chunks=(20, 50), blocks=(5, 10))
    assert (a.codec, a.level, a.filters) == ("lz4", 3, ["bitshuffle"])
    assert (a.chunks, a.blocks, a.ndim, a.size) == ((20, 50), (5, 10), 2, 6000)
    assert (a.nbytes, a.cbytes, a.mode, a.path) == (24000, a.cbytes, "a", str(path))
    assert a.ratio == pytest.approx(24000 / a.cbytes)
    for opened in [b2kit.open(path), b2kit.open(str(path)), b2kit.open(path.read_bytes()), b2kit.open(path.open("rb"))]:
        assert opened.mode == "r"
        np.testing.assert_array_equal(opened[...], ramp)
    with pytest.raises(FileExistsError):
        b2kit.asarray(ramp, path)
    b2kit.asarray(ramp[:2], path, overwrite=True, sync=False)
    assert b2kit.open(path).shape == (2, 100)
    assert not a.path is None and a.shape == (60, 100)
    memory = b2kit.asarray(ramp, filters=["delta", ("trunc_prec", 10)], use_dict=True, splitmode="never")
    assert memory.filters == ["delta", ("trunc_prec", 10)] and memory.path is None


@given(st.data())
@settings(max_examples=many(200), deadline=None)
def test_any_layout(data):
    shape = data.draw(st.lists(st.integers(0, 6), max_size=4))
    x = np.arange(int(np.prod(shape)), dtype=">u2").reshape(shape)
    key = tuple(data.draw(st.sampled_from([slice(None), slice(None, None, -1), slice(None, None, 2)])) for _ in shape)
    x = x[key].transpose(data.draw(st.permutations(range(len(shape)))))
    if data.draw(st.booleans()):
        x = np.broadcast_to(x, (3, *x.shape))
    a = b2kit.asarray(x)
    assert a.dtype == x.dtype
    np.testing.assert_array_equal(a[...], x)


def test_files_of_python(tmp_path):
    path = tmp_path / "a.b2nd"
    b2kit.asarray(ramp, path, chunks=(20, 30))
    import io

    class Slow(io.RawIOBase):
        """Returns fewer bytes than requested, in separate buffers."""

        def __init__(self):
            self.file = path.open("rb")

        def seek(self, offset, whence=0):
            return self.file.seek(offset, whence)

        def read(self, size=-1):
            return memoryview(self.file.read(min(size, 1000)))

    with ThreadPoolExecutor(4) as pool:
        for file in (path.open("rb"), io.BytesIO(path.read_bytes()), Slow()):
            a = b2kit.open(file)
            np.testing.assert_array_equal(list(pool.map(a.__getitem__, range(60))), ramp)

    class Broken(Slow):
        broken = False

        def read(self, size=-1):
            if self.broken:
                raise ConnectionError("gone")
            return super().read(size)

    file = Broken()
    a = b2kit.open(file)
    file.broken = True
    with pytest.raises(ConnectionError, match="gone"):
        a[...]
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open(f"memory://{path}", "wb") as target:
        target.write(path.read_bytes())
    for source in (fsspec.open(f"memory://{path}"), fsspec.open(f"file://{path}", "rb").open()):
        np.testing.assert_array_equal(b2kit.open(source)[3], ramp[3])


def test_constants():
    assert not b2kit.zeros((2, 3))[...].any() and b2kit.zeros(3).dtype == float
    np.testing.assert_array_equal(b2kit.full((2, 2), 7)[...], np.full((2, 2), 7))
    assert b2kit.full((), "ab")[()] == "ab"
    assert b2kit.empty((2, 3), "i2").shape == (2, 3)
    assert b2kit.zeros((1000, 1000, 1000)).cbytes < 1000
    assert b2kit.zeros(3, ("f4", (2, 2))).shape == (3, 2, 2)
    nothing = b2kit.full(4, np.datetime64("2020-01-01", "D"))
    assert nothing[1] == np.datetime64("2020-01-01")
    with pytest.raises(ValueError):
        b2kit.full(3, [1, 2])
    with pytest.raises(ValueError):
        b2kit.zeros((-1,))


def test_from_iter(tmp_path):
    np.testing.assert_array_equal(b2kit.from_iter(iter(range(100_000)), "i4")[...], np.arange(100_000))
    a = b2kit.from_iter((n / 2 for n in range(60)), float, (3, 4, 5), tmp_path / "a.b2nd", chunks=(2, 3, 2))
    np.testing.assert_array_equal(a[...], np.arange(60).reshape(3, 4, 5) / 2)
    assert a.chunks == (2, 3, 2)
    assert b2kit.from_iter([], "u1").shape == (0,)
    assert b2kit.from_iter([5], "u1", ())[()] == 5
    with pytest.raises(ValueError, match="items"):
        b2kit.from_iter([1, 2], "u1", (3,))


def test_copy_and_concat(tmp_path):
    a = b2kit.asarray(ramp, codec="lz4", level=2, chunks=(20, 50), attrs={"units": "K", "n": 1})
    b = b2kit.copy(a, tmp_path / "b.b2nd")
    assert (b.codec, b.level, b.chunks, dict(b.attrs)) == ("lz4", 2, (20, 50), {"units": "K", "n": 1})
    c = b2kit.copy(a, codec="zstd", chunks=(7, 9), attrs={"n": 2})
    assert (c.codec, c.level, c.chunks, dict(c.attrs)) == ("zstd", 2, (7, 9), {"units": "K", "n": 2})
    for made in (b, c):
        np.testing.assert_array_equal(made[...], ramp)
    joined = b2kit.concat([a, c, ramp[:5]], tmp_path / "joined.b2nd")
    np.testing.assert_array_equal(joined[...], np.concatenate([ramp, ramp, ramp[:5]]))
    wide = b2kit.concat([a, c], axis=-1)
    np.testing.assert_array_equal(wide[...], np.concatenate([ramp, ramp], axis=1))
    with pytest.raises(ValueError):
        b2kit.concat([a, ramp[:, :3]])
    with pytest.raises(ValueError):
        b2kit.concat([])
    with pytest.raises(IndexError):
        b2kit.concat([a], axis=2)
    assert b2kit.copy(b2kit.asarray(np.array(3)))[()] == 3


def test_lazy_sources():
    class Chunked:
        shape, dtype, chunks = ramp.shape, ramp.dtype, (10, 100)
        asked = 0

        def __getitem__(self, key):
            assert all(isinstance(part, slice) for part in key)
            Chunked.asked += 1
            return ramp[key]

    a = b2kit.asarray(Chunked(), chunks=(20, 30))
    np.testing.assert_array_equal(a[...], ramp)
    assert Chunked.asked > 1

    class Broken(Chunked):
        def __getitem__(self, key):
            raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        b2kit.asarray(Broken())
    np.testing.assert_array_equal(b2kit.asarray(a)[...], ramp)
    np.testing.assert_array_equal(b2kit.asarray([[1, 2], [3, 4]])[1], [3, 4])
    with pytest.raises(TypeError):
        b2kit.asarray(np.ma.masked_array([1, 2], [True, False]))


def test_arguments_are_checked(tmp_path):
    for wrong in (
        {"codec": "nothing"},
        {"level": 10},
        {"filters": ["nothing"]},
        {"filters": ["shuffle"] * 7},
        {"chunks": (1, 2, 3)},
        {"blocks": (0, 1)},
        {"blocks": (1,)},
        {"splitmode": "often"},
    ):
        with pytest.raises((errors.ArgumentError, errors.UnsupportedError)):
            b2kit.asarray(ramp, tmp_path / "a.b2nd", **wrong)
    for wrong in ({"filters": "shuffle"}, {"filters": [1]}):
        with pytest.raises(TypeError):
            b2kit.asarray(ramp, **wrong)
    with pytest.raises(TypeError):
        b2kit.zeros(3, nothing=1)
    with pytest.raises(ValueError):
        b2kit.open(tmp_path / "a.b2nd", mode="w")
    with pytest.raises(TypeError):
        b2kit.open(3)
    assert os.listdir(tmp_path) == []


@st.composite
def changes(draw, x):
    """A key and values to set with it."""
    key = []
    for n in x.shape:
        edge = st.none() | st.integers(-n - 1, n + 1)
        one = st.integers(-n, n - 1)
        part = st.builds(slice, edge, edge, st.none() | st.sampled_from([-2, -1, 2]))
        if n:
            part |= one | st.lists(one, min_size=1, max_size=1)
            part |= st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda marks: sum(marks) == 1).map(np.array)
        key.append(draw(part))
    key = tuple(key[: draw(st.integers(0, len(key)))])
    shape = np.shape(x[key])
    shape = [draw(st.sampled_from([n, n, 1])) for n in shape[draw(st.integers(0, len(shape))) :]]
    size = int(np.prod(shape))
    value = np.array(draw(st.lists(st.integers(0, 99), min_size=size, max_size=size)), draw(st.sampled_from(["i8", "f4"])))
    return key, value.reshape(shape)


@given(st.data())
@settings(max_examples=many(600), deadline=None)
def test_setting_items(data):
    shape = data.draw(st.lists(st.integers(0, 6), max_size=3))
    x = np.arange(int(np.prod(shape)), dtype=data.draw(st.sampled_from(["i2", ">i4", "f8"]))).reshape(shape)
    a = b2kit.asarray(x, chunks=[max(1, n // 2) for n in shape])
    with a.edit() as e:
        for _ in range(data.draw(st.integers(1, 3))):
            key, value = data.draw(changes(x))
            x[key] = value
            e[key] = value
            np.testing.assert_array_equal(e[...], x)
    np.testing.assert_array_equal(a[...], x)


def test_setting_by_coordinates():
    x = np.arange(60).reshape(3, 4, 5)
    a = b2kit.asarray(x, chunks=(2, 2, 2))
    for key, value in [
        (([0, 2], [1, 3]), np.arange(10).reshape(2, 5)),
        (([[0], [2]], [1, 3]), np.arange(20).reshape(2, 2, 5)),
        (([0, 2], slice(None), [1, 3]), np.arange(8).reshape(2, 4)),
        ((slice(None), [[0], [1]], [1, 3, 4]), np.arange(18).reshape(3, 2, 3)),
        ((slice(None), [[0], [1]], [1, 3, 4]), 7),
        ((x % 7 == 3,), -1),
        ((x % 5 == 3,), np.arange(12)),
        ((np.eye(3, 4, dtype=bool), slice(1, 3)), [[1, 2]]),
        (([[0, 1], [1, 2]],), 5),
        (([[0, 1], [2, 2]],), np.arange(2 * 4 * 5).reshape(2, 1, 4, 5)),
        ((0,), 2.0),
        ((..., [1]), True),
        ((None, 0), 3),
        ((1, 2, 3, ...), np.array([[8]])),
    ]:
        x[key] = value
        a[key] = value
        np.testing.assert_array_equal(a[...], x, err_msg=str(key))
    a.oindex[[0, 2], :, [1, 4]] = 9
    x[np.ix_([0, 2], range(4), [1, 4])] = 9
    a.vindex[[0, 2], :, [1, 4]] = np.arange(8).reshape(2, 4)
    x[[0, 2], :, [1, 4]] = np.arange(8).reshape(2, 4)
    np.testing.assert_array_equal(a[...], x)
    with pytest.raises(ValueError, match="broadcast"):
        a[0] = [1, 2]
    with pytest.raises(ValueError):
        a[0] = "text"
    np.testing.assert_array_equal(a[...], x)


def test_setting_fields_and_strings():
    x = np.zeros(5, [("n", "i4"), ("v", "f4", (2,)), ("s", "U3")])
    a = b2kit.asarray(x, chunks=2)
    for key, value in [("n", np.arange(5)), ("v", [[1, 2]] * 5), ("s", "abc"), (1, (7, (1, 2), "x")), ("n", 3)]:
        x[key] = value
        a[key] = value
        np.testing.assert_array_equal(a[...], x)


def test_growing_and_shrinking(tmp_path):
    x = np.arange(12).reshape(3, 4)
    a = b2kit.asarray(x, tmp_path / "a.b2nd", chunks=(2, 2))
    a.append(x[:2])
    a.append([100, 101, 102, 103])
    a.append(np.arange(6), axis=1)
    x = np.vstack([x, x[:2], [100, 101, 102, 103]])
    x = np.hstack([x, np.arange(6)[:, None]])
    np.testing.assert_array_equal(a[...], x)
    a.insert(1, [9, 8, 7, 6, 5])
    x = np.vstack([x[:1], [9, 8, 7, 6, 5], x[1:]])
    a.insert(-1, x[:2])
    x = np.vstack([x[:-1], x[:2], x[-1:]])
    np.testing.assert_array_equal(a[...], x)
    for sel in (1, slice(2, 4), [0, -1], np.arange(len(x) - 5) == 0, slice(None, None, 2), [], slice(5, 2)):
        a.delete(sel)
        x = np.delete(x, sel, axis=0)
        np.testing.assert_array_equal(a[...], x)
    a.delete(slice(1, 3), axis=-1)
    x = np.delete(x, slice(1, 3), axis=-1)
    np.testing.assert_array_equal(a[...], x)
    a.resize((4, 2))
    assert a.shape == (4, 2) and b2kit.open(tmp_path / "a.b2nd").shape == (4, 2)
    a.resize((0, 2))
    a.append(np.ones((3, 2)))
    np.testing.assert_array_equal(a[...], np.ones((3, 2)))
    for wrong in (lambda: a.append([1, 2, 3]), lambda: a.resize((1,)), lambda: a.resize((-1, 2))):
        with pytest.raises(ValueError):
            wrong()
    for wrong in (lambda: a.append([1], axis=2), lambda: a.delete(7), lambda: a.insert(9, [1, 2])):
        with pytest.raises(IndexError):
            wrong()
    np.testing.assert_array_equal(a[...], np.ones((3, 2)))


@pytest.mark.parametrize("where", ["file", "directory", "memory"])
def test_edit_is_all_or_nothing(tmp_path, where):
    path = None if where == "memory" else tmp_path / "a.b2nd"
    a = b2kit.asarray(ramp, path, chunks=(20, 50), sparse=where == "directory")
    with pytest.raises(RuntimeError, match="stop"):
        with a.edit() as e:
            e[0] = 1
            e.append(ramp)
            e.attrs["units"] = "K"
            assert e.shape == (120, 100) and len(e) == 120 and e.attrs["units"] == "K"
            assert a.shape == (60, 100)
            raise RuntimeError("stop")
    np.testing.assert_array_equal(a[...], ramp)
    assert not a.attrs
    other = None if where == "memory" else b2kit.open(path)
    with a.edit(sync=False) as e:
        e[0] = 1
        e.append(ramp)
        e.attrs["units"] = "K"
        if other is not None:
            assert not other.refresh()
    assert a.shape == (120, 100) and (a[0] == 1).all() and dict(a.attrs) == {"units": "K"}
    if other is not None:
        assert other.shape == (60, 100)
        if where == "file":
            np.testing.assert_array_equal(other[...], ramp)
        else:
            # Chunk files that are no longer referenced are gone.
            with pytest.raises(errors.ChangedError):
                other[...]
        assert other.refresh() and other.shape == (120, 100) and not other.refresh()
    # An edit that fails inside keeps earlier changes.
    with a.edit() as e:
        e[1] = 2
        with pytest.raises(ValueError):
            e[2] = [1, 2]
    assert (a[1] == 2).all() and (a[2] == ramp[2]).all()
    with pytest.raises(ValueError, match="over"):
        e[0] = 1
    assert a.verify() == "ok"


def test_changing_what_is_being_changed():
    a = b2kit.zeros(10)
    with a.edit() as e:
        with pytest.raises(ValueError, match="already"):
            a[0] = 1
        e[0] = 2
    a[1] = 3
    np.testing.assert_array_equal(a[:3], [2, 3, 0])


def test_threads_take_turns(tmp_path):
    for a in (b2kit.zeros(8, "i8"), b2kit.zeros(8, "i8", tmp_path / "a.b2nd")):

        def add(n, a=a):
            for _ in range(5):
                with a.edit(sync=False) as e:
                    e[n] = e[n] + 1
                    e.append([n])

        threads = [threading.Thread(target=add, args=(n,)) for n in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert a.shape == (28,) and a[:8].tolist() == [5, 5, 5, 5, 0, 0, 0, 0]


def test_reading_only(tmp_path):
    path = tmp_path / "a.b2nd"
    b2kit.asarray(ramp, path)
    a = b2kit.open(path)
    for change in (
        lambda: a.__setitem__(0, 1),
        lambda: a.append(ramp),
        lambda: a.attrs.__setitem__("x", 1),
        lambda: a.resize((1, 1)),
    ):
        with pytest.raises(errors.ReadOnlyError):
            change()
    with pytest.raises(ValueError):
        b2kit.open(path.open("rb"), mode="a")
    writable = b2kit.open(path.read_bytes(), mode="a")
    writable[0] = 5
    assert (writable[0] == 5).all() and (a[0] == ramp[0]).all()


def test_attributes():
    a = b2kit.zeros(3)
    values = {
        "none": None,
        "truth": True,
        "number": -(2**63),
        "large": 2**64 - 1,
        "float": 0.5,
        "text": "µm",
        "bytes": b"\0\xff",
        "list": [1, [2, (3, "x")]],
        "tuple": (1, 2),
        "dict": {"a": {"b": [1.5]}, 3: None},
        "set": {1, 2, 3},
        "complex": 1 + 2j,
        "array": np.arange(6, dtype=">i2").reshape(2, 3),
        "structured": np.array([(1, (2.0, 3.0))], [("n", "i4"), ("v", "f8", (2,))]),
        "empty": np.zeros((0, 3)),
    }
    a.attrs.update(values)
    assert list(a.attrs) == list(values) and len(a.attrs) == len(values) and "text" in a.attrs and "x" not in a.attrs
    for name, value in values.items():
        got = a.attrs[name]
        assert type(got) is type(value)
        if isinstance(value, np.ndarray):
            assert got.dtype == value.dtype and got.shape == value.shape and (got == value).all()
        else:
            assert got == value
    a.attrs["text"] = np.float32(0.5)
    assert a.attrs["text"] == 0.5 and a.attrs.get("x", 7) == 7
    del a.attrs["text"]
    with pytest.raises(KeyError):
        a.attrs["text"]
    with pytest.raises(KeyError):
        del a.attrs["text"]
    with pytest.raises(TypeError):
        a.attrs["x"] = object()
    with pytest.raises(TypeError):
        a.attrs[3] = 1
    with pytest.raises(ValueError):
        a.attrs["x"] = 2**64
    deep = []
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(ValueError):
        a.attrs["x"] = deep
    a.attrs.clear()
    assert not a.attrs and repr(a.attrs) == "{}"


def test_verify(tmp_path):
    path = tmp_path / "a.b2nd"
    a = b2kit.asarray(np.random.default_rng(0).random((100, 100)), path, chunks=(30, 30))
    assert a.verify() == b2kit.verify(path) == b2kit.verify(path.read_bytes()) == "ok"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    with pytest.raises(errors.DamagedError, match="checksum"):
        b2kit.verify(bytes(raw))
    with pytest.raises(errors.NotBloscError):
        b2kit.verify(b"no frame")


def test_buffers():
    x = np.arange(10_000, dtype="i4")
    for given_ in (x, x.tobytes(), bytearray(x.tobytes()), memoryview(x), x[::-1]):
        for codec in ("zstd", "lz4", "blosclz", "lz4hc", "zlib"):
            packed = b2kit.compress(given_, codec, 9)
            assert isinstance(packed, bytes) and len(packed) <= x.nbytes + 32
            assert b2kit.decompress(packed) == np.ascontiguousarray(given_).tobytes()
    assert b2kit.compress(x) == b2kit.compress(x.tobytes(), typesize=4)
    assert len(b2kit.compress(x)) < x.nbytes / 10
    assert b2kit.decompress(b2kit.compress(b"")) == b""
    with pytest.raises(b2kit.Error):
        b2kit.decompress(b"nothing at all, but long enough for a header")
    with pytest.raises(TypeError):
        b2kit.compress(np.array([object()]))
    with pytest.raises(TypeError):
        b2kit.compress("text")


def test_threads_setting():
    before = b2kit.set_threads(2)
    try:
        a = b2kit.asarray(ramp, threads=1)
        assert a.threads == 1
        np.testing.assert_array_equal(a.read(threads=3), ramp)
        assert b2kit.set_threads(None) == 2
        assert b2kit.set_threads(4) is None
        with pytest.raises(ValueError):
            b2kit.set_threads(0)
    finally:
        b2kit.set_threads(before)


def test_progress(capsys, tmp_path):
    x = np.random.default_rng(0).integers(0, 1000, (2000, 2000))
    reported = []
    a = b2kit.asarray(x, tmp_path / "a.b2nd", progress=lambda done, total: reported.append((done, total)))
    assert reported and reported[-1] == (x.nbytes, x.nbytes) and reported == sorted(reported)
    a.read(progress=True)
    assert "read" in capsys.readouterr().err

    def stop(done, total):
        raise RuntimeError("enough")

    for call in (
        lambda: b2kit.asarray(x, tmp_path / "b.b2nd", progress=stop),
        lambda: a.read(progress=stop),
        lambda: a.append(x, progress=stop),
        lambda: a.verify(progress=stop),
        lambda: b2kit.copy(a, tmp_path / "c.b2nd", level=9, progress=stop),
    ):
        with pytest.raises(RuntimeError, match="enough"):
            call()
    assert sorted(os.listdir(tmp_path)) in (["a.b2nd"], ["a.b2nd", "a.b2nd.b2lock"])
    assert b2kit.open(tmp_path / "a.b2nd").shape == (2000, 2000)


def test_showing(tmp_path):
    a = b2kit.asarray(ramp, tmp_path / "<a>.b2nd", attrs={"units": "K"})
    text = repr(a)
    assert "\n" not in text and "(60, 100)" in text and "float32" in text and "zstd" in text
    assert len(repr(a.info).splitlines()) == 12 and "units" in repr(a.info) and a.info["shape"] == (60, 100)
    html = a._repr_html_()
    assert "<svg" in html and "&lt;a&gt;" in html and "<a>" not in html
    for shape in ((), (0, 3), (5,), (2, 3, 4, 5), (10**5, 10**5)):
        assert "<table" in b2kit.zeros(shape, "u1", chunks=[min(n, 100) for n in shape] or None)._repr_html_()


def test_context(tmp_path):
    with b2kit.asarray(ramp, tmp_path / "a.b2nd") as a:
        assert a.shape == (60, 100)
    with b2kit.open(tmp_path / "a.b2nd") as a:
        np.testing.assert_array_equal(a[1], ramp[1])


def test_errors(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        b2kit.open(tmp_path / "nothing.b2nd")
    assert caught.value.errno == 2 and "nothing.b2nd" in str(caught.value) and isinstance(caught.value, b2kit.Error)
    (tmp_path / "text.b2nd").write_text("text")
    with pytest.raises(ValueError) as caught:
        b2kit.open(tmp_path / "text.b2nd")
    assert isinstance(caught.value, b2kit.Error)
    with pytest.raises(errors.UnsupportedError, match="nosuchscheme"):
        b2kit.open("nosuchscheme://host/a.b2nd")
    with pytest.raises(IndexError, match="out of range"):
        b2kit.asarray(ramp)[100]
    with pytest.raises(OSError):
        b2kit.asarray(ramp, tmp_path / "text.b2nd" / "a.b2nd")
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), UserWarning if name == "ChangedWarning" else b2kit.Error)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes to wait for")
def test_waiting_for_a_lock_can_be_stopped(tmp_path):
    import signal

    path = tmp_path / "a.b2nd"
    a = b2kit.asarray(ramp, path)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with b2kit.open(path, mode="a").edit(sync=False) as e:
            e[0] = 7
            os.write(ready[1], b"x")
            os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        a[1] = 8
    # It does not wait forever. The exact time is measured elsewhere.
    assert time.monotonic() - start < 30
    os.write(go[1], b"x")
    assert os.waitpid(child, 0)[1] == 0
    a[1] = 9
    assert a.refresh() is False and (a[0] == 7).all() and (a[1] == 9).all()


@pytest.mark.parametrize("shape", [(0,), (0, 10), (3, 0), (0, 0, 5)])
def test_arrays_that_begin_empty_can_grow(tmp_path, shape):
    """The chunks suit the sizes that the array may grow to; python-blosc2 can extend it too."""
    path = tmp_path / "a.b2nd"
    a = b2kit.zeros(shape, "f4", path)
    assert a.shape == shape and all(a.chunks)
    grown = tuple(n + 7 for n in shape)
    a.resize(grown)
    a[...] = 3
    assert (b2kit.open(path)[...] == np.full(grown, 3, "f4")).all()
    assert all(b2kit.asarray(np.zeros(shape, "i2")).chunks)
    joined = b2kit.concat([b2kit.zeros((0, 4), chunks=None), np.ones((5, 4))])
    assert joined.shape == (5, 4)


def test_none_is_a_new_axis_with_out_too():
    x = np.arange(6).reshape(2, 3)
    a = b2kit.asarray(x)
    out = np.empty((1, 2, 3), x.dtype)
    assert (a.read(None, out=out) == x[None]).all() and a.read(None).shape == (1, 2, 3)


def test_names_that_are_not_there_and_files_that_are_no_arrays(tmp_path):
    a = b2kit.asarray(np.zeros(3), attrs={"a": 1})
    g = b2kit.open(tmp_path / "s.b2d", mode="a")
    for miss in (lambda: a.attrs["b"], lambda: a.attrs.pop("b"), lambda: g["b"], lambda: g.attrs["b"], lambda: g["a/b"]):
        with pytest.raises(KeyError) as caught:
            miss()
        assert isinstance(caught.value, b2kit.Error)
    (tmp_path / "bad.b2nd").write_bytes(b"hello")
    with pytest.raises(ValueError, match="bad.b2nd") as caught:
        b2kit.open(tmp_path / "bad.b2nd")
    assert isinstance(caught.value, b2kit.Error)
    assert str(caught.value).startswith(f"cannot read {tmp_path / 'bad.b2nd'}: not a Blosc2 frame")
    assert str(caught.value).count("bad.b2nd") == 1


def test_everything_that_goes_wrong_is_an_error_of_the_package(tmp_path):
    """It is also of the built-in type that Python users would catch."""
    a = b2kit.zeros((3, 4), "i4")
    s = b2kit.zeros(3, [("f", "i4")])
    out_of_range = 2**70

    def edit(change):
        with a.edit() as e:
            change(e)

    calls = [
        (ValueError, lambda: a.__setitem__(0, "abc")),
        (OverflowError, lambda: a.__setitem__(0, out_of_range)),
        (ValueError, lambda: a.__setitem__(0, [1, 2])),
        (TypeError, lambda: a.__setitem__(0, object())),
        (TypeError, lambda: a.__setitem__(0, None)),
        (ValueError, lambda: a.append("abc")),
        (ValueError, lambda: edit(lambda e: e.append([["x"] * 4]))),
        (TypeError, lambda: a.insert("1", [1, 2, 3, 4])),
        (TypeError, lambda: a.resize("x")),
        (IndexError, lambda: a[5]),
        (IndexError, lambda: a[1.5]),
        (IndexError, lambda: a["x"]),
        (ValueError, lambda: s["nothing"]),
        (TypeError, lambda: a.read(out=np.zeros((3, 4), "?"))),
        (ValueError, lambda: a.read(out=bytearray(3))),
        (TypeError, lambda: b2kit.zeros(3, "nonsense")),
        (TypeError, lambda: b2kit.zeros("x")),
        (TypeError, lambda: b2kit.zeros(3, object)),
        (ValueError, lambda: b2kit.zeros(-1)),
        (TypeError, lambda: b2kit.full(3, object())),
        (ValueError, lambda: b2kit.full(3, "x", "i4")),
        (ValueError, lambda: b2kit.asarray(["x"], dtype="i4")),
        (ValueError, lambda: b2kit.asarray([[1], [1, 2]])),
        (TypeError, lambda: b2kit.asarray([object()])),
        (ValueError, lambda: b2kit.from_iter(["x"], "i4")),
        (ValueError, lambda: b2kit.zeros(3, codec="none such")),
        (ValueError, lambda: b2kit.zeros(3, filters=["none such"])),
        (TypeError, lambda: b2kit.zeros(3, filters=[5])),
        (TypeError, lambda: b2kit.zeros(3, filters="shuffle")),
        (TypeError, lambda: b2kit.zeros(3, filters=[("shuffle", 1000)])),
        (ValueError, lambda: b2kit.zeros(3, level=1000)),
        (TypeError, lambda: b2kit.zeros(3, level="x")),
        (TypeError, lambda: b2kit.zeros(3, nonsense=1)),
        (TypeError, lambda: b2kit.zeros(3, attrs={"a": object()})),
        (ValueError, lambda: b2kit.zeros(3, attrs={"a": out_of_range})),
        (ValueError, lambda: b2kit.zeros(3, attrs={"a": "\ud800"})),
        (TypeError, lambda: b2kit.zeros(3, attrs={1: 2})),
        (TypeError, lambda: a.attrs.__setitem__(1, 2)),
        (TypeError, lambda: a.attrs.__setitem__("x", {1: object()})),
        (ValueError, lambda: b2kit.compress(b"abc", codec="none such")),
        (TypeError, lambda: b2kit.compress(5)),
        (ValueError, lambda: b2kit.decompress(b"abc")),
        (TypeError, lambda: b2kit.decompress(5)),
        (TypeError, lambda: b2kit.open(5)),
        (OSError, lambda: b2kit.open(tmp_path / "x\0.b2nd")),
        (OSError, lambda: b2kit.open("ftp://127.0.0.1:1/a.b2nd")),
        (ValueError, lambda: b2kit.open("nosuch://host/a.b2nd")),
        (OSError, lambda: b2kit.open(tmp_path / "nothing.b2nd")),
        (TypeError, lambda: b2kit.set_threads("x")),
    ]
    wrong = []
    for n, (kind, call) in enumerate(calls):
        try:
            call()
            wrong.append((n, "nothing raised"))
        except b2kit.Error as error:
            if not isinstance(error, (kind, b2kit.errors.UnsupportedError)):
                wrong.append((n, repr(error)))
        except BaseException as error:
            wrong.append((n, repr(error)))
    assert not wrong, "\n".join(map(str, wrong))
    assert (a[...] == 0).all() and a.shape == (3, 4)

    class Mine(ValueError):
        pass

    def reported(done, total):
        raise Mine("stop")

    with pytest.raises(Mine):
        b2kit.asarray(np.zeros(1 << 20), progress=reported)


def test_lock_false_changes_what_cannot_be_locked(tmp_path):
    path = str(tmp_path / "a.b2nd")
    b2kit.asarray(np.arange(10), path)
    store = b2kit.open_group(tmp_path / "store.b2d", mode="a")
    store.create("x", np.arange(10))
    member = store.array("x").path
    for file in (path, member):
        if os.path.exists(file + ".b2lock"):
            os.remove(file + ".b2lock")
        # As on a file system without locks: the lock cannot be taken.
        os.mkdir(file + ".b2lock")
    with pytest.raises(b2kit.errors.IoError, match="lock=False"):
        b2kit.open(path, mode="a")[3] = 7
    with pytest.raises(b2kit.errors.IoError, match="lock=False"):
        store.array("x")[3] = 7
    a = b2kit.open(path, mode="a", lock=False)
    a[3] = 7
    pickle.loads(pickle.dumps(a)).append([10])
    b2kit.open_array(path, mode="a", lock=False)[0] = 5
    b2kit.open_group(tmp_path / "store.b2d", mode="a", lock=False)["x"][3] = 7
    assert b2kit.open(path)[:].tolist() == [5, 1, 2, 7, 4, 5, 6, 7, 8, 9, 10]
    assert b2kit.open(member)[3] == 7
