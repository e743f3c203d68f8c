"""Writes random cases with C-Blosc2 for this project to read.

    gen_cases.py --seed S --out DIR --from A --to B

For each case one line of JSON on standard output when it begins and one when it is written; the files go to
DIR. A case depends on the seed and its number alone. The fields of a case:

    id, kind        chunk, vlchunk, frame or array
    labels          the rows and columns of the tables of the report
    path, offset    the file or folder, and the offset of the frame in it
    raw             file with the expected data, or C's own decoding of whole chunks where the pipeline is lossy or C
                    changes its input; null if undefined (uninitialised)
    the rest        facts to compare: header fields, sizes of chunks or blocks, shape, dtype, metalayers
"""

import argparse
import json
import os
import pathlib
import sys
import traceback

import blosc2
import numpy as np

import peerlib as p
from gen_arrays import array_case
from gen_frames import frame_case

blosc2.set_nthreads(1)


class Case:
    """A case under construction."""

    def __init__(self, out, number, rng, kind):
        self.id = f"t{number:06}"
        self.out = out
        self.rng = rng
        self.labels = {"kind": kind}
        self.facts = {}
        self.offset = 0
        self.raw = None
        self.file = self.id

    def path(self, suffix):
        self.file = self.id + suffix
        return os.path.join(self.out, self.file)

    def save(self, suffix, content):
        pathlib.Path(self.path(suffix)).write_bytes(content)

    def label(self, **labels):
        self.labels.update({k: str(v) for k, v in labels.items()})

    def describe(self):
        raw = None
        if self.raw is not None:
            raw = self.id + ".raw"
            pathlib.Path(self.out, raw).write_bytes(self.raw)
        return {"id": self.id, "labels": self.labels, "path": self.file, "offset": self.offset, "raw": raw,
                **self.facts}


def chunk_params(case, typesize=None):
    typesize = typesize or p.pick(case.rng, p.TYPESIZES + [1, 2, 4, 8] * 6)
    return p.any_params(case, typesize, lambda pipes: list(pipes) + ["shuffle", "bitshuffle"], 0.25)


