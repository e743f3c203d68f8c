"""The xarray backend: xarray's own test classes, and ours."""

import contextlib
import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import b2kit

xr = pytest.importorskip("xarray", minversion="2024.11", reason="xarray is not installed")
pytest.importorskip("dask.array", reason="dask is not installed")

from xarray.tests.test_backends import CFEncodedBase  # noqa: E402

import b2kit.xarray  # noqa: E402


class TestTheirs(CFEncodedBase):
    """xarray's own tests for backends that store CF conventions."""

    engine = "b2kit"
    # Determines the tests for formats that can store unsigned bytes, which ours can.
    file_format = "NETCDF4"

    @pytest.fixture(params=["s", "ms", "us", "ns"])
    def time_unit(self, request):
        return request.param

    @pytest.fixture(params=[False, True])
    def use_dask(self, request):
        return request.param

    # Strings are stored as such, not as characters, and every dimension can grow, as in xarray's tests of Zarr.
    test_roundtrip_string_encoded_characters = None
    test_encoding_kwarg_fixed_width_string = None
    test_roundtrip_string_with_fill_value_nchar = None
    test_encoding_unlimited_dims = None

    @contextlib.contextmanager
    def roundtrip(self, data, save_kwargs=None, open_kwargs=None, allow_cleanup_failure=False):
        with self.folder() as path:
            self.save(data, path, **(save_kwargs or {}))
            with self.open(path, **(open_kwargs or {})) as ds:
                yield ds

    @contextlib.contextmanager
    def roundtrip_append(self, data, save_kwargs=None, open_kwargs=None, allow_cleanup_failure=False):
        with self.folder() as path:
            for i, key in enumerate(data.variables):
                self.save(data[[key]], path, mode="a" if i > 0 else "w", **(save_kwargs or {}))
            with self.open(path, **(open_kwargs or {})) as ds:
                yield ds

    @contextlib.contextmanager
    def folder(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            yield os.path.join(folder, "a")

    @contextlib.contextmanager
    def create_store(self):
        with self.folder() as path:
            yield b2kit.xarray.DataStore(b2kit.open(f"{path}.b2d", "a"))

    def save(self, dataset, path, mode="w", encoding=None, **kwargs):
        assert not set(kwargs) - {"unlimited_dims", "compute"}
        dataset.b2kit.to_store(f"{path}.b2d", mode=mode, encoding=encoding)

    @contextlib.contextmanager
    def open(self, path, **kwargs):
        with xr.open_dataset(f"{path}.b2d", engine="b2kit", **kwargs) as ds:
            yield ds


@pytest.fixture
def dataset():
    rng = np.random.default_rng(2)
    return xr.Dataset(
        {
            "sst": (("time", "lat", "lon"), rng.normal(280, 5, (6, 20, 30)).astype("f4"), {"units": "K"}),
            "mask": (("lat", "lon"), rng.integers(0, 2, (20, 30)).astype(bool)),
            "station": (("lat",), [f"n{n}" for n in range(20)]),
        },
        coords={
            "time": np.datetime64("2020-01-01", "ns") + np.arange(6).astype("m8[D]"),
            "lat": np.linspace(-90, 90, 20),
            "lon": np.linspace(0, 359, 30),
            "area": (("lat", "lon"), np.ones((20, 30))),
        },
        attrs={"title": "a test", "levels": [1, 2, 3]},
    )


def test_a_dataset_comes_back(tmp_path, dataset):
    path = tmp_path / "a.b2d"
    dataset.b2kit.to_store(path, encoding={"sst": {"codec": "lz4", "chunks": (2, 10, 30), "blocks": (1, 5, 30)}})
    assert not [name for name in os.listdir(tmp_path) if name != "a.b2d"]
    # The engine is guessed from the file name.
    with xr.open_dataset(path) as again:
        xr.testing.assert_identical(again, dataset)
        assert again.sst.encoding["codec"] == "lz4" and again.sst.encoding["chunks"] == (2, 10, 30)
        # The encoding that was read is used for writing.
        again.b2kit.to_store(tmp_path / "b.b2d")
    assert b2kit.open(tmp_path / "b.b2d")["sst"].blocks == (1, 5, 30)


def test_python_blosc2_sees_the_convention(tmp_path, dataset):
    blosc2 = pytest.importorskip("blosc2", reason="python-blosc2 is not installed")
    dataset.b2kit.to_store(tmp_path / "a.b2d")
    with blosc2.TreeStore(str(tmp_path / "a.b2d"), mode="r") as store:
        np.testing.assert_array_equal(store["/sst"][:], dataset.sst.values)
        sst = store["/sst"]
        assert sst.schunk.vlmeta["_ARRAY_DIMENSIONS"] == ["time", "lat", "lon"]
        assert sst.schunk.vlmeta["units"] == "K"


def test_chunks_are_ours(tmp_path, dataset):
    dataset.b2kit.to_store(tmp_path / "a.b2d", encoding={"sst": {"chunks": (4, 8, 30)}})
    with xr.open_dataset(tmp_path / "a.b2d", engine="b2kit", chunks={}) as lazy:
        assert lazy.sst.chunks == ((4, 2), (8, 8, 4), (30,))
        np.testing.assert_allclose(lazy.sst.mean("time").values, dataset.sst.mean("time").values, rtol=1e-6)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_lazy_data_is_written_by_workers(tmp_path, dataset, scheduler):
    import dask

    with dask.config.set(scheduler=scheduler, num_workers=2):
        dataset.chunk(lat=7).b2kit.to_store(tmp_path / "a.b2d")
        with xr.open_dataset(tmp_path / "a.b2d", chunks={}) as again:
            assert again.sst.chunks == ((6,), (7, 7, 6), (30,))
            xr.testing.assert_identical(again.compute(), dataset)


def test_selections_read_what_is_asked(tmp_path, dataset):
    dataset.b2kit.to_store(tmp_path / "a.b2d")
    with xr.open_dataset(tmp_path / "a.b2d") as again:
        rows, columns = xr.DataArray([3, 1, 19], dims="p"), xr.DataArray([29, 0, 5], dims="p")
        for ask in (
            lambda ds: ds.sst.isel(lat=rows, lon=columns),
            lambda ds: ds.sst.isel(lat=[5, 2], lon=[1, 1, 9]),
            lambda ds: ds.sst.isel(time=-1, lat=slice(None, None, -3)),
            lambda ds: ds.sst.sel(lat=[-90, 90], method="nearest").transpose("lon", ...),
            lambda ds: ds.sst.groupby("time.day").mean(),
        ):
            xr.testing.assert_identical(ask(again), ask(dataset))


def test_a_dataset_can_be_pickled(tmp_path, dataset):
    dataset.b2kit.to_store(tmp_path / "a.b2d")
    with xr.open_dataset(tmp_path / "a.b2d") as opened:
        xr.testing.assert_identical(pickle.loads(pickle.dumps(opened)), dataset)


def test_one_array_is_a_dataset(tmp_path):
    path = tmp_path / "t2m.b2nd"
    b2kit.asarray(np.arange(6.0).reshape(2, 3), path, attrs={"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"})
    ds = xr.open_dataset(path)
    assert list(ds) == ["t2m"] and ds.t2m.dims == ("y", "x") and ds.t2m.attrs == {"units": "K"}
    b2kit.asarray(np.arange(6), tmp_path / "plain.b2nd")
    assert xr.open_dataset(tmp_path / "plain.b2nd", engine="b2kit").plain.dims == ("dim_0",)
    # Arrays that are already open, and bytes.
    assert xr.open_dataset(b2kit.open(path)).t2m.shape == (2, 3)
    assert xr.open_dataset(b2kit.open(path.read_bytes()), engine="b2kit").sizes == {"y": 2, "x": 3}


@pytest.mark.parametrize("wrong", [["y"], "yx", ["y", 3], 5])
def test_dimensions_that_do_not_fit_are_errors(tmp_path, wrong):
    b2kit.asarray(np.zeros((2, 3)), tmp_path / "a.b2nd", attrs={"_ARRAY_DIMENSIONS": wrong})
    with pytest.raises(b2kit.errors.DamagedError, match="_ARRAY_DIMENSIONS"):
        xr.open_dataset(tmp_path / "a.b2nd")


def test_more_attributes_than_c_reads(tmp_path):
    attrs = {f"name{n}": n for n in range(40)}
    ds = xr.Dataset({"a": ("x", [1, 2], attrs), "b": ("x", [1, 2], {"attrs": "mine"})}, attrs=attrs)
    ds.b2kit.to_store(tmp_path / "a.b2d")
    layers = b2kit.open_group(tmp_path / "a.b2d").array("a")._attr_names()
    assert len(layers) == 16 and {"attrs", "_ARRAY_DIMENSIONS"} < set(layers)
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "a.b2d"), ds)


