//! The headers of NumPy's `.npy` files, and their dtypes.

use anyhow::{Context, Result};
use b2nd::Dtype;
use b2nd::literal::Literal;

pub mod descr;

/// The first bytes of every `.npy` file.
pub const MAGIC: &[u8; 6] = b"\x93NUMPY";

const ALIGN: usize = 64;
/// NumPy leaves room for the first dimension to grow to this many digits.
const GROWTH_DIGITS: usize = 21;

/// The header that NumPy writes for an array in C order.
///
/// # Errors
/// Fails if the dtype cannot be represented in an `.npy` file.
pub fn header_bytes(dtype: &Dtype, shape: &[u64]) -> Result<Vec<u8>> {
    let descr = descr::to_npy(dtype).with_context(|| format!("dtype {dtype}"))?;
    let shape_tuple =
        Literal::Tuple(shape.iter().map(|n| Ok(Literal::Int(i64::try_from(*n)?))).collect::<Result<_>>()?);
    let mut text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape_tuple}, }}");
    if let Some(first) = shape.first() {
        let digits = first.to_string().len();
        text.extend(std::iter::repeat_n(' ', GROWTH_DIGITS.saturating_sub(digits)));
    }
    // Like NumPy, use the oldest version that can represent the text.
    let latin1: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    let (version, mut text) = match latin1 {
        Some(text) if text.len() + 1 + ALIGN <= usize::from(u16::MAX) => (1u8, text),
        Some(text) => (2, text),
        None => (3, text.into_bytes()),
    };
    let prefix_len = MAGIC.len() + 2 + if version == 1 { 2 } else { 4 };
    // Like NumPy, add another 64 blanks to a header that is already aligned.
    let padding = ALIGN - (prefix_len + text.len() + 1) % ALIGN;
    text.extend(std::iter::repeat_n(b' ', padding));
    text.push(b'\n');
    let mut out = MAGIC.to_vec();
    out.extend([version, 0]);
    match version {
        1 => out.extend(u16::try_from(text.len())?.to_le_bytes()),
        _ => out.extend(u32::try_from(text.len())?.to_le_bytes()),
    }
    out.extend(text);
    Ok(out)
}
