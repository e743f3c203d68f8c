//! Reads into existing memory: values, bytes with strides, and uninitialised memory.
//!
//! Run with `cargo run -p b2kit --example memory`.

use std::mem::MaybeUninit;

use b2kit::{ArrayBuilder, NdArray, range};

pub(crate) fn main() -> Result<(), b2kit::Error> {
    let values: Vec<u32> = (0..600).collect();
    let frame = ArrayBuilder::new::<u32>([20, 30]).chunks([8, 16]).to_bytes(values)?;
    let array = NdArray::from_bytes(frame)?;
    // Like a[2:4, ::-10] in NumPy. The slice owns what it needs, so it can be kept or sent to
    // another thread.
    let slice = array.slice((2..4, range(..).step(-10)))?;
    assert_eq!(slice.shape(), [2, 3]);

    // Read values. The length is checked, and nothing is allocated.
    let mut view = [0u32; 6];
    slice.read_into(&mut view)?;
    assert_eq!(view, [89, 79, 69, 119, 109, 99]);

    // Read columns first, eight bytes apart, as a Python binding may have to.
    let mut buffer = [0; 44];
    slice.read_bytes_strided(&mut buffer, &[8, 16])?;
    assert_eq!(buffer.chunks(8).map(|item| item[0]).collect::<Vec<_>>(), [89, 119, 79, 109, 69, 99]);

    // Read into uninitialised memory.
    let mut memory = vec![MaybeUninit::uninit(); slice.nbytes() as usize];
    let bytes = slice.read_to(&mut memory[..])?;
    assert_eq!(bytes[..4], 89u32.to_le_bytes());
    Ok(())
}