def test_groups_are_a_tree(tmp_path, dataset):
    path = tmp_path / "a.b2d"
    dataset.b2kit.to_store(path)
    dataset[["mask"]].b2kit.to_store(path, group="deep/er", mode="a")
    tree = xr.open_datatree(path, engine="b2kit")
    assert set(tree.groups) == {"/", "/deep", "/deep/er"}
    for found in tree["/deep/er"].to_dataset(), xr.open_dataset(path, group="deep/er"):
        assert list(found.data_vars) == ["mask"] and {"lat", "lon"} <= set(found.coords)
        np.testing.assert_array_equal(found.mask, dataset.mask)
    with pytest.raises(ValueError, match="no group"):
        xr.open_dataset(path, group="other")


def test_modes(tmp_path, dataset):
    path = tmp_path / "a.b2d"
    dataset.b2kit.to_store(path)
    with pytest.raises(FileExistsError):
        dataset.b2kit.to_store(path)
    dataset[["mask"]].b2kit.to_store(path, mode="w")
    assert "sst" not in xr.open_dataset(path)
    dataset[["sst"]].b2kit.to_store(path, mode="a")
    assert {"sst", "mask"} <= set(xr.open_dataset(path))
    for wrong in (dict(path=tmp_path / "a.nc"), dict(path=path, mode="r")):
        with pytest.raises(ValueError):
            dataset.b2kit.to_store(**wrong)


