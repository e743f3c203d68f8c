"""Chunks of C-Blosc 1, and the codecs of numcodecs, compared with the original libraries."""

from __future__ import annotations

import contextlib
import random
import struct
from typing import Any

import numpy as np
import pytest

import b2kit

numcodecs = pytest.importorskip("numcodecs")
ours = pytest.importorskip("b2kit.numcodecs")
theirs = pytest.importorskip("numcodecs.blosc")

NAMES = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]


def samples(dice: random.Random, nbytes: int) -> bytes:
    """Data of several kinds: noise, ramps, runs, text."""
    kind = dice.randrange(4)
    if kind == 0:
        return dice.randbytes(nbytes)
    if kind == 1:
        return (np.arange(nbytes // 2 + 1, dtype="<u2") // 3).tobytes()[:nbytes]
    if kind == 2:
        return bytes([dice.randrange(256)]) * nbytes
    return (b"north wind %d; " * (nbytes // 10 + 1))[:nbytes]


def test_chunks_of_blosc1_both_ways() -> None:
    dice = random.Random(7)
    for _ in range(400):
        size = dice.choice([1, 2, 3, 4, 6, 8, 12, 16, 17, 24, 100, 255])
        nbytes = dice.choice([dice.randrange(1, 200), dice.randrange(1, 5000), dice.randrange(1, 400_000)])
        data = samples(dice, nbytes)
        name, level = dice.choice(NAMES), dice.randrange(10)
        if name == "zstd":
            level = min(level, 6)
        shuffle = dice.choice([-1, 0, 1, 2])
        blocksize = dice.choice([0, 0, dice.randrange(16, 40_000)])
        mine = ours.Blosc(name, level, shuffle, blocksize, typesize=size)
        packed = mine.encode(data)
        assert packed[0] == 2 and len(packed) <= nbytes + 16
        assert theirs.Blosc().decode(packed) == data, (mine, size, nbytes)
        other = theirs.Blosc(name, level, shuffle, blocksize).encode(np.frombuffer(data, "u1"))
        assert ours.Blosc().decode(other) == data
        out = bytearray(nbytes)
        assert ours.Blosc().decode(other, out=out) is out and out == data


def test_all_sizes_near_the_limits() -> None:
    """Around the smallest input that is compressed, and around whole blocks."""
    for nbytes in [*range(1, 140), 4095, 4096, 4097, 32767, 32768, 32769, 65535, 262144, 262145]:
        data = (np.arange(nbytes, dtype="u4") // 5).astype("u1").tobytes()
        for name in NAMES:
            for shuffle in (1, 2):
                packed = ours.Blosc(name, 5, shuffle, typesize=4).encode(data)
                assert theirs.Blosc().decode(packed) == data, (name, shuffle, nbytes)
    # numcodecs refuses empty chunks, its own as well.
    with pytest.raises(RuntimeError):
        theirs.Blosc().decode(theirs.Blosc().encode(b""))
    assert ours.Blosc().decode(ours.Blosc().encode(b"")) == b""
    assert ours.Blosc().decode(theirs.Blosc().encode(b"")) == b""


def test_items_of_all_sizes() -> None:
    data = np.arange(60_000, dtype="<u4").tobytes()
    for size in range(1, 256):
        for shuffle in (1, 2):
            packed = b2kit.compress(
                data, "lz4", 5, [("shuffle", "bitshuffle")[shuffle - 1]], typesize=size, blosc1=True
            )
            assert theirs.Blosc().decode(packed) == data, (size, shuffle)


def test_c_blosc_itself() -> None:
    """The library without numcodecs, which is another version."""
    blosc = pytest.importorskip("blosc")
    dice = random.Random(3)
    for _ in range(100):
        size, data = dice.choice([1, 2, 4, 8, 20]), samples(dice, dice.randrange(1, 100_000))
        name, filter = dice.choice(NAMES), dice.choice([0, 1, 2])
        filters = [(), ("shuffle",), ("bitshuffle",)][filter]
        packed = b2kit.compress(data, name, 5, filters, typesize=size, blosc1=True)
        assert blosc.decompress(packed) == data
        assert b2kit.decompress(blosc.compress(data, size, 5, filter, name)) == data


def test_the_codec_is_that_of_numcodecs() -> None:
    assert ours.Blosc().get_config() == theirs.Blosc().get_config()
    assert ours.Blosc("zstd", 3, 2, 100).get_config() == theirs.Blosc("zstd", 3, 2, 100).get_config()
    assert repr(ours.Blosc(shuffle=2)) == repr(theirs.Blosc(shuffle=2))
    config = theirs.Blosc("zlib").get_config()
    del config["id"]
    assert ours.Blosc.from_config(config).cname == "zlib"
    # Their codecs are not replaced unless requested.
    assert isinstance(numcodecs.get_codec({"id": "blosc"}), theirs.Blosc)
    try:
        ours.register()
        assert isinstance(numcodecs.get_codec({"id": "blosc"}), ours.Blosc)
    finally:
        numcodecs.register_codec(theirs.Blosc)
    for items in (np.zeros(10, "U100"), np.arange(10).astype("M8[s]"), np.ones((3, 4), "f8", order="F")):
        assert theirs.Blosc().decode(ours.Blosc().encode(items)) == items.tobytes("A")
    with pytest.raises(ValueError):
        ours.Blosc("snappy")
    with pytest.raises(ValueError):
        ours.Blosc(shuffle=3)
    with pytest.raises(ValueError):
        ours.Blosc(clevel=10)


def test_blosc2_is_found_by_its_id() -> None:
    codec = numcodecs.get_codec({"id": "blosc2", "cname": "zstd", "clevel": 3})
    assert isinstance(codec, ours.Blosc2)
    data = np.arange(5000, dtype="<i4")
    assert codec.decode(codec.encode(data)) == data.tobytes()
    assert codec.encode(data)[0] == 5
    blosc2 = pytest.importorskip("blosc2")
    assert codec.decode(blosc2.compress2(data.tobytes(), typesize=4)) == data.tobytes()
    # HDF5's filter stores an array, or a frame without a shape.
    square = np.arange(120, dtype="<f4").reshape(10, 12)
    stored = blosc2.asarray(square, chunks=(4, 7), blocks=(2, 3)).to_cframe()
    assert codec.decode(stored) == square.tobytes()
    plain = blosc2.SChunk(chunksize=400, data=data.tobytes()).to_cframe()
    out = np.empty(5000, "<i4")
    assert codec.decode(plain, out=out) is out and (out == data).all()
    with pytest.raises(ValueError):
        codec.decode(plain, out=np.empty(10, "u1"))


def test_decompress_into_a_buffer() -> None:
    data = np.arange(1000, dtype="<u4")
    chunk = b2kit.compress(data)
    for out in (bytearray(4000), bytearray(4100), np.empty(1000, "u4"), np.empty((10, 100), "f4", order="F"), memoryview(bytearray(4000))):
        assert b2kit.decompress(chunk, out=out) is out
        assert np.asarray(out).tobytes("A")[:4000] == data.tobytes()
    for wrong in (bytearray(3999), np.empty(2000, "u4")[::2], b"0" * 4000):
        with pytest.raises((ValueError, TypeError)):
            b2kit.decompress(chunk, out=wrong)


def test_views_of_bytes() -> None:
    """Views of all of a ``bytes`` object are read in place, others are copied; both show the bytes in C order."""
    rng = np.random.default_rng(5)
    plain = rng.integers(0, 9, 70_000, dtype="u1").tobytes()
    chunk = b2kit.compress(plain)
    # Chunks end at a multiple of twelve, so that views of several shapes exist. What follows a chunk is ignored.
    chunk += bytes(-len(chunk) % 12)
    flat = np.frombuffer(chunk, "u1")
    around = np.frombuffer(b"\1" + chunk + b"\2", "u1")
    shuffled = flat.reshape(3, 4, -1).transpose(2, 0, 1).tobytes()
    views = [
        *[memoryview(chunk), memoryview(flat), flat, flat.view("<i4"), flat.reshape(3, -1), memoryview(flat.reshape(2, -1))],
        *[around[1:-1], memoryview(around)[1:-1], np.frombuffer(chunk[::-1], "u1")[::-1], flat.copy(), bytearray(chunk)],
        np.frombuffer(shuffled, "u1").reshape(-1, 3, 4).transpose(1, 2, 0),
    ]
    for view in views:
        assert b2kit.decompress(view) == plain
    # A view that is as long as its bytes shows them in another order.
    with pytest.raises(ValueError):
        b2kit.decompress(flat[::-1])
    changed = np.frombuffer(bytearray(chunk), "u1")
    assert b2kit.decompress(changed) == plain
    changed[:] = 0
    with pytest.raises(ValueError):
        b2kit.decompress(changed)


def test_what_blosc1_lacks_is_refused() -> None:
    refused: tuple[dict[str, Any], ...] = ({"filters": ("delta",)}, {"filters": ("shuffle", "bytedelta")}, {"typesize": 256})
    for options in refused:
        with pytest.raises(ValueError):
            b2kit.compress(b"0" * 1000, **{"codec": "lz4", "blosc1": True, **options})


def test_damaged_chunks_are_errors() -> None:
    dice = random.Random(1)
    chunk = ours.Blosc("lz4").encode(np.arange(20_000))
    for _ in range(300):
        bad = bytearray(chunk)
        bad[dice.randrange(len(bad))] ^= 1 << dice.randrange(8)
        try:
            decoded = ours.Blosc().decode(bytes(bad))
        except ValueError:
            continue
        assert isinstance(decoded, bytes)
    with pytest.raises(ValueError):
        ours.Blosc().decode(chunk[: len(chunk) // 2])


def test_snappy_is_read():
    # Two blocks, each one stream: 8 literals, and a copy of 56 bytes.
    stream = bytes([64, 7 << 2]) + b"abcdefgh" + bytes([(55 << 2) | 2, 8, 0])
    starts = (24, 24 + 4 + len(stream))
    head = bytes([2, 1, 0x50, 1]) + struct.pack("<5i", 128, 64, starts[1] + 4 + len(stream), *starts)
    chunk = head + 2 * (struct.pack("<i", len(stream)) + stream)
    assert ours.Blosc().decode(chunk) == b2kit.decompress(chunk) == b"abcdefgh" * 16
    for at in range(24, len(chunk)):
        with contextlib.suppress(ValueError):
            b2kit.decompress(chunk[:at] + bytes([chunk[at] ^ 0x41]) + chunk[at + 1 :])
