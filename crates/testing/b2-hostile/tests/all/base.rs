//! The valid files from which the cases are made, with the positions of their parts.

use std::fmt::Arguments;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use b2_testkit::hostile::{FrameLayout, Number, Walk, stored, sum};
use b2kit::Chunk;

use super::content::Content;
use super::groups::Group;
use crate::digest;

/// The kind of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BaseKind {
    Chunk,
    Contiguous,
    Sparse,
}

/// The name of the index file of sparse frames.
pub(crate) const INDEX: &str = "chunks.b2frame";

/// A number in a file, and its name.
#[derive(Clone, Debug)]
pub(crate) struct BaseField {
    pub(crate) group: Group,
    pub(crate) name: String,
    /// The file of a sparse frame, by its position in the list of the base.
    pub(crate) file: usize,
    pub(crate) number: Number,
}

/// A valid file, and the positions of its parts.
pub(crate) struct Base {
    pub(crate) name: String,
    pub(crate) kind: BaseKind,
    pub(crate) content: Content,
    /// SHA-256 of the data; empty if it is not known.
    pub(crate) sha256: String,
    /// Names of the files; the first one contains the frame or chunk.
    pub(crate) files: Vec<String>,
    /// The layout, if the base is a frame.
    pub(crate) layout: Option<FrameLayout>,
    pub(crate) entries: Vec<i64>,
    pub(crate) fields: Vec<BaseField>,
    /// Bytes of codec streams: file number, range.
    pub(crate) streams: Vec<(usize, Range<usize>)>,
    /// Stored chunks: chunk number, file number, range.
    pub(crate) chunks: Vec<(usize, usize, Range<usize>)>,
    /// Whether damage to unused bytes may go unnoticed: the frame has holes, or a tail.
    pub(crate) holes: bool,
}

impl Base {
    pub(crate) fn new(name: impl Into<String>, content: Content, data: &[u8]) -> Result<Self> {
        Self::with_hash(name, content, digest(data))
    }

    pub(crate) fn with_hash(name: impl Into<String>, content: Content, sha256: String) -> Result<Self> {
        let name = name.into();
        let kind = match (content.is_folder(), content.bytes("")) {
            (true, _) => BaseKind::Sparse,
            (_, Some(bytes)) if bytes.starts_with(&b2kit::frame::MAGIC) => BaseKind::Contiguous,
            _ => BaseKind::Chunk,
        };
        let mut base = Self {
            name,
            kind,
            content,
            sha256,
            files: Vec::new(),
            layout: None,
            entries: Vec::new(),
            fields: Vec::new(),
            streams: Vec::new(),
            chunks: Vec::new(),
            holes: false,
        };
        base.take_apart().with_context(|| format!("base {}", base.name))?;
        Ok(base)
    }

    /// Returns the bytes of a file, by its number.
    pub(crate) fn bytes(&self, file: usize) -> &[u8] {
        self.files.get(file).and_then(|name| self.content.bytes(name)).map_or(&[], Vec::as_slice)
    }

    /// Returns whether the frame has checksums.
    pub(crate) fn has_sums(&self) -> bool {
        let Some(layout) = &self.layout else { return false };
        // A frame without chunks has only the fingerprint.
        let kind = layout.trailer.end.checked_sub(17).and_then(|at| self.bytes(0).get(at));
        kind.is_some_and(|kind| *kind == 3)
    }

    /// Walks over a file, and keeps its fields and streams.
    fn walk<T>(&mut self, file: usize, over: impl FnOnce(&mut Walk<'_>) -> T) -> T {
        let bytes = self.bytes(file).to_vec();
        let mut sink = |part, name: Arguments<'_>, number| {
            self.fields.push(BaseField { group: Group::Field(part), name: name.to_string(), file, number });
        };
        let mut walk = Walk::new(&bytes, &mut sink);
        let out = over(&mut walk);
        self.streams.extend(walk.streams.into_iter().map(|range| (file, range)));
        out
    }

    fn take_apart(&mut self) -> Result<()> {
        self.files.push(if self.kind == BaseKind::Sparse { INDEX.into() } else { String::new() });
        if self.kind == BaseKind::Sparse {
            let names = self.content.0.iter().map(|(name, _)| name.clone());
            let mut names: Vec<String> = names.filter(|name| name.ends_with(".chunk")).collect();
            names.sort();
            self.files.extend(names);
        }
        if self.kind == BaseKind::Chunk {
            self.chunks.push((0, 0, 0..self.bytes(0).len()));
        } else {
            let layout = self.walk(0, |walk| walk.frame()).context("its lengths contradict each other")?;
            self.find_chunks(&layout)?;
            let len: usize = self.chunks.iter().map(|(_, _, range)| range.len()).sum();
            let sums: usize = layout.pages.iter().chain([&layout.sums]).map(Range::len).sum();
            self.holes = self.kind == BaseKind::Contiguous && len != layout.index.start - layout.header.end
                || layout.trailer.end != self.bytes(0).len()
                || layout.index.end + sums != layout.trailer.start;
            self.layout = Some(layout);
        }
        for (number, (n, file, range)) in self.chunks.clone().into_iter().enumerate() {
            // Files of chunks are counted without those of special values.
            if if self.kind == BaseKind::Sparse { number } else { n } < MAPPED {
                let name = (self.kind != BaseKind::Chunk).then_some(n);
                self.walk(file, |walk| walk.chunk(range.start, name));
            }
        }
        ensure!(!self.fields.is_empty(), "no fields");
        Ok(())
    }

    fn find_chunks(&mut self, layout: &FrameLayout) -> Result<()> {
        if !layout.index.is_empty() {
            let plain =
                Chunk::from_bytes(self.bytes(0)[layout.index.clone()].to_vec())?.decompress_bytes()?;
            self.entries = plain.as_chunks::<8>().0.iter().map(|entry| i64::from_le_bytes(*entry)).collect();
        }
        for (n, entry) in self.entries.iter().enumerate() {
            let Ok(at) = usize::try_from(*entry) else { continue };
            self.chunks.push(if self.kind == BaseKind::Contiguous {
                (n, 0, stored(self.bytes(0), layout.header.end + at).context("a chunk is outside")?)
            } else {
                let name = format!("{at:08X}.chunk");
                let file = self.files.iter().position(|f| *f == name).context("a chunk is missing")?;
                (n, file, 0..self.bytes(file).len())
            });
        }
        Ok(())
    }

    /// Returns the checksums of the chunks after damage to `content`, in index order.
    pub(crate) fn chunk_sums(&self, content: &Content) -> Vec<u64> {
        let mut sums = vec![0; self.entries.len()];
        for (n, file, range) in &self.chunks {
            let Some(bytes) = self.files.get(*file).and_then(|name| content.bytes(name)) else { continue };
            // Use the length in the damaged header if that is possible.
            let intact = range.start.min(bytes.len())..range.end.min(bytes.len());
            let range = stored(bytes, range.start).filter(|range| range.len() >= 32).unwrap_or(intact);
            if let (Some(sum_of), Some(chunk)) = (sums.get_mut(*n), bytes.get(range)) {
                *sum_of = sum(chunk);
            }
        }
        sums.into_iter().zip(&self.entries).filter(|(_, entry)| **entry >= 0).map(|(sum, _)| sum).collect()
    }
}

/// Number of chunks of a frame whose fields are mapped.
const MAPPED: usize = 3;
