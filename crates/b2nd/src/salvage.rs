//! Making a readable array from a damaged one.

use std::path::Path;

use b2_chunk::Container;
use b2_frame::{FrameError, FrameHeader, Metalayers, OpenOptions, Salvaged, WriteOptions, salvage_with};

use crate::array::lost_itemsize;
use crate::meta::{ArrayMeta, METALAYER, OLD_METALAYER};

/// As [`b2_frame::salvage`], of arrays and of super-chunks: some codecs and filters need the shape of an array's blocks, which
/// its metalayer tells. Chunks of such an array whose metalayer is lost are saved if their checksums are right.
///
/// # Errors
/// As [`b2_frame::salvage`].
pub fn salvage(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &OpenOptions,
    write: &WriteOptions,
) -> Result<Salvaged, FrameError> {
    salvage_with(input, output, options, write, container)
}

fn container(header: &FrameHeader, metalayers: &Metalayers) -> Option<Container> {
    let meta = [METALAYER, OLD_METALAYER].into_iter().find_map(|name| {
        let stored = metalayers.get(name)?;
        ArrayMeta::parse(name, stored).ok()
    })?;
    Some(Container {
        itemsize: Some(lost_itemsize(&meta, header.typesize(), header.chunksize())),
        frame_blocksize: header.blocksize(),
        blockshape: meta.blockshape.as_slice().into(),
    })
}
