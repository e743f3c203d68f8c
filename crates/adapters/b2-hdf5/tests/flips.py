"""Small files whose bits `tests/all/flips.rs` flips, one at a time, and what h5py says about those flips that b2kit did not notice.

    python flips.py make FOLDER
    python flips.py judge FOLDER

Each file has a data set `/g/d`. `make` writes the files. `judge` reads `flips.json`, lists of bits by file whose flip gave b2kit
other values without an error, and writes `judged.json`: those of which h5py reports an error.
"""

import json
import multiprocessing
import pathlib
import sys

import h5py
import hdf5plugin
import numpy as np

LIBVERS = ["earliest", "v108", "v110", "latest"]
INTS = np.arange(48, dtype="<i4").reshape(6, 8)
gzip = dict(compression="gzip")
INDEXES = {
    "contiguous": {},
    "chunks": dict(chunks=(2, 3)),
    "single": dict(chunks=(6, 8)),
    "extensible": dict(chunks=(2, 3), maxshape=(None, 8)),
    "tree": dict(chunks=(2, 3), maxshape=(None, None)),
}


def make(folder):
    folder.mkdir(parents=True, exist_ok=True)

    def write(name, libver, values=INTS, attrs=1, **options):
        with h5py.File(folder / f"{name}.h5", "w", libver=libver) as file:
            data = file.create_group("g").create_dataset("d", data=values, **options)
            for n in range(attrs):
                data.attrs[f"a{n}"] = n + 0.5

    for name, options in INDEXES.items():
        for libver in ["earliest", "latest"]:
            write(f"{name}_{libver}", libver, **options)
            if "chunks" in options:
                write(f"{name}_{libver}_gzip", libver, **options, **gzip, fillvalue=3)
    for libver in ["v108", "v110"]:
        write(f"chunks_{libver}", libver, chunks=(2, 3), fletcher32=True)
    write("attrs_dense", "latest", attrs=12)
    write("texts", "latest", values=np.array(["a", "bänk", "c" * 30], dtype=object), dtype=h5py.string_dtype())
    write("compound", "latest", values=np.array([(1, 2.5), (3, 4.5)], dtype=[("x", "<i2"), ("y", "<f8")]))
    write("paged", "latest", values=np.arange(1100, dtype="u1"), chunks=(1,))
    options = {"bzip2": hdf5plugin.BZip2(), "zstd": hdf5plugin.Zstd(), "lz4": hdf5plugin.LZ4()}
    options["blosc2"] = hdf5plugin.Blosc2(cname="lz4", filters=1)
    for name, option in options.items():
        write(name, "latest", chunks=(6, 4), **option)
        write(f"{name}_fletcher32", "latest", chunks=(6, 4), fletcher32=True, **option)


def read(path):
    """Reads everything that is compared."""
    with h5py.File(path, "r") as file:
        data = file["g/d"]
        for value in data.attrs.values():
            str(value)
        data[...]


def is_refused(job):
    path, bit = job
    flipped = pathlib.Path(f"{path}.{multiprocessing.current_process().pid}")
    items = bytearray(pathlib.Path(path).read_bytes())
    items[bit // 8] ^= 1 << bit % 8
    flipped.write_bytes(items)
    try:
        read(flipped)
        return False
    except Exception:
        return True
    finally:
        flipped.unlink()


def judge(folder):
    flips = json.loads((folder / "flips.json").read_text())
    jobs = [(str(folder / name), bit) for name, bits in flips.items() for bit in bits]
    judged = {}
    with multiprocessing.Pool(2, maxtasksperchild=200) as pool:
        results = [(job, pool.apply_async(is_refused, (job,))) for job in jobs]
        for (path, bit), result in results:
            try:
                refused = result.get(timeout=20)
            except multiprocessing.TimeoutError:
                # A file that crashes or hangs h5py counts as not readable.
                refused = True
            if refused:
                judged.setdefault(pathlib.Path(path).name, []).append(bit)
    (folder / "judged.json").write_text(json.dumps(judged))


{"make": make, "judge": judge}[sys.argv[1]](pathlib.Path(sys.argv[2]))
