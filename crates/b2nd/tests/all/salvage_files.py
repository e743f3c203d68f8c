"""Writes files of C-Blosc2 into a folder: codecs, shapes, contiguous and sparse, at most 1 MiB each."""

import pathlib
import sys

import blosc2
import numpy as np

folder = pathlib.Path(sys.argv[1])
rng = np.random.default_rng(19)


def numbers(*shape):
    return np.cumsum(rng.integers(-2500, 2500, np.prod(shape))).reshape(shape)


def write(name, array, codec, contiguous=True, **params):
    cparams = {"codec": codec, "typesize": array.dtype.itemsize, "nthreads": 2}
    urlpath = str(folder / f"{name}.b2nd")
    blosc2.asarray(array, urlpath=urlpath, mode="w", contiguous=contiguous, cparams=cparams, **params)


write("c-zstd", numbers(200_000), blosc2.Codec.ZSTD, chunks=(20_000,), blocks=(2000,))
write("c-lz4", numbers(400, 500), blosc2.Codec.LZ4, chunks=(100, 100), blocks=(20, 50))
write("c-sparse", numbers(400, 400), blosc2.Codec.BLOSCLZ, contiguous=False, chunks=(90, 110), blocks=(30, 40))
write("c-noise", rng.standard_normal((300, 400)), blosc2.Codec.ZLIB, chunks=(50, 400), blocks=(10, 100))
