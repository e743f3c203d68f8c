//! Codecs and filters that take items as numbers.

use b2_chunk::{CParams, FilterId};

use crate::NdError;
use crate::model::dtype::{Dtype, DtypeKind};

impl Dtype {
    /// Checks that items of this dtype are numbers of the kind that codec and filters assume.
    ///
    /// `trunc_prec`, `ndmean` and zfp take items as little-endian floats of 4 or 8 bytes, `int_trunc` as little-endian
    /// integers. Other items would be changed arbitrarily, not rounded. Items without a known type are not checked.
    ///
    /// ```
    /// use b2_chunk::{Compression, FilterId, FilterSlot};
    /// use b2nd::Dtype;
    /// let cut = FilterSlot::new(FilterId::TRUNC_PREC, 10);
    /// let cparams = Compression::lz4().filter(cut).itemsize(4).build()?;
    /// assert!(Dtype::parse("<f4")?.check_compression(&cparams).is_ok());
    /// assert!(Dtype::parse(">f4")?.check_compression(&cparams).is_err());
    /// assert!(Dtype::parse("<i4")?.check_compression(&cparams).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::Argument`] names the codec or filter, and what it takes.
    pub fn check_compression(&self, cparams: &CParams) -> Result<(), NdError> {
        let codec = cparams.codec();
        if cparams.plugins().codec_properties(codec).takes_floats {
            self.check_items(&codec, &FLOATS)?;
        }
        for slot in cparams.filters() {
            match slot.id {
                FilterId::TRUNC_PREC | FilterId::NDMEAN => self.check_items(&slot.id, &FLOATS)?,
                FilterId::INT_TRUNC => self.check_items(&slot.id, &INTEGERS)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn check_items(&self, part: &dyn std::fmt::Display, numbers: &Numbers) -> Result<(), NdError> {
        let itemsize = self.itemsize();
        let (is_number, is_big) = match *self.kind() {
            DtypeKind::Opaque | DtypeKind::Simple { code: 'V', .. } => return Ok(()),
            DtypeKind::Simple { code, big_endian } => (
                numbers.codes.contains(&code) && numbers.sizes.contains(&itemsize),
                big_endian && itemsize > 1,
            ),
            DtypeKind::Struct(_) => (false, false),
        };
        let (what, sizes) = (numbers.what, numbers.named);
        match (is_number, is_big) {
            (true, false) => Ok(()),
            (true, true) => Err(NdError::argument(format!(
                "{part} takes little-endian {what}, the dtype is {self}: convert the items first"
            ))),
            (false, _) => {
                Err(NdError::argument(format!("{part} takes {what} of {sizes} bytes, the dtype is {self}")))
            }
        }
    }
}

/// The items that a codec or filter takes.
struct Numbers {
    codes: &'static [char],
    sizes: &'static [usize],
    what: &'static str,
    named: &'static str,
}

const FLOATS: Numbers = Numbers { codes: &['f'], sizes: &[4, 8], what: "floats", named: "4 or 8" };
const INTEGERS: Numbers =
    Numbers { codes: &['i', 'u', 'M', 'm'], sizes: &[1, 2, 4, 8], what: "integers", named: "1, 2, 4 or 8" };
