//! A selection as an `.npy` file, in parts.

use anyhow::{Context, Result, bail, ensure};
use b2_view::npy::header_bytes;

use crate::file::OpenFile;
use crate::look::axes;

/// Maximum file size in bytes: the file is assembled in the browser's memory.
const MAX_FILE_LEN: u64 = 1 << 30;
/// Size of a part, in bytes.
const PART_LEN: u64 = 8 << 20;

/// A part of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyPart {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether another part follows.
    pub more: bool,
}

/// Reads a part of the file. The first one begins with the header.
///
/// # Errors
/// When the selection does not fit or is too large, or the file cannot be read.
pub async fn part(opened: &OpenFile, slice: &str, number: u64) -> Result<NpyPart> {
    let (dtype, _, shape) = opened.items()?;
    let axes = axes(slice, &shape)?;
    let lens: Vec<u64> = axes.iter().filter(|axis| !axis.dropped).map(|axis| axis.len).collect();
    let size = dtype.itemsize() as u64;
    let nbytes = lens.iter().fold(size, |n, len| n.saturating_mul(*len));
    ensure!(
        nbytes <= MAX_FILE_LEN,
        "the selection has {nbytes} bytes; the page supports at most {MAX_FILE_LEN}"
    );
    let mut bytes = if number == 0 { header_bytes(&dtype, &lens)? } else { Vec::new() };
    // Parts along the first dimension, each of whole rows.
    let rows = lens.first().copied().unwrap_or(1);
    let row = nbytes.checked_div(rows).unwrap_or(0).max(1);
    let each = (PART_LEN / row).max(1);
    let start = number.checked_mul(each).context("there is no such part")?.min(rows);
    let end = start.saturating_add(each).min(rows);
    if nbytes > 0 && start < end {
        let first = axes.iter().position(|axis| !axis.dropped);
        let mut selections = Vec::new();
        for (dim, axis) in axes.iter().enumerate() {
            let axis = if Some(dim) == first { axis.part(start, end) } else { *axis };
            selections.push(if axis.dropped {
                b2nd::Selection::Index(i64::try_from(axis.start)?)
            } else {
                axis.selection()?
            });
        }
        match opened {
            OpenFile::Array(array) => {
                let items = array.slice(selections)?.read_bytes().await?;
                match number {
                    0 => bytes.extend_from_slice(&items),
                    _ => bytes = items,
                }
            }
            OpenFile::Frame(frame) => {
                let [axis] = axes[..] else { bail!("a super-chunk has one dimension") };
                let items: Vec<u64> = if axis.dropped {
                    vec![axis.start]
                } else {
                    (start..end).map(|k| axis.position(k)).collect()
                };
                bytes.extend_from_slice(&frame.gather(&items).await?);
            }
            OpenFile::Store(_) => bail!("a store itself has no items"),
        }
    }
    Ok(NpyPart { bytes, more: end < rows && nbytes > 0 })
}
