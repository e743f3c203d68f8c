//! The valid files from which the cases are made, with the positions of their parts.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use b2kit::Chunk;

use super::content::Content;
use super::fields::Field;
use super::layout::{Layout, Map};
use crate::digest;

/// The kind of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Chunk,
    Contiguous,
    Sparse,
}

/// The name of the index file of sparse frames.
pub(crate) const INDEX: &str = "chunks.b2frame";

/// A valid file, and the positions of its parts.
pub(crate) struct Base {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) content: Content,
    /// SHA-256 of the data; empty if it is not known.
    pub(crate) sha256: String,
    /// Names of the files; the first one contains the frame or chunk.
    pub(crate) files: Vec<String>,
    /// The layout, if the base is a frame.
    pub(crate) layout: Option<Layout>,
    pub(crate) entries: Vec<i64>,
    pub(crate) fields: Vec<Field>,
    /// Bytes of codec streams: file number, range, chunk number.
    pub(crate) streams: Vec<(usize, Range<usize>, Option<usize>)>,
    /// Stored chunks: chunk number, file number, range.
    pub(crate) chunks: Vec<(usize, usize, Range<usize>)>,
    /// Whether damage to unused bytes may go unnoticed: the frame has holes, or a tail.
    pub(crate) holes: bool,
}

impl Base {
    pub(crate) fn new(name: impl Into<String>, content: Content, data: &[u8]) -> Result<Self> {
        Self::with_hash(name, content, digest::bytes(data))
    }

    pub(crate) fn with_hash(name: impl Into<String>, content: Content, sha256: String) -> Result<Self> {
        let name = name.into();
        let kind = match (content.is_folder(), content.bytes("")) {
            (true, _) => Kind::Sparse,
            (_, Some(bytes)) if bytes.starts_with(&b2kit::frame::MAGIC) => Kind::Contiguous,
            _ => Kind::Chunk,
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

    /// Returns the range of the value of the array's metalayer.
    pub(crate) fn array(&self) -> Option<Range<usize>> {
        let layers = &self.layout.as_ref()?.metalayers;
        layers.iter().find(|(name, _)| name == b"b2nd").map(|(_, range)| range.clone())
    }

    fn take_apart(&mut self) -> Result<()> {
        match self.kind {
            Kind::Chunk | Kind::Contiguous => self.files.push(String::new()),
            Kind::Sparse => {
                self.files.push(INDEX.into());
                let names = self.content.0.iter().map(|(name, _)| name.clone());
                let mut names: Vec<String> = names.filter(|name| name.ends_with(".chunk")).collect();
                names.sort();
                self.files.extend(names);
            }
        }
        let bytes = self.bytes(0).to_vec();
        let mut map = Map::new(&bytes, 0);
        if self.kind == Kind::Chunk {
            map.data_chunk(0, None);
            self.chunks.push((0, 0, 0..bytes.len()));
        } else {
            let layout = map.frame();
            if !layout.index.is_empty() {
                let index = bytes.get(layout.index.clone()).context("the index is outside")?;
                let plain = Chunk::from_bytes(index.to_vec())?.decompress_bytes()?;
                self.entries =
                    plain.as_chunks::<8>().0.iter().map(|entry| i64::from_le_bytes(*entry)).collect();
            }
            for (n, entry) in self.entries.iter().enumerate() {
                let Ok(at) = usize::try_from(*entry) else { continue };
                if self.kind == Kind::Contiguous {
                    let start = layout.header.end + at;
                    let len = bytes.get(start + 12..).and_then(|rest| rest.first_chunk().copied());
                    let end = start + u32::from_le_bytes(len.context("a chunk is outside")?) as usize;
                    self.chunks.push((n, 0, start..end));
                    if n < MAPPED {
                        map.data_chunk(start, Some(n));
                    }
                } else {
                    let name = format!("{at:08X}.chunk");
                    let file = self.files.iter().position(|f| *f == name).context("a chunk is missing")?;
                    self.chunks.push((n, file, 0..self.bytes(file).len()));
                }
            }
            let stored: usize = self.chunks.iter().map(|(_, _, range)| range.len()).sum();
            let data = layout.index.start.saturating_sub(layout.header.end);
            self.holes = self.kind == Kind::Contiguous && stored != data
                || layout.trailer.end != bytes.len()
                || layout.index.end
                    + layout.pages.iter().chain([&layout.sums]).map(Range::len).sum::<usize>()
                    != layout.trailer.start
                    && !layout.index.is_empty();
            self.layout = Some(layout);
        }
        let streams = std::mem::take(&mut map.streams);
        self.streams.extend(streams.into_iter().map(|(range, chunk)| (0, range, chunk)));
        self.fields = std::mem::take(&mut map.fields);
        if self.kind == Kind::Sparse {
            for (n, file, _) in self.chunks.clone().into_iter().take(MAPPED) {
                let bytes = self.bytes(file).to_vec();
                let mut map = Map::new(&bytes, file);
                map.data_chunk(0, Some(n));
                self.fields.extend(map.fields);
                self.streams.extend(map.streams.into_iter().map(|(range, chunk)| (file, range, chunk)));
            }
        }
        ensure!(!self.fields.is_empty(), "no fields");
        Ok(())
    }

    /// Returns the checksums of the chunks after damage to `content`, in index order.
    pub(crate) fn chunk_sums(&self, content: &Content) -> Vec<u64> {
        let mut sums = vec![0; self.entries.len()];
        for (n, file, range) in &self.chunks {
            let Some(bytes) = self.files.get(*file).and_then(|name| content.bytes(name)) else { continue };
            // Use the length in the damaged header if that is possible.
            let rest = bytes.get(range.start..).unwrap_or_default();
            let says = rest.get(12..).and_then(|rest| rest.first_chunk()).copied().map(u32::from_le_bytes);
            let len = match says {
                Some(len) if len >= 32 && len as usize <= rest.len() => len as usize,
                _ => range.len().min(rest.len()),
            };
            if let (Some(sum), Some(chunk)) = (sums.get_mut(*n), rest.get(..len)) {
                *sum = b2_testkit::hostile::sum(chunk);
            }
        }
        sums.into_iter().zip(&self.entries).filter(|(_, entry)| **entry >= 0).map(|(sum, _)| sum).collect()
    }
}

/// Number of chunks of a frame whose fields are mapped.
const MAPPED: usize = 3;
