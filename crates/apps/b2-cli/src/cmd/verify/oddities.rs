//! Oddities that `verify` reports for files without checksums: what no known writer produces.

use b2kit::frame::{Checksums, VerifyReport};
use b2kit::nd::ArrayMeta;
use b2kit::nd::Geometry;
use b2kit::{Dtype, NdArray, SuperChunk};

use crate::read::Input;

/// Maximum number of notes to print for a file.
const PRINTED: usize = 8;

/// Describes what is odd about a frame without being an error.
pub(crate) fn notes(input: &Input, found: &VerifyReport) -> Vec<String> {
    if found.checksums == Checksums::Ok {
        return Vec::new();
    }
    let mut notes = match input {
        Input::Array(array) => dtype_note(array),
        Input::SuperChunk(frame) => array_note(frame),
        Input::Chunk(_) => Vec::new(),
    };
    notes.extend(found.odd.iter().map(ToString::to_string));
    let more = notes.len().saturating_sub(PRINTED) + found.more;
    notes.truncate(PRINTED);
    if more > 0 {
        notes.push(format!("and {more} more"));
    }
    notes
}

/// Reports a dtype whose size is not the item size.
fn dtype_note(array: &NdArray) -> Vec<String> {
    let meta = array.meta();
    let text = meta.dtype.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let itemsize = array.itemsize();
    match Dtype::parse(&text) {
        Ok(dtype) if meta.dtype_format == 0 && dtype.itemsize() != itemsize => {
            let has = dtype.itemsize();
            vec![format!("dtype {text} has {has} bytes, the items of the frame have {itemsize}")]
        }
        _ => Vec::new(),
    }
}

/// Reports a metalayer of another name whose content would make the frame an array.
fn array_note(frame: &SuperChunk) -> Vec<String> {
    let fits = |content: &[u8]| {
        let meta = ArrayMeta::parse("b2nd", content).ok()?;
        meta.dtype.as_ref()?;
        let geometry = Geometry::new(meta.shape, meta.chunkshape, meta.blockshape, frame.itemsize()).ok()?;
        (geometry.nchunks() == frame.nchunks() as u64 && geometry.chunk_nbytes() == frame.chunksize())
            .then_some(())
    };
    let metalayers = frame.metalayers().iter().filter(|(_, content)| fits(content).is_some());
    metalayers
        .map(|(name, _)| {
            let name = String::from_utf8_lossy(name);
            format!("metalayer {name:?} describes an array of these chunks, but only `b2nd` defines an array")
        })
        .collect()
}
