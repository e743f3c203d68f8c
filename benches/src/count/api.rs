//! Every call of b2kit in the array and frame cases, so that a change of its API affects only this file.

use b2kit::chunk::{CParams, FilterSlot};
use b2kit::frame::FrameParams;
use b2kit::{ArrayBuilder, Dtype, FrameEditor, FrameWriter, NdArray, RegionSource, Selection, SuperChunk};
pub(crate) use b2kit::{ArrayEditor, Chunk, CodecId};
use bytes::Bytes;

use crate::Error;
use crate::arrays::{BLOCKS, CHUNKS, ITEM, Part, Shape};

/// The compression in all cases: for the items of arrays, and for the chunks of frames.
fn cparams(codec: CodecId) -> Result<CParams, Error> {
    Ok(CParams::builder(ITEM).codec(codec).filters([FilterSlot::SHUFFLE]).build()?)
}

pub(crate) fn build_array(shape: Shape, plain: &[u8], codec: CodecId) -> Result<Bytes, Error> {
    let builder = ArrayBuilder::with_dtype(shape.map(|n| n as u64), Dtype::parse("<i4")?)
        .chunks(CHUNKS.map(|n| n as u32))
        .blocks(BLOCKS.map(|n| n as u32))
        .compression(cparams(codec)?);
    Ok(builder.to_bytes(plain)?)
}

pub(crate) fn open_array(frame: &Bytes) -> Result<NdArray, Error> {
    Ok(NdArray::from_bytes(frame.clone())?)
}

/// Selects a part and reads its bytes. Selecting is part of the counted work.
pub(crate) fn read(array: &NdArray, part: &Part, dst: &mut [u8]) -> Result<(), Error> {
    match part {
        Part::Axes(axes) => array.slice(axes)?.read_bytes_into(dst)?,
        Part::Points(points) => array.points(points)?.read_bytes_into(dst)?,
    }
    Ok(())
}

/// The selection along one axis of a [`Part`].
pub(crate) type Axis = Selection;

pub(crate) fn index(at: usize) -> Axis {
    (at as i64).into()
}

pub(crate) fn range(from: usize, to: usize) -> Axis {
    (from as i64..to as i64).into()
}

pub(crate) fn whole() -> Axis {
    Selection::ALL
}

/// Walks down from the last position in steps of `by`.
pub(crate) fn backwards(by: usize) -> Axis {
    Selection::ALL.step(-(by as i64))
}

pub(crate) fn list(at: &[usize]) -> Axis {
    at.into()
}

pub(crate) fn edit_array(frame: &Bytes) -> Result<ArrayEditor, Error> {
    Ok(NdArray::edit_bytes(frame.clone())?)
}

pub(crate) fn append_rows(editor: &mut ArrayEditor, rows: usize, items: &[u8]) -> Result<(), Error> {
    Ok(editor.append(0, items.with_length(rows as u64))?)
}

pub(crate) fn set(editor: &mut ArrayEditor, axes: &[Axis], items: &[u8]) -> Result<(), Error> {
    Ok(editor.set_bytes(axes, items)?)
}

pub(crate) fn commit_array(editor: &mut ArrayEditor) -> Result<(), Error> {
    editor.commit()?;
    Ok(())
}

/// Returns the items as last committed.
pub(crate) fn items_of(editor: &mut ArrayEditor) -> Result<Vec<u8>, Error> {
    Ok(editor.snapshot()?.all().read_bytes()?)
}

pub(crate) fn compress(plain: &[u8]) -> Result<Chunk, Error> {
    Ok(Chunk::compress_bytes(plain, &cparams(CodecId::LZ4)?)?)
}

pub(crate) fn write_frame(chunks: Vec<Chunk>) -> Result<Bytes, Error> {
    let mut writer = FrameWriter::memory(FrameParams::new(ITEM))?;
    for chunk in chunks {
        writer.append(chunk)?;
    }
    Ok(writer.finish()?.into_bytes())
}

pub(crate) fn open_frame(frame: &Bytes) -> Result<SuperChunk, Error> {
    Ok(SuperChunk::from_bytes(frame.clone())?)
}

pub(crate) fn chunk_of(frame: &SuperChunk, nchunk: usize) -> Result<Vec<u8>, Error> {
    Ok(frame.decompress_chunk(nchunk)?)
}

pub(crate) fn edit_frame() -> Result<FrameEditor, Error> {
    Ok(FrameEditor::memory(FrameParams::new(ITEM))?)
}

pub(crate) fn append_chunk(editor: &mut FrameEditor, chunk: Chunk) -> Result<(), Error> {
    editor.append(chunk)?;
    Ok(())
}

pub(crate) fn commit_frame(editor: &mut FrameEditor) -> Result<(), Error> {
    editor.commit()?;
    Ok(())
}

pub(crate) fn frame_of(editor: FrameEditor) -> Result<Bytes, Error> {
    editor.into_bytes().ok_or_else(|| "not in memory".into())
}
