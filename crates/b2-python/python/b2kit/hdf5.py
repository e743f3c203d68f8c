"""HDF5 files of h5py whose chunks are Blosc2 or Blosc: the filters 32026 and 32001 of HDF5.

    >>> import h5py, numpy as np
    >>> import b2kit.hdf5
    >>> b2kit.hdf5.register()
    >>> with h5py.File("field.h5", "w") as file:
    ...     data = file.create_dataset("t", data=np.arange(10_000), chunks=(1000,), **b2kit.hdf5.compression("lz4"))
    ...     int(data[1234])
    1234

hdf5plugin, PyTables and all programs with a filter of these numbers read what is written, and the other way around.
"""

from __future__ import annotations

import sys
from typing import Any

from b2kit import _b2kit
from b2kit.errors import ArgumentError

__all__ = ["compression", "register"]

_CODECS = {"blosclz": 0, "lz4": 1, "lz4hc": 2, "zlib": 4, "zstd": 5}
_FILTERS = {None: 0, "shuffle": 1, "bitshuffle": 2}


def register() -> None:
    """Let h5py read and write Blosc2 (32026) and Blosc (32001) chunks through b2kit.

    It holds for this process, and takes the place of filters that were registered before, such as those of hdf5plugin.
    Other programs and modules with an HDF5 of their own (PyTables, netCDF4) are not changed.

    Raises
    ------
    ImportError
        h5py is not installed.
    OSError
        On Windows: the filters look up functions of HDF5 as on Unix.
    """
    if sys.platform == "win32":
        raise OSError("the filters of HDF5 are not there on Windows yet")
    import h5py  # type: ignore[import-untyped, unused-ignore]

    for address in _b2kit.hdf5_filters():
        h5py.h5z.register_filter(address)


def compression(codec: str = "zstd", clevel: int = 5, filter: str | None = "shuffle") -> dict[str, Any]:
    """Return keyword arguments of h5py's ``create_dataset`` for chunks that are Blosc2 (filter 32026).

    Parameters
    ----------
    codec
        ``"blosclz"``, ``"lz4"``, ``"lz4hc"``, ``"zlib"`` or ``"zstd"``.
    clevel
        From 0 (do not compress) to 9.
    filter
        ``"shuffle"``, ``"bitshuffle"`` or None.

    Raises
    ------
    ArgumentError
        An unknown codec or filter, or another level.
    """
    if codec not in _CODECS:
        raise ArgumentError(f"codec {codec!r}: expected one of {', '.join(_CODECS)}")
    if filter not in _FILTERS:
        raise ArgumentError(f"filter {filter!r}: expected 'shuffle', 'bitshuffle' or None")
    if not 0 <= clevel <= 9:
        raise ArgumentError(f"clevel {clevel}: expected 0 to 9")
    # Four numbers that the filter sets: revision, block size, item size, chunk size.
    return {"compression": 32026, "compression_opts": (0, 0, 0, 0, clevel, _FILTERS[filter], _CODECS[codec])}
