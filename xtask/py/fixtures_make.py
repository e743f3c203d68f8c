"""How each kind of fixture is written. Every function takes the path to write and returns the raw data that a
reader has to give back, with the facts worth stating in the manifest.

One thread everywhere: threads store blocks in the order they finish, and a fixture has to come out the same
each time.
"""

import os

import numpy as np

import data as raw_data

try:
    import blosc2

    from ndchunks import assemble, numpy_dtype, stored_dtype, whole_chunk
except ImportError:  # the environments of python-blosc
    blosc2 = None

ONE_THREAD = {"nthreads": 1}


def cparams(codec="zstd", filters=(("SHUFFLE", 0),), splitmode=None, **rest):
    """The arguments of python-blosc2 for these parameters."""
    out = {"codec": blosc2.Codec[codec.upper()], "nthreads": 1, **rest}
    out["filters"] = [blosc2.Filter[name] for name, _ in filters] or [blosc2.Filter.NOFILTER]
    out["filters_meta"] = [signed(meta) for _, meta in filters] or [0]
    if splitmode:
        out["splitmode"] = blosc2.SplitMode[splitmode]
    return out


def signed(meta):
    """The byte `meta` as blosc2 wants it."""
    return meta - 256 if meta > 127 else meta


def save(path, content):
    with open(path, "wb") as f:
        f.write(content)


def check(got, raw, path, oracle):
    """What a reader must return: the original unless the pipeline changes it."""
    if oracle == "peer":
        return bytes(got)
    assert bytes(got) == raw, f"{path}: the producer does not read back what it wrote"
    return raw


# Chunks.


def chunk(path, data, cparams, oracle):
    raw = raw_data.make(*data)
    # A copy: with three filters or more the C library overwrites its input.
    out = blosc2.compress2(bytearray(raw), **globals()["cparams"](**cparams))
    save(path, out)
    if oracle != "unchecked":
        raw = check(blosc2.decompress2(out) if raw else b"", raw, path, oracle)
    return raw, {}


def blosc1(path, data, codec, shuffle, typesize, clevel, blocksize):
    import blosc

    raw = raw_data.make(*data)
    blosc.set_nthreads(1)
    blosc.set_blocksize(blocksize)
    flag = {"noshuffle": blosc.NOSHUFFLE, "shuffle": blosc.SHUFFLE, "bitshuffle": blosc.BITSHUFFLE}[shuffle]
    out = blosc.compress(raw, typesize=typesize, clevel=clevel, shuffle=flag, cname=codec)
    save(path, out)
    assert blosc.decompress(out) == raw
    return raw, {}


def blosc1_compat(path, data, codec, filter):
    raw = raw_data.make(*data)
    os.environ["BLOSC_BLOSC1_COMPAT"] = "1"
    blosc2.set_nthreads(1)
    out = blosc2.compress(raw, typesize=4, clevel=5, filter=blosc2.Filter[filter], codec=blosc2.Codec[codec.upper()])
    del os.environ["BLOSC_BLOSC1_COMPAT"]
    assert out[2] & 5 != 5, "not the 16-byte header"
    save(path, out)
    return check(blosc2.decompress(out), raw, path, "original"), {}


def vl_chunk(path, codec, use_dict, sizes):
    raw = raw_data.make("text", 490, sum(sizes))
    blocks, at = [], 0
    for size in sizes:
        blocks.append(raw[at : at + size])
        at += size
    out = blosc2.blosc2_ext.vlcompress(blocks, **cparams(codec, typesize=1, use_dict=use_dict, clevel=5))
    save(path, out)
    assert blosc2.blosc2_ext.vldecompress(out, nthreads=1) == blocks
    return raw, {"vl_blocks": sizes}


# Frames.


def storage_args(path, storage):
    if storage == "memory":
        return {"contiguous": True}
    return {"contiguous": storage == "contiguous", "urlpath": path, "mode": "w"}


def super_chunk(path, storage, chunksize, raw=None, meta=None, **cp):
    more = {"meta": meta} if meta else {}
    return blosc2.SChunk(chunksize=chunksize, data=raw, cparams=cparams(**{"typesize": 4, **cp}), dparams=ONE_THREAD,
                         **storage_args(path, storage), **more)


