//! Writes values as lines of text for other programs: CSV, or columns separated by blanks.

use std::borrow::Cow;
use std::{iter, slice};

use anyhow::{Result, ensure};
use b2kit::Dtype;

use b2_view::items::ItemReader;
use b2_view::text::count;

/// Writes items as text, in C order.
pub(crate) struct Lines {
    /// The values that make up an item: where each of them is, and how to read it.
    columns: Vec<Column>,
    itemsize: usize,
    csv: bool,
    /// Number of items per line, and per plane, which is followed by an empty line.
    row: u64,
    plane: u64,
    total: u64,
}

struct Column {
    name: String,
    offset: usize,
    simple: ItemReader,
}

/// Maximum number of values in a record.
const MAX_COLUMNS: usize = 1 << 16;

impl Lines {
    /// Creates a writer for an array of this shape.
    ///
    /// # Errors
    /// Fails if there are too many dimensions for CSV, or if an item has too many values.
    pub(crate) fn new(dtype: &Dtype, shape: &[u64], csv: bool) -> Result<Self> {
        let mut columns = Vec::new();
        leaves(dtype, "", 0, &mut columns)?;
        let is_record = dtype.fields().is_some();
        let most = if is_record { 1 } else { 2 };
        ensure!(
            !csv || shape.len() <= most,
            "--csv: {}, a table has {}; --slice picks them",
            count(shape.len() as u64, "dimension"),
            if is_record { "one of records" } else { "two" }
        );
        // One value or record per line, unless the array has rows of values.
        let row = if is_record || shape.len() < 2 { 1 } else { shape.last().copied().unwrap_or(1) };
        let height = shape.len().checked_sub(2).and_then(|dim| shape.get(dim)).copied().unwrap_or(1);
        let plane = if shape.len() > 2 && !is_record { row.saturating_mul(height) } else { u64::MAX };
        let total = shape.iter().fold(1, |n: u64, length| n.saturating_mul(*length));
        let (row, plane) = (row.max(1), plane.max(1));
        Ok(Self { columns, itemsize: dtype.itemsize().max(1), csv, row, plane, total })
    }

    /// The header line of CSV, with the names of the fields.
    pub(crate) fn head(&self) -> Vec<u8> {
        let named = self.csv && self.columns.iter().any(|column| !column.name.is_empty());
        if !named {
            return Vec::new();
        }
        let names: Vec<_> = self.columns.iter().map(|column| quoted(column.name.as_bytes())).collect();
        [&names.join(&b","[..])[..], b"\n"].concat()
    }

    /// Number of items to convert at a time: text is several times as large as the values.
    pub(crate) fn batch(&self) -> usize {
        ((1 << 15) / self.columns.len().max(1)).max(1)
    }

    /// Converts items to text, of which the first is number `first` of all.
    pub(crate) fn write(&self, first: u64, items: &[u8], out: &mut Vec<u8>) {
        let mut text = String::new();
        let separator = if self.csv { ',' } else { ' ' };
        let mut done = first;
        let (mut line, mut plane) = (first % self.row, first % self.plane);
        for item in items.chunks_exact(self.itemsize) {
            for (k, column) in self.columns.iter().enumerate() {
                if k > 0 {
                    text.push(separator);
                }
                let end = column.offset.saturating_add(column.simple.size());
                let Some(bytes) = item.get(column.offset..end) else { continue };
                match column.simple.as_text(bytes) {
                    // Text of type S may be in another encoding than UTF-8: its bytes stay as they are.
                    Some(value) => {
                        out.extend_from_slice(text.as_bytes());
                        text.clear();
                        out.extend_from_slice(&if self.csv { quoted(&value) } else { value });
                    }
                    None => column.simple.push_plain(&mut text, bytes),
                }
            }
            (done, line, plane) = (done + 1, line + 1, plane + 1);
            if line < self.row {
                text.push(separator);
                continue;
            }
            line = 0;
            text.push('\n');
            if plane >= self.plane {
                plane = 0;
                if done < self.total {
                    text.push('\n');
                }
            }
        }
        out.extend_from_slice(text.as_bytes());
    }
}

/// Collects the values of an item, including those of nested fields.
fn leaves(dtype: &Dtype, name: &str, offset: usize, out: &mut Vec<Column>) -> Result<()> {
    let Some(fields) = dtype.fields() else {
        ensure!(out.len() < MAX_COLUMNS, "an item has more than {MAX_COLUMNS} values");
        out.push(Column { name: name.to_owned(), offset, simple: ItemReader::new(dtype) });
        return Ok(());
    };
    for field in fields {
        let count: usize = field.shape.iter().product();
        for k in 0..count {
            let mut name =
                if name.is_empty() { field.name.clone() } else { format!("{name}.{}", field.name) };
            let mut rest = k;
            let mut index = Vec::new();
            for length in field.shape.iter().rev() {
                index.insert(0, (rest % length).to_string());
                rest /= length;
            }
            if !index.is_empty() {
                name.push_str(&format!("[{}]", index.join(",")));
            }
            leaves(&field.dtype, &name, offset + field.offset + k * field.dtype.itemsize(), out)?;
        }
    }
    Ok(())
}

/// Quotes text as in RFC 4180 if necessary, including empty text, which would be read as a missing value.
fn quoted(text: &[u8]) -> Cow<'_, [u8]> {
    if text.is_empty() || text.iter().any(|byte| b",\"\n\r".contains(byte)) {
        let doubled =
            text.iter().flat_map(|byte| if *byte == b'"' { &b"\"\""[..] } else { slice::from_ref(byte) });
        iter::once(&b'"').chain(doubled).chain(b"\"").copied().collect()
    } else {
        Cow::Borrowed(text)
    }
}
