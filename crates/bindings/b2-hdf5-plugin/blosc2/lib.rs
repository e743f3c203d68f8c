//! `libh5b2kit_blosc2.so`: the filter 32026 of HDF5, Blosc2.

b2_hdf5_plugin::plugin!(b2_hdf5_plugin::Blosc2);
