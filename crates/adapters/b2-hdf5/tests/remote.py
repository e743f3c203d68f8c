"""Makes files with thousands of small chunks, one for each kind of index, for `tests/all/remote.rs`.

    python remote.py FOLDER

The item number n in C order of `/group/data` is n ^ 0x5A5A5A5A, except in rows 3, 8, 13...: those were never written, and have the
fill value 7. A chunk has at most 400 bytes.
"""

import pathlib
import sys

import h5py
import numpy as np

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
DEEP = (150, 200)
SHAPE = (40, 100, 100)
gzip = dict(compression="gzip", compression_opts=1)
FILES = {
    "tree1": ("earliest", SHAPE, None, {}),
    "tree1_gzip": ("earliest", SHAPE, None, gzip),
    "fixed": ("latest", SHAPE, None, {}),
    "fixed_gzip": ("latest", SHAPE, None, gzip),
    "extensible": ("latest", SHAPE, (None, 100, 100), {}),
    "extensible_gzip": ("latest", SHAPE, (None, 200, 100), gzip),
    "tree2": ("latest", SHAPE, (None, None, 100), {}),
    "tree2_gzip": ("latest", SHAPE, (None, None, None), gzip),
    "tree2_deep": ("latest", DEEP, (None, None), {}),
    "tree2_deep_gzip": ("latest", DEEP, (None, None), gzip),
}
for name, (libver, shape, maxshape, options) in FILES.items():
    chunks = (1, 10, 10) if len(shape) == 3 else (1, 1)
    items = (np.arange(np.prod(shape), dtype="<u4") ^ 0x5A5A5A5A).reshape(shape)
    with h5py.File(folder / f"{name}.h5", "w", libver=libver) as file:
        for n in range(20):
            file.create_group(f"group{n}").attrs["units"] = "K"
        data = file.create_dataset("group/data", shape, "<u4", chunks=chunks, maxshape=maxshape, fillvalue=7, **options)
        for row in range(shape[0]):
            if row % 5 != 3:
                data[row] = items[row]
