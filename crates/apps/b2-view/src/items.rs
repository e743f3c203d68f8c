//! Formats items as text: whole arrays as NumPy prints them, and single values.

use std::borrow::Cow;

use b2nd::{Dtype, DtypeKind, Field};

use crate::date::{NAT, TimeUnit};
use crate::extended;
use crate::float::{self, FloatFormat, Sign, Width};
use crate::text;
use crate::ticks::ValueFormat;

/// Arrays with more items are summarised: only the items at their edges are shown.
const SUMMARY_THRESHOLD: u64 = 1000;
/// Number of items to show at each end of a dimension.
pub const EDGE: usize = 3;
/// Maximum length of a line, in characters.
const LINE_WIDTH: usize = 75;

/// A single value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    Int(i128),
    Float(f64),
    Complex(f64, f64),
    Text(String),
    Bytes(Vec<u8>),
    /// A point in time, in units of the dtype.
    Date(i64),
    /// A span of time, in units of the dtype.
    Span(i64),
    /// Bytes without a known meaning.
    Void(Vec<u8>),
}

impl Value {
    /// The number to draw the value as.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Bool(bool) => Some(f64::from(u8::from(*bool))),
            Self::Int(int) => Some(*int as f64),
            Self::Float(x) => Some(*x),
            _ => None,
        }
    }
}

/// How the items of a simple dtype are read.
#[derive(Clone, Debug)]
pub struct ItemReader {
    code: char,
    big_endian: bool,
    size: usize,
    unit: Option<TimeUnit>,
}

impl ItemReader {
    pub fn new(dtype: &Dtype) -> Self {
        let (code, big_endian) = match dtype.kind() {
            DtypeKind::Simple { code, big_endian } => (*code, *big_endian),
            _ => ('V', false),
        };
        Self { code, big_endian, size: dtype.itemsize(), unit: TimeUnit::of(dtype.as_str()) }
    }

    /// Numbers of a type: `f`, `i` or `u`.
    pub fn number_of(code: char, big_endian: bool, size: usize) -> Self {
        Self { code, big_endian, size, unit: None }
    }

    /// The item in little-endian order, padded with zeros. At most 16 bytes are taken.
    fn little(&self, item: &[u8]) -> [u8; 16] {
        let mut out = [0; 16];
        for (i, to) in out.iter_mut().enumerate().take(item.len()) {
            let from = if self.big_endian { item.len() - 1 - i } else { i };
            *to = item.get(from).copied().unwrap_or(0);
        }
        out
    }

