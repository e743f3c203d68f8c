//! How the items of a data set become items of an array.

use b2nd::{Dtype, Field, NdError, Value};

use super::datatype::{End, Member, OtherFloat, Type};
use crate::attrs;

/// The NumPy type of an item, and the conversion of the stored bytes.
#[derive(Clone, Debug)]
pub(crate) struct Items {
    pub(crate) dtype: Dtype,
    /// Dimensions of an item that is itself an array. They become dimensions of the array.
    pub(crate) dims: Vec<u64>,
    /// Bytes of an item in the file.
    pub(crate) stored: usize,
    /// Texts whose padding differs from that of NumPy.
    texts: Vec<TextPlace>,
    /// The names of enumerations, as attributes.
    pub(crate) names: Option<Value>,
    /// Whether the items are texts of variable length. The dtype is then that of an empty text.
    pub(crate) is_long_text: bool,
}

/// The position of a text, or of many texts, in an item.
#[derive(Clone, Debug, PartialEq)]
struct TextPlace {
    at: usize,
    size: usize,
    end: End,
    /// Number of repetitions and their distance in bytes, for each enclosing array, starting with the innermost.
    times: Vec<(usize, usize)>,
}

impl TextPlace {
    /// Converts the padding of the texts in an item to that of NumPy.
    fn mend(&self, item: &mut [u8]) {
        if self.end != End::Zeros
            && let Some(rest) = item.get_mut(self.at..)
        {
            self.mend_all(rest, &self.times);
        }
    }

    /// Converts the padding of the texts of an array, the first of which is at the start of `part`.
    fn mend_all(&self, part: &mut [u8], times: &[(usize, usize)]) {
        let Some(((count, step), inner)) = times.split_last() else { return self.mend_one(part) };
        if (self.size, *step, inner.is_empty()) == (1, 1, true) {
            // There may be very many texts of one byte, which need no conversion of zeros.
            if self.end == End::Spaces {
                part.iter_mut().take(*count).filter(|letter| **letter == b' ').for_each(|letter| *letter = 0);
            }
            return;
        }
        for part in part.chunks_mut((*step).max(1)).take(*count) {
            self.mend_all(part, inner);
        }
    }

    fn mend_one(&self, part: &mut [u8]) {
        let Some(text) = part.get_mut(..self.size) else { return };
        let kept = match self.end {
            End::Zeros => None,
            End::Zero => text.iter().position(|&byte| byte == 0),
            End::Spaces => {
                Some(text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last.saturating_add(1)))
            }
        };
        if let Some(rest) = kept.and_then(|kept| text.get_mut(kept..)) {
            rest.fill(0);
        }
    }
}

/// Why a type cannot be the items of an array.
#[derive(Debug)]
pub(crate) enum UnsupportedItems {
    Unsupported(String),
    Damaged,
    Array(NdError),
}

impl From<NdError> for UnsupportedItems {
    fn from(error: NdError) -> Self {
        Self::Array(error)
    }
}

impl Items {
    pub(crate) fn new(kind: &Type, offset_size: u8) -> Result<Self, UnsupportedItems> {
        // HDF5 has no types without bytes.
        let stored = kind.size(offset_size).filter(|&size| size > 0).ok_or(UnsupportedItems::Damaged)?;
        let mut dims = Vec::new();
        let mut inner = kind;
        while let Type::Array { base, dims: more } = inner {
            dims.extend_from_slice(more);
            inner = base;
        }
        if let Type::LongText { .. } = inner {
            if !dims.is_empty() {
                return Err(UnsupportedItems::Unsupported(
                    "arrays of texts of variable length as items".into(),
                ));
            }
            let dtype = Dtype::parse("<U0")?;
            return Ok(Self { dtype, dims, stored, texts: Vec::new(), names: None, is_long_text: true });
        }
        let mut texts = Vec::new();
        let dtype = dtype(inner, 0, &mut texts)?;
        // An item of an array type is several items of NumPy.
        let size = dtype.itemsize();
        let count = dims
            .iter()
            .try_fold(1_u64, |n, &length| n.checked_mul(length))
            .ok_or(UnsupportedItems::Damaged)?;
        if u64::try_from(size).ok().and_then(|size| size.checked_mul(count)) != Some(stored as u64) {
            return Err(UnsupportedItems::Damaged);
        }
        Ok(Self { dtype, dims, stored, texts, names: names(inner), is_long_text: false })
    }

