"""Random super-chunks written by C-Blosc2; see gen_cases.py."""

import os

import blosc2
import numpy as np

import data as raw_data
import peerlib as p


def frame_case(case):
    build = p.pick(case.rng, [chunked] * 12 + [special] * 3 + [variable] * 2 + [objects, batches, emptied])
    case.label(frame=build.__name__)
    return build(case)


def storage(case, options=("contiguous", "contiguous", "sparse", "memory", "offset")):
    """Where the frame goes: (name, keyword arguments of SChunk and NDArray)."""
    name = p.pick(case.rng, list(options))
    case.label(storage=name)
    if name in ("memory", "offset"):
        return name, {"contiguous": bool(case.rng.integers(2))}
    return name, {"contiguous": name == "contiguous", "urlpath": case.path(".b2frame"), "mode": "w"}


def store(case, name, frame):
    """Saves a frame from memory, with bytes around it for `offset`."""
    if name == "memory":
        case.save(".b2frame", frame.to_cframe())
    elif name == "offset":
        case.offset = int(case.rng.integers(1, 5000))
        tail = int(case.rng.integers(0, 300))
        case.save(".b2frame", case.rng.bytes(case.offset) + frame.to_cframe() + case.rng.bytes(tail))


def params(case):
    """Random parameters that suit every chunk of a frame."""
    rng = case.rng
    typesize = p.pick(rng, [1, 2, 3, 4, 4, 4, 8, 8, 12, 16, 33, 255, 300])
    out = p.any_params(case, typesize, lambda pipes: [n for n, f in pipes.items() if not p.is_lossy(f)], 0.2)
    out["nthreads"] = p.pick(rng, [1, 1, 2])
    if rng.random() < 0.3:
        out["blocksize"] = typesize * int(rng.integers(1, 400))
    return out


def metalayers(case, limit=16):
    """Random fixed metalayers for the constructor: name to value."""
    rng, out = case.rng, {}
    n = p.pick(rng, [0, 0, 1, 2, 5, limit])
    for i in range(n):
        value = p.pick(rng, [None, True, i, -1.5, "text", [1, [2, "x"]], {"k": [i]}, b"\0\xff" * int(rng.integers(0, 90))])
        out[p.random_name(rng, out)] = value
    case.label(meta=n)
    return {"meta": out} if out else {}


def vlmetalayers(case, schunk):
    """Adds, changes and removes vlmetalayers."""
    rng = case.rng
    n = p.pick(rng, [0, 0, 1, 3, 16])
    names = []
    for _ in range(n):
        names.append(p.random_name(rng, names))
        size = int(np.exp(rng.uniform(0, 9)))
        p.set_vlmeta(schunk, names[-1], p.some_bytes(rng, size)[1])
    if n > 1 and rng.random() < 0.5:
        p.set_vlmeta(schunk, names[0], rng.bytes(int(rng.integers(1, 500))))
        schunk.vlmeta.del_vlmeta(names[1])
    case.label(vlmeta=n)


def describe(case, schunk, chunks, typesize, header=None):
    """The expected content."""
    if header and header.get("use_dict"):
        p.refuse_unreadable(p.stored_chunks(schunk))
    case.raw = None if chunks is None else b"".join(chunks)
    case.facts.update(
        nchunks=schunk.nchunks, nbytes=schunk.nbytes, typesize=typesize, chunksize=schunk.chunksize,
        chunks=None if chunks is None else [len(c) for c in chunks],
        metalayers=p.meta_bytes(schunk), vlmetalayers=p.vlmeta_bytes(schunk), **(header or {}),
    )


def finish(case, name, schunk, chunks, typesize, header=None):
    """Adds vlmetalayers, and describes and saves the frame."""
    vlmetalayers(case, schunk)
    # Item sizes above 255 are lost where the frame was in plain memory.
    known = typesize if typesize <= 255 or name in ("contiguous", "sparse") else None
    describe(case, schunk, chunks, known, header)
    store(case, name, schunk)
    return case


