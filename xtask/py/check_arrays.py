"""Reading and changing arrays that this project wrote; see check_cases.py."""

import blosc2
import numpy as np

import peerlib as p
from ndchunks import assemble, numpy_dtype


def array_checks(c):
    case = c.case
    array = blosc2.open(c.path(case["path"]), mode="r", offset=case["offset"], dparams={"nthreads": 1})
    c.same("type", type(array).__name__, "NDArray")
    dtype = numpy_dtype(case["dtype"])
    for name, got in [("shape", array.shape), ("chunkshape", array.chunks), ("blockshape", array.blocks)]:
        c.same(name, list(got), case[name])
    c.same("dtype", array.dtype, dtype)
    c.facts(array.schunk)
    c.layers(array.schunk)
    if c.raw is None:
        return
    c.run("chunks", lambda: p.difference(assemble(array, dtype.itemsize), c.raw))
    if not case["partial"]:
        return
    c.run("whole", lambda: p.difference(np.asarray(array[()]).tobytes(), c.raw))
    if not c.raw:
        return
    want = np.frombuffer(c.raw, f"V{dtype.itemsize}").reshape(array.shape)
    for i in range(4):
        key = random_slice(c.rng, array.shape)
        c.run(f"slice {i}", lambda: sliced(array, want, key))


def sliced(array, want, key):
    wrong = p.difference(np.asarray(array[key]).tobytes(), want[key].tobytes())
    return wrong and f"{key}: {wrong}"


def random_slice(rng, shape):
    """Ranges along every axis; C itself has no steps."""
    out = []
    for n in shape:
        a = int(rng.integers(0, n))
        out.append(slice(a, int(rng.integers(a, n)) + 1))
    return tuple(out)


def array_changes(c):
    """Resizes a copy, writes into it and changes its metalayers."""
    case = c.case
    target = c.copied()
    array = blosc2.open(target, mode="a", dparams={"nthreads": 1})
    dtype = numpy_dtype(case["dtype"])
    items = np.frombuffer(c.raw, f"V{dtype.itemsize}").reshape(array.shape)
    if items.size and array.ndim and case["partial"]:
        items = write_slice(c.rng, array, items, dtype)
        # Growing exposes former padding, which must be zero.
        larger = tuple(n + int(c.rng.integers(0, 1 + min(n, 3 if array.ndim > 4 else 20))) for n in array.shape)
        array.resize(larger)
        grown = np.zeros(larger, items.dtype)
        grown[tuple(slice(n) for n in items.shape)] = items
        items = write_slice(c.rng, array, grown, dtype)
        smaller = tuple(int(c.rng.integers(1, n + 1)) for n in array.shape)
        array.resize(smaller)
        items = items[tuple(slice(n) for n in smaller)]
    return c.after(target, array.schunk, items.tobytes(), shape=list(items.shape))


def write_slice(rng, array, items, dtype):
    key = random_slice(rng, array.shape)
    shape = tuple(k.stop - k.start for k in key)
    n = int(np.prod(shape)) * dtype.itemsize
    raw = bytes(b & 1 for b in rng.bytes(n)) if dtype.kind in "bU" else rng.bytes(n)
    if dtype.kind == "U":
        raw = (np.frombuffer(raw, "<u4") & 1).tobytes()
    out = items.copy()
    out[key] = np.frombuffer(raw, items.dtype).reshape(shape)
    array[key] = np.frombuffer(raw, dtype).reshape(shape)
    return out
