"""The fixtures of each producer: names, contents and how they are created.

Listing needs neither blosc2 nor NumPy; both are imported when a fixture is created.
"""

from dataclasses import dataclass, field

CODECS = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
PIPES = {
    "none": [],
    "shuffle": [("SHUFFLE", 0)],
    "bitshuffle": [("BITSHUFFLE", 0)],
    "delta": [("DELTA", 0)],
    "delta+shuffle": [("DELTA", 0), ("SHUFFLE", 0)],
    "shuffle+bytedelta": [("SHUFFLE", 0), ("BYTEDELTA", 0)],
}


@dataclass
class Fixture:
    """One file (or folder) to write."""

    name: str
    kind: str  # chunk, frame, array
    params: dict
    build: str  # name of the function in fixtures_make
    args: dict = field(default_factory=dict)
    data: str = ""  # the seeded generator that makes the raw data
    note: str = ""
    plugin: str = ""  # crate that has to be there to read it

    def make(self, path):
        import fixtures_make

        return getattr(fixtures_make, self.build)(path, **self.args)


def chunk(name, data, codec="lz4", pipe="shuffle", oracle="original", note="", **cparams):
    """One compressed chunk. `data` is (generator, seed, nbytes)."""
    filters = PIPES[pipe] if isinstance(pipe, str) else pipe
    cparams = {"codec": codec, "clevel": 5, "typesize": 4, **cparams, "filters": filters}
    args = {"data": data, "cparams": cparams, "oracle": oracle}
    return Fixture(f"chunk/{name}.chunk", "chunk", cparams, "chunk", args, _call(data), note)


def frame(name, build, data=None, storage="contiguous", note="", suffix=".b2frame", **args):
    """A super-chunk in a file or, `storage="sparse"`, a folder."""
    full = {"data": data, "storage": storage, **args} if data else {"storage": storage, **args}
    params = {"storage": storage, **args}
    text = _call(data) if data else ""
    return Fixture(f"frame/{name}{suffix}", "frame", params, build, full, text, note)


def array(name, data, shape, dtype, note="", plugin="", build="array", **args):
    """A b2nd array of the bytes `data` seen as `shape` items of `dtype`."""
    full = {"data": data, "shape": shape, "dtype": dtype, **args}
    params = {"shape": shape, "dtype": dtype, **args}
    return Fixture(f"array/{name}.b2nd", "array", params, build, full, _call(data) if data else "", note, plugin)


def _call(data):
    return f"{data[0]}({data[1]}, {data[2]})"


def cases(producer):
    family, version = producer.split("/")
    if family == "c-blosc":
        return list(_blosc1(version))
    fixtures = list(_common_chunks()) + list(_common_frames(version))
    if version != "2.6.1":
        fixtures += list(_common_arrays(version)) + list(_special_frames(version))
    if version == "3.3.5":
        fixtures += list(_current_chunks()) + list(_current_frames()) + list(_current_arrays())
    return fixtures


def _blosc1(version):
    for codec in CODECS:
        for shuffle in ("noshuffle", "shuffle", "bitshuffle"):
            # Whole groups of 8 items, so that the whole block is transposed.
            yield _blosc1_chunk(f"{codec}-{shuffle}-4", ("walk4", 11, 12800), codec, shuffle, 4)
    for typesize in (1, 2, 8, 16, 17, 255):
        yield _blosc1_chunk(f"lz4-shuffle-{typesize}", ("walk2", 12, 20000), "lz4", "shuffle", typesize)
    for nbytes in (0, 1, 15, 16, 127, 128, 1001):
        yield _blosc1_chunk(f"zstd-shuffle-{nbytes}b", ("text", 13, nbytes), "zstd", "shuffle", 8)
    yield _blosc1_chunk("blosclz-memcpyed", ("noise", 14, 2000), "blosclz", "shuffle", 8)
    yield _blosc1_chunk("lz4-clevel0", ("walk4", 15, 2000), "lz4", "shuffle", 4, clevel=0)
    yield _blosc1_chunk("lz4-blocks", ("walk8", 16, 150000), "lz4", "shuffle", 8, blocksize=16384)
    yield _blosc1_chunk("zlib-bitshuffle-blocks", ("walk4", 17, 65536), "zlib", "bitshuffle", 4, blocksize=8192)


