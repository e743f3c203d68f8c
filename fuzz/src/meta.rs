//! Metadata: the array metalayer with its dtype, literals, and vlmetalayers.

use b2_chunk::DParams;
use b2_frame::{FrameParams, FrameWriter, SuperChunk};
use b2nd::{ArrayMeta, Dtype, Geometry, Object, literal};

use crate::frame::{options, small};

/// The input is an array metalayer or the text of a dtype.
pub(crate) fn array(data: &[u8]) {
    for name in ["b2nd", "caterva"] {
        let Ok(meta) = ArrayMeta::parse(name, data) else { continue };
        if let Some(dtype) = &meta.dtype {
            text(&String::from_utf8_lossy(dtype));
        }
        for itemsize in [0, 1, 4, 300] {
            let shapes = (meta.shape.clone(), meta.chunkshape.clone(), meta.blockshape.clone());
            let Ok(geometry) = Geometry::new(shapes.0, shapes.1, shapes.2, itemsize) else { continue };
            // An accepted geometry must not overflow.
            assert_eq!(geometry.nbytes(), geometry.nitems() * itemsize as u64);
            let grid = geometry.grid();
            let nchunks = grid.iter().try_fold(1u64, |n, k| n.checked_mul(*k));
            assert_eq!(if grid.contains(&0) { Some(0) } else { nchunks }, Some(geometry.nchunks()));
            if geometry.block_nbytes() > 0 {
                assert_eq!(geometry.nblocks() * geometry.block_nbytes(), geometry.chunk_nbytes());
            }
            for nchunk in [0, geometry.nchunks() / 2, geometry.nchunks().saturating_sub(1)] {
                if nchunk < geometry.nchunks() {
                    let (start, len) = geometry.chunk_box(&geometry.chunk_coords(nchunk));
                    let ends = start.iter().zip(&len).map(|(start, len)| start + len);
                    assert!(ends.zip(geometry.shape()).all(|(end, shape)| end <= *shape && end > 0));
                }
            }
        }
        // Use it in a frame. The frame has no chunks, whatever the shapes claim.
        let frame = FrameWriter::memory(FrameParams::new(4).metalayer(name, data));
        if let Ok(frame) = frame.and_then(FrameWriter::finish) {
            let options = options(small());
            let schunk = options.from_bytes(frame.into_bytes()).expect("a frame of our own");
            if let Ok(array) = b2nd::NdArray::from_super_chunk(schunk)
                && array.nbytes() < 1 << 16
            {
                array.all().read_bytes().expect("nothing to read");
            }
        }
    }
    text(&String::from_utf8_lossy(data));
}

fn text(text: &str) {
    if let Ok(dtype) = Dtype::parse(text) {
        let again = Dtype::parse(dtype.as_str()).expect("what a dtype is written as");
        assert_eq!(again.itemsize(), dtype.itemsize());
        assert_eq!(again.as_str(), dtype.as_str());
        for field in dtype.fields().unwrap_or_default() {
            let _ = format!("{field:?}");
        }
    }
    let _ = literal::parse(text);
}

/// The input is the value of an attribute. An accepted value must fit the memory limit.
pub(crate) fn attribute(data: &[u8]) {
    let limits = small().max_memory(1 << 24);
    match Object::decode("a", data, &limits) {
        Ok(object) => assert!(payload_len(&object, 0) <= limits.max_memory),
        Err(error) => drop(error.to_string()),
    }
}

/// Returns the memory of a value in bytes, without that of containers.
fn payload_len(object: &Object, depth: usize) -> u64 {
    assert!(depth <= 130, "nested too deep");
    let all = |items: &[Object]| items.iter().map(|item| payload_len(item, depth + 1)).sum::<u64>();
    let inside = match object {
        Object::Text(text) => text.len() as u64,
        Object::Bytes(bytes) | Object::Ext(_, bytes) => bytes.len() as u64,
        Object::List(items) | Object::Tuple(items) | Object::Set(items) => all(items),
        Object::Map(pairs) => {
            pairs.iter().map(|(key, value)| payload_len(key, depth + 1) + payload_len(value, depth + 1)).sum()
        }
        Object::Array { dtype, shape, data } => {
            assert_eq!(shape.iter().product::<u64>() * dtype.itemsize() as u64, data.len() as u64);
            data.len() as u64
        }
        _ => 0,
    };
    size_of::<Object>() as u64 + inside
}

/// The input is a trailer without its last 23 bytes: the vlmetalayers of an otherwise valid frame.
pub(crate) fn vlmetalayers(data: &[u8]) {
    let empty = FrameWriter::options().checksums(false).memory(FrameParams::new(4));
    let mut frame = empty.and_then(FrameWriter::finish).expect("a frame").into_bytes().to_vec();
    // The trailer of an empty frame has 35 bytes.
    frame.truncate(frame.len() - 35);
    frame.extend_from_slice(data);
    frame.push(0xCE);
    frame.extend((data.len() as u32 + 23).to_be_bytes());
    frame.extend([0xD8, 0]);
    frame.extend([0; 16]);
    let len = frame.len() as u64;
    frame[16..24].copy_from_slice(&len.to_be_bytes());
    let schunk: SuperChunk = match options(small()).from_bytes(frame) {
        Ok(schunk) => schunk,
        Err(error) => return drop(error.to_string()),
    };
    let vlmetalayers = schunk.vlmetalayers();
    let dparams = DParams::default().limits(small());
    assert_eq!(vlmetalayers.names().len(), vlmetalayers.iter().len());
    for (name, value) in vlmetalayers.iter().take(50) {
        assert!(value.len() <= data.len() && name.len() <= 31);
        match (vlmetalayers.chunk(name), vlmetalayers.get(name)) {
            (Ok(Some(chunk)), Ok(Some(plain))) => {
                assert!(chunk.decompress_bytes_with(&dparams).as_deref().is_ok_and(|again| again == plain));
            }
            (_, Err(error)) => drop(error.to_string()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(vlmetalayers.get("not there").expect("no value"), None);
}
