"""An array put together from its decoded chunks.

The C library returns wrong slices of delta chunks and refuses slices of chunks with a dictionary; whole chunks
it decodes correctly. So only chunks are read to determine the content of an array.
"""

import ast
import itertools

import blosc2
import numpy as np


def numpy_dtype(text):
    return np.dtype(ast.literal_eval(text) if text[0] in "[{" else text)


def whole_chunk(schunk, nchunk):
    """The decoded bytes of a chunk."""
    try:
        return bytes(schunk.decompress_chunk(nchunk))
    except RuntimeError:
        # From a file the library decodes no chunk with a dictionary; as a buffer it does.
        return blosc2.decompress2(schunk.get_chunk(nchunk), nthreads=1)


def stored_dtype(array):
    """The dtype in the array's metalayer: the text at its end."""
    meta = blosc2.blosc2_ext.meta__getitem__(array.schunk, "b2nd")
    ndim = len(array.shape)
    # Version, shape in 9 bytes a number, chunk and block shape in 5, format and length of the dtype.
    return meta[3 + (1 + 9 * ndim) + 2 * (1 + 5 * ndim) + 6 :].decode()


def assemble(array, itemsize):
    """The bytes of `array` in C order."""
    shape, chunks, blocks = array.shape, array.chunks, array.blocks
    item = np.dtype(f"V{itemsize}")
    out = np.zeros(shape, dtype=item)
    grid = [range(-(-s // c)) if c else range(0) for s, c in zip(shape, chunks)]
    ext = [-(-c // b) * b for c, b in zip(chunks, blocks)] if all(blocks) else []
    for nchunk, where in enumerate(itertools.product(*grid)):
        flat = np.frombuffer(whole_chunk(array.schunk, nchunk), dtype=item)
        nblocks = [e // b for e, b in zip(ext, blocks)]
        n = len(shape)
        # From (blocks along each axis, items of a block along each axis) to the axes in turn.
        order = [axis for k in range(n) for axis in (k, n + k)]
        whole = flat.reshape(nblocks + list(blocks))
        # NumPy stops at 64 axes from 2.0 on, at 32 before: 16 dimensions just fit.
        whole = whole.transpose(order).reshape(ext)
        place = tuple(slice(w * c, min((w + 1) * c, s)) for w, c, s in zip(where, chunks, shape))
        part = tuple(slice(0, p.stop - p.start) for p in place)
        out[place] = whole[part]
    return out.tobytes()