    /// Items as they are stored, as opaque bytes. Only the padding of texts is converted to that of NumPy.
    pub(crate) fn as_stored(kind: &Type, offset_size: u8) -> Result<Self, UnsupportedItems> {
        let stored = kind.size(offset_size).filter(|&size| size > 0).ok_or(UnsupportedItems::Damaged)?;
        let mut texts = Vec::new();
        stored_texts(kind, 0, offset_size, &mut texts).ok_or(UnsupportedItems::Damaged)?;
        let dtype = Dtype::parse(&format!("|V{stored}"))?;
        Ok(Self { dtype, dims: Vec::new(), stored, texts, names: None, is_long_text: false })
    }

    /// Whether stored bytes are used unchanged as items.
    pub(crate) fn are_plain(&self) -> bool {
        self.texts.is_empty() && !self.is_long_text
    }

    /// Converts the padding of the texts in `bytes` to that of NumPy.
    pub(crate) fn mend(&self, bytes: &mut [u8]) {
        if self.texts.is_empty() {
            return;
        }
        for item in bytes.chunks_exact_mut(self.dtype.itemsize().max(1)) {
            self.texts.iter().for_each(|place| place.mend(item));
        }
    }
}

/// The dtype of a type at offset `at` of an item.
fn dtype(kind: &Type, at: usize, texts: &mut Vec<TextPlace>) -> Result<Dtype, UnsupportedItems> {
    let order = |is_big: bool, size: usize| match (size, is_big) {
        (1, _) => '|',
        (_, true) => '>',
        (_, false) => '<',
    };
    let text = match kind {
        Type::Int { size, is_signed, is_big } => {
            format!("{}{}{size}", order(*is_big, *size), if *is_signed { 'i' } else { 'u' })
        }
        Type::Float { size, is_big } => format!("{}f{size}", order(*is_big, *size)),
        Type::Complex { size, is_big } => format!("{}c{size}", order(*is_big, *size)),
        Type::Text { size: 0, .. } | Type::Opaque { size: 0, .. } => return Err(UnsupportedItems::Damaged),
        Type::Text { size, end, .. } => {
            if *end != End::Zeros {
                texts.push(TextPlace { at, size: *size, end: *end, times: Vec::new() });
            }
            format!("|S{size}")
        }
        Type::Opaque { size, tag } => opaque(*size, tag),
        Type::Enum { .. } if is_bool(kind) => "|b1".into(),
        Type::Enum { base, .. } => return dtype(base, at, texts),
        Type::Compound { size, fields } => {
            if let Some((size, is_big)) = complex(*size, fields) {
                return Ok(Dtype::parse(&format!("{}c{size}", order(is_big, size)))?);
            }
            let fields =
                fields.iter().map(|member| field(member, at, texts)).collect::<Result<Vec<_>, _>>()?;
            return Ok(Dtype::structure(fields, *size)?);
        }
        Type::Array { .. } => return Err(UnsupportedItems::Damaged),
        Type::LongText { .. } => {
            return Err(UnsupportedItems::Unsupported("a compound with text of variable length".into()));
        }
        Type::Sequence { .. } => {
            return Err(UnsupportedItems::Unsupported("sequences of variable length".into()));
        }
        Type::Reference { is_region, .. } => {
            let to = if *is_region { "regions" } else { "objects" };
            return Err(UnsupportedItems::Unsupported(format!("references to {to}")));
        }
        Type::StdReference { .. } => {
            return Err(UnsupportedItems::Unsupported("references to objects, regions or attributes".into()));
        }
        Type::PartialInt { size, bits, .. } => {
            return Err(UnsupportedItems::Unsupported(format!("integers of {bits} bits in {size} bytes")));
        }
        Type::OtherFloat(OtherFloat { bits, exponent: (_, exponent_bits), .. }) => {
            return Err(UnsupportedItems::Unsupported(format!(
                "floats of {bits} bits with an exponent of {exponent_bits}, which NumPy does not have"
            )));
        }
        Type::Other { what, .. } => return Err(UnsupportedItems::Unsupported(what.clone())),
    };
    Ok(Dtype::parse(&text)?)
}

/// Finds the texts in an item of any type, which is at offset `at` of the whole item. `None` if they do not fit into memory.
fn stored_texts(kind: &Type, at: usize, offset_size: u8, texts: &mut Vec<TextPlace>) -> Option<()> {
    match kind {
        Type::Text { size, end, .. } if *end != End::Zeros => {
            texts.push(TextPlace { at, size: *size, end: *end, times: Vec::new() });
        }
        Type::Compound { fields, .. } => {
            for field in fields {
                stored_texts(&field.kind, at.checked_add(field.offset)?, offset_size, texts)?;
            }
        }
        Type::Array { base, dims } => {
            let from = texts.len();
            stored_texts(base, at, offset_size, texts)?;
            let count = dims.iter().try_fold(1_u64, |n, &length| n.checked_mul(length))?;
            let (count, step) = (usize::try_from(count).ok()?, base.size(offset_size)?);
            texts.iter_mut().skip(from).for_each(|place| place.times.push((count, step)));
        }
        _ => {}
    }
    Some(())
}