def _blosc1_chunk(name, data, codec, shuffle, typesize, clevel=5, blocksize=0):
    params = {"codec": codec, "clevel": clevel, "shuffle": shuffle, "typesize": typesize, "blocksize": blocksize}
    return Fixture(f"chunk/{name}.chunk", "chunk", params, "blosc1", {"data": data, **params}, _call(data))


def _common_chunks():
    for i, codec in enumerate(CODECS):
        for j, pipe in enumerate(("none", "shuffle", "bitshuffle", "delta+shuffle")):
            yield chunk(f"{codec}-{pipe}", ("walk4", 100 + 10 * i + j, 6000), codec, pipe)
    yield chunk("zstd-dict", ("text", 150, 60000), "zstd", "none", use_dict=1, typesize=1, blocksize=8192)
    yield chunk("lz4-split-always", ("walk8", 151, 9000), "lz4", "shuffle", typesize=8, splitmode="ALWAYS_SPLIT")
    yield chunk("zstd-split-never", ("walk8", 152, 9000), "zstd", "shuffle", typesize=8, splitmode="NEVER_SPLIT")
    yield chunk("blosclz-blocks", ("float4", 153, 60000), "blosclz", "shuffle", blocksize=4096)
    yield chunk("zeros", ("zeros", 0, 5000), "zstd", "shuffle")
    yield chunk("runs", ("runs", 154, 8000), "zlib", "shuffle", typesize=2)
    yield chunk("memcpyed", ("noise", 155, 1000), "lz4", "bitshuffle")


def _common_frames(version):
    data = ("walk4", 200, 30000)
    for storage in ("contiguous", "sparse"):
        yield frame(f"plain-{storage}", "frame", data, storage, chunksize=8000, codec="zstd")
    yield frame("lz4-delta", "frame", ("walk8", 201, 30000), chunksize=8000, codec="lz4", typesize=8,
                filters=PIPES["delta"], blocksize=2048)
    yield frame("zeros-between", "frame", ("zeros", 0, 32000), chunksize=8000, codec="blosclz")
    yield frame("edited", "edited", ("walk4", 202, 32000), chunksize=8000, codec="lz4")
    yield frame("vlmeta", "vlmeta", ("text", 203, 5000), chunksize=2000, codec="zstd", typesize=1,
                names=3 if version != "2.6.1" else 0)
    yield frame("empty", "frame", ("zeros", 0, 0), chunksize=8000, codec="zstd")


def _special_frames(version):
    for special in ("ZERO", "NAN", "UNINIT") + (() if version == "2.13.1" else ("VALUE",)):
        yield frame(f"special-{special.lower()}", "special", nitems=2500, chunksize=4000, special=special)


def _common_arrays(version):
    yield array("2d", ("float8", 300, 61 * 47 * 8), (61, 47), "<f8", chunks=(20, 30), blocks=(7, 11))
    yield array("3d-sparse", ("walk2", 301, 13 * 17 * 19 * 2), (13, 17, 19), "<i2", chunks=(6, 9, 19), blocks=(3, 4, 10),
                storage="sparse")
    yield array("structured", ("noise", 302, 40 * 12), (40,), "[('a', '<i4'), ('b', '<f8')]", chunks=(16,), blocks=(8,))
    if version != "2.13.1":  # refuses a zero in the shape
        yield array("zero-size", ("zeros", 0, 0), (4, 0, 3), "<f4", chunks=None, blocks=None)
    yield array("scalar", ("walk4", 303, 4), (), "<i4", chunks=(), blocks=())
    yield array("delta", ("walk4", 304, 50 * 40 * 4), (50, 40), "<i4", chunks=(25, 40), blocks=(5, 8),
                filters=PIPES["delta"], codec="lz4")
    for ctor in ("zeros", "full", "empty"):
        yield array(f"ctor-{ctor}", None, (30, 20), "<f4", build="constructed", chunks=(8, 8), blocks=(4, 4), ctor=ctor)
    yield array("resized", ("walk4", 305, 30 * 22 * 4), (30, 22), "<i4", build="resized", chunks=(8, 8), blocks=(4, 4),
                shape0=(12, 10))


