"""Shared by the scripts that drive the peer: pipelines by name, random data, metalayers as bytes."""

import itertools

import blosc2
import numpy as np

import data as raw_data

CODECS = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
SPLITS = {"always": "ALWAYS_SPLIT", "never": "NEVER_SPLIT", "auto": "AUTO_SPLIT", "forward": "FORWARD_COMPAT_SPLIT"}
TYPESIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 20, 24, 31, 32, 33, 48, 64, 100, 127, 128, 200, 254,
             255, 256, 257, 300, 511, 1000]

# Filter ids, some of which older releases have no name for.
SHUFFLE, BITSHUFFLE, DELTA, TRUNC_PREC, NDCELL, NDMEAN, BYTEDELTA_V1, BYTEDELTA, INT_TRUNC = 1, 2, 3, 4, 32, 33, 34, 35, 36


def pipelines(rng, typesize):
    """Every pipeline that can be tried with this item size: name, filters, lossy."""
    small = min(typesize, 255)
    out = {
        "none": [],
        "shuffle": [(SHUFFLE, 0)],
        "bitshuffle": [(BITSHUFFLE, 0)],
        "delta": [(DELTA, 0)],
        "delta+shuffle": [(DELTA, 0), (SHUFFLE, 0)],
        "delta+bitshuffle": [(DELTA, 0), (BITSHUFFLE, 0)],
        "shuffle+delta": [(SHUFFLE, 0), (DELTA, 0)],
        "shuffle+bytedelta": [(SHUFFLE, 0), (BYTEDELTA, small)],
        "bytedelta": [(BYTEDELTA, int(rng.integers(1, small + 1)))],
        "bytedelta-v1": [(SHUFFLE, 0), (BYTEDELTA_V1, small)],
        "shuffle-meta": [(SHUFFLE, int(rng.integers(1, 256)))],
        "shuffle-twice": [(SHUFFLE, 0), (SHUFFLE, int(rng.integers(1, 17)))],
        "three": [(SHUFFLE, 0), (BYTEDELTA, small), (BITSHUFFLE, 0)],
        "six": [(SHUFFLE, 3), (BYTEDELTA, 2), (BITSHUFFLE, 0), (SHUFFLE, 5), (BYTEDELTA, 7), (SHUFFLE, 0)],
    }
    if typesize in (4, 8):
        top = 23 if typesize == 4 else 52
        p = int(rng.integers(1, top))
        out["trunc_prec+shuffle"] = [(TRUNC_PREC, p), (SHUFFLE, 0)]
        out["trunc_prec-negative+bitshuffle"] = [(TRUNC_PREC, -p), (BITSHUFFLE, 0)]
        out["trunc_prec+delta"] = [(TRUNC_PREC, p), (DELTA, 0)]
    if typesize in (1, 2, 4, 8):
        out["int_trunc+shuffle"] = [(INT_TRUNC, -int(rng.integers(1, 8 * typesize))), (SHUFFLE, 0)]
    if typesize > 255:
        # Its parameter is one byte, and C loses the bytes after the last whole item.
        del out["bytedelta-v1"]
    if typesize == 1:
        # python-blosc2 drops bytedelta for items of one byte; so does the pipeline that is written.
        for name in [n for n, f in out.items() if any(i in (BYTEDELTA, BYTEDELTA_V1) for i, _ in f)]:
            del out[name]
    return out


def is_lossy(filters):
    """Whether the original cannot be the oracle: with a lossy filter, or with three filters, which destroy C's input."""
    ids = [f for f, _ in filters]
    return any(i in (TRUNC_PREC, INT_TRUNC, NDMEAN) for i in ids) or len(ids) >= 3


def has_delta(filters):
    return any(f == DELTA for f, _ in filters)


def cparams(codec="zstd", filters=((SHUFFLE, 0),), split="auto", nthreads=1, **rest):
    """Keyword arguments of python-blosc2."""
    out = {"codec": codec_id(codec), "splitmode": blosc2.SplitMode[SPLITS[split]], "nthreads": nthreads, **rest}
    out["filters"] = [f for f, _ in filters] or [0]
    out["filters_meta"] = [m - 256 if m > 127 else m for _, m in filters] or [0]
    return out


def any_params(case, typesize, choose, dictionaries):
    """Random parameters, as keyword arguments for `cparams`. `choose` lists the names of pipelines to pick from;
    `dictionaries` is how often one is asked for, where it can be."""
    rng = case.rng
    pipes = pipelines(rng, typesize)
    name = pick(rng, choose(pipes))
    out = {"codec": pick(rng, CODECS), "filters": pipes[name], "typesize": typesize, "clevel": int(rng.integers(0, 10)),
           "split": pick(rng, list(SPLITS))}
    # Incompressible data with a dictionary is stored in a way that C cannot read, so not where C is the oracle.
    if out["codec"] in ("lz4", "lz4hc", "zstd") and not is_lossy(pipes[name]) and rng.random() < dictionaries:
        out["use_dict"] = 1
    case.label(codec=out["codec"], pipe=name, typesize=typesize, clevel=out["clevel"], split=out["split"],
               dict="yes" if out.get("use_dict") else "no")
    return out


