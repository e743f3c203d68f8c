//! Making a readable frame from a damaged one.

mod find;
mod head;
mod scan;

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use b2_chunk::{Chunk, ChunkError, ChunkHeader, Container, DParams, SpecialKind};
use bytes::Bytes;

use crate::index::{Entry, Index};
use crate::plan::{Extent, FrameFile, OpenFile};
use crate::redo::{Redo, Repaired};
use crate::sparse::{INDEX_NAME, chunk_id, chunk_name, open_file};
use crate::storage::{FileKind, Links};
use crate::trailer::Trailer;
use crate::{FrameError, FrameParams, FrameWriter, OpenOptions, Storage, Structure, WriteOptions};

use find::{
    first_chunks, in_order, index_among, index_in_place, intact_chunk_files, is_believable, is_listed, sizes,
    trailer_in_place,
};
use head::Head;
use scan::Scan;

/// How a part of a damaged frame was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Condition {
    /// Whole and at its place.
    Intact,
    /// Some of its fields could not be believed, or it was not at its place.
    Damaged,
    /// Nothing of it is left.
    Lost,
}

/// Chunks next to each other that could not be recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostChunks {
    /// Their positions in the damaged frame; guesses where the index is lost.
    pub nchunks: Range<usize>,
    /// Whether chunks of zeros have taken their places. Where chunks have individual sizes they are left out,
    /// and all later chunks move up.
    pub filled: bool,
    /// What was wrong with the first of them.
    pub why: String,
}

/// What [`salvage`] has found and written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Salvaged {
    /// The fixed part of the header.
    pub header: Condition,
    /// The metalayers; an array that lost them is a plain super-chunk.
    pub metalayers: Condition,
    /// The index. Without one, chunks are in the order they were found in, chunks that only the index told
    /// (zeros above all) count as lost, and chunks that were replaced earlier may turn up again.
    pub index: Condition,
    /// The trailer with the vlmetalayers.
    pub trailer: Condition,
    /// Chunks of the frame that was written.
    pub nchunks: usize,
    /// How many of them are from the damaged frame.
    pub recovered: usize,
    /// How many chunks could not be recovered.
    pub nlost: usize,
    /// Which ones; the first 4096 groups.
    pub lost: Vec<LostChunks>,
    /// Names of vlmetalayers whose value could not be recovered.
    pub lost_vlmetalayers: Vec<String>,
    /// Uncompressed size of what was written, in bytes.
    pub nbytes: u64,
    /// Whether number and order of the chunks are known: from the index, or as all bytes that the header tells
    /// of were found, and no others.
    pub certain: bool,
}

/// Most groups of lost chunks that are told.
const MAX_GROUPS: usize = 4096;
/// Plain bytes decoded at once to test a chunk.
const PIECE: usize = 16 << 20;

/// Writes all that is readable of the frame at `input`, which may be damaged anywhere, as a new frame of the
/// same storage to `output`.
///
/// Where the index is readable it tells the places of the chunks, else all bytes are searched (for sparse frames:
/// all chunk files, in the order of their numbers). Each chunk is decoded to see whether it is intact. Chunks
/// that are lost are replaced by zeros, so that the others keep their places.
///
/// # Errors
/// When nothing was found that belongs to a frame, and when reading or writing fails.
pub fn salvage(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &OpenOptions,
    write: &WriteOptions,
) -> Result<Salvaged, FrameError> {
    let damaged = Damaged::open(input.as_ref(), options)?;
    let head = head::read(&damaged.main, damaged.storage(), &damaged.dparams)?;
    let wreck = Wreck::survey(damaged, head)?;
    wreck.write(output.as_ref(), write)
}

/// Decodes a chunk piece by piece; `decoded` grows by the plain bytes of each.
fn intact(chunk: &Chunk, dparams: &DParams, decoded: &mut u64) -> Result<(), ChunkError> {
    let nbytes = chunk.nbytes();
    if chunk.header().special().is_some() {
        chunk.lazy(dparams)?;
        return Ok(());
    }
    let blocksize = if chunk.header().is_vl() { nbytes } else { chunk.header().blocksize() }.max(1);
    let piece = PIECE.next_multiple_of(blocksize);
    for start in (0..nbytes).step_by(piece) {
        let end = start.saturating_add(piece).min(nbytes);
        *decoded += (end - start) as u64;
        chunk.get_bytes(start..end, dparams)?;
    }
    Ok(())
}

