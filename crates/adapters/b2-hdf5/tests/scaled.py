"""Writes packed numbers of all kinds, and the values that xarray decodes.

    python scaled.py FOLDER

For each file NAME.nc with the variable v there is NAME.npy, which xarray decoded. xarray looks for missing numbers
after rounding to floats, and misreads the byte order of some, so it misses a few and marks others as
missing. These are corrected here, and counted.
"""

import itertools
import pathlib
import sys
import warnings

import netCDF4
import numpy as np
import xarray as xr

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
f4, f8 = np.float32, np.float64
FACTORS = {
    "none": {},
    "factor4": {"scale_factor": f4(0.01)},
    "factor8": {"scale_factor": f8(0.01)},
    "offset4": {"add_offset": f4(273.15)},
    "offset8": {"add_offset": f8(273.15)},
    "both4": {"scale_factor": f4(0.01), "add_offset": f4(273.15)},
    "both8": {"scale_factor": f8(0.01), "add_offset": f8(273.15)},
    "mixed": {"scale_factor": f4(0.01), "add_offset": f8(273.15)},
    "unmixed": {"scale_factor": f8(0.01), "add_offset": f4(273.15)},
}
names = []
mended = []
warnings.simplefilter("ignore")
for dtype, (factors, attrs), fills, form in itertools.product(
    ["i1", "u1", "i2", ">i2", "u2", "i4", "u4", "i8", "u8", "f4", ">f4", "f8"],
    FACTORS.items(),
    ["none", "fill", "missing", "two", "unsigned", "signed"],
    ["NETCDF4", "NETCDF3_CLASSIC"],
):
    kind = np.dtype(dtype)
    classic = form == "NETCDF3_CLASSIC"
    if classic and (kind.kind == "u" or kind.itemsize == 8 and kind.kind != "f" or dtype.startswith(">")):
        continue
    if kind.kind != {"unsigned": "i", "signed": "u"}.get(fills, kind.kind):
        continue
    if fills == "none" and not attrs:
        continue
    name = f"{dtype.replace('>', 'b')}-{factors}-{fills}-{form.lower()}"
    rng = np.random.default_rng(len(names))
    if kind.kind == "f":
        values = rng.normal(0, 1000, 60).astype(kind)
        lone, other = kind.type(1e20), kind.type(-999.5)
        values[5] = np.nan
    else:
        info = np.iinfo(kind)
        values = rng.integers(info.min, info.max, 60, dtype=kind.newbyteorder("="), endpoint=True).astype(kind)
        values[:4] = [info.min, info.max, 0, 1]
        lone, other = kind.type(info.max), kind.type(info.min)
    values[[10, 20]] = lone
    values[30] = other
    with netCDF4.Dataset(folder / f"{name}.nc", "w", format=form) as f:
        f.createDimension("x", 60)
        endian = "big" if dtype.startswith(">") else "native"
        fill = lone if fills in ("fill", "two", "unsigned", "signed") else None
        data = f.createVariable("v", kind.newbyteorder("="), ("x",), fill_value=fill, endian=endian)
        f.set_auto_maskandscale(False)
        data[:] = values
        if fills == "missing":
            data.missing_value = np.array([lone, other], dtype=kind.newbyteorder("="))
        if fills == "two":
            data.missing_value = other
        if fills == "unsigned":
            data.setncattr("_Unsigned", "true")
        if fills == "signed":
            data.setncattr("_Unsigned", "false")
        data.setncatts({**attrs, "units": "K"})
    with xr.open_dataset(folder / f"{name}.nc", engine="netcdf4", decode_times=False) as ds:
        decoded = ds["v"].values
    assert decoded.dtype.kind == "f", (name, decoded.dtype)
    missing = {"none": [], "fill": [lone], "unsigned": [lone], "signed": [lone]}.get(fills, [lone, other])
    is_missing = np.isin(values, missing)
    packed = values.astype(kind.newbyteorder("="))
    if fills == "unsigned":
        packed = packed.view(packed.dtype.str.replace("i", "u"))
    if fills == "signed":
        packed = packed.view(packed.dtype.str.replace("u", "i"))
    number = packed.astype(decoded.dtype)
    if "scale_factor" in attrs:
        number = number * decoded.dtype.type(attrs["scale_factor"])
    if "add_offset" in attrs:
        number = number + decoded.dtype.type(attrs["add_offset"])
    expected = np.where(is_missing, decoded.dtype.type(np.nan), number)
    differs = ~((decoded == expected) | (np.isnan(decoded) & np.isnan(expected)))
    if differs.any():
        # Only missing numbers, and those that round to one.
        assert (np.isnan(decoded) != np.isnan(expected))[differs].all(), (name, decoded, expected)
        assert kind.itemsize > 2 or dtype.startswith(">"), name
        mended.append(name)
    decoded = expected
    np.save(folder / f"{name}.npy", decoded.astype(decoded.dtype.newbyteorder("<")))
    names.append(name)
(folder / "names.txt").write_text("\n".join(names) + "\n")
print(f"{len(names)} variables, in {len(mended)} of them xarray misses missing numbers or sees others")
