"""Typical first steps of users: attributes of any number, closing, copies from other packages, stores with
other members, compacting, and mistakes that must be errors."""

from __future__ import annotations

import os
import pickle
import sys
import threading

import b2kit
import numpy as np
import pytest
from b2kit import errors

x = np.arange(10_000.0).reshape(100, 100)
many = {f"name {n} {'long' * (n % 3) * 4}": n for n in range(40)}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# Attributes.


@pytest.mark.parametrize("path", [None, "a.b2nd"])
def test_attributes_of_any_number_and_length(tmp_path, path):
    a = b2kit.asarray(x, path and tmp_path / path, attrs=many)
    assert a.attrs.asdict() == many and b2kit.copy(a).attrs == many
    layers = a._attr_names()
    assert len(layers) == 16 and all(len(name.encode()) <= 31 for name in layers)
    a.attrs["π" * 20] = np.arange(3)
    a.attrs["attrs"] = {"mine": 1}
    a.attrs.update({"name 0 ": "changed", "name 1 longlonglonglong": "too"})
    assert len(a.attrs) == 42 and a.attrs["attrs"] == {"mine": 1} and list(a.attrs["π" * 20]) == [0, 1, 2]
    assert a.attrs["name 0 "] == "changed" and a.attrs["name 1 longlonglonglong"] == "too"
    del a.attrs["π" * 20]
    with pytest.raises(KeyError):
        del a.attrs["π" * 20]
    assert a.attrs.get("π" * 20) is None and "attrs" in a.attrs._ipython_key_completions_()
    a.attrs.clear()
    assert len(a.attrs) == 0 and a._attr_names() == []


def test_attributes_one_by_one_and_in_edits_and_groups(tmp_path):
    a = b2kit.asarray(x[:2])
    g = b2kit.open_group(tmp_path / "s.b2d", mode="a")
    with a.edit() as e:
        for n, (name, value) in enumerate(many.items()):
            e.attrs[name] = value
            g.attrs[name] = value
            assert len(e.attrs) == len(g.attrs) == n + 1
    assert a.attrs == many and g.attrs == many and b2kit.open_group(tmp_path / "s.b2d").attrs.asdict() == many
    for n, name in enumerate(many):
        del a.attrs[name], g.attrs[name]
        assert len(a.attrs) == len(g.attrs) == 39 - n


def test_other_programs_read_many_attributes(tmp_path):
    blosc2 = pytest.importorskip("blosc2", reason="blosc2 is not installed")
    b2kit.asarray(x, tmp_path / "a.b2nd", attrs=many)
    reported = blosc2.open(str(tmp_path / "a.b2nd"), mode="r")
    own = {name: reported.schunk.vlmeta[name] for name in reported.schunk.vlmeta}
    more = own.pop("attrs")
    assert {**own, **more} == many
    # A value of other programs under that name that is not a map is an ordinary attribute.
    a = blosc2.asarray(x, urlpath=str(tmp_path / "b.b2nd"), mode="w")
    a.schunk.vlmeta["attrs"] = 5
    b = b2kit.open(tmp_path / "b.b2nd", mode="a")
    assert b.attrs == {"attrs": 5}
    b.attrs.update(many)
    assert b.attrs == {"attrs": 5, **many}


# Closing.


@pytest.mark.skipif(sys.platform != "linux", reason="lists open files")
def test_close_closes(tmp_path):
    b2kit.asarray(x, tmp_path / "a.b2nd")
    with b2kit.open_group(tmp_path / "s.b2d", mode="a") as g:
        g["deep/a"] = x
    before = descriptors()
    with b2kit.open(tmp_path / "a.b2nd") as a:
        assert descriptors() > before and not a.closed
    assert descriptors() == before and a.closed and "closed" in repr(a)
    for use in (lambda: a[0], lambda: a.shape, lambda: a.attrs["units"], a.refresh, a.verify, lambda: b2kit.copy(a)):
        with pytest.raises(ValueError, match="closed"):
            use()
    a.close()
    assert pickle.loads(pickle.dumps(a)).shape == x.shape
    # A store closes the objects that were opened through it.
    with b2kit.open_group(tmp_path / "s.b2d") as g:
        member, below = g.array("deep/a"), g.group("deep")
        assert descriptors() > before
    assert descriptors() == before and member.closed and below.closed and "closed" in repr(g) + repr(below)
    with pytest.raises(ValueError, match="closed"):
        list(below)


def test_close_while_another_thread_reads(tmp_path):
    b2kit.asarray(np.random.default_rng(0).random((400, 1000)), tmp_path / "a.b2nd")
    for _ in range(10):
        a = b2kit.open(tmp_path / "a.b2nd")
        found = []

        def read(a=a, found=found):
            try:
                while True:
                    found.append(a[:].shape)
            except ValueError as error:
                found.append(str(error))

        thread = threading.Thread(target=read)
        thread.start()
        a.close()
        thread.join()
        assert found[-1] == "the array is closed" and set(found[:-1]) <= {(400, 1000)}


