"""Reads with C-Blosc2 what this project wrote.

    check_cases.py --dir DIR

Takes one case a line (JSON) on standard input, reads the file it names, and answers with one line:

    {"id": ..., "checks": {name: null or what went wrong}, "after": {...} or null}

`after` describes a copy of the file that C has changed since, for this project to read again. What C is known
to get wrong is left out: parts of delta chunks, parts of chunks with a dictionary, item slices of frames with
chunks of individual sizes.
"""

import argparse
import json
import os
import shutil
import sys
import traceback

import blosc2
import numpy as np

import peerlib as p
from check_arrays import array_checks, array_changes
from ndchunks import whole_chunk

blosc2.set_nthreads(1)


class Check:
    """The answers about one case."""

    def __init__(self, folder, case):
        self.folder = folder
        self.case = case
        self.answers = {}
        self.rng = np.random.default_rng(case["seed"])
        self.raw = None
        if case.get("raw"):
            with open(self.path(case["raw"]), "rb") as f:
                self.raw = f.read()

    def path(self, name):
        return os.path.join(self.folder, name)

    def get(self, name, default=None):
        value = self.case.get(name)
        return default if value is None else value

    def run(self, name, call):
        """Runs one check; a returned text or an exception says what is wrong."""
        try:
            self.answers[name] = call()
        except Exception:
            self.answers[name] = traceback.format_exc(limit=-3)

    def same(self, name, got, want):
        if got != want:
            self.answers[name] = f"C reads {got!r}, written was {want!r}"
        else:
            self.answers.setdefault(name, None)


def difference(got, want):
    """None, or where two byte strings differ first."""
    got, want = bytes(got), bytes(want)
    if got == want:
        return None
    if len(got) != len(want):
        return f"{len(got)} bytes instead of {len(want)}"
    at = next(i for i, (a, b) in enumerate(zip(got, want)) if a != b)
    return f"differs first at byte {at} of {len(want)}: {got[at]} instead of {want[at]}"


def chunk_checks(c):
    with open(c.path(c.case["path"]), "rb") as f:
        chunk = f.read()
    if c.case.get("vl_blocks"):
        return vl_checks(c, chunk)
    nbytes, cbytes, _ = blosc2.get_cbuffer_sizes(chunk)
    c.same("sizes", (nbytes, cbytes), (c.case["nbytes"], len(chunk)))
    for threads in (1, 2):
        if c.raw is not None and nbytes:
            c.run(f"whole, {threads} threads", lambda: difference(blosc2.decompress2(chunk, nthreads=threads), c.raw))
    typesize = c.case["typesize"]
    # Items are counted in the chunk's own typesize; the super-chunk has to agree.
    if c.raw and c.case["partial"] and not c.case.get("special") and chunk[3] == typesize and nbytes % typesize == 0:
        c.run("items", lambda: chunk_items(c, chunk, typesize))


def chunk_items(c, chunk, typesize):
    schunk = blosc2.SChunk(chunksize=len(c.raw), cparams={"typesize": typesize, "nthreads": 1}, dparams={"nthreads": 1})
    schunk.append_chunk(chunk)
    return item_slices(c, schunk, typesize)


def item_slices(c, schunk, typesize):
    n = len(c.raw) // typesize
    for _ in range(6):
        a = int(c.rng.integers(0, n))
        b = int(c.rng.integers(a, n)) + 1
        if is_block_long(schunk, a * typesize, b * typesize):
            continue
        wrong = difference(schunk.get_slice(a, b), c.raw[a * typesize : b * typesize])
        if wrong:
            return f"items {a}..{b}: {wrong}"
    return None


