"""Writes the data sets that `tests/all/matrix.rs` reads, with h5py, hdf5plugin, PyTables, netCDF4 and h5repack.

    python matrix.py FOLDER

For each data set NAME there is a file with it, NAME.npy with the values that the original libraries read from that file, and
an entry of the list `matrix.json`:

    name, file, path   where it is
    kind               what is special about it
    expect             "equal", or "error" for what an array cannot hold
    word               for errors: a word that the message must contain
    dtype              as b2kit writes it (Dtype): NumPy's list of fields if they are packed, otherwise a dictionary
    attrs              some attributes that must be converted, as JSON
    chunks             the chunk shape of the file, if the array must have the same

Text of variable length becomes NumPy text (`<U`) as long as the longest; everything else keeps its type.
Cases that need a missing tool are listed as `absent`, so that nothing is left out silently.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import h5py
import hdf5plugin
import netCDF4
import numpy as np
import tables

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
entries = []
rng = np.random.default_rng(25)


def spelled(dtype):
    """Returns the text of a dtype as b2kit spells it, as a value for JSON: text, list or dictionary."""
    dtype = np.dtype(dtype)
    if dtype.names is None:
        return dtype.str

    def field(name):
        kind = dtype.fields[name][0]
        base, shape = kind.subdtype or (kind, ())
        return spelled(base), list(shape)

    offsets = [dtype.fields[name][1] for name in dtype.names]
    ends = [0, *(dtype.fields[name][1] + dtype.fields[name][0].itemsize for name in dtype.names)]
    if offsets == ends[:-1] and ends[-1] == dtype.itemsize:
        return [[name, *([base, shape] if shape else [base])] for name, (base, shape) in ((n, field(n)) for n in dtype.names)]
    formats = [[base, shape] if shape else base for base, shape in map(field, dtype.names)]
    return {"names": list(dtype.names), "formats": formats, "offsets": offsets, "itemsize": dtype.itemsize}


def plain(values):
    """Returns an array without h5py's metadata of its dtype, such as the names of an enumeration."""
    values = np.array(values, dtype=object) if isinstance(values, (bytes, str)) else np.asarray(values)
    if values.dtype.kind == "O":
        text = [item.decode() if isinstance(item, bytes) else item for item in values.ravel()]
        longest = max([1, *map(len, text)])
        return np.array(text, dtype=f"<U{longest}").reshape(values.shape)

    def without(dtype):
        if dtype.subdtype is not None:
            base, shape = dtype.subdtype
            return np.dtype((without(base), shape))
        if dtype.names is None:
            return np.dtype(dtype.str)
        fields = [dtype.fields[name] for name in dtype.names]
        return np.dtype(
            {
                "names": list(dtype.names),
                "formats": [without(kind[0]) for kind in fields],
                "offsets": [kind[1] for kind in fields],
                "itemsize": dtype.itemsize,
            }
        )

    return values.view(without(values.dtype)) if values.dtype.names else values.astype(np.dtype(values.dtype.str), copy=False)


def add(name, kind, file, path, values=None, word=None, attrs=None, chunks=None):
    """Adds a data set to the list. `values` is None for those that are to fail with `word`."""
    assert name not in [entry["name"] for entry in entries], name
    entry = {"name": name, "kind": kind, "file": file, "path": path, "expect": "error" if word else "equal"}
    if word:
        entry["word"] = word
    else:
        values = plain(values)
        np.save(folder / f"{name}.npy", values)
        entry["dtype"] = spelled(values.dtype)
    if attrs:
        entry["attrs"] = attrs
    if chunks:
        entry["chunks"] = list(chunks)
    entries.append(entry)


def absent(name, kind, tool):
    entries.append({"name": name, "kind": kind, "expect": "absent", "tool": tool})


def h5(name, kind, make, libver="earliest", word=None, chunks=None, attrs=None):
    """Makes a file with one data set, `/group/data`, and lists what h5py reads from it."""
    file = f"{name}.h5"
    with h5py.File(folder / file, "w", libver=libver) as f:
        make(f.create_group("group"))
    values = None
    if word is None:
        with h5py.File(folder / file) as f:
            values = f["group/data"][()]
    add(name, kind, file, "/group/data", values, word, attrs, chunks)


def data(values, **options):
    return lambda group: group.create_dataset("data", data=values, **options)


def low(values, dcpl=lambda _: None, dtype=None, space=None, write=True):
    """Creates a data set with properties that only h5py's low-level API can set."""

    def make(group):
        kind = dtype or h5py.h5t.py_create(values.dtype, logical=True)
        where = space or h5py.h5s.create_simple(values.shape)
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl(properties)
        made = h5py.h5d.create(group.id, b"data", kind, where, properties)
        if write:
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(values))

    return make


def smooth(shape, dtype="<f4"):
    """Returns values that compress, with a little noise."""
    n = int(np.prod(shape))
    return (np.sin(np.arange(n) / 50) * 1000 + rng.integers(0, 3, n)).astype(dtype).reshape(shape)


ints = np.arange(20 * 30, dtype="<i4").reshape(20, 30)
latest = {"libver": "latest"}