def finish_frame(path, schunk, chunks, storage):
    """Saves memory frames and reads the chunks back."""
    if storage == "memory":
        save(path, schunk.to_cframe())
    for i, want in enumerate(chunks):
        assert whole_chunk(schunk, i) == want, f"{path}: chunk {i}"
    return b"".join(chunks), {"nchunks": len(chunks)}


def split(raw, size):
    return [raw[i : i + size] for i in range(0, len(raw), size)]


def frame(path, data, storage, chunksize, **cp):
    raw = raw_data.make(*data)
    schunk = super_chunk(path, storage, chunksize, raw or None, **cp)
    return finish_frame(path, schunk, split(raw, chunksize), storage)


def edited(path, data, storage, chunksize, **cp):
    """Insert, update and delete on a file that is already there."""
    raw = raw_data.make(*data)
    chunks = split(raw, chunksize)
    schunk = super_chunk(path, storage, chunksize, raw, **cp)
    new = [raw_data.make("walk4", 901, chunksize), raw_data.make("noise", 902, chunksize)]
    schunk.insert_data(1, new[0], True)
    chunks.insert(1, new[0])
    schunk.update_data(3, new[1], True)
    chunks[3] = new[1]
    schunk.delete_chunk(0)
    del chunks[0]
    return finish_frame(path, schunk, chunks, storage)


def vlmeta(path, data, storage, chunksize, names, **cp):
    raw = raw_data.make(*data)
    schunk = super_chunk(path, storage, chunksize, raw, **cp)
    values = {}
    for i in range(names):
        value = {"n": i, "list": [1, 2.5, None], "text": "x" * (i * 20)}
        schunk.vlmeta[f"layer{i}"] = value
        values[f"layer{i}"] = schunk.vlmeta.get_vlmeta(f"layer{i}").hex()
    out, facts = finish_frame(path, schunk, split(raw, chunksize), storage)
    return out, {**facts, "vlmetalayers": values}


def metalayers(path, data, storage, chunksize, names):
    raw = raw_data.make(*data)
    meta = {f"m{i}" if i else "a-name-of-thirty-one-characters": {"i": i} for i in range(names)}
    schunk = super_chunk(path, storage, chunksize, raw, meta=meta, typesize=1)
    values = {name: blosc2.blosc2_ext.meta__getitem__(schunk, name).hex() for name in meta}
    out, facts = finish_frame(path, schunk, split(raw, chunksize), storage)
    return out, {**facts, "metalayers": values}


def special(path, storage, nitems, chunksize, special):
    schunk = super_chunk(path, storage, chunksize)
    kind = blosc2.SpecialValue[special]
    schunk.fill_special(nitems, kind, *([b"\1\2\3\4"] if special == "VALUE" else []))
    item = {"ZERO": bytes(4), "UNINIT": bytes(4), "NAN": b"\0\0\xc0\x7f", "VALUE": b"\1\2\3\4"}[special]
    chunks = split(item * nitems, chunksize)
    if special == "UNINIT":  # never written, so the library may return anything; readers here return zeros
        return b"".join(chunks), {"nchunks": len(chunks)}
    return finish_frame(path, schunk, chunks, storage)


def variable(path, storage, sizes):
    """Chunks of different sizes."""
    schunk = super_chunk(path, storage, sizes[0])
    chunks = [raw_data.make("walk4", 910 + i, n) for i, n in enumerate(sizes)]
    for raw in chunks:
        schunk.append_data(raw)
    return finish_frame(path, schunk, chunks, storage)


def emptied(path, data, storage, chunksize):
    """Every chunk deleted again: the header keeps a stale size of the data area."""
    schunk = super_chunk(path, storage, chunksize, raw_data.make(*data))
    while schunk.nchunks:
        schunk.delete_chunk(schunk.nchunks - 1)
    return finish_frame(path, schunk, [], storage)


def embedded(path, data, storage, offset, chunksize):
    """A frame inside a larger file."""
    raw = raw_data.make(*data)
    content = super_chunk(path, "memory", chunksize, raw).to_cframe()
    save(path, raw_data.make("noise", 911, offset) + content + b"bytes after the frame")
    schunk = blosc2.open(path, mode="r", offset=offset)
    out, facts = finish_frame(path, schunk, split(raw, chunksize), storage)
    return out, {**facts, "offset": offset}


