"""HDF5 and NetCDF files, read without h5py: in a build with the feature ``hdf5``."""

import pickle

import numpy as np
import pytest

import b2kit
import b2kit.hdf5
from b2kit import _b2kit

h5py = pytest.importorskip("h5py")
reads = pytest.mark.skipif(not hasattr(_b2kit, "Hdf5File"), reason="this build does not read HDF5 (feature hdf5)")
items = np.arange(2 * 30 * 40, dtype="f4").reshape(2, 30, 40)


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


@pytest.mark.skipif(hasattr(_b2kit, "Hdf5File"), reason="this build reads HDF5")
def test_without_the_feature_the_error_says_how_to_get_it(path):
    with pytest.raises(b2kit.errors.UnsupportedError, match="--features hdf5"):
        b2kit.open(path, key="/group/data")
    with pytest.raises(b2kit.errors.UnsupportedError, match="--features hdf5"):
        b2kit.hdf5.open(path)


def test_without_a_key_it_is_named(path):
    with pytest.raises(b2kit.errors.NotBloscError, match="HDF5"):
        b2kit.open(path)


@reads
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
    for key in [[0, 1], np.s_[None], np.s_[..., ...], np.s_[0, 0, 0, 0], 2, True]:
        with pytest.raises(IndexError):
            data[key]


@reads
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


@reads
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


@reads
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
