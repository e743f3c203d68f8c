//! Reading: opens Blosc2 files, stores, `.npy` files and raw bytes, selects items and reads them in pieces.
//! Code belongs here if several commands need it to read existing data, or to report where it is damaged.
//! It may use all layers except `write` and the commands, and writes only temporary files.

pub(crate) mod damage;
pub(crate) mod dims;
pub(crate) mod external;
#[cfg_attr(not(feature = "hdf5"), path = "hdf5_absent.rs")]
pub(crate) mod hdf5;
pub(crate) mod input;
mod items;
pub(crate) mod operand;
pub(crate) mod sample;
pub(crate) mod selection;
pub(crate) mod slice;
mod source;
pub(crate) mod store;
pub(crate) mod view;

pub(crate) use hdf5::Hdf5;
pub(crate) use input::{Input, UNLIMITED, find_cut_off, is_array_layer, is_object_list, without_items};
pub(crate) use items::Items;
pub(crate) use operand::{Operand, refuse_directory, refuse_url_input};
pub(crate) use selection::Selection;
pub(crate) use slice::{Axis, block_box, coordinates, resolve};
pub(crate) use store::Store;
pub(crate) use view::{Data, View};
