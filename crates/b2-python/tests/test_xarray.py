"""The xarray backend: xarray's own test classes, and ours."""

import contextlib
import os
import pickle
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
    assert set(b2kit.open(tmp_path / "a.b2d")["a"].attrs) == {"attrs", "_ARRAY_DIMENSIONS"}
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