def object_array(path, storage):
    array = blosc2.ObjectArray(contiguous=storage == "contiguous", urlpath=path, mode="w", cparams={"nthreads": 1})
    for value in (1, "two", [3, None, 4.5], {"five": b"\0\1\2"}, "six" * 200):
        array.append(value)
    schunk = array.schunk
    chunks = [bytes(schunk.decompress_chunk(i)) for i in range(schunk.nchunks)]
    return b"".join(chunks), {"nchunks": len(chunks)}


def batch_array(path, storage):
    array = blosc2.BatchArray(items_per_block=4, contiguous=storage == "contiguous", urlpath=path, mode="w",
                              cparams={"nthreads": 1})
    for batch in ([1, 2, 3], ["text", {"k": [1, 2]}, None, 2.5, b"bytes", "x" * 300], list(range(40))):
        array.append(batch)
    schunk = array.schunk
    blocks = [blosc2.blosc2_ext.vldecompress(schunk.get_chunk(i), nthreads=1) for i in range(schunk.nchunks)]
    return b"".join(b"".join(b) for b in blocks), {"nchunks": len(blocks)}


def embed_store(path, storage):
    store = blosc2.EmbedStore(urlpath=path, mode="w")
    store["/a"] = np.arange(100, dtype="<i4")
    store["/group/b"] = np.zeros((5, 6), dtype="<f8")
    del store
    schunk = blosc2.SChunk(urlpath=path, mode="r")
    return bytes(schunk[:]), {"nchunks": schunk.nchunks}


# Arrays.


def nd_args(path, chunks, blocks, storage, cp):
    args = {"cparams": cparams(**cp), "dparams": ONE_THREAD, **storage_args(path, storage)}
    if chunks is not None:
        args.update(chunks=chunks, blocks=blocks)
    return args


def nd_facts(array):
    return {"shape": list(array.shape), "dtype": stored_dtype(array)}


def array(path, data, shape, dtype, chunks, blocks, storage="contiguous", oracle="original", vlmeta=0, meta=0, **cp):
    raw = raw_data.make(*data)
    items = np.frombuffer(raw, dtype=numpy_dtype(dtype)).reshape(shape)
    args = nd_args(path, chunks, blocks, storage, cp)
    if meta:
        args["meta"] = {f"m{i}": {"i": i} for i in range(meta)}
    out = blosc2.asarray(np.ascontiguousarray(items).reshape(shape), **args)
    facts = nd_facts(out)
    for i in range(vlmeta):
        out.schunk.vlmeta[f"layer{i}"] = [i, "text"]
        facts.setdefault("vlmetalayers", {})[f"layer{i}"] = out.schunk.vlmeta.get_vlmeta(f"layer{i}").hex()
    return check(assemble(out, items.itemsize), raw, path, oracle), facts


def constructed(path, data, shape, dtype, chunks, blocks, ctor):
    fill = [1.5] if ctor == "full" else []
    out = getattr(blosc2, ctor)(shape, *fill, dtype=numpy_dtype(dtype), **nd_args(path, chunks, blocks, "contiguous", {}))
    value = {"full": 1.5, "nans": np.nan}.get(ctor, 0)
    want = np.full(shape, value, dtype=numpy_dtype(dtype)).tobytes()
    if ctor not in ("empty", "uninit"):
        assert out[()].tobytes() == want
    return want, nd_facts(out)


def resized(path, data, shape, dtype, chunks, blocks, shape0):
    """An array that grew, and was written to in between."""
    want = np.frombuffer(raw_data.make(*data), dtype=dtype).reshape(shape)
    out = blosc2.asarray(np.ascontiguousarray(want[tuple(slice(n) for n in shape0)]), **nd_args(path, chunks, blocks, "contiguous", {}))
    out.resize(shape)
    out[shape0[0] :] = np.ascontiguousarray(want[shape0[0] :])
    out[: shape0[0], shape0[1] :] = np.ascontiguousarray(want[: shape0[0], shape0[1] :])
    assert out[()].tobytes() == want.tobytes()
    return want.tobytes(), nd_facts(out)
