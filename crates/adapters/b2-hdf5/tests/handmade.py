"""Creates small files that demand much memory or time: python handmade.py FOLDER"""

import struct
import sys
from pathlib import Path

import h5py
import numpy as np


def patched(path, changes):
    """Replaces bytes of a file, each of which must occur exactly once."""
    data = path.read_bytes()
    for old, new in changes:
        assert data.count(old) == 1 and len(old) == len(new), (path, old, data.count(old))
        data = data.replace(old, new)
    path.write_bytes(data)


def make(folder):
    # A compound with an array of very many texts of one byte.
    texts = h5py.h5t.create(h5py.h5t.COMPOUND, 500_000_000)
    texts.insert(b"texts", 0, h5py.h5t.array_create(h5py.h5t.FORTRAN_S1, (500_000_000,)))
    with h5py.File(folder / "many_texts.h5", "w") as f:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((1,))
        h5py.h5d.create(f.id, b"x", texts, h5py.h5s.create_simple((3,)), properties)

    # Nested arrays whose sizes multiply.
    with h5py.File(folder / "nested_arrays.h5", "w") as f:
        inner = h5py.h5t.array_create(h5py.h5t.STD_I8LE, (30_000,))
        f.create_dataset("x", (2,), h5py.Datatype(h5py.h5t.array_create(inner, (30_000,))), chunks=(1,))

    # Many names of one data set that has many chunks.
    with h5py.File(folder / "hard_links.h5", "w", libver="latest") as f:
        d = f.create_dataset("x", (1_000_000,), "i1", chunks=(1,))
        d[::100_000] = 1
        for n in range(300):
            f[f"name{n}"] = d

    # Very many chunks, of which none is stored.
    for name, options in {"earliest": {}, "latest": {"libver": "latest"}}.items():
        with h5py.File(folder / f"empty_grid_{name}.h5", "w", **options) as f:
            f.create_dataset("x", (1 << 40,), "i1", chunks=(1,), maxshape=(None,))
            f.create_dataset("y", (1 << 20, 1 << 20), "i1", chunks=(1, 1))
            f.create_dataset("z", (1 << 40,), "i8")

    # Items of no bytes: the size of the type becomes 0, in a header without checksums.
    with h5py.File(folder / "no_bytes.h5", "w") as f:
        f.create_dataset("x", (12,), "S7", chunks=(5,))
    patched(folder / "no_bytes.h5", [(struct.pack("<BBBBI", 0x13, 1, 0, 0, 7), struct.pack("<BBBBI", 0x13, 1, 0, 0, 0))])

    # Texts of variable length that all refer to one object of the heap.
    with h5py.File(folder / "shared_texts.h5", "w") as f:
        d = f.create_dataset("x", (50_000,), h5py.string_dtype())
        d[0] = "a" * 30_000
        at = d.id.get_offset()
    data = bytearray((folder / "shared_texts.h5").read_bytes())
    data[at : at + 50_000 * 16] = data[at : at + 16] * 50_000
    (folder / "shared_texts.h5").write_bytes(data)

    # Chunks that all refer to the bytes of one.
    with h5py.File(folder / "shared_chunks.h5", "w", libver="latest") as f:
        d = f.create_dataset("x", (16_384, 4096), "i1", chunks=(1, 4096))
        d[:] = 1
        first = d.id.get_chunk_info(0).byte_offset
        others = [d.id.get_chunk_info(n).byte_offset for n in range(1, 16_384)]
    data = bytearray((folder / "shared_chunks.h5").read_bytes())
    index = data.find(struct.pack("<QQ", first, others[0]))
    assert index > 0
    for n in range(1024):
        # The pages of a fixed array have checksums, so all others are damaged.
        data[index + 8 * n : index + 8 * n + 8] = struct.pack("<Q", first)
    (folder / "shared_chunks.h5").write_bytes(data)

    # As many filters as HDF5 allows.
    with h5py.File(folder / "many_filters.h5", "w") as f:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((1 << 22,))
        for _ in range(31):
            properties.set_shuffle()
        properties.set_deflate(9)
        space = h5py.h5s.create_simple((1 << 22,))
        h5py.h5d.create(f.id, b"x", h5py.h5t.STD_I32LE, space, properties).write(
            h5py.h5s.ALL, h5py.h5s.ALL, np.zeros(1 << 22, "i4")
        )

    # Groups in groups, and a group that contains itself.
    with h5py.File(folder / "loops.h5", "w") as f:
        group = f
        for n in range(2000):
            group = group.create_group("g")
        group["top"] = f["/"]
        f["self"] = f["/"]

    # Many attributes that refer to one object, and a text as long as they allow.
    with h5py.File(folder / "attributes.h5", "w", libver="latest") as f:
        for n in range(5000):
            f.attrs[f"a{n}"] = "x" * 100
        f.attrs.create("large", np.zeros(1 << 20, "i8"))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