# Layouts and the indices of chunks.
h5("contiguous", "layout contiguous", data(ints))
h5("contiguous_latest", "layout contiguous, latest", data(ints), **latest)
compact = lambda p: p.set_layout(h5py.h5d.COMPACT)
h5("compact", "layout compact", low(ints, compact))
h5("compact_latest", "layout compact, latest", low(ints, compact), **latest)
h5("btree1", "chunks in a B-tree 1", data(ints, chunks=(6, 7)), chunks=(6, 7))
h5("btree1_deep", "chunks in a B-tree 1 of several levels", data(smooth((60, 90)), chunks=(2, 2), compression="gzip"), chunks=(2, 2))
h5("btree2", "chunks in a B-tree 2", data(ints, chunks=(6, 7), maxshape=(None, None)), **latest, chunks=(6, 7))
h5("btree2_filtered", "filtered chunks in a B-tree 2", data(ints, chunks=(6, 7), maxshape=(None, None), compression="gzip"), **latest)
h5("btree2_deep", "chunks in a B-tree 2 of several levels", data(smooth((80, 90)), chunks=(2, 2), maxshape=(None, None), compression="gzip"), **latest)
h5("fixed_array", "chunks in a fixed array", data(ints, chunks=(6, 7)), **latest, chunks=(6, 7))
h5("fixed_array_filtered", "filtered chunks in a fixed array", data(ints, chunks=(6, 7), compression="gzip"), **latest)
h5("fixed_array_paged", "chunks in a fixed array of pages", data(smooth((60, 90)), chunks=(2, 2), compression="gzip"), **latest)
h5("fixed_array_paged_plain", "plain chunks in a fixed array of pages", data(smooth((60, 90)), chunks=(2, 2)), **latest)
h5("extensible_array", "chunks in an extensible array", data(ints, chunks=(6, 7), maxshape=(None, 30)), **latest)
h5("extensible_array_filtered", "filtered chunks in an extensible array", data(ints, chunks=(6, 7), maxshape=(None, 30), compression="gzip"), **latest)
h5("extensible_array_long", "an extensible array of many blocks", data(smooth((6000,)), chunks=(2,), maxshape=(None,)), **latest)
h5("extensible_array_second", "an extensible array along the second dimension", data(ints, chunks=(6, 7), maxshape=(20, None)), **latest)
h5("single_chunk", "a single chunk", data(ints, chunks=(20, 30)), **latest)
h5("single_chunk_filtered", "a single filtered chunk", data(ints, chunks=(20, 30), compression="gzip", shuffle=True), **latest)


def implicit(p):
    p.set_chunk((6, 7))
    p.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)


h5("implicit", "chunks without an index", low(ints, implicit), **latest)
for version in ["v108", "v110", "v112", "v114"]:
    made = data(ints, chunks=(6, 7), compression="gzip")
    h5(f"low_{version}", f"the format of {version}", made, libver=(version, version))
h5("edges_3d", "chunks that reach over the edge, three dimensions", data(smooth((17, 23, 31)), chunks=(5, 7, 9), compression="gzip"), chunks=(5, 7, 9))
h5("chunk_wider", "a chunk that is larger than the data set", data(ints, chunks=(40, 50), maxshape=(None, None), compression="gzip"))
h5("dims_7", "seven dimensions", data(smooth((2, 3, 2, 3, 2, 3, 2)), chunks=(1, 2, 2, 2, 1, 3, 2), compression="gzip"))


def user_block(group):
    data(ints, chunks=(6, 7), compression="gzip")(group)


with h5py.File(folder / "userblock.h5", "w", userblock_size=512) as f:
    data(ints, chunks=(6, 7), compression="gzip")(f.create_group("group"))
add("userblock", "a file after a user block", "userblock.h5", "/group/data", ints)

# The filters of HDF5.
floats = smooth((64, 50))
h5("gzip", "filter gzip", data(floats, chunks=(16, 20), compression="gzip"))
h5("gzip_9_shuffle", "filters shuffle and gzip", data(floats, chunks=(16, 20), compression="gzip", compression_opts=9, shuffle=True))
h5("shuffle", "filter shuffle alone", data(floats, chunks=(16, 20), shuffle=True))
h5("fletcher32", "filter fletcher32", data(floats, chunks=(16, 20), fletcher32=True))
h5("fletcher32_odd", "fletcher32 over an odd number of bytes", data(np.arange(63, dtype="u1"), chunks=(21,), fletcher32=True))
h5("gzip_shuffle_fletcher32", "shuffle, gzip and fletcher32", data(floats, chunks=(16, 20), compression="gzip", shuffle=True, fletcher32=True))
h5("scaleoffset_int", "filter scale-offset, integers", data(ints, chunks=(6, 7), scaleoffset=0))
h5("scaleoffset_bits", "filter scale-offset, integers of given bits", data(ints, chunks=(6, 7), scaleoffset=10))
h5("scaleoffset_float", "filter scale-offset, floats", data(floats, chunks=(16, 20), scaleoffset=2))
h5("scaleoffset_be", "filter scale-offset, big-endian", data(ints.astype(">i2"), chunks=(6, 7), scaleoffset=0))
h5("lzf", "filter lzf", data(floats, chunks=(16, 20), compression="lzf"))
h5("lzf_shuffle", "filters shuffle and lzf", data(floats, chunks=(16, 20), compression="lzf", shuffle=True))
h5("lzf_noise", "filter lzf that was skipped where it does not help", data(rng.integers(0, 256, (40, 50), dtype="u1"), chunks=(20, 25), compression="lzf"))
for name, option in [("szip_nn", ("nn", 8)), ("szip_ec", ("ec", 16))]:
    if h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP) and "szip" in h5py.filters.encode:
        h5(name, f"filter szip {option}", data(floats, chunks=(16, 20), compression="szip", compression_opts=option))
        h5(f"{name}_bytes", f"filter szip {option}, bytes", data(ints.astype("u1"), chunks=(20, 16), compression="szip", compression_opts=option))
    else:
        absent(name, "filter szip", "h5py with an szip encoder")


def nbit(kind, offset, precision):
    kind = kind.copy()
    kind.set_precision(precision)
    kind.set_offset(offset)
    return kind