def header(case, params):
    """The defaults for new chunks that the frame header holds."""
    out = {"codec": params["codec"], "clevel": params["clevel"], "filters": p.slots(params["filters"]),
           "split": params["split"], "use_dict": bool(params.get("use_dict"))}
    if case.labels["storage"] in ("memory", "offset") and params["clevel"] == 0:
        # Without compression there was no dictionary, and serialising then forgets that it was asked for.
        del out["use_dict"]
    return out


def new_chunk(rng, nbytes, zeros=True):
    """Data for one chunk; all zero now and then, which makes C store no chunk at all."""
    if zeros and rng.random() < 0.15:
        return bytes(nbytes)
    while True:
        raw = p.some_bytes(rng, nbytes)[1]
        if any(raw):
            return raw


def chunked(case):
    """Chunks of one size, appended, inserted, replaced and deleted; the last may be short."""
    rng = case.rng
    name, place = storage(case)
    ps = params(case)
    typesize = ps["typesize"]
    many = rng.random() < 0.1
    nitems = int(rng.integers(1, 8)) if many else int(np.exp(rng.uniform(0, 8)))
    chunksize = nitems * typesize
    if ps.get("blocksize", 0) > chunksize:
        del ps["blocksize"]
    schunk = blosc2.SChunk(chunksize=chunksize, cparams=p.cparams(**ps), dparams={"nthreads": 1}, **place, **metalayers(case))
    chunks = []
    for _ in range(int(rng.integers(200, 900)) if many else int(rng.integers(0, 12))):
        chunks.append(new_chunk(rng, chunksize))
        schunk.append_data(chunks[-1])
    edits = int(rng.integers(0, 7)) if chunks and not many else 0
    for _ in range(edits):
        how = p.pick(rng, ["insert", "update", "update", "delete", "append"])
        at, raw = int(rng.integers(0, len(chunks))), new_chunk(rng, chunksize)
        if how != "delete" or len(chunks) > 1:
            p.change_chunks(schunk, chunks, how, at, raw)
    # A short last chunk can only come last. Whole items: a chunk that is all zeros has to be; so has delta.
    short = bool(chunks) and chunksize > typesize and rng.random() < 0.5
    if short:
        n = int(rng.integers(1, nitems)) * typesize
        if not p.loses_tail(ps["filters"]) and rng.random() < 0.3:
            n += int(rng.integers(0, typesize))
        chunks.append(new_chunk(rng, n, zeros=n % typesize == 0))
        schunk.append_data(chunks[-1])
    case.label(edits="yes" if edits else "no", last="short" if short else "full", chunks="many" if many else "few")
    return finish(case, name, schunk, chunks, typesize, header(case, ps))


