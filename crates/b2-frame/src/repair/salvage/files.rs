//! The files of a damaged frame.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use b2_chunk::{Chunk, ChunkError, ChunkHeader, DParams};
use b2_core::{Control, memory};
use bytes::Bytes;

use crate::format::digest;
use crate::names::FrameFile;
use crate::names::{INDEX_NAME, chunk_id, chunk_name};
use crate::read::restored::StartCopy;
use crate::storage::files::open_file;
use crate::storage::files::{Extent, OpenFile};
use crate::storage::redo::{Redo, RepairedFile};
use crate::storage::traits::{FileKind, Links};
use crate::{FrameError, ReadOptions, Storage, Structure};

/// The files of the damaged frame.
pub(super) struct DamagedFiles<'a> {
    pub(super) options: &'a ReadOptions,
    /// The directory of a sparse frame.
    pub(super) dir: Option<PathBuf>,
    pub(super) main: OpenFile,
    /// Whether the header of `main` is a copy, since the one in the file is damaged.
    pub(super) restored: bool,
    pub(super) dparams: DParams,
    /// Cancels the call.
    pub(super) call: Control,
    /// Whether metalayers that define how chunks are decoded may be lost.
    pub(super) meaning_lost: bool,
}

impl<'a> DamagedFiles<'a> {
    /// Fails if the call is cancelled. Most errors here are ordinary results, for example that a chunk does not
    /// decode. So code that ignores an error calls this first: a chunk that was never checked must not count as lost.
    pub(super) fn go_on(&self) -> Result<(), FrameError> {
        Ok(self.call.advance(0)?)
    }

    /// How many bytes of the main file to search. The index file of a sparse frame holds only metadata, and may be
    /// followed by a hole of any size.
    pub(super) fn searched(&self) -> u64 {
        let most = if self.dir.is_some() { self.dparams.limits.max_metadata } else { u64::MAX };
        self.main.len().min(most)
    }

    /// Whether a chunk that does not decode may still be unchanged, because something needed to decode it is missing.
    pub(super) fn excuses(&self, error: &ChunkError) -> bool {
        match error {
            ChunkError::UnknownCodec { .. } | ChunkError::UnknownFilter { .. } => true,
            // Perhaps the shape of the blocks is missing.
            ChunkError::Stream { .. } | ChunkError::Filter { .. } => self.meaning_lost,
            _ => false,
        }
    }

    /// Whether a chunk that was found is intact: it decodes, or its checksum is one of `known`. Adds the number of
    /// decompressed bytes to `decoded`.
    ///
    /// # Errors
    /// When the call is cancelled.
    pub(super) fn is_intact(
        &self,
        chunk: &Chunk,
        known: &HashSet<u64>,
        decoded: &mut u64,
    ) -> Result<bool, FrameError> {
        let (result, nbytes) = chunk.check(&self.dparams);
        *decoded = decoded.saturating_add(nbytes);
        self.go_on()?;
        Ok(match result {
            Ok(()) => true,
            Err(error) => self.excuses(&error) && known.contains(&digest::sum(chunk.as_bytes())),
        })
    }

    pub(super) fn open(path: &Path, options: &'a ReadOptions) -> Result<Self, FrameError> {
        let fs = &*options.fs;
        let name = path.display().to_string();
        let (dir, main) = match fs.kind(path, Links::Follow).map_err(FrameError::io(&*name))? {
            FileKind::File => (None, open_file(fs, path, Links::Follow, 0)?),
            FileKind::Directory => {
                let index = path.join(INDEX_NAME);
                let main = match fs.kind(&index, Links::Refuse) {
                    Ok(FileKind::File) => open_file(fs, &index, Links::Refuse, 0)?,
                    _ => OpenFile::new(Arc::new(Bytes::new()), name, 0)?,
                };
                (Some(path.to_owned()), main)
            }
            FileKind::Link | FileKind::Other => {
                return Err(FrameError::NotRegular { path: path.to_owned(), or_directory: true });
            }
        };
        // The header may only be torn by a commit that a crash interrupted.
        let limit = options.dparams.limits.max_metadata;
        let redo = Redo::pending(&**main.storage(), limit).map_err(FrameError::io(main.name()))?;
        let main = match redo {
            Some(redo) => {
                let repaired = RepairedFile::by(redo, main.storage().clone());
                OpenFile::new(Arc::new(repaired), main.name(), 0)?
            }
            None => main,
        };
        let copy = StartCopy::find(&main, limit).filter(|_| main.is_whole());
        let header_is_intact = copy.as_ref().is_none_or(|copy| copy.header_is_intact(&main));
        let applied = copy.and_then(|copy| copy.applied(&main, header_is_intact));
        let restored = !header_is_intact && applied.is_some();
        let main = applied.unwrap_or(main);
        let mut dparams = options.dparams.clone();
        let call = dparams.control.begin(main.len(), 1);
        dparams.control = call.quiet();
        Ok(Self { options, dir, main, restored, dparams, call, meaning_lost: true })
    }

