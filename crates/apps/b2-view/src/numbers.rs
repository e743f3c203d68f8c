//! Converts items to numbers for drawing.

use std::ops::Range;

use b2nd::{Dtype, DtypeKind};

use crate::colours;
use crate::items::{ItemReader, Value};
use crate::ticks::ValueFormat;

/// Why items cannot be converted to numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoNumbers {
    /// A field was requested, but there are none.
    NoFields,
    /// They are records with these fields, of which one must be chosen.
    Records(Vec<String>),
    /// There is no such field; these exist.
    NoSuchField(Vec<String>),
    /// The field is an array in each record.
    Array,
    /// They have this type, which cannot be drawn.
    Other(String),
}

/// How the items of a file are converted to numbers.
#[derive(Clone, Debug)]
pub struct Numbers {
    simple: ItemReader,
    code: char,
    /// Size of an item, and the position of the number in it.
    itemsize: usize,
    part: Range<usize>,
    /// Numbers that represent missing values.
    fills: Vec<f64>,
    /// Numbers in this range are not missing, however large.
    known: colours::ColourRange,
}

impl Numbers {
    /// Creates it for items, or for a field of records.
    ///
    /// # Errors
    /// When they are not numbers, or when there is no such field.
    pub fn new(dtype: &Dtype, field: Option<&str>, fills: Vec<f64>) -> Result<Self, NoNumbers> {
        let (part, of) = match (dtype.fields(), field) {
            (None, None) => (0..dtype.itemsize(), dtype),
            (None, Some(_)) => return Err(NoNumbers::NoFields),
            (Some(fields), name) => {
                let names = || fields.iter().map(|field| field.name.to_string()).collect();
                let Some(name) = name else { return Err(NoNumbers::Records(names())) };
                let Some(field) = fields.iter().find(|field| field.name == name) else {
                    return Err(NoNumbers::NoSuchField(names()));
                };
                if !field.shape.is_empty() {
                    return Err(NoNumbers::Array);
                }
                (field.offset..field.offset.saturating_add(field.dtype.itemsize()), &field.dtype)
            }
        };
        let code = match of.kind() {
            DtypeKind::Simple { code, .. } => *code,
            _ => 'V',
        };
        if !matches!(code, 'b' | 'i' | 'u' | 'f' | 'c' | 'M' | 'm') || part.end > dtype.itemsize() {
            return Err(NoNumbers::Other(of.as_str().to_owned()));
        }
        Ok(Self {
            simple: ItemReader::new(of),
            code,
            itemsize: dtype.itemsize(),
            part,
            fills,
            known: colours::ColourRange { low: 0.0, high: 0.0 },
        })
    }

    /// Treats numbers in this range as valid, however large.
    #[must_use]
    pub fn known(self, known: colours::ColourRange) -> Self {
        Self { known, ..self }
    }

    /// Whether a number represents a missing value.
    pub fn is_missing(&self, x: f64) -> bool {
        x.is_nan() || (self.is_float() && self.known.is_missing(x))
    }

    /// The smallest and the largest integer among the items, ignoring missing ones.
    pub fn integers(&self, items: &[u8]) -> Option<(i128, i128)> {
        let int = |item: &[u8]| match self.simple.value(item.get(self.part.clone())?) {
            Value::Int(int) if !self.fills.contains(&(int as f64)) => Some(int),
            _ => None,
        };
        let ints = items.chunks_exact(self.itemsize.max(1)).filter_map(int);
        ints.fold(None, |ends, x| {
            let (low, high) = ends.unwrap_or((x, x));
            Some((low.min(x), high.max(x)))
        })
    }

    /// How the numbers are formatted.
    pub fn format(&self) -> ValueFormat {
        self.simple.format()
    }

    /// Size of an item, in bytes.
    pub fn itemsize(&self) -> usize {
        self.itemsize
    }

    /// Whether they are floats, or complex.
    pub fn is_float(&self) -> bool {
        matches!(self.code, 'f' | 'c')
    }

    /// Whether items are complex; their absolute values are used.
    pub fn is_complex(&self) -> bool {
        self.code == 'c'
    }

    /// Appends the numbers of whole items. Missing ones are NaN.
    pub fn take(&self, items: &[u8], out: &mut Vec<f64>) {
        let from = out.len();
        match self.code {
            'b' | 'i' | 'u' | 'f' if self.part.len() == self.itemsize => self.simple.numbers(items, out),
            _ => out.extend(items.chunks_exact(self.itemsize.max(1)).map(|item| self.number(item))),
        }
        for fill in &self.fills {
            // A fill value is stored with the precision of its own type.
            let single = self.code == 'f' && self.part.len() <= 4;
            let same = |x: f64| x == *fill || (single && x as f32 == *fill as f32);
            out[from..].iter_mut().filter(|x| same(**x)).for_each(|x| *x = f64::NAN);
        }
    }

    fn number(&self, item: &[u8]) -> f64 {
        let value = self.simple.value(item.get(self.part.clone()).unwrap_or_default());
        match value {
            Value::Complex(re, im) => re.hypot(im),
            Value::Date(i64::MIN) | Value::Span(i64::MIN) => f64::NAN,
            Value::Date(time) | Value::Span(time) => time as f64,
            value => value.number().unwrap_or(f64::NAN),
        }
    }
}
