//! The example of the repository's README: write an array from `ndarray`, read a window of it back.
//!
//! Run with `cargo run -p b2kit --features ndarray --example window`.

use b2kit::{ArrayBuilder, FromNdarray, NdArray, SliceDim};
use ndarray::Array2;

fn main() -> Result<(), b2kit::Error> {
    let dir = std::env::temp_dir().join(format!("b2kit-window-{}.b2nd", std::process::id()));
    let field = Array2::from_shape_fn((1000, 2000), |(i, j)| (i as f32).sin() + j as f32);
    ArrayBuilder::for_ndarray(&field)?.create(&dir, &mut FromNdarray::new(&field))?;

    let array = NdArray::open(&dir)?; // reads header, index and trailer
    let window = array.slice([SliceDim::range(10..20), SliceDim::ALL.step_by(4)])?;
    let window = window.to_ndarray::<f32>()?; // reads and decodes the blocks it touches
    println!("{:?}, first item {}", window.shape(), window[[0, 0]]);
    assert_eq!(window[[3, 5]], field[[13, 20]]);
    std::fs::remove_file(&dir).map_err(|e| b2kit::NdError::Source(e).into())
}
