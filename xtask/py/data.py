"""Seeded raw data, the same on every machine and NumPy version: integer arithmetic only."""

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def words(seed, n):
    """`n` pseudo-random 64-bit words: the splitmix64 sequence that starts at `seed`."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) * np.uint64(0xD1342543DE82EF95) + _GOLDEN * np.arange(1, n + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def noise(seed, nbytes):
    """Incompressible bytes."""
    return words(seed, nbytes // 8 + 1).astype("<u8").tobytes()[:nbytes]


def walk(seed, nbytes, width=4):
    """A random walk with small steps in little-endian integers of `width` bytes (1, 2, 4, 8)."""
    n = nbytes // width + 1
    steps = (words(seed, n) % np.uint64(31)).astype(np.int64) - 14
    return np.cumsum(steps).astype(f"<i{width}").tobytes()[:nbytes]


def floats(seed, nbytes, width=4):
    """A random walk in floats; every value is a multiple of 1/64, so exact in both widths."""
    n = nbytes // width + 1
    steps = (words(seed, n) % np.uint64(257)).astype(np.int64) - 128
    return (np.cumsum(steps) / 64).astype(f"<f{width}").tobytes()[:nbytes]


def sparse(seed, nbytes):
    """Mostly zero bytes, about one in forty not."""
    w = words(seed, nbytes)
    return np.where(w % np.uint64(41) == 0, (w >> np.uint64(40)) % np.uint64(256), 0).astype("u1").tobytes()


_WORDS = b"the of and block stream frame chunk index trailer level shape array slice item codec filter".split()


def text(seed, nbytes):
    """Words of a short list, separated by blanks."""
    picks = words(seed, nbytes // 3 + 2) % np.uint64(len(_WORDS))
    return b" ".join(_WORDS[int(i)] for i in picks)[:nbytes]


def runs(seed, nbytes):
    """Runs of equal bytes, 1 to 200 long, a third of them zero."""
    out = bytearray()
    for w in words(seed, nbytes // 8 + 8):
        w = int(w)
        value = 0 if w % 3 == 0 else (w >> 8) & 255
        out += bytes([value]) * (1 + (w >> 16) % 200)
        if len(out) >= nbytes:
            break
    return bytes(out[:nbytes])


def zeros(_seed, nbytes):
    """Zero bytes."""
    return bytes(nbytes)


KINDS = {
    "noise": noise,
    "walk1": lambda s, n: walk(s, n, 1),
    "walk2": lambda s, n: walk(s, n, 2),
    "walk4": lambda s, n: walk(s, n, 4),
    "walk8": lambda s, n: walk(s, n, 8),
    "float4": lambda s, n: floats(s, n, 4),
    "float8": lambda s, n: floats(s, n, 8),
    "sparse": sparse,
    "text": text,
    "runs": runs,
    "zeros": zeros,
}


def make(kind, seed, nbytes):
    """The bytes called `kind(seed, nbytes)`; the manifest names raw data this way."""
    out = KINDS[kind](seed, nbytes)
    assert len(out) == nbytes, (kind, seed, nbytes, len(out))
    return out