def _current_chunks():
    for codec in CODECS:
        for clevel in (0, 1, 3, 7, 9):
            yield chunk(f"{codec}-clevel{clevel}", ("walk4", 400 + clevel, 16000), codec, clevel=clevel)
    for typesize in (1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 24, 31, 32, 33, 64, 100, 255, 256, 300, 1000):
        nbytes = 12000 - 12000 % typesize
        for pipe in ("shuffle", "bitshuffle"):
            yield chunk(f"typesize{typesize}-{pipe}", ("walk4", 420, nbytes), "lz4", pipe, typesize=typesize)
    for typesize in (1, 2, 8, 12, 16):
        yield chunk(f"typesize{typesize}-delta", ("walk4", 430, 9600), "zstd", "delta", typesize=typesize, blocksize=1920)
        yield chunk(f"typesize{typesize}-bytedelta", ("walk4", 431, 9600), "zstd", "shuffle+bytedelta",
                    typesize=typesize, blocksize=1920)
    for nbytes in (0, 1, 3, 31, 32, 33, 64, 4001, 70001):
        yield chunk(f"length{nbytes}", ("walk4", 440, nbytes), "zstd", "shuffle")
    for codec in ("lz4", "lz4hc", "zstd"):
        for split in ("ALWAYS_SPLIT", "NEVER_SPLIT"):
            yield chunk(f"{codec}-dict-{split.split('_')[0].lower()}", ("text", 450, 40000), codec, "shuffle", typesize=2,
                        use_dict=1, blocksize=4096, splitmode=split)
    yield chunk("trunc-prec", ("float4", 460, 8000), "lz4", [("TRUNC_PREC", 10), ("SHUFFLE", 0)], oracle="peer")
    yield chunk("trunc-prec-negative", ("float8", 461, 8000), "lz4", [("TRUNC_PREC", -30), ("BITSHUFFLE", 0)],
                oracle="peer", typesize=8)
    yield chunk("int-trunc", ("walk8", 462, 8000), "lz4", [("INT_TRUNC", -5), ("SHUFFLE", 0)], oracle="peer", typesize=8)
    yield chunk("shuffle-meta", ("walk4", 463, 8000), "zstd", [("SHUFFLE", 4)], typesize=8)
    yield chunk("three-filters", ("walk4", 464, 8000), "zstd", [("SHUFFLE", 0), ("BYTEDELTA", 4), ("BITSHUFFLE", 0)],
                oracle="peer")
    for typesize, blocksize, nbytes in ((12, 1000, 9000), (24, 500, 5000), (32, 2048, 1083), (7, 300, 4000)):
        yield chunk(f"unrounded-{typesize}-{blocksize}", ("walk4", 470, nbytes), "lz4", "shuffle", oracle="unchecked",
                    typesize=typesize, blocksize=blocksize,
                    note="the stored block size is not the one the blocks were cut with; C-Blosc2 cannot read it")
    yield chunk("memcpyed-dict", ("noise", 471, 40000), "zstd", "none", oracle="unchecked", use_dict=1, typesize=1,
                note="the dictionary flag is set on a memcpyed chunk; C-Blosc2 cannot read it")
    for codec in CODECS:
        yield _vl(codec, False)
    for codec in ("lz4", "lz4hc", "zstd"):
        yield _vl(codec, True)
    for shuffle in ("NOFILTER", "SHUFFLE", "BITSHUFFLE"):
        yield Fixture(f"chunk/blosc1-compat-{shuffle.lower()}.chunk", "chunk", {"codec": "lz4", "filter": shuffle},
                      "blosc1_compat", {"data": ("walk4", 480, 9600), "codec": "lz4", "filter": shuffle},
                      "walk4(480, 9600)")


def _vl(codec, use_dict):
    name = f"vlblocks-{codec}{'-dict' if use_dict else ''}"
    args = {"codec": codec, "use_dict": int(use_dict), "sizes": [1, 7, 40, 300, 2000, 12, 12, 900, 64, 5000]}
    return Fixture(f"chunk/{name}.chunk", "chunk", args, "vl_chunk", args, "text(490, 8336)")