fn field(member: &Member, at: usize, texts: &mut Vec<TextPlace>) -> Result<Field, UnsupportedItems> {
    let start = at.checked_add(member.offset).ok_or(UnsupportedItems::Damaged)?;
    let mut dims = Vec::new();
    let mut inner = &member.kind;
    while let Type::Array { base, dims: more } = inner {
        dims.extend_from_slice(more);
        inner = base;
    }
    let from = texts.len();
    let kind = dtype(inner, start, texts)?;
    let shape = dims.iter().map(|&length| usize::try_from(length)).collect::<Result<Vec<_>, _>>();
    let shape = shape.map_err(|_| UnsupportedItems::Damaged)?;
    let count = shape
        .iter()
        .try_fold(1_usize, |n, &length| n.checked_mul(length))
        .ok_or(UnsupportedItems::Damaged)?;
    // Each element of an array has its own texts.
    if count != 1 {
        let step = kind.itemsize();
        texts.iter_mut().skip(from).for_each(|place| place.times.push((count, step)));
    }
    Ok(Field::new(member.name.clone(), kind, member.offset).array(shape))
}

/// The dtype of opaque bytes. h5py stores times in them, with NumPy's name of the type as tag.
fn opaque(size: usize, tag: &str) -> String {
    let named = tag.strip_prefix("NUMPY:").filter(|name| {
        let time = name.trim_start_matches(['<', '>', '|']).starts_with(['M', 'm']);
        time && Dtype::parse(name).is_ok_and(|dtype| dtype.itemsize() == size)
    });
    named.map_or_else(|| format!("|V{size}"), str::to_owned)
}

/// Whether this is how h5py stores truth values.
fn is_bool(kind: &Type) -> bool {
    let Type::Enum { base, names } = kind else { return false };
    matches!(**base, Type::Int { size: 1, .. })
        && matches!(&names[..], [(no, zero), (yes, one)] if no == "FALSE" && yes == "TRUE" && zero == &[0] && one == &[1])
}

/// Whether this is how h5py stores complex numbers: their size and order.
fn complex(size: usize, fields: &[Member]) -> Option<(usize, bool)> {
    let [real, imaginary] = fields else { return None };
    let Type::Float { size: part @ (4 | 8), is_big } = real.kind else { return None };
    let fits = real.name == "r"
        && imaginary.name == "i"
        && imaginary.kind == real.kind
        && (real.offset, imaginary.offset) == (0, part)
        && part.checked_mul(2) == Some(size);
    fits.then_some((size, is_big))
}

/// The names of the values of enumerations: a map for an enumeration, a map of maps for a compound with some.
fn names(kind: &Type) -> Option<Value> {
    match kind {
        Type::Enum { base, names } if !is_bool(kind) => {
            let dtype = dtype(base, 0, &mut Vec::new()).ok()?;
            let pairs =
                names.iter().map(|(name, value)| (name.as_str().into(), attrs::value(&dtype, &[], value)));
            Some(Value::Map(pairs.collect()))
        }
        Type::Array { base, .. } => names(base),
        Type::Compound { fields, .. } => {
            let named =
                fields.iter().filter_map(|field| Some((field.name.as_str().into(), names(&field.kind)?)));
            let pairs: Vec<(Value, Value)> = named.collect();
            (!pairs.is_empty()).then_some(Value::Map(pairs))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_arrays_end_with_zeros() {
        // Two arrays of three texts each, in steps that leave gaps, after two other bytes.
        for (size, step, end) in
            [(1, 1, End::Spaces), (1, 2, End::Spaces), (2, 3, End::Spaces), (3, 3, End::Zero)]
        {
            let place = TextPlace { at: 2, size, end, times: vec![(3, step), (2, 3 * step + 1)] };
            let texts = [&b"a  "[..size], b" \0 ".get(..size).unwrap(), b"   ".get(..size).unwrap()];
            let mut item = vec![b' '; 2 + 2 * (3 * step + 1)];
            let mut expected = item.clone();
            for (array, (n, text)) in
                (0..2).flat_map(|array| texts.iter().enumerate().map(move |text| (array, text)))
            {
                let at = 2 + array * (3 * step + 1) + n * step;
                item[at..at + size].copy_from_slice(text);
                let kept = match end {
                    End::Spaces => text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1),
                    _ => text.iter().position(|&byte| byte == 0).unwrap_or(size),
                };
                expected[at..at + size].fill(0);
                expected[at..at + kept].copy_from_slice(&text[..kept]);
            }
            place.mend(&mut item);
            assert_eq!(item, expected, "{size} {step}");
        }
    }
}