def with_nbit(p):
    p.set_chunk((6, 7))
    # H5Z_FILTER_NBIT
    p.set_filter(5, 0, ())


h5("nbit", "filter n-bit, whole integers", low(ints.astype("<i2"), with_nbit))


def skipped_filter(group):
    """Stores one chunk without its filter, as programs do where compression does not help."""
    made = group.create_dataset("data", shape=(4, 100), chunks=(2, 100), dtype="<i4", compression="gzip")
    values = np.arange(400, dtype="<i4").reshape(4, 100)
    made[:2] = values[:2]
    made.id.write_direct_chunk((2, 0), values[2:].tobytes(), filter_mask=1)


h5("filter_mask", "a chunk whose filter was skipped", skipped_filter)

# Filters of hdf5plugin.
for cname in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]:
    for shuffle, label in [(0, "plain"), (1, "shuffle"), (2, "bitshuffle")]:
        if cname in ("lz4", "zstd") or shuffle == 1:
            options = hdf5plugin.Blosc(cname=cname, clevel=5, shuffle=shuffle)
            h5(f"blosc_{cname}_{label}", "filter 32001, Blosc", data(floats, chunks=(16, 20), **options))
options = hdf5plugin.Blosc(cname="lz4", clevel=1, shuffle=1)
wide = np.arange(900 * 1000, dtype="f4").reshape(900, 1000) % 4096
h5("blosc_lz4_blocks", "filter 32001, Blosc, many blocks", data(wide, chunks=(400, 700), **options))
for cname in ["blosclz", "lz4", "zlib", "zstd"]:
    options = hdf5plugin.Blosc2(cname=cname, clevel=5, filters=hdf5plugin.Blosc2.SHUFFLE)
    h5(f"blosc2_{cname}", "filter 32026, Blosc2 with b2nd", data(floats, chunks=(16, 20), **options), chunks=(16, 20))
for label, filters in [("bitshuffle", hdf5plugin.Blosc2.BITSHUFFLE), ("nofilter", hdf5plugin.Blosc2.NOFILTER), ("delta", hdf5plugin.Blosc2.DELTA)]:
    options = hdf5plugin.Blosc2(cname="zstd", clevel=5, filters=filters)
    h5(f"blosc2_{label}", "filter 32026, another filter", data(ints, chunks=(6, 7), **options), chunks=(6, 7))
blosc2 = hdf5plugin.Blosc2(cname="lz4", clevel=5, filters=hdf5plugin.Blosc2.SHUFFLE)
h5("blosc2_1d", "filter 32026 of one dimension", data(smooth((5000,)), chunks=(700,), **blosc2), chunks=(700,))
h5("blosc2_3d_edges", "filter 32026, three dimensions over the edge", data(smooth((17, 23, 31)), chunks=(5, 7, 9), **blosc2), chunks=(5, 7, 9))
h5("blosc2_large", "filter 32026 with several blocks in a chunk", data(smooth((400, 500)), chunks=(300, 400), **blosc2), chunks=(300, 400))
h5("blosc2_partly", "filter 32026, chunks never written", lambda g: g.create_dataset("data", shape=(40, 50), chunks=(10, 20), dtype="<f4", fillvalue=7, **blosc2).__setitem__((slice(0, 10), slice(0, 50)), 1.5), chunks=(10, 20))
h5("blosc2_be", "filter 32026, big-endian", data(floats.astype(">f8"), chunks=(16, 20), **blosc2), chunks=(16, 20))
pairs = np.zeros((40, 30), dtype=[("x", "<f4"), ("n", "<i2"), ("tag", "S3")])
pairs["x"], pairs["n"], pairs["tag"] = smooth((40, 30)), np.arange(1200).reshape(40, 30), b"ab"
h5("blosc2_compound", "filter 32026, compound", data(pairs, chunks=(16, 20), **blosc2), chunks=(16, 20))
h5("blosc2_fletcher32", "filter 32026 and fletcher32", data(floats, chunks=(16, 20), fletcher32=True, **blosc2))
h5("blosc2_latest", "filter 32026 in a fixed array", data(floats, chunks=(16, 20), **blosc2), **latest, chunks=(16, 20))
h5("zstd", "filter zstd", data(floats, chunks=(16, 20), **hdf5plugin.Zstd(clevel=5)))
h5("zstd_shuffle", "filters shuffle and zstd", data(floats, chunks=(16, 20), shuffle=True, **hdf5plugin.Zstd()))
for label in ["none", "lz4", "zstd"]:
    h5(f"bitshuffle_{label}", f"filter bitshuffle, {label}", data(floats, chunks=(16, 20), **hdf5plugin.Bitshuffle(cname=label)))
h5("bitshuffle_tail", "filter bitshuffle, items that do not fill a group", data(np.arange(1003, dtype="<u2"), chunks=(1003,), **hdf5plugin.Bitshuffle(cname="lz4")))
h5("bzip2", "filter bzip2", data(floats, chunks=(16, 20), **hdf5plugin.BZip2()))
h5("lz4", "filter lz4", data(floats, chunks=(16, 20), **hdf5plugin.LZ4()))
for label, option in {"rate": 12, "precision": 20, "accuracy": 0.01, "reversible": True}.items():
    for kind in ["<f4", "<f8", "<i4", "<u8"]:
        h5(f"zfp_{label}_{kind[1:]}", f"filter zfp, {label}, {kind}", data((floats * 100).astype(kind), chunks=(16, 20), **hdf5plugin.Zfp(**{label: option})))
