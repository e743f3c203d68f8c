//! Writes values as lines of text for other programs: CSV, or columns separated by blanks.

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
    pub(crate) fn head(&self) -> String {
        let named = self.csv && self.columns.iter().any(|column| !column.name.is_empty());
        if !named {
            return String::new();
        }
        let names: Vec<String> = self.columns.iter().map(|column| quoted(column.name.clone())).collect();
        format!("{}\n", names.join(","))
    }

    /// Number of items to convert at a time: text is several times as large as the values.
    pub(crate) fn batch(&self) -> usize {
        ((1 << 15) / self.columns.len().max(1)).max(1)
    }

    /// Converts items to text, of which the first is number `first` of all.
    pub(crate) fn write(&self, first: u64, items: &[u8], out: &mut String) {
        let separator = if self.csv { ',' } else { ' ' };
        let mut done = first;
        let (mut line, mut plane) = (first % self.row, first % self.plane);
        for item in items.chunks_exact(self.itemsize) {
            for (k, column) in self.columns.iter().enumerate() {
                if k > 0 {
                    out.push(separator);
                }
                let end = column.offset.saturating_add(column.simple.size());
                let Some(bytes) = item.get(column.offset..end) else { continue };
                if self.csv && column.simple.is_text() {
                    out.push_str(&quoted(column.simple.plain(bytes)));
                } else {
                    column.simple.push_plain(out, bytes);
                }
            }
            (done, line, plane) = (done + 1, line + 1, plane + 1);
            if line < self.row {
                out.push(separator);
                continue;
            }
            line = 0;
            out.push('\n');
            if plane >= self.plane {
                plane = 0;
                if done < self.total {
                    out.push('\n');
                }
            }
        }
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
fn quoted(text: String) -> String {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}