@pytest.mark.skipif(sys.platform != "linux", reason="limits open files")
def test_many_stores_are_open_lazily(tmp_path):
    xr = pytest.importorskip("xarray", reason="xarray is not installed")
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    g = b2kit.open_group(tmp_path / "0.b2d", mode="a")
    g.create("a", np.arange(3), attrs={"_ARRAY_DIMENSIONS": ["x"]})
    import shutil

    for n in range(1, 300):
        shutil.copytree(tmp_path / "0.b2d", tmp_path / f"{n}.b2d")
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, before[1]))
    try:
        sets = [xr.open_dataset(tmp_path / f"{n}.b2d", engine="b2kit") for n in range(300)]
        assert sum(int(ds.a.sum()) for ds in sets) == 900
        for ds in sets:
            ds.close()
        assert descriptors() < 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_lazy_variable_that_changed_its_shape_is_an_error(tmp_path):
    xr = pytest.importorskip("xarray", reason="xarray is not installed")
    g = b2kit.open_group(tmp_path / "s.b2d", mode="a")
    g["a"] = x
    with xr.open_dataset(tmp_path / "s.b2d", engine="b2kit") as ds:
        g.array("a").append(x)
        with pytest.raises(errors.ChangedError):
            ds.a.load()


# Copies.


def test_copy_chooses_blocks_that_fit():
    a = b2kit.asarray(x, chunks=(100, 100), blocks=(50, 100), attrs={"units": "K"})
    for b in b2kit.copy(a, chunks=(10, 20)), b2kit.concat([a, a], chunks=(10, 20)), b2kit.copy(a, chunks=(10, 20), dtype="f4"):
        assert b.chunks == (10, 20) and all(n <= m for n, m in zip(b.blocks, b.chunks))
        np.testing.assert_array_equal(b[:100], x)
    assert b2kit.copy(a).blocks == (50, 100)
    for make in (b2kit.asarray, b2kit.copy):
        for source in (x, a):
            with pytest.raises(ValueError, match="larger than chunks"):
                make(source, chunks=(10, 20), blocks=(11, 20))
    with pytest.raises(ValueError, match="larger than chunks"):
        b2kit.zeros((10, 10), chunks=(5, 5), blocks=(5, 6))


