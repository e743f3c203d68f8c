"""Compares `b2kit.h5py` with h5py, hdf5plugin and pyfive: the same files and the same process, by turns.

    python hdf5.py FOLDER [ROUNDS] [WORD]

FOLDER is where the files are created, at most 164 MB each. Only the cases with WORD in their name are measured. Prints the medians of
h5py's times divided by those of b2kit with one and two threads, and by those of pyfive: of the clock, and of processor time. pyfive and
anndata are left out where they are not installed. All results are compared with h5py's.
"""

import importlib
import pathlib
import statistics
import sys
import time
import warnings

import b2kit.h5py
import h5py
import hdf5plugin
import numpy as np


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed, and not measured")


warnings.simplefilter("ignore")
pyfive, anndata = optional("pyfive"), optional("anndata")
if anndata:
    import scipy.sparse

    b2kit.h5py.use_in_anndata()
SHAPE, CHUNKS, BOX = (64, 800, 800), (8, 200, 400), 16
rng = np.random.default_rng(0)


def items():
    grid = np.add.outer(np.sin(np.arange(800) / 50), np.cos(np.arange(800) / 70)).astype("f4")
    noise = rng.normal(0, 0.01, grid.shape).astype("f4")
    # Multiples of 1/64: like measured values, whose low bits are zeros.
    return np.stack([(np.round((grid * (1 + n / 100) + noise) * 64) / 64).astype("f4") for n in range(SHAPE[0])])


def array(**options):
    return lambda file: file.create_dataset("group/data", data=items(), chunks=CHUNKS, **options)


def matrix(**options):
    def make(file):
        # Counts, as of genes in cells.
        cells = scipy.sparse.random(20_000, 2_000, 0.08, "csr", np.float32, rng)
        cells.data[:] = rng.integers(1, 40, cells.nnz)
        anndata.io.write_elem(file, "X", cells, dataset_kwargs=options)

    return make


def many(file):
    for n in range(10_000):
        file[f"group {n % 100}/data {n}"] = np.arange(50, dtype="f4")


def texts(file):
    file.create_dataset("data", data=[f"text {n} {'x' * (n % 30)}" for n in range(500_000)], dtype=h5py.string_dtype())


def sequences(file):
    data = file.create_dataset("data", (100_000,), h5py.vlen_dtype("<i4"))
    parts = np.empty(100_000, object)
    parts[:] = [np.arange(n % 20, dtype="i4") for n in range(100_000)]
    data[:] = parts


FILES = {
    "32001 lz4": array(**hdf5plugin.Blosc(cname="lz4", clevel=5, shuffle=hdf5plugin.Blosc.SHUFFLE)),
    "32026 lz4": array(**hdf5plugin.Blosc2(cname="lz4", clevel=5, filters=hdf5plugin.Blosc2.SHUFFLE)),
    "32026 zstd": array(**hdf5plugin.Blosc2(cname="zstd", clevel=5, filters=hdf5plugin.Blosc2.SHUFFLE)),
    "32008 lz4": array(**hdf5plugin.Bitshuffle(cname="lz4")),
    "32008 zstd": array(**hdf5plugin.Bitshuffle(cname="zstd", clevel=3)),
    "32015, shuffle": array(shuffle=True, **hdf5plugin.Zstd(clevel=3)),
    "32013 rate 16": array(**hdf5plugin.Zfp(rate=16)),
    "gzip 4, shuffle": array(compression="gzip", compression_opts=4, shuffle=True),
    "none": array(),
    "contiguous": lambda file: file.create_dataset("group/data", data=items()),
    "csr, gzip": matrix(compression="gzip", compression_opts=4),
    "csr": matrix(),
    "10,000 data sets": many,
    "500,000 texts": texts,
    "100,000 sequences": sequences,
}


def read_whole(file):
    return file["group/data"][...]


def read_boxes(file):
    at = [[(n * 7919 + 13) * 31 % (length - BOX + 1) for length in SHAPE] for n in range(50)]
    return [file["group/data"][tuple(slice(a, a + BOX) for a in one)] for one in at]


def read_matrix(file):
    return [anndata.io.read_elem(file["X"]).data]


def read_rows(file):
    rows = np.sort(np.random.default_rng(1).choice(20_000, 500, replace=False))
    return [anndata.io.sparse_dataset(file["X"])[rows].data]


def read_shapes(file):
    return [(data.shape, data.dtype) for group in file.values() for data in group.values()]


def read_all(file):
    return [data[()] for group in file.values() for data in group.values()]


def read_items(file):
    return list(file["data"][:])


def reads(name):
    """Returns the ways to read a file, by name, and whether pyfive can."""
    if name.startswith("csr"):
        return {"all": (read_matrix, False), "500 random rows": (read_rows, False)} if anndata else {}
    if "data sets" in name:
        return {"shapes": (read_shapes, True), "items": (read_all, True)}
    if "texts" in name or "sequences" in name:
        return {"all": (read_items, "texts" in name)}
    is_known = name.startswith(("gzip", "none", "contiguous"))
    return {"all": (read_whole, is_known), "50 boxes": (read_boxes, is_known)}


def same(a, b):
    return len(a) == len(b) and all(np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y for x, y in zip(a, b))


def measure(path, read, knows_pyfive, rounds):
    readers = {"h5py": lambda: h5py.File(path), "1": lambda: b2kit.h5py.File(path, threads=1), "2": lambda: b2kit.h5py.File(path, threads=2)}
    if pyfive and knows_pyfive:
        readers["pyfive"] = lambda: pyfive.File(path)
    clock, processor = ({name: [] for name in readers} for _ in range(2))
    for n in range(rounds + 1):
        expected = None
        for name, reader in readers.items():
            start = time.perf_counter(), time.process_time()
            found = read(reader())
            times = time.perf_counter() - start[0], time.process_time() - start[1]
            # The first round fills caches.
            if n == 0:
                expected = found if expected is None else expected
                assert same(expected, found), f"{name} reads other values"
                continue
            clock[name].append(times[0])
            processor[name].append(times[1])
    return clock, processor


def main():
    folder, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{'':34} {'h5py':>9} | clock: 1 and 2 threads, pyfive | processor time")
    for name, make in FILES.items():
        if len(sys.argv) > 3 and sys.argv[3] not in name:
            continue
        path = folder / f"{name.replace(' ', '-').replace(',', '')}.h5"
        for what, (read, knows_pyfive) in reads(name).items():
            if not path.exists():
                with h5py.File(path, "w") as file:
                    make(file)
            clock, processor = measure(path, read, knows_pyfive, rounds)

            def ratios(times):
                found = (statistics.median(h / own for h, own in zip(times["h5py"], times[key])) for key in times if key != "h5py")
                return " ".join(f"{ratio:6.2f}" for ratio in found)

            label = f"{name}: {what}"
            print(f"{label:34} {statistics.median(clock['h5py']) * 1e3:6.0f} ms | {ratios(clock):20} | {ratios(processor)}", flush=True)


if __name__ == "__main__":
    main()
