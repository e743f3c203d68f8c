"""Changes files by turns with this project, through C-Blosc2.

    pingpong.py --kind arrays|frames --seed S --first N --last M --dir DIR

Each line on stdout is one of
    {"begin": n}                          sequence n starts
    {"do": [operation, ...]}              for this project, which answers with a line on stdin
    {"note": operation, "text": ...}      the next operation of C-Blosc2
    {"excluded": reason}                  a result that is not compared
    {"verdict": text}                     the state of the checksums after a change by C-Blosc2
    {"end": n, "wrong": null or text}
After each turn both sides read the whole file, which is compared with a plain copy of the expected content.
"""

import argparse
import json
import os
import random
import shutil
import sys

import blosc2
import numpy as np

import ndchunks
import peerlib as p

blosc2.set_nthreads(1)

DTYPES = ["<u4", "<f8", "|u1", "<i2", ">i4", "|S7", "<c16", [("a", "<i4"), ("b", "<f8")]]
CODECS = ["lz4", "zstd", "blosclz", "zlib"]
STALE = "values of earlier items come back when C grows what C has shrunk"
DELTA = "C writes and reads slices wrongly with the delta filter"
LONE = "C does not open a sparse frame in which it has left one chunk of several"


class Wrong(Exception):
    """A difference."""


def say(**message):
    print(json.dumps(message), flush=True)


def ours(operation, *rest):
    say(do=[operation, *rest])
    reply = json.loads(sys.stdin.readline())
    if "error" in reply:
        raise Wrong(f"this project, {operation}: {reply['error']}")
    return reply


def same(side, found, wanted):
    if found != wanted:
        raise Wrong(f"{side} finds {str(found)[:300]}, expected {str(wanted)[:300]}")


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)
    if os.path.exists(path + ".b2lock"):
        os.remove(path + ".b2lock")


class Unreadable(Exception):
    """A known defect of C after which a sequence cannot continue."""


class Sequence:
    turn = "C"

    def __init__(self, seed, number, folder):
        self.rng = random.Random(f"{seed} {number}")
        self.noise = np.random.default_rng([seed, number])
        self.path = os.path.join(folder, f"{type(self).__name__}{number}")
        self.value = os.path.join(folder, "value")
        self.contiguous = self.rng.random() < 0.5

    def send(self, data):
        with open(self.value, "wb") as file:
            file.write(data)
        return self.value

    def where(self, codec, filters, clevel, **rest):
        cparams = p.cparams(codec, [(f, 0) for f in filters], clevel=clevel, **rest)
        return {"urlpath": self.path, "contiguous": self.contiguous, "cparams": cparams}

    def run(self):
        self.begun_by = "C"
        self.create()
        self.sums = None
        self.compare()
        for _ in range(self.rng.randint(4, 14)):
            self.before, self.changed = self.held(), ""
            if self.rng.random() < 0.2:
                self.turn = self.rng.choice(["add checksums", "remove checksums"])
                ours(self.turn, self.path)
            elif self.rng.random() < 0.5 or not self.c_can_write():
                self.turn = "ours"
                ours("open", self.path)
                for _ in range(self.rng.randint(1, 3)):
                    self.our_turn()
                ours("commit")
            else:
                self.turn = "C"
                self.c_turn()
            self.compare()

    def note(self, operation, text):
        self.changed = operation
        say(note=operation, text=text)

    def check_sums(self, found):
        """The result of the checksums must match the changes since they were last verified."""
        before, self.sums = self.sums, found
        if before is None:
            same("this project, of the checksums,", found, "none" if self.begun_by == "C" else "ok")
        elif self.turn == "ours":
            # Checksums that only contradict the header are valid again; the others are gone.
            allowed = {"ok": ["ok"], "none": ["none"], "changed": ["ok", "none"]}[before]
            if found not in allowed:
                raise Wrong(f"the checksums were {before}, and are {found} after a change of ours")
        elif self.turn == "C":
            different = self.held() != self.before
            if found == "ok" and (different or before != "ok") or before == "none" != found:
                raise Wrong(f"the checksums were {before}, and are {found} after a change by C-Blosc2")
            if different or found != before:
                where = "contiguous" if self.contiguous else "sparse"
                kind = type(self).__name__.lower()
                say(verdict=f"{kind}, {where}, {self.changed}: {before} to {found}")
        else:
            same("this project, of the checksums,", found, "ok" if self.turn == "add checksums" else "none")

    def others(self, opened):
        """The frame as C reads it from memory and by mapping the file, and C's copy of it."""
        yield "opened", opened
        if self.contiguous:
            with open(self.path, "rb") as file:
                yield "in memory", self.from_memory(file.read())
            yield "mapped", blosc2.open(self.path, mmap_mode="r")

    def reopen(self, nchunks):
        """The data that C reads, after this project has read the expected data."""
        try:
            return blosc2.open(self.path, mode="r")
        except RuntimeError as e:
            if self.turn == "C" and not self.contiguous and nchunks == 1 and "returned NULL" in str(e):
                raise Unreadable(LONE) from e
            raise


