//! The example of the repository's README: writes an array from `ndarray` and reads a window of it.
//!
//! Run with `cargo run -p b2kit --features ndarray --example window`.

use b2kit::{NdArray, range};
use ndarray::{Array2, s};

pub(crate) fn main() -> Result<(), b2kit::Error> {
    let path = std::env::temp_dir().join(format!("b2kit-window-{}.b2nd", std::process::id()));
    let field = Array2::from_shape_fn((1000, 2000), |(i, j)| (i as f32).sin() + j as f32);
    NdArray::write(&path, &field)?;

    let array = NdArray::open(&path)?; // reads header, index and trailer
    let window: Array2<f32> = array.slice(s![10..20, ..;4])?.read()?; // decodes only the blocks of the window
    assert_eq!(window, field.slice(s![10..20, ..;4]));
    // Select the same window without a macro.
    assert_eq!(window, array.slice((10..20, range(..).step(4)))?.read::<Array2<f32>>()?);
    println!("{:?}, first item {}", window.shape(), window[[0, 0]]);
    std::fs::remove_file(&path).map_err(|e| b2kit::nd::NdError::Source(e).into())
}