    /// The bits of an item of a usual size.
    fn word(&self, item: &[u8]) -> Option<u64> {
        let big = self.big_endian;
        if let Ok(bytes) = item.try_into() {
            return Some(if big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) });
        }
        if let Ok(bytes) = item.try_into() {
            return Some(if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }.into());
        }
        if let Ok(bytes) = item.try_into() {
            return Some(if big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }.into());
        }
        if let [byte] = item { Some((*byte).into()) } else { None }
    }

    fn float(&self, item: &[u8]) -> f64 {
        match (self.word(item), item.len()) {
            (Some(bits), 2) => half::f16::from_bits(bits as u16).to_f64(),
            (Some(bits), 4) => f64::from(f32::from_bits(bits as u32)),
            (Some(bits), 8) => f64::from_bits(bits),
            _ => float::from_extended(self.little(item)),
        }
    }

    /// Size of a float, or of one part of a complex number.
    fn width(&self) -> Width {
        match (self.code, self.size) {
            ('f', 2) => Width::Half,
            ('f', 4) | ('c', 8) => Width::Single,
            _ => Width::Double,
        }
    }

    /// The item without trailing zeros, which are not part of the value.
    fn trimmed(item: &[u8]) -> &[u8] {
        &item[..item.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)]
    }

    pub fn value(&self, item: &[u8]) -> Value {
        let bits = || u128::from_le_bytes(self.little(item));
        let signed = || {
            let unused = 128 - 8 * item.len().min(16) as u32;
            if unused == 128 { 0 } else { (bits().cast_signed() << unused) >> unused }
        };
        match self.code {
            'b' => Value::Bool(item.iter().any(|byte| *byte != 0)),
            'i' => Value::Int(signed()),
            'u' => Value::Int(bits().cast_signed()),
            'f' => Value::Float(self.float(item)),
            'c' => {
                let (real, imaginary) = item.split_at(item.len() / 2);
                Value::Complex(self.float(real), self.float(imaginary))
            }
            'S' => Value::Bytes(Self::trimmed(item).to_vec()),
            'U' => {
                let units = item.chunks_exact(4).map(|unit| u128::from_le_bytes(self.little(unit)) as u32);
                let text: String = units.map(|unit| char::from_u32(unit).unwrap_or('\u{fffd}')).collect();
                Value::Text(text.trim_end_matches('\0').to_owned())
            }
            'M' => Value::Date(signed() as i64),
            'm' => Value::Span(signed() as i64),
            _ => Value::Void(item.to_vec()),
        }
    }

    /// Absolute difference of two numbers: 0 if both are NaN, NaN if one of them is. `None` for items that are not
    /// numbers.
    pub fn distance(&self, items: [&[u8]; 2]) -> Option<f64> {
        match items.map(|item| self.value(item)) {
            [Value::Int(a), Value::Int(b)] => Some(a.abs_diff(b) as f64),
            [Value::Float(_), Value::Float(_)] => Some(self.float_distance(items)),
            [Value::Complex(..), Value::Complex(..)] => {
                let [(a, b), (c, d)] = items.map(|item| item.split_at(item.len() / 2));
                Some(self.float_distance([a, c]).hypot(self.float_distance([b, d])))
            }
            [Value::Bool(a), Value::Bool(b)] => Some(f64::from(u8::from(a != b))),
            _ => None,
        }
    }

    fn float_distance(&self, items: [&[u8]; 2]) -> f64 {
        match items.map(|item| self.float(item)) {
            [a, b] if a.is_nan() && b.is_nan() => 0.0,
            [a, b] if !a.is_nan() && !b.is_nan() && items[0].len() > 8 => {
                float::extended_distance(items.map(|item| self.little(item)))
            }
            [a, b] if a == b => 0.0,
            [a, b] => (a - b).abs(),
        }
    }

    /// Formats a number so that it reads back as the same, and other values without quotes.
    pub fn plain(&self, item: &[u8]) -> String {
        let mut out = String::new();
        self.push_plain(&mut out, item);
        out
    }

    /// Appends an item as [`plain`](Self::plain) formats it.
    pub fn push_plain(&self, out: &mut String, item: &[u8]) {
        match (self.code, self.word(item)) {
            // More digits than a double has.
            ('f', None) if self.size > 8 => out.push_str(&extended::shortest(self.little(item))),
            ('f', _) => float::push_scalar(out, self.float(item), self.width()),
            ('u', Some(bits)) => out.push_str(itoa::Buffer::new().format(bits)),
            ('i', Some(bits)) => {
                let unused = 64 - 8 * item.len() as u32;
                let int = (bits << unused).cast_signed() >> unused;
                out.push_str(itoa::Buffer::new().format(int));
            }
            _ => out.push_str(&self.other(item)),
        }
    }

    fn other(&self, item: &[u8]) -> String {
        match self.value(item) {
            Value::Bool(bool) => if bool { "True" } else { "False" }.into(),
            Value::Int(int) => int.to_string(),
            Value::Float(x) => float::scalar(x, self.width()),
            Value::Complex(re, _) => self.complex_of(re, item),
            Value::Text(text) => text,
            Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Value::Date(date) => self.unit.map_or_else(|| date.to_string(), |unit| unit.date(date)),
            Value::Span(NAT) => "NaT".into(),
            Value::Span(span) => span.to_string(),
            Value::Void(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// Formats a complex number, whose real part is `re`, with all its digits.
    fn complex_of(&self, re: f64, item: &[u8]) -> String {
        let part = |part: &[u8]| match part.len() {
            0..=8 => float::scalar(self.float(part), self.width()),
            _ => extended::shortest(self.little(part)),
        };
        let (real, imaginary) = item.split_at(item.len() / 2);
        complex_text(re, &part(real), &part(imaginary))
    }

    /// Formats a scalar like NumPy's `str`.
    fn scalar(&self, item: &[u8]) -> String {
        match self.value(item) {
            Value::Complex(re, _) => {
                let number = self.complex_of(re, item);
                if re == 0.0 && !re.is_sign_negative() { number } else { format!("({number})") }
            }
            Value::Bytes(bytes) => text::bytes(&bytes),
            Value::Span(span) => self.unit.map_or_else(|| span.to_string(), |unit| unit.span(span)),
            Value::Void(bytes) => text::void(&bytes),
            _ => self.plain(item),
        }
    }

    pub fn date(&self, value: i64) -> String {
        self.unit.map_or_else(|| value.to_string(), |unit| unit.date(value))
    }

    /// Like [`date`](Self::date), without the zeros at the end of the time of day.
    pub(crate) fn short_date(&self, value: i64) -> String {
        self.unit.map_or_else(|| value.to_string(), |unit| unit.short_date(value))
    }

    /// How the items are formatted as numbers.
    pub(crate) fn format(&self) -> ValueFormat {
        ValueFormat { time: self.unit.filter(|_| self.code == 'M') }
    }

    pub fn span(&self, value: i64) -> String {
        self.unit.map_or_else(|| value.to_string(), |unit| unit.span(value))
    }

    /// Appends the items as numbers to draw; NaN if they are not numbers.
    pub fn numbers(&self, items: &[u8], out: &mut Vec<f64>) {
        macro_rules! read {
            ($number:ty) => {{
                let parts = items.chunks_exact(size_of::<$number>());
                // All parts have this size.
                let bytes = parts.map(|part| part.try_into().unwrap_or_default());
                match self.big_endian {
                    true => out.extend(bytes.map(|bytes| <$number>::from_be_bytes(bytes) as f64)),
                    false => out.extend(bytes.map(|bytes| <$number>::from_le_bytes(bytes) as f64)),
                }
            }};
        }
        match (self.code, self.size) {
            ('f', 4) => read!(f32),
            ('f', 8) => read!(f64),
            ('i', 1) => read!(i8),
            ('i', 2) => read!(i16),
            ('i', 4) => read!(i32),
            ('i', 8) => read!(i64),
            ('u', 1) => read!(u8),
            ('u', 2) => read!(u16),
            ('u', 4) => read!(u32),
            ('u', 8) => read!(u64),
            (_, size) => {
                let items = items.chunks_exact(size.max(1));
                out.extend(items.map(|item| self.value(item).number().unwrap_or(f64::NAN)));
            }
        }
    }

    /// The smallest and the largest integer of this type; `None` for other types.
    pub fn limits(&self) -> Option<(f64, f64)> {
        let bits = (8 * self.size.min(16)) as i32;
        match self.code {
            'b' => Some((0.0, 1.0)),
            'i' => Some((-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0)),
            'u' => Some((0.0, 2f64.powi(bits) - 1.0)),
            _ => None,
        }
    }

    /// Whether items are floats.
    pub fn is_float(&self) -> bool {
        self.code == 'f'
    }

    /// The bytes of an item that is text: those of type S as they are stored, type U as UTF-8.
    pub fn as_text<'a>(&self, item: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match self.code {
            'S' => Some(Cow::Borrowed(Self::trimmed(item))),
            'U' => Some(Cow::Owned(self.plain(item).into_bytes())),
            _ => None,
        }
    }

    /// Size of an item in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    pub fn complex(&self, re: f64, im: f64) -> String {
        complex(re, im, self.width())
    }

    /// Formats the difference of two items.
    pub fn difference(&self, x: f64) -> String {
        match self.code {
            'i' | 'u' if x < 1e15 => text::thousands(x as u64),
            _ => self.number(x),
        }
    }

    /// Formats a number as a scalar of this size.
    pub fn number(&self, x: f64) -> String {
        float::scalar(x, self.width())
    }
}