class Arrays(Sequence):
    def create(self):
        rng = self.rng
        ndim = 0 if rng.random() < 0.05 else rng.randint(1, 3)
        shape = [rng.randint(1, 12) for _ in range(ndim)]
        if ndim and rng.random() < 0.1:
            shape[rng.randrange(ndim)] = 0
        if ndim == 1 and rng.random() < 0.5:
            # Chunks that are large enough for a table of block starts.
            shape[0] *= 4000
        self.dtype = np.dtype(rng.choice(DTYPES))
        chunks = [rng.randint(1, n + 3) for n in shape]
        blocks = [rng.randint(1, c) for c in chunks]
        self.chunks = chunks
        filters = rng.choice([[p.SHUFFLE], [], [p.BITSHUFFLE], [p.DELTA, p.SHUFFLE]])
        self.delta = p.DELTA in filters
        self.shrunk = False
        codec, clevel = rng.choice(CODECS), rng.choice([1, 5])
        self.model = self.fresh(shape)
        if 0 in shape or rng.random() < 0.2:
            self.model = np.zeros(shape, self.dtype)
        text = f"{shape} chunks {chunks} blocks {blocks} {self.dtype} {filters} {codec}, contiguous {self.contiguous}"
        if rng.random() < 0.5:
            name = self.dtype.str if self.dtype.names is None else str(self.dtype.descr)
            value = self.send(self.model.tobytes())
            self.begun_by = "ours"
            ours("create array", self.path, shape, chunks, blocks, name, codec, clevel, filters, self.contiguous, value)
            return
        say(note="create", text=text)
        where = self.where(codec, filters, clevel)
        if ndim:
            where |= {"chunks": tuple(chunks), "blocks": tuple(blocks)}
        if 0 in shape or not self.model.tobytes().strip(b"\0"):
            blosc2.zeros(tuple(shape), dtype=self.dtype, **where)
        else:
            blosc2.asarray(self.model, **where)

    def fresh(self, shape):
        count = int(np.prod(shape)) if len(shape) else 1
        return self.noise.integers(1, 100, count * self.dtype.itemsize, dtype="u1").view(self.dtype).reshape(shape)

    def c_can_write(self):
        if self.delta:
            say(excluded=DELTA)
        return not self.delta

    def resized(self, shape):
        out = np.zeros(shape, self.dtype)
        kept = tuple(slice(0, min(n, m)) for n, m in zip(shape, self.model.shape))
        out[kept] = self.model[kept]
        return out, kept

    def our_turn(self):
        rng = self.rng
        shape, ndim = self.model.shape, self.model.ndim
        operation = rng.choice(["set", "resize", "append", "insert", "delete", "fill"] if ndim else ["set", "fill"])
        if operation in ("set", "fill"):
            key = tuple(self.any_select(n) for n in shape)
            zeros = operation == "fill" and rng.random() < 0.3
            value = self.fresh(np.shape(self.model[key]) if operation == "set" else ())
            value = np.zeros((), self.dtype) if zeros else value
            self.model = self.model.copy()
            self.model[key] = value
            words = [d if isinstance(d, int) else [d.start, d.stop, d.step] for d in key]
            ours(operation, words, self.send(value.tobytes()))
        elif operation == "resize":
            new = [rng.choice([n, n + rng.randint(0, 4), rng.randint(0, 10)]) for n in shape]
            self.model, _ = self.resized(new)
            ours("resize", new)
        elif operation in ("append", "insert"):
            axis = rng.randrange(ndim)
            new = list(shape)
            new[axis] = rng.choice([rng.randint(0, 4), self.chunks[axis]])
            value = self.fresh(new)
            at = shape[axis] if operation == "append" else rng.randint(0, shape[axis])
            before, after = np.split(self.model, [at], axis)
            self.model = np.concatenate([before, value, after], axis).astype(self.dtype)
            ours(operation, axis, at, new[axis], self.send(value.tobytes()))
        else:
            axis = rng.randrange(ndim)
            start = rng.randint(0, shape[axis])
            stop = rng.randint(start, min(shape[axis], start + 4))
            self.model = np.delete(self.model, range(start, stop), axis)
            ours("delete", axis, start, stop)

    def any_select(self, n):
        rng = self.rng
        how = rng.random()
        if n > 0 and how < 0.3:
            return rng.randrange(-n, n)
        if how < 0.5:
            return slice(None)
        ends = [rng.choice([None, rng.randint(-n - 2, n + 2)]) for _ in range(2)]
        return slice(*ends, rng.choice([1, 1, 2, -1, -3]))

    def c_turn(self):
        rng = self.rng
        array = blosc2.open(self.path, mode="a")
        if array.ndim == 0 or rng.random() < 0.5:
            key = tuple(slice(*sorted((rng.randint(0, n), rng.randint(0, n)))) for n in self.model.shape)
            value = self.fresh(np.shape(self.model[key]))
            if value.size and array.ndim:
                self.note("set", str(key))
                array[key] = value
                self.model = self.model.copy()
                self.model[key] = value
            return
        # C divides by zero on the way to some lengths of zero.
        new = [rng.choice([n, n + rng.randint(0, 4), rng.randint(1, 10)]) for n in self.model.shape]
        self.note("resize", str(new))
        array.resize(tuple(new))
        wanted, kept = self.resized(new)
        found = array[...]
        if found.tobytes() != wanted.tobytes():
            if not self.shrunk or found[kept].tobytes() != self.model[kept].tobytes():
                raise Wrong("C sees other items after it has resized")
            say(excluded=STALE)
            wanted = found
        self.shrunk |= any(n < m for n, m in zip(new, self.model.shape))
        self.model = wanted

    def compare(self):
        wanted = self.model.tobytes()
        reply = ours("read array", self.path, self.value)
        same("this project", reply["shape"], list(self.model.shape))
        with open(self.value, "rb") as file:
            if file.read() != wanted:
                raise Wrong("this project reads other items")
        self.check_sums(reply["checksums"])
        array = self.reopen(int(np.prod([-(-n // c) for n, c in zip(self.model.shape, self.chunks)])))
        for how, array in self.others(array):
            same(f"C-Blosc2, {how},", list(array.shape), list(self.model.shape))
            # Whole chunks, because of `DELTA`.
            if ndchunks.assemble(array, self.dtype.itemsize) != wanted:
                raise Wrong(f"C-Blosc2, {how}, reads other chunks")
            if not self.delta and array[() if array.ndim == 0 else ...].tobytes() != wanted:
                raise Wrong(f"C-Blosc2, {how}, reads other items")

    def held(self):
        return self.model.shape, self.model.tobytes()

    def from_memory(self, frame):
        return blosc2.ndarray_from_cframe(frame)


class Frames(Sequence):
    def create(self):
        rng = self.rng
        self.typesize = rng.choice([1, 2, 4, 8, 3])
        self.chunksize = self.typesize * rng.choice([1, 10, 100, 1000, 20_000])
        self.model = [self.fresh() for _ in range(rng.randint(0, 6))]
        self.layers = {}
        codec, clevel = rng.choice(CODECS), rng.choice([1, 5])
        filters = rng.choice([[p.SHUFFLE], [], [p.BITSHUFFLE]])
        if rng.random() < 0.5:
            self.begun_by = "ours"
            ours("create frame", self.path, self.typesize, self.chunksize, codec, clevel, filters, self.contiguous)
            if self.model:
                ours("open", self.path)
                for chunk in self.model:
                    ours("append chunk", 0, self.send(chunk))
                ours("commit")
            return
        text = f"{len(self.model)} chunks of {self.chunksize}, typesize {self.typesize}, {filters} {codec}"
        say(note="create", text=f"{text}, contiguous {self.contiguous}")
        schunk = blosc2.SChunk(chunksize=self.chunksize, **self.where(codec, filters, clevel, typesize=self.typesize))
        for chunk in self.model:
            schunk.append_data(chunk)

    def fresh(self):
        if self.rng.random() < 0.2:
            return bytes(self.chunksize)
        return self.noise.integers(0, self.rng.choice([3, 256]), self.chunksize, dtype="u1").tobytes()

    def c_can_write(self):
        return True

    def choose(self):
        """An operation, its arguments, and its data."""
        rng = self.rng
        operation = rng.choice(["append", "append", "insert", "update", "delete", "set layer", "remove layer"])
        if operation in ("update", "delete") and not self.model:
            operation = "append"
        if operation == "remove layer" and not self.layers:
            operation = "set layer"
        if operation == "set layer":
            return operation, rng.choice("abcde"), self.noise.bytes(rng.choice([1, 10, 1000]))
        if operation == "remove layer":
            return operation, rng.choice(sorted(self.layers)), b""
        last = len(self.model) - (operation in ("update", "delete"))
        at = len(self.model) if operation == "append" else rng.randint(0, last)
        return operation, at, self.fresh()

    def change(self, operation, at, data):
        if operation == "set layer":
            self.layers[at] = data.hex()
        elif operation == "remove layer":
            del self.layers[at]
        elif operation == "update":
            self.model[at] = data
        elif operation == "delete":
            del self.model[at]
        else:
            self.model.insert(at, data)

    def our_turn(self):
        operation, at, data = self.choose()
        layer = operation.endswith("layer")
        self.change(operation, at, data)
        ours(operation if layer else f"{operation} chunk", at, self.send(data))

    def c_turn(self):
        operation, at, data = self.choose()
        schunk = blosc2.open(self.path, mode="a")
        self.note(operation, str(at))
        if not operation.endswith("layer"):
            p.change_chunks(schunk, self.model, operation, at, data)
            return
        self.change(operation, at, data)
        if operation == "set layer":
            p.set_vlmeta(schunk, at, data)
        else:
            del schunk.vlmeta[at]

    def compare(self):
        reply = ours("read frame", self.path)
        wanted = [chunk.hex() for chunk in self.model]
        same("this project", reply["chunks"], wanted)
        same("this project", reply["layers"], self.layers)
        self.check_sums(reply["checksums"])
        for how, schunk in self.others(self.reopen(len(self.model))):
            same(f"C-Blosc2, {how},", [schunk.decompress_chunk(n).hex() for n in range(schunk.nchunks)], wanted)
            same(f"C-Blosc2, {how},", p.vlmeta_bytes(schunk), self.layers)

    def held(self):
        return list(self.model), dict(self.layers)

    def from_memory(self, frame):
        return blosc2.schunk_from_cframe(frame)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--kind", choices=["arrays", "frames"], required=True)
    args.add_argument("--dir", required=True)
    for name in ("--seed", "--first", "--last"):
        args.add_argument(name, type=int, required=True)
    args = args.parse_args()
    for number in range(args.first, args.last):
        say(begin=number)
        sequence = {"arrays": Arrays, "frames": Frames}[args.kind](args.seed, number, args.dir)
        wrong = None
        try:
            sequence.run()
        except Unreadable as e:
            say(excluded=str(e))
        except Exception as e:
            wrong = str(e) if isinstance(e, Wrong) else f"C-Blosc2: {type(e).__name__}: {e}"
        if wrong is None:
            remove(sequence.path)
        say(end=number, wrong=wrong)


main()
