"""Values that xarray writes survive unchanged: text, numbers and characters, with every way of writing and every engine."""

import datetime
import os
import warnings

import numpy as np
import pytest

import b2kit

xr = pytest.importorskip("xarray", minversion="2024.11", reason="xarray is not installed")
pytest.importorskip("dask.array", reason="dask is not installed")

import b2kit.xarray  # noqa: E402

lazily = pytest.mark.parametrize("lazy", [False, True], ids=["memory", "dask"])
RNG = np.random.default_rng(7).random((2, 4, 3))


def maybe_lazy(ds, lazy):
    return ds.chunk() if lazy else ds


def opened(path, **options):
    with xr.open_dataset(path, engine="b2kit", **options) as ds:
        return ds.load()


def listing(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)


# The contents of a store, and values that do not fit into them.
GROWN = [
    (np.array(["foo"]), np.array(["foobar"])),
    (np.array(["foo"], object), np.array(["foobar"], object)),
    (np.array([b"foo"]), np.array([b"foobar"])),
    (np.array([b"foo"], object), np.array([b"foobar"], object)),
    (np.array([3], "i1"), np.array([1000])),
    (np.array([3], "u2"), np.array([-1])),
    (np.array([3]), np.array([1.7])),
    (np.array([3]), np.array([np.nan])),
    (np.array([3], "f4"), np.array([1e300])),
]
grown = pytest.mark.parametrize("old, new", GROWN, ids=range(len(GROWN)))


