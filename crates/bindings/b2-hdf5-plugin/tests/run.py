#!/usr/bin/env python3
"""Tests the filters inside HDF5, together with hdf5plugin and other programs. Prints how many cases passed in each part.

It needs h5py, hdf5plugin and numpy; with tables, netCDF4 and blosc2, and with h5repack and h5dump, it tests more. Parts that cannot run
print NOT RUN. The libraries are in target/dist, in the folder of `--libraries`, or with `--installed` in the package b2kit_hdf5_plugin.

    python tests/run.py [--libraries FOLDER | --installed] [--mutations N] [--seed N] [PART...]

Every part reads and writes in separate processes, because HDF5 keeps the first filter that it finds for a number.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()
BLOSC, BLOSC2 = 32001, 32026
CODECS = {"blosclz": 0, "lz4": 1, "lz4hc": 2, "snappy": 3, "zlib": 4, "zstd": 5}
PREFIX, SUFFIX = {"darwin": ("lib", ".dylib"), "win32": ("", ".dll")}.get(sys.platform, ("lib", ".so"))
LIBRARIES = {BLOSC: PREFIX + "h5b2kit_blosc" + SUFFIX, BLOSC2: PREFIX + "h5b2kit_blosc2" + SUFFIX}
# Of the random cases; all processes of a run have the same.
SEED = "B2KIT_SEED"

# The data to write and compare.

DTYPES = ["u1", "i2", "<u4", "i8", "f4", "f8", ">f4", ">i2", "f2", "c16", "?", "S5", "S300",
          [("a", "i4"), ("b", "f8"), ("c", "S3")], [("a", "u1"), ("b", "f4", (3,))], ("f4", (3,)), ("S100", (2, 3))]
TEXT = [f"row {n}" for n in range(1000)]
SHAPES = [((1,), (1,)), ((1000,), (1000,)), ((10_001,), (1024,)), ((100, 70), (100, 70)), ((131, 70), (64, 33)),
          ((40, 30, 20), (17, 30, 7)), ((9, 8, 7, 6), (4, 8, 3, 5)), ((5, 6, 7, 4, 3), (5, 2, 7, 3, 3))]


def values(dtype, shape, kind, seed):
    """Returns an array to be stored: `kind` says how well it compresses."""
    dtype = np.dtype(dtype)
    full = shape + dtype.shape
    base = dtype.base
    count = int(np.prod(full, dtype=int))
    rng = np.random.default_rng(seed)
    if base.fields:
        out = np.zeros(shape, base)
        for number, (name, (field, _)) in enumerate(base.fields.items()):
            out[name] = values(field, shape, kind, seed + number)
        return out
    if kind == "zeros":
        return np.zeros(full, base)
    if kind == "one":
        return np.full(full, np.array(1).astype(base), base)
    if kind == "random":
        raw = rng.integers(0, 256, count * base.itemsize, dtype="u1")
        raw = (raw & 1) if base.kind == "b" else raw
        raw = np.maximum(raw, 1) if base.kind == "S" else raw
        return np.frombuffer(raw.tobytes(), base).reshape(full)
    ramp = np.arange(count) // 3 + seed
    if base.kind == "S":
        return np.array([str(n) for n in ramp], base).reshape(full)
    return (ramp % 101 if base.itemsize < 4 else ramp * 0.25).astype(base).reshape(full)


def cases(number):
    """Yields the name, the values, and the arguments of `create_dataset` of each data set."""
    codecs = [name for name in CODECS if number == BLOSC or name != "snappy"]
    filters = [0, 1, 2] if number == BLOSC else [0, 1, 2, 3]

    def case(name, dtype, shape, chunks, kind, codec, level, filter, **more):
        seed = zlib.crc32(name.encode()) % 1000
        options = (0, 0, 0, 0, level, filter, CODECS[codec])
        arguments = dict(chunks=chunks, compression=number, compression_opts=options, **more)
        return name, dtype, values(dtype, shape, kind, seed), shape, arguments

    for codec in codecs:
        for filter in filters:
            for level in (0, 1, 5, 9):
                for kind in ("ramp", "random", "zeros"):
                    yield case(f"codec/{codec}/{filter}/{level}/{kind}", "f4", (60, 50), (25, 50), kind, codec, level, filter)
    for at, dtype in enumerate(DTYPES):
        for to, (shape, chunks) in enumerate(SHAPES):
            for kind in ("ramp", "random", "zeros", "one"):
                codec = codecs[(at + to) % len(codecs)]
                yield case(f"type/{at}/{to}/{kind}", dtype, shape, chunks, kind, codec, 5, filters[(at * to + 1) % 3])
    for codec in codecs:
        yield case(f"large/{codec}", "f4", (900, 700), (700, 600), "ramp", codec, 5, 1)
        yield case(f"line/{codec}", "f8", (300_000,), (200_000,), "ramp", codec, 5, 1)
    for name, more in [("fletcher", dict(fletcher32=True)), ("shuffle", dict(shuffle=True)), ("both", dict(shuffle=True, fletcher32=True)),
                       ("scaleoffset", dict(scaleoffset=0))]:
        for to, (shape, chunks) in enumerate(SHAPES):
            yield case(f"pipe/{name}/{to}", "i4", shape, chunks, "ramp", "lz4", 5, 1, **more)
    rng = random.Random(int(os.environ[SEED]) * number)
    for at in range(60):
        ndim = rng.randint(1, 4)
        shape = tuple(rng.choice([1, rng.randint(1, 9), rng.randint(1, [3000, 60, 25, 12][ndim - 1])]) for _ in range(ndim))
        chunks = tuple(rng.randint(1, length) for length in shape)
        # Few chunks: each takes some time to look up.
        chunks = tuple(max(chunk, -(-length // 6)) for chunk, length in zip(chunks, shape))
        kind, codec, filter = rng.choice(["ramp", "random", "zeros", "one"]), rng.choice(codecs), rng.choice(filters)
        yield case(f"any/{at}", rng.choice(DTYPES), shape, chunks, kind, codec, rng.randint(0, 9), filter)


def same(found, expected):
    return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


# Tests that run in separate processes.


def child_write(path, number):
    import h5py

    theirs = "hdf5plugin" in sys.modules

    with h5py.File(path, "w") as file:
        for name, dtype, data, shape, arguments in cases(number):
            if len(np.dtype(dtype).shape):
                file.create_dataset(name, shape=shape, dtype=dtype, **arguments)[...] = data
            else:
                file.create_dataset(name, data=data, **arguments)
        # hdf5plugin 7.1.0 divides by zero when it writes text of variable length.
        if not theirs:
            options = (0, 0, 0, 0, 5, 1, 5)
            text = file.create_dataset("text", (1000,), h5py.string_dtype(), chunks=(300,), compression=number, compression_opts=options)
            text[...] = TEXT
        enum = h5py.enum_dtype({"RED": 0, "GREEN": 1}, basetype="i2")
        file.create_dataset("enum", data=np.arange(900, dtype="i2").reshape(30, 30) % 2, dtype=enum, chunks=(7, 30), compression=number)
    print(json.dumps({"written": sum(1 for _ in cases(number)) + 2}))


def child_read(path, number):
    import h5py

    passed, failed, skipped = 0, [], 0
    with h5py.File(path, "r") as file:
        for name, _, data, _, _ in cases(number):
            try:
                data_set = file[name]
                # A chunk skipped by an optional filter tests nothing, so they are counted.
                mask = data_set.id.get_chunk_info(0).filter_mask
                skipped += mask != 0
                good = same(data_set[...], data)
            except Exception as error:
                failed.append(f"{name}: {error}")
                continue
            passed += good
            if not good:
                failed.append(f"{name}: other values")
        good = "text" not in file or list(file["text"].asstr()[...]) == TEXT
        good &= same(file["enum"][...].astype("i2"), np.arange(900, dtype="i2").reshape(30, 30) % 2)
        passed += good
        if not good:
            failed.append("text or enum: other values")
    print(json.dumps({"passed": passed, "failed": failed, "skipped": int(skipped)}))


def child_tables(path, number):
    """Reads with PyTables."""
    import tables

    passed, failed = 0, []
    with tables.open_file(path) as file:
        for name, dtype, data, _, arguments in cases(number):
            if np.dtype(dtype).fields or len(np.dtype(dtype).shape) or arguments["compression_opts"][6] == CODECS["snappy"]:
                continue  # It has other types, and its Blosc has no snappy.
            try:
                good = same(np.asarray(file.get_node("/" + name).read()).astype(data.dtype), data)
            except Exception as error:
                failed.append(f"{name}: {error}")
                continue
            passed += good
            if not good:
                failed.append(f"{name}: other values")
    print(json.dumps({"passed": passed, "failed": failed}))


def child_tables_write(path, number):
    """Writes with PyTables."""
    import tables

    with tables.open_file(path, "w") as file:
        for name, data, filters in tables_cases(number):
            file.create_carray("/", name, obj=data, filters=filters)
    print(json.dumps({"written": sum(1 for _ in tables_cases(number))}))


def tables_cases(number):
    try:
        import tables
    except ImportError:
        tables = None
    prefix = "blosc" if number == BLOSC else "blosc2"
    for codec in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        for at, (shape, _) in enumerate(SHAPES):
            for kind in ("ramp", "random"):
                filters = tables and tables.Filters(complevel=5, complib=f"{prefix}:{codec}")
                yield f"{codec}_{at}_{kind}", values("f8", shape, kind, at), filters


def child_tables_read(path, number):
    """Reads with h5py the files that PyTables wrote."""
    import h5py

    passed, failed = 0, []
    with h5py.File(path, "r") as file:
        for name, data, _ in tables_cases(number):
            good = same(file[name][...], data)
            passed += good
            if not good:
                failed.append(f"{name}: other values")
    print(json.dumps({"passed": passed, "failed": failed}))


def child_netcdf(path, number):
    """Reads with netCDF-C."""
    import netCDF4

    passed, failed = 0, []
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        for name, _, data, _, _ in cases(number):
            if name.startswith(("codec/", "large/", "line/")):
                good = np.array_equal(file[name][...], data, equal_nan=True)
                passed += good
                if not good:
                    failed.append(f"{name}: other values")
    print(json.dumps({"passed": passed, "failed": failed}))


def child_blosc2(path, number):
    """Reads the frames in chunks with python-blosc2, without HDF5."""
    import blosc2
    import h5py

    passed, failed = 0, []
    with h5py.File(path, "r") as file:
        for name, _, data, _, arguments in cases(number):
            data_set = file[name]
            mask, frame = data_set.id.read_direct_chunk((0,) * data_set.ndim)
            if mask or name.startswith("pipe/"):
                continue
            chunk = data_set.chunks
            expected = np.zeros(chunk + data_set.dtype.shape, data_set.dtype.base)
            part = data[tuple(slice(0, n) for n in chunk)]
            expected[tuple(slice(0, n) for n in part.shape)] = part
            super_chunk = blosc2.schunk_from_cframe(frame)
            if "b2nd" in super_chunk.meta:
                found = blosc2.ndarray_from_cframe(frame)[...].tobytes()
            else:
                found = super_chunk[:]
                found = found if isinstance(found, bytes) else np.asarray(found).tobytes()
            # Padding outside the array in edge chunks is up to HDF5.
            good = found == expected.tobytes() if part.shape == expected.shape else len(found) == expected.nbytes
            passed += good
            if not good:
                failed.append(f"{name}: other values")
    print(json.dumps({"passed": passed, "failed": failed}))


def child_mutate(number, count):
    """Changes bytes of chunks: reading gives values or an exception, in the memory that the chunk allows."""
    import resource

    import h5py

    rng = np.random.default_rng(1)
    outcomes = {"values": 0, "errors": 0}
    reasons = set()
    shapes = [((3000,), "f4"), ((60, 50), "f4"), ((9, 20, 30), "i2"), ((20_000,), "f8")]
    file = h5py.File("memory", "w", driver="core", backing_store=False)
    seeds = []
    for at, (shape, dtype) in enumerate(shapes):
        for codec in ("blosclz", "lz4", "zlib", "zstd"):
            for filter in (0, 1, 2):
                options = (0, 0, 0, 0, 5, filter, CODECS[codec])
                data = values(dtype, shape, ["ramp", "zeros", "random"][(at + filter) % 3], at)
                data_set = file.create_dataset(f"{at}/{codec}/{filter}", data=data, chunks=shape, compression=number, compression_opts=options)
                mask, chunk = data_set.id.read_direct_chunk((0,) * len(shape))
                if not mask:
                    seeds.append((data_set, np.frombuffer(chunk, "u1")))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for turn in range(count):
        data_set, chunk = seeds[turn % len(seeds)]
        chunk = chunk.copy()
        kind = rng.integers(6)
        # Most errors occur at the start and at the end.
        near = [min(200, chunk.size), chunk.size][rng.integers(2)]
        at = rng.integers(near) if rng.integers(2) else chunk.size - 1 - rng.integers(near)
        if kind == 0:
            chunk = chunk[: max(at, 1)]
        elif kind == 1:
            chunk = np.concatenate([chunk, rng.integers(0, 256, 1 + rng.integers(100), dtype="u1")])
        elif kind == 2:
            chunk[at] ^= np.uint8(1 << rng.integers(8))
        elif kind == 3:
            chunk[at:at + 4] = rng.choice(np.array([0, 1, 0x7F, 0x80, 0xFF], "u1"), min(4, chunk.size - at))
        else:
            for _ in range(1 + rng.integers(8)):
                chunk[rng.integers(chunk.size)] = rng.integers(256)
        # A file in memory never shrinks; it is overwritten where possible.
        data_set.id.write_direct_chunk((0,) * data_set.ndim, chunk.tobytes())
        data_set.refresh() if hasattr(data_set, "refresh") else None
        try:
            data_set[...]
            outcomes["values"] += 1
        except OSError as error:
            outcomes["errors"] += 1
            reasons.add(str(error)[:60])
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    print(json.dumps({**outcomes, "reasons": len(reasons), "examples": sorted(reasons)[:3], "grown_mib": grown}))


class Description(ctypes.Structure):
    """`H5Z_class2_t`."""

    Function = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_uint, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint), ctypes.c_size_t,
                                ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_void_p))
    _fields_ = [("version", ctypes.c_int), ("id", ctypes.c_int), ("encoder", ctypes.c_uint), ("decoder", ctypes.c_uint),
                ("name", ctypes.c_char_p), ("can_apply", ctypes.c_void_p), ("set_local", ctypes.c_void_p), ("filter", Function)]


def child_threads(library, number):
    """Many threads call the filter directly, as a parallel HDF5 would: all chunks come back. Counts the threads it starts."""
    import h5py

    def tasks():
        return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0

    before = tasks()
    library = ctypes.CDLL(library)
    library.H5PLget_plugin_info.restype = ctypes.POINTER(Description)
    function = library.H5PLget_plugin_info().contents.filter
    c = ctypes.CDLL(None)
    c.malloc.restype, c.malloc.argtypes, c.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

    def call(flags, options, chunk):
        room, memory = ctypes.c_size_t(len(chunk)), ctypes.c_void_p(c.malloc(len(chunk)))
        ctypes.memmove(memory, chunk, len(chunk))
        parameters = (ctypes.c_uint * len(options))(*options)
        # Python's GIL is released during the call.
        length = function(flags, len(options), parameters, len(chunk), ctypes.byref(room), ctypes.byref(memory))
        result = ctypes.string_at(memory, length)
        c.free(memory)
        return result

    chunks = []
    with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        for name, _, data, shape, arguments in cases(number):
            if name.startswith(("codec/", "large/", "line/", "any/")) and not data.dtype.fields and data.shape == shape:
                data_set = file.create_dataset(name, data=data, **arguments)
                mask, stored = data_set.id.read_direct_chunk((0,) * data_set.ndim)
                options = data_set.id.get_create_plist().get_filter(0)[2]
                if not mask:
                    chunks.append((name, options, stored, call(0x100, options, stored)))
    started = tasks() - before
    passed, failed = [], []

    def work(seed):
        order = chunks.copy()
        random.Random(seed).shuffle(order)
        for name, options, stored, plain in order:
            good = call(0x100, options, stored) == plain
            encoded = call(0, options, plain)
            good &= not encoded or call(0x100, options, encoded) == plain
            (passed if good else failed).append(name)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(passed) + len(failed) != 12 * len(chunks):
        failed.append("a thread ended early")
    print(json.dumps({"passed": len(passed), "failed": sorted(set(failed)), "started": started}))


CHILDREN = {name[6:]: function for name, function in globals().items() if name.startswith("child_")}

# Parts of the test.


class Run:
    def __init__(self, libraries, mutations, folder):
        self.folder = folder
        self.mutations = mutations
        self.failures = 0
        self.plugins = folder / "plugins"
        self.plugins.mkdir()
        self.libraries = {number: Path(libraries) / name for number, name in LIBRARIES.items()}
        for library in self.libraries.values():
            if not library.exists():
                sys.exit(f"{library} does not exist: cargo build --profile dist -p h5b2kit_blosc -p h5b2kit_blosc2")
            shutil.copy(library, self.plugins)
        self.empty = folder / "empty"
        self.empty.mkdir()

    def child(self, name, *words, theirs=False, threads=None):
        """Runs a part of this file in a process with our filters, or with those of hdf5plugin."""
        env = dict(os.environ, HDF5_PLUGIN_PATH=str(self.empty if theirs else self.plugins))
        env.pop("BLOSC_NTHREADS", None)
        if threads:
            env["BLOSC_NTHREADS"] = str(threads)
        command = [sys.executable, str(HERE), "--child", name, *(["--theirs"] if theirs else []), *map(str, words)]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        if done.returncode:
            return {"passed": 0, "failed": [f"exit {done.returncode}: {done.stderr.strip()[-600:]}"]}
        return json.loads(done.stdout.splitlines()[-1])

    def report(self, what, result):
        failed = result.get("failed", [])
        self.failures += len(failed)
        skipped = f", {result['skipped']} not filtered" if result.get("skipped") else ""
        print(f"{what}: {result.get('passed', 0)} passed, {len(failed)} failed{skipped}", flush=True)
        for line in failed[:10]:
            print(f"    {line.splitlines()[0]}")

    def not_run(self, what, why):
        print(f"{what}: NOT RUN ({why})", flush=True)

    def exchange(self, what, number, theirs_writes, reader="read", threads=None, theirs_reads=None):
        path = self.folder / f"{what}.h5"
        written = self.child("write", path, number, theirs=theirs_writes, threads=threads)
        if "written" not in written:
            return self.report(what, written)
        theirs_reads = not theirs_writes if theirs_reads is None else theirs_reads
        self.report(what, self.child(reader, path, number, theirs=theirs_reads, threads=threads))

    def part_reading(self):
        for number in (BLOSC, BLOSC2):
            self.exchange(f"reading {number} of hdf5plugin", number, True)
        self.exchange("reading with two threads", BLOSC2, True, threads=2)

    def part_writing(self):
        for number in (BLOSC, BLOSC2):
            self.exchange(f"hdf5plugin reads our {number}", number, False)
            self.exchange(f"we read our {number}", number, False, theirs_reads=False)
        self.exchange("written with two threads", BLOSC2, False, threads=2)

    def part_threads(self):
        if sys.platform == "win32":
            return self.not_run("calls by many threads", "memory comes from HDF5 there")
        for number, name in LIBRARIES.items():
            for threads in (None, 3):
                result = self.child("threads", self.plugins / name, number, threads=threads)
                what = f"calls of {number} by 12 threads, BLOSC_NTHREADS={threads}"
                if sys.platform == "linux" and result.get("started") != (threads or 1) - 1:
                    result["failed"].append(f"{result.get('started')} threads started")
                self.report(what, result)

    def part_blosc2(self):
        what = "python-blosc2 reads our chunks"
        if not importlib.util.find_spec("blosc2"):
            return self.not_run(what, "no module blosc2")
        self.exchange(what, BLOSC2, False, reader="blosc2", theirs_reads=False)

    def part_tables(self):
        if not importlib.util.find_spec("tables"):
            return self.not_run("PyTables", "no module tables")
        for number in (BLOSC, BLOSC2):
            self.exchange(f"PyTables reads our {number}", number, False, reader="tables")
            path = self.folder / f"tables {number}.h5"
            written = self.child("tables_write", path, number, theirs=True)
            what = f"reading {number} of PyTables"
            self.report(what, self.child("tables_read", path, number) if "written" in written else written)

    def part_netcdf(self):
        if not importlib.util.find_spec("netCDF4"):
            return self.not_run("netCDF-C", "no module netCDF4")
        for number in (BLOSC, BLOSC2):
            self.exchange(f"netCDF-C with our filter reads {number} of hdf5plugin", number, True, reader="netcdf")

    def part_damage(self):
        for number in (BLOSC, BLOSC2):
            result = self.child("mutate", number, self.mutations)
            what = f"damaged chunks of {number}"
            if "errors" not in result:
                self.report(what, result)
                continue
            done = result["values"] + result["errors"] == self.mutations and result["errors"] > 0
            lean = result["grown_mib"] < 64
            self.report(what, {"passed": self.mutations if done and lean else 0, "failed": [] if done and lean else [str(result)]})
            print(f"    {result['errors']} errors, {result['values']} read; {result['grown_mib']} MiB more memory; such as:")
            for line in result["examples"]:
                print(f"    {line}")

    def part_hdf5plugin(self):
        import hdf5plugin

        installed = Path(hdf5plugin.__file__).parent
        for whose in ("theirs", "ours"):
            site = self.folder / f"site of {whose}"
            package = site / "hdf5plugin"
            shutil.copytree(installed, package)
            if whose == "ours":
                for number, name in ((BLOSC, "libh5blosc"), (BLOSC2, "libh5blosc2")):
                    old = [file for file in (package / "plugins").glob(f"{name}.*")]
                    if len(old) != 1:
                        return self.not_run("hdf5plugin's tests", f"it has {old} as {name}")
                    shutil.copyfile(self.libraries[number], old[0])
            tests = find_tests(package)
            if tests is None:
                return self.not_run("hdf5plugin's tests", "they are not in the package; set HDF5PLUGIN_TESTS to their file")
            env = dict(os.environ, PYTHONPATH=str(site), HDF5_PLUGIN_PATH=str(self.empty))
            done = subprocess.run([sys.executable, "-c", COUNT_TESTS, str(tests)], env=env, capture_output=True, text=True, cwd=site)
            if done.returncode:
                self.report(f"hdf5plugin's tests, {whose}", {"failed": [done.stderr.strip()[-600:]]})
                continue
            result = json.loads(done.stdout.splitlines()[-1])
            where = "with our libraries" if whose == "ours" else "as it is"
            print(f"hdf5plugin's tests {where}: {result['run']} run with {result['subtests']} subtests, {len(result['failed'])} failed, "
                  f"{result['skipped']} skipped; of Blosc and Blosc2: {result['blosc']} subtests")
            for line in result["failed"][:10]:
                print(f"    {line}")
            self.failures += len(result["failed"]) if whose == "ours" else 0

    def part_tools(self):
        missing = [tool for tool in ("h5repack", "h5dump") if not shutil.which(tool)]
        if missing:
            return self.not_run("h5repack and h5dump", f"{', '.join(missing)} not installed (Debian: hdf5-tools)")
        env = dict(os.environ, HDF5_PLUGIN_PATH=str(self.plugins))
        for number in (BLOSC, BLOSC2):
            theirs, packed, plain = (self.folder / f"tools {number} {name}.h5" for name in ("theirs", "packed", "plain"))
            self.child("write", theirs, number, theirs=True)
            result = {"passed": 0, "failed": []}

            def tool(*words):
                done = subprocess.run([*map(str, words)], env=env, capture_output=True, text=True, errors="replace")
                if done.returncode:
                    result["failed"].append(f"{words[0]}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
                else:
                    result["passed"] += 1
                return done.stdout

            # Without filters, then with ours again, where Debian's HDF5 calls `set_local`.
            tool("h5repack", "-f", "NONE", theirs, plain)
            tool("h5repack", "-f", f"UD={number},1,7,0,0,0,0,5,1,5", plain, packed)
            name = "/codec/zstd/1/5/ramp"
            data = next(data for other, _, data, _, _ in cases(number) if "/" + other == name)
            for file in (theirs, packed):
                text = tool("h5dump", "-y", "-w", "0", "-d", name, file)
                found = np.array([float(word) for word in text[text.find("DATA {") + 6:].replace("}", "").replace(",", " ").split()], "f4")
                if not np.array_equal(found, data.ravel()):
                    result["failed"].append(f"h5dump: other values in {file.name}")
            self.report(f"h5repack and h5dump with our {number}", result)
            if packed.exists():
                self.report(f"h5py reads what h5repack packed with our {number}", self.child("read", packed, number, theirs=True))


def find_tests(package):
    """Returns the file with the tests of hdf5plugin."""
    named = os.environ.get("HDF5PLUGIN_TESTS")
    for candidate in ([Path(named)] if named else []) + [package / "test.py"]:
        if candidate.exists():
            return candidate
    return None


COUNT_TESTS = """
import importlib.util, json, sys, unittest
spec = importlib.util.spec_from_file_location("tests_of_hdf5plugin", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
spec.loader.exec_module(module)

class Count(unittest.TestResult):
    subtests = blosc = 0
    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        self.subtests += 1
        self.blosc += "blosc" in str(test).lower()

result = Count()
unittest.defaultTestLoader.loadTestsFromModule(module).run(result)
failed = [f"{test}: {text.strip().splitlines()[-1]}" for test, text in result.failures + result.errors]
print(json.dumps({"run": result.testsRun, "subtests": result.subtests, "blosc": result.blosc, "failed": failed,
                  "skipped": len(result.skipped)}))
"""

def installed():
    """Returns the folder of the installed package, which changes nothing when it is imported."""
    before = dict(os.environ), list(sys.path)
    import b2kit_hdf5_plugin

    assert before == (dict(os.environ), sys.path)
    printed = subprocess.run([sys.executable, "-m", "b2kit_hdf5_plugin"], capture_output=True, text=True, check=True).stdout
    assert printed == f"{b2kit_hdf5_plugin.PATH}\n"
    assert sorted(os.listdir(printed.strip())) == sorted(LIBRARIES.values())
    return printed.strip()


PARTS = {name[5:]: function for name, function in vars(Run).items() if name.startswith("part_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--libraries", default=HERE.parents[4] / "target" / "dist")
    parser.add_argument("--installed", action="store_true", help="the libraries of the package b2kit_hdf5_plugin")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of the random cases")
    parser.add_argument("--mutations", type=int, default=20_000)
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    os.environ[SEED] = str(arguments.seed)
    print(f"--seed {arguments.seed}")
    if arguments.installed:
        arguments.libraries = installed()
    with tempfile.TemporaryDirectory(prefix="b2-hdf5-plugin-") as folder:
        run = Run(arguments.libraries, arguments.mutations, Path(folder))
        for part in arguments.parts or PARTS:
            PARTS[part](run)
    sys.exit(f"{run.failures} failed" if run.failures else 0)


if __name__ == "__main__":
    if "--child" in sys.argv[1:2]:
        name, *words = sys.argv[2:]
        if words[:1] == ["--theirs"]:
            import hdf5plugin

            words = words[1:]
        CHILDREN[name](*(int(word) if word.isdigit() else word for word in words))
    else:
        main()
