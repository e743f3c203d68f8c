//! The arrays of the tests.

use anyhow::Result;
use b2_chunk::{CodecId, Compression, FilterSlot};
use b2_measure::SplitMix64;
use b2nd::ArrayBuilder;

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

/// The items of [`large`]: waves with noise, so that a quarter of the bytes is stored.
pub(super) fn large_items() -> Vec<f32> {
    let [n0, n1, n2] = LARGE;
    let mut noise = SplitMix64(27);
    let mut items = Vec::with_capacity((n0 * n1 * n2) as usize);
    let wave = |n: u64, by: f32| (0..n).map(|k| (k as f32 * by).sin() * 40.0).collect::<Vec<_>>();
    let waves = [wave(n0, 0.05), wave(n1, 0.03), wave(n2, 0.01)];
    for a in &waves[0] {
        for b in &waves[1] {
            items.extend(waves[2].iter().map(|c| a + b + c + (noise.next_u64() % 64) as f32 * 0.01));
        }
    }
    items
}