/// Formats a number with all its digits.
pub fn double(x: f64) -> String {
    float::scalar(x, Width::Double)
}

fn complex(re: f64, im: f64, width: Width) -> String {
    complex_text(re, &float::scalar(re, width), &float::scalar(im, width))
}

/// Like NumPy, leaves out the `.0` of whole parts. `re` is the real part.
fn complex_text(re: f64, real: &str, imaginary: &str) -> String {
    let part = |text: &str| text.strip_suffix(".0").unwrap_or(text).to_owned();
    let imaginary = part(imaginary);
    let imaginary = if imaginary.starts_with('-') { imaginary } else { format!("+{imaginary}") };
    if re == 0.0 && !re.is_sign_negative() {
        return format!("{}j", imaginary.trim_start_matches('+'));
    }
    format!("{}{imaginary}j", part(real))
}

/// Formats an item of any dtype like NumPy's `str`.
pub fn item(dtype: &Dtype, item: &[u8]) -> String {
    match dtype.fields() {
        None => {
            let simple = ItemReader::new(dtype);
            match simple.value(item) {
                // For this NumPy type, `str` returns the same as `repr`.
                Value::Bytes(bytes) => format!("np.bytes_({})", text::bytes(&bytes)),
                _ => simple.scalar(item),
            }
        }
        Some(_) => member(dtype, item),
    }
}

