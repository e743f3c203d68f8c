"""Judges with C-Blosc2 the states in which crashes of this project's writers left frames.

    check_crashes.py DIR

DIR/states.jsonl has one state a line: {"path", "how", "digests"}. C must find one of the frames with these digests, and
be able to go on appending to it, or grow it if it is an array.
"""

import hashlib
import json
import os
import sys

import blosc2

blosc2.set_nthreads(1)


def plain(schunk):
    return b"".join(schunk.decompress_chunk(n) for n in range(schunk.nchunks))


def digest(schunk):
    """As `Contents::digest` of the crash tests finds it."""
    h = hashlib.sha256()

    def add(data):
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)

    ext, vlmeta = blosc2.blosc2_ext, schunk.vlmeta
    metalayers = {name: bytes(ext.meta__getitem__(schunk, name)) for name in ext.meta_keys(schunk)}
    vlmetalayers = {name: bytes(vlmeta.get_vlmeta(name)) for name in vlmeta.get_names()}
    add(str(schunk.typesize).encode())
    add(plain(schunk))
    for layers in (metalayers, vlmetalayers):
        add(str(len(layers)).encode())
        for name, value in sorted((name.encode(), value) for name, value in layers.items()):
            add(name)
            add(value)
    return h.hexdigest()


def judge(path, digests):
    # The array owns its super-chunk and must live as long.
    opened = blosc2.open(path, mode="r")
    found = digest(getattr(opened, "schunk", opened))
    if found not in digests:
        raise ValueError(f"holds {found}, expected one of {digests}")


def append(path):
    opened = blosc2.open(path, mode="a")
    if hasattr(opened, "shape"):
        return grow(opened, path)
    schunk = opened
    size = schunk.chunksize
    # C refuses to append to chunks of individual sizes, and after a short chunk.
    if size == 0 or schunk.nbytes % size:
        return
    before = plain(schunk)
    more = bytes(i * 7 % 251 for i in range(size))
    schunk.append_data(more)
    del schunk
    after = plain(blosc2.open(path, mode="r"))
    if after != before + more:
        raise ValueError("after appending, the data are wrong")


def grow(array, path):
    if 0 in array.shape:
        return
    before = array[...]
    array.resize((array.shape[0] + 1, *array.shape[1:]))
    del array
    after = blosc2.open(path, mode="r")[...]
    if after[:-1].tobytes() != before.tobytes():
        raise ValueError("after growing, the items are wrong")


folder = sys.argv[1]
failed = False
with open(os.path.join(folder, "states.jsonl")) as lines:
    for case in map(json.loads, lines):
        path = os.path.join(folder, case["path"])
        try:
            judge(path, case["digests"])
            append(path)
        except Exception as e:
            failed = True
            print(f"{case['path']}, {case['how']}: {type(e).__name__}: {e}")
sys.exit(failed)
