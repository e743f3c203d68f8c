"""Prints the folder for ``HDF5_PLUGIN_PATH``."""

from b2kit_hdf5_plugin import PATH

print(PATH)
