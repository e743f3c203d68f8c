//! `libh5b2kit_blosc.so`: the filter 32001 of HDF5, Blosc 1.

b2_hdf5_plugin::plugin!(b2_hdf5_plugin::Blosc);
