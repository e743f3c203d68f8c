"""Arrays at URLs, fsspec and obstore."""

import http.server
import importlib
import os
import pickle
import re
import signal
import threading
import time
import traceback
import warnings
import zipfile
import zlib

import numpy as np
import pytest

import b2kit
import b2kit.hdf5

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")


class Handler(http.server.BaseHTTPRequestHandler):
    """A slow server for ranges of files."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        server = self.server
        with server.turn:
            server.open += 1
            server.most = max(server.most, server.open)
        try:
            time.sleep(server.latency)
            path = os.path.join(server.folder, self.path.split("?")[0].lstrip("/"))
            if not os.path.isfile(path):
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            with open(path, "rb") as file:
                data = file.read()
            tag = f'"{zlib.crc32(data)}"'
            asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
            if asked:
                if asked[1]:
                    start, end = int(asked[1]), min(int(asked[2]) + 1, len(data))
                else:
                    start, end = max(0, len(data) - int(asked[2])), len(data)
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
                data = data[start:end]
            else:
                self.send_response(200)
                self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("ETag", tag)
            self.end_headers()
            if body:
                server.log.append((self.path, len(data)))
                self.wfile.write(data)
        finally:
            with server.turn:
                server.open -= 1

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """Ignores clients that disconnect."""


@pytest.fixture
def server(tmp_path):
    made = Server(("127.0.0.1", 0), Handler)
    made.folder, made.latency, made.log, made.open, made.most = tmp_path, 0.0, [], 0, 0
    made.turn = threading.Lock()
    made.url = f"http://127.0.0.1:{made.server_address[1]}"
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def items(tmp_path):
    x = np.random.default_rng(4).normal(size=(120, 90, 40)).astype("f4")
    b2kit.asarray(x, tmp_path / "a.b2nd", chunks=(40, 90, 40), blocks=(8, 10, 40), attrs={"units": "K"})
    return x


KEYS = [(5, 6, 7), (slice(3, 9), slice(80, 20, -7), 3), ([1, 100, 50], slice(None), [0, 3, 3]), ...]


def check(a, x):
    assert a.attrs["units"] == "K"
    for key in KEYS:
        np.testing.assert_array_equal(a[key], x[key])
    mask = x > 0.5
    np.testing.assert_array_equal(a[mask], x[mask])
    np.testing.assert_array_equal(a.oindex[[3, 1], :, [2]], x[np.ix_([3, 1], range(90), [2])])
    out = np.empty((90, 120), "f4").T
    assert a.read((slice(None), slice(None), 5), out=out) is out
    np.testing.assert_array_equal(out, x[:, :, 5])
    assert a.verify() == "ok"


@pytest.mark.parametrize("block", [0, 4096])
@pytest.mark.parametrize("options", [None, {}])
def test_hdf5_at_urls_is_recognised_by_content(server, tmp_path, block, options):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "any.mat", "w", userblock_size=block) as file:
        file["x"] = np.arange(5)
    url = f"{server.url}/any.mat"
    if options is not None:
        pytest.importorskip("aiohttp")
    with pytest.raises(ValueError, match="HDF5 or NetCDF file: key names a data set"):
        b2kit.open(url, storage_options=options)
    np.testing.assert_array_equal(b2kit.open(url, key="x", storage_options=options)[...], np.arange(5))
    xr = pytest.importorskip("xarray")
    with xr.open_dataset(url, engine="b2kit", backend_kwargs={"storage_options": options}) as ds:
        np.testing.assert_array_equal(ds["x"], np.arange(5))
    assert b2kit.hdf5.is_hdf5(url)


@pytest.mark.parametrize("suffix", ["b2z", "b2e"])
@pytest.mark.parametrize("name", ["s.{}", "any.dat", "any", "s.{}?download=1"])
@pytest.mark.parametrize("options", [None, {}])
def test_stores_at_urls_are_recognised_by_content(server, tmp_path, suffix, name, options):
    if options is not None:
        pytest.importorskip("aiohttp")
    store = tmp_path / f"made.{suffix}"
    if suffix == "b2z":
        b2kit.open(tmp_path / "made.b2d", mode="a")["a"] = np.arange(5)
        with zipfile.ZipFile(store, "w") as archive:
            archive.write(tmp_path / "made.b2d" / "a.b2nd", "a.b2nd")
    else:
        made = pytest.importorskip("blosc2").EmbedStore(str(store), mode="w")
        made["/a"] = np.arange(5)
    name = name.format(suffix)
    store.rename(tmp_path / name.split("?")[0])
    with pytest.raises(ValueError, match=rf"/{name.split('?')[0]}.*: a store: download it"):
        b2kit.open(f"{server.url}/{name}", storage_options=options)


def test_damaged_stores_and_other_archives_at_urls(server, tmp_path):
    (tmp_path / "s.b2z").write_bytes(b"PK\x03\x04" + bytes(500))
    with pytest.raises(ValueError, match="a store: download it"):
        b2kit.open(f"{server.url}/s.b2z")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("text.txt", "hello")
    with pytest.raises(ValueError, match="other.zip: not a Blosc2 frame"):
        b2kit.open(f"{server.url}/other.zip")


def test_urls(server, items, tmp_path):
    a = b2kit.open(f"{server.url}/a.b2nd")
    check(a, items)
    assert a.path == f"{server.url}/a.b2nd"
    again = pickle.loads(pickle.dumps(a))
    np.testing.assert_array_equal(again[3], items[3])
    assert a.__dask_tokenize__() == again.__dask_tokenize__()
    with pytest.raises(ValueError, match="changed"):
        b2kit.open(f"{server.url}/a.b2nd", mode="a")
    with pytest.raises(FileNotFoundError):
        b2kit.open(f"{server.url}/none.b2nd")
    (tmp_path / "bad.b2nd").write_bytes(b"hello" * 100)
    with pytest.raises(ValueError, match="bad.b2nd: not a Blosc2 frame"):
        b2kit.open(f"{server.url}/bad.b2nd")
    with pytest.raises(ValueError, match="listing"):
        b2kit.open(f"{server.url}/store.b2d")
    with pytest.raises(ValueError, match="nosuchscheme"):
        b2kit.open("nosuchscheme://a/b.b2nd")


def test_a_read_takes_few_rounds(server, items):
    a = b2kit.open(f"{server.url}/a.b2nd")
    assert len(server.log) == 2 and sum(nbytes for _, nbytes in server.log) < 100_000
    server.log.clear()
    server.latency, server.most = 0.2, 0
    began = time.monotonic()
    # Rows that touch all chunks.
    np.testing.assert_array_equal(a[::40, 5], items[::40, 5])
    assert time.monotonic() - began < 10
    assert 2 <= len(server.log) <= 6
    assert server.most >= 2
    assert sum(nbytes for _, nbytes in server.log) < a.cbytes


def test_sparse_frames_behind_urls(server, items, tmp_path):
    b2kit.copy(b2kit.open(tmp_path / "a.b2nd"), tmp_path / "s.b2nd", sparse=True)
    a = b2kit.open(f"{server.url}/s.b2nd")
    check(a, items)
    assert a.__dask_tokenize__() == pickle.loads(pickle.dumps(a)).__dask_tokenize__()


def test_passwords_and_signatures_of_urls_stay_hidden(server, items):
    url = server.url.replace("://", "://me:secret@") + "/a.b2nd"
    a = b2kit.open(url)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a))[3], items[3])
    assert "secret" not in f"{a!r} {a.path} {a.__dask_tokenize__()}"
    with pytest.raises(FileNotFoundError) as caught:
        b2kit.open(url.replace("a.b2nd", "none.b2nd?Signature=secret"))
    assert "secret" not in str(caught.value)


def test_files_that_change_on_the_server(server, items, tmp_path):
    """Bytes of two states are never mixed, and reopening shows the new state."""
    a = b2kit.open(f"{server.url}/a.b2nd")
    np.testing.assert_array_equal(a[3], items[3])
    b2kit.asarray(items + 1, tmp_path / "a.b2nd", chunks=(40, 90, 40), blocks=(8, 10, 40), overwrite=True)
    with pytest.raises(OSError, match="changed") as caught:
        a[100]
    assert isinstance(caught.value, b2kit.Error)
    again = b2kit.open(f"{server.url}/a.b2nd")
    np.testing.assert_array_equal(again[100], items[100] + 1)
    assert again.__dask_tokenize__() != a.__dask_tokenize__()


def test_ctrl_c_while_the_server_does_not_answer(server, items):
    a = b2kit.open(f"{server.url}/a.b2nd")
    server.latency = 3.0
    for wait in (lambda: a[...], lambda: a.read(5, out=np.empty((90, 40), "f4")), lambda: b2kit.open(a.path)):
        interrupted = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        began = time.monotonic()
        interrupted.start()
        with pytest.raises(KeyboardInterrupt):
            wait()
        assert time.monotonic() - began < 1.5
    server.latency = 0.0
    np.testing.assert_array_equal(a[...], items)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_urls_after_a_fork(server, items):
    """Parent and child use separate connections."""
    a = b2kit.open(f"{server.url}/a.b2nd")
    np.testing.assert_array_equal(a[3], items[3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    right = all(np.array_equal(a[n], items[n]) for n in range(20, 60))
    if child == 0:
        os._exit(0 if right else 1)
    assert right and os.waitpid(child, 0)[1] == 0


def test_urls_by_way_of_fsspec(server, items):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    check(b2kit.open(fsspec.open(f"{server.url}/a.b2nd")), items)
    check(b2kit.open(fsspec.filesystem("http").open(f"{server.url}/a.b2nd")), items)


def test_files_of_fsspec(tmp_path, items):
    path = str(tmp_path / "a.b2nd")
    memory = fsspec.filesystem("memory")
    memory.pipe("/a.b2nd", (tmp_path / "a.b2nd").read_bytes())
    for source in (
        fsspec.open(path),
        fsspec.filesystem("file").open(path),
        memory.open("/a.b2nd"),
        "memory://a.b2nd",
        f"file://{path}",
    ):
        check(b2kit.open(source), items)
    a = pickle.loads(pickle.dumps(b2kit.open(fsspec.open(path))))
    np.testing.assert_array_equal(a[7], items[7])
    with pytest.raises(ValueError, match="compressed"):
        b2kit.open(fsspec.open(path, compression="gzip"))


def test_stores_of_obstore(tmp_path, items):
    obstore = pytest.importorskip("obstore", reason="obstore is not installed")
    local = obstore.store.LocalStore(str(tmp_path))
    memory = obstore.store.MemoryStore()
    obstore.put(memory, "x/a.b2nd", (tmp_path / "a.b2nd").read_bytes())
    check(b2kit.open((local, "a.b2nd")), items)
    check(b2kit.open((memory, "x/a.b2nd")), items)
    check(b2kit.open(obstore.open_reader(local, "a.b2nd")), items)
    with pytest.raises(FileNotFoundError):
        b2kit.open((memory, "none"))


class Lying:
    """A source that returns other data than requested."""

    name = "lying"

    def __init__(self, data, change):
        self.data, self.change, self.size = data, change, len(data)

    def fetch(self, ranges):
        return self.change([self.data[start:stop] for start, stop in ranges])

    def identity(self):
        return ("lying",)


@pytest.mark.parametrize(
    "change",
    [lambda a: a[:-1], lambda a: [x[:-1] for x in a], lambda a: [x + b"!" for x in a], lambda a: a + [b""], lambda a: [3]],
)
def test_answers_that_do_not_fit_are_errors(tmp_path, items, change):
    data = (tmp_path / "a.b2nd").read_bytes()
    opened = b2kit.Array(Lying(data, lambda a: a))
    np.testing.assert_array_equal(opened[5], items[5])
    with pytest.raises((OSError, TypeError)):
        b2kit.Array(Lying(data, change))
    lying = Lying(data, lambda a: a)
    opened = b2kit.Array(lying)
    lying.change = change
    with pytest.raises((OSError, TypeError)):
        opened[5]


def test_what_the_store_raises_comes_through(tmp_path, items):
    def fail(_):
        raise KeyboardInterrupt

    lying = Lying((tmp_path / "a.b2nd").read_bytes(), lambda a: a)
    opened = b2kit.Array(lying)
    lying.change = fail
    with pytest.raises(KeyboardInterrupt):
        opened[5]


def test_passwords_and_signatures_are_not_shown():
    from b2kit._remote import shown

    assert shown("https://me:secret@host/a.b2nd?Signature=x#y") == "https://host/a.b2nd"


def test_dask_reads_urls(server, items):
    dask = pytest.importorskip("dask", reason="dask is not installed")
    from b2kit.dask import from_b2kit

    with dask.config.set(scheduler="processes", num_workers=2):
        found = from_b2kit(b2kit.open(f"{server.url}/a.b2nd")).max().compute()
    assert found == items.max()


def test_redirects_to_other_hosts_can_be_refused(tmp_path):
    class Redirect(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_port + 1}/a.b2nd")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirect)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    before = b2kit.set_other_hosts(False)
    try:
        with pytest.raises(b2kit.Error, match="another host"):
            b2kit.open(f"http://127.0.0.1:{server.server_port}/a.b2nd")
        assert b2kit.set_other_hosts(True) is False and before is True
    finally:
        b2kit.set_other_hosts(before)
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("kind", ["array", "hdf5"])
def test_secrets_are_in_nothing_that_is_shown(server, items, kind, tmp_path):
    xr = pytest.importorskip("xarray")
    hdf5 = importlib.import_module("b2kit.hdf5")
    name = "a.b2nd"
    if kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        name = "x.h5"
        with h5py.File(os.path.join(server.folder, name), "w") as file:
            file["t"] = np.arange(12.0)
    url = server.url.replace("://", "://me:secret@") + "/" + name
    # A password with a slash or another mark in it, a URL with a blank, and one that does not exist.
    for bad in ("me:se/secret@", "me:se@secret@", "me:secret@", "me:1/secret@"):
        wrong = server.url.replace("://", "://" + bad) + f"/no {name}?token=secret"
        with pytest.raises(b2kit.errors.Error) as caught:
            b2kit.open(wrong) if kind == "array" else hdf5.open(wrong)
        shown = "".join(traceback.format_exception(caught.value)[-1:])
        assert "secret" not in shown
    if kind == "hdf5":
        file = hdf5.open(url)
        reported = [repr(file), file.path, repr(file["t"]), file["t"].path]
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(file["t"]))[...], np.arange(12.0))
        with pytest.raises(b2kit.errors.Error) as caught:
            file["none"]
        reported.append(str(caught.value))
    else:
        array = b2kit.open(url)
        reported = [repr(array), array.path, str(array.info), array._repr_html_()]
    with xr.open_dataset(url, engine="b2kit") as dataset:
        reported += [str(dataset), str(dataset.encoding), *map(str, dataset.variables)]
        reported += [str(variable.encoding) for variable in dataset.variables.values()]
    assert not [text for text in reported if "secret" in text]


def test_references_have_no_secrets(server, items):
    virtual = pytest.importorskip("b2kit.virtual")
    url = server.url.replace("://", "://me:secret@") + "/a.b2nd"
    refs = virtual.kerchunk(url)
    assert "secret" not in str(refs) and server.url + "/a.b2nd" in str(refs)
    with pytest.raises(b2kit.errors.ArgumentError, match="password"):
        virtual.kerchunk(url, url="https://host/a.b2nd?token=secret")


def test_errors_of_other_packages_are_redacted():
    from b2kit import _remote

    # The source text is in the traceback, too.
    reported = "403, url='https://me:{0}@host/a?token={0}'".format("sec" + "ret")
    with pytest.raises(b2kit.errors.Error) as caught, _remote._converted_errors("https://host/a"):
        raise RuntimeError(reported)
    assert "sec" + "ret" not in "".join(traceback.format_exception(caught.value))
    assert "403" in str(caught.value)


def test_options_for_fsspec(tmp_path):
    """Credentials and headers reach the file system, also for HDF5 and xarray, and pickles have them."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    from fsspec.implementations.memory import MemoryFileSystem

    class Guarded(MemoryFileSystem):
        protocol = "guarded"
        store, pseudo_dirs = {}, [""]

        def __init__(self, token=None, **options):
            super().__init__(**options)
            if token != "secret":
                raise PermissionError("a token is needed")

    fsspec.register_implementation("guarded", Guarded, clobber=True)
    fs = Guarded(token="secret")
    fs.pipe("guarded://a.b2nd", bytes(b2kit.asarray(np.arange(5), attrs={"_ARRAY_DIMENSIONS": ["x"]})._frame()))
    reported = {"token": "secret"}
    with pytest.raises(OSError):
        b2kit.open("guarded://a.b2nd")
    array = b2kit.open("guarded://a.b2nd", storage_options=reported)
    assert array[3] == 3
    with pytest.raises(ValueError, match="storage_options"):
        b2kit.open(tmp_path / "a.b2nd", storage_options=reported)
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", data=np.arange(1000), chunks=(100,), compression="gzip")
    fs.pipe("guarded://a.h5", (tmp_path / "a.h5").read_bytes())
    assert b2kit.open("guarded://a.h5", key="data", storage_options=reported)[999] == 999
    assert b2kit.hdf5.open("guarded://a.h5", storage_options=reported)["data"][5:7].tolist() == [5, 6]
    xr = pytest.importorskip("xarray", reason="xarray is not installed")
    for name, variable in ("a.b2nd", "a"), ("a.h5", "data"):
        with xr.open_dataset(f"guarded://{name}", engine="b2kit", storage_options=reported, chunks={}) as ds:
            assert ds[variable][:3].values.tolist() == [0, 1, 2]
