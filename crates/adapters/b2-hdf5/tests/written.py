"""Reads the files of written.rs with h5py, netCDF4 and xarray, and with h5dump and h5repack where they are installed.

    python written.py FOLDER
"""

import ast
import json
import os
import pathlib
import shutil
import subprocess
import sys

import hdf5plugin

os.environ.setdefault("HDF5_PLUGIN_PATH", hdf5plugin.PLUGIN_PATH)
import h5py
import netCDF4
import numpy as np
import xarray as xr

folder = pathlib.Path(sys.argv[1])
entries = json.loads((folder / "entries.json").read_text())
CODECS = ["blosc2", "gzip", "none"]
FILTERS = {"blosc2": ["32026"], "gzip": ["shuffle", "gzip"], "none": []}
counts = {"h5py": 0, "netCDF4": 0, "xarray": 0}


def expected(entry):
    text = entry["dtype"]
    kind = np.dtype(ast.literal_eval(text) if text[0] in "[{" else text)
    return np.frombuffer((folder / entry["bin"]).read_bytes(), kind).reshape(entry["shape"])


def same(found, wanted):
    if wanted.dtype.names:
        return all(same(found[name], wanted[name]) for name in wanted.dtype.names)
    if wanted.dtype.kind == "V":
        return found.tobytes() == wanted.tobytes()
    if wanted.dtype.kind in "fc":
        return np.array_equal(found, wanted, equal_nan=True)
    return np.array_equal(found, wanted)


def check_h5py(entry):
    wanted = expected(entry)
    with h5py.File(folder / entry["file"]) as f:
        data = f[entry["path"]]
        assert data.shape == wanted.shape
        if wanted.ndim and wanted.size:
            assert data.chunks == tuple(entry["chunks"]), data.chunks
        kind = wanted.dtype.kind
        names = list(data._filters)
        if wanted.ndim and wanted.size and kind != "U":
            filters = FILTERS[entry["codec"]]
            if wanted.dtype.itemsize == 1:
                filters = [name for name in filters if name != "shuffle"]
            assert names == filters, names
        if kind == "U":
            assert h5py.check_string_dtype(data.dtype).length is None
            found = np.vectorize(bytes.decode)(np.asarray(data[()], dtype=object)) if wanted.ndim else data[()].decode()
        else:
            found = data[()]
            if kind in "Mm":
                assert data.attrs["units"].startswith("milliseconds since" if kind == "M" else "hours")
                found = found.view(wanted.dtype)
            else:
                assert data.dtype == wanted.dtype or kind == "V", (data.dtype, wanted.dtype)
        assert same(np.asarray(found), wanted), (found, wanted)
        # Parts, too.
        if wanted.ndim == 2 and kind not in "UMm" and wanted.size:
            assert same(data[1:4, 1:], wanted[1:4, 1:])
    counts["h5py"] += 1


def check_attrs(name):
    with h5py.File(folder / name) as f:
        assert f.attrs["title"] == "all"
        attrs = dict(f["attrs"].attrs)
        assert list(f["attrs"].attrs)[:3] == ["text", "none", "int"]
    assert attrs["text"] == "bänk" and attrs["none"] == "" and attrs["int"] == -5
    assert attrs["large"] == 2**64 - 1 and attrs["float"] == 0.1 and attrs["single"].dtype == "f4"
    assert attrs["truth"] == True and attrs["truth"].dtype == bool  # noqa: E712
    assert attrs["ints"].tolist() == [1, -2] and attrs["floats"].tolist() == [0.5, 2]
    assert attrs["texts"].tolist() == ["a", "", "ü"] and attrs["array"].tolist() == [5, 6]
    assert attrs["complex"] == 1.5 - 2j and attrs["_FillValue"] == 7 and attrs["_FillValue"].dtype == "i4"
    counts["h5py"] += 1


ramp = np.arange(120, dtype="f4").reshape(4, 5, 6) / 4


