"""A pytest plugin that puts b2kit.h5py in the place of pyfive in h5netcdf."""

import b2kit.h5py

b2kit.h5py.use_in_h5netcdf()