/// Formats a part of a record like Python.
fn member(dtype: &Dtype, bytes: &[u8]) -> String {
    let Some(fields) = dtype.fields() else {
        let simple = ItemReader::new(dtype);
        return match simple.value(bytes) {
            Value::Text(text) => text::string(&text),
            Value::Void(bytes) => text::void(&bytes),
            Value::Complex(..) => ItemFormat::new(dtype, &[bytes]).write(bytes),
            Value::Date(_) | Value::Span(_) => simple.time(bytes),
            _ => simple.scalar(bytes),
        };
    };
    let parts: Vec<String> = fields
        .iter()
        .map(|field| {
            let size = field.dtype.itemsize().saturating_mul(field.shape.iter().product());
            match bytes.get(field.offset..field.offset.saturating_add(size)) {
                Some(bytes) => list(&field.dtype, bytes, &field.shape),
                None => "?".into(),
            }
        })
        .collect();
    format!("({}{})", parts.join(", "), if parts.len() == 1 { "," } else { "" })
}

fn list(dtype: &Dtype, bytes: &[u8], shape: &[usize]) -> String {
    let Some((&length, inner)) = shape.split_first() else { return member(dtype, bytes) };
    let below = bytes.len().checked_div(length).unwrap_or(0);
    let parts: Vec<String> =
        (0..length).map(|k| list(dtype, &bytes[k * below..(k + 1) * below], inner)).collect();
    format!("[{}]", parts.join(", "))
}

/// Whether only the edges of an array of this shape are shown.
pub fn is_summarised(shape: &[u64]) -> bool {
    shape.iter().fold(1, |n: u64, length| n.saturating_mul(*length)) > SUMMARY_THRESHOLD
        && !shape.contains(&0)
}

/// Number of positions to show along a dimension.
pub fn shown(length: u64, summarised: bool) -> u64 {
    if summarised && length > 2 * EDGE as u64 { 2 * EDGE as u64 } else { length }
}

