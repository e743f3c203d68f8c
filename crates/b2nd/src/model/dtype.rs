//! NumPy dtype strings (docs/format/b2nd.md, section 1.1). They are parsed by a grammar, never
//! evaluated.

use std::fmt;

use crate::NdError;
use crate::model::literal::{Literal, parse as parse_literal};

/// A NumPy dtype: the type of an array's items.
///
/// Simple types are written like NumPy's `dtype.str`, structured types as the Python literal of
/// their description. The text is stored unchanged.
///
/// ```
/// use b2nd::Dtype;
/// assert_eq!(Dtype::parse("<f8")?.itemsize(), 8);
/// assert_eq!(Dtype::parse("<U3")?.itemsize(), 12);
/// let point = Dtype::parse("[('x', '<f4'), ('y', '<f4'), ('tag', '|u1', (2, 3))]")?;
/// assert_eq!(point.itemsize(), 14);
/// assert_eq!(point.fields().unwrap()[2].offset, 8);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dtype {
    text: String,
    itemsize: usize,
    kind: DtypeKind,
}

/// The kind of item that a dtype describes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DtypeKind {
    /// A number, string or time.
    Simple {
        /// NumPy's kind letter: one of `b i u f c S U V M m`.
        code: char,
        /// Whether the item is stored in big-endian byte order.
        big_endian: bool,
    },
    /// A structure of named fields.
    Struct(Vec<Field>),
    /// Bytes without a known structure.
    Opaque,
}

/// A field of a structured dtype.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// Offset from the start of the item, in bytes.
    pub offset: usize,
    /// Type of one element of the field.
    pub dtype: Dtype,
    /// Shape of the field's sub-array; empty for a single element.
    pub shape: Vec<usize>,
}

impl Field {
    /// Creates a field that holds one element at `offset` bytes from the start of the item.
    pub fn new(name: impl Into<String>, dtype: Dtype, offset: usize) -> Self {
        Self { name: name.into(), offset, dtype, shape: Vec::new() }
    }

    /// Turns the field into a sub-array of this shape.
    #[must_use]
    pub fn array(self, shape: impl Into<Vec<usize>>) -> Self {
        Self { shape: shape.into(), ..self }
    }
}

/// Largest item in bytes: an item must fit into a block.
const MAX_ITEMSIZE: usize = b2_chunk::MAX_BLOCKSIZE;
/// Longest dtype text in bytes: enough for thousands of fields, small enough to parse cheaply.
const MAX_TEXT: usize = 1 << 20;
/// Deepest nesting of structures.
const MAX_DEPTH: usize = 16;

impl Dtype {
    /// Parses a dtype string: a simple type (`<f8`, `|S4`, `<M8[ns]`), a list of fields, or a
    /// dictionary with `names` and `formats`.
    ///
    /// NumPy's names of plain numbers (`float32`, `int64`, `bool`...) are accepted too, and become
    /// the little-endian string.
    ///
    /// # Errors
    /// [`NdError::Dtype`] when the string is none of these, or describes Python objects.
    pub fn parse(text: &str) -> Result<Self, NdError> {
        let fail = |(offset, what)| NdError::Dtype { dtype: text.to_owned(), offset, what };
        if text.len() > MAX_TEXT {
            let dtype = format!("{}...", text.chars().take(64).collect::<String>());
            return Err(NdError::Dtype { dtype, offset: MAX_TEXT, what: "the text is longer than 1 MiB" });
        }
        let trimmed = text.trim();
        if trimmed.starts_with(['[', '{', '(', '\'', '"']) {
            let literal = parse_literal(trimmed).map_err(fail)?;
            let (itemsize, kind) = described(&literal, false, 0).map_err(|what| fail((0, what)))?;
            // A quoted simple type is stored without its quotes.
            let text = if let Literal::Str(inner) = &literal { inner.clone() } else { trimmed.to_owned() };
            return Ok(Self { text, itemsize, kind });
        }
        let text = named(trimmed).unwrap_or(trimmed).to_owned();
        let (itemsize, kind) = simple(&text).map_err(|what| fail((0, what)))?;
        Ok(Self { text, itemsize, kind })
    }

