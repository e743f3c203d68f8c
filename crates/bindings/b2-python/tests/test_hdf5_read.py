"""HDF5 and NetCDF files, read without h5py."""

import pickle

import numpy as np
import pytest

import b2kit
import b2kit.hdf5
from conftest import many
from hypothesis import given, settings
from hypothesis import strategies as st
from test_indexing import basic_keys, compare, integers, mixed_keys, same, slices

h5py = pytest.importorskip("h5py")
items = np.arange(2 * 30 * 40, dtype="f4").reshape(2, 30, 40)


@pytest.mark.parametrize("block", [0, 512, 4096, 65536])
def test_other_bytes_may_be_in_front(tmp_path, block):
    path = str(tmp_path / "any.name")
    with h5py.File(path, "w", userblock_size=block) as file:
        file["x"] = np.arange(5)
    assert b2kit.hdf5.is_hdf5(path)
    assert (b2kit.open(path, key="x")[...] == np.arange(5)).all()
    with pytest.raises(b2kit.Error, match="HDF5"):
        b2kit.open(path)


def test_text_is_not_hdf5(tmp_path):
    path = tmp_path / "text"
    for text in (b"", b"abc", b"a" * 600, b"a" * 5000):
        path.write_bytes(text)
        assert not b2kit.hdf5.is_hdf5(str(path))


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "x.h5")
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "a file"
        group = file.create_group("group")
        data = group.create_dataset("data", data=items, chunks=(1, 7, 9), compression="gzip", shuffle=True)
        data.attrs["units"], data.attrs["_FillValue"] = "K", np.float32(-1)
        for name, length in [("t", 2), ("lat", 30), ("lon", 40)]:
            group[name] = np.arange(length) * 0.5
            group[name].make_scale(name)
        for dim, name in enumerate(["t", "lat", "lon"]):
            data.dims[dim].attach_scale(group[name])
        group["packed"] = np.array([1, 2, -9], "i2")
        group["packed"].attrs.update(scale_factor=0.5, add_offset=10.0, _FillValue=np.int16(-9))
        group["words"] = np.array(["a", "b\u00e4nk", ""], dtype=h5py.string_dtype())
        file["scalar"] = 5
        file["empty"] = np.zeros((0, 3))
        file["null"] = h5py.Empty("f4")
    return path


def test_without_a_key_it_is_named(path):
    with pytest.raises(b2kit.errors.NotBloscError, match="HDF5"):
        b2kit.open(path)


