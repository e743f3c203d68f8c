"""Writes the small files next to it, for tests that run without Python.

    python make.py

Existing files do not change; a new case gets a new file.
"""

import pathlib

import h5py
import hdf5plugin
import netCDF4
import numpy as np

folder = pathlib.Path(__file__).parent
ramp = np.arange(200, dtype="<i4").reshape(10, 20)

with h5py.File(folder / "small.h5", "w") as f:
    f.attrs["title"] = "small"
    group = f.create_group("group")
    data = group.create_dataset("ramp", data=ramp, chunks=(4, 6), compression="gzip", shuffle=True, fletcher32=True)
    data.attrs["units"] = "K"
    group["lat"] = np.arange(10.0)
    group["lat"].make_scale("lat")
    data.dims[0].attach_scale(group["lat"])
    blosc2 = hdf5plugin.Blosc2(cname="lz4", clevel=5, filters=hdf5plugin.Blosc2.SHUFFLE)
    group.create_dataset("blosc2", data=ramp.astype("<f4"), chunks=(4, 6), **blosc2)
    group.create_dataset("names", data=["a", "bänk", ""], dtype=h5py.string_dtype())
    group["soft"] = h5py.SoftLink("/group/ramp")
    group["odd"] = h5py.Empty("<f4")
    f["scalar"] = np.int64(-5)

with h5py.File(folder / "latest.h5", "w", libver="latest") as f:
    f.create_dataset("fixed", data=ramp, chunks=(4, 6), compression="gzip")
    f.create_dataset("extensible", data=ramp, chunks=(4, 6), maxshape=(None, 20))
    f.create_dataset("tree", data=ramp, chunks=(4, 6), maxshape=(None, None), compression="lzf")
    f.create_dataset("single", data=ramp, chunks=(10, 20), compression="gzip")
    for n in range(12):
        f["fixed"].attrs[f"a{n}"] = n

with netCDF4.Dataset(folder / "three.nc", "w", format="NETCDF3_CLASSIC") as f:
    f.title = "three"
    f.createDimension("time", None)
    f.createDimension("x", 3)
    f.createVariable("t", "f8", ("time",))[:] = np.arange(4) / 2
    values = f.createVariable("v", "i2", ("time", "x"))
    values.scale_factor, values.units = 0.5, "m"
    f.set_auto_maskandscale(False)
    values[:] = np.arange(12).reshape(4, 3)

# Small enough for a fuzzer.
for name, libver, options in [("tiny", "earliest", {}), ("tiny_latest", "latest", dict(chunks=(2, 4), compression="gzip"))]:
    with h5py.File(folder / f"{name}.h5", "w", libver=libver) as f:
        f.create_dataset("d", data=ramp[:2, :6], **options).attrs["a"] = 0.5
