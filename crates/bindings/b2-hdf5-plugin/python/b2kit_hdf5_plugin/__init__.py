"""The HDF5 filters Blosc2 (32026) and Blosc (32001) of b2kit, as libraries that HDF5 loads.

Importing this package changes nothing. HDF5 searches the folders named by the environment variable ``HDF5_PLUGIN_PATH``, so
set it to :data:`PATH`, which ``python -m b2kit_hdf5_plugin`` prints, before the program starts. In a running program,
``h5py.h5pl.prepend(PATH.encode())`` does the same for h5py.
"""

from pathlib import Path

__all__ = ["PATH"]

PATH: str = str(Path(__file__).resolve().with_name("plugins"))
"""The folder with the libraries, for ``HDF5_PLUGIN_PATH``."""
