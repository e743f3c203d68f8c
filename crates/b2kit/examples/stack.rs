//! Writes a stack of pictures that need not fit into memory. They are compressed in parallel while
//! they arrive, with progress.
//!
//! Run with `cargo run --release -p b2kit --example stack`.

use std::io;
use std::ops::ControlFlow;

use b2kit::nd::Region;
use b2kit::{ArrayBuilder, Compression, Control, NdArray, source};

/// A stand-in for a camera.
struct Camera;

impl Camera {
    /// Fills `out` with the pixels of a box: some rows and columns of one or several pictures.
    fn read(&mut self, region: &Region<'_>, out: &mut [u16]) -> io::Result<()> {
        let (start, shape) = (region.start(), region.shape());
        for (row, pixels) in (0..).zip(out.chunks_mut(shape[2] as usize)) {
            let (picture, y) = (start[0] + row / shape[1], start[1] + row % shape[1]);
            for (x, pixel) in (start[2]..).zip(pixels) {
                *pixel = ((picture * 3 + y + x) % 4096) as u16;
            }
        }
        Ok(())
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("stack.b2nd");
    let mut camera = Camera;
    ArrayBuilder::new::<u16>([20, 256, 256])
        .chunks([1, 128, 256])
        .blocks([1, 32, 256])
        .compression(Compression::zstd(3)) // the item size comes from the array
        .control(Control::new().progress(|done| {
            eprint!("\r{} of {} bytes", done.nbytes, done.total);
            ControlFlow::Continue(())
        }))
        .write(&path, source::from_fn(|region, out: &mut [u16]| camera.read(region, out)))?;
    eprintln!();

    let stack = NdArray::open(&path)?;
    println!("{} bytes in {}", stack.nbytes(), std::fs::metadata(&path)?.len());
    assert_eq!(stack.slice([7, 100, 200])?.read::<Vec<u16>>()?, [321]);
    Ok(())
}