/// Formats an array of `shape` like NumPy's `str`. `items` are those that are [`shown`], in C order.
pub fn array(dtype: &Dtype, shape: &[u64], items: &[u8]) -> String {
    let itemsize = dtype.itemsize().max(1);
    if shape.contains(&0) {
        return "[]".into();
    }
    let list: Vec<&[u8]> = items.chunks_exact(itemsize).collect();
    if shape.is_empty() {
        return list.first().map_or_else(String::new, |one| item(dtype, one));
    }
    let summarised = is_summarised(shape);
    let layout = ArrayPrinter {
        format: ItemFormat::new(dtype, &list),
        lengths: shape.iter().map(|length| shown(*length, summarised) as usize).collect(),
        cut: shape.iter().map(|length| shown(*length, summarised) < *length).collect(),
        items: list,
    };
    layout.write(0, 0, " ", LINE_WIDTH)
}

struct ArrayPrinter<'a> {
    format: ItemFormat,
    items: Vec<&'a [u8]>,
    /// Number of positions shown along each dimension.
    lengths: Vec<usize>,
    /// Whether there are more, for each dimension.
    cut: Vec<bool>,
}

impl ArrayPrinter<'_> {
    /// Formats the dimensions from `dim` on, starting at item `first` of those that are shown.
    fn write(&self, dim: usize, first: usize, indent: &str, width: usize) -> String {
        let Some(&length) = self.lengths.get(dim) else {
            return self.items.get(first).map_or_else(String::new, |item| self.format.write(item));
        };
        let below: usize = self.lengths[dim + 1..].iter().product();
        let deeper = format!("{indent} ");
        let part = |k: usize| self.write(dim + 1, first + k * below, &deeper, width - 1);
        let mut parts: Vec<String> = (0..length).map(part).collect();
        if self.cut[dim] {
            parts.insert(EDGE, "...".into());
        }
        let out = if dim + 1 == self.lengths.len() {
            lines(&parts, indent, width - 1)
        } else {
            let separator = format!("{}{indent}", "\n".repeat(self.lengths.len() - dim - 1));
            format!("{indent}{}", parts.join(&separator))
        };
        format!("[{}]", out.get(indent.len()..).unwrap_or_default())
    }
}

/// Joins the words of a row into lines of at most `width` characters.
fn lines(words: &[String], indent: &str, width: usize) -> String {
    let mut done = String::new();
    let mut line = indent.to_owned();
    for (k, word) in words.iter().enumerate() {
        let length = line.chars().count();
        if length + word.chars().count() > width && length > indent.len() {
            done.push_str(line.trim_end());
            done.push('\n');
            line = indent.to_owned();
        }
        line.push_str(word);
        if k + 1 < words.len() {
            line.push(' ');
        }
    }
    done + &line
}

/// How to format the items of an array: in columns as wide as the widest item.
enum ItemFormat {
    Bool,
    Int { simple: ItemReader, width: usize },
    Float { simple: ItemReader, format: FloatFormat },
    Complex { simple: ItemReader, real: FloatFormat, imaginary: FloatFormat },
    Time { simple: ItemReader, width: usize },
    Other { simple: ItemReader },
    Record(Vec<Column>),
}

/// A field of a record.
struct Column {
    field: Field,
    format: ItemFormat,
}

