"""Reads with C-Blosc2 the files that this project wrote.

    check_cases.py --dir DIR

Takes one case a line (JSON) on standard input, reads the file it names, and answers with one line:

    {"id": ..., "checks": {name: null or the fault}, "after": {...} or null}

`after` describes a copy of the file that C has changed since, for this project to read again. What C is known
to get wrong is left out: parts of delta chunks, parts of chunks with a dictionary, item slices of frames with
chunks of individual sizes.
"""

import argparse
import json
import os
import pathlib
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
    """The results of one case."""

    def __init__(self, folder, case):
        self.folder = folder
        self.case = case
        self.answers = {}
        self.rng = np.random.default_rng(case["seed"])
        self.raw = None
        if case.get("raw"):
            self.raw = pathlib.Path(self.path(case["raw"])).read_bytes()

    def path(self, name):
        return os.path.join(self.folder, name)

    def get(self, name, default=None):
        value = self.case.get(name)
        return default if value is None else value

    def run(self, name, call):
        """Runs one check; a returned text or an exception describes the failure."""
        try:
            self.answers[name] = call()
        except Exception:
            self.answers[name] = traceback.format_exc(limit=-3)

    def same(self, name, got, want):
        if got != want:
            self.answers[name] = f"C reads {got!r}, written was {want!r}"
        else:
            self.answers.setdefault(name, None)

    def facts(self, schunk):
        """The parameters that a frame stores."""
        cp = schunk.cparams
        got = {
            "clevel": cp.clevel,
            "use_dict": bool(cp.use_dict),
            "codec": int(getattr(cp.codec, "value", cp.codec)),
            "split": cp.splitmode.value,
            "filters": [[int(getattr(f, "value", f)), m % 256] for f, m in zip(cp.filters, cp.filters_meta)],
        }
        for name in got.keys() & self.case.keys():
            self.same("header " + name, got[name], self.case[name])

    def layers(self, schunk):
        meta = {k: v for k, v in p.meta_bytes(schunk).items() if k != "b2nd"}
        self.same("metalayers", meta, self.get("metalayers", {}))
        self.same("vlmetalayers", p.vlmeta_bytes(schunk), self.get("vlmetalayers", {}))

    def copied(self):
        """A copy of the case's file or folder, to change."""
        source, target = self.path(self.case["path"]), self.path("after-" + self.case["path"])
        (shutil.copytree if os.path.isdir(source) else shutil.copyfile)(source, target)
        return target

    def after(self, target, schunk, content, **facts):
        """Changes the metalayers of a copy, too, and describes what it then holds."""
        raw = self.case["id"] + ".after.raw"
        pathlib.Path(self.path(raw)).write_bytes(content)
        return {"path": os.path.basename(target), "raw": raw, **facts, **self.change_layers(schunk)}

    def change_layers(self, schunk):
        """Adds, replaces and deletes vlmetalayers, and replaces a fixed one. Returns the results."""
        vl = {k: bytes.fromhex(v) for k, v in self.get("vlmetalayers", {}).items()}
        names = list(vl)
        if names:
            vl[names[0]] = self.rng.bytes(int(self.rng.integers(1, 3000)))
            p.set_vlmeta(schunk, names[0], vl[names[0]])
        if len(names) > 1:
            schunk.vlmeta.del_vlmeta(names[1])
            del vl[names[1]]
        if len(vl) < 16:
            name = p.random_name(self.rng, vl)
            vl[name] = p.some_bytes(self.rng, int(self.rng.integers(1, 5000)))[1]
            p.set_vlmeta(schunk, name, vl[name])
        meta = dict(self.get("metalayers", {}))
        if meta:
            name = p.pick(self.rng, list(meta))
            new = self.rng.bytes(len(meta[name]) // 2)
            if new:
                blosc2.blosc2_ext.meta__setitem__(schunk, name, new)
            meta[name] = new.hex()
        return {"metalayers": meta, "vlmetalayers": {k: v.hex() for k, v in vl.items()}}


def chunk_checks(c):
    chunk = pathlib.Path(c.path(c.case["path"])).read_bytes()
    if c.case.get("vl_blocks"):
        return vl_checks(c, chunk)
    nbytes, cbytes, _ = blosc2.get_cbuffer_sizes(chunk)
    c.same("sizes", (nbytes, cbytes), (c.case["nbytes"], len(chunk)))
    for threads in (1, 2):
        if c.raw is not None and nbytes:
            c.run(f"whole, {threads} threads", lambda: p.difference(blosc2.decompress2(chunk, nthreads=threads), c.raw))
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
        wrong = p.difference(schunk.get_slice(a, b), c.raw[a * typesize : b * typesize])
        if wrong:
            return f"items {a}..{b}: {wrong}"
    return None


def is_block_long(schunk, start, stop):
    """Whether the slice takes as many bytes of a chunk as one of its blocks has, from the middle of a block.

    C-Blosc2 3.3.5 returns wrong data for those, even from its own chunks.
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
    blocks = p.split(c.raw, c.case["vl_blocks"])
    ext = blosc2.blosc2_ext

    def whole():
        return None if ext.vldecompress(chunk, nthreads=1) == blocks else "blocks differ"

    def one():
        k = int(c.rng.integers(0, len(blocks)))
        return p.difference(ext.vldecompress_block(chunk, k, nthreads=1), blocks[k])

    c.run("whole", whole)
    c.run("one block", one)


def frame_checks(c):
    path, offset = c.path(c.case["path"]), c.case["offset"]
    schunk = blosc2.open(path, mode="r", offset=offset, dparams={"nthreads": 1})
    frame_reads(c, schunk, "file")
    c.facts(schunk)
    c.layers(schunk)
    if os.path.isfile(path) and not offset:
        content = pathlib.Path(path).read_bytes()
        c.run("as buffer", lambda: frame_reads(c, blosc2.schunk_from_cframe(content, True), "buffer"))


def frame_reads(c, schunk, how):
    sizes = c.case["chunks"]
    typesize = c.case["typesize"]
    c.same(f"nchunks, {how}", schunk.nchunks, len(sizes))
    c.same(f"nbytes, {how}", schunk.nbytes, sum(sizes))
    c.same(f"typesize, {how}", schunk.typesize, typesize)
    if c.raw is None:
        return None
    chunks = p.split(c.raw, sizes)

    def whole():
        for i, want in enumerate(chunks):
            if c.case.get("vl_blocks"):
                got = b"".join(blosc2.blosc2_ext.vldecompress(schunk.get_chunk(i), nthreads=1))
            else:
                got = whole_chunk(schunk, i)
            wrong = p.difference(got, want)
            if wrong:
                return f"chunk {i}: {wrong}"
        return None

    variable = c.case["chunksize"] == 0
    if c.case["partial"] and not variable and c.raw and len(c.raw) % typesize == 0:
        c.run(f"items, {how}", lambda: item_slices(c, schunk, typesize))
    c.run(f"chunks, {how}", whole)
    return None


def frame_changes(c):
    """Appends, inserts, replaces and deletes chunks of a copy."""
    target = c.copied()
    schunk = blosc2.open(target, mode="a", dparams={"nthreads": 1})
    typesize, chunksize = c.case["typesize"], c.case["chunksize"]
    chunks = p.split(c.raw, c.case["chunks"])
    full = chunksize > 0 and all(len(chunk) == chunksize for chunk in chunks)
    if not c.case.get("vl_blocks"):
        for _ in range(4):
            size = chunksize or int(c.rng.integers(1, 600)) * typesize
            # An all-zero chunk is stored without its size: not where sizes vary.
            raw = bytes(size) if chunksize and c.rng.random() < 0.2 else c.rng.bytes(size - 1) + b"\1"
            how = p.pick(c.rng, ["append", "insert", "update", "delete"])
            at = int(c.rng.integers(0, len(chunks))) if chunks else 0
            short_last = chunks and not full and at == len(chunks) - 1
            # Inserting before a short chunk frees the sizes of all, and loses those of zero chunks.
            can = {
                "append": full or not chunksize,
                "insert": chunks and (full or not chunksize),
                "update": chunks and not short_last,
                "delete": len(chunks) > 1 and not short_last,
            }
            if can[how]:
                p.change_chunks(schunk, chunks, how, at, raw)
    return c.after(target, schunk, b"".join(chunks), chunks=[len(x) for x in chunks])


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
