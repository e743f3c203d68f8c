//! The arrays of the tests.

use std::path::Path;

use anyhow::Result;
use b2_chunk::{CodecId, Compression, FilterSlot};
use b2_frame::{FrameParams, FrameWriter, SuperChunk};
use b2_measure::SplitMix64;
use b2_store::{Layout, StoreWriter};
use b2nd::{ArrayBuilder, Dtype};

/// The sea surface temperature of a year, as a file.
pub(super) fn temperature() -> Result<Vec<u8>> {
    let (shape, items) = temperature_items()?;
    let compression = Compression::new().codec(CodecId::ZSTD).level(5).filters([FilterSlot::SHUFFLE]);
    let builder =
        ArrayBuilder::new::<f32>(shape).chunks([3, 90, 180]).blocks([1, 45, 90]).compression(compression);
    Ok(builder.to_bytes(&items[..])?.to_vec())
}

/// Its shape and items.
pub(super) fn temperature_items() -> Result<([u64; 3], Vec<f32>)> {
    let path = crate::root::testdata().join("arrays").join("sea_surface_temperature.npy");
    let bytes = std::fs::read(path)?;
    let shape = [12, 90, 180];
    let start = bytes.len() - 4 * 12 * 90 * 180;
    Ok((
        shape,
        bytes[start..]
            .chunks_exact(4)
            .map(|item| f32::from_le_bytes([item[0], item[1], item[2], item[3]]))
            .collect(),
    ))
}

/// The shape of [`large`].
pub(super) const LARGE: [u64; 3] = [400, 400, 256];

/// An array of 164 MB in 32 chunks, of which most are stored.
pub(super) fn large(codec: CodecId) -> Result<Vec<u8>> {
    let compression = Compression::new().codec(codec).level(5).filters([FilterSlot::SHUFFLE]);
    let builder =
        ArrayBuilder::new::<f32>(LARGE).chunks([100, 100, 128]).blocks([25, 25, 32]).compression(compression);
    Ok(builder.to_bytes(&large_items()[..])?.to_vec())
}

/// The items of [`large`]: waves with noise, of which about 40 MB are stored.
pub(super) fn large_items() -> Vec<f32> {
    let [n0, n1, n2] = LARGE;
    let mut noise = SplitMix64(27);
    let mut items = Vec::with_capacity((n0 * n1 * n2) as usize);
    let wave = |n: u64, by: f32| (0..n).map(|k| (k as f32 * by).sin() * 40.0).collect::<Vec<_>>();
    let waves = [wave(n0, 0.05), wave(n1, 0.03), wave(n2, 0.01)];
    for a in &waves[0] {
        for b in &waves[1] {
            items
                .extend(waves[2].iter().map(|c| (a + b + c).round() + (noise.next_u64() % 64) as f32 / 64.0));
        }
    }
    items
}

/// An array of 168 MB whose rows are chunks, for measuring.
pub(super) fn rows(codec: CodecId) -> Result<Vec<u8>> {
    let compression = Compression::new().codec(codec).level(5).filters([FilterSlot::SHUFFLE]);
    let items = large_items();
    let (wide, high) = (1 << 20, items.len() >> 20);
    let builder = ArrayBuilder::new::<f32>([high as u64, wide]).chunks([1, wide as u32]).blocks([1, 1 << 16]);
    Ok(builder.compression(compression).to_bytes(&items[..high << 20])?.to_vec())
}

/// An array of one chunk shape that the library chooses.
pub(super) fn array<T: b2nd::Element, const N: usize>(shape: [u64; N], items: &[T]) -> Result<Vec<u8>> {
    Ok(ArrayBuilder::new::<T>(shape).to_bytes(items)?.to_vec())
}

/// An array in chunks of this shape.
pub(super) fn cut(shape: [u64; 2], chunks: [u32; 2], items: &[f32]) -> Result<Vec<u8>> {
    Ok(ArrayBuilder::new::<f32>(shape).chunks(chunks).blocks(chunks).to_bytes(items)?.to_vec())
}

/// A super-chunk that is no array.
pub(super) fn frame(items: &[u32]) -> Result<Vec<u8>> {
    let compression = Compression::new().itemsize(4).build()?;
    let mut writer = FrameWriter::memory(FrameParams::from_cparams(&compression))?;
    for part in items.chunks(50_000) {
        let bytes: Vec<u8> = part.iter().flat_map(|item| item.to_le_bytes()).collect();
        writer.append(b2_chunk::Chunk::compress_bytes(&bytes, &compression)?)?;
    }
    Ok(writer.finish()?.into_bytes().to_vec())
}

