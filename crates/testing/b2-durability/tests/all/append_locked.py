"""Appends chunks to a frame with C-Blosc2, its locking on, next to other writers.

    append_locked.py PATH WRITER COUNT

Chunk number k of writer w holds the pair (w, k) as two u32, repeated.
"""

import sys

import blosc2
import numpy as np

blosc2.set_nthreads(1)


def main():
    path, writer, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    schunk = blosc2.blosc2_ext.open(path, "a", 0, locking=True)
    items = schunk.chunksize // 8
    for k in range(count):
        data = np.tile(np.array([writer, k], dtype="<u4"), items).tobytes()
        schunk.append_data(data)


main()
