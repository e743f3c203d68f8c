//! Compresses a buffer without a file, and decompresses it completely and in part.
//!
//! Run with `cargo run -p b2kit --example buffer`.

use std::ops::ControlFlow;

use b2kit::chunk::DParams;
use b2kit::filters::{BitShuffle, Shuffle};
use b2kit::{Chunk, ChunkRef, Compression, Control, Error};

pub(crate) fn main() -> Result<(), Error> {
    let values: Vec<f64> = (0..1_000_000).map(|i| (f64::from(i) * 1e-4).sin().round()).collect();

    let packed = b2kit::compress(&values, &Compression::lz4())?;
    let again: Vec<f64> = packed.decompress()?;
    assert_eq!(again, values);
    println!("lz4: {} bytes in {}", packed.nbytes(), packed.cbytes());

    // A slower codec and other filters. The item size comes from the values.
    let small = Chunk::compress(&values, &Compression::zstd(9).filter(Shuffle).filter(BitShuffle))?;
    println!("zstd: {} bytes in {}", small.nbytes(), small.cbytes());

    // Read a few items: only the blocks that hold them are decoded. The chunk may be borrowed
    // memory.
    let stored: &[u8] = small.as_bytes();
    let few: Vec<f64> = ChunkRef::from_slice(stored)?.get_items(500_000..500_003, &DParams::default())?;
    assert_eq!(few, values[500_000..500_003]);

    // Report progress and use at most two threads. `ControlFlow::Break` would cancel the call with
    // an error.
    let control = Control::new().threads(2).progress(|progress| {
        println!("{} of {} bytes", progress.nbytes, progress.total);
        ControlFlow::Continue(())
    });
    let again: Vec<f64> = small.decompress_with(&DParams::default().control(control))?;
    assert_eq!(again, values);
    Ok(())
}