def is_block_long(schunk, start, stop):
    """Whether the slice takes as many bytes of a chunk as one of its blocks has, from the middle of a block.

    C-Blosc2 3.3.5 returns wrong data for those, of its own chunks as well.
    """
    size = schunk.chunksize
    for nchunk in range(start // size, -(-stop // size)):
        first = max(start - nchunk * size, 0)
        last = min(stop - nchunk * size, size)
        nbytes, _, blocksize = blosc2.get_cbuffer_sizes(schunk.get_chunk(nchunk))
        # The last block may be short.
        if last - first in (blocksize, nbytes % blocksize) and first % blocksize:
            return True
    return False


def vl_checks(c, chunk):
    blocks, at = [], 0
    for size in c.case["vl_blocks"]:
        blocks.append(c.raw[at : at + size])
        at += size
    ext = blosc2.blosc2_ext

    def whole():
        return None if ext.vldecompress(chunk, nthreads=1) == blocks else "blocks differ"

    def one():
        k = int(c.rng.integers(0, len(blocks)))
        return difference(ext.vldecompress_block(chunk, k, nthreads=1), blocks[k])

    c.run("whole", whole)
    c.run("one block", one)


def facts(c, schunk):
    """The parameters that a frame keeps."""
    cp = schunk.cparams
    for name, got in (("clevel", cp.clevel), ("use_dict", bool(cp.use_dict))):
        if name in c.case:
            c.same("header " + name, got, c.case[name])
    if "codec" in c.case:
        c.same("header codec", int(getattr(cp.codec, "value", cp.codec)), c.case["codec"])
    if "split" in c.case:
        c.same("header split", cp.splitmode.value, c.case["split"])
    if "filters" in c.case:
        got = [[int(getattr(f, "value", f)), m % 256] for f, m in zip(cp.filters, cp.filters_meta)]
        c.same("header filters", got, c.case["filters"])


def layers(c, schunk):
    c.same("metalayers", {k: v for k, v in p.meta_bytes(schunk).items() if k != "b2nd"}, c.get("metalayers", {}))
    c.same("vlmetalayers", p.vlmeta_bytes(schunk), c.get("vlmetalayers", {}))


def split(raw, sizes):
    out, at = [], 0
    for size in sizes:
        out.append(raw[at : at + size])
        at += size
    return out


def frame_checks(c):
    path, offset = c.path(c.case["path"]), c.case["offset"]
    schunk = blosc2.open(path, mode="r", offset=offset, dparams={"nthreads": 1})
    frame_reads(c, schunk, "file")
    facts(c, schunk)
    layers(c, schunk)
    if os.path.isfile(path) and not offset:
        with open(path, "rb") as f:
            content = f.read()
        c.run("as buffer", lambda: frame_reads(c, blosc2.schunk_from_cframe(content, True), "buffer"))


def frame_reads(c, schunk, how):
    sizes = c.case["chunks"]
    typesize = c.case["typesize"]
    c.same(f"nchunks, {how}", schunk.nchunks, len(sizes))
    c.same(f"nbytes, {how}", schunk.nbytes, sum(sizes))
    c.same(f"typesize, {how}", schunk.typesize, typesize)
    if c.raw is None:
        return None
    chunks = split(c.raw, sizes)

    def whole():
        for i, want in enumerate(chunks):
            if c.case.get("vl_blocks"):
                got = b"".join(blosc2.blosc2_ext.vldecompress(schunk.get_chunk(i), nthreads=1))
            else:
                got = whole_chunk(schunk, i)
            wrong = difference(got, want)
            if wrong:
                return f"chunk {i}: {wrong}"
        return None

    variable = c.case["chunksize"] == 0
    if c.case["partial"] and not variable and c.raw and len(c.raw) % typesize == 0:
        c.run(f"items, {how}", lambda: item_slices(c, schunk, typesize))
    c.run(f"chunks, {how}", whole)
    return None


def copied(c):
    """A copy of the case's file or folder, to change."""
    source, target = c.path(c.case["path"]), c.path("after-" + c.case["path"])
    (shutil.copytree if os.path.isdir(source) else shutil.copyfile)(source, target)
    return target


def change_layers(c, schunk):
    """Adds, replaces and deletes vlmetalayers, and replaces a fixed one: what they are then."""
    vl = {k: bytes.fromhex(v) for k, v in c.get("vlmetalayers", {}).items()}
    names = list(vl)
    if names:
        vl[names[0]] = c.rng.bytes(int(c.rng.integers(1, 3000)))
        p.set_vlmeta(schunk, names[0], vl[names[0]])
    if len(names) > 1:
        schunk.vlmeta.del_vlmeta(names[1])
        del vl[names[1]]
    if len(vl) < 16:
        name = p.random_name(c.rng, vl)
        vl[name] = p.some_bytes(c.rng, int(c.rng.integers(1, 5000)))[1]
        p.set_vlmeta(schunk, name, vl[name])
    meta = dict(c.get("metalayers", {}))
    if meta:
        name = p.pick(c.rng, list(meta))
        new = c.rng.bytes(len(meta[name]) // 2)
        if new:
            blosc2.blosc2_ext.meta__setitem__(schunk, name, new)
        meta[name] = new.hex()
    return {"metalayers": meta, "vlmetalayers": {k: v.hex() for k, v in vl.items()}}


def frame_changes(c):
    """Appends, inserts, replaces and deletes chunks of a copy."""
    target = copied(c)
    schunk = blosc2.open(target, mode="a", dparams={"nthreads": 1})
    typesize, chunksize = c.case["typesize"], c.case["chunksize"]
    chunks = split(c.raw, c.case["chunks"])
    full = chunksize > 0 and all(len(chunk) == chunksize for chunk in chunks)
    if not c.case.get("vl_blocks"):
        for _ in range(4):
            size = chunksize or int(c.rng.integers(1, 600)) * typesize
            # An all-zero chunk is stored without its size: not where sizes vary.
            raw = bytes(size) if chunksize and c.rng.random() < 0.2 else c.rng.bytes(size - 1) + b"\1"
            how = p.pick(c.rng, ["append", "insert", "update", "delete"])
            at = int(c.rng.integers(0, len(chunks))) if chunks else 0
            short_last = chunks and not full and at == len(chunks) - 1
            if how == "append" and (full or not chunksize):
                schunk.append_data(raw)
                chunks.append(raw)
            # Inserting before a short chunk frees the sizes of all, and loses those of zero chunks.
            elif how == "insert" and chunks and (full or not chunksize):
                schunk.insert_data(at, raw, True)
                chunks.insert(at, raw)
            elif how == "update" and chunks and not short_last:
                schunk.update_data(at, raw, True)
                chunks[at] = raw
            elif how == "delete" and len(chunks) > 1 and not short_last:
                schunk.delete_chunk(at)
                del chunks[at]
    after = change_layers(c, schunk)
    raw = c.case["id"] + ".after.raw"
    with open(c.path(raw), "wb") as f:
        f.write(b"".join(chunks))
    return {"path": os.path.basename(target), "raw": raw, "chunks": [len(x) for x in chunks], **after}


def answer(folder, case):
    c = Check(folder, case)
    kind = case["labels"]["kind"]
    after = None
    try:
        {"chunk": chunk_checks, "vlchunk": chunk_checks, "frame": frame_checks, "array": array_checks}[kind](c)
    except Exception:
        c.answers["open"] = traceback.format_exc(limit=-3)
    if case.get("change") and not any(c.answers.values()):
        try:
            after = {"frame": frame_changes, "array": array_changes}[kind](c)
        except Exception:
            c.answers["change"] = traceback.format_exc(limit=-3)
    return {"id": case["id"], "checks": c.answers, "after": after}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", required=True, help="folder of the files that the cases name")
    args = parser.parse_args()
    for line in sys.stdin:
        print(json.dumps(answer(args.dir, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