h5("zfp_lengths_of_1", "filter zfp, chunks with lengths of 1", data(smooth((3, 9, 1, 14)), chunks=(1, 5, 1, 7), **hdf5plugin.Zfp(rate=9)))
h5("zfp_shuffle_fletcher32", "filters shuffle, zfp and fletcher32", data(floats, chunks=(16, 20), shuffle=True, fletcher32=True, **hdf5plugin.Zfp(reversible=True)))

# Types.
for kind in ["|i1", "|u1", *(f"{order}{code}" for order in "<>" for code in ["i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])]:
    label = kind.replace("<", "le_").replace(">", "be_").replace("|", "")
    values = rng.integers(0, 256, 64 * np.dtype(kind).itemsize, dtype="u1").view(kind).reshape(8, 8)
    if np.dtype(kind).kind == "f":
        values = np.where(np.isfinite(values), values, 0).astype(kind)
    h5(f"type_{label}", f"type {kind}", data(values, chunks=(3, 5), compression="gzip"))
h5("bool", "type bool", data(ints % 3 == 0, chunks=(6, 7)))
h5("enum", "type enum", data(ints.astype("i1") % 3, dtype=h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": 2}, "i1")), attrs={"_ENUM": {"RED": 0, "GREEN": 1, "BLUE": 2}})
h5("enum_be", "type enum, big-endian", data(ints.astype(">u2") % 2, dtype=h5py.enum_dtype({"OFF": 0, "ON": 1}, ">u2")))
h5("complex64", "type complex64", data((floats + 1j * floats[::-1]).astype("<c8"), chunks=(16, 20)))
h5("complex128_be", "type complex128, big-endian", data((floats + 2j).astype(">c16")))
h5("compound", "type compound", data(pairs))
aligned = np.zeros(50, dtype=np.dtype([("flag", "?"), ("x", "<f8"), ("n", "<i2")], align=True))
aligned["flag"], aligned["x"], aligned["n"] = np.arange(50) % 2, smooth(50), np.arange(50)
h5("compound_gaps", "type compound with gaps", data(aligned, chunks=(16,), compression="gzip"))
nested = np.zeros(30, dtype=[("id", "<u4"), ("place", [("lat", ">f4"), ("lon", "<f8")]), ("ok", "?")])
nested["id"], nested["place"]["lat"], nested["place"]["lon"], nested["ok"] = np.arange(30), smooth(30), smooth(30), True
h5("compound_nested", "type compound in a compound", data(nested))
arrays = np.zeros(12, dtype=[("grid", "<i2", (2, 3)), ("w", "<f4", (4,))])
arrays["grid"], arrays["w"] = np.arange(72).reshape(12, 2, 3), smooth((12, 4))
h5("compound_arrays", "type compound with arrays", data(arrays, chunks=(5,), compression="gzip"))
color = h5py.enum_dtype({"RED": 0, "GREEN": 1}, "<i2")
mixed = np.zeros(9, dtype=np.dtype([("c", color), ("name", "S6"), ("z", "<c8")]))
mixed["c"], mixed["name"], mixed["z"] = np.arange(9) % 2, [b"n%d" % n for n in range(9)], 1 + 2j
h5("compound_mixed", "type compound with enum, text and complex", data(mixed))


def array_type(group):
    made = group.create_dataset("data", shape=(5, 4), dtype=np.dtype(("<f4", (2, 3))), chunks=(2, 3))
    made[...] = smooth((5, 4, 2, 3))


h5("array_type", "type array", array_type)
h5("text_fixed", "text of fixed length, ASCII", data(np.array([[b"a", b"bc"], [b"", b"defgh"]], dtype="S5")))
h5("text_fixed_utf8", "text of fixed length, UTF-8", data(np.array(["ä".encode(), "€uro".encode()], dtype=h5py.string_dtype("utf-8", 8))))
spaces = h5py.h5t.C_S1.copy()
spaces.set_size(6)
spaces.set_strpad(h5py.h5t.STR_SPACEPAD)
terminated = h5py.h5t.C_S1.copy()
terminated.set_size(6)
terminated.set_strpad(h5py.h5t.STR_NULLTERM)
words = np.array([b"ab", b"cde", b"", b"fghij"], dtype="S6")
h5("text_spaces", "text filled with spaces", low(words, dtype=spaces))
h5("text_terminated", "text that ends with a zero", low(words, dtype=terminated))
h5("text_variable", "text of variable length, UTF-8", data(["a", "bänk", "", "€" * 40] * 5, dtype=h5py.string_dtype()))
h5("text_variable_ascii", "text of variable length, ASCII", data([b"one", b"two", b"three"], dtype=h5py.string_dtype("ascii")))
h5("text_variable_chunked", "text of variable length in chunks", data(np.array([f"row {n}" for n in range(300)], dtype=object).reshape(30, 10), dtype=h5py.string_dtype(), chunks=(7, 4), compression="gzip"))
h5("text_variable_partly", "text of variable length, partly written", lambda g: g.create_dataset("data", shape=(20,), chunks=(5,), dtype=h5py.string_dtype()).__setitem__(slice(5, 10), ["x", "yy", "zzz", "", "w"]))
h5("opaque", "type opaque", data(rng.integers(0, 256, 60, dtype="u1").view("V6"), chunks=(4,)))
times = np.array(["2026-11-24T12:00", "1969-07-20T20:17", "NaT"], dtype="<M8[s]")
h5("opaque_time", "times as h5py stores them", data(times.astype(h5py.opaque_dtype(times.dtype)), dtype=h5py.opaque_dtype(times.dtype)))
h5("bitfield", "type bitfield", low(np.arange(40, dtype="<u2"), dtype=h5py.h5t.STD_B16LE))
bfloat = h5py.h5t.IEEE_F32LE.copy()
bfloat.set_fields(15, 7, 8, 0, 7)
bfloat.set_size(2)
bfloat.set_ebias(127)
h5("bfloat16", "floats that NumPy does not have", low(smooth(30, "<f4"), dtype=bfloat, write=False), word="float")
h5("int_12_bits", "integers of 12 bits", low(np.arange(30, dtype="<i2"), dtype=nbit(h5py.h5t.STD_I16LE, 2, 12)), word="bits")


def object_references(group):
    made = group.create_dataset("data", shape=(2,), dtype=h5py.ref_dtype)
    made[0] = group.ref
    made[1] = made.ref


def region_references(group):
    other = group.create_dataset("other", data=ints)
    made = group.create_dataset("data", shape=(1,), dtype=h5py.regionref_dtype)
    made[0] = other.regionref[2:4, 5]


h5("reference", "references to objects", object_references, word="reference")
h5("region_reference", "references to regions", region_references, word="reference")


def ragged(group):
    made = group.create_dataset("data", shape=(3,), dtype=h5py.vlen_dtype("<i4"))
    for n in range(3):
        made[n] = np.arange(n + 1)


h5("ragged", "sequences of variable length", ragged, word="variable length")
with_text = np.zeros(3, dtype=[("n", "<i4"), ("name", h5py.string_dtype())])
with_text["name"] = ["a", "b", "c"]
h5("compound_text", "compound with text of variable length", data(with_text), word="variable length")

# Where the data is.


def virtual(group):
    other = group.create_dataset("other", data=ints)
    layout = h5py.VirtualLayout(shape=(2, 20, 30), dtype="<i4")
    layout[0] = layout[1] = h5py.VirtualSource(other)
    group.create_virtual_dataset("data", layout)


h5("virtual", "a virtual data set", virtual, word="virtual", **latest)
h5("external", "data in another file", lambda g: g.create_dataset("data", shape=(100,), dtype="<i4", external=[(str(folder / "external.raw"), 0, 400)]).__setitem__(..., np.arange(100)), word="external")

# Fill values, and items that were never written.
h5("unwritten", "never written", lambda g: g.create_dataset("data", shape=(20, 30), dtype="<i4"))
h5("unwritten_fill", "never written, with a fill value", lambda g: g.create_dataset("data", shape=(20, 30), dtype="<i4", fillvalue=-9))
h5("unwritten_chunks", "chunks never written", lambda g: g.create_dataset("data", shape=(20, 30), dtype="<f8", chunks=(6, 7), fillvalue=np.nan))
h5("unwritten_latest", "chunks never written, latest", lambda g: g.create_dataset("data", shape=(20, 30), dtype="<i4", chunks=(6, 7), fillvalue=3), **latest)
h5("unwritten_extensible", "chunks never written, extensible", lambda g: g.create_dataset("data", shape=(20, 30), dtype="<i4", chunks=(6, 7), maxshape=(None, 30), fillvalue=3), **latest)
h5("unwritten_text", "text of variable length, never written, with a fill value", lambda g: g.create_dataset("data", shape=(20, 30), dtype=h5py.string_dtype(), chunks=(6, 7), fillvalue="nie"))


def partly(dtype, fill, part, **options):
    return lambda g: g.create_dataset("data", shape=(20, 30), dtype=dtype, chunks=(6, 7), fillvalue=fill, **options).__setitem__((slice(6, 13), slice(0, 8)), part)


h5("partly", "chunks partly written", partly("<i4", -1, 5))
h5("partly_gzip", "filtered chunks partly written", partly(">i2", 300, 5, compression="gzip", shuffle=True))
h5("partly_latest", "chunks partly written, latest", partly("<f4", 2.5, 5, compression="gzip"), **latest)
h5("partly_attribute", "an attribute _FillValue, which HDF5 does not apply", lambda g: (partly("<i4", None, 5)(g), g["data"].attrs.__setitem__("_FillValue", np.int32(-99))), attrs={"_FillValue": -99})
fill = np.array((1.5, 7, b"zz"), dtype=pairs.dtype)
h5("partly_compound", "compound with a fill value", lambda g: g.create_dataset("data", shape=(40,), dtype=pairs.dtype, chunks=(10,), fillvalue=fill).__setitem__(slice(10, 20), pairs[0, :10]))
h5("grown", "made longer after writing", lambda g: g.create_dataset("data", data=ints, chunks=(6, 7), maxshape=(None, None), fillvalue=4).resize((25, 33)))
h5("shrunk", "made shorter after writing", lambda g: g.create_dataset("data", data=ints, chunks=(6, 7), maxshape=(None, None)).resize((11, 9)))

# Shapes without items, and single ones.
h5("scalar", "a single integer", data(np.int64(-5)))
h5("scalar_text", "a single text", data("größe"))
h5("scalar_compound", "a single compound", data(pairs[3, 4]))
h5("null", "a data set without a shape", data(h5py.Empty("<f4")), word="null")
h5("empty", "no items", data(np.zeros((0,), dtype="<f4")))
h5("empty_3d", "a dimension of length zero", data(np.zeros((3, 0, 2), dtype=">i2")))
h5("empty_chunked", "chunks, but no items", lambda g: g.create_dataset("data", shape=(0, 30), maxshape=(None, 30), chunks=(4, 30), dtype="<i4", compression="gzip"))

# Attributes and dimension scales.


def scales(group):
    made = data(ints, chunks=(6, 7))(group)
    lat = group.create_dataset("lat", data=np.linspace(-90, 90, 20))
    lon = group.create_dataset("lon", data=np.arange(30.0))
    lat.make_scale("lat")
    lon.make_scale("lon")
    made.dims[0].attach_scale(lat)
    made.dims[1].attach_scale(lon)


h5("scales", "dimension scales", scales, attrs={"_ARRAY_DIMENSIONS": ["lat", "lon"]})


def scale_and_labels(group):
    made = data(ints)(group)
    lat = group.create_dataset("lat", data=np.linspace(-90, 90, 20))
    lat.make_scale("lat")
    made.dims[0].attach_scale(lat)
    made.dims[0].label, made.dims[1].label = "north", "x"


h5("scale_and_labels", "labels next to a scale", scale_and_labels, attrs={"_ARRAY_DIMENSIONS": ["lat", "x"]})
h5("labels", "labels of dimensions", lambda g: [setattr(d, "label", t) for d, t in zip(data(ints)(g).dims, ["time", "x"])], attrs={"_ARRAY_DIMENSIONS": ["time", "x"]})


def attributes(group):
    made = data(ints)(group)
    made.attrs["units"] = "K"
    made.attrs["fixed"] = np.bytes_(b"text")
    made.attrs["number"] = np.int16(-3)
    made.attrs["factor"] = 0.25
    made.attrs["range"] = np.array([1, 2, 3], dtype=">i4")
    made.attrs["names"] = ["a", "bc"]
    made.attrs["flag"] = True


h5("attributes", "attributes of several types", attributes, attrs={"units": "K", "fixed": "text", "number": -3, "factor": 0.25, "names": ["a", "bc"], "flag": True})
h5("attributes_many", "more attributes than an object header holds", lambda g: data(ints)(g).attrs.update({f"a{n}": n for n in range(40)}), **latest, attrs={"a0": 0, "a39": 39})
with h5py.File(folder / "groups.h5", "w") as f:
    f["a/b/c/deep"] = ints
    f["a/soft"] = h5py.SoftLink("/a/b/c/deep")
    f["a/hard"] = f["a/b/c/deep"]
    f.attrs["title"] = "groups"
    for n in range(300):
        f[f"many/d{n:03}"] = np.full(3, n, dtype="<i4")
add("group_deep", "a data set in nested groups", "groups.h5", "/a/b/c/deep", ints)
add("group_soft", "a soft link", "groups.h5", "/a/soft", ints)
add("group_hard", "a second name", "groups.h5", "/a/hard", ints)
add("group_many", "a group of many data sets", "groups.h5", "/many/d299", np.full(3, 299, dtype="<i4"))
with h5py.File(folder / "groups_latest.h5", "w", libver="latest", track_order=True) as f:
    for n in range(300):
        f[f"many/d{n:03}"] = np.full(3, n, dtype="<i4")
add("group_dense", "a group whose links are in a heap", "groups_latest.h5", "/many/d150", np.full(3, 150, dtype="<i4"))

# PyTables.
with tables.open_file(folder / "tables.h5", "w") as f:
    for complib in ["zlib", "bzip2", "blosc", "blosc:zstd", "blosc2", "blosc2:zstd"]:
        label = complib.replace(":", "_")
        wanted = tables.Filters(complevel=5, complib=complib)
        f.create_carray("/", f"carray_{label}", obj=floats, filters=wanted)
        table = f.create_table("/", f"table_{label}", description=pairs.dtype, filters=wanted)
        table.append(pairs.ravel())
    grown = f.create_earray("/", "earray", shape=(0, 30), atom=tables.Int32Atom(), filters=tables.Filters(5, "blosc2"))
    grown.append(ints[:9])
    grown.append(ints[9:])
    f.create_array("/", "array", obj=ints)
    f.create_array("/", "bools", obj=ints % 2 == 0)
    kinds = {"flag": tables.BoolCol(), "color": tables.EnumCol(["red", "green"], "red", base="uint8"), "c": tables.ComplexCol(16), "v": tables.Float32Col(shape=(2,))}
    table = f.create_table("/", "kinds", description=kinds)
    for n in range(10):
        row = table.row
        row["flag"], row["color"], row["c"], row["v"] = n % 2 == 0, n % 2, n + 1j, (n, n + 1)
        row.append()
    table.flush()
    times_only = f.create_table("/", "times", description={"t": tables.Time64Col()})
    times_only.append([(1.5,), (2.5,)])
    ragged_rows = f.create_vlarray("/", "vlarray", atom=tables.Int32Atom())
    ragged_rows.append([1, 2])
    ragged_rows.append([3])
with h5py.File(folder / "tables.h5") as f:
    for key in f:
        if key == "vlarray":
            add("tables_vlarray", "rows of variable length of PyTables", "tables.h5", f"/{key}", word="variable length")
        elif key == "times":
            add("tables_times", "PyTables: HDF5's own class of times", "tables.h5", f"/{key}", word="time")
        else:
            add(f"tables_{key}", f"PyTables: {key}", "tables.h5", f"/{key}", f[key][()])

# h5repack, which chooses layouts and filters differently.
repack = shutil.which("h5repack")
for name, options in [
    ("repack_gzip", ["-f", "SHUF", "-f", "GZIP=6"]),
    ("repack_szip", ["-f", "SZIP=8,NN"]),
    ("repack_nbit", ["-f", "NBIT"]),
    ("repack_scaleoffset", ["-f", "SOFF=0,IN"]),
    ("repack_fletcher32", ["-f", "FLET"]),
    ("repack_compact", ["-l", "COMPA"]),
    ("repack_contiguous", ["-l", "CONTI"]),
    ("repack_latest", ["-L", "-l", "CHUNK=5x8"]),
]:
    if repack is None:
        absent(name, "written by h5repack", "h5repack")
        continue
    if name != "repack_latest" and "-f" in options:
        options = ["-l", "CHUNK=6x8", *options]
    subprocess.run([repack, *options, str(folder / "btree1.h5"), str(folder / f"{name}.h5")], check=True)
    add(name, "written by h5repack", f"{name}.h5", "/group/data", ints)

# NetCDF 4.
scaled = {"units": "K", "_ARRAY_DIMENSIONS": ["time", "lat"]}
with netCDF4.Dataset(folder / "four.nc", "w") as f:
    f.createDimension("time", None)
    f.createDimension("lat", 12)
    f.createDimension("bare", 5)
    time = f.createVariable("time", "f8", ("time",))
    time.units, time.calendar = "days since 2026-01-01", "standard"
    lat = f.createVariable("lat", "f4", ("lat",))
    temperature = f.createVariable("temperature", "i2", ("time", "lat"), zlib=True, fill_value=-32767)
    temperature.scale_factor, temperature.add_offset, temperature.units = np.float32(0.5), np.float32(273.25), "K"
    f.set_auto_maskandscale(False)
    time[:] = np.arange(7)
    lat[:] = np.linspace(-60, 60, 12)
    temperature[:] = np.arange(84).reshape(7, 12)
    names = f.createVariable("names", str, ("bare",))
    for n in range(5):
        names[n] = "station " * n
    f.createVariable("be", ">i4", ("bare",), endian="big")[:] = np.arange(5)
    f.createVariable("chars", "S1", ("bare",))[:] = np.array(list("abcde"), dtype="S1")
    f.createVariable("unset", "f4", ("time", "lat"))
    f.createVariable("scalar", "i4", ()).assignValue(17)
    deep = f.createGroup("forecast")
    deep.createDimension("step", 3)
    deep.createVariable("wind", "f4", ("step", "lat"), zlib=True, shuffle=True, fletcher32=True)[:] = smooth((3, 12))
    cloud = f.createEnumType(np.uint8, "cloud_t", {"clear": 0, "cumulus": 1})
    f.createVariable("cloud", cloud, ("bare",))[:] = np.array([0, 1, 1, 0, 1], dtype="u1")
    f.createVLType(np.int32, "rows_t")
    f.createVariable("ragged", f.vltypes["rows_t"], ("bare",))[0] = np.arange(3, dtype="i4")
with netCDF4.Dataset(folder / "four.nc") as f:
    f.set_auto_maskandscale(False)
    f.set_auto_chartostring(False)
    for name in ["time", "lat", "temperature", "names", "be", "chars", "unset", "scalar", "cloud"]:
        attrs = scaled if name == "temperature" else None
        values = f[name][...]
        if name == "be":
            values = np.asarray(values).astype(">i4")
        add(f"nc4_{name}", f"NetCDF 4: {name}", "four.nc", f"/{name}", values, attrs=attrs)
    add("nc4_group", "NetCDF 4: in a group, with a dimension of the root", "four.nc", "/forecast/wind", f["forecast/wind"][...], attrs={"_ARRAY_DIMENSIONS": ["step", "lat"]})
    add("nc4_ragged", "NetCDF 4: rows of variable length", "four.nc", "/ragged", word="variable length")
for label, options in [("zstd", {"compression": "zstd"}), ("bzip2", {"compression": "bzip2"}), ("blosc", {"compression": "blosc_lz4"}), ("szip", {"compression": "szip"})]:
    file = f"four_{label}.nc"
    try:
        with netCDF4.Dataset(folder / file, "w") as f:
            f.createDimension("n", 1000)
            f.createVariable("v", "f4", ("n",), chunksizes=(300,), **options)[:] = smooth(1000)
        with netCDF4.Dataset(folder / file) as f:
            f.set_auto_maskandscale(False)
            add(f"nc4_{label}", f"NetCDF 4 with {label}", file, "/v", f["v"][...])
    except (RuntimeError, ValueError, AttributeError) as error:
        absent(f"nc4_{label}", f"NetCDF 4 with {label}", f"netCDF4 with {label}: {error}")

# NetCDF 3, in its three formats.
for label, form in [("classic", "NETCDF3_CLASSIC"), ("offset64", "NETCDF3_64BIT_OFFSET"), ("data64", "NETCDF3_64BIT_DATA")]:
    file = f"three_{label}.nc"
    with netCDF4.Dataset(folder / file, "w", format=form) as f:
        f.set_auto_maskandscale(False)
        f.title = "three"
        f.createDimension("time", None)
        f.createDimension("lat", 11)
        kinds = ["i1", "i2", "i4", "f4", "f8", *(["u1", "u2", "u4", "i8", "u8"] if label == "data64" else [])]
        for kind in kinds:
            fixed = f.createVariable(f"fixed_{kind}", kind, ("lat",))
            fixed[:] = np.arange(11)
        chars = f.createVariable("chars", "S1", ("lat",))
        chars[:] = np.array(list("hello world"), dtype="S1")
        record = f.createVariable("record", "i2", ("time", "lat"))
        record.scale_factor, record.units = 0.5, "K"
        other = f.createVariable("other", "f8", ("time",))
        record[:] = np.arange(55).reshape(5, 11)
        other[:] = np.arange(5) / 3
        f.createVariable("scalar", "i4", ()).assignValue(4)
    with netCDF4.Dataset(folder / file) as f:
        f.set_auto_maskandscale(False)
        f.set_auto_chartostring(False)
        taken = list(f.variables) if label == "classic" else ["record", "chars", *(f"fixed_{kind}" for kind in kinds[5:])]
        for name in taken:
            values = np.asarray(f[name][...])
            if values.dtype.kind in "iuf":
                values = values.astype(values.dtype.newbyteorder(">"))
            attrs = {"units": "K", "scale_factor": 0.5, "_ARRAY_DIMENSIONS": ["time", "lat"]} if name == "record" else None
            add(f"nc3_{label}_{name}", f"NetCDF 3 ({form}): {name}", file, f"/{name}", values, attrs=attrs)


# Indices of chunks over shapes that grow and shrink: the numbers of chunks are those of the largest shape.
shapes = np.random.default_rng(40)


def resized(number, ndim):
    shape = [int(n) for n in shapes.integers(1, 14, ndim)]
    most = [n + int(more) for n, more in zip(shape, shapes.integers(0, 9, ndim))]
    for axis in {0: [], 1: [number // 4 % ndim], 2: range(ndim), 3: []}[number % 4]:
        most[axis] = None
    chunks = tuple(min(int(n), m or int(n)) for n, m in zip(shapes.integers(1, 5, ndim), most))
    options = {"compression": "gzip"} if shapes.integers(0, 2) else {}

    def make(group):
        if number % 5 == 0 and not options and all(most):
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk(chunks)
            properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            space = h5py.h5s.create_simple(tuple(shape), tuple(most))
            made = h5py.Dataset(h5py.h5d.create(group.id, b"data", h5py.h5t.STD_I32LE, space, properties))
        else:
            kwargs = {"chunks": chunks, "maxshape": tuple(most), "fillvalue": 7}
            made = group.create_dataset("data", shape, "<i4", **kwargs, **options)
        made[...] = np.arange(int(np.prod(shape))).reshape(shape) + 1
        for _ in range(number % 3):
            new = [int(shapes.integers(1, (m or n + 8) + 1)) for n, m in zip(made.shape, most)]
            made.resize(new)
            made[tuple(slice(0, (n + 1) // 2) for n in new)] = int(shapes.integers(0, 99))

    return make


for version, count in [("latest", 40), ("earliest", 12), ("v110", 12)]:
    for number in range(count):
        h5(f"resized_{version}_{number}", "chunks of a shape that grew or shrank", resized(number, 1 + number % 3), libver=version)


def parts_of(shape, most, parts, **options):
    def make(group):
        made = group.create_dataset("data", shape, "u1", chunks=(1,), maxshape=most, **options)
        for start, stop in parts:
            made[start:stop] = np.arange(stop - start) % 250 + 1

    return make


for label, options in [("plain", {}), ("gzip", {"compression": "gzip"})]:
    h5(f"fixed_array_holes_{label}", "pages that were never written", parts_of((5000,), (9000,), [(0, 3), (2100, 2105), (4990, 5000)], **options), **latest)
    far = [(0, 30), (131000, 131200), (140000, 140100)]
    h5(f"extensible_array_pages_{label}", "pages of an extensible array", parts_of((150000,), (None,), far, **options), **latest)


def inside(name, kind, make, path="/group/data", libver="latest", attrs=None, sizes=(8, 8)):
    """Like `h5`, for a data set at any path of a file with any sizes of addresses and lengths."""
    file = f"{name}.h5"
    properties = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    properties.set_sizes(*sizes)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_LATEST if libver == "latest" else h5py.h5f.LIBVER_EARLIEST, h5py.h5f.LIBVER_LATEST)
    with h5py.File(h5py.h5f.create(str(folder / file).encode(), h5py.h5f.ACC_TRUNC, properties, access)) as f:
        make(f.create_group("group"))
    with h5py.File(folder / file) as f:
        add(name, kind, file, path, f[path][()], attrs=attrs)


def many(links, attributes, large=0):
    def make(group):
        made = group.create_dataset("data", data=np.arange(5))
        for n in range(attributes):
            made.attrs[f"a{n}"] = n
        if large:
            made.attrs["large"] = "x" * large
        for n in range(links):
            group[f"link{n}"] = h5py.SoftLink("/group/data")

    return make


inside("links_nested", "a heap of names with nested tables", many(60000, 0), path="/group/link59999")
inside("links_old", "many names in the old format", many(3000, 0), path="/group/link2999", libver="earliest")
inside("attributes_nested", "a heap of attributes with nested tables", many(0, 20000), attrs={"a19999": 19999, "a7": 7})
inside("attribute_large", "a large attribute in a heap", many(0, 30, 100000), attrs={"a29": 29, "large": "x" * 100000})
for sizes in [(4, 4), (8, 4), (4, 8)]:
    for version in ["earliest", "latest"]:
        made = data(ints, chunks=(6, 7), compression="gzip")
        inside(f"sizes_{sizes[0]}_{sizes[1]}_{version}", "addresses and lengths of other sizes", made, libver=version, sizes=sizes)
for version in ["earliest", "latest"]:
    name = f"latin1_{version}"
    with h5py.File(folder / f"{name}.h5", "w", libver=version) as f:
        group = h5py.h5g.create(f.id, b"gr\xfc\xdfe")
        kind, space = h5py.h5t.STD_I32LE, h5py.h5s.create_simple((4,))
        h5py.h5d.create(group, b"caf\xe9", kind, space).write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(4, dtype="<i4"))
        f["group/data"] = np.arange(3)
    add(name, "a name that is not UTF-8", f"{name}.h5", "/gr\\xfc\\xdfe/caf\\xe9", np.arange(4, dtype="<i4"))
    add(f"{name}_next", "a name next to one that is not UTF-8", f"{name}.h5", "/group/data", np.arange(3))

(folder / "matrix.json").write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
there = [entry for entry in entries if entry["expect"] != "absent"]
errors = sum(entry["expect"] == "error" for entry in there)
print(f"{len(there)} data sets, of which {errors} are to fail; {len(entries) - len(there)} absent")