def _current_frames():
    data = ("walk4", 500, 30000)
    for codec in CODECS:
        yield frame(f"{codec}-memory", "frame", data, "memory", chunksize=8000, codec=codec)
    yield frame("vlmeta-16", "vlmeta", ("text", 501, 5000), chunksize=2000, codec="lz4", typesize=1, names=16)
    yield frame("metalayers-15", "metalayers", ("text", 502, 5000), chunksize=2000, names=15)
    for storage in ("contiguous", "sparse"):
        yield frame(f"variable-{storage}", "variable", storage=storage, sizes=[400, 4000, 36, 40, 8000, 400])
        yield frame(f"emptied-{storage}", "emptied", ("walk4", 503, 16000), storage, chunksize=8000)
        yield frame(f"edited-{storage}", "edited", ("walk4", 504, 32000), storage, chunksize=8000, codec="zstd")
    yield frame("many-chunks", "frame", ("walk4", 505, 16000), chunksize=16, codec="lz4")
    yield frame("dict", "frame", ("text", 506, 60000), chunksize=30000, codec="zstd", typesize=1, use_dict=1,
                blocksize=4096)
    yield frame("typesize300", "frame", ("walk4", 507, 30000), chunksize=9000, codec="lz4", typesize=300)
    yield frame("embedded", "embedded", ("walk4", 508, 8000), offset=1237, chunksize=3000)
    for storage in ("contiguous", "sparse"):
        yield frame(f"object-array-{storage}", "object_array", storage=storage, suffix=".b2f")
        yield frame(f"batch-array-{storage}", "batch_array", storage=storage, suffix=".b2b")
    yield frame("embed-store", "embed_store", suffix=".b2e")


def _current_arrays():
    for nd in (1, 4, 5, 8, 9, 16):
        shape = {1: (1000,), 4: (5, 6, 7, 8), 5: (3, 4, 5, 3, 4), 8: (2, 3, 2, 3, 2, 2, 2, 2)}.get(nd, (2,) * nd)
        chunks = tuple(max(1, s * 2 // 3) for s in shape)
        blocks = tuple(max(1, c // 2) for c in chunks)
        n = 4
        for s in shape:
            n *= s
        # A 16-dimensional array in blocks of one item would be mostly headers.
        if nd == 16:
            shape, chunks, blocks, n = (2,) * 8 + (1,) * 8, (2,) * 6 + (1,) * 10, (2,) * 3 + (1,) * 13, 1024
        elif nd == 9:
            chunks, blocks = (2,) * 7 + (1, 1), (2,) * 5 + (1,) * 4
        yield array(f"{nd}d", ("walk4", 600 + nd, n), shape, "<i4", chunks=chunks, blocks=blocks)
    for i, dtype in enumerate(("|u1", "|b1", "<u2", ">i4", "<i8", "<f2", ">f8", "<c16", "|S5", "<U3", "<M8[ns]", "|V5")):
        size = {"<U3": 12, "<c16": 16}.get(dtype) or int("".join(c for c in dtype.split("[")[0] if c.isdigit()))
        kind = "zeros" if dtype in ("|b1", "<U3") else "walk2"
        clean = "".join(c for c in dtype if c.isalnum()) + ("-be" if dtype[0] == ">" else "")
        yield array(f"dtype-{clean}", (kind, 620 + i, 24 * 10 * size), (24, 10), dtype, chunks=(10, 10), blocks=(5, 4))
    yield array("dtype-large-record", ("walk4", 640, 30 * 400), (30,), "|V400", chunks=(8,), blocks=(4,))
    yield array("nans", None, (30, 20), "<f8", build="constructed", chunks=(8, 8), blocks=(4, 4), ctor="nans")
    yield array("uninit", None, (30, 20), "<f8", build="constructed", chunks=(8, 8), blocks=(4, 4), ctor="uninit")
    yield array("dict", ("text", 641, 6000 * 4), (60, 100), "<i4", chunks=(60, 100), blocks=(20, 50), codec="zstd", filters=[],
                use_dict=1)
    yield array("vlmeta", ("walk4", 642, 4000), (25, 40), "<i4", chunks=(10, 20), blocks=(5, 5), vlmeta=3, meta=2)
    place = {"chunks": (24, 20), "blocks": (12, 10)}
    data8 = ("runs", 643, 50 * 40)
    for side in (4, 8):
        yield array(f"ndlz{side}", data8, (50, 40), "|u1", codec="ndlz", codec_meta=side, filters=[], **place)
    data4 = ("float4", 644, 50 * 40 * 4)
    yield array("ndcell", data4, (50, 40), "<f4", filters=[("NDCELL", 4)], **place)
    yield array("ndmean", data4, (50, 40), "<f4", filters=[("NDMEAN", 5)], oracle="peer", **place)
    for mode, meta in (("zfp_acc", 253), ("zfp_prec", 20), ("zfp_rate", 37)):
        yield array(f"{mode.replace('_', '-')}", data4, (50, 40), "<f4", codec=mode, codec_meta=meta, filters=[],
                    oracle="peer", plugin="b2-zfp", **place)
