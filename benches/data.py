"""Data for `bench.py speed`: flat little-endian files and datasets.json, which describes them.

    data.py FOLDER NAMES [FILE.npy ...]

NAMES are the requested sets, separated by commas; empty for all of them.
Deterministic: numbered PCG64 generators. Existing files of the right size are kept. The .npy files
are real arrays; their items are written as they are, without the header.
"""

import json
import os
import sys

import numpy as np

MB = 1 << 20
SIZE = 32 * MB


def rng(seed):
    return np.random.Generator(np.random.PCG64(seed))


def linspace_f64(n):
    return np.linspace(0.0, 1000.0, n, dtype="<f8")


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


def image_u16(n):
    """Frames of a detector: spots and photon noise."""
    ny = nx = 1024
    r = rng(4)
    y, x = np.mgrid[0:ny, 0:nx].astype("f4")
    image = np.full((ny, nx), 20.0, "f4")
    for _ in range(25):
        cx, cy = r.uniform(0, nx), r.uniform(0, ny)
        size, height = r.uniform(5, 60), r.uniform(50, 3000)
        image += (height * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (2 * size * size))).astype("f4")
    frames = [np.minimum(r.poisson(image), 65535).astype("<u2") for _ in range(n // (ny * nx))]
    return np.concatenate(frames)


def text_u8(n):
    """Words of an invented language, with numbers in between."""
    r = rng(5)
    words = [bytes(r.integers(97, 123, r.integers(2, 11)).astype("u1")) + b" " for _ in range(4000)]
    picks = np.minimum(r.zipf(1.3, n // 4), 4000) - 1
    parts, size = [], 0
    for k, pick in enumerate(picks.tolist()):
        part = b"%d.%02d\n" % (k % 100000, pick % 100) if k % 23 == 22 else words[pick]
        parts.append(part)
        size += len(part)
        if size >= n:
            break
    return np.frombuffer(b"".join(parts)[:n].ljust(n, b" "), "u1")


def category_u8(n):
    """Codes of categories, in runs."""
    r = rng(6)
    share = np.array([30, 20, 15, 10, 8, 5, 4, 3, 2, 1, 1, 1]) / 100.0
    runs = r.geometric(1 / 12.0, n // 6)
    return np.resize(np.repeat(r.choice(12, n // 6, p=share).astype("u1"), runs)[:n], n)


def random_u8(n):
    return np.frombuffer(rng(7).bytes(n), "u1")


def zeros_f64(n):
    return np.zeros(n, "<f8")


def repeat_f32(n):
    """200 values in short runs."""
    r = rng(8)
    values = r.normal(100, 25, 200).astype("<f4")
    runs = r.geometric(1 / 8.0, n // 4)
    return np.resize(np.repeat(values[r.integers(0, 200, n // 4)], runs)[:n], n)


def constant_f32(n):
    return np.full(n, 1.5, "<f4")


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


# Name: bytes per item, bytes, generator of this many items.
SETS = {
    "linspace_f64": (8, SIZE, linspace_f64),
    "walk_f32": (4, SIZE, walk_f32),
    "smooth_f32": (4, SIZE, smooth_f32),
    "counter_i32": (4, SIZE, counter_i32),
    "stamps_i64": (8, SIZE, stamps_i64),
    "image_u16": (2, SIZE, image_u16),
    "text_u8": (1, SIZE, text_u8),
    "category_u8": (1, SIZE, category_u8),
    # Passed as items of four bytes, so that filters have work to do.
    "random_u8": (4, SIZE, lambda n: random_u8(4 * n)),
    "zeros_f64": (8, SIZE, zeros_f64),
    "repeat_f32": (4, SIZE, repeat_f32),
    "walk_f32_small": (4, 8 * MB, walk_f32),
    "constant_f32": (4, SIZE, constant_f32),
    "field_f32": (4, 160_000_000, field_f32),
}
for size in [3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 24]:
    SETS[f"items_{size}"] = (size, 8 * MB // size * size, lambda n, size=size: items(size, n))


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
    for npy in sys.argv[3:]:
        name = os.path.splitext(os.path.basename(npy))[0]
        if names and name not in names:
            continue
        data = np.ascontiguousarray(np.load(npy))
        data.tofile(os.path.join(folder, name + ".bin"))
        sets[name] = {"typesize": data.dtype.itemsize, "nbytes": data.nbytes, "real": True}
    with open(os.path.join(folder, "datasets.json"), "w") as f:
        json.dump(sets, f, indent=1)


main()