@grown
@lazily
@pytest.mark.parametrize("where", ["variable", "coordinate"])
def test_appended_values_that_do_not_fit(tmp_path, old, new, lazy, where):
    path = tmp_path / "a.b2d"

    def made(items):
        ds = xr.Dataset({"s": ("x", items), "n": ("x", np.arange(1))})
        return maybe_lazy(ds.set_coords("s") if where == "coordinate" else ds, lazy)

    made(old).b2kit.to_store(path)
    before, files = opened(path), listing(tmp_path)
    for options in {"append_dim": "x"}, {"region": {"x": slice(0, 1)}}:
        with pytest.raises(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made(new).b2kit.to_store(path, **options)
        xr.testing.assert_identical(opened(path), before)
        assert listing(tmp_path) == files
    made(old[:1]).b2kit.to_store(path, append_dim="x")
    assert opened(path).sizes["x"] == 2


@grown
@lazily
def test_values_written_again_get_a_wider_type(tmp_path, old, new, lazy):
    """The encoding of the store that a part came from does not cut the other."""
    xr.Dataset({"s": ("x", old)}, {"x": [0]}).b2kit.to_store(tmp_path / "a.b2d")
    with xr.open_dataset(tmp_path / "a.b2d", chunks={} if lazy else None) as first:
        second = maybe_lazy(xr.Dataset({"s": ("x", new)}, {"x": [1]}), lazy)
        joined = xr.concat([first, second], "x")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            joined.b2kit.to_store(tmp_path / "b.b2d")
            joined.b2kit.to_store(tmp_path / "a.b2d", group="deep", mode="a")
    for found in opened(tmp_path / "b.b2d"), opened(tmp_path / "a.b2d", group="deep"):
        np.testing.assert_array_equal(found.s.values.astype(joined.s.dtype), joined.s.values)
    assert opened(tmp_path / "a.b2d").s.dtype == np.array(old[:1].tolist(), None if old.dtype == object else old.dtype).dtype


@lazily
def test_an_encoding_that_is_asked_for_is_kept_or_refused(tmp_path, lazy):
    ds = maybe_lazy(xr.Dataset({"s": ("x", ["foo", "foobar"]), "n": ("x", [1, 1000]), "f": ("x", [1.5, np.nan])}), lazy)
    for encoding in (
        {"s": {"dtype": "U3"}},
        {"n": {"dtype": "i1"}},
        {"f": {"dtype": "i4"}},
        {"f": {"dtype": "i4", "_FillValue": -1}},
        {"n": {"dtype": "i2", "scale_factor": 0.01}},
        {"n": {"dtype": "u1", "add_offset": 1.0}},
    ):
        with pytest.raises(ValueError, match="does not fit"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ds.b2kit.to_store(tmp_path / "a.b2d", encoding=encoding)
        assert os.listdir(tmp_path) == []
    ds.b2kit.to_store(
        tmp_path / "a.b2d",
        encoding={"s": {"dtype": "U9"}, "n": {"dtype": "i2"}, "f": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}},
    )
    assert opened(tmp_path / "a.b2d", mask_and_scale=False).f.values.tolist() == [3, -1]
    xr.testing.assert_equal(opened(tmp_path / "a.b2d"), ds.compute())
    assert b2kit.open_group(tmp_path / "a.b2d").array("s").dtype == "U9"
    # The encoding that was read still fits.
    with xr.open_dataset(tmp_path / "a.b2d", chunks={} if lazy else None) as again:
        again.b2kit.to_store(tmp_path / "b.b2d")
    for name in "snf":
        arrays = [b2kit.open_group(tmp_path / path).array(name) for path in ("a.b2d", "b.b2d")]
        assert arrays[0].dtype == arrays[1].dtype and arrays[0][...].tolist() == arrays[1][...].tolist()


@lazily
def test_times_with_fractions_are_appended(tmp_path, lazy):
    """xarray writes the units of such times in several ways."""
    rng = np.random.default_rng(10)
    for n, unit in enumerate(["s", "ms", "us", "ns"] * 3):
        # Of the first ones the units are found.
        numbers = [int(rng.integers(10**9)) + np.arange(3), *(rng.integers(0, 10**9, rows) for rows in rng.integers(1, 5, 2))]
        parts = [xr.Dataset({"t": ("x", some.astype(f"M8[{unit}]"))}) for some in numbers]
        path = tmp_path / f"{n}.b2d"
        for part in parts:
            maybe_lazy(part, lazy and part is not parts[0]).b2kit.to_store(path, append_dim="x" if part is not parts[0] else None)
        xr.testing.assert_equal(opened(path).t, xr.concat([part.t for part in parts], "x"))


@lazily
@pytest.mark.parametrize("kind", [">f8", ">f4", ">i2", ">u8", ">c8", "<i4"])
def test_both_byte_orders_are_appended(tmp_path, lazy, kind):
    rng = np.random.default_rng(9)
    parts = [xr.Dataset({"f": (("x", "y"), (rng.random((rows, 3)) * 100).astype(kind))}) for rows in rng.integers(1, 6, 4)]
    path = tmp_path / "a.b2d"
    maybe_lazy(parts[0], lazy).b2kit.to_store(path)
    for n, part in enumerate(parts[1:]):
        part = part if n % 2 else part.astype(np.dtype(kind).newbyteorder())
        maybe_lazy(part, lazy).b2kit.to_store(path, append_dim="x")
    maybe_lazy(parts[0] + 1, lazy).b2kit.to_store(path, region={"x": slice(0, parts[0].sizes["x"])})
    found = opened(path).f
    assert found.dtype.newbyteorder("=") == np.dtype(kind).newbyteorder("=")
    np.testing.assert_array_equal(found, np.concatenate([parts[0].f + 1, *(part.f for part in parts[1:])]))


@lazily
def test_packed_values_that_do_not_fit(tmp_path, lazy):
    packed = {"f": {"dtype": "i1", "scale_factor": 0.5, "_FillValue": -128}}
    xr.Dataset({"f": ("x", [1.0, np.nan])}).b2kit.to_store(tmp_path / "a.b2d", encoding=packed)
    for wrong in 70.0, np.inf, -np.inf:
        with pytest.raises(ValueError, match="does not fit"):
            maybe_lazy(xr.Dataset({"f": ("x", [wrong])}), lazy).b2kit.to_store(tmp_path / "a.b2d", append_dim="x")
    maybe_lazy(xr.Dataset({"f": ("x", [63.5])}), lazy).b2kit.to_store(tmp_path / "a.b2d", append_dim="x")
    np.testing.assert_array_equal(opened(tmp_path / "a.b2d").f, [1, np.nan, 63.5])


@lazily
def test_times_that_do_not_fit(tmp_path, lazy):
    time = np.array(["2020-01-01", "2020-01-02"], "M8[ns]")
    ds = maybe_lazy(xr.Dataset({"t": ("x", time)}), lazy)
    ds.b2kit.to_store(tmp_path / "a.b2d", encoding={"t": {"units": "days since 2020-01-01", "dtype": "i1"}})
    xr.testing.assert_equal(opened(tmp_path / "a.b2d"), ds.compute())
    for shift in np.timedelta64(1, "h"), np.timedelta64(300, "D"):
        wrong = maybe_lazy(xr.Dataset({"t": ("x", time + shift)}), lazy)
        with pytest.raises(Exception):
            wrong.b2kit.to_store(tmp_path / "a.b2d", append_dim="x")
        assert opened(tmp_path / "a.b2d").sizes["x"] == 2


@lazily
@pytest.mark.parametrize("kind", ["M8", "m8"])
def test_times_coarser_than_the_units_of_the_encoding(tmp_path, lazy, kind):
    path, since = tmp_path / "a.b2d", " since 1950-01-01" if kind == "M8" else ""
    times = np.array([165_088_894, 632_342_156, "NaT"], f"{kind}[s]")
    for units in ("milliseconds", "microseconds", "nanoseconds"):
        ds = maybe_lazy(xr.Dataset({"t": ("x", times)}), lazy)
        ds.t.encoding.update(units=units + since, dtype="i8")
        ds.b2kit.to_store(path, mode="w")
        ds.b2kit.to_store(path, append_dim="x")
        again = opened(path, decode_timedelta=True)
        np.testing.assert_array_equal(again.t.values.astype(times.dtype), np.tile(times, 2))
    late = maybe_lazy(xr.Dataset({"t": ("x", np.array([10**11], f"{kind}[s]"))}), lazy)
    late.t.encoding.update(units="nanoseconds" + since, dtype="i8")
    with pytest.raises(b2kit.errors.RangeError, match="units of its encoding"):
        late.b2kit.to_store(tmp_path / "late.b2d")


def test_fill_values_of_unsigned_numbers_in_the_other_byte_order(tmp_path):
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(tmp_path / "x.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 3)
        numbers = file.createVariable("n", "i2", ("x",), fill_value=5)
        numbers.setncattr("_Unsigned", "true")
        numbers.set_auto_maskandscale(False)
        numbers[:] = [1, 5, -1]
    attrs = {"_ARRAY_DIMENSIONS": ["x"], "_Unsigned": "true", "_FillValue": 5}
    b2kit.asarray(np.array([1, 5, -1], ">i2"), tmp_path / "n.b2nd", attrs=attrs)
    for name in ("x.nc", "n.b2nd"):
        np.testing.assert_array_equal(opened(tmp_path / name).n, [1, np.nan, 65535], name)


def test_fill_values_that_no_integer_represents(tmp_path):
    ds = xr.Dataset({"n": ("x", np.array([1, 65535], "u2"), {"missing_value": -1.0}), "m": ("x", np.array([1, 5], "i2"), {"missing_value": 5.0})})
    ds.to_netcdf(tmp_path / "x.nc", engine="h5netcdf")
    ds.b2kit.to_store(tmp_path / "x.b2d")
    for name in ("x.nc", "x.b2d"):
        again = opened(tmp_path / name)
        assert again.n.values.tolist() == [1, 65535] and np.isnan(again.m.values).tolist() == [False, True], name


@pytest.mark.parametrize("letters", [[b"N", b"S"], [[b"a", b"b"], [b"c", b"d"]], b"x"])
def test_single_letters_are_items(tmp_path, letters):
    items = np.array(letters, "S1")
    ds = xr.Dataset({"s": (["y", "x"][2 - items.ndim :], items)})
    ds.b2kit.to_store(tmp_path / "a.b2d")
    xr.testing.assert_identical(opened(tmp_path / "a.b2d"), ds)
    ds.chunk().b2kit.to_store(tmp_path / "lazy.b2d")
    xr.testing.assert_identical(opened(tmp_path / "lazy.b2d"), ds)
    b2kit.asarray(items, tmp_path / "one.b2nd")
    assert opened(tmp_path / "one.b2nd").one.shape == items.shape
    if items.ndim == 1:
        ds.b2kit.to_store(tmp_path / "a.b2d", append_dim="x")
        assert opened(tmp_path / "a.b2d").s.values.tolist() == letters * 2


def test_letters_of_netcdf_are_texts(tmp_path):
    netCDF4 = pytest.importorskip("netCDF4", reason="netCDF4 is not installed")
    import subprocess
    import sys

    for form in "NETCDF4", "NETCDF3_CLASSIC":
        path, store = tmp_path / f"{form}.nc", tmp_path / f"{form}.b2d"
        with netCDF4.Dataset(path, "w", format=form) as file:
            file.createDimension("x", 2)
            file.createDimension("letters", 3)
            file.createVariable("s", "S1", ("x", "letters"))[:] = netCDF4.stringtochar(np.array(["foo", "ba"], "S3"))
        subprocess.run([sys.executable, "-m", "b2kit", "convert", path, store], check=True)
        for found in xr.open_dataset(path, engine="netcdf4"), opened(path), opened(store):
            assert found.s.values.tolist() == [b"foo", b"ba"]
        assert opened(store, concat_characters=False).s.shape == (2, 3)
        # And back.
        subprocess.run([sys.executable, "-m", "b2kit", "convert", store, tmp_path / f"{form}.back.h5"], check=True)
        assert "_ARRAY_CHARACTERS" not in b2kit.hdf5.open(tmp_path / f"{form}.back.h5")._file.attrs("/")


def base():
    return xr.Dataset(
        {"a": (("t", "x"), np.ones((2, 3))), "b": ("t", [1, 2]), "c": ("x", [1, 2, 3])}, {"t": [0, 1], "x": [0, 1, 2]}
    )


@pytest.mark.parametrize("compute", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.drop_vars("b"),
        lambda ds: ds.drop_vars("t"),
        lambda ds: ds.drop_vars("a"),
        lambda ds: ds.assign(d=("t", [1, 2])),
        lambda ds: ds.assign(d=(("x", "t"), np.ones((3, 2)))),
        lambda ds: ds.drop_vars(["a", "c", "x"]).assign(a=ds.a, d=("x", [1, 2, 3])).isel(x=slice(2)),
    ],
)
def test_lengths_that_would_differ(tmp_path, change, compute):
    path = tmp_path / "a.b2d"
    base().b2kit.to_store(path)
    before, files = opened(path), listing(tmp_path)
    with pytest.raises(ValueError):
        change(base().assign_coords(t=[2, 3])).b2kit.to_store(path, append_dim="t", compute=compute)
    xr.testing.assert_identical(opened(path), before)
    assert listing(tmp_path) == files
    base().drop_vars("c").assign_coords(t=[2, 3]).assign(e=("x", [1, 2, 3])).b2kit.to_store(path, append_dim="t")
    assert opened(path).sizes["t"] == 4


def test_a_new_coordinate_of_the_dimension_is_refused(tmp_path):
    base().drop_vars("t").b2kit.to_store(tmp_path / "a.b2d")
    with pytest.raises(ValueError, match="'t'"):
        base().b2kit.to_store(tmp_path / "a.b2d", append_dim="t")
    assert opened(tmp_path / "a.b2d").sizes["t"] == 2


def test_a_group_is_replaced_alone(tmp_path):
    path = tmp_path / "a.b2d"
    base().b2kit.to_store(path)
    base().b2kit.to_store(path, group="part/y", mode="a")
    base().b2kit.to_store(path, group="part", mode="a")
    base().b2kit.to_store(path, group="other", mode="a")
    new = xr.Dataset({"new": ("q", [1.0])}, attrs={"title": "new"})
    new.b2kit.to_store(path, group="part", mode="w")
    tree = xr.open_datatree(path, engine="b2kit")
    assert set(tree.groups) == {"/", "/part", "/other"}
    xr.testing.assert_identical(opened(path), base())
    xr.testing.assert_identical(opened(path, group="other"), base())
    xr.testing.assert_identical(opened(path, group="part"), new)
    # A missing group, one in a missing store, and the root.
    new.b2kit.to_store(path, group="z/deep", mode="w")
    assert set(xr.open_datatree(path, engine="b2kit").groups) == {"/", "/part", "/other", "/z", "/z/deep"}
    new.b2kit.to_store(tmp_path / "b.b2d", group="x", mode="w")
    xr.testing.assert_identical(opened(tmp_path / "b.b2d", group="x"), new)
    new.b2kit.to_store(path, group="/", mode="w")
    assert set(xr.open_datatree(path, engine="b2kit").groups) == {"/"}


def rich():
    ds = xr.Dataset(
        {
            "f": (("t", "x"), RNG[0].astype("f4"), {"units": "K"}),
            "packed": (("t", "x"), np.round(RNG[1], 1)),
            "i": ("x", np.arange(3, dtype="i2")),
            "s": ("x", ["a", "bcd", ""]),
            "flag": ("x", [True, False, True]),
            "scalar": ((), 5.0),
            "u": ("x", np.array([1, 200, 255], "u1")),
        },
        {"t": np.arange("2020-01-01", "2020-01-05", dtype="M8[D]").astype("M8[ns]"), "x": [10, 20, 30]},
        attrs={"title": "rich"},
    )
    ds.packed.encoding = {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -1}
    return ds


WRITERS = {
    "b2kit": (lambda ds, path: ds.b2kit.to_store(path), ".b2d"),
    "zarr": (lambda ds, path: ds.to_zarr(path, zarr_format=3, consolidated=False), ".zarr"),
    "zarr2": (lambda ds, path: ds.to_zarr(path, zarr_format=2), ".zarr"),
    "netcdf4": (lambda ds, path: ds.to_netcdf(path, engine="netcdf4"), ".nc"),
    "h5netcdf": (lambda ds, path: ds.to_netcdf(path, engine="h5netcdf"), ".nc"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("chunks", [None, {}])
@pytest.mark.parametrize(
    "first, second", [(a, b) for a in WRITERS for b in WRITERS if "b2kit" in (a, b) or a in ("netcdf4", "h5netcdf")]
)
def test_between_engines(tmp_path, first, second, chunks):
    for name in {first.rstrip("2"), second.rstrip("2")} - {"b2kit"}:
        pytest.importorskip({"netcdf4": "netCDF4"}.get(name, name))
    engine = {"zarr2": "zarr"}.get(first, first)
    path = tmp_path / f"first{WRITERS[first][1]}"
    options = {"encoding": {"f": {"filters": ["bitshuffle"], "codec": "lz4"}}} if first == "b2kit" else {}
    if first == "b2kit":
        rich().b2kit.to_store(path, **options)
    elif first.startswith("zarr"):
        rich().to_zarr(path, zarr_format=2 if first == "zarr2" else 3, consolidated=False, encoding={"f": {"chunks": (2, 3)}})
    else:
        WRITERS[first][0](rich(), path)
    with xr.open_dataset(path, engine=engine, chunks=chunks) as ds:
        WRITERS[second][0](ds, tmp_path / f"second{WRITERS[second][1]}")
    with xr.open_dataset(tmp_path / f"second{WRITERS[second][1]}", engine={"zarr2": "zarr"}.get(second, second)) as ds:
        xr.testing.assert_allclose(ds, rich())
        assert ds.packed.encoding["dtype"] == "i2"
    if first == second == "b2kit":
        again = b2kit.open_group(tmp_path / "second.b2d").array("f")
        assert again.filters == ["bitshuffle"] and again.codec == "lz4"
    # Our engine reads NetCDF as well.
    if first in ("netcdf4", "h5netcdf"):
        with xr.open_dataset(path, engine="b2kit", chunks=chunks) as ds:
            xr.testing.assert_allclose(ds.compute(), rich())
            WRITERS[second][0](ds, tmp_path / f"third{WRITERS[second][1]}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_coordinates_of_several_dimensions(tmp_path, engine):
    """netCDF numbers the dimensions of a variable that has the name of its first one, such as a coordinate of letters."""
    pytest.importorskip({"netcdf4": "netCDF4"}.get(engine, engine))
    rng = np.random.default_rng(4)
    for n in range(8):
        lengths = dict(zip("tyx", rng.integers(1, 6, 3)))
        names = rng.integers(97, 123, (lengths["y"], 3), "u1").view("S3")[:, 0]
        ds = xr.Dataset(
            {
                "f": (("t", "y", "x"), rng.random(tuple(lengths.values()))),
                "s": (("x",), rng.integers(97, 123, (lengths["x"], 3), "u1").view("S3")[:, 0]),
            },
            {"y": names, "x": np.arange(lengths["x"]) * 0.5},
        )
        tree = xr.DataTree.from_dict({"/": ds, "/part": xr.Dataset({"g": ("y", rng.random(lengths["y"])), "z": ("z", names)})})
        # h5netcdf cannot write such a group.
        tree = tree if n % 2 and engine == "netcdf4" else xr.DataTree.from_dict({"/": ds})
        tree.to_netcdf(tmp_path / f"{n}.nc", engine=engine, unlimited_dims={"/": ["t"]} if n % 3 else None)
        for decode in True, False:
            with xr.open_datatree(tmp_path / f"{n}.nc", engine=engine, decode_cf=decode) as theirs:
                with xr.open_datatree(tmp_path / f"{n}.nc", engine="b2kit", decode_cf=decode) as own:
                    xr.testing.assert_equal(own, theirs)
                    assert all(dict(own[path].sizes) == dict(theirs[path].sizes) for path in theirs.groups)


@pytest.mark.filterwarnings("ignore")
def test_names_of_scipy(tmp_path):
    """SciPy writes names in Latin-1."""
    pytest.importorskip("scipy")
    rng = np.random.default_rng(3)
    for n in range(10):
        names = ["".join(chr(letter) for letter in rng.choice([97, 98, 0xE4, 0xE9, 0xFF], 4)) for _ in range(3)]
        ds = xr.Dataset({names[0]: (names[1], rng.random(5), {names[2]: 1})}, attrs={names[2]: "text"})
        ds.to_netcdf(tmp_path / f"{n}.nc", engine="scipy")
        with xr.open_dataset(tmp_path / f"{n}.nc", engine="b2kit") as own:
            xr.testing.assert_identical(own.compute(), ds)


@pytest.mark.filterwarnings("ignore")
def test_empty_datasets_between_engines(tmp_path):
    pytest.importorskip("zarr")
    pytest.importorskip("h5netcdf")
    ds = xr.Dataset({"a": (("t", "x"), np.ones((0, 3))), "s": ("t", np.empty(0, "U3"))})
    ds.b2kit.to_store(tmp_path / "a.b2d")
    with xr.open_dataset(tmp_path / "a.b2d") as again:
        again.to_zarr(tmp_path / "a.zarr", consolidated=False)
        again.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    assert xr.open_dataset(tmp_path / "a.zarr", engine="zarr", consolidated=False).a.shape == (0, 3)


@lazily
def test_unsigned_numbers_without_a_fill_value(tmp_path, lazy):
    netCDF4 = pytest.importorskip("netCDF4", reason="netCDF4 is not installed")
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        data = file.createVariable("u", "i1", ("x",))
        data.setncattr("_Unsigned", "true")
        data.set_auto_maskandscale(False)
        data[:] = np.array([1, -56, -1], "i1")
    for engine in "netcdf4", "b2kit":
        with xr.open_dataset(tmp_path / "a.nc", engine=engine, chunks={} if lazy else None) as ds:
            assert ds.u.values.tolist() == [1, 200, 255]
            ds.b2kit.to_store(tmp_path / f"{engine}.b2d")
        assert opened(tmp_path / f"{engine}.b2d").u.values.tolist() == [1, 200, 255]
        more = maybe_lazy(xr.Dataset({"u": ("x", np.array([250], "u1"))}), lazy)
        more.b2kit.to_store(tmp_path / f"{engine}.b2d", append_dim="x")
        assert opened(tmp_path / f"{engine}.b2d").u.values.tolist() == [1, 200, 255, 250]
        with pytest.raises(ValueError):
            xr.Dataset({"u": ("x", [300])}).b2kit.to_store(tmp_path / f"{engine}.b2d", append_dim="x")


@lazily
@pytest.mark.parametrize("text", ["a\0", b"a\0"])
def test_texts_that_items_of_a_fixed_size_would_cut_are_refused(tmp_path, lazy, text):
    ds = maybe_lazy(xr.Dataset({"s": ("x", np.array([text, text[:1]], object))}), lazy)
    with pytest.raises(ValueError, match="ends with a NUL(?s:.*)'s'"):
        ds.b2kit.to_store(tmp_path / "a.b2d")
    assert listing(tmp_path) == []
    inner = text[:1] + text[1:] + text[:1]
    xr.Dataset({"s": ("x", np.array([inner, ""], object))}).b2kit.to_store(tmp_path / "a.b2d")
    assert opened(tmp_path / "a.b2d").s.values.tolist()[0] == inner
    with pytest.raises(ValueError, match="does not fit"):
        ds.b2kit.to_store(tmp_path / "a.b2d", append_dim="x")


@lazily
def test_times_of_other_calendars_are_appended_and_replaced(tmp_path, lazy):
    cftime = pytest.importorskip("cftime")
    path = tmp_path / "a.b2d"
    times = np.array([cftime.DatetimeNoLeap(2000, 1, 1), cftime.DatetimeNoLeap(1879, 10, 3, 7)], object)
    xr.Dataset({"t": ("x", times)}).b2kit.to_store(path)
    more = maybe_lazy(opened(path), lazy)
    more.b2kit.to_store(path, append_dim="x")
    more.isel(x=[1]).b2kit.to_store(path, region={"x": slice(2, 3)})
    assert opened(path).t.values.tolist() == [*times, times[1], times[1]]
    before = listing(path), opened(path)
    for wrong in cftime.DatetimeNoLeap(2000, 1, 1, 0, 30), cftime.DatetimeGregorian(2000, 1, 1):
        ds = maybe_lazy(xr.Dataset({"t": ("x", np.array([wrong], object))}), lazy)
        # xarray refuses lazy times that are not whole numbers.
        with pytest.raises((b2kit.Error, ValueError)):
            ds.b2kit.to_store(path, append_dim="x")
        assert listing(path) == before[0] and opened(path).identical(before[1])


@pytest.mark.parametrize("dtype", ["i8", "i4", "f8"])
def test_lazy_times_of_other_calendars_are_written_again(tmp_path, dtype):
    cftime = pytest.importorskip("cftime", reason="cftime is not installed")
    bounds = np.array([[cftime.DatetimeNoLeap(2000, month, day) for day in (1, 15)] for month in range(1, 7)])
    ds = xr.Dataset({"bounds": (("t", "bound"), bounds)}, {"t": range(6)})
    encoding = {"bounds": {"units": "days since 1990-01-01", "dtype": dtype, "chunks": (2, 2)}}
    ds.b2kit.to_store(tmp_path / "a.b2d", encoding=encoding)
    with xr.open_dataset(tmp_path / "a.b2d", chunks={}) as lazy:
        lazy.b2kit.to_store(tmp_path / "b.b2d")
        again = opened(tmp_path / "b.b2d")
        xr.testing.assert_identical(again, ds)
        assert again.bounds.encoding["units"] == "days since 1990-01-01"
        hour = datetime.timedelta(hours=1)
        later = lazy.assign(bounds=lazy.bounds.copy(data=lazy.bounds.data.map_blocks(lambda times: times + hour, dtype=object)))
        if dtype[0] == "i":
            with pytest.raises(ValueError):
                later.b2kit.to_store(tmp_path / "c.b2d")
        else:
            later.b2kit.to_store(tmp_path / "c.b2d")
            xr.testing.assert_identical(opened(tmp_path / "c.b2d"), later.compute())


TEXTS = [np.array(["föö", "a", "c"]), np.array([b"foo", b"a", b"c"])]
if hasattr(np.dtypes, "StringDType"):
    TEXTS.append(np.array(["föö", "a", "c"], np.dtypes.StringDType(na_object=np.nan)))


@lazily
@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_texts_are_empty(tmp_path, lazy, texts, missing):
    """Whether the type was read from a file, is asked for, or is that of the store."""
    path, empty = tmp_path / "a.b2d", texts.tolist()[0][:0]
    ds = xr.Dataset({"s": ("x", texts)}, {"x": [0, 1, 2]})
    ds.b2kit.to_store(path)
    with xr.open_dataset(path, chunks={} if lazy else None) as there:
        there.reindex(x=[0, 2, 7]).b2kit.to_store(tmp_path / "b.b2d")
    assert opened(tmp_path / "b.b2d").s.values.tolist() == [*texts[[0, 2]], empty]
    if texts.dtype.kind == "T" and missing is None:
        return
    parts = np.array([texts[0], missing], texts.dtype if texts.dtype.kind == "T" else object)
    new = maybe_lazy(xr.Dataset({"s": ("x", parts)}, {"x": [3, 4]}), lazy)
    for dtype in None, f"{texts.dtype.kind.replace('T', 'U')}5":
        new.b2kit.to_store(tmp_path / "c.b2d", mode="w", encoding={"s": {} if dtype is None else {"dtype": dtype}})
        assert opened(tmp_path / "c.b2d").s.values.tolist() == [texts[0], empty]
    if texts.dtype.kind != "S":
        new.b2kit.to_store(tmp_path / "c.b2d", mode="w", encoding={"s": {"dtype": "S1"}})
        assert opened(tmp_path / "c.b2d").s.values.tolist() == [texts[0], empty]
    new.b2kit.to_store(path, append_dim="x")
    new.drop_vars("x").b2kit.to_store(path, region={"x": slice(1, 3)})
    assert opened(path).s.values.tolist() == [texts[0], texts[0], empty, texts[0], empty]


@lazily
def test_missing_booleans(tmp_path, lazy):
    path = tmp_path / "a.b2d"
    xr.Dataset({"b": ("x", [True, False])}).b2kit.to_store(path)
    with xr.open_dataset(path, chunks={} if lazy else None) as there:
        shifted = there.shift(x=1)
        shifted.b2kit.to_store(tmp_path / "b.b2d")
        np.testing.assert_array_equal(opened(tmp_path / "b.b2d").b, [np.nan, 1])
        with pytest.raises(ValueError, match="nan does not fit"):
            shifted.load().b2kit.to_store(path, append_dim="x")
    assert opened(path).b.values.tolist() == [True, False]


@lazily
@pytest.mark.parametrize("kind", "mM")
@pytest.mark.parametrize("dtype", ["8[ns]", "8[s]", "u8", "f4"])
def test_types_of_times_in_the_encoding(tmp_path, lazy, kind, dtype):
    """Of any kind, in units that differ from those of the times, and of which Dask knows another type."""
    times = np.array([0, 48, 96], "m8[h]").astype("m8[us]") + np.array(0, f"{kind}8[us]")
    units = "days" + " since 1970-01-01" * (kind == "M")
    ds = maybe_lazy(xr.Dataset({"t": ("x", times)}), lazy)
    dtype = kind + dtype if dtype[0] == "8" else dtype
    ds.b2kit.to_store(tmp_path / "a.b2d", encoding={"t": {"dtype": dtype, "units": units}})
    found = opened(tmp_path / "a.b2d", decode_timedelta=True)
    assert (found.t.values == times).all() and found.t.dtype.kind == kind and found.t.encoding["units"] == units
