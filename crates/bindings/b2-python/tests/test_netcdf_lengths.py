"""Variables of netCDF are as long as their dimensions, whatever was written, as netCDF4-python shows them."""

import subprocess
import sys

import numpy as np
import pytest

import b2kit
import b2kit.hdf5
from conftest import many

netCDF4 = pytest.importorskip("netCDF4", reason="netCDF4 is not installed")
xr = pytest.importorskip("xarray", reason="xarray is not installed")

TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", ">i2", ">f8", "S1"]


def dimension(group, name):
    while name not in group.dimensions:
        group = group.parent
    return group.dimensions[name]


def write(path, rng):
    """Writes variables that have parts of their dimensions, in groups that share dimensions. Returns what was written."""
    written = {}
    with netCDF4.Dataset(path, "w") as file:
        groups = [file]
        if rng.random() < 0.5:
            groups.append(file.createGroup("g"))
            if rng.random() < 0.5:
                groups.append(groups[1].createGroup("h"))
        places = {}
        for depth, group in enumerate(groups):
            for n in range(rng.integers(1, 4)):
                group.createDimension(f"d{depth}{n}", None if rng.random() < 0.7 else int(rng.integers(1, 5)))
                places[f"d{depth}{n}"] = depth
        later = []
        for depth, group in enumerate(groups):
            names = [name for name, place in places.items() if place <= depth]
            for n in range(rng.integers(1, 5)):
                dims = [str(name) for name in rng.permutation(names)[: rng.integers(1, 4)]]
                name, own = f"v{depth}{n}", [name for name in names if places[name] == depth and name not in group.variables]
                if own and rng.random() < 0.3:
                    # A variable with the name of its dimension.
                    name = str(rng.choice(own))
                    dims = [name]
                kind, options = str(rng.choice(TYPES)), {}
                if rng.random() < 0.3 and kind != "S1":
                    options["fill_value"] = 7
                elif rng.random() < 0.2:
                    options["fill_value"] = False
                data = group.createVariable(name, kind.lstrip(">"), dims, endian="big" if kind[0] == ">" else "native", **options)
                data.set_auto_mask(False)
                fill = options.get("fill_value") or (b"" if kind == "S1" else netCDF4.default_fillvals[kind.lstrip(">")])
                written[data.group().path, name] = fill, np.empty([0] * len(dims), data.dtype)
                if rng.random() < 0.8:
                    later.append((group, data))
        for at in rng.permutation(len(later)):
            group, data = later[at]
            lengths = [dimension(group, dim) for dim in data.dimensions]
            shape = [int(rng.integers(1, 5)) if dim.isunlimited() else len(dim) for dim in lengths]
            items = np.full(shape, b"x") if data.dtype == "S1" else rng.integers(0, 100, shape)
            data[tuple(slice(0, length) for length in shape)] = items
            written[group.path, data.name] = written[group.path, data.name][0], items
    return written


def expected(data, fill, items):
    """Returns the items of a variable: those that were written, and fill values."""
    whole = np.full(data.shape, fill, data.dtype)
    whole[tuple(slice(0, length) for length in items.shape)] = items
    if data.ndim == 1:
        # With several dimensions netCDF 4.9 returns arbitrary bytes after the written items.
        np.testing.assert_array_equal(data[...], whole)
    return whole


def walk(group):
    yield group
    for below in group.groups.values():
        yield from walk(below)


@pytest.mark.parametrize("seed", range(many(60)))
def test_lengths_are_those_of_the_dimensions(tmp_path, seed):
    path, store = str(tmp_path / "a.nc"), str(tmp_path / "a.b2d")
    written = write(path, np.random.default_rng(seed))
    subprocess.run([sys.executable, "-m", "b2kit", "convert", path, store, "--verify"], check=True, capture_output=True)
    options = {"mask_and_scale": False, "concat_characters": False, "engine": "b2kit"}
    found = b2kit.hdf5.open(path)
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        for group in walk(file):
            for source in path, store:
                if not group.variables and source == store:
                    continue
                with xr.open_dataset(source, group=group.path, **options) as ds:
                    assert set(ds.variables) == set(group.variables)
                    for name, data in group.variables.items():
                        data.set_auto_chartostring(False)
                        assert ds[name].dims == data.dimensions, name
                        whole = expected(data, *written[group.path, name])
                        np.testing.assert_array_equal(ds[name].values, whole, f"{group.path} {name} {source}")
                    if source == path:
                        used = {dim for data in group.variables.values() for dim in data.dimensions}
                        assert ds.encoding["unlimited_dims"] == {d for d in used if dimension(group, d).isunlimited()}
            for name, data in group.variables.items():
                # Parts, and rows that HDF5 does not have.
                whole = expected(data, *written[group.path, name])
                if whole.size:
                    array = found[f"{group.path.rstrip('/')}/{name}"]
                    assert array.shape == whole.shape
                    np.testing.assert_array_equal(array[-1], whole[-1])
                    np.testing.assert_array_equal(array[..., ::-2], whole[..., ::-2])