def test_copies_of_h5py_keep_attributes_and_chunks(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        scale = file.create_dataset("time", data=np.arange(100))
        scale.make_scale("time")
        d = file.create_dataset("d", data=x, chunks=(10, 20))
        d.dims[0].attach_scale(scale)
        d.attrs.update({"units": "K", "range": np.array([1.0, 2.0]), "names": ["a", "bc"], "n": np.int16(3)})
        d.attrs["nothing"] = h5py.Empty("f4")
        g = b2kit.open_group(tmp_path / "s.b2d", mode="a")
        g["d"] = d
        for a in b2kit.copy(d, tmp_path / "d.b2nd"), g.array("d"):
            assert a.chunks == (10, 20) and (a[:] == x).all()
            reported = a.attrs.asdict()
            assert list(reported.pop("range")) == [1.0, 2.0]
            assert reported == {"units": "K", "names": ["a", "bc"], "n": 3, "nothing": None}
        assert b2kit.copy(d, chunks=(50, 50), attrs={"units": "C"}).attrs["units"] == "C"


def test_copies_of_zarr_keep_attributes_and_chunks():
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    z = zarr.create_array({}, shape=x.shape, dtype=x.dtype, chunks=(10, 20), attributes={"units": "K", "l": [1, {"a": 2}]})
    z[:] = x
    a = b2kit.copy(z)
    assert a.chunks == (10, 20) and (a[:] == x).all() and a.attrs == {"units": "K", "l": [1, {"a": 2}]}
    z = zarr.create_array({}, shape=x.shape, dtype=x.dtype, chunks=(10, 20), shards=(50, 100))
    z[:] = x
    a = b2kit.copy(z)
    assert (a.chunks, a.blocks) == ((50, 100), (10, 20)) and (a[:] == x).all()


def test_copies_of_blosc2_keep_everything():
    blosc2 = pytest.importorskip("blosc2", reason="blosc2 is not installed")
    cparams = blosc2.CParams(codec=blosc2.Codec.LZ4, clevel=3, filters=[blosc2.Filter.BITSHUFFLE])
    b = blosc2.asarray(x, chunks=(50, 40), blocks=(10, 20), cparams=cparams)
    b.schunk.vlmeta["units"] = "K"
    a = b2kit.copy(b)
    assert (a.chunks, a.blocks, a.codec, a.level, a.filters) == ((50, 40), (10, 20), "lz4", 3, ["bitshuffle"])
    assert a.attrs == {"units": "K"} and (a[:] == x).all()


# Members that are not arrays.


def test_members_that_are_no_arrays(tmp_path):
    blosc2 = pytest.importorskip("blosc2", reason="blosc2 is not installed")
    from dataclasses import dataclass

    @dataclass
    class Row:
        n: int = blosc2.field(blosc2.int64())

    path = tmp_path / "s.b2d"
    objects = blosc2.ObjectArray()
    objects.append({"a": 1})
    with blosc2.TreeStore(str(path), mode="w") as tree:
        tree["/x"] = x
        tree["/bytes"] = blosc2.SChunk(chunksize=1000, data=b"abc" * 1000)
        tree["/objects"] = objects
        tree["/table"] = blosc2.CTable(Row, new_data=[(1,), (2,)])
    g = b2kit.open_group(path)
    found = dict(g.walk())
    assert "x" in found and all(isinstance(array, b2kit.Array) for array in found.values())
    assert g.verify() in ("none", "changed") and b2kit.verify(path) == g.verify()
    kinds = {name: getattr(member, "kind", "Array") for name, member in g.items()}
    assert kinds == {"x": "Array", "bytes": "SChunk", "objects": "ObjectArray", "table": "CTable"}
    for kind in ("SChunk", "ObjectArray", "CTable"):
        assert kind in repr(g) and kind in g._repr_html_()
    data = g["bytes"]
    assert isinstance(data, b2kit.SuperChunk) and data.read(1, 4) == b"bca" and len(data.read()) == 3000
    assert data.nbytes == 3000 and data.attrs == {} and data.verify() == "none"
    for key in ("bytes", "table"):
        with pytest.raises(TypeError, match=f"{key} is a .*, not an array"):
            g.array(key)
    with pytest.raises(TypeError, match="x is an array"):
        g.group("x")
    try:
        import xarray as xr
    except ImportError:
        return
    with pytest.warns(UserWarning, match="left out"), xr.open_dataset(path, engine="b2kit") as ds:
        assert list(ds) == ["x"] and (ds.x == x).all()
    with pytest.warns(UserWarning, match="left out"), xr.open_datatree(path, engine="b2kit") as tree:
        assert tree.groups == ("/",)


# Compacting, refreshing, frozen servers.


@pytest.mark.parametrize("sparse", [False, True])
def test_compact(tmp_path, sparse):
    noise = np.random.default_rng(0).random((100, 1000))
    a = b2kit.asarray(noise, tmp_path / "a.b2nd", sparse=sparse, chunks=(10, 1000))
    for _ in range(3):
        a[:90] = noise[10:]
    size = a._stored_bytes()
    saved = a.compact()
    assert saved > 2 * 90 * 1000 * 6 or sparse
    assert a._stored_bytes() == size - saved and (a[:90] == noise[10:]).all() and a.verify() == "ok"
    with pytest.raises(errors.ReadOnlyError):
        b2kit.open(tmp_path / "a.b2nd").compact()


class Frozen:
    """A web server that responds to the first requests, and then accepts connections without responding."""

    def __init__(self, path, answers):
        import http.server

        frozen = self
        self.path, self.left, self.stop = path, answers, threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                data = frozen.path.read_bytes()
                start, _, end = self.headers["Range"].removeprefix("bytes=").partition("-")
                first = int(start) if start else max(0, len(data) - int(end))
                last = min(int(end) + 1, len(data)) if start else len(data)
                frozen.left -= 1
                if frozen.left < 0 and frozen.left % 2:
                    frozen.stop.wait(30)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{last - 1}/{len(data)}")
                self.send_header("Content-Length", str(last - first))
                self.send_header("ETag", f'"{hash(data)}"')
                self.end_headers()
                if frozen.left < 0:
                    # Frozen in the middle of the response.
                    self.wfile.write(data[first : first + 1])
                    frozen.stop.wait(30)
                    return
                self.wfile.write(data[first:last])

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/a.b2nd"

    def close(self):
        self.stop.set()
        self.server.shutdown()
        self.server.server_close()


def test_refresh_of_a_url_asks_the_server(tmp_path):
    path = tmp_path / "a.b2nd"
    b2kit.asarray(x, path)
    server = Frozen(path, 1_000_000)
    try:
        a = b2kit.open(server.url)
        assert (a[0] == x[0]).all() and a.refresh() is False
        b2kit.asarray(x[:50] + 1, path, overwrite=True)
        assert a.refresh() is True and a.shape == (50, 100) and (a[:] == x[:50] + 1).all()
        assert a.refresh() is False and pickle.loads(pickle.dumps(a)).shape == (50, 100)
    finally:
        server.close()


def test_refresh_of_a_source_asks_the_store():
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/refresh.b2nd", bytes(b2kit.asarray(x)._frame()))
    a = b2kit.open("memory://refresh.b2nd")
    fs.pipe_file("/refresh.b2nd", bytes(b2kit.asarray(x[:5] + 1)._frame()))
    assert a.refresh() is True and (a[:] == x[:5] + 1).all()


@pytest.mark.parametrize("answers", [0, 1, 2])
def test_a_frozen_server_ends_after_the_timeout(tmp_path, answers):
    path = tmp_path / "a.b2nd"
    b2kit.asarray(np.random.default_rng(0).random((300, 1000)), path)
    server = Frozen(path, answers)
    before = b2kit.set_timeout(1)
    try:
        with pytest.raises(OSError, match="timed out"):
            b2kit.open(server.url)[:]
    finally:
        assert b2kit.set_timeout(before) == 1
        server.close()
    with pytest.raises(ValueError):
        b2kit.set_timeout(0)


# Help, completion and representations.


def test_open_array_and_open_group(tmp_path):
    b2kit.open_group(tmp_path / "s.b2d", mode="a")["deep/a"] = x
    b2kit.asarray(x, tmp_path / "a.b2nd")
    assert b2kit.open_array(tmp_path / "a.b2nd").shape == x.shape and list(b2kit.open_group(tmp_path / "s.b2d")) == ["deep"]
    with pytest.raises(ValueError, match="is a store"):
        b2kit.open_array(tmp_path / "s.b2d")
    with pytest.raises(ValueError, match="is an array"):
        b2kit.open_group(tmp_path / "a.b2nd")
    g = b2kit.open_group(tmp_path / "s.b2d")
    assert g._ipython_key_completions_() == ["deep", "deep/a"] and [name for name, _ in g.groups()] == ["deep"]
    html = g._repr_html_()
    assert "deep/a" in html and "(100, 100)" in html and "float64" in html
    g = b2kit.open_group(tmp_path / "s.b2d", mode="a")
    g["<b>"] = x
    assert "<b>" not in g._repr_html_().replace("<div><b>", "")
    fields = b2kit.zeros(3, [("a", "i4"), ("b", "f8")])
    assert fields._ipython_key_completions_() == ["a", "b"]


@pytest.mark.parametrize("class_", [b2kit.Array, b2kit.Group, b2kit.SuperChunk, b2kit.Edit])
def test_properties_have_docstrings(class_):
    for name in dir(class_):
        if not name.startswith("_") and not callable(getattr(class_, name)):
            assert (getattr(class_, name).__doc__ or "").strip().endswith("."), name


def test_progress_takes_tqdm():
    tqdm = pytest.importorskip("tqdm", reason="tqdm is not installed").tqdm
    made = []

    class Quiet(tqdm):
        def __init__(self, *args, **options):
            made.append(self)
            super().__init__(*args, **options, file=open(os.devnull, "w"))

    a = b2kit.asarray(x, progress=Quiet)
    assert len(made) == 1 and made[0].n == made[0].total == x.nbytes
    with Quiet() as bar:
        a.read(progress=bar)
        assert bar.n == bar.total == x.nbytes
    reported = []
    a.read(progress=lambda done, total: reported.append((done, total)))
    assert reported[-1] == (x.nbytes, x.nbytes)


def test_nonsense_is_an_error():
    a = b2kit.asarray(x.copy())
    for compare in (lambda: a == 5, lambda: a != 5, lambda: a == a, lambda: 5 == a):
        with pytest.raises(TypeError, match=r"a\[\.\.\.\] == 5"):
            compare()
    assert a in [a] and {a: 1}[a] == 1
    for n, marks in enumerate((x > 3, x[:, 0] > 3, x[:, 0] > 9e9)):
        mask = np.ma.array(marks, mask=marks.copy())
        for use in (lambda: a[mask], lambda: a.read(mask), lambda: a.oindex[(mask,)], lambda: a.__setitem__(mask, 0)):
            with pytest.raises(IndexError, match="masked"):
                use()
                pytest.fail(str(n))
    with pytest.raises(IndexError, match="masked"):
        a[np.ma.array([1, 2], mask=[False, True])]
    with pytest.raises(IndexError, match="masked"):
        a.delete(np.ma.array([1, 2], mask=[False, True]))
    for use in (lambda: a.__setitem__(0, np.ma.array(x[0], mask=x[0] > 3)), lambda: a.append(np.ma.array(x[:1]))):
        with pytest.raises(TypeError, match="mask"):
            use()
    np.testing.assert_array_equal(a[:], x)
