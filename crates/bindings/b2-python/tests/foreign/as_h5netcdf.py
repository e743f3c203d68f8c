"""A pytest plugin that replaces pyfive by b2kit.h5py in h5netcdf."""

import b2kit.h5py

b2kit.h5py.use_in_h5netcdf()