def test_data_sets_are_read(path):
    data = b2kit.open(path, key="/group/data")
    assert (data.shape, data.dtype, data.chunks, data.ndim) == ((2, 30, 40), items.dtype, (1, 7, 9), 3)
    assert data.filters == ["shuffle", "gzip"] and 0 < data.cbytes < data.nbytes == items.nbytes
    assert data.attrs["units"] == "K" and data.attrs["_ARRAY_DIMENSIONS"] == ["t", "lat", "lon"]
    for key in [
        ..., 1, -1, np.s_[0, 3:9], np.s_[..., -1], np.s_[::-1, 5:25:3, ::-4], np.s_[:, 4:4], np.s_[1, 2, 3], np.s_[0:1, -5:],
    ]:
        np.testing.assert_array_equal(data[key], items[key], str(key))
        assert np.shape(data[key]) == items[key].shape
    np.testing.assert_array_equal(np.asarray(data), items)
    np.testing.assert_array_equal(data.read(np.s_[:, 3], threads=2), items[:, 3])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(data))[0], items[0])
    assert b2kit.asarray(data, codec="lz4")[1, 2, 3] == items[1, 2, 3]
    for key in [np.s_[..., ...], np.s_[0, 0, 0, 0], 2, [0, 2], "x"]:
        with pytest.raises(IndexError):
            data[key]


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Data sets of many shapes, chunks, filters and types: their items and properties."""
    path = str(tmp_path_factory.mktemp("sets") / "sets.h5")
    rng = np.random.default_rng(7)
    fields = np.dtype([("id", "<u2"), ("pos", "<f4", (3,)), ("in", [("a", "i1"), ("b", ">i8")])])
    filters = [{}, {"compression": "gzip"}, {"shuffle": True, "compression": "lzf"}, {"fletcher32": True}]
    try:
        import hdf5plugin

        # If a test has imported netCDF4, HDF5 would use its filters, which have other options.
        hdf5plugin.register(("blosc", "blosc2"), force=True)
        filters += [dict(hdf5plugin.Blosc(cname="lz4")), dict(hdf5plugin.Blosc2(cname="lz4")), dict(hdf5plugin.Blosc2(cname="zstd"))]
    except ImportError:
        pass
    expected = {}
    with h5py.File(path, "w") as file:
        for n in range(56):
            shape = tuple(int(length) for length in rng.integers(0, 8, n % 5))
            x = np.zeros(shape, fields)
            x["id"] = np.arange(x.size).reshape(shape)
            x["pos"] = rng.random((*shape, 3))
            dtype = ["u1", "<i4", ">i2", "<f8", fields, "S5"][n % 6]
            x = x if dtype is fields else x["id"].astype(dtype)
            chunks = tuple(int(rng.integers(1, length + 1)) for length in shape) if all(shape) and shape and n % 4 else None
            options = filters[n % len(filters)] if chunks else {}
            # Items that are not written have a fill value.
            data = file.create_dataset(f"x{n}", shape, x.dtype, chunks=chunks, **options)
            data[...] = x
            expected[f"x{n}"] = x
    file = b2kit.hdf5.open(path)
    return [(x, file[name]) for name, x in expected.items()]


@given(st.data())
@settings(max_examples=many(1500), deadline=None)
def test_indexing_is_that_of_numpy(sets, data):
    x, a = data.draw(st.sampled_from(sets))
    compare(a, x, data.draw(basic_keys(x.shape)))
    if x.ndim:
        compare(a, x, data.draw(mixed_keys(x.shape)))
    if x.size:
        mask = np.array(data.draw(st.lists(st.booleans(), min_size=x.size, max_size=x.size)), bool).reshape(x.shape)
        compare(a, x, mask)


@given(st.data())
@settings(max_examples=many(500), deadline=None)
def test_orthogonal_and_vectorized_indexing(sets, data):
    x, a = data.draw(st.sampled_from([(x, a) for x, a in sets if x.size and x.ndim]))
    key, lists = [], []
    for n in x.shape:
        part = data.draw(slices(n) | integers(n) | st.lists(integers(n), max_size=5))
        key.append(part)
        lists.append(np.arange(n)[part if not isinstance(part, list) else np.array(part, int)])
    expected = x[np.ix_(*(np.atleast_1d(one) for one in lists))]
    expected = expected.reshape([len(one) for one in lists if np.ndim(one)])
    np.testing.assert_array_equal(a.oindex[tuple(key)], expected)
    count = data.draw(st.integers(0, 6))
    points = [data.draw(st.lists(integers(n), min_size=count, max_size=count)) for n in x.shape]
    same(a.vindex[tuple(points)], x[tuple(np.array(one, int) for one in points)])


def test_data_sets_are_used_as_arrays(sets, path):
    for x, a in sets:
        assert (a.shape, a.dtype, a.ndim, a.size, a.nbytes, a.itemsize) == (
            x.shape, x.dtype, x.ndim, x.size, x.nbytes, x.itemsize,
        )
        np.testing.assert_array_equal(np.asarray(a), x)
        if x.dtype.names and x.ndim:
            for key in ["id", "pos", "in", ["id", "in"]]:
                same(a[key], x[key])
            same(a.read("pos"), x["pos"])
        out = np.zeros((*x.shape, 2), x.dtype)
        assert a.read(out=out[..., 0]) is not None
        np.testing.assert_array_equal(out[..., 0], x)
        if x.ndim:
            np.testing.assert_array_equal(list(a), list(x))
            assert len(a) == len(x)
            copy = np.zeros_like(x)
            for part, values in a.iterchunks():
                copy[part] = values
            np.testing.assert_array_equal(copy, x)
    data = b2kit.open(path, key="/group/data")
    rows = np.empty((2, 40), "f8")
    np.testing.assert_array_equal(data.read(np.s_[1, [29, 0]], out=rows), items[1, [29, 0]])
    seen = []
    data.read(np.s_[:, ::3], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (items[:, ::3].nbytes,) * 2
    assert data.ratio > 0 and data._ipython_key_completions_() == []
    for wrong in [lambda: data == 5, lambda: bool(data), lambda: data.__array__(copy=False), lambda: data.read(out=np.empty(3))]:
        with pytest.raises(b2kit.Error):
            wrong()
    for changes in [lambda: data.__setitem__(0, 1), lambda: data.oindex.__setitem__(0, 1), data.edit]:
        with pytest.raises(b2kit.errors.ReadOnlyError):
            changes()


def test_only_the_chunks_that_are_selected_are_read(tmp_path):
    path = str(tmp_path / "far.h5")
    with h5py.File(path, "w") as file:
        data = file.create_dataset("x", data=np.arange(100_000).reshape(100, 1000), chunks=(10, 100), compression="gzip")
        offset = data.id.get_chunk_info_by_coord((50, 500)).byte_offset
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * 8)
    data = b2kit.open(path, key="x")
    x = np.arange(100_000).reshape(100, 1000)
    for key in [np.s_[::25, ::300], np.s_[[0, 99], 500], np.s_[50, [400, 610]]]:
        same(data[key], x[key])
    for key in [np.s_[::5, 550], np.s_[[50], [555]]]:
        with pytest.raises(b2kit.errors.DamagedError, match="/x"):
            data[key]


def test_very_large_data_sets(tmp_path):
    path = str(tmp_path / "large.h5")
    with h5py.File(path, "w") as file:
        data = file.create_dataset("x", (1 << 22, 1 << 22), "i2", chunks=(1024, 16), fillvalue=-1)
        data[5000, 77:79] = 1, 2
    data = b2kit.open(path, key="x")
    np.testing.assert_array_equal(data[[5000, -1], 76:80], [[-1, 1, 2, -1], [-1] * 4])
    np.testing.assert_array_equal(data[5000, 76:80:2], [-1, 2])


def test_files_list_what_is_in_them(path):
    file = b2kit.hdf5.open(path)
    assert set(file) == {"/empty", "/scalar", *(f"/group/{name}" for name in ["data", "t", "lat", "lon", "packed", "words"])}
    assert len(file) == 8 and file.group_attrs() == {"title": "a file"}
    assert file["scalar"][()] == 5 and file["empty"][...].shape == (0, 3)
    assert list(file["group/words"][:]) == ["a", "b\u00e4nk", ""]
    assert ("/null", "failed") in [entry[:2] for entry in file.tree()]
    with pytest.raises(KeyError):
        file["no"]
    with pytest.raises(b2kit.errors.UnsupportedError, match="null"):
        file["null"]
    with pytest.raises(b2kit.errors.ReadOnlyError):
        b2kit.open(path, "a", key="scalar")


def test_damaged_files_are_errors(path, tmp_path):
    content = bytearray(open(path, "rb").read())
    bad = tmp_path / "bad.h5"
    raised = 0
    for at in range(0, len(content), 211):
        content[at] ^= 0xFF
        bad.write_bytes(content)
        content[at] ^= 0xFF
        try:
            b2kit.open(bad, key="group/data")[...]
        except b2kit.Error:
            raised += 1
    assert raised > 3


def test_members_of_stores_have_keys_too(tmp_path):
    store = b2kit.open_group(tmp_path / "s.b2d", mode="a")
    store.create("a/b", np.arange(5))
    assert b2kit.open(tmp_path / "s.b2d", key="/a/b")[2] == 2
    b2kit.asarray(np.arange(5), tmp_path / "x.b2nd")
    with pytest.raises(b2kit.errors.ArgumentError, match="not a store"):
        b2kit.open(tmp_path / "x.b2nd", key="a")


def test_netcdf_texts_that_are_not_ascii_are_no_lists(tmp_path):
    xr, netcdf = pytest.importorskip("xarray"), pytest.importorskip("netCDF4")
    with netcdf.Dataset(tmp_path / "x.nc", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("t", "f4", ("x",)).setncattr("units", "°C")
        # xarray splits this text.
        file["t"].setncattr("coordinates", "größe")
    assert xr.open_dataset(tmp_path / "x.nc", engine="b2kit").t.attrs["units"] == "°C"


def test_xarray_opens_them(path):
    xr = pytest.importorskip("xarray")
    with pytest.warns(UserWarning, match="null"):
        assert xr.open_dataset(path, engine="b2kit").attrs == {"title": "a file"}
    found = xr.open_dataset(path, engine="b2kit", group="group")
    assert found.data.dims == ("t", "lat", "lon") and found.data.attrs == {"units": "K"}
    assert not found.data.variable._in_memory
    np.testing.assert_array_equal(found.data.sel(lat=[1.0, 14.5], lon=slice(3, 5)), items[:, [2, 29], 6:11])
    np.testing.assert_array_equal(found.data.isel(t=0, lat=slice(None, None, -2)), items[0, ::-2])
    points = xr.DataArray([0, 7], dims="p")
    np.testing.assert_array_equal(found.data.isel(lat=points, lon=points), items[:, [0, 7], [0, 7]])
    np.testing.assert_array_equal(found.packed, [10.5, 11, np.nan])
    assert list(found.words.values) == ["a", "b\u00e4nk", ""]
    with pytest.warns(UserWarning, match="null"):
        tree = xr.open_datatree(path, engine="b2kit")
    np.testing.assert_array_equal(tree["group/data"], items)
    with pytest.raises(b2kit.errors.ArgumentError, match="no group"):
        xr.open_dataset(path, engine="b2kit", group="no")


@pytest.mark.parametrize("format", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
def test_an_attribute_does_not_name_the_dimensions_of_a_file_that_names_them(tmp_path, format):
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(tmp_path / "a.nc", "w", format=format) as file:
        for name, length in [("y", 2), ("x", 3)]:
            file.createDimension(name, length)
            file.createVariable(name, "i4", (name,))[:] = range(length)
        variable = file.createVariable("v", "f4", ("y", "x"))
        variable[:] = 1
        if format != "NETCDF4":
            variable.setncattr("_ARRAY_DIMENSIONS", "wrong")
    if format == "NETCDF4":
        # The library of netCDF reserves this name.
        with h5py.File(tmp_path / "a.nc", "a") as file:
            file["v"].attrs["_ARRAY_DIMENSIONS"] = "wrong"
    group = b2kit.hdf5.open(tmp_path / "a.nc")
    assert list(group["v"].attrs["_ARRAY_DIMENSIONS"]) == ["y", "x"]
    assert list(group["v"].attrs).count("_ARRAY_DIMENSIONS") == 1


def test_variables_named_like_a_dimension_whose_coordinate_they_are_not(tmp_path):
    xr, netcdf = pytest.importorskip("xarray"), pytest.importorskip("netCDF4")
    with netcdf.Dataset(tmp_path / "a.nc", "w") as file:
        for group in (file, file.createGroup("g")):
            for name, length in [("t", 4), ("x", 3), ("y", 2)]:
                group.createDimension(name, length)
            group.createVariable("v", "f4", ("t",))[:] = range(4)
            group.createVariable("t", "i4", ("x",))[:] = [5, 6, 7]
            group.createVariable("x", "i4", ("x",))[:] = range(3)
    for key in ("t", "g/t"):
        assert b2kit.open(tmp_path / "a.nc", key=key)[...].tolist() == [5, 6, 7]
    group = b2kit.hdf5.open(tmp_path / "a.nc")
    assert sorted(group) == ["/g/t", "/g/v", "/g/x", "/t", "/v", "/x"] and group["t"][...].tolist() == [5, 6, 7]
    assert list(group["g/t"].attrs["_ARRAY_DIMENSIONS"]) == ["x"] and list(group["v"].attrs["_ARRAY_DIMENSIONS"]) == ["t"]
    for name in (None, "g"):
        found, expected = (xr.open_dataset(tmp_path / "a.nc", group=name, engine=engine) for engine in ("b2kit", "netcdf4"))
        xr.testing.assert_identical(found, expected)