def chunk_case(case):
    rng = case.rng
    how = p.pick(rng, ["plain"] * 14 + ["unrounded", "blosc1", "special", "special"])
    if how == "blosc1":
        return blosc1_case(case)
    if how == "special":
        return special_case(case)
    params = chunk_params(case)
    typesize, filters = params["typesize"], params["filters"]
    lengths, nbytes = p.any_length(rng, typesize)
    if p.loses_tail(filters):
        nbytes -= nbytes % typesize
        lengths = "items"
    params["nthreads"] = p.pick(rng, [1, 1, 1, 2, 3])
    block = "auto"
    if how == "unrounded" and typesize > 1 and not p.loses_tail(filters):
        # C stores this number and cuts the blocks with the next lower multiple of the item size.
        params["blocksize"] = typesize * int(rng.integers(2, 50)) + int(rng.integers(1, typesize))
        block = "unrounded"
    elif rng.random() < 0.4:
        params["blocksize"] = typesize * int(rng.integers(1, max(2, min(nbytes, 30000) // typesize)))
        block = "user"
        if nbytes // params["blocksize"] > 3000:
            del params["blocksize"]
            block = "auto"
        elif nbytes % typesize and params["blocksize"] > nbytes:
            block = "unrounded"
    data, raw = p.some_bytes(rng, nbytes)
    chunk = blosc2.compress2(bytearray(raw), **p.cparams(**params))
    if params.get("use_dict"):
        p.refuse_unreadable([chunk])
    if p.is_lossy(filters):
        raw = blosc2.decompress2(chunk, nthreads=1) if nbytes else b""
    case.save(".chunk", chunk)
    case.raw = raw
    case.facts = {"typesize": typesize if typesize <= 255 else 1, "itemsize": typesize, "nbytes": nbytes,
                  "filters": p.slots(filters), "codec": params["codec"]}
    case.label(length=lengths, block=block, data=data, threads=params["nthreads"])
    return case


def blosc1_case(case):
    """The 16-byte header, which C writes in its compatibility mode."""
    rng = case.rng
    codec = p.pick(rng, p.CODECS)
    filter = p.pick(rng, ["NOFILTER", "SHUFFLE", "BITSHUFFLE"])
    typesize = p.pick(rng, [1, 2, 3, 4, 8, 16, 17, 255])
    lengths, nbytes = p.any_length(rng, typesize)
    if nbytes == 0:
        nbytes = typesize
    clevel = int(rng.integers(0, 10))
    data, raw = p.some_bytes(rng, nbytes)
    os.environ["BLOSC_BLOSC1_COMPAT"] = "1"
    chunk = blosc2.compress(raw, typesize=typesize, clevel=clevel, filter=blosc2.Filter[filter],
                            codec=p.codec_id(codec), _ignore_multiple_size=True)
    del os.environ["BLOSC_BLOSC1_COMPAT"]
    case.save(".chunk", chunk)
    case.raw = raw
    case.facts = {"typesize": typesize, "nbytes": nbytes}
    case.label(codec=codec, pipe="blosc1-" + filter.lower(), typesize=typesize, clevel=clevel, length=lengths, data=data)
    return case


def special_case(case):
    """A bare chunk that holds one value only."""
    rng = case.rng
    kind = p.pick(rng, ["ZERO", "NAN", "VALUE", "UNINIT"])
    typesize = p.pick(rng, [4, 8]) if kind == "NAN" else p.pick(rng, p.TYPESIZES)
    nitems = int(rng.integers(1, 5000))
    value = rng.bytes(typesize)
    schunk = blosc2.SChunk(chunksize=nitems * typesize, cparams=p.cparams(typesize=typesize))
    schunk.fill_special(nitems, blosc2.SpecialValue[kind], value if kind == "VALUE" else None)
    item = {"NAN": np.array(np.nan, f"<f{typesize}").tobytes() if kind == "NAN" else b"", "VALUE": value}
    case.save(".chunk", schunk.get_chunk(0))
    case.raw = None if kind == "UNINIT" else item.get(kind, bytes(typesize)) * nitems
    case.facts = {"typesize": typesize if typesize <= 255 else 1, "nbytes": nitems * typesize}
    case.label(special=kind.lower(), typesize=typesize)
    return case


def vlchunk_case(case):
    rng = case.rng
    params = chunk_params(case, typesize=p.pick(rng, [1, 1, 2, 4, 8]))
    pipes = p.pipelines(rng, params["typesize"])
    # No delta: the C library encodes it one way and decodes it another in these chunks.
    pipe = p.pick(rng, ["none", "shuffle", "bitshuffle"] + ([] if params["typesize"] == 1 else ["shuffle+bytedelta"]))
    params["filters"] = pipes[pipe]
    if params["codec"] == "blosclz" and params["clevel"] == 0:
        # The C library then writes out of bounds.
        params["clevel"] = 1
        case.label(clevel=1)
    blocks = []
    for _ in range(int(rng.integers(1, 40))):
        n = int(np.exp(rng.uniform(0, 8)))
        n = n - n % params["typesize"] or params["typesize"]
        blocks.append(p.some_bytes(rng, n)[1])
    chunk = blosc2.blosc2_ext.vlcompress(blocks, **p.cparams(**params))
    case.save(".chunk", chunk)
    case.raw = b"".join(blocks)
    case.facts = {"typesize": params["typesize"], "nbytes": len(case.raw), "vl_blocks": [len(b) for b in blocks],
                  "filters": p.slots(params["filters"]), "codec": params["codec"]}
    case.label(pipe=pipe)
    return case


# How often each kind is drawn.
KINDS = [("chunk", chunk_case, 44), ("vlchunk", vlchunk_case, 6), ("frame", frame_case, 22), ("array", array_case, 28)]


def make(seed, number, out):
    """Case `number` of `seed`, whatever ran before it."""
    rng = np.random.default_rng([seed, number])
    weights = np.array([w for _, _, w in KINDS], dtype=float)
    kind, build, _ = KINDS[int(rng.choice(len(KINDS), p=weights / weights.sum()))]
    return build(Case(out, number, rng, kind)).describe()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True, help="any number; the same seed gives the same cases")
    parser.add_argument("--out", required=True, help="folder for the files")
    parser.add_argument("--from", dest="first", type=int, default=0, help="first case")
    parser.add_argument("--to", dest="last", type=int, required=True, help="one past the last case")
    args = parser.parse_args()
    for number in range(args.first, args.last):
        print(json.dumps({"begin": number}), flush=True)
        try:
            line = {"done": number, "case": make(args.seed, number, args.out)}
        except Exception:
            line = {"done": number, "error": traceback.format_exc()}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
