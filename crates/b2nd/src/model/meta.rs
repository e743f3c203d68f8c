//! The array metalayer (docs/format/b2nd.md, section 1).
//!
//! ```text
//! 97 | version | nd | 90+nd, nd x (D3 i64 shape) | 90+nd, nd x (D2 i32 chunkshape)
//!    | 90+nd, nd x (D2 i32 blockshape) | dtype format | DB u32 len, dtype
//! ```

use b2_msgpack::{Reader, Writer};

use crate::NdError;
use crate::model::geometry::{GeometryPart, MAX_DIM};

/// Name of the metalayer.
pub const METALAYER: &str = "b2nd";
/// Name of the metalayer's predecessor, which has no dtype.
pub const OLD_METALAYER: &str = "caterva";

/// The array metalayer as stored. Its shapes need not be consistent with each other or with the
/// frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayMeta {
    /// Length of each dimension, in items.
    pub shape: Vec<u64>,
    /// Length of a chunk along each dimension, in items.
    pub chunkshape: Vec<u32>,
    /// Length of a block along each dimension, in items.
    pub blockshape: Vec<u32>,
    /// The notation of `dtype`: 0 is NumPy's, other values are not defined yet.
    pub dtype_format: u8,
    /// The dtype as stored, which may be any bytes; `None` in the old metalayer.
    pub dtype: Option<Vec<u8>>,
}

impl ArrayMeta {
    /// Parses the metalayer `name` (`b2nd` or `caterva`).
    ///
    /// # Errors
    /// [`NdError::Meta`] when a part is missing or is another msgpack item than the format prescribes,
    /// [`NdError::Contradiction`] when a number is out of range.
    pub fn parse(name: &'static str, bytes: &[u8]) -> Result<Self, NdError> {
        let field = |field| move |source| NdError::Meta { name, field, source };
        let mut r = Reader::new(bytes);
        let parts = r.fixarray().map_err(field("number of parts"))?;
        // The version is ignored, as in C: only 0 exists.
        r.fixint().map_err(field("version"))?;
        let nd = r.fixint().map_err(field("number of dimensions"))?;
        if usize::from(nd) > MAX_DIM {
            let (field, offset) = ("number of dimensions", 2);
            let what = format!("found {nd}, expected 0 to {MAX_DIM}");
            return Err(NdError::Contradiction { name, field, offset, what });
        }
        let array = array_marker(nd);
        let mut numbers = |part: &'static str, wide: bool| -> Result<Vec<u64>, NdError> {
            r.marker(array).map_err(field(part))?;
            let mut numbers = Vec::with_capacity(nd.into());
            for _ in 0..nd {
                let n = match wide {
                    true => r.number::<i64>(),
                    false => r.number::<i32>().map(i64::from),
                };
                let n = n.map_err(field(part))?;
                numbers.push(u64::try_from(n).map_err(|_| NdError::Contradiction {
                    name,
                    field: part,
                    offset: r.position().saturating_sub(if wide { 8 } else { 4 }),
                    what: format!("found {n}, expected 0 or more"),
                })?);
            }
            Ok(numbers)
        };
        let shape = numbers("shape", true)?;
        let chunkshape = numbers("chunkshape", false)?;
        let blockshape = numbers("blockshape", false)?;
        // These numbers were read as 32 bits, so they fit.
        let narrow =
            |numbers: Vec<u64>| numbers.into_iter().map(|n| u32::try_from(n).unwrap_or(u32::MAX)).collect();
        let (mut dtype_format, mut dtype) = (0, None);
        if parts >= 7 || (parts != 5 && !r.is_empty()) {
            dtype_format = r.fixint().map_err(field("dtype format"))?;
            dtype = Some(r.str32().map_err(field("dtype"))?.to_vec());
        }
        Ok(Self {
            shape,
            chunkshape: narrow(chunkshape),
            blockshape: narrow(blockshape),
            dtype_format,
            dtype,
        })
    }

    /// Returns the offset of a number of the geometry in the metalayer, in bytes.
    pub(crate) fn offset_of(&self, part: GeometryPart, dim: usize) -> usize {
        let nd = self.shape.len();
        // Each list and each number has a one-byte marker in front.
        let (list, width) = match part {
            GeometryPart::Dimensions => return 2,
            GeometryPart::Shape => (3, 9),
            GeometryPart::Chunkshape => (nd.saturating_mul(9).saturating_add(4), 5),
            GeometryPart::Blockshape => (nd.saturating_mul(14).saturating_add(5), 5),
        };
        dim.saturating_mul(width).saturating_add(list).saturating_add(2)
    }

    /// Serializes the metalayer `b2nd`. Its length depends only on the number of dimensions and on
    /// the dtype.
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "writes what was checked")]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::new();
        let nd = self.shape.len() as u8;
        w.fixarray(7);
        w.fixint(0);
        w.fixint(nd);
        w.raw(&[array_marker(nd)]);
        for &n in &self.shape {
            w.number(n as i64);
        }
        for shape in [&self.chunkshape, &self.blockshape] {
            w.raw(&[array_marker(nd)]);
            for &n in shape {
                w.number(n as i32);
            }
        }
        w.fixint(self.dtype_format);
        w.str32(self.dtype.as_deref().unwrap_or(b"|u1"));
        w.into_bytes()
    }
}

/// Returns the marker of an array of `nd` numbers. For 16 dimensions this is A0, which is not an
/// array in msgpack, but C writes and reads it.
fn array_marker(nd: u8) -> u8 {
    nd.saturating_add(0x90)
}