    /// Creates a structured dtype of `itemsize` bytes. Its fields may leave gaps and overlap.
    ///
    /// ```
    /// use b2nd::{Dtype, Field};
    /// let fields = [Field::new("x", Dtype::of::<f32>(), 0), Field::new("rgb", Dtype::of::<u8>(), 4).array([3])];
    /// let point = Dtype::structure(fields.clone(), 7)?;
    /// assert_eq!(point.as_str(), "[('x', '<f4'), ('rgb', '|u1', (3,))]");
    /// let padded = Dtype::structure(fields, 8)?;
    /// assert_eq!((padded.itemsize(), padded.fields()), (8, point.fields()));
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::Dtype`] when field names are empty or repeated, when fields do not fit the item, or when they nest
    /// too deep.
    pub fn structure(fields: impl IntoIterator<Item = Field>, itemsize: usize) -> Result<Self, NdError> {
        let fields: Vec<Field> = fields.into_iter().collect();
        let text = Literal::structure(&fields, itemsize).to_string();
        let fail = |what| Err(NdError::Dtype { dtype: text.clone(), offset: 0, what });
        let mut end = 0;
        for (n, field) in fields.iter().enumerate() {
            if field.name.is_empty() || fields.iter().take(n).any(|other| other.name == field.name) {
                return fail("field names must be unique and not empty");
            }
            if depth(&field.dtype) >= MAX_DEPTH {
                return fail("structures nest too deep");
            }
            match field_end(field) {
                Ok(after) => end = end.max(after),
                Err(what) => return fail(what),
            }
        }
        if itemsize < end || itemsize > MAX_ITEMSIZE {
            return fail("the item size does not fit the fields");
        }
        if text.len() > MAX_TEXT {
            return Err(NdError::Dtype {
                dtype: String::new(),
                offset: MAX_TEXT,
                what: "the fields need more than 1 MiB of text",
            });
        }
        Ok(Self { text, itemsize, kind: DtypeKind::Struct(fields) })
    }

    /// Creates a dtype for items of `itemsize` bytes of unknown structure, stored as `text`.
    pub fn opaque(text: impl Into<String>, itemsize: usize) -> Self {
        Self { text: text.into(), itemsize, kind: DtypeKind::Opaque }
    }

    /// Returns the size of an item in bytes.
    pub fn itemsize(&self) -> usize {
        self.itemsize
    }
    /// Returns the text that is stored in the metalayer.
    pub fn as_str(&self) -> &str {
        &self.text
    }
    /// Returns the kind of item.
    pub fn kind(&self) -> &DtypeKind {
        &self.kind
    }
    /// Returns the fields of a structured dtype, or `None` for other dtypes.
    pub fn fields(&self) -> Option<&[Field]> {
        match &self.kind {
            DtypeKind::Struct(fields) => Some(fields),
            _ => None,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Dtype {
    type Err = NdError;
    fn from_str(text: &str) -> Result<Self, NdError> {
        Self::parse(text)
    }
}

impl Literal {
    /// Builds NumPy's description of a structured dtype: a list if the fields are packed, a
    /// dictionary otherwise.
    fn structure(fields: &[Field], itemsize: usize) -> Self {
        let text = |text: &str| Self::Str(text.to_owned());
        let number = |n: usize| Self::Int(i64::try_from(n).unwrap_or(i64::MAX));
        let shape = |field: &Field| Self::Tuple(field.shape.iter().map(|&n| number(n)).collect());
        let format = |field: &Field| match parse_literal(&field.dtype.text) {
            Ok(literal) if field.dtype.fields().is_some() => literal,
            _ => text(&field.dtype.text),
        };
        let mut end = Some(0);
        let packed = fields.iter().all(|field| {
            let follows = end == Some(field.offset);
            end = field_end(field).ok();
            follows
        });
        if packed && end == Some(itemsize) {
            let field = |field: &Field| {
                let mut parts = vec![text(&field.name), format(field)];
                if !field.shape.is_empty() {
                    parts.push(shape(field));
                }
                Self::Tuple(parts)
            };
            return Self::List(fields.iter().map(field).collect());
        }
        let sub_array = |field: &Field| match &field.shape[..] {
            [] => format(field),
            _ => Self::Tuple(vec![format(field), shape(field)]),
        };
        let list = |item: &dyn Fn(&Field) -> Self| Self::List(fields.iter().map(item).collect());
        Self::Dict(vec![
            (text("names"), list(&|field| text(&field.name))),
            (text("formats"), list(&sub_array)),
            (text("offsets"), list(&|field| number(field.offset))),
            (text("itemsize"), number(itemsize)),
        ])
    }
}

/// Returns how deep the structures of a dtype nest.
fn depth(dtype: &Dtype) -> usize {
    let fields = dtype.fields().unwrap_or_default();
    fields.iter().map(|field| depth(&field.dtype).saturating_add(1)).max().unwrap_or(0)
}

type DescribedDtype = Result<(usize, DtypeKind), &'static str>;

/// Translates NumPy's name of a plain number to its dtype string.
fn named(name: &str) -> Option<&'static str> {
    Some(match name {
        "bool" => "|b1",
        "int8" => "|i1",
        "int16" => "<i2",
        "int32" => "<i4",
        "int64" => "<i8",
        "uint8" => "|u1",
        "uint16" => "<u2",
        "uint32" => "<u4",
        "uint64" => "<u8",
        "float16" => "<f2",
        "float32" => "<f4",
        "float64" => "<f8",
        "complex64" => "<c8",
        "complex128" => "<c16",
        _ => return None,
    })
}

/// Parses a simple type: an optional byte order `[<>=|]`, a kind letter, a size, and for times a
/// unit in brackets.
fn simple(text: &str) -> DescribedDtype {
    let rest = text.strip_prefix(['<', '>', '=', '|']).unwrap_or(text);
    let big_endian = text.starts_with('>');
    let mut chars = rest.chars();
    let code = chars.next().ok_or("a type letter is missing")?;
    let rest = chars.as_str();
    let (digits, unit) = rest.split_at(rest.find('[').unwrap_or(rest.len()));
    if !unit.is_empty() {
        let inner = unit.strip_prefix('[').and_then(|u| u.strip_suffix(']')).ok_or("`]` is missing")?;
        let valid = inner.chars().all(|c| c.is_ascii_alphanumeric() || c == '/') && !inner.is_empty();
        if !matches!(code, 'M' | 'm') || !valid {
            return Err("only times have a unit, such as [ns]");
        }
    }
    let size = match digits {
        "" if code == '?' => 1,
        "" if matches!(code, 'S' | 'U' | 'V') => 0,
        // The size of a pointer, so that `O` gets the error for objects below, not one about its
        // size.
        "" if matches!(code, 'M' | 'm' | 'O') => 8,
        _ if digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse::<usize>().map_err(|_| "the size is missing or too large")?
        }
        _ => return Err("the size is not a number"),
    };
    let valid = match code {
        '?' => size == 1,
        'b' => size == 1,
        'i' | 'u' => matches!(size, 1 | 2 | 4 | 8),
        'f' => matches!(size, 2 | 4 | 8 | 12 | 16),
        'c' => matches!(size, 8 | 16 | 24 | 32),
        'M' | 'm' => size == 8,
        'S' | 'U' | 'V' => true,
        'O' => return Err("Python objects cannot be stored"),
        _ => return Err("unknown type letter"),
    };
    if !valid {
        return Err("this type does not come in this size");
    }
    let itemsize = size.checked_mul(if code == 'U' { 4 } else { 1 }).filter(|&n| n <= MAX_ITEMSIZE);
    let code = if code == '?' { 'b' } else { code };
    Ok((itemsize.ok_or("the item is too large")?, DtypeKind::Simple { code, big_endian }))
}

/// Returns the item size and kind of the dtype that a literal describes. If `aligned`, structures have C's padding,
/// also where NumPy does not write their offsets: inside of a structure with `'aligned': True`.
fn described(literal: &Literal, aligned: bool, depth: usize) -> DescribedDtype {
    if depth > MAX_DEPTH {
        return Err("structures nest too deep");
    }
    match literal {
        Literal::Str(text) => simple(text),
        Literal::List(fields) => struct_from_list(fields, aligned, depth),
        Literal::Dict(items) => struct_from_dict(items, aligned, depth),
        // `('<f4', (2, 3))` is a sub-array without a name.
        Literal::Tuple(parts) => match &parts[..] {
            [base, shape] => {
                let (itemsize, _) = described(base, aligned, depth.saturating_add(1))?;
                Ok((checked_size(itemsize, &dims(shape)?)?, DtypeKind::Opaque))
            }
            _ => Err("expected a type and a shape"),
        },
        _ => Err("expected a type"),
    }
}

fn struct_from_list(items: &[Literal], aligned: bool, depth: usize) -> DescribedDtype {
    let mut fields = Vec::with_capacity(items.len());
    let mut offset = 0usize;
    for item in items {
        let Literal::Tuple(parts) = item else { return Err("a field is a tuple of name and type") };
        let (name, format, shape) = match &parts[..] {
            [name, format] => (name, format, Vec::new()),
            [name, format, shape] => (name, format, dims(shape)?),
            _ => return Err("a field is a tuple of name, type and possibly shape"),
        };
        let field = field(field_name(name)?, format, shape, Place::After(offset), aligned, depth)?;
        offset = field_end(&field)?;
        // Unnamed fields are padding.
        if !field.name.is_empty() {
            fields.push(field);
        }
    }
    let kind = DtypeKind::Struct(fields);
    Ok((if aligned { offset.next_multiple_of(alignment(&kind, offset)) } else { offset }, kind))
}

fn struct_from_dict(items: &[(Literal, Literal)], aligned: bool, depth: usize) -> DescribedDtype {
    let get =
        |key: &str| items.iter().find(|(k, _)| matches!(k, Literal::Str(s) if s == key)).map(|(_, v)| v);
    let list = |key: &str| match get(key) {
        Some(Literal::List(items) | Literal::Tuple(items)) => Some(items),
        _ => None,
    };
    let (Some(names), Some(formats)) = (list("names"), list("formats")) else {
        return Err("a dictionary dtype needs `names` and `formats`");
    };
    let offsets = list("offsets");
    let aligned = aligned || get("aligned") == Some(&Literal::Bool(true));
    if names.len() != formats.len() || offsets.is_some_and(|o| o.len() != names.len()) {
        return Err("`names`, `formats` and `offsets` differ in length");
    }
    let mut fields = Vec::with_capacity(names.len());
    let mut end = 0;
    for (i, (name, format)) in names.iter().zip(formats).enumerate() {
        let offset = match offsets.and_then(|o| o.get(i)) {
            Some(Literal::Int(n)) => Place::At(usize::try_from(*n).map_err(|_| "an offset is negative")?),
            Some(_) => return Err("an offset is not a number"),
            None => Place::After(end),
        };
        let (format, shape) = match format {
            Literal::Tuple(parts) => match &parts[..] {
                [format, shape] => (format, dims(shape)?),
                _ => (format, Vec::new()),
            },
            _ => (format, Vec::new()),
        };
        let field = field(field_name(name)?, format, shape, offset, aligned, depth)?;
        end = end.max(field_end(&field)?);
        fields.push(field);
    }
    let kind = DtypeKind::Struct(fields);
    let itemsize = match get("itemsize") {
        Some(Literal::Int(n)) => usize::try_from(*n).map_err(|_| "the item size is negative")?,
        Some(_) => return Err("the item size is not a number"),
        None if aligned => end.next_multiple_of(alignment(&kind, end)),
        None => end,
    };
    if itemsize < end || itemsize > MAX_ITEMSIZE {
        return Err("the item size does not fit the fields");
    }
    Ok((itemsize, kind))
}

/// Where a field starts.
enum Place {
    At(usize),
    After(usize),
}

fn field(
    name: String,
    format: &Literal,
    shape: Vec<usize>,
    place: Place,
    aligned: bool,
    depth: usize,
) -> Result<Field, &'static str> {
    let (itemsize, kind) = described(format, aligned, depth.saturating_add(1))?;
    let offset = match place {
        Place::After(end) if aligned => end.next_multiple_of(alignment(&kind, itemsize)),
        Place::At(offset) | Place::After(offset) => offset,
    };
    let text = match (format, &kind) {
        (Literal::Str(inner), _) => inner.clone(),
        // The text must also be right by itself.
        (_, DtypeKind::Struct(fields)) if aligned => Literal::structure(fields, itemsize).to_string(),
        _ => format.to_string(),
    };
    Ok(Field { name, offset, dtype: Dtype { text, itemsize, kind }, shape })
}

/// Returns what the offset of an aligned item is a multiple of, as in C on 64-bit machines.
fn alignment(kind: &DtypeKind, itemsize: usize) -> usize {
    let lowest_bit = |n: usize| n & n.wrapping_neg();
    match kind {
        DtypeKind::Simple { code: 'U', .. } => 4,
        DtypeKind::Simple { code: 'c', .. } => lowest_bit(itemsize / 2),
        DtypeKind::Simple { code: 'b' | 'i' | 'u' | 'f' | 'M' | 'm', .. } => lowest_bit(itemsize),
        DtypeKind::Struct(fields) => {
            fields.iter().map(|field| alignment(&field.dtype.kind, field.dtype.itemsize)).max().unwrap_or(1)
        }
        DtypeKind::Simple { .. } | DtypeKind::Opaque => 1,
    }
}

fn field_end(field: &Field) -> Result<usize, &'static str> {
    let size = checked_size(field.dtype.itemsize, &field.shape)?;
    field.offset.checked_add(size).filter(|&n| n <= MAX_ITEMSIZE).ok_or("the item is too large")
}

/// Parses a field name: a string, or a pair of title and name.
fn field_name(literal: &Literal) -> Result<String, &'static str> {
    match literal {
        Literal::Str(name) => Ok(name.clone()),
        Literal::Tuple(pair) => match &pair[..] {
            [Literal::Str(_), Literal::Str(name)] => Ok(name.clone()),
            _ => Err("a field name is a string, or a pair of title and name"),
        },
        _ => Err("a field name is a string"),
    }
}

fn dims(literal: &Literal) -> Result<Vec<usize>, &'static str> {
    let dim = |literal: &Literal| match literal {
        Literal::Int(n) => usize::try_from(*n).map_err(|_| "a length is negative"),
        _ => Err("a length is not a number"),
    };
    match literal {
        Literal::Tuple(items) | Literal::List(items) => items.iter().map(dim).collect(),
        single => Ok(vec![dim(single)?]),
    }
}

fn checked_size(itemsize: usize, shape: &[usize]) -> Result<usize, &'static str> {
    shape
        .iter()
        .try_fold(itemsize, |size, &n| size.checked_mul(n))
        .filter(|&n| n <= MAX_ITEMSIZE)
        .ok_or("the item is too large")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn itemsize(text: &str) -> usize {
        Dtype::parse(text).unwrap().itemsize()
    }

    #[test]
    fn simple_types_have_their_size() {
        for (text, size) in [
            ("<f8", 8),
            ("|u1", 1),
            ("|b1", 1),
            ("<U3", 12),
            ("|S4", 4),
            ("<M8[ns]", 8),
            ("<m8[25s]", 8),
            (">i4", 4),
            ("|V5", 5),
            ("<c16", 16),
            ("<f2", 2),
            ("?", 1),
            ("<M8", 8),
            ("<f16", 16),
            ("|S0", 0),
        ] {
            assert_eq!(itemsize(text), size, "{text}");
        }
    }

    #[test]
    fn structured_types_have_their_size() {
        assert_eq!(itemsize("[('a', '<i4'), ('b', '<f8', (2,))]"), 20);
        assert_eq!(itemsize("[(('title', 'a'), '<i4'), ('', '|V4')]"), 8);
        assert_eq!(itemsize("[('p', [('x', '<f4'), ('y', '<f4')], (3,))]"), 24);
        assert_eq!(itemsize("[(\"it's\", '<i2')]"), 2);
        let aligned = "{'names': ['a', 'b'], 'formats': ['i1', '<f8'], 'offsets': [0, 8], 'itemsize': 16, 'aligned': True}";
        assert_eq!(itemsize(aligned), 16);
        assert_eq!(Dtype::parse(aligned).unwrap().fields().unwrap()[1].offset, 8);
        // NumPy's text of `np.dtype([...], align=True)`, in which the structure `z` has padding too.
        let nested = "{'names': ['x', 'y', 'z'], 'formats': ['S3', '<U2', [('p', '?'), ('q', '<c8'), \
                      ('w', [('m', 'u1'), ('n', '<i8')], (2,))]], 'offsets': [0, 4, 16], 'itemsize': 64, 'aligned': True}";
        let dtype = Dtype::parse(nested).unwrap();
        let z = &dtype.fields().unwrap()[2].dtype;
        let offsets =
            |dtype: &Dtype| dtype.fields().unwrap().iter().map(|field| field.offset).collect::<Vec<_>>();
        assert_eq!((z.itemsize(), offsets(z)), (48, vec![0, 4, 16]));
        assert_eq!(offsets(&z.fields().unwrap()[2].dtype), [0, 8]);
        assert_eq!(Dtype::parse(z.as_str()).unwrap(), *z);
    }

    #[test]
    fn structures_are_those_of_their_text() {
        let f4 = || Dtype::of::<f32>();
        let pair = Dtype::structure([Field::new("x", f4(), 0), Field::new("it's", f4(), 4)], 8).unwrap();
        let nested = [Field::new("p", pair.clone(), 0).array([2, 3]), Field::new("n", Dtype::of::<u8>(), 48)];
        for (fields, itemsize) in [
            (nested.to_vec(), 49),
            (nested.to_vec(), 52),
            (nested.iter().rev().cloned().collect(), 49),
            (vec![Field::new("a", f4(), 0), Field::new("b", Dtype::parse("|S4").unwrap(), 0)], 4),
            (vec![Field::new("t", Dtype::parse("<M8[ns]").unwrap(), 8)], 16),
            (vec![], 3),
        ] {
            let built = Dtype::structure(fields, itemsize).unwrap();
            assert_eq!(Dtype::parse(built.as_str()).unwrap(), built);
        }
        assert!(Dtype::structure([Field::new("x", f4(), 0), Field::new("x", f4(), 4)], 8).is_err());
        assert!(Dtype::structure([Field::new("", f4(), 0)], 4).is_err());
        assert!(Dtype::structure([Field::new("x", f4(), 1)], 4).is_err());
        assert!(Dtype::structure([Field::new("x", f4(), usize::MAX)], 4).is_err());
        assert!(Dtype::structure([Field::new("x", f4(), 0).array([usize::MAX, 2])], 4).is_err());
        let deep = (0..20).try_fold(f4(), |inner, _| Dtype::structure([Field::new("x", inner, 0)], 4));
        assert!(deep.is_err());
    }

    #[test]
    fn names_become_strings() {
        assert_eq!(Dtype::parse("float32").unwrap().as_str(), "<f4");
        assert_eq!(Dtype::parse("bool").unwrap().as_str(), "|b1");
    }

    #[test]
    fn malformed_types_are_errors() {
        for text in [
            "",
            "<",
            "<x4",
            "<f3",
            "|O",
            "|O8",
            "<f4[ns]",
            "<M8[]",
            "<M8[n",
            "[('a', '<i4')",
            "[('a',)]",
            "[1]",
            "{'a': 1}",
            "__import__('os')",
            "<U99999999999999999999",
            "<U999999999",
            "[('a', '<i4', (-1,))]",
            "<i8x",
            "[('a', '|O')]",
            "{'names': ['a'], 'formats': ['<i4'], 'itemsize': 2}",
        ] {
            assert!(Dtype::parse(text).is_err(), "{text}");
        }
        for depth in [100, 100_000] {
            let deep = format!("{}'<i4'{}", "[('a', ".repeat(depth), ")]".repeat(depth));
            assert!(Dtype::parse(&deep).is_err());
            assert!(Dtype::parse(&"[".repeat(depth)).is_err());
            assert!(Dtype::parse(&"{'a':".repeat(depth)).is_err());
        }
        let long = format!("[{}]", "('a', '<i4'), ".repeat(100_000));
        let error = Dtype::parse(&long).unwrap_err().to_string();
        assert!(error.contains("longer than 1 MiB") && error.len() < 200, "{error}");
    }
}