    pub(super) fn storage(&self) -> Storage {
        if self.dir.is_some() { Storage::Sparse } else { Storage::Contiguous }
    }

    /// Returns the chunk at this byte of the file, or in the chunk file with this number.
    pub(super) fn chunk(&self, place: u64) -> Result<Chunk, FrameError> {
        let (header, file, start) = self.chunk_header(place)?;
        let bytes = file.read(&Extent::exactly(FrameFile::Main, start..start + header.cbytes() as u64))?;
        Chunk::from_bytes(bytes).map_err(FrameError::chunk(Structure::Frame))
    }

    /// Returns the rest of a truncated chunk, padded with zeros, and its length.
    pub(super) fn cut_off(&self, place: u64) -> Option<(Chunk, usize)> {
        let (header, file, start) = self.chunk_header(place).ok()?;
        let cbytes = header.cbytes();
        let limits = &self.dparams.limits;
        limits.check_memory("a chunk that is cut off, in bytes", cbytes as u64).ok()?;
        let there = file.read(&Extent::at_most(FrameFile::Main, start..start + cbytes as u64)).ok()?;
        let mut bytes = Vec::new();
        memory::sized(&mut bytes, cbytes).ok()?;
        bytes.truncate(cbytes);
        bytes.fill(0);
        bytes.get_mut(..there.len())?.copy_from_slice(&there);
        Some((Chunk::from_bytes(Bytes::from(bytes)).ok()?, there.len()))
    }

    /// Returns the bytes at this byte of the file up to byte `end`, or all of the chunk file with this number.
    pub(super) fn stored(&self, place: u64, end: Option<u64>) -> Option<Bytes> {
        let (file, range) = match &self.dir {
            None => (self.main.clone(), place..end?),
            Some(dir) => {
                let path = dir.join(chunk_name(u32::try_from(place).ok()?));
                let file = open_file(&*self.options.fs, &path, Links::Refuse, 0).ok()?;
                let len = file.len();
                (file, 0..len)
            }
        };
        let len = range.end.checked_sub(range.start)?;
        self.dparams.limits.check_memory("a chunk without its head, in bytes", len).ok()?;
        file.read(&Extent::exactly(FrameFile::Main, range)).ok()
    }

    /// Returns the header of a chunk, its file, and where it starts there.
    pub(super) fn chunk_header(&self, place: u64) -> Result<(ChunkHeader, OpenFile, u64), FrameError> {
        let (file, start) = match &self.dir {
            None => (self.main.clone(), place),
            Some(dir) => {
                let id =
                    u32::try_from(place).map_err(|_| FrameError::argument("index", "not a file number"))?;
                (open_file(&*self.options.fs, &dir.join(chunk_name(id)), Links::Refuse, 0)?, 0)
            }
        };
        let head = file.read(&Extent::at_most(FrameFile::Main, start..start.saturating_add(32)))?;
        let header = ChunkHeader::parse(&head).map_err(FrameError::chunk(Structure::Frame))?;
        Ok((header, file, start))
    }

    /// Returns the numbers of all chunk files, in order.
    pub(super) fn chunk_files(&self) -> Result<Vec<u32>, FrameError> {
        let Some(dir) = &self.dir else { return Ok(Vec::new()) };
        let names = self.options.fs.list(dir).map_err(FrameError::io(dir.display().to_string()))?;
        let mut ids: Vec<u32> = names.iter().filter_map(|name| chunk_id(name.to_str()?)).collect();
        ids.sort_unstable();
        Ok(ids)
    }
}
