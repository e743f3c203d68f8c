//! The integration tests of `b2-cli`, as a single program: a new file needs a line here.

mod address_space;
mod auto;
mod batch;
mod bench;
mod cat;
mod change_append;
mod change_chunk;
mod change_compact;
mod change_set;
mod change_shape;
mod change_vlmeta;
mod checksum;
mod common;
mod completion;
mod concurrent_writers;
mod conventions;
#[cfg(feature = "hdf5")]
mod convert;
#[cfg(feature = "hdf5")]
mod convert_nifti;
#[cfg(feature = "hdf5")]
mod convert_zarr;
mod copy;
mod diff;
mod files_from;
mod foreign;
mod general;
mod hdf5;
mod help;
mod hostile_files;
mod info;
mod items;
mod limits;
mod lossy;
mod many_files;
mod messages;
mod no_threads;
mod npy_trailing_bytes;
mod pack;
mod pages;
mod placement;
mod safety;
mod salvage;
#[cfg(target_os = "linux")]
mod screen;
mod show;
mod signals;
mod stdio;
mod stores;
mod summaries;
#[cfg(feature = "http")]
mod urls;
mod usability;
mod verify;
mod view;
#[cfg(all(target_os = "linux", feature = "terminal"))]
mod view_latency;
#[cfg(all(target_os = "linux", feature = "terminal"))]
mod view_screen;