impl ItemFormat {
    fn new(dtype: &Dtype, items: &[&[u8]]) -> Self {
        if let Some(fields) = dtype.fields() {
            let column = |field: &Field| {
                let (size, count) = (field.dtype.itemsize(), field.shape.iter().product::<usize>());
                let part = |item: &&'_ [u8], k: usize| -> Option<(usize, usize)> {
                    let start = field.offset + k * size;
                    (start + size <= item.len()).then_some((start, start + size))
                };
                let list: Vec<&[u8]> = items
                    .iter()
                    .flat_map(|item| (0..count).filter_map(move |k| part(item, k).map(|(a, b)| &item[a..b])))
                    .collect();
                let format = Self::new(&field.dtype, &list);
                Column { field: field.clone(), format }
            };
            return Self::Record(fields.iter().map(column).collect());
        }
        let simple = ItemReader::new(dtype);
        let width_of = |text: &dyn Fn(&[u8]) -> Option<usize>| {
            items.iter().filter_map(|item| text(item)).max().unwrap_or(0)
        };
        match simple.code {
            'b' => Self::Bool,
            'i' | 'u' => {
                let width = width_of(&|item| Some(simple.plain(item).len()));
                Self::Int { simple, width }
            }
            'f' => {
                let numbers = items.iter().map(|item| simple.float(item));
                Self::Float { format: FloatFormat::new(numbers, simple.width(), Sign::Negative), simple }
            }
            'c' => {
                let part = |item: &&[u8], second: bool| {
                    let (real, imaginary) = item.split_at(item.len() / 2);
                    simple.float(if second { imaginary } else { real })
                };
                let real = FloatFormat::new(
                    items.iter().map(|item| part(item, false)),
                    simple.width(),
                    Sign::Negative,
                );
                let imaginary =
                    FloatFormat::new(items.iter().map(|item| part(item, true)), simple.width(), Sign::Always);
                Self::Complex { real, imaginary, simple }
            }
            'M' | 'm' => {
                let width = width_of(&|item| Some(simple.time(item).chars().count()));
                Self::Time { simple, width }
            }
            _ => Self::Other { simple },
        }
    }

    fn write(&self, item: &[u8]) -> String {
        match self {
            Self::Bool => if item.iter().any(|byte| *byte != 0) { " True" } else { "False" }.into(),
            Self::Int { simple, width } => format!("{:>width$}", simple.plain(item)),
            Self::Float { simple, format } => format.write(simple.float(item)),
            Self::Complex { simple, real, imaginary } => {
                let (re, im) = item.split_at(item.len() / 2);
                let im = imaginary.write(simple.float(im));
                let number = im.trim_end();
                format!("{}{number}j{:2$}", real.write(simple.float(re)), "", im.len() - number.len())
            }
            Self::Time { simple, width } => format!("{:>width$}", simple.time(item)),
            Self::Other { simple } => match simple.value(item) {
                Value::Text(text) => text::string(&text),
                Value::Bytes(bytes) => text::bytes(&bytes),
                _ => text::void(item),
            },
            Self::Record(columns) => {
                let fields: Vec<String> = columns.iter().map(|column| column.write(item)).collect();
                let comma = if columns.len() == 1 { "," } else { "" };
                format!("({}{comma})", fields.join(", "))
            }
        }
    }
}

impl ItemReader {
    /// Formats a time in an array.
    fn time(&self, item: &[u8]) -> String {
        match self.value(item) {
            Value::Date(NAT) | Value::Span(NAT) => "'NaT'".into(),
            Value::Date(date) => format!("'{}'", self.date(date)),
            _ => self.plain(item),
        }
    }
}

impl Column {
    fn write(&self, item: &[u8]) -> String {
        let count: usize = self.field.shape.iter().product();
        let size = self.field.dtype.itemsize();
        let start = self.field.offset;
        match item.get(start..start.saturating_add(count.saturating_mul(size))) {
            Some(bytes) => self.nested(bytes, &self.field.shape, count as u64 > SUMMARY_THRESHOLD),
            None => "?".into(),
        }
    }

    /// Formats a sub-array, with commas.
    fn nested(&self, bytes: &[u8], shape: &[usize], summarised: bool) -> String {
        let Some((&length, inner)) = shape.split_first() else { return self.format.write(bytes) };
        let below = bytes.len().checked_div(length).unwrap_or(0);
        let part = |k: usize| self.nested(&bytes[k * below..(k + 1) * below], inner, summarised);
        let parts: Vec<String> = if summarised && length > 2 * EDGE {
            let ends = (0..EDGE).map(part).chain(["...".to_owned()]);
            ends.chain((length - EDGE..length).map(part)).collect()
        } else {
            (0..length).map(part).collect()
        };
        format!("[{}]", parts.join(", "))
    }
}