def special(case):
    """Filled with one value, some chunks then overwritten."""
    rng = case.rng
    name, place = storage(case)
    kind = p.pick(rng, ["ZERO", "NAN", "VALUE", "UNINIT"])
    typesize = p.pick(rng, [4, 8]) if kind == "NAN" else p.pick(rng, [1, 3, 4, 8, 16, 33, 300])
    per_chunk = int(rng.integers(1, 2000))
    nitems = p.pick(rng, [per_chunk, 7 * per_chunk + per_chunk // 2, 3, 1000 * per_chunk])
    if nitems * typesize > 4_000_000:
        nitems = per_chunk
    chunksize = per_chunk * typesize
    schunk = blosc2.SChunk(chunksize=chunksize, cparams=p.cparams(typesize=typesize), dparams={"nthreads": 1}, **place,
                           **metalayers(case, 3))
    value = rng.bytes(typesize)
    schunk.fill_special(nitems, blosc2.SpecialValue[kind], value if kind == "VALUE" else None)
    item = {"NAN": np.array(np.nan, "<f4" if typesize == 4 else "<f8").tobytes(), "VALUE": value}.get(kind, bytes(typesize))
    raw = item * nitems
    chunks = [raw[i : i + chunksize] for i in range(0, len(raw), chunksize)]
    for _ in range(int(rng.integers(0, 3))):
        at = int(rng.integers(0, len(chunks)))
        chunks[at] = new_chunk(rng, len(chunks[at]))
        schunk.update_data(at, chunks[at], True)
    case.label(special=kind.lower(), typesize=typesize)
    return finish(case, name, schunk, chunks if kind != "UNINIT" else None, typesize)


def variable(case):
    """Chunks of individual sizes."""
    rng = case.rng
    name, place = storage(case, ("contiguous", "sparse"))
    ps = params(case)
    typesize = ps["typesize"]
    ps.pop("blocksize", None)
    sizes = [int(rng.integers(1, 800)) * typesize for _ in range(int(rng.integers(3, 12)))]
    # The first append sets the chunk size; a larger one then makes all sizes individual.
    sizes[1] = sizes[0] + typesize
    schunk = blosc2.SChunk(chunksize=sizes[0], cparams=p.cparams(**ps), dparams={"nthreads": 1}, **place)
    # No chunk of zeros: C does not store it, so its length would be lost.
    chunks = [new_chunk(rng, n, zeros=False) for n in sizes]
    for raw in chunks:
        schunk.append_data(raw)
    return finish(case, name, schunk, chunks, typesize, header(case, ps))


def emptied(case):
    """Every chunk deleted again, then perhaps one appended."""
    rng = case.rng
    name, place = storage(case)
    schunk = blosc2.SChunk(chunksize=4000, cparams=p.cparams(typesize=4), dparams={"nthreads": 1}, **place)
    for _ in range(int(rng.integers(1, 5))):
        schunk.append_data(new_chunk(rng, 4000))
    while schunk.nchunks:
        schunk.delete_chunk(int(rng.integers(0, schunk.nchunks)))
    chunks = []
    if rng.random() < 0.4:
        chunks = [new_chunk(rng, 4000)]
        schunk.append_data(chunks[0])
    case.label(typesize=4, refilled="yes" if chunks else "no")
    return finish(case, name, schunk, chunks, 4)


def python_value(rng, depth=0):
    """A value that msgpack can hold."""
    kind = int(rng.integers(0, 8 if depth < 3 else 6))
    if kind == 6:
        return [python_value(rng, depth + 1) for _ in range(int(rng.integers(0, 5)))]
    if kind == 7:
        return {f"k{i}": python_value(rng, depth + 1) for i in range(int(rng.integers(0, 4)))}
    return [None, True, int(rng.integers(-(1 << 60), 1 << 60)), float(rng.random()), "t" * int(rng.integers(0, 300)),
            rng.bytes(int(rng.integers(0, 200)))][kind]


def container(case, cls, **kwargs):
    name = p.pick(case.rng, ["contiguous", "sparse"])
    case.label(storage=name)
    return cls(contiguous=name == "contiguous", urlpath=case.path(".b2f"), mode="w", cparams={"nthreads": 1}, **kwargs)


def objects(case):
    """python-blosc2's ObjectArray: one chunk for each object."""
    array = container(case, blosc2.ObjectArray)
    for _ in range(int(case.rng.integers(1, 20))):
        array.append(python_value(case.rng))
    schunk = array.schunk
    chunks = [blosc2.decompress2(schunk.get_chunk(i), nthreads=1) for i in range(schunk.nchunks)]
    case.label(typesize=1)
    describe(case, schunk, chunks, 1)
    return case


def batches(case):
    """python-blosc2's BatchArray: chunks with blocks of individual lengths."""
    rng = case.rng
    array = container(case, blosc2.BatchArray, items_per_block=int(rng.integers(1, 9)))
    for _ in range(int(rng.integers(1, 7))):
        array.append([python_value(rng) for _ in range(int(rng.integers(1, 30)))])
    schunk = array.schunk
    blocks = [blosc2.blosc2_ext.vldecompress(schunk.get_chunk(i), nthreads=1) for i in range(schunk.nchunks)]
    case.label(typesize=1)
    describe(case, schunk, [b"".join(b) for b in blocks], 1)
    case.facts["vl_blocks"] = [[len(block) for block in b] for b in blocks]
    return case