def test_a_write_that_fails_leaves_nothing(tmp_path):
    ds = xr.Dataset({"good": ("x", [1, 2]), "bad": ("x", [object(), object()])})
    with pytest.raises(Exception):
        ds.b2kit.to_store(tmp_path / "a.b2d")
    assert os.listdir(tmp_path) == []
    with pytest.raises(ValueError, match="unexpected encoding"):
        ds[["good"]].b2kit.to_store(tmp_path / "a.b2d", encoding={"good": {"zlib": True}})
    assert os.listdir(tmp_path) == []


def test_worker_processes_open_the_store(tmp_path, dataset):
    """A groupby on worker processes, which open the store by its path."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    dataset.b2kit.to_store(tmp_path / "a.b2d", encoding={"sst": {"chunks": (2, 20, 30)}})
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with warnings.catch_warnings(), cluster, distributed.Client(cluster):
        warnings.simplefilter("ignore")
        with xr.open_dataset(tmp_path / "a.b2d", chunks={}) as lazy:
            found = lazy.sst.groupby("time.day").mean().compute()
    xr.testing.assert_allclose(found, dataset.sst.groupby("time.day").mean())


def test_arrays_without_names_of_dimensions(tmp_path):
    """Arrays as python-blosc2 writes them, of any shape and in groups."""
    blosc2 = pytest.importorskip("blosc2", reason="python-blosc2 is not installed")
    x = np.arange(60.0).reshape(3, 4, 5)
    store = blosc2.TreeStore(str(tmp_path / "a.b2d"), mode="w")
    store["/x"], store["/y"], store["/in/z"], store["/in/deep/x"] = x, x[0], x[:, 0], x[:2]
    store["/alike/a"], store["/alike/b"] = x[0, :1], x[0, :1] + 1
    store.close()
    with xr.open_dataset(tmp_path / "a.b2d") as ds:
        assert ds.x.dims == ("x_dim_0", "x_dim_1", "x_dim_2") and ds.y.dims == ("y_dim_0", "y_dim_1")
        np.testing.assert_array_equal(ds.x, x)
    with xr.open_dataset(tmp_path / "a.b2d", group="alike") as ds:
        assert ds.a.dims == ds.b.dims == ("dim_0", "dim_1")
    with xr.open_datatree(tmp_path / "a.b2d", engine="b2kit") as tree:
        np.testing.assert_array_equal(tree["in/z"], x[:, 0])
        np.testing.assert_array_equal(tree["in/deep/x"], x[:2])


def counted(calls):
    def count(block):
        calls.append(1)
        return block + 1

    return count


@pytest.fixture
def series():
    """A dataset over time, in whose variables the order is not that of a listing."""
    import dask.array as da

    calls = []
    source = da.ones((8, 4), chunks=(2, 4)).map_blocks(counted(calls), meta=np.empty((0, 0)))
    time = np.arange("2020-01-01", "2020-01-09", dtype="M8[D]").astype("M8[ns]")
    ds = xr.Dataset(
        {"z": (("time", "x"), source), "b": (("time", "x"), source * 2), "a": ("x", np.arange(4.0))},
        coords={"time": time, "x": np.arange(4)},
        attrs={"title": "a series"},
    )
    return ds, calls


def later(ds, days):
    return ds.assign_coords(time=ds.time + np.timedelta64(days, "D"))


def alone(folder):
    """No temporary files remain."""
    return all(name.count(".") == 1 for name in os.listdir(folder))


def test_one_computation_and_the_order_kept(tmp_path, series):
    ds, calls = series
    ds.b2kit.to_store(tmp_path / "a.b2d")
    assert len(calls) == 4
    again = xr.open_dataset(tmp_path / "a.b2d")
    assert list(again.variables) == list(ds.variables) and again.identical(ds.compute())
    ds[["a"]].assign(q=("x", np.arange(4))).b2kit.to_store(tmp_path / "a.b2d", mode="a")
    assert list(xr.open_dataset(tmp_path / "a.b2d")) == ["z", "b", "a", "q"] and alone(tmp_path)


def test_append_dim(tmp_path, series):
    ds, _ = series
    path = tmp_path / "a.b2d"
    ds.b2kit.to_store(path, encoding={"z": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}})
    later(ds, 8).b2kit.to_store(path, append_dim="time")
    later(ds, 16).compute().assign(new=("x", np.arange(4))).b2kit.to_store(path, append_dim="time")
    expected = xr.concat([ds, later(ds, 8), later(ds, 16)], "time", data_vars="minimal").compute()
    again = xr.open_dataset(path)
    xr.testing.assert_equal(again.drop_vars("new"), expected)
    assert list(again) == ["z", "b", "a", "new"] and again.attrs == ds.attrs and alone(tmp_path)
    for wrong, what in [
        (later(ds, 24).rename(x="y"), "dimensions"),
        (later(ds, 24).isel(x=slice(2)), "shape"),
    ]:
        with pytest.raises(ValueError, match=what):
            wrong.b2kit.to_store(path, append_dim="time")
    with pytest.raises(ValueError, match="no dimension 'level'"):
        ds.b2kit.to_store(path, append_dim="level")
    with pytest.raises(ValueError, match="encoding cannot be changed"):
        ds.b2kit.to_store(path, append_dim="time", encoding={"z": {"codec": "lz4"}})
    xr.testing.assert_equal(xr.open_dataset(path).drop_vars("new"), expected)


def test_region(tmp_path, series):
    ds, _ = series
    path = tmp_path / "a.b2d"
    ds.b2kit.to_store(path, group="deep")
    part = (ds[["z", "b"]] * 0).isel(time=slice(2, 5)).drop_vars("x")
    part.b2kit.to_store(path, group="deep", region={"time": slice(2, 5)})
    expected = ds.compute().copy(deep=True)
    expected.z[2:5], expected.b[2:5] = 0, 0
    xr.testing.assert_identical(xr.open_dataset(path, group="deep"), expected)
    (part.isel(time=[2]) + 7).b2kit.to_store(path, group="deep", region="auto")
    expected.z[4], expected.b[4] = 7, 7
    (ds[["z"]].isel(x=[3]).drop_vars("time") * 9).b2kit.to_store(path, group="deep", region={"x": "auto"})
    expected.z[:, 3] = 18
    xr.testing.assert_identical(xr.open_dataset(path, group="deep"), expected)
    for wrong, region, what in [
        (ds, {"time": slice(0, 8)}, "drop_vars"),
        (part, {"time": slice(0, 8)}, "shape"),
        (part.rename(z="other"), {"time": slice(2, 5)}, "not in the store"),
        (later(part, 100), "auto", "consecutive"),
        (part.isel(time=[0, 2]), "auto", "consecutive"),
    ]:
        with pytest.raises(ValueError, match=what):
            wrong.b2kit.to_store(path, group="deep", region=region)
    xr.testing.assert_identical(xr.open_dataset(path, group="deep"), expected)
    assert alone(tmp_path)


def test_compute_later(tmp_path, series):
    ds, calls = series
    path = tmp_path / "a.b2d"
    task = ds.b2kit.to_store(path, compute=False)
    assert not calls
    template = xr.open_dataset(path)
    assert template.sizes == ds.sizes and float(template.z.sum()) == 0 and template.a.equals(ds.a)
    template.close()
    ds[["z"]].isel(time=slice(0, 2)).drop_vars("x").b2kit.to_store(path, region="auto")
    with xr.open_dataset(path) as partly:
        assert float(partly.z.sum()) == 16
    task.compute()
    with xr.open_dataset(path) as again:
        assert again.identical(ds.compute())
    task = later(ds, 8).b2kit.to_store(path, append_dim="time", compute=False)
    with xr.open_dataset(path) as again:
        assert again.sizes["time"] == 8
    task.compute()
    with xr.open_dataset(path) as again:
        assert again.sizes["time"] == 16 and again.z.shape == (16, 4)
    assert alone(tmp_path)


def broken(_):
    raise ZeroDivisionError("a block that cannot be computed")


@pytest.mark.parametrize("how", [{"mode": "a"}, {"mode": "w"}, {"append_dim": "time"}])
def test_a_store_is_unchanged_after_an_error(tmp_path, series, how):
    ds, _ = series
    path = tmp_path / "a.b2d"
    ds.b2kit.to_store(path)
    before = xr.open_dataset(path).load()
    bad = later(ds, 8 if "append_dim" in how else 0) + 1
    bad["b"] = (("time", "x"), bad.b.data.map_blocks(broken, meta=np.empty((0, 0))))
    with pytest.raises(ZeroDivisionError):
        bad.assign(first=("x", np.arange(4))).b2kit.to_store(path, **how)
    assert xr.open_dataset(path).identical(before) and alone(tmp_path)


def test_commits_are_taken_back(tmp_path, series, monkeypatch):
    """One of several commits fails."""
    ds, _ = series
    path = tmp_path / "a.b2d"
    ds.b2kit.to_store(path)
    before = xr.open_dataset(path).load()
    commit, count = b2kit.Edit._commit, []

    def fails(self):
        count.append(1)
        if len(count) == 3:
            raise OSError("no space left")
        commit(self)

    for change in (
        lambda: later(ds, 8).assign(new=("x", np.arange(4))).b2kit.to_store(path, append_dim="time"),
        lambda: (ds[["z", "b"]] * 0).assign(time=ds.time).drop_vars("x").b2kit.to_store(path, region={"time": slice(0, 8)}),
    ):
        count.clear()
        with monkeypatch.context() as patch:
            patch.setattr(b2kit.Edit, "_commit", fails)
            with pytest.raises(OSError, match="no space"):
                change()
        assert xr.open_dataset(path).load().identical(before) and alone(tmp_path)


def test_the_store_is_replaced_in_one_step(tmp_path, series):
    """Readers see the old or the new store while it is replaced, never none."""
    import threading

    ds, _ = series
    path, done, seen = tmp_path / "a.b2d", threading.Event(), []
    ds = ds.compute()
    ds.b2kit.to_store(path)

    def look():
        while not done.is_set():
            seen.append(os.path.isdir(path))

    thread = threading.Thread(target=look)
    thread.start()
    for n in range(10):
        (ds + n).b2kit.to_store(path, mode="aw"[n % 2])
    done.set()
    thread.join()
    assert all(seen) and xr.open_dataset(path).equals(ds + 9)


def test_a_tree_is_written_at_once(tmp_path, series):
    ds, calls = series
    tree = xr.DataTree.from_dict({"/": ds[["a"]], "/deep": ds[["z"]], "/deep/er": ds[["b"]]})
    tree.b2kit.to_store(tmp_path / "a.b2d", encoding={"/deep": {"z": {"codec": "lz4"}}})
    assert len(calls) == 4 and b2kit.open_group(tmp_path / "a.b2d").array("deep/z").codec == "lz4"
    assert xr.open_datatree(tmp_path / "a.b2d", engine="b2kit").identical(tree.compute())
    assert sorted(b2kit.open_group(tmp_path / "a.b2d")._ipython_key_completions_()) == [
        *("a", "deep", "deep/er", "deep/er/b", "deep/time", "deep/z", "x")
    ]
    with pytest.raises(ValueError, match="/other"):
        tree.b2kit.to_store(tmp_path / "b.b2d", encoding={"/other": {}})
    sparse = xr.DataTree.from_dict({"/": ds[["a"]], "/none": xr.Dataset(), "/none/too": xr.Dataset(attrs={"n": 1})})
    sparse.b2kit.to_store(tmp_path / "d.b2d")
    assert xr.open_datatree(tmp_path / "d.b2d", engine="b2kit").identical(sparse.compute())
    tree["deep"].b2kit.to_store(tmp_path / "c.b2d")
    assert set(xr.open_datatree(tmp_path / "c.b2d", engine="b2kit").groups) == {"/", "/er"}


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_leftovers_of_killed_writers_are_removed(tmp_path, dataset):
    code = """
