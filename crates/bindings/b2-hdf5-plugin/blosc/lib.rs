//! `libh5b2kit_blosc.so`: HDF5 filter 32001, Blosc 1.

b2_hdf5_plugin::plugin!(b2_hdf5_plugin::Blosc);
