"""Writes random data sets with h5py and netCDF4, for `tests/all/generated.rs`.

    python generated.py FOLDER COUNT [SEED]

Every data set has a random version of the format, layout, shape, maximum shape, type, fill value, chain of filters and history:
regions that are written, resizes, and chunks that are stored without some of their filters. `generated.json` lists them:

    file, path     file, and path of the data set
    about          how it was created
    dtype, shape   of b2kit's array
    at, len        position in `expected.bin` of the items as h5py or netCDF4 reads them
    boxes          random boxes, each a start and a shape
    attrs          attributes: a number, a text, a list of texts, or dtype, shape and items in hexadecimal digits
    word           a word in the message if b2kit refuses the data set
"""

import json
import pathlib
import sys
import zlib

import h5py
import hdf5plugin
import netCDF4
import numpy as np

folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
folder.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(seed)
entries = []
# What h5py cannot make or read, such as filters that do not fit each other.
refused = []
expected = open(folder / "expected.bin", "wb")
PER_FILE = 20
LIBVERS = ["earliest", "v108", "v110", "v112", "v114", "latest"]
NUMBERS = ["|i1", "|u1", *(order + code for order in "<>" for code in ["i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])]


def chance(p):
    return rng.random() < p


def below(n):
    return int(rng.integers(n))


def pick(items):
    return items[below(len(items))]


def spelled(dtype):
    dtype = np.dtype(dtype)
    if dtype.names is None:
        return dtype.str

    def field(name):
        kind = dtype.fields[name][0]
        base, shape = kind.subdtype or (kind, ())
        return [spelled(base), list(shape)] if shape else spelled(base)

    names = list(dtype.names)
    offsets = [dtype.fields[name][1] for name in names]
    ends = [0, *(dtype.fields[name][1] + dtype.fields[name][0].itemsize for name in names)]
    if offsets == ends[:-1] and ends[-1] == dtype.itemsize:
        return [[name, *(form if is_array(form) else [form])] for name, form in ((n, field(n)) for n in names)]
    return {"names": names, "formats": [field(name) for name in names], "offsets": offsets, "itemsize": dtype.itemsize}


def is_array(form):
    return isinstance(form, list) and len(form) == 2 and isinstance(form[1], list) and all(isinstance(n, int) for n in form[1])


def plain(values):
    """Returns an array without h5py's metadata of its dtype."""
    values = np.asarray(values)
    if values.dtype.kind in "OT":
        text = [item.decode() if isinstance(item, bytes) else str(item) for item in values.ravel()]
        return np.array(text, dtype=f"<U{max([1, *map(len, text)])}").reshape(values.shape)

    def without(dtype):
        if dtype.subdtype is not None:
            return np.dtype((without(dtype.subdtype[0]), dtype.subdtype[1]))
        if dtype.names is None:
            return np.dtype(dtype.str)
        fields = [dtype.fields[name] for name in dtype.names]
        return np.dtype({"names": list(dtype.names), "formats": [without(f[0]) for f in fields], "offsets": [f[1] for f in fields], "itemsize": dtype.itemsize})

    return values.view(without(values.dtype)) if values.dtype.names else values.astype(np.dtype(values.dtype.str), copy=False)


def add(file, path, about, values=None, word=None, attrs=None):
    entry = {"file": file, "path": path, "about": about}
    if word:
        entry["word"] = word
    else:
        values = np.ascontiguousarray(plain(values)).reshape(np.shape(values))
        items = values.tobytes()
        entry.update(dtype=spelled(values.dtype), shape=list(values.shape), at=expected.tell(), len=len(items), boxes=boxes(values.shape))
        expected.write(items)
    if attrs:
        entry["attrs"] = attrs
    entries.append(entry)


def boxes(shape):
    if not shape or 0 in shape:
        return []
    made = []
    for _ in range(3):
        start = [below(n) for n in shape]
        made.append([start, [1 + below(min(n - at, 40)) for n, at in zip(shape, start)]])
    return made


def text(longest):
    letters = "abcXYZ 0129_äß€" if chance(0.3) else "abcXYZ 0129_"
    return "".join(pick(letters) for _ in range(below(longest + 1)))


def number_values(dtype, shape):
    n, dtype = int(np.prod(shape)), np.dtype(dtype)
    kind = below(4)
    if dtype.kind == "f":
        base = rng.normal(size=n) * pick([1, 100, 3e4]) if kind else np.round(rng.normal(size=n) * 50, 1)
        return np.clip(base, -6e4, 6e4).astype(dtype).reshape(shape)
    info = np.iinfo(dtype)
    if kind == 0:
        return rng.integers(info.min, info.max, n, dtype=dtype.newbyteorder("="), endpoint=True).astype(dtype).reshape(shape)
    if kind == 1:
        return np.full(shape, below(100), dtype)
    low = max(int(info.min), int(rng.integers(-1000, 1000)) if info.min < 0 else below(100))
    low = min(low, int(info.max) - 100)
    return (low + rng.integers(0, pick([2, 16, 100]), n)).astype(dtype).reshape(shape)


def type_and_values():
    """Returns a type of h5py, a function that creates values of a shape, a description, and a word if it is refused."""
    which = below(20)
    if which < 11:
        dtype = np.dtype(pick(NUMBERS))
        return dtype, lambda shape: number_values(dtype, shape), dtype.str, None
    if which == 11:
        kind = h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": 42}, basetype=pick(["i1", "<i4", ">i2"]))
        return kind, lambda shape: rng.choice([0, 1, 42], shape).astype(kind), "enum", None
    if which == 12:
        return np.dtype(bool), lambda shape: rng.random(shape) < 0.5, "bool", None
    if which == 13:
        size = 1 + below(9)
        kind = pick([np.dtype(f"S{size}"), h5py.string_dtype("utf-8", size)])
        texts = lambda shape: np.array([text(size).encode()[:size].decode(errors="ignore").encode() for _ in range(int(np.prod(shape)))], dtype=f"S{size}").reshape(shape).astype(kind)
        return kind, texts, f"text of {size}", None
    if which == 14:
        kind = h5py.string_dtype(pick(["utf-8", "utf-8", "ascii"]))
        ascii_only = h5py.check_string_dtype(kind).encoding == "ascii"

        def texts(shape):
            made = [text(pick([0, 5, 30])) for _ in range(int(np.prod(shape)))]
            made = [item.encode("ascii", "ignore").decode() for item in made] if ascii_only else made
            return np.array(made, dtype=object).reshape(shape)

        return kind, texts, "texts of variable length", None
    if which == 15:
        kind = np.dtype(pick(["<c8", ">c16", "<c16"]))
        return kind, lambda shape: (number_values("<f4", shape) + 1j * number_values("<f4", shape)).astype(kind), "complex", None
    if which == 16:
        size = 1 + below(20)
        return np.dtype(f"V{size}"), lambda shape: rng.integers(0, 256, int(np.prod(shape)) * size, dtype="u1").view(f"V{size}").reshape(shape), "opaque", None
    if which == 17:
        kind = np.dtype([("a", pick(NUMBERS)), ("b", "S3"), ("c", pick(NUMBERS), (2,))], align=chance(0.5))
        if chance(0.4):
            kind = np.dtype([("in", kind), ("z", pick(NUMBERS))])
        return kind, lambda shape: structures(kind, shape), "compound", None
    if which == 18:
        kind = np.dtype((pick(NUMBERS), (2, 3)))
        return kind, lambda shape: number_values(kind.base, tuple(shape) + (2, 3)), "arrays", None
    if which == 19 and chance(0.5):
        return h5py.vlen_dtype(np.dtype("<i4")), None, "sequences", "variable length"
    dtype = np.dtype(pick(["<f8", "<i4", "|u1"]))
    return dtype, lambda shape: number_values(dtype, shape), dtype.str, None


def structures(kind, shape):
    made = np.zeros(shape, kind)
    for name in kind.names:
        part = kind.fields[name][0]
        base, more = part.subdtype or (part, ())
        whole = tuple(shape) + more
        if base.names:
            made[name] = structures(base, whole)
        elif base.kind == "S":
            made[name] = rng.choice([b"", b"x", b"abc"], whole)
        else:
            made[name] = number_values(base, whole)
    return made


def shuffled(data, size):
    whole = len(data) // size * size
    return np.frombuffer(data[:whole], "u1").reshape(-1, size).T.tobytes() + data[whole:]


def zfp():
    options = [
        {"rate": 1 + below(70)},
        {"precision": 1 + below(64)},
        {"accuracy": 10.0 ** -below(6)},
        {"reversible": True},
        {"minbits": 1 + below(80), "maxbits": 100 + below(5000), "maxprec": 1 + below(64), "minexp": -below(300)},
    ]
    return hdf5plugin.Zfp(**pick(options))


def filters(dcpl, dtype, chunks):
    """Adds a random chain of filters. Returns their names."""
    names = []
    is_number = dtype.kind in "iuf" and dtype.names is None and dtype.subdtype is None
    if chance(0.2):
        return names
    if is_number and dtype.itemsize in (4, 8) and dtype.isnative and 0 < sum(n > 1 for n in chunks) < 5 and chance(0.3):
        option = zfp()
        dcpl.set_filter(option.filter_id, h5py.h5z.FLAG_MANDATORY, option.filter_options)
        names.append("zfp")
    elif is_number and h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP) and chance(0.1):
        dcpl.set_szip(pick([h5py.h5z.SZIP_NN_OPTION_MASK, h5py.h5z.SZIP_EC_OPTION_MASK]), pick([2, 4, 8, 16, 32]))
        names.append("szip")
    elif is_number and dtype.str[1:] != "f2" and chance(0.2):
        if dtype.kind == "f":
            dcpl.set_scaleoffset(h5py.h5z.SO_FLOAT_DSCALE, pick([0, 1, 2, 4, -1]))
        else:
            dcpl.set_scaleoffset(h5py.h5z.SO_INT, pick([0, 0, 0, 5, dtype.itemsize * 8]))
        names.append("scaleoffset")
    elif dtype.kind in "iufbSV" and chance(0.12):
        dcpl.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL, ())
        names.append("nbit")
    if chance(0.4):
        dcpl.set_shuffle()
        names.append("shuffle")
    for _ in range(pick([0, 1, 1, 1, 2])):
        codec = below(10)
        if codec < 3:
            dcpl.set_deflate(below(10))
            names.append("gzip")
        elif codec == 3 and "zfp" not in names:
            # After zfp it stores some chunks with a mask by which h5py reads other values, too.
            dcpl.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL)
            names.append("lzf")
        else:
            options = [
                ("blosc", hdf5plugin.Blosc(cname=pick(["lz4", "lz4hc", "zstd", "blosclz", "zlib", "snappy"]), shuffle=below(3))),
                ("blosc2", hdf5plugin.Blosc2(cname=pick(["lz4", "lz4hc", "zstd", "blosclz", "zlib"]), filters=below(3))),
                ("zstd", hdf5plugin.Zstd(clevel=1 + below(9))),
                ("lz4", hdf5plugin.LZ4(nbytes=pick([0, 64, 1000]))),
                ("bitshuffle", hdf5plugin.Bitshuffle(nelems=pick([0, 8, 64]), cname=pick(["none", "lz4", "zstd"]))),
                ("bzip2", hdf5plugin.BZip2(blocksize=1 + below(9))),
            ]
            name, option = pick(options)
            if name in ("bitshuffle", "blosc", "blosc2") and names and names[-1] != "shuffle":
                # These need to know the items.
                continue
            dcpl.set_filter(option.filter_id, h5py.h5z.FLAG_OPTIONAL, option.filter_options)
            names.append(name)
    if chance(0.25):
        dcpl.set_fletcher32()
        names.append("fletcher32")
    return names