/// Records of a name and a speed, from 0 to 99.5.
pub(super) fn records() -> Result<Vec<u8>> {
    let dtype = Dtype::parse("[('name', '<U4'), ('speed', '<f8')]")?;
    let items: Vec<u8> = (0..200)
        .flat_map(|k| {
            [vec![b'a', 0, 0, 0], vec![0; 12], (f64::from(k) / 2.0).to_le_bytes().to_vec()].concat()
        })
        .collect();
    Ok(ArrayBuilder::of_dtype([10, 20], dtype).to_bytes(&items[..])?.to_vec())
}

/// The sea surface temperature as a sparse frame, a folder.
pub(super) fn sparse(path: &Path) -> Result<()> {
    let (shape, items) = temperature_items()?;
    let options = FrameWriter::options().storage(b2_frame::Storage::Sparse);
    let builder = ArrayBuilder::new::<f32>(shape).chunks([3, 90, 180]).blocks([1, 45, 90]);
    Ok(builder.write_options(options).write(path, &items[..])?)
}

/// A store of two arrays.
pub(super) fn store(path: &Path, layout: Layout) -> Result<()> {
    let mut writer = StoreWriter::create(path, layout, true)?;
    writer.put("/ocean/sst", &SuperChunk::from_bytes(temperature()?)?)?;
    let depth: Vec<f32> = (0..64).map(|k| k as f32).collect();
    writer.put("/depth", &SuperChunk::from_bytes(array([64], &depth)?)?)?;
    Ok(writer.finish()?)
}

/// A text in MessagePack.
fn packed(text: &str) -> Vec<u8> {
    [vec![0xd9, text.len() as u8], text.as_bytes().to_vec()].concat()
}

/// The sea surface temperature with names of dimensions, and arrays with coordinates of these names: days, latitudes from
/// 89 down to -89, and longitudes from 1 to 359, both in steps of 2.
pub(super) fn with_coordinates() -> Result<Vec<(&'static str, Vec<u8>)>> {
    let (shape, items) = temperature_items()?;
    let names = [vec![0x93], packed("time"), packed("lat"), packed("lon")].concat();
    let sst = ArrayBuilder::new::<f32>(shape).vlmetalayer("_ARRAY_DIMENSIONS", names).to_bytes(&items[..])?;
    let degrees = |first: f64, step: f64, len: u32| {
        let items: Vec<f64> = (0..len).map(|k| first + step * f64::from(k)).collect();
        ArrayBuilder::new::<f64>([u64::from(len)])
            .vlmetalayer("units", packed("degrees"))
            .to_bytes(&items[..])
    };
    let days: Vec<u8> = (0..12_i64).flat_map(|k| (18262 + 30 * k).to_le_bytes()).collect();
    let time = ArrayBuilder::of_dtype([12], Dtype::parse("<M8[D]")?).to_bytes(&days[..])?;
    Ok(vec![
        ("sst", sst.to_vec()),
        ("lat", degrees(89.0, -2.0, 90)?.to_vec()),
        ("lon", degrees(1.0, 2.0, 180)?.to_vec()),
        ("time", time.to_vec()),
    ])
}

/// Arrays as a store, in a group.
pub(super) fn group(path: &Path, layout: Layout, arrays: &[(&str, Vec<u8>)]) -> Result<()> {
    let mut writer = StoreWriter::create(path, layout, true)?;
    for (name, bytes) in arrays {
        writer.put(&format!("/ocean/{name}"), &SuperChunk::from_bytes(bytes.clone())?)?;
    }
    Ok(writer.finish()?)
}

/// An array with this text wherever there can be one.
pub(super) fn evil(text: &str) -> Result<Vec<u8>> {
    let items: Vec<f32> = (0..100).map(|k| k as f32).collect();
    let builder = ArrayBuilder::new::<f32>([10, 10])
        .vlmetalayer("<b onclick=x>name</b>", packed(text))
        .vlmetalayer("long_name", packed(text))
        .vlmetalayer("_ARRAY_DIMENSIONS", [vec![0x92], packed(text), packed("<b>x</b>")].concat());
    Ok(builder.to_bytes(&items[..])?.to_vec())
}

/// A store with a key that looks like HTML.
pub(super) fn evil_store(path: &Path) -> Result<()> {
    let mut writer = StoreWriter::create(path, Layout::Frame, true)?;
    let items: Vec<f32> = (0..100).map(|k| k as f32).collect();
    writer.put("/<b onclick=x>", &SuperChunk::from_bytes(array([10, 10], &items)?)?)?;
    Ok(writer.finish()?)
}
