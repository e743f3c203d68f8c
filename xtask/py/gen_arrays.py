"""Random b2nd arrays written by C-Blosc2; see gen_cases.py."""

import blosc2
import numpy as np

import peerlib as p
from gen_frames import header, metalayers, storage, store, vlmetalayers
from ndchunks import assemble, numpy_dtype, stored_dtype

DTYPES = ["<i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f4", "<f8", "<f8", "<c8", "<c16", "|b1",
          ">i2", ">i4", ">u8", ">f4", ">f8", ">c16", "|S1", "|S7", "<U1", "<U5", "<M8[ns]", "<M8[D]", "<m8[s]", "|V3",
          "|V300", "[('a', '<i4'), ('b', '<f8')]", "[('x', '|u1'), ('y', '>i2', (3,)), ('s', '|S5')]",
          "{'names': ['a', 'b'], 'formats': ['i1', '<f8'], 'offsets': [0, 8], 'itemsize': 16, 'aligned': True}"]


def array_case(case):
    build = p.pick(case.rng, [converted] * 12 + [constructed] * 3 + [resized] * 2 + [plugin] * 3)
    case.label(array=build.__name__)
    return build(case)


def any_shape(rng, itemsize):
    """Shape, chunk shape and block shape; the last two None where python-blosc2 chooses."""
    ndim = p.pick(rng, [0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8, 9, 12, 16])
    top = {0: 1, 1: 6000, 2: 120, 3: 30, 4: 13, 5: 8, 6: 6, 7: 5, 8: 4}.get(ndim, 2 if ndim > 9 else 3)
    shape = [int(rng.integers(1, top + 1)) for _ in range(ndim)]
    # Many dimensions of two are many tiny chunks: keep the whole small.
    while np.prod(shape, dtype=float) * itemsize > 250_000 or (ndim > 9 and np.prod(shape, dtype=float) > 512):
        k = int(rng.integers(ndim))
        shape[k] = max(1, shape[k] // 2)
    if ndim and rng.random() < 0.06:
        shape[int(rng.integers(ndim))] = 0
        return tuple(shape), None, None
    if rng.random() < 0.15 and ndim < 9:
        return tuple(shape), None, None
    while True:
        chunks = [int(rng.integers(1, s + 1)) if rng.random() < 0.7 else s for s in shape]
        blocks = [int(rng.integers(1, c + 1)) if rng.random() < 0.7 else c for c in chunks]
        nchunks = np.prod([-(-s // c) for s, c in zip(shape, chunks)], dtype=float)
        nblocks = np.prod([-(-c // b) for c, b in zip(chunks, blocks)], dtype=float)
        if nchunks <= 300 and nblocks <= 2000 and nchunks * nblocks <= 6000:
            return tuple(shape), tuple(chunks), tuple(blocks)


def values(rng, shape, dtype):
    """Random items of any dtype (booleans 0 and 1, strings and dates as their bytes may be)."""
    n = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    _, raw = p.some_bytes(rng, n, dtype.itemsize)
    if dtype.kind == "b":
        raw = bytes(b & 1 for b in raw)
    elif dtype.kind == "U":
        codes = np.frombuffer(raw, "<u4") % 0x3000 if n else np.zeros(0, "<u4")
        raw = codes.astype("<u4").tobytes()
    return np.frombuffer(raw, dtype=dtype).reshape(shape) if n else np.zeros(shape, dtype)


def params(case, itemsize):
    ps = p.any_params(case, itemsize, lambda pipes: [n for n in pipes if n != "trunc_prec+delta"], 0.2)
    # That of the dtype.
    del ps["typesize"]
    return ps


def create(case, how, ps, chunks, blocks):
    """Calls `how` with the storage and parameters: (storage name, the array)."""
    name, place = storage(case)
    # One thread: the library can stop for ever reading delta back with more.
    args = {"cparams": p.cparams(**ps), "dparams": {"nthreads": 1}, **place, **metalayers(case, 15)}
    if chunks is not None:
        args.update(chunks=chunks, blocks=blocks)
    return name, how(**args)


def finish(case, name, array, raw, dtype, ps=None):
    if ps and ps.get("use_dict"):
        p.refuse_unreadable(p.stored_chunks(array.schunk))
    vlmetalayers(case, array.schunk)
    itemsize = numpy_dtype(dtype).itemsize
    case.raw = raw
    case.label(ndim=len(array.shape), dtype=dtype if dtype[0] not in "[{" else "record", size="zero" if 0 in array.shape else "some")
    case.facts.update(shape=list(array.shape), chunkshape=list(array.chunks), blockshape=list(array.blocks), dtype=dtype,
                      itemsize=itemsize, nchunks=array.schunk.nchunks, metalayers=p.meta_bytes(array.schunk),
                      vlmetalayers=p.vlmeta_bytes(array.schunk), **(header(case, ps) if ps else {}))
    store(case, name, array)
    return case


def converted(case):
    """From a NumPy array."""
    rng = case.rng
    dtype = numpy_dtype(p.pick(rng, DTYPES))
    shape, chunks, blocks = any_shape(rng, dtype.itemsize)
    ps = params(case, dtype.itemsize)
    items = values(rng, shape, dtype)
    name, array = create(case, lambda **kw: blosc2.asarray(items, **kw), ps, chunks, blocks)
    raw = items.tobytes()
    if p.is_lossy(ps["filters"]):
        raw = assemble(array, dtype.itemsize)
    return finish(case, name, array, raw, stored_dtype(array), ps)


def constructed(case):
    """From the constructors that store one value for a whole chunk."""
    rng = case.rng
    ctor = p.pick(rng, ["zeros", "ones", "full", "nans", "empty", "uninit", "arange"])
    dtype = numpy_dtype(p.pick(rng, ["<f4", "<f8"] if ctor == "nans" else ["<i1", "<u2", "<i4", "<i8", "<f4", "<f8"]))
    shape, chunks, blocks = any_shape(rng, dtype.itemsize)
    if 0 in shape or (ctor == "arange" and not shape):
        ctor = "zeros"
    value = {"ones": 1, "full": int(rng.integers(1, 100)), "nans": np.nan}.get(ctor, 0)
    n = int(np.prod(shape, dtype=np.int64))
    want = np.full(shape, value, dtype)
    if ctor == "full":
        make = lambda **kw: blosc2.full(shape, value, dtype=dtype, **kw)
    elif ctor == "arange":
        want = np.arange(n).astype(dtype).reshape(shape)
        make = lambda **kw: blosc2.arange(n, shape=shape, dtype=dtype, **kw)
        if n > np.iinfo("i1").max and dtype.itemsize == 1:
            return constructed(case)
    else:
        make = lambda **kw: getattr(blosc2, ctor)(shape, dtype=dtype, **kw)
    name, array = create(case, make, {}, chunks, blocks)
    case.label(ctor=ctor)
    raw = None if ctor in ("empty", "uninit") else want.tobytes()
    return finish(case, name, array, raw, stored_dtype(array))


def resized(case):
    """Shrunk and grown, with writes in between; items that were cut off may reappear."""
    rng = case.rng
    dtype = numpy_dtype(p.pick(rng, ["<i2", "<f4", "<i8", "|S7"]))
    ndim = int(rng.integers(1, 5))
    top = {1: 2000, 2: 60, 3: 20, 4: 9}[ndim]
    shape = tuple(int(n) for n in rng.integers(1, top, ndim))
    chunks = tuple(int(rng.integers(max(1, s // 4), s + 1)) for s in shape)
    blocks = tuple(int(rng.integers(max(1, c // 4), c + 1)) for c in chunks)
    ps = params(case, dtype.itemsize)
    ps.pop("use_dict", None)
    if p.has_delta(ps["filters"]) or p.is_lossy(ps["filters"]):
        # Partial writes decode first, and C decodes parts of delta chunks wrongly.
        ps["filters"] = [(p.SHUFFLE, 0)]
        case.label(pipe="shuffle")
    case.label(dict="no")
    items = values(rng, shape, dtype)
    name, array = create(case, lambda **kw: blosc2.asarray(items, **kw), ps, chunks, blocks)
    for _ in range(int(rng.integers(1, 4))):
        new = tuple(int(n) for n in rng.integers(1, top, ndim))
        array.resize(new)
        start = [int(rng.integers(0, n)) for n in new]
        stop = [int(rng.integers(a + 1, n + 1)) for a, n in zip(start, new)]
        part = values(rng, tuple(b - a for a, b in zip(start, stop)), dtype)
        array[tuple(slice(a, b) for a, b in zip(start, stop))] = np.ascontiguousarray(part)
    return finish(case, name, array, assemble(array, dtype.itemsize), stored_dtype(array), ps)


def plugin(case):
    """The codecs and filters that need the shape of a block."""
    rng = case.rng
    what = p.pick(rng, ["ndlz", "ndcell", "ndcell", "ndmean", "zfp_acc", "zfp_prec", "zfp_rate"])
    ndim = {"ndlz": 2}.get(what) or int(rng.integers(1, 4))
    side = p.pick(rng, [4, 8]) if what == "ndlz" else int(rng.integers(2, 7))
    least = {"ndlz": side, "zfp_acc": 4, "zfp_prec": 4, "zfp_rate": 4}.get(what, side)
    blocks = tuple(int(n) for n in rng.integers(least, {1: 400, 2: 40, 3: 14}[ndim], ndim))
    # zfp works in cells of four: other sides make a block larger, and above its own size C writes outside
    # its memory. So either whole cells, or few bits.
    whole = rng.random() < 0.6
    if what.startswith("zfp") and whole:
        blocks = tuple(b - b % 4 for b in blocks)
    chunks = tuple(b * int(rng.integers(1, 4)) for b in blocks)
    shape = tuple(int(rng.integers(c, 3 * c)) for c in chunks)
    dtype = numpy_dtype("|u1" if what == "ndlz" else p.pick(rng, ["<f4", "<f8"]))
    if what.startswith("zfp") and not whole:
        dtype = np.dtype("<f8")
    ps = {"codec": p.pick(rng, ["lz4", "zstd"]), "filters": [], "clevel": int(rng.integers(1, 10)), "split": "auto"}
    if what in ("ndcell", "ndmean"):
        ps["filters"] = [({"ndcell": p.NDCELL, "ndmean": p.NDMEAN}[what], side)]
    else:
        ps["codec"] = what
        meta = {"ndlz": side, "zfp_acc": 253 if whole else 1, "zfp_prec": 12 if whole else 1, "zfp_rate": 50 if whole else 13}
        ps["codec_meta"] = meta[what]
    items = values(rng, shape, dtype)
    if dtype.kind == "f" and what != "ndcell":
        items = (np.cumsum(rng.standard_normal(int(np.prod(shape)))).reshape(shape)).astype(dtype)
    case.label(codec=ps["codec"], pipe=what if ps["filters"] else "none", clevel=ps["clevel"], plugin=what)
    name, array = create(case, lambda **kw: blosc2.asarray(items, **kw), ps, chunks, blocks)
    raw = items.tobytes()
    if what not in ("ndlz", "ndcell"):
        raw = assemble(array, dtype.itemsize)
    return finish(case, name, array, raw, stored_dtype(array), ps)