def check_dims(name):
    path = folder / name
    with h5py.File(path) as f:
        scales = [[scale.name for scale in dim.values()] for dim in f["temperature"].dims]
        assert scales == [["/time"], ["/lat"], ["/lon"]], scales
        assert [[s.name for s in dim.values()] for dim in f["inner/wind"].dims] == [["/lat"], ["/inner/level"]]
        assert [[s.name for s in dim.values()] for dim in f["inner/odd"].dims] == [[]]
        assert f["lat"].is_scale and f["corner"].is_scale and not f["plain"].is_scale
        assert list(f) == ["temperature", "lat", "lon", "time", "names", "flags", "plain", "inner", "corner"], list(f)
        counts["h5py"] += 1
    with netCDF4.Dataset(path) as f:
        assert f["temperature"].dimensions == ("time", "lat", "lon")
        assert f["flags"].dimensions == ("lat", "corner") and "corner" not in f.variables
        assert f["inner/wind"].dimensions == ("lat", "level")
        assert f.dimensions["corner"].size == 2 and f["temperature"].units == "K"
        assert np.array_equal(f["temperature"][:], ramp)
        assert f["names"][1] == "t1ä日", f["names"][:]
        counts["netCDF4"] += 1
    with netCDF4.Dataset(path, "a") as f:
        # The file can be changed.
        f.createDimension("more", 3)
        f.createVariable("more", "i4", ("more",))[:] = [1, 2, 3]
        f["lat"].units = "degrees_north"
    with netCDF4.Dataset(path) as f:
        assert f["more"][:].tolist() == [1, 2, 3] and np.array_equal(f["temperature"][:], ramp)
        counts["netCDF4"] += 1
    for engine in ["netcdf4", "h5netcdf"]:
        with xr.open_dataset(path, engine=engine) as ds:
            assert ds["temperature"].dims == ("time", "lat", "lon")
            assert ds["temperature"].attrs["units"] == "K"
            assert np.array_equal(ds["temperature"].values, ramp)
            assert ds["time"].values[3] == np.datetime64("1970-01-01T00:00:03")
            assert ds["lat"].values.tolist() == [0, 0.125, 0.25, 0.375, 0.5]
            assert ds.sizes["corner"] == 2
            counts["xarray"] += 1


for entry in entries:
    try:
        check_h5py(entry)
    except Exception as error:
        raise SystemExit(f"{entry}: {error!r}")
for codec in CODECS:
    check_attrs(f"kinds-{codec}.h5")
    with netCDF4.Dataset(folder / f"kinds-{codec}.h5") as f:
        for dtype in ["i1", "u1", "i2", "i4", "i8", "u8", "f4", "f8", "big-i2", "big-u4", "big-f8"]:
            entry = next(e for e in entries if e["path"] == f"group/kind-{dtype}")
            assert same(np.asarray(f[f"group/kind-{dtype}"][:]), expected(entry)), dtype
            counts["netCDF4"] += 1
    check_dims(f"dims-{codec}.h5")
    for tool in [["h5dump", "-H", "-p"], ["h5stat"], ["h5ls", "-r"]]:
        if shutil.which(tool[0]):
            subprocess.run([*tool, folder / f"kinds-{codec}.h5"], check=True, capture_output=True)
            counts[tool[0]] = counts.get(tool[0], 0) + 1
if shutil.which("h5repack"):
    for codec in ["gzip", "none"]:
        packed = folder / f"repacked-{codec}.h5"
        # h5repack -f refuses any data set without items.
        subprocess.run(["h5repack", folder / f"kinds-{codec}.h5", packed], check=True)
        subprocess.run(["h5repack", "-f", "GZIP=1", folder / f"dims-{codec}.h5", folder / "dims.h5"], check=True)
        with xr.open_dataset(folder / "dims.h5", engine="h5netcdf") as ds:
            assert np.array_equal(ds["temperature"].values, ramp) and ds["temperature"].dims[0] == "time"
        for entry in entries:
            if entry["codec"] == codec and "U" not in entry["dtype"]:
                with h5py.File(packed) as f:
                    found = f[entry["path"]][()]
                    wanted = expected(entry)
                    assert same(np.asarray(found.view(wanted.dtype) if wanted.dtype.kind in "Mm" else found), wanted)
        counts["h5repack"] = counts.get("h5repack", 0) + 1
print(", ".join(f"{tool} {count}" for tool, count in counts.items()))
for tool in ["h5dump", "h5repack"]:
    if not shutil.which(tool):
        print(f"NOT RUN: {tool} is not installed")