def slots(filters):
    """The six slots as python-blosc2 fills them, from the first on: [id, meta] each."""
    return [[f, m % 256] for f, m in filters] + [[0, 0]] * (6 - len(filters))


def loses_tail(filters):
    """Whether C loses the bytes after the last whole item of a block."""
    return any(f in (DELTA, BYTEDELTA_V1, TRUNC_PREC, INT_TRUNC) for f, _ in filters) or len(filters) >= 3


def codec_id(name):
    return blosc2.Codec[name.upper()]


def pick(rng, options):
    """One of `options`, as a plain Python value."""
    return options[int(rng.integers(len(options)))]


def some_bytes(rng, nbytes, typesize=4):
    """Data of a random kind: (its name, the bytes)."""
    kind = pick(rng, ["walk1", "walk2", "walk4", "walk8", "float4", "float8", "sparse", "text", "runs", "runs", "zeros", "noise"])
    if nbytes > 60000 and kind in ("runs", "text"):
        kind = "walk4"
    raw = raw_data.make(kind, int(rng.integers(1 << 40)), nbytes)
    return kind, raw


def any_length(rng, typesize, top=200_000):
    """A length, preferring small and odd ones: (class, bytes)."""
    how = pick(rng, ["tiny", "small", "items", "items", "ragged", "large"])
    if how == "tiny":
        return how, int(rng.integers(0, 130))
    if how == "small":
        return how, int(rng.integers(1, 60)) * typesize
    if how == "large":
        n = int(rng.integers(60_000, top))
        return how, n - n % typesize
    n = int(np.exp(rng.uniform(5, 10.5)))
    n = max(n - n % typesize, typesize)
    if how == "ragged" and typesize > 1:
        return how, n + int(rng.integers(1, typesize))
    return "items", n


def random_name(rng, taken=()):
    """A metalayer name of 1 to 31 characters that gives a frame no meaning."""
    letters = "abcdefghijklmnopqrstuvwxyz_-.0123456789"
    while True:
        name = "".join(pick(rng, letters) for _ in range(int(rng.integers(1, 32))))
        if name not in taken and name not in ("b2nd", "b2o", "caterva"):
            return name


def meta_bytes(schunk):
    """Every fixed metalayer as stored, in hexadecimal."""
    ext = blosc2.blosc2_ext
    return {name: ext.meta__getitem__(schunk, name).hex() for name in ext.meta_keys(schunk)}


def vlmeta_bytes(schunk):
    """Every vlmetalayer, decompressed, in hexadecimal."""
    layers = schunk.vlmeta
    return {name: layers.get_vlmeta(name).hex() for name in layers.get_names()}


class Unreadable(Exception):
    """The C library wrote something that it cannot read back, for a known reason."""


def refuse_unreadable(chunks):
    """Stops a case whose chunks the C library cannot read: with a dictionary, it marks chunks of less than 32
    bytes as plain data and then stores a run."""
    for chunk in chunks:
        nbytes, cbytes, blocksize = blosc2.get_cbuffer_sizes(chunk)
        # The size gives it away, or else the start of the first block, in a place where no table should be.
        first = 32 + 4 * -(-nbytes // max(blocksize, 1))
        if chunk[2] & 2 and (cbytes != nbytes + 32 or nbytes < 32 and chunk[32:36] == first.to_bytes(4, "little")):
            raise Unreadable("a tiny chunk with a dictionary")


def stored_chunks(schunk):
    return (schunk.get_chunk(nchunk) for nchunk in range(schunk.nchunks))


def change_chunks(schunk, chunks, how, at, raw):
    """Appends, inserts, replaces or deletes a chunk, in the frame and in the list of what it should hold."""
    if how == "append":
        schunk.append_data(raw)
        chunks.append(raw)
    elif how == "insert":
        schunk.insert_data(at, raw, True)
        chunks.insert(at, raw)
    elif how == "update":
        schunk.update_data(at, raw, True)
        chunks[at] = raw
    else:
        schunk.delete_chunk(at)
        del chunks[at]


def split(raw, sizes):
    """Parts of these sizes."""
    ends = list(itertools.accumulate(sizes, initial=0))
    return [raw[start:end] for start, end in zip(ends, ends[1:])]


def difference(got, want):
    """None, or where two byte strings differ first."""
    got, want = bytes(got), bytes(want)
    if got == want:
        return None
    if len(got) != len(want):
        return f"{len(got)} bytes instead of {len(want)}"
    at = next(i for i, (a, b) in enumerate(zip(got, want)) if a != b)
    return f"differs first at byte {at} of {len(want)}: {got[at]} instead of {want[at]}"


def set_vlmeta(schunk, name, content):
    schunk.vlmeta.set_vlmeta(name, content, typesize=1, nthreads=1)