/// The files of the damaged frame.
struct Damaged<'a> {
    options: &'a OpenOptions,
    /// The directory of a sparse frame.
    dir: Option<PathBuf>,
    main: OpenFile,
    dparams: DParams,
}

impl<'a> Damaged<'a> {
    fn open(path: &Path, options: &'a OpenOptions) -> Result<Self, FrameError> {
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
        // The header may only be torn by a commit that a crash has cut short.
        let limit = options.dparams.limits.max_metadata;
        let redo = Redo::pending(&**main.storage(), limit).map_err(FrameError::io(main.name()))?;
        let main = match redo {
            Some(redo) => {
                let repaired = Repaired { file: main.storage().clone(), redo };
                OpenFile::new(Arc::new(repaired), main.name(), 0)?
            }
            None => main,
        };
        Ok(Self { options, dir, main, dparams: options.dparams.clone() })
    }

    fn storage(&self) -> Storage {
        if self.dir.is_some() { Storage::Sparse } else { Storage::Contiguous }
    }

    /// The chunk at this byte of the file, or in the chunk file of this number.
    fn chunk(&self, place: u64) -> Result<Chunk, FrameError> {
        let (header, file, start) = self.chunk_header(place)?;
        let bytes = file.read(&Extent::exactly(FrameFile::Main, start..start + header.cbytes() as u64))?;
        Chunk::parse(bytes).map_err(FrameError::chunk(Structure::Frame))
    }

    /// Its header, the file it is in and where it starts there.
    fn chunk_header(&self, place: u64) -> Result<(ChunkHeader, OpenFile, u64), FrameError> {
        let (file, start) = match &self.dir {
            None => (self.main.clone(), place),
            Some(dir) => {
                let id = u32::try_from(place).map_err(|_| FrameError::argument("index", "no file number"))?;
                (open_file(&*self.options.fs, &dir.join(chunk_name(id)), Links::Refuse, 0)?, 0)
            }
        };
        let head = file.read(&Extent::at_most(FrameFile::Main, start..start.saturating_add(32)))?;
        let header = ChunkHeader::parse(&head).map_err(FrameError::chunk(Structure::Frame))?;
        Ok((header, file, start))
    }

    /// The numbers of all chunk files, in order.
    fn chunk_files(&self) -> Result<Vec<u32>, FrameError> {
        let Some(dir) = &self.dir else { return Ok(Vec::new()) };
        let names = self.options.fs.list(dir).map_err(FrameError::io(dir.display().to_string()))?;
        let mut ids: Vec<u32> = names.iter().filter_map(|name| chunk_id(name.to_str()?)).collect();
        ids.sort_unstable();
        Ok(ids)
    }
}

/// Where the chunks are.
enum Order {
    /// As the index says; its offsets count from this byte.
    Index(Index, u64),
    /// These places, `None` where one is missing.
    Found(Vec<Option<u64>>),
}

/// All that was found out before anything is written.
struct Wreck<'a> {
    damaged: Damaged<'a>,
    head: Option<Head>,
    order: Order,
    index: Condition,
    trailer: Option<Trailer>,
    trailer_condition: Condition,
    typesize: usize,
    /// Of all chunks but the last; 0 if they have individual sizes.
    chunksize: usize,
    /// Of all chunks, if the header tells.
    nbytes: Option<u64>,
    /// Whether more chunks were found than there should be.
    surplus: bool,
}

