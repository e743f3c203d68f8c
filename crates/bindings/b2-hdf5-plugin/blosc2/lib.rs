//! `libh5b2kit_blosc2.so`: HDF5 filter 32026, Blosc2.

b2_hdf5_plugin::plugin!(b2_hdf5_plugin::Blosc2);