import os, sys, signal, numpy as np, xarray as xr, b2kit.xarray
from b2kit import _b2kit
_b2kit.publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
xr.Dataset({"x": ("t", np.arange(5))}).b2kit.to_store(sys.argv[1])
"""
    target = tmp_path / "a.b2d"
    child = subprocess.run([sys.executable, "-c", code, str(target)], check=False)
    assert child.returncode != 0
    [left] = os.listdir(tmp_path)
    assert left.startswith(".b2kit-a.b2d-") and left.endswith(".tmp")
    # Leftovers of other stores, of a living process, and with the only copy of a store.
    others = [".b2kit-b.b2d-0123456789ab.tmp", ".b2kit-a.b2d-0123456789ab.tmp", ".b2kit-a.b2d-0123456789ac.tmp"]
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / others[2] / "a.old").mkdir()
    import fcntl

    held = os.open(tmp_path / others[1], os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    dataset.b2kit.to_store(target)
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "a.b2d"])
    os.close(held)
    dataset.b2kit.to_store(target, mode="w")
    assert sorted(os.listdir(tmp_path)) == sorted([others[0], others[2], "a.b2d"])


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such modes")
def test_what_is_replaced_keeps_its_mode(tmp_path):
    dataset = xr.Dataset({"x": ("t", np.arange(5))})
    target = tmp_path / "a.b2d"
    dataset.b2kit.to_store(target)
    os.chmod(target, 0o750)
    os.chmod(target / "x.b2nd", 0o604)
    try:
        os.setxattr(target / "x.b2nd", "user.note", b"kept")
        noted = True
    except (OSError, AttributeError):
        noted = False
    for mode in "w", "a":
        dataset.b2kit.to_store(target, mode=mode)
        assert os.stat(target).st_mode & 0o777 == 0o750
        assert os.stat(target / "x.b2nd").st_mode & 0o777 == 0o604
        assert not noted or os.getxattr(target / "x.b2nd", "user.note") == b"kept"


def test_attributes_keep_their_order(tmp_path):
    """Those of variables and of groups, and in a map where there are more than C-Blosc2 reads."""
    for names in list("zam_Bq"), [f"{n % 7}-{n}" for n in range(40)]:
        attrs = {name: n for n, name in enumerate(names)}
        ds = xr.Dataset({"v": ("x", np.arange(3), attrs)}, {"x": ("x", [1, 2, 3], attrs)}, attrs)
        for group in None, "g":
            ds.b2kit.to_store(tmp_path / "a.b2d", mode="w", group=group)
            with xr.open_dataset(tmp_path / "a.b2d", group=group) as found:
                assert [list(one.attrs) for one in (found, found.v, found.x)] == [names] * 3
            b2kit.open_group(tmp_path / "a.b2d").save(tmp_path / "copy.b2z", overwrite=True)
            with xr.open_dataset(tmp_path / "copy.b2z", group=group) as found:
                assert list(found.attrs) == names


@pytest.mark.parametrize("dims", [["x", "y"], "x", 1])
def test_attributes_do_not_name_dimensions(tmp_path, dims):
    """As Zarr stores keep them that were converted from version 2."""
    ds = xr.Dataset({"v": (("y", "x"), np.ones((2, 2)), {"_ARRAY_DIMENSIONS": dims, "units": "K"})})
    ds.b2kit.to_store(tmp_path / "a.b2d")
    ds.b2kit.to_store(tmp_path / "a.b2d", append_dim="y")
    with xr.open_dataset(tmp_path / "a.b2d") as again:
        assert again.sizes == {"y": 4, "x": 2} and again.v.dims == ("y", "x") and again.v.attrs == {"units": "K"}