impl<'a> Wreck<'a> {
    fn survey(mut damaged: Damaged<'a>, head: Option<Head>) -> Result<Self, FrameError> {
        if let Some(head) = &head {
            damaged.dparams.container = Container {
                itemsize: Some(head.header.typesize()),
                frame_blocksize: head.header.blocksize(),
                ..Container::default()
            };
        }
        let mut trailer = head.as_ref().and_then(|head| trailer_in_place(&damaged, head));
        let mut trailer_condition = if trailer.is_some() { Condition::Intact } else { Condition::Lost };
        let start = head.as_ref().map_or(0, |head| head.header.header_len() as u64);
        let index = head.as_ref().and_then(|head| index_in_place(&damaged, head));
        let index = index.filter(|index| is_believable(&damaged, index, start));
        let mut index_condition = Condition::Intact;
        let mut found = Scan::default();
        if index.is_none() || trailer.is_none() {
            let from = head.as_ref().map_or(0, |head| head.end);
            found = scan::scan(&damaged.main, from, &damaged.dparams)?;
            if trailer.is_none()
                && let Some((_, there)) = found.trailer.take()
            {
                (trailer, trailer_condition) = (Some(there), Condition::Damaged);
            }
        }
        let candidates = found.chunks.clone();
        if index.is_none() && damaged.dir.is_some() {
            found.chunks = intact_chunk_files(&damaged)?;
        }
        let mut index = index.map(|index| (index, start));
        if index.is_none() {
            index_condition = Condition::Lost;
            let offsets: HashSet<u64> = found.chunks.iter().map(|chunk| chunk.offset).collect();
            let first = found.chunks.first().map_or(0, |chunk| chunk.offset);
            if let Some((there, base)) = index_among(&damaged, &candidates, &offsets, [start, first]) {
                index_condition = Condition::Damaged;
                found.chunks.retain(|chunk| is_listed(&there, base, chunk.offset));
                index = Some((there, base));
            }
        }
        if let Some((index, base)) = &index
            && index_condition == Condition::Intact
        {
            found.chunks = first_chunks(&damaged, index, *base);
        }
        let (typesize, chunksize) = sizes(head.as_ref(), &found.chunks);
        let nbytes =
            head.as_ref().filter(|head| head.condition == Condition::Intact).map(|h| h.header.nbytes());
        let mut surplus = false;
        let order = match index {
            Some((index, base)) => Order::Index(index, base),
            None => {
                // Lost chunks are replaced by zeros: by entries of the index, or by chunks where entries cannot be.
                let most = if chunksize.is_multiple_of(typesize) {
                    damaged.dparams.limits.max_metadata / 16
                } else {
                    MAX_MADE_UP
                };
                let nchunks = nbytes.filter(|_| chunksize > 0).map(|n| n.div_ceil(chunksize as u64));
                let nchunks = nchunks.filter(|n| *n <= most);
                let (places, more) = in_order(&found.chunks, start, typesize, chunksize, nchunks);
                surplus = more;
                Order::Found(places)
            }
        };
        let nothing = match &order {
            Order::Index(..) => false,
            Order::Found(places) => places.iter().flatten().next().is_none(),
        };
        if head.is_none() && nothing {
            return Err(FrameError::NotAFrame);
        }
        Ok(Self {
            damaged,
            head,
            order,
            index: index_condition,
            trailer,
            trailer_condition,
            typesize,
            chunksize,
            nbytes,
            surplus,
        })
    }

    fn len(&self) -> usize {
        match &self.order {
            Order::Index(index, _) => index.len(),
            Order::Found(places) => places.len(),
        }
    }

    /// Uncompressed size of chunk `nchunk`, if it follows from the others.
    fn expected(&self, nchunk: usize) -> Option<usize> {
        if self.chunksize == 0 {
            return None;
        }
        let whole = self.chunksize as u64;
        let last = self.nbytes.and_then(|nbytes| nbytes.checked_sub(nchunk as u64 * whole));
        match last {
            Some(last) if nchunk + 1 == self.len() && (1..=whole).contains(&last) => Some(last as usize),
            _ => Some(self.chunksize),
        }
    }

    /// The chunk at a position: a stored one that is intact, or what the index says.
    fn fetch(&self, nchunk: usize, seen: &mut HashSet<u64>) -> Result<Piece, String> {
        let place = match &self.order {
            Order::Found(places) => places.get(nchunk).copied().flatten().ok_or("not found")?,
            Order::Index(index, base) => match index.entry(nchunk).map_err(|error| error.to_string())? {
                Entry::Special(kind) => return Ok(Piece::Special(kind)),
                Entry::Stored(offset) if self.damaged.dir.is_some() => offset,
                Entry::Stored(offset) => base.checked_add(offset).ok_or("its offset is too large")?,
            },
        };
        if !seen.insert(place) {
            return Err("the index gives it the place of another chunk".into());
        }
        let chunk = self.damaged.chunk(place).map_err(|error| error.to_string())?;
        intact(&chunk, &self.damaged.dparams, &mut 0).map_err(|error| error.to_string())?;
        // The size of the last one counts, not what the header says about all.
        let is_last = nchunk + 1 == self.len() && chunk.nbytes() <= self.chunksize;
        match self.expected(nchunk) {
            Some(nbytes) if chunk.nbytes() != nbytes && !is_last => {
                Err(format!("has {} bytes uncompressed instead of {nbytes}", chunk.nbytes()))
            }
            _ => Ok(Piece::Stored(chunk)),
        }
    }