def attributes(owner):
    """Adds attributes. Returns what b2kit should read."""
    wanted = {}
    for n in range(pick([0, 0, 0, 1, 3, 12, 40])):
        name, kind = f"a{n}_{text(5).replace(' ', '')}", below(6)
        if kind == 0:
            value = number_values(pick(NUMBERS[:-2]), ()).item()
            value = pick([below(1000), float(rng.normal()), -below(50)])
            owner.attrs[name] = wanted[name] = value
        elif kind == 1:
            owner.attrs[name] = wanted[name] = text(40)
        elif kind == 2:
            owner.attrs[name] = wanted[name] = [text(10) for _ in range(2 + below(3))]
        elif kind == 3:
            value = text(9).encode("ascii", "ignore").decode().rstrip() + "."
            owner.attrs.create(name, np.bytes_(value.encode()))
            wanted[name] = value
        else:
            value = number_values(pick(NUMBERS), pick([(2,), (5,), (2, 3), (1, 1), (300,)]))
            owner.attrs[name] = value
            wanted[name] = {"dtype": value.dtype.str, "shape": list(value.shape), "hex": value.tobytes().hex()}
    return wanted


def direct(data, names, dtype):
    """Stores a chunk without some of its filters. Returns which."""
    shape = data.chunks
    at = tuple(below(-(-n // c)) * c for n, c in zip(data.shape, shape))
    values = number_values(dtype, shape)
    stored, mask = values.tobytes(), 0
    for n, name in enumerate(names):
        skip = chance(0.5) or name not in ("shuffle", "gzip")
        if skip:
            mask |= 1 << n
        else:
            stored = shuffled(stored, dtype.itemsize) if name == "shuffle" else zlib.compress(stored)
    data.id.write_direct_chunk(at, stored, filter_mask=mask)
    return f"a chunk with mask {mask:b}"


def write_some(data, make):
    if not data.shape:
        data[()] = make(())[()]
        return
    start = [below(n) for n in data.shape]
    stop = [at + 1 + below(n - at) for n, at in zip(data.shape, start)]
    region = tuple(slice(a, b) for a, b in zip(start, stop))
    data[region] = make([b - a for a, b in zip(start, stop)])


def one(file, group, n, libver):
    kind, make, about, word = type_and_values()
    dtype = np.dtype(kind)
    about = [libver, about]
    ndim = pick([0, 1, 1, 2, 2, 2, 3, 4])
    longest = {0: 1, 1: pick([10, 300, 3000]), 2: pick([8, 40]), 3: 12, 4: 6}[ndim]
    if dtype.kind == "O":
        longest = min(longest, 30)
    shape = tuple(1 + below(longest) for _ in range(ndim))
    if ndim and chance(0.03):
        shape = (0, *shape[1:])
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout = pick(["chunked"] * 6 + ["contiguous", "compact"]) if ndim else pick(["contiguous", "compact"])
    if 0 in shape and layout == "compact":
        layout = "contiguous"
    most, names = shape, []
    if layout == "compact" and int(np.prod(shape)) * dtype.itemsize > 60_000:
        layout = "contiguous"
    if layout == "chunked":
        if chance(0.7):
            most = tuple(pick([None, n, n + below(5), n * 3 + 1]) or None if chance(0.8) else n for n in shape)
            most = tuple(max(1, m) if m is not None else m for m in most)
        chunks = tuple(1 + below(pick([3, 10, max(n, 1), n + 5])) for n in shape)
        # Few enough chunks to be quick, and none larger than a finite maximum.
        chunks = tuple(max(c, -(-max(n, 1) // pick([1, 4, 30, 200]))) for c, n in zip(chunks, shape))
        chunks = tuple(c if m is None else min(c, m) for c, m in zip(chunks, most))
        dcpl.set_chunk(chunks)
        if dtype.kind != "O":
            names = filters(dcpl, dtype, chunks)
        about += [f"chunks {chunks}", f"most {most}", *names]
        if libver not in ("earliest", "v108") and chance(0.15):
            dcpl.set_chunk_opts(1) if hasattr(dcpl, "set_chunk_opts") else None
    else:
        dcpl.set_layout(h5py.h5d.COMPACT if layout == "compact" else h5py.h5d.CONTIGUOUS)
    allocated = pick([None, None, "EARLY", "LATE", "INCR"])
    if allocated and not (layout != "chunked" and allocated == "INCR") and not (layout == "compact" and allocated != "EARLY"):
        dcpl.set_alloc_time(getattr(h5py.h5d, f"ALLOC_TIME_{allocated}"))
        about.append(allocated)
    never_filled = chance(0.05) and dtype.kind != "O"
    if never_filled:
        dcpl.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        about.append("never filled")
    elif chance(0.1):
        dcpl.set_fill_time(h5py.h5d.FILL_TIME_ALLOC)
    if chance(0.4) and dtype.kind in "iuf" and dtype.subdtype is None:
        dcpl.set_fill_value(np.array(pick([0, 7, 100]), dtype))
        about.append("fill value")
    elif chance(0.4) and "texts of variable length" in about:
        dcpl.set_fill_value(np.array("fill 0", kind))
        about.append("fill value")
    path = f"d{n}"
    space = h5py.h5s.create_simple(shape, tuple(h5py.h5s.UNLIMITED if m is None else m for m in most)) if ndim else h5py.h5s.create(h5py.h5s.SCALAR)
    data = h5py.Dataset(h5py.h5d.create(group.id, path.encode(), h5py.h5t.py_create(dtype, logical=True), space, dcpl))
    has_items = 0 not in shape and make is not None
    if has_items and (never_filled or chance(0.5)):
        data[()] = make(shape)[()] if not ndim else make(shape)
        about.append("all written")
    elif has_items and chance(0.85):
        for _ in range(1 + below(3)):
            write_some(data, make)
    if layout == "chunked" and not never_filled:
        if dtype.kind in "iuf" and dtype.subdtype is None and has_items and names and chance(0.3):
            about.append(direct(data, names, dtype))
        for _ in range(pick([0, 0, 1, 2, 3])):
            longer = tuple(n if m == n else below((m or n + 12) + 1) for n, m in zip(data.shape, most))
            if any(a != b for a, b in zip(longer, data.shape)):
                data.resize(longer)
                about.append(f"resized {longer}")
                if 0 not in longer and make is not None and chance(0.6):
                    write_some(data, make)
    wanted = attributes(data)
    return data, about, word, wanted


def hdf5(number, count):
    libver = pick(LIBVERS)
    name, made = f"{number}.h5", []
    options = {"userblock_size": 512} if chance(0.1) else {}
    tracked = chance(0.3)
    with h5py.File(folder / name, "w", libver=libver if libver in ("earliest", "latest") else (libver, libver), track_order=tracked, **options) as file:
        group = file.create_group("group", track_order=chance(0.3))
        for n in range(count):
            try:
                data, about, word, wanted = one(file, group, n, libver)
            except (OSError, RuntimeError, ValueError) as error:
                refused.append(str(error))
                continue
            made.append((data.name, about, word, wanted))
    with h5py.File(folder / name) as file:
        for path, about, word, wanted in made:
            try:
                values = None if word else file[path][...]
            except OSError as error:
                refused.append(str(error))
                continue
            add(name, path, ", ".join(about), values, word, wanted)


def netcdf(number):
    """A netCDF file with unlimited dimensions that its variables share."""
    name = f"{number}.nc"
    form = pick(["NETCDF4", "NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"])
    # By path: the slices that are written, their values, and the fill value.
    is_4, written = form == "NETCDF4", {}
    kinds = ["i1", "i2", "i4", "f4", "f8"] + (["u1", "u2", "u4", "i8", "u8"] if form in ("NETCDF4", "NETCDF3_64BIT_DATA") else [])
    with netCDF4.Dataset(folder / name, "w", format=form) as file:
        groups = [file] + ([file.createGroup(f"g{n}") for n in range(below(3))] if is_4 else [])
        dims = {"t": None, "x": 1 + below(9), "y": 1 + below(9)}
        if is_4 and chance(0.5):
            dims["s"] = None
        for dim, length in dims.items():
            file.createDimension(dim, length)
            if chance(0.4):
                file.createVariable(dim, pick(kinds), (dim,))
                stored = np.arange(length) if length else np.full(1 + below(5), 3)
                file[dim][: len(stored)] = stored
                written[f"/{dim}"] = (slice(0, len(stored)),), stored, None
        for n in range(1 + below(8)):
            group = pick(groups)
            own = list(rng.permutation([d for d in dims if d != "t"]))[: below(3)]
            own = ["t", *own] if chance(0.6) else own
            if not is_4:
                own = sorted(own, key=lambda d: d != "t")
            kind = pick(kinds)
            options = {}
            if form.startswith("NETCDF4") and own:
                options = pick([{}, {"zlib": True}, {"zlib": True, "shuffle": False}, {"fletcher32": True}])
            fill = pick([None, None, 5, False] if form != "NETCDF3_CLASSIC" else [None, 5])
            var = group.createVariable(f"v{n}", kind, own, fill_value=fill, **options)
            shape = [dims[d] or 1 + below(6) for d in own]
            # Without filling, items that were never written are undefined.
            stored = None
            if chance(0.8) or fill is False:
                part = tuple(slice(0, n if dims[d] is None or fill is False else 1 + below(n)) for n, d in zip(shape, own))
                stored = number_values("i1", [s.stop for s in part]).astype(kind) if part else np.array(5, kind)
                var[part or ...] = stored
            if fill is not False:
                written[group.path.rstrip("/") + f"/v{n}"] = part if stored is not None else None, stored, fill
    with netCDF4.Dataset(folder / name) as file:
        for path, (part, stored, fill) in written.items():
            var = file[path]
            var.set_auto_maskandscale(False)
            # Other variables have made dimensions longer. netCDF4 reads that wrongly, unless it is the first dimension.
            values = np.full(var.shape, netCDF4.default_fillvals[var.dtype.str[1:]] if fill is None else fill, var.dtype)
            if stored is not None:
                values[part or ...] = stored
            if not any(file.dimensions[d].isunlimited() for d in var.dimensions[1:]):
                assert np.array_equal(values, var[...]), (name, path)
            # netCDF4 returns numbers in the order of the machine, NetCDF 3 has them the other way round.
            if form.startswith("NETCDF3"):
                values = values.astype(values.dtype.newbyteorder(">"))
            add(name, path, f"{form} {var.dimensions}", values)


number = 0
while len(entries) < count:
    number += 1
    if number % 4 == 0:
        netcdf(number)
    else:
        hdf5(number, min(PER_FILE, max(1, count // 20)))
expected.close()
(folder / "generated.json").write_text(json.dumps(entries))
print(len(entries), "data sets in", number, "files;", len(refused), "that h5py could not make or read")
for error in sorted(set(refused)) if "-v" in sys.argv else []:
    print(refused.count(error), error)