    fn params(&self) -> FrameParams {
        let params = match &self.head {
            Some(head) => FrameParams::like(&head.header),
            None => FrameParams::new(self.typesize),
        };
        let mut params = params.plugins(self.damaged.dparams.plugins.clone());
        params.typesize = self.typesize;
        params.clevel = params.clevel.min(9);
        params.blocksize = params.blocksize.min(b2_chunk::MAX_BLOCKSIZE);
        params.chunksize = (self.len() > 0).then_some(self.chunksize);
        for (name, value) in self.head.iter().flat_map(|head| head.metalayers.iter()) {
            params = params.metalayer(name, value);
        }
        params
    }

    fn write(self, output: &Path, options: &WriteOptions) -> Result<Salvaged, FrameError> {
        let options = options.clone().many_vlmetalayers(true);
        let mut writer = match self.damaged.storage() {
            Storage::Contiguous => options.contiguous(output, self.params())?,
            Storage::Sparse => options.sparse(output, self.params())?,
        };
        let mut report = Salvaged {
            header: self.head.as_ref().map_or(Condition::Lost, |head| head.condition),
            metalayers: self.head.as_ref().map_or(Condition::Lost, |head| head.metalayers_condition),
            index: self.index,
            trailer: self.trailer_condition,
            nchunks: 0,
            recovered: 0,
            nlost: 0,
            lost: Vec::new(),
            lost_vlmetalayers: Vec::new(),
            nbytes: 0,
            certain: false,
        };
        let mut seen = HashSet::new();
        let mut vl = None;
        for nchunk in 0..self.len() {
            let why = match (self.fetch(nchunk, &mut seen), self.expected(nchunk)) {
                (Ok(Piece::Stored(chunk)), _)
                    if *vl.get_or_insert(chunk.header().is_vl()) == chunk.header().is_vl() =>
                {
                    writer.append(chunk)?;
                    None
                }
                (Ok(Piece::Special(kind)), Some(nbytes)) if vl != Some(true) => {
                    append_special(&mut writer, kind, nbytes)?;
                    None
                }
                (Ok(_), _) => Some("is of another kind than the others".to_owned()),
                (Err(why), _) => Some(why),
            };
            let Some(why) = why else {
                report.recovered += 1;
                continue;
            };
            let fill = self.expected(nchunk).filter(|_| vl != Some(true));
            if let Some(nbytes) = fill {
                writer.append_special(SpecialKind::Zeros, nbytes)?;
            }
            report.lose(nchunk, fill.is_some(), why);
        }
        if let Some(trailer) = &self.trailer {
            for (name, _) in trailer.vlmetalayers.iter() {
                match (trailer.vlmetalayers.get(name), trailer.vlmetalayers.chunk(name)) {
                    (Ok(Some(_)), Ok(Some(chunk))) => writer.set_vlmetalayer_chunk(name, chunk)?,
                    _ => report.lost_vlmetalayers.push(crate::metalayers::show(name)),
                }
            }
        }
        let written = writer.finish()?;
        (report.nchunks, report.nbytes) = (written.nchunks, written.nbytes);
        let all_there = report.nlost == 0 && !self.surplus && self.nbytes == Some(written.nbytes);
        report.certain = self.index != Condition::Lost || all_there;
        Ok(report)
    }
}

/// Most chunks of zeros that are stored in place of lost ones.
const MAX_MADE_UP: u64 = 4096;

enum Piece {
    Stored(Chunk),
    Special(SpecialKind),
}

fn append_special(writer: &mut FrameWriter, kind: SpecialKind, nbytes: usize) -> Result<(), FrameError> {
    match writer.append_special(kind, nbytes) {
        Err(FrameError::Argument { .. }) => writer.append_special(SpecialKind::Zeros, nbytes),
        result => result,
    }
}

impl Salvaged {
    fn lose(&mut self, nchunk: usize, filled: bool, why: String) {
        self.nlost += 1;
        if let Some(last) = self.lost.last_mut()
            && (last.nchunks.end, last.filled, &last.why) == (nchunk, filled, &why)
        {
            last.nchunks.end += 1;
        } else if self.lost.len() < MAX_GROUPS {
            self.lost.push(LostChunks { nchunks: nchunk..nchunk + 1, filled, why });
        }
    }
}
