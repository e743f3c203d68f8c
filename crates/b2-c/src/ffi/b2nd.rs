//! Arrays of N dimensions: `b2nd.h`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ops::Range;

use b2_chunk::SpecialKind;

use crate::abi::{
    MAX_BUFFERSIZE, MAX_DIM, b2nd_array_t, blosc2_cparams, blosc2_metalayer, blosc2_schunk, blosc2_storage,
    chunk_cache_s, code,
};
use crate::core::context::special;
use crate::core::error::{Error, Result, ensure};
use crate::core::nd::{self, Dtype, Part, Shapes};
use crate::ffi::memory::{Malloced, copied, copied_text, free};
use crate::ffi::schunk::{self, Full, full};
use crate::ffi::{at, bytes, bytes_mut, guard, length, paths, put, text, values};

/// The most chunks of an array, so that lists of them fit into memory.
const MAX_NCHUNKS: i64 = 1 << 26;

const META: &[u8] = b"b2nd";
const META_BEFORE: &[u8] = b"caterva";

/// What is behind a `b2nd_context_t *`. The first fields are where C-Blosc2 has them, since its own tests read them.
#[repr(C)]
pub(crate) struct Params {
    ndim: i8,
    shape: [i64; MAX_DIM],
    chunkshape: [i32; MAX_DIM],
    blockshape: [i32; MAX_DIM],
    storage: blosc2_storage,
    cparams: blosc2_cparams,
    dparams: crate::abi::blosc2_dparams,
    io: crate::abi::blosc2_io,
    path: Option<CString>,
    shapes: Shapes,
    dtype: Dtype,
    metas: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Params {
    /// Returns the storage, whose pointers are valid while the parameters are.
    fn storage(&mut self) -> blosc2_storage {
        let urlpath = self.path.as_ref().map_or(std::ptr::null_mut(), |path| path.as_ptr().cast_mut());
        blosc2_storage {
            contiguous: self.storage.contiguous,
            urlpath,
            cparams: &mut self.cparams,
            dparams: &mut self.dparams,
            io: &mut self.io,
        }
    }
}

/// # Safety
/// `ctx` is null or from [`b2nd_create_ctx`].
unsafe fn params<'a>(ctx: *mut c_void) -> Result<&'a mut Params> {
    // SAFETY: the caller promises so.
    unsafe { at(ctx.cast()) }
}

/// # Safety
/// `array` is null or from this library, and nobody else uses it for `'a`.
unsafe fn array_at<'a>(array: *const b2nd_array_t) -> Result<Array<'a>> {
    // SAFETY: the caller promises so.
    let c = unsafe { at(array.cast_mut()) }?;
    // SAFETY: an array has its super-chunk.
    let full = unsafe { full(c.sc) }?;
    let mut array = Array { shapes: shapes_in(c)?, itemsize: length(full.c.typesize)?, c, full };
    array.look()?;
    Ok(array)
}

/// An array, as functions work on it.
struct Array<'a> {
    c: &'a mut b2nd_array_t,
    full: &'a mut Full,
    shapes: Shapes,
    itemsize: usize,
}

/// Takes the shapes from what C sees.
fn shapes_in(c: &b2nd_array_t) -> Result<Shapes> {
    let n = length(c.ndim)?;
    ensure(n <= MAX_DIM, code::INVALID_PARAM)?;
    Ok(Shapes {
        shape: c.shape[..n].to_vec(),
        chunk: c.chunkshape[..n].to_vec(),
        block: c.blockshape[..n].to_vec(),
    })
}

/// Reads the metalayer of an array.
fn meta_of(full: &mut Full) -> Result<Option<(Shapes, Option<Dtype>)>> {
    let metas = full.store().metas()?;
    let find = |name: &[u8]| metas.iter().find(|meta| meta.0 == name);
    let Some((_, meta)) = find(META).or_else(|| find(META_BEFORE)) else { return Ok(None) };
    let (shapes, dtype, _) = nd::deserialize(meta)?;
    Ok(Some((shapes, dtype)))
}

/// Returns the shapes of a super-chunk that holds an array.
pub(crate) fn shapes_of(full: &mut Full) -> Result<Option<Shapes>> {
    Ok(meta_of(full)?.map(|(shapes, _)| shapes))
}

fn fixed<T: Copy>(list: &[T], rest: T) -> [T; MAX_DIM] {
    let mut all = [rest; MAX_DIM];
    all.iter_mut().zip(list).for_each(|(to, from)| *to = *from);
    all
}

/// Shows C the shapes of an array, and all that follows from them.
fn show(c: &mut b2nd_array_t, shapes: &Shapes) {
    let (ext, ext_chunk) = (shapes.ext(), shapes.ext_chunk());
    c.ndim = shapes.ndim() as i8;
    c.shape = fixed(&shapes.shape, 1);
    c.chunkshape = fixed(&shapes.chunk, 1);
    c.blockshape = fixed(&shapes.block, 1);
    c.extshape = fixed(&ext, 1);
    c.extchunkshape = fixed(&ext_chunk, 1);
    c.nitems = shapes.nitems();
    c.chunknitems = shapes.chunk64().iter().product::<i64>() as i32;
    c.extnitems = ext.iter().product();
    c.blocknitems = shapes.block_nitems() as i32;
    c.extchunknitems = shapes.chunk_stored();
    c.item_array_strides = fixed(&nd::strides(&shapes.shape), 0);
    c.item_chunk_strides = fixed(&nd::strides(&shapes.chunk64()), 0);
    c.item_extchunk_strides = fixed(&nd::strides(&ext_chunk), 0);
    c.item_block_strides = fixed(&nd::strides(&shapes.block64()), 0);
    c.block_chunk_strides = fixed(&nd::strides(&shapes.blocks()), 0);
    c.chunk_array_strides = fixed(&nd::strides(&shapes.grid()), 0);
    c.chunk_cache.nchunk = -1;
}

/// Makes the structure of an array over a super-chunk.
fn wrap(
    sc: *mut blosc2_schunk,
    full: &mut Full,
    shapes: &Shapes,
    dtype: Option<&Dtype>,
) -> Result<*mut b2nd_array_t> {
    let text = match dtype {
        Some((text, _)) => copied_text(&CString::new(text.clone()).map_err(|_| Error(code::FAILURE))?)?,
        None => std::ptr::null_mut(),
    };
    let mut array = Box::new(b2nd_array_t {
        sc,
        shape: [1; MAX_DIM],
        chunkshape: [1; MAX_DIM],
        extshape: [1; MAX_DIM],
        blockshape: [1; MAX_DIM],
        extchunkshape: [1; MAX_DIM],
        nitems: 0,
        chunknitems: 0,
        extnitems: 0,
        blocknitems: 0,
        extchunknitems: 0,
        ndim: 0,
        chunk_cache: chunk_cache_s { data: std::ptr::null_mut(), nchunk: -1 },
        item_array_strides: [0; MAX_DIM],
        item_chunk_strides: [0; MAX_DIM],
        item_extchunk_strides: [0; MAX_DIM],
        item_block_strides: [0; MAX_DIM],
        block_chunk_strides: [0; MAX_DIM],
        chunk_array_strides: [0; MAX_DIM],
        dtype: text,
        dtype_format: dtype.map_or(0, |dtype| dtype.1),
        last_tick: full.c.change_tick,
    });
    show(&mut array, shapes);
    full.set_blockshape(&shapes.block)?;
    Ok(Box::into_raw(array))
}

/// Makes an array over a super-chunk that has the metalayer.
fn of_schunk(sc: *mut blosc2_schunk, full: &mut Full) -> Result<*mut b2nd_array_t> {
    let (shapes, dtype) = meta_of(full)?.ok_or(Error(code::METALAYER_NOT_FOUND))?;
    let itemsize = i64::from(full.c.typesize);
    let shapes = Shapes::new(&shapes.shape, &shapes.chunk, &shapes.block, itemsize)?;
    wrap(sc, full, &shapes, dtype.as_ref())
}

/// Finishes a super-chunk as an array.
fn finish(
    full: Box<Full>,
    array: impl FnOnce(*mut blosc2_schunk, &mut Full) -> Result<*mut b2nd_array_t>,
) -> Result<*mut b2nd_array_t> {
    let sc: *mut blosc2_schunk = Box::into_raw(full).cast();
    // SAFETY: it was just made.
    let result = unsafe { self::full(sc) }.and_then(|full| array(sc, full));
    if result.is_err() {
        // SAFETY: nobody else knows it.
        unsafe { schunk::blosc2_schunk_free(sc) };
    }
    result
}

/// Makes all that `work` changes one commit.
///
/// # Safety
/// `array` is null or an array, and nobody else uses it.
unsafe fn together<T>(array: *mut b2nd_array_t, work: impl FnOnce(&mut Array<'_>) -> Result<T>) -> Result<T> {
    // SAFETY: the caller promises so.
    let sc = unsafe { at(array) }?.sc;
    // SAFETY: an array has its super-chunk.
    let full = unsafe { full(sc) }?;
    full.refresh()?;
    let result = full.together(|_| {
        // SAFETY: as above.
        let mut array = unsafe { array_at(array) }?;
        work(&mut array)
    });
    // SAFETY: as above; after an error this takes the old shape again.
    drop(unsafe { array_at(array) });
    result
}

impl Array<'_> {
    /// Takes a new shape from the file where another handle has changed it. Returns whether it was changed.
    fn look(&mut self) -> Result<bool> {
        self.full.refresh()?;
        if self.c.last_tick == self.full.c.change_tick || self.full.c.view {
            return Ok(false);
        }
        self.c.last_tick = self.full.c.change_tick;
        let Some((shapes, _)) = meta_of(self.full)? else { return Ok(false) };
        let same = shapes.chunk == self.shapes.chunk && shapes.block == self.shapes.block;
        ensure(same && shapes.ndim() == self.shapes.ndim(), code::DATA)?;
        if shapes.shape == self.shapes.shape {
            return Ok(false);
        }
        self.shapes = Shapes::new(&shapes.shape, &shapes.chunk, &shapes.block, self.itemsize as i64)?;
        show(self.c, &self.shapes);
        Ok(true)
    }

    fn chunk_nbytes(&self) -> Result<usize> {
        let nbytes = length(self.shapes.chunk_stored())?.saturating_mul(self.itemsize);
        ensure(nbytes <= MAX_BUFFERSIZE as usize, code::MAX_BUFSIZE_EXCEEDED)?;
        Ok(nbytes)
    }

    fn block_nbytes(&self) -> usize {
        self.shapes.block_nitems() as usize * self.itemsize
    }

    /// The box of a chunk that a box of the array touches: its start and end in the array.
    fn overlap(&self, nchunk: i64, start: &[i64], stop: &[i64]) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
        let origin = self.shapes.chunk_start(nchunk);
        let from = origin.iter().zip(start).map(|(at, start)| *at.max(start)).collect();
        let ends = origin.iter().zip(&self.shapes.chunk).map(|(at, len)| at + i64::from(*len));
        let to = ends
            .zip(stop)
            .zip(&self.shapes.shape)
            .map(|((end, stop), len)| end.min(*stop).min(*len))
            .collect();
        (origin, from, to)
    }

    /// The blocks of a chunk that a box of it touches: their numbers, and where they start in the chunk.
    fn blocks(&self, from: &[i64], to: &[i64]) -> Vec<(usize, Vec<i64>)> {
        let block = self.shapes.block64();
        let ranges: Vec<Range<i64>> =
            (0..block.len()).map(|axis| from[axis] / block[axis]..(to[axis] - 1) / block[axis] + 1).collect();
        let strides = nd::strides(&self.shapes.blocks());
        let mut blocks = Vec::new();
        nd::for_each_index(&ranges, &mut |index| {
            let number = index.iter().zip(&strides).map(|(at, stride)| at * stride).sum::<i64>();
            blocks.push((number as usize, index.iter().zip(&block).map(|(at, len)| at * len).collect()));
        });
        blocks
    }

    /// Copies a box of the array into a buffer of the shape `room`.
    fn read(&mut self, start: &[i64], stop: &[i64], buffer: &mut [u8], room: &[i64]) -> Result<()> {
        self.check(start, stop)?;
        let mut plain = Vec::new();
        for nchunk in nd::chunks_of(&self.shapes, start, stop) {
            let (origin, from, to) = self.overlap(nchunk, start, stop);
            let local =
                |at: &[i64]| -> Vec<i64> { at.iter().zip(&origin).map(|(at, origin)| at - origin).collect() };
            let (first, last) = (local(&from), local(&to));
            let blocks = self.blocks(&first, &last);
            let whole = self.shapes.blocks().iter().product::<i64>() as usize;
            // Decompressing a chunk as a whole uses all threads.
            let all = blocks.len() == whole || blocks.len() * 2 > whole && whole > 4;
            let (size, shape) = (self.block_nbytes(), self.shapes.block64());
            if all {
                let nbytes = self.chunk_nbytes()?;
                let plain = b2_core::memory::sized(&mut plain, nbytes)?;
                let got = self.full.decompress(length(nchunk)?, plain)?;
                ensure(got == nbytes, code::DATA)?;
            }
            for (nblock, block_start) in blocks {
                let block = if all {
                    plain.get(nblock * size..(nblock + 1) * size).ok_or(Error(code::DATA))?
                } else {
                    let block = b2_core::memory::sized(&mut plain, size)?;
                    self.full.read(length(nchunk)?, nblock * size..(nblock + 1) * size, block)?;
                    &*block
                };
                let n = shape.len();
                let begin: Vec<i64> = (0..n).map(|axis| first[axis].max(block_start[axis])).collect();
                let end: Vec<i64> =
                    (0..n).map(|axis| last[axis].min(block_start[axis] + shape[axis])).collect();
                let lens: Vec<i64> = begin.iter().zip(&end).map(|(begin, end)| end - begin).collect();
                let in_block: Vec<i64> =
                    begin.iter().zip(&block_start).map(|(at, start)| at - start).collect();
                let in_buffer: Vec<i64> =
                    (0..n).map(|axis| begin[axis] + origin[axis] - start[axis]).collect();
                let from = Part { shape: &shape, start: &in_block };
                nd::copy(&lens, self.itemsize, block, from, buffer, Part { shape: room, start: &in_buffer })?;
            }
        }
        Ok(())
    }

    fn check(&self, start: &[i64], stop: &[i64]) -> Result<()> {
        let inside = (0..self.shapes.ndim()).all(|axis| {
            start[axis] >= 0 && start[axis] <= stop[axis] && stop[axis] <= self.shapes.shape[axis]
        });
        ensure(inside, code::INVALID_PARAM)
    }

    /// Puts a box of a buffer into the bytes of a chunk.
    fn fill(
        &self,
        plain: &mut [u8],
        (origin, from, to): (&[i64], &[i64], &[i64]),
        buffer: &[u8],
        room: Part<'_>,
    ) -> Result<()> {
        let local =
            |at: &[i64]| -> Vec<i64> { at.iter().zip(origin).map(|(at, origin)| at - origin).collect() };
        let (first, last) = (local(from), local(to));
        let (size, shape) = (self.block_nbytes(), self.shapes.block64());
        for (nblock, block_start) in self.blocks(&first, &last) {
            let block = plain.get_mut(nblock * size..(nblock + 1) * size).ok_or(Error(code::DATA))?;
            let n = shape.len();
            let begin: Vec<i64> = (0..n).map(|axis| first[axis].max(block_start[axis])).collect();
            let end: Vec<i64> = (0..n).map(|axis| last[axis].min(block_start[axis] + shape[axis])).collect();
            let lens: Vec<i64> = begin.iter().zip(&end).map(|(begin, end)| end - begin).collect();
            let in_block: Vec<i64> = begin.iter().zip(&block_start).map(|(at, start)| at - start).collect();
            let in_buffer: Vec<i64> =
                (0..n).map(|axis| begin[axis] + origin[axis] - room.start[axis]).collect();
            let from = Part { shape: room.shape, start: &in_buffer };
            nd::copy(&lens, self.itemsize, buffer, from, block, Part { shape: &shape, start: &in_block })?;
        }
        Ok(())
    }

    /// Replaces a box of the array by a buffer of the shape `room`.
    fn write(&mut self, start: &[i64], stop: &[i64], buffer: &[u8], room: &[i64]) -> Result<()> {
        self.check(start, stop)?;
        let nbytes = self.chunk_nbytes()?;
        let mut plain = b2_core::memory::zeroed(nbytes)?;
        for nchunk in nd::chunks_of(&self.shapes, start, stop) {
            let n = length(nchunk)?;
            let (origin, from, to) = self.overlap(nchunk, start, stop);
            // What is beyond the array does not count.
            let whole = (0..origin.len()).all(|axis| {
                let end = (origin[axis] + i64::from(self.shapes.chunk[axis])).min(self.shapes.shape[axis]);
                from[axis] == origin[axis] && to[axis] == end
            });
            if whole {
                plain.fill(0);
            } else {
                let got = self.full.decompress(n, &mut plain)?;
                ensure(got == nbytes, code::DATA)?;
            }
            self.fill(&mut plain, (&origin, &from, &to), buffer, Part { shape: room, start })?;
            let chunk = self.full.compressed(n, &plain)?;
            self.full.update(n, chunk)?;
            self.c.last_tick = self.full.c.change_tick;
        }
        Ok(())
    }

    /// Writes the shape into the metalayer.
    fn save_shape(&mut self) -> Result<()> {
        let dtype = match self.c.dtype.is_null() {
            true => Vec::new(),
            // SAFETY: a C string that belongs to the array.
            false => unsafe { text(self.c.dtype) }?.to_bytes().to_vec(),
        };
        let meta = nd::serialize(&self.shapes, &dtype, self.c.dtype_format);
        let name =
            if self.full.store().metas()?.iter().any(|meta| meta.0 == META) { META } else { META_BEFORE };
        schunk::update_meta(self.full, name, &meta)?;
        show(self.c, &self.shapes);
        self.c.last_tick = self.full.c.change_tick;
        Ok(())
    }

    /// Changes the shape. Along each axis, items are added or removed at `start`, or at the end.
    fn resize(&mut self, shape: &[i64], start: Option<&[i64]>) -> Result<()> {
        ensure(!self.full.c.view, code::INVALID_PARAM)?;
        let old = self.shapes.clone();
        let new = Shapes::new(shape, &old.chunk, &old.block, self.itemsize as i64)?;
        // Shapes of damaged files may ask for more chunks than there are, and for more memory than there is.
        ensure(old.nchunks() == self.full.c.nchunks, code::DATA)?;
        let most = |grid: &[i64]| grid.iter().all(|len| *len <= MAX_NCHUNKS);
        ensure(most(&old.grid()) && most(&new.grid()) && new.nchunks() <= MAX_NCHUNKS, code::INVALID_PARAM)?;
        // Which old chunk is where along each axis.
        let mut axes: Vec<Vec<Option<i64>>> = Vec::new();
        for axis in 0..old.ndim() {
            let (from, to, chunk) = (old.grid()[axis], new.grid()[axis], i64::from(old.chunk[axis]));
            let (len, wanted) = (old.shape[axis], shape[axis]);
            let at = match start {
                Some(start) if len != wanted => {
                    let end = start[axis] + (len - wanted).max(0);
                    ensure(start[axis] >= 0 && start[axis] <= len && end <= len, code::INVALID_PARAM)?;
                    let last = if wanted > len { start[axis] == len } else { end == len };
                    let fits = chunk > 0 && start[axis] % chunk == 0 && (len - wanted) % chunk == 0;
                    ensure(last || fits, code::INVALID_PARAM)?;
                    if last { to.min(from) } else { start[axis] / chunk }
                }
                _ => to.min(from),
            };
            let added = (to - from).max(0);
            axes.push(
                (0..to)
                    .map(|n| match n {
                        n if n < at => Some(n),
                        n if n < at + added => None,
                        n => Some(n - added + (from - to).max(0)),
                    })
                    .collect(),
            );
        }
        let strides = nd::strides(&old.grid());
        let ranges: Vec<Range<i64>> = axes.iter().map(|axis| 0..axis.len() as i64).collect();
        let mut list: Vec<Option<i64>> = Vec::new();
        nd::for_each_index(&ranges, &mut |index| {
            let parts = index.iter().zip(&axes).map(|(at, axis)| axis.get(*at as usize).copied().flatten());
            list.push(parts.zip(&strides).try_fold(0, |sum, (at, stride)| Some(sum + at? * stride)));
        });
        if old.nchunks() == 0 {
            list.iter_mut().for_each(|chunk| *chunk = None);
        }
        self.clear_edges(shape, start)?;
        self.rearrange(&list)?;
        self.shapes = new;
        self.save_shape()
    }

    /// Makes the chunks those of a list: an old one, or a new one of zeros.
    fn rearrange(&mut self, list: &[Option<i64>]) -> Result<()> {
        let mut kept = list.iter().flatten().copied().collect::<Vec<_>>();
        kept.sort_unstable();
        for nchunk in (0..self.full.c.nchunks).rev() {
            if kept.binary_search(&nchunk).is_err() {
                self.full.delete(length(nchunk)?)?;
            }
        }
        let nbytes = self.chunk_nbytes()?;
        let cparams = self.full.cctx()?.cparams;
        let zeros = special(&cparams, SpecialKind::Zeros, &[], nbytes as i32)?;
        for (n, chunk) in list.iter().enumerate() {
            if chunk.is_none() {
                self.full.insert(n, Malloced::copy(zeros.as_bytes())?, code::CHUNK_INSERT)?;
            }
        }
        Ok(())
    }

    /// Sets to zero what a smaller shape leaves in the chunks at its edges, which would otherwise come back with a larger one.
    fn clear_edges(&mut self, shape: &[i64], start: Option<&[i64]>) -> Result<()> {
        for (axis, new) in shape.iter().enumerate() {
            // Chunks that go from the middle leave those at the edge as they are.
            if start.is_some_and(|start| start[axis] != *new) {
                continue;
            }
            let chunk = i64::from(self.shapes.chunk[axis]).max(1);
            let (old, end) = (self.shapes.shape[axis], (new / chunk + 1) * chunk);
            if *new >= old || new % chunk == 0 {
                continue;
            }
            let mut start = vec![0; shape.len()];
            let mut stop = self.shapes.shape.clone();
            (start[axis], stop[axis]) = (*new, old.min(end));
            for nchunk in nd::chunks_of(&self.shapes, &start, &stop) {
                let (_, from, to) = self.overlap(nchunk, &start, &stop);
                let lens: Vec<i64> = from.iter().zip(&to).map(|(from, to)| to - from).collect();
                let mut part =
                    b2_core::memory::zeroed(lens.iter().product::<i64>() as usize * self.itemsize)?;
                self.read(&from, &to, &mut part, &lens)?;
                if part.iter().any(|byte| *byte != 0) {
                    part.fill(0);
                    self.write(&from, &to, &part, &lens)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the selected items of one chunk.
    fn select(
        &mut self,
        nchunk: usize,
        axes: &[&Group],
        places: &[i64],
        plain: &mut [u8],
        buffer: &mut Selected<'_>,
    ) -> Result<()> {
        let size = self.itemsize;
        self.full.decompress(nchunk, plain)?;
        let items: Vec<Range<i64>> = axes.iter().map(|axis| 0..axis.1.len() as i64).collect();
        let mut fits = true;
        nd::for_each_index(&items, &mut |index| {
            let (mut place, mut offset) = (0, 0);
            for ((at, axis), stride) in index.iter().zip(axes).zip(places) {
                let (in_buffer, in_chunk) = axis.1[*at as usize];
                place += in_buffer * stride;
                offset += in_chunk;
            }
            let (place, offset) = (place as usize * size, offset as usize * size);
            fits &= buffer.item(place..place + size, plain.get_mut(offset..offset + size));
        });
        ensure(fits, code::INVALID_PARAM)?;
        if matches!(buffer, Selected::Set(_)) {
            let chunk = self.full.compressed(nchunk, plain)?;
            self.full.update(nchunk, chunk)?;
            self.c.last_tick = self.full.c.change_tick;
        }
        Ok(())
    }

    /// Copies items between the array and a buffer, by lists of positions along each axis.
    fn orthogonal(&mut self, selection: &[&[i64]], room: &[i64], mut buffer: Selected<'_>) -> Result<()> {
        for (axis, list) in selection.iter().enumerate() {
            let len = self.shapes.shape[axis];
            ensure(list.iter().all(|at| (0..len).contains(at)), code::INVALID_PARAM)?;
        }
        // Of each axis and chunk: the places in the buffer, and what they add to the offset in the chunk.
        let groups: Vec<Vec<Group>> = selection
            .iter()
            .enumerate()
            .map(|(axis, list)| {
                let chunk = i64::from(self.shapes.chunk[axis]).max(1);
                let mut groups = std::collections::BTreeMap::<i64, Vec<(i64, i64)>>::new();
                for (place, at) in list.iter().enumerate() {
                    let offset = self.shapes.offset_in_chunk(axis, at % chunk);
                    groups.entry(at / chunk).or_default().push((place as i64, offset));
                }
                groups.into_iter().collect()
            })
            .collect();
        let (grid, places) = (nd::strides(&self.shapes.grid()), nd::strides(room));
        let ranges: Vec<Range<i64>> = groups.iter().map(|groups| 0..groups.len() as i64).collect();
        let mut plain = b2_core::memory::zeroed(self.chunk_nbytes()?)?;
        let mut result = Ok(());
        nd::for_each_index(&ranges, &mut |index| {
            if result.is_err() {
                return;
            }
            let axes: Vec<&Group> =
                index.iter().zip(&groups).filter_map(|(at, groups)| groups.get(*at as usize)).collect();
            let nchunk = axes.iter().zip(&grid).map(|(axis, stride)| axis.0 * stride).sum::<i64>() as usize;
            result = self.select(nchunk, &axes, &places, &mut plain, &mut buffer);
        });
        result
    }
}

/// A chunk along an axis, and the selected positions in it: their places in the buffer, and what they add to the offset.
type Group = (i64, Vec<(i64, i64)>);

/// A box of an array, the shape of its buffer, and the size of that in bytes.
type Boxed<'a> = (&'a [i64], &'a [i64], &'a [i64], usize);

/// Positions along each axis, the shape of their buffer, and its size in bytes.
type Positions<'a> = (Vec<&'a [i64]>, &'a [i64], usize);

/// A buffer to copy items to, or from.
enum Selected<'a> {
    Get(&'a mut [u8]),
    Set(&'a [u8]),
}

impl Selected<'_> {
    fn item(&mut self, place: Range<usize>, item: Option<&mut [u8]>) -> bool {
        match (self, item) {
            (Self::Get(buffer), Some(item)) => {
                buffer.get_mut(place).map(|to| to.copy_from_slice(item)).is_some()
            }
            (Self::Set(buffer), Some(item)) => {
                buffer.get(place).map(|from| item.copy_from_slice(from)).is_some()
            }
            (_, None) => false,
        }
    }
}

/// What a new array is filled with.
enum Fill<'a> {
    Special(c_int),
    Value(&'a [u8]),
    /// All items, in C order.
    Items(&'a [u8]),
    /// A box of another array.
    Of(&'a mut Array<'a>, Vec<i64>),
    Nothing,
}

/// Makes an array.
fn create(params: &mut Params, shapes: &Shapes, fill: Fill<'_>) -> Result<*mut b2nd_array_t> {
    let itemsize = params.cparams.typesize;
    let block = shapes.block_nitems().saturating_mul(i64::from(itemsize));
    params.cparams.blocksize = i32::try_from(block).map_err(|_| Error(code::INVALID_PARAM))?;
    let storage = params.storage();
    // SAFETY: all that it refers to is in `params`.
    let mut full = unsafe { schunk::new(&storage) }?;
    let meta = nd::serialize(shapes, &params.dtype.0, params.dtype.1);
    schunk::add_meta(&mut full, META, &meta)?;
    for (name, value) in &params.metas {
        schunk::add_meta(&mut full, name, value)?;
    }
    full.set_blockshape(&shapes.block)?;
    let dtype = &params.dtype;
    finish(full, |sc, full| {
        let array = wrap(sc, full, shapes, Some(dtype))?;
        // SAFETY: it was just made, and is used by nobody else.
        let filled = unsafe { at(array) }.and_then(|c| full.together(|full| fill_new(c, full, shapes, fill)));
        if let Err(error) = filled {
            // SAFETY: as above.
            unsafe { free_array(array) };
            return Err(error);
        }
        // SAFETY: as above.
        unsafe { at(array) }?.last_tick = full.c.change_tick;
        Ok(array)
    })
}

fn fill_new(c: &mut b2nd_array_t, full: &mut Full, shapes: &Shapes, fill: Fill<'_>) -> Result<()> {
    let itemsize = length(full.c.typesize)?;
    let stored = shapes.chunk_stored();
    let nbytes = i32::try_from(stored * itemsize as i64).map_err(|_| Error(code::MAX_BUFSIZE_EXCEEDED))?;
    ensure(nbytes <= MAX_BUFFERSIZE, code::MAX_BUFSIZE_EXCEEDED)?;
    let nchunks = shapes.nchunks();
    if nchunks == 0 {
        return Ok(());
    }
    let mut of = match fill {
        Fill::Nothing => return Ok(()),
        Fill::Special(kind) => {
            schunk::fill_special(full, nchunks * stored, kind, nbytes)?;
            return Ok(());
        }
        Fill::Value(value) => {
            let cparams = full.cctx()?.cparams;
            let chunk = special(&cparams, SpecialKind::Value, value, nbytes)?;
            for n in 0..length(nchunks)? {
                full.insert(n, Malloced::copy(chunk.as_bytes())?, code::CHUNK_APPEND)?;
            }
            return Ok(());
        }
        other => other,
    };
    let mut plain = b2_core::memory::zeroed(nbytes as usize)?;
    let mut part = Vec::new();
    let (zeros, stop) = (vec![0; shapes.ndim()], shapes.shape.clone());
    for n in 0..nchunks {
        let array = Array { c, full, shapes: shapes.clone(), itemsize };
        let (origin, from, to) = array.overlap(n, &zeros, &stop);
        plain.fill(0);
        match &mut of {
            Fill::Items(items) => {
                array.fill(
                    &mut plain,
                    (&origin, &from, &to),
                    items,
                    Part { shape: &shapes.shape, start: &zeros },
                )?;
            }
            Fill::Of(source, start) => {
                let lens: Vec<i64> = from.iter().zip(&to).map(|(from, to)| to - from).collect();
                let part =
                    b2_core::memory::sized(&mut part, lens.iter().product::<i64>() as usize * itemsize)?;
                let first: Vec<i64> = from.iter().zip(start.iter()).map(|(at, start)| at + start).collect();
                let last: Vec<i64> = to.iter().zip(start.iter()).map(|(at, start)| at + start).collect();
                source.read(&first, &last, part, &lens)?;
                array.fill(&mut plain, (&origin, &from, &to), part, Part { shape: &lens, start: &from })?;
            }
            _ => {}
        }
        let chunk = full.compressed(n as usize, &plain)?;
        full.insert(n as usize, chunk, code::CHUNK_APPEND)?;
    }
    Ok(())
}

/// Frees the structure of an array, not its super-chunk.
///
/// # Safety
/// `array` is from [`wrap`], and nobody uses it any more.
unsafe fn free_array(array: *mut b2nd_array_t) {
    // SAFETY: the caller promises so.
    unsafe {
        let array = Box::from_raw(array);
        free(array.dtype);
        free(array.chunk_cache.data);
    }
}

/// Keeps what a new array is made with.
///
/// # Safety
/// The pointers are null or valid, with `ndim` and `nmetalayers` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_create_ctx(
    b2_storage: *const blosc2_storage,
    ndim: i8,
    shape: *const i64,
    chunkshape: *const i32,
    blockshape: *const i32,
    dtype: *const c_char,
    dtype_format: i8,
    metalayers: *const blosc2_metalayer,
    nmetalayers: i32,
) -> *mut c_void {
    guard(|| {
        let n = length(ndim)?;
        ensure(n <= MAX_DIM, code::INVALID_PARAM)?;
        // SAFETY: the caller promises so.
        let (shape, chunk, block) =
            unsafe { (values(shape, n)?, values(chunkshape, n)?, values(blockshape, n)?) };
        // SAFETY: as above.
        let storage = unsafe { b2_storage.as_ref() }.copied().unwrap_or(blosc2_storage::DEFAULT);
        // SAFETY: as above.
        let (cparams, dparams, io, path) = unsafe {
            (
                storage.cparams.as_ref().copied().unwrap_or(blosc2_cparams::DEFAULT),
                storage.dparams.as_ref().copied().unwrap_or(crate::abi::blosc2_dparams::DEFAULT),
                storage.io.as_ref().copied().unwrap_or(crate::ffi::io::DEFAULT),
                if storage.urlpath.is_null() { None } else { Some(text(storage.urlpath)?.to_owned()) },
            )
        };
        let shapes = Shapes::new(shape, chunk, block, i64::from(cparams.typesize))?;
        let dtype = match dtype.is_null() {
            true => (b"|u1".to_vec(), 0),
            // SAFETY: as above.
            false => (unsafe { text(dtype) }?.to_bytes().to_vec(), dtype_format),
        };
        let mut metas = Vec::new();
        let count = length(nmetalayers)?;
        ensure(count < crate::abi::MAX_METALAYERS, code::INVALID_PARAM)?;
        for n in 0..count {
            // SAFETY: as above.
            let meta = unsafe { at(metalayers.cast_mut().add(n)) }?;
            // SAFETY: as above.
            let (name, value) =
                unsafe { (text(meta.name)?, bytes(meta.content.cast(), length(meta.content_len)?)?) };
            ensure(name.to_bytes().len() <= crate::abi::METALAYER_NAME_MAXLEN, code::INVALID_PARAM)?;
            metas.push((name.to_bytes().to_vec(), value.to_vec()));
        }
        let (shape, chunkshape, blockshape) =
            (fixed(&shapes.shape, 1), fixed(&shapes.chunk, 1), fixed(&shapes.block, 1));
        let params = Params {
            ndim,
            shape,
            chunkshape,
            blockshape,
            storage,
            cparams,
            dparams,
            io,
            path,
            shapes,
            dtype,
            metas,
        };
        Ok(Box::into_raw(Box::new(params)).cast::<c_void>())
    })
}

/// Frees it.
///
/// # Safety
/// `ctx` is null or from [`b2nd_create_ctx`], and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_free_ctx(ctx: *mut c_void) -> c_int {
    if ctx.is_null() {
        return code::NULL_POINTER;
    }
    guard(|| {
        // SAFETY: it came from a box, and the caller gives it back.
        drop(unsafe { Box::from_raw(ctx.cast::<Params>()) });
        Ok(0)
    })
}

/// # Safety
/// `ctx` is null or valid, `array` null or a place for a pointer.
unsafe fn made(ctx: *mut c_void, array: *mut *mut b2nd_array_t, fill: Fill<'_>) -> Result<c_int> {
    ensure(!array.is_null(), code::NULL_POINTER)?;
    // SAFETY: the caller promises so.
    let params = unsafe { params(ctx) }?;
    let shapes = params.shapes.clone();
    let new = create(params, &shapes, fill)?;
    // SAFETY: as above.
    unsafe { put(array, new) };
    Ok(0)
}

/// Makes an array of items that do not matter.
///
/// # Safety
/// `ctx` is null or valid, `array` null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_uninit(ctx: *mut c_void, array: *mut *mut b2nd_array_t) -> c_int {
    // SAFETY: the caller promises so.
    guard(|| unsafe { made(ctx, array, Fill::Special(4)) })
}

/// Makes an array of zeros.
///
/// # Safety
/// As [`b2nd_uninit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_empty(ctx: *mut c_void, array: *mut *mut b2nd_array_t) -> c_int {
    // SAFETY: the caller promises so.
    guard(|| unsafe { made(ctx, array, Fill::Special(1)) })
}

/// Makes an array of zeros.
///
/// # Safety
/// As [`b2nd_uninit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_zeros(ctx: *mut c_void, array: *mut *mut b2nd_array_t) -> c_int {
    // SAFETY: the caller promises so.
    guard(|| unsafe { made(ctx, array, Fill::Special(1)) })
}

/// Makes an array of NaNs, of items of 4 or 8 bytes.
///
/// # Safety
/// As [`b2nd_uninit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_nans(ctx: *mut c_void, array: *mut *mut b2nd_array_t) -> c_int {
    // SAFETY: the caller promises so.
    guard(|| unsafe { made(ctx, array, Fill::Special(2)) })
}

/// Makes an array of one repeated item.
///
/// # Safety
/// As [`b2nd_uninit`]; `fill_value` is an item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_full(
    ctx: *mut c_void,
    array: *mut *mut b2nd_array_t,
    fill_value: *const c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let value = unsafe { bytes(fill_value, length(params(ctx)?.cparams.typesize)?) }?;
        // SAFETY: as above.
        unsafe { made(ctx, array, Fill::Value(value)) }
    })
}

/// Frees an array and its super-chunk.
///
/// # Safety
/// `array` is null or an array that nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_free(array: *mut b2nd_array_t) -> c_int {
    if array.is_null() {
        return 0;
    }
    guard(|| {
        // SAFETY: the caller promises so.
        unsafe {
            let sc = at(array)?.sc;
            free_array(array);
            schunk::blosc2_schunk_free(sc);
        }
        Ok(0)
    })
}

/// Makes an array of a super-chunk, which belongs to it from now on.
///
/// # Safety
/// `schunk` is null or a super-chunk, `array` null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_from_schunk(
    schunk: *mut blosc2_schunk,
    array: *mut *mut b2nd_array_t,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let full = unsafe { full(schunk) }?;
        ensure(!array.is_null(), code::NULL_POINTER)?;
        let new = of_schunk(schunk, full)?;
        // SAFETY: as above.
        unsafe { put(array, new) };
        Ok(0)
    })
}

/// Answers the array as a contiguous frame, in memory that the caller frees.
///
/// # Safety
/// `array` is null or an array, the others are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_to_cframe(
    array: *const b2nd_array_t,
    cframe: *mut *mut u8,
    cframe_len: *mut i64,
    needs_free: *mut bool,
) -> c_int {
    guard(|| {
        ensure(!cframe.is_null() && !cframe_len.is_null() && !needs_free.is_null(), code::NULL_POINTER)?;
        // SAFETY: the caller promises so.
        let mut array = unsafe { array_at(array) }?;
        let mut answer = |full: &mut Full| {
            let frame = schunk::to_frame(full)?;
            // SAFETY: as above.
            unsafe {
                put(cframe, copied(&frame)?);
                put(cframe_len, frame.len() as i64);
                put(needs_free, true);
            }
            Ok(0)
        };
        if array.full.c.view { with_copy(&mut array, &mut answer) } else { answer(array.full) }
    })
}

/// Calls `work` with an array in memory that has the shape of a view, for which the metalayer of its chunks is wrong.
fn with_copy(array: &mut Array<'_>, work: &mut dyn FnMut(&mut Full) -> Result<c_int>) -> Result<c_int> {
    let cparams = blosc2_cparams { prefilter: None, tuner_id: 0, ..array.full.cctx()?.cparams };
    let dtype = match array.c.dtype.is_null() {
        true => (b"|u1".to_vec(), 0),
        // SAFETY: a C string that belongs to the array.
        false => (unsafe { text(array.c.dtype) }?.to_bytes().to_vec(), array.c.dtype_format),
    };
    let mut params = Params {
        ndim: array.shapes.ndim() as i8,
        shape: fixed(&array.shapes.shape, 1),
        chunkshape: fixed(&array.shapes.chunk, 1),
        blockshape: fixed(&array.shapes.block, 1),
        storage: blosc2_storage { contiguous: true, ..blosc2_storage::DEFAULT },
        cparams,
        dparams: crate::abi::blosc2_dparams::DEFAULT,
        io: crate::ffi::io::DEFAULT,
        path: None,
        shapes: array.shapes.clone(),
        dtype,
        metas: Vec::new(),
    };
    let shapes = array.shapes.clone();
    let copy = create(&mut params, &shapes, Fill::Nothing)?;
    let mut copied = || {
        // SAFETY: it was just made, and is used by nobody else.
        let full = unsafe { full(at(copy)?.sc) }?;
        for n in 0..length(array.full.c.nchunks)? {
            let chunk = Malloced::copy(&array.full.store().chunk(n)?)?;
            full.insert(n, chunk, code::CHUNK_APPEND)?;
        }
        work(full)
    };
    let result = copied();
    // SAFETY: as above.
    unsafe { b2nd_free(copy) };
    result
}

/// Opens an array in memory.
///
/// # Safety
/// `cframe` has `cframe_len` bytes; without `copy` they are from `malloc`, and belong to the array from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_from_cframe(
    cframe: *mut u8,
    cframe_len: i64,
    copy: bool,
    array: *mut *mut b2nd_array_t,
) -> c_int {
    guard(|| {
        ensure(!array.is_null(), code::NULL_POINTER)?;
        // SAFETY: the caller promises so.
        let full = unsafe { schunk::from_buffer(cframe, cframe_len, copy) }?;
        let new = finish(full, of_schunk)?;
        // SAFETY: as above.
        unsafe { put(array, new) };
        Ok(0)
    })
}

/// Opens an array in a file or directory.
///
/// # Safety
/// `urlpath` is null or a C string, `array` null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_open(urlpath: *const c_char, array: *mut *mut b2nd_array_t) -> c_int {
    // SAFETY: the caller promises so.
    unsafe { b2nd_open_offset(urlpath, array, 0) }
}

/// Opens an array inside a file.
///
/// # Safety
/// As [`b2nd_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_open_offset(
    urlpath: *const c_char,
    array: *mut *mut b2nd_array_t,
    offset: i64,
) -> c_int {
    guard(|| {
        ensure(!array.is_null(), code::NULL_POINTER)?;
        // SAFETY: the caller promises so.
        let full = unsafe { schunk::open(urlpath, offset, std::ptr::null()) }?;
        let new = finish(full, of_schunk)?;
        // SAFETY: as above.
        unsafe { put(array, new) };
        Ok(0)
    })
}

/// Writes an array as a contiguous frame into a new file.
///
/// # Safety
/// `array` is null or an array, `urlpath` null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_save(array: *const b2nd_array_t, urlpath: *mut c_char) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let (mut array, path) = unsafe { (array_at(array)?, text(urlpath)?) };
        let path = paths::trimmed(paths::without_scheme(path));
        let mut save = |full: &mut Full| {
            let params = full.frame_params()?;
            full.store().save(path, params)?;
            Ok(0)
        };
        if array.full.c.view { with_copy(&mut array, &mut save) } else { save(array.full) }
    })
}

/// Appends an array as a contiguous frame to a file. Answers where it starts.
///
/// # Safety
/// As [`b2nd_save`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_save_append(array: *const b2nd_array_t, urlpath: *const c_char) -> i64 {
    guard(|| {
        // SAFETY: the caller promises so.
        let array = unsafe { array_at(array) }?;
        // SAFETY: as above.
        Ok(unsafe { schunk::blosc2_schunk_append_file(array.c.sc, urlpath) })
    })
}

/// Makes an array of items in C order.
///
/// # Safety
/// `ctx` is null or valid, `array` null or a place for a pointer, `buffer` has `buffersize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_from_cbuffer(
    ctx: *mut c_void,
    array: *mut *mut b2nd_array_t,
    buffer: *const c_void,
    buffersize: i64,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let params = unsafe { params(ctx) }?;
        let need = params.shapes.nitems().saturating_mul(i64::from(params.cparams.typesize));
        ensure(buffersize >= need, code::INVALID_PARAM)?;
        // SAFETY: as above.
        let items = unsafe { bytes(buffer, length(need)?) }?;
        // SAFETY: as above.
        unsafe { made(ctx, array, Fill::Items(items)) }
    })
}

/// Copies all items, in C order.
///
/// # Safety
/// `array` is null or an array, `buffer` has `buffersize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_to_cbuffer(
    array: *const b2nd_array_t,
    buffer: *mut c_void,
    buffersize: i64,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let mut array = unsafe { array_at(array) }?;
        let need = length(array.shapes.nitems())?.saturating_mul(array.itemsize);
        ensure(buffersize >= need as i64, code::INVALID_PARAM)?;
        // SAFETY: as above.
        let buffer = unsafe { bytes_mut(buffer, need) }?;
        let (start, stop) = (vec![0; array.shapes.ndim()], array.shapes.shape.clone());
        array.read(&start, &stop, buffer, &stop)?;
        Ok(0)
    })
}

/// Copies single items, given by their number in C order.
///
/// # Safety
/// `array` is null or an array, there are `ncoords` numbers, `buffer` has `buffersize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_get_sparse_cbuffer(
    array: *const b2nd_array_t,
    ncoords: i64,
    coords: *const i64,
    buffer: *mut c_void,
    buffersize: i64,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let array = unsafe { array_at(array) }?;
        ensure(ncoords >= 0, code::INVALID_PARAM)?;
        if ncoords == 0 {
            return Ok(0);
        }
        ensure(!coords.is_null() && !buffer.is_null(), code::INVALID_PARAM)?;
        // SAFETY: as above.
        let coords = unsafe { values(coords, length(ncoords)?) }?;
        let size = array.itemsize;
        let need = coords.len().saturating_mul(size);
        ensure(buffersize >= need as i64, code::INVALID_PARAM)?;
        // SAFETY: as above.
        let buffer = unsafe { bytes_mut(buffer, need) }?;
        let nitems = array.shapes.nitems();
        ensure(coords.iter().all(|at| (0..nitems).contains(at)), code::INVALID_PARAM)?;
        let (chunks, stored) = (nd::strides(&array.shapes.grid()), array.shapes.chunk_stored());
        let place = |item: i64| {
            let index = nd::index_of(&array.shapes.shape, item);
            index.iter().enumerate().fold(0, |sum, (axis, at)| {
                let chunk = i64::from(array.shapes.chunk[axis]).max(1);
                sum + at / chunk * chunks[axis] * stored + array.shapes.offset_in_chunk(axis, at % chunk)
            })
        };
        let mut order: Vec<(i64, usize)> =
            coords.iter().enumerate().map(|(n, item)| (place(*item), n)).collect();
        order.sort_unstable();
        let mut items = order.iter().map(|(place, n)| (*n, *place as usize));
        schunk::gather(array.full, size, stored as usize * size, &mut items, buffer)?;
        Ok(0)
    })
}

/// Makes an array of a box of another.
///
/// # Safety
/// `ctx` is null or valid, `array` null or a place for a pointer, `src` null or an array; the limits have a value for each
/// dimension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_get_slice(
    ctx: *mut c_void,
    array: *mut *mut b2nd_array_t,
    src: *const b2nd_array_t,
    start: *const i64,
    stop: *const i64,
) -> c_int {
    guard(|| {
        ensure(!array.is_null(), code::NULL_POINTER)?;
        // SAFETY: the caller promises so.
        let (params, mut source) = unsafe { (params(ctx)?, array_at(src)?) };
        let n = source.shapes.ndim();
        // SAFETY: as above.
        let (start, stop) = unsafe { (values(start, n)?, values(stop, n)?) };
        let new = slice(params, &mut source, start, stop)?;
        // SAFETY: as above.
        unsafe { put(array, new) };
        Ok(0)
    })
}

fn slice(
    params: &mut Params,
    source: &mut Array<'_>,
    start: &[i64],
    stop: &[i64],
) -> Result<*mut b2nd_array_t> {
    source.check(start, stop)?;
    let shape: Vec<i64> = start.iter().zip(stop).map(|(start, stop)| stop - start).collect();
    ensure(params.shapes.ndim() == shape.len(), code::INVALID_PARAM)?;
    let shapes = Shapes::new(&shape, &params.shapes.chunk, &params.shapes.block, source.itemsize as i64)?;
    params.shapes = shapes.clone();
    params.cparams.typesize = source.itemsize as i32;
    // SAFETY: the same array, for the call that follows only.
    let again = unsafe { array_at(std::ptr::from_ref(&*source.c)) }?;
    let mut again = again;
    // SAFETY: `create` uses it only while it runs.
    let again: &mut Array<'_> = unsafe { &mut *std::ptr::from_mut(&mut again) };
    create(params, &shapes, Fill::Of(again, start.to_vec()))
}

/// Makes a view of an array without the axes of length 1 that `index` names.
///
/// # Safety
/// `array` is null or an array, `view` null or a place for a pointer, `index` has a value for each dimension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_squeeze_index(
    array: *mut b2nd_array_t,
    view: *mut *mut b2nd_array_t,
    index: *const bool,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let mut array = unsafe { array_at(array) }?;
        // SAFETY: as above.
        let index = unsafe { values(index, array.shapes.ndim()) }?;
        let wrong = index.iter().zip(&array.shapes.shape).any(|(drop, len)| *drop && *len != 1);
        ensure(!wrong, code::INVALID_INDEX)?;
        let axes: Vec<Option<usize>> = (0..index.len()).filter(|axis| !index[*axis]).map(Some).collect();
        // SAFETY: as above.
        unsafe { make_view(&mut array, view, &axes) }
    })
}

/// Makes a view of an array without its axes of length 1.
///
/// # Safety
/// As [`b2nd_squeeze_index`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_squeeze(array: *mut b2nd_array_t, view: *mut *mut b2nd_array_t) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let mut array = unsafe { array_at(array) }?;
        let n = array.shapes.ndim();
        let axes: Vec<Option<usize>> =
            (0..n).filter(|axis| array.shapes.shape[*axis] != 1).map(Some).collect();
        // SAFETY: as above.
        unsafe { make_view(&mut array, view, &axes) }
    })
}

/// Makes a view of an array with axes of length 1 where `axis` says so.
///
/// # Safety
/// `array` is null or an array, `view` null or a place for a pointer, `axis` has `final_dims` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_expand_dims(
    array: *const b2nd_array_t,
    view: *mut *mut b2nd_array_t,
    axis: *const bool,
    final_dims: u8,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let mut array = unsafe { array_at(array) }?;
        let n = usize::from(final_dims);
        ensure(n <= MAX_DIM, code::INVALID_PARAM)?;
        // SAFETY: as above.
        let new = unsafe { values(axis, n) }?;
        let mut old = 0..array.shapes.ndim();
        let axes: Vec<Option<usize>> = new.iter().map(|new| if *new { None } else { old.next() }).collect();
        let added = new.iter().filter(|new| **new).count();
        ensure(added + array.shapes.ndim() == n, code::INVALID_PARAM)?;
        // SAFETY: as above.
        unsafe { make_view(&mut array, view, &axes) }
    })
}

/// # Safety
/// `view` is null or a place for a pointer.
unsafe fn make_view(
    array: &mut Array<'_>,
    view: *mut *mut b2nd_array_t,
    axes: &[Option<usize>],
) -> Result<c_int> {
    ensure(!view.is_null(), code::NULL_POINTER)?;
    let of = &array.shapes;
    let shapes = Shapes {
        shape: axes.iter().map(|axis| axis.map_or(1, |axis| of.shape[axis])).collect(),
        chunk: axes.iter().map(|axis| axis.map_or(1, |axis| of.chunk[axis])).collect(),
        block: axes.iter().map(|axis| axis.map_or(1, |axis| of.block[axis])).collect(),
    };
    let dtype = match array.c.dtype.is_null() {
        true => None,
        // SAFETY: a C string that belongs to the array.
        false => Some((unsafe { text(array.c.dtype) }?.to_bytes().to_vec(), array.c.dtype_format)),
    };
    let full = schunk::view_of(array.full)?;
    let new = finish(full, |sc, full| wrap(sc, full, &shapes, dtype.as_ref()))?;
    // SAFETY: the caller promises so.
    unsafe { put(view, new) };
    Ok(0)
}

/// # Safety
/// The limits and the shape have a value for each dimension.
unsafe fn box_at<'a>(
    array: &Array<'_>,
    (start, stop, shape): (*const i64, *const i64, *const i64),
    buffersize: i64,
) -> Result<Boxed<'a>> {
    let n = array.shapes.ndim();
    // SAFETY: the caller promises so.
    let (start, stop, shape) = unsafe { (values(start, n)?, values(stop, n)?, values(shape, n)?) };
    array.check(start, stop)?;
    let fits = (0..n).all(|axis| stop[axis] - start[axis] <= shape[axis]);
    ensure(fits, code::INVALID_PARAM)?;
    let need = shape.iter().try_fold(array.itemsize as i64, |bytes, len| bytes.checked_mul(*len));
    let need = need.filter(|need| *need <= buffersize).ok_or(Error(code::INVALID_PARAM))?;
    Ok((start, stop, shape, length(need)?))
}

/// Copies a box of an array into a buffer.
///
/// # Safety
/// `array` is null or an array, `buffer` has `buffersize` bytes; the limits and the shape have a value for each dimension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_get_slice_cbuffer(
    array: *const b2nd_array_t,
    start: *const i64,
    stop: *const i64,
    buffer: *mut c_void,
    buffershape: *const i64,
    buffersize: i64,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let mut array = unsafe { array_at(array) }?;
        // SAFETY: as above.
        let (start, stop, shape, need) = unsafe { box_at(&array, (start, stop, buffershape), buffersize) }?;
        // SAFETY: as above.
        array.read(start, stop, unsafe { bytes_mut(buffer, need) }?, shape)?;
        Ok(0)
    })
}

/// Replaces a box of an array by a buffer.
///
/// # Safety
/// As [`b2nd_get_slice_cbuffer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_set_slice_cbuffer(
    buffer: *const c_void,
    buffershape: *const i64,
    buffersize: i64,
    start: *const i64,
    stop: *const i64,
    array: *mut b2nd_array_t,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        unsafe {
            together(array, |array| {
                let (start, stop, shape, need) = box_at(array, (start, stop, buffershape), buffersize)?;
                array.write(start, stop, bytes(buffer, need)?, shape)
            })?;
        }
        Ok(0)
    })
}

/// Copies an array, with other parameters, chunks or blocks.
///
/// # Safety
/// `ctx` is null or valid, `src` null or an array, `array` null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_copy(
    ctx: *mut c_void,
    src: *const b2nd_array_t,
    array: *mut *mut b2nd_array_t,
) -> c_int {
    guard(|| {
        ensure(!array.is_null(), code::NULL_POINTER)?;
        // SAFETY: the caller promises so.
        let (params, mut source) = unsafe { (params(ctx)?, array_at(src)?) };
        let new = copy(params, &mut source)?;
        // SAFETY: as above.
        unsafe { put(array, new) };
        Ok(0)
    })
}

fn copy(params: &mut Params, source: &mut Array<'_>) -> Result<*mut b2nd_array_t> {
    let metas = source.full.store().metas()?;
    for (name, value) in metas {
        let known = name == META || name == META_BEFORE || params.metas.iter().any(|meta| meta.0 == name);
        if !known {
            params.metas.push((name, value));
        }
    }
    if !source.c.dtype.is_null() {
        // SAFETY: a C string that belongs to the array.
        params.dtype = (unsafe { text(source.c.dtype) }?.to_bytes().to_vec(), source.c.dtype_format);
    }
    let own = source.full.cctx()?.cparams;
    let wanted = params.cparams;
    let key = |c: &blosc2_cparams| {
        (
            c.compcode,
            c.compcode_meta,
            c.clevel,
            c.typesize,
            c.use_dict != 0,
            c.splitmode,
            c.filters,
            c.filters_meta,
        )
    };
    let hooked = own.prefilter.is_some()
        || wanted.prefilter.is_some()
        || source.full.dctx()?.dparams.postfilter.is_some();
    let same = params.shapes.chunk == source.shapes.chunk && params.shapes.block == source.shapes.block;
    let (start, stop) = (vec![0; source.shapes.ndim()], source.shapes.shape.clone());
    let new = if same && key(&own) == key(&wanted) && !hooked {
        let shapes = source.shapes.clone();
        params.shapes = shapes.clone();
        let new = create(params, &shapes, Fill::Nothing)?;
        let fill = || {
            // SAFETY: it was just made.
            let full = unsafe { full(at(new)?.sc) }?;
            for n in 0..length(source.full.c.nchunks)? {
                let chunk = Malloced::copy(&source.full.store().chunk(n)?)?;
                full.insert(n, chunk, code::CHUNK_APPEND)?;
            }
            Ok(())
        };
        if let Err(error) = fill() {
            // SAFETY: nobody else knows it.
            unsafe { b2nd_free(new) };
            return Err(error);
        }
        new
    } else {
        slice(params, source, &start, &stop)?
    };
    // SAFETY: it was just made.
    let full = unsafe { full(at(new)?.sc) }?;
    for (name, chunk) in source.full.store().vlmetas()? {
        let value = b2_chunk::Chunk::from_bytes(chunk.clone())?.decompress_bytes()?;
        full.store().set_vlmeta(&name, chunk, &value)?;
    }
    full.show_metas()?;
    // SAFETY: as above.
    unsafe { at(new)? }.last_tick = full.c.change_tick;
    Ok(new)
}

/// Joins two arrays along an axis: into a new array or, without `copy`, onto the first.
///
/// # Safety
/// `ctx` is null or valid, the sources are null or arrays, `array` is null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_concatenate(
    ctx: *mut c_void,
    src1: *const b2nd_array_t,
    src2: *const b2nd_array_t,
    axis: i8,
    copy: bool,
    array: *mut *mut b2nd_array_t,
) -> c_int {
    guard(|| {
        ensure(!array.is_null(), code::NULL_POINTER)?;
        // SAFETY: the caller promises so.
        let (params, mut first) = unsafe { (params(ctx)?, array_at(src1)?) };
        // SAFETY: as above.
        let second = unsafe { array_at(src2) }?;
        ensure(second.shapes.nchunks() == second.full.c.nchunks, code::DATA)?;
        let second_shapes = second.shapes;
        let axis = length(axis)?;
        let n = first.shapes.ndim();
        ensure(axis < n && second_shapes.ndim() == n, code::INVALID_PARAM)?;
        let other = |at: usize| at != axis && first.shapes.shape[at] != second_shapes.shape[at];
        ensure(!(0..n).any(other), code::INVALID_PARAM)?;
        // SAFETY: as above.
        ensure(unsafe { array_at(src2) }?.itemsize == first.itemsize, code::INVALID_PARAM)?;
        let offset = first.shapes.shape[axis];
        let result = if copy {
            params.shapes.shape.clone_from(&first.shapes.shape);
            ensure(params.shapes.ndim() == n, code::INVALID_PARAM)?;
            self::copy(params, &mut first)?
        } else {
            src1.cast_mut()
        };
        drop(first);
        let join = || -> Result<()> {
            // SAFETY: as above, or just made.
            let mut to = unsafe { array_at(result) }?;
            let mut shape = to.shapes.shape.clone();
            shape[axis] += second_shapes.shape[axis];
            to.resize(&shape, None)?;
            let zeros = vec![0; n];
            // By chunks of the second array, so that no more is in memory.
            for nchunk in nd::chunks_of(&second_shapes, &zeros, &second_shapes.shape) {
                // SAFETY: as above.
                let mut from = unsafe { array_at(src2) }?;
                let (_, start, stop) = from.overlap(nchunk, &zeros, &second_shapes.shape);
                let lens: Vec<i64> = start.iter().zip(&stop).map(|(start, stop)| stop - start).collect();
                let mut part =
                    b2_core::memory::zeroed(lens.iter().product::<i64>() as usize * from.itemsize)?;
                from.read(&start, &stop, &mut part, &lens)?;
                let (mut start, mut stop) = (start, stop);
                start[axis] += offset;
                stop[axis] += offset;
                to.write(&start, &stop, &part, &lens)?;
            }
            Ok(())
        };
        if let Err(error) = join() {
            if copy {
                // SAFETY: nobody else knows it.
                unsafe { b2nd_free(result) };
            }
            return Err(error);
        }
        // SAFETY: as above.
        unsafe { put(array, result) };
        Ok(0)
    })
}

/// Prints the metalayer of an array.
///
/// # Safety
/// `array` is null or an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_print_meta(array: *const b2nd_array_t) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let array = unsafe { array_at(array) }?;
        let list = |lens: &[i64]| lens.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let shapes = &array.shapes;
        println!("b2nd metalayer parameters:");
        println!(" Ndim:       {}", shapes.ndim());
        println!(" shape:      {}", list(&shapes.shape));
        println!(" chunkshape: {}", list(&shapes.chunk64()));
        if !array.c.dtype.is_null() {
            // SAFETY: a C string that belongs to the array.
            println!(" dtype:      {}", unsafe { text(array.c.dtype) }?.to_string_lossy());
        }
        println!(" blockshape: {}", list(&shapes.block64()));
        Ok(0)
    })
}

/// Changes the shape of an array, at the end of each axis or at `start`. New items are zeros.
///
/// # Safety
/// `array` is null or an array, `new_shape` has a value for each dimension, and so has `start`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_resize(
    array: *mut b2nd_array_t,
    new_shape: *const i64,
    start: *const i64,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        unsafe {
            together(array, |array| {
                let n = array.shapes.ndim();
                let start = if start.is_null() { None } else { Some(values(start, n)?) };
                array.resize(values(new_shape, n)?, start)
            })?;
        }
        Ok(0)
    })
}

/// Takes a new shape from the file, where another handle has changed it. Answers 1 if it has.
///
/// # Safety
/// `array` is null or an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_refresh(array: *mut b2nd_array_t) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let before = unsafe { at(array) }?.shape;
        // SAFETY: as above.
        let array = unsafe { array_at(array) }?;
        Ok(c_int::from(array.c.shape != before))
    })
}

/// # Safety
/// `buffer` has `buffersize` bytes.
unsafe fn insert(
    array: &mut Array<'_>,
    buffer: *const c_void,
    buffersize: i64,
    axis: i8,
    at: i64,
) -> Result<()> {
    let axis = length(axis)?;
    let n = array.shapes.ndim();
    ensure(axis < n && (0..=array.shapes.shape[axis]).contains(&at), code::INVALID_PARAM)?;
    let others = (0..n).filter(|other| *other != axis).map(|other| array.shapes.shape[other]);
    let row = others.product::<i64>().saturating_mul(array.itemsize as i64);
    ensure(row > 0 && buffersize >= 0 && buffersize % row == 0, code::INVALID_PARAM)?;
    // SAFETY: the caller promises so.
    let items = unsafe { bytes(buffer, length(buffersize)?) }?;
    let mut shape = array.shapes.shape.clone();
    let count = buffersize / row;
    shape[axis] += count;
    let mut start = vec![0; n];
    start[axis] = at;
    array.resize(&shape, Some(&start))?;
    let (mut stop, mut lens) = (shape.clone(), shape);
    stop[axis] = at + count;
    lens[axis] = count;
    array.write(&start, &stop, items, &lens)
}

/// Inserts items along an axis.
///
/// # Safety
/// `array` is null or an array, `buffer` has `buffersize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_insert(
    array: *mut b2nd_array_t,
    buffer: *const c_void,
    buffersize: i64,
    axis: i8,
    insert_start: i64,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        unsafe { together(array, |array| insert(array, buffer, buffersize, axis, insert_start)) }?;
        Ok(0)
    })
}

/// Appends items along an axis.
///
/// # Safety
/// As [`b2nd_insert`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_append(
    array: *mut b2nd_array_t,
    buffer: *const c_void,
    buffersize: i64,
    axis: i8,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        unsafe {
            together(array, |array| {
                let end = *array.shapes.shape.get(length(axis)?).ok_or(Error(code::INVALID_PARAM))?;
                insert(array, buffer, buffersize, axis, end)
            })?;
        }
        Ok(0)
    })
}

fn delete(array: &mut Array<'_>, axis: i8, delete_start: i64, delete_len: i64) -> Result<()> {
    let axis = length(axis)?;
    ensure(axis < array.shapes.ndim() && delete_start >= 0 && delete_len >= 0, code::INVALID_PARAM)?;
    let mut shape = array.shapes.shape.clone();
    shape[axis] =
        shape[axis].checked_sub(delete_len).filter(|len| *len >= 0).ok_or(Error(code::INVALID_PARAM))?;
    let mut start = vec![0; shape.len()];
    start[axis] = delete_start;
    array.resize(&shape, Some(&start))
}

/// Removes items along an axis.
///
/// # Safety
/// `array` is null or an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_delete(
    array: *mut b2nd_array_t,
    axis: i8,
    delete_start: i64,
    delete_len: i64,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        unsafe { together(array, |array| delete(array, axis, delete_start, delete_len)) }?;
        Ok(0)
    })
}

/// # Safety
/// The pointers have a value for each dimension, and the lists the lengths given.
unsafe fn selection_at<'a>(
    array: &Array<'_>,
    selection: *mut *mut i64,
    selection_size: *mut i64,
    buffershape: *mut i64,
    buffersize: i64,
) -> Result<Positions<'a>> {
    let n = array.shapes.ndim();
    // SAFETY: the caller promises so.
    let (lists, sizes, shape) =
        unsafe { (values(selection, n)?, values(selection_size, n)?, values(buffershape, n)?) };
    let mut selected = Vec::new();
    for ((list, size), len) in lists.iter().zip(sizes).zip(shape) {
        ensure(size <= len, code::INVALID_PARAM)?;
        // SAFETY: as above.
        selected.push(unsafe { values(*list, length(*size)?) }?);
    }
    let need = shape.iter().try_fold(array.itemsize as i64, |bytes, len| bytes.checked_mul(*len));
    let need = need.filter(|need| (0..=buffersize).contains(need)).ok_or(Error(code::INVALID_PARAM))?;
    Ok((selected, shape, length(need)?))
}

/// Copies the items at all combinations of positions along each axis into a buffer.
///
/// # Safety
/// `array` is null or an array; the others are as long as the dimensions and the sizes say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_get_orthogonal_selection(
    array: *const b2nd_array_t,
    selection: *mut *mut i64,
    selection_size: *mut i64,
    buffer: *mut c_void,
    buffershape: *mut i64,
    buffersize: i64,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        let mut array = unsafe { array_at(array) }?;
        // SAFETY: as above.
        let (selected, shape, need) =
            unsafe { selection_at(&array, selection, selection_size, buffershape, buffersize) }?;
        // SAFETY: as above.
        array.orthogonal(&selected, shape, Selected::Get(unsafe { bytes_mut(buffer, need) }?))?;
        Ok(0)
    })
}

/// Replaces the items at all combinations of positions along each axis.
///
/// # Safety
/// As [`b2nd_get_orthogonal_selection`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_set_orthogonal_selection(
    array: *mut b2nd_array_t,
    selection: *mut *mut i64,
    selection_size: *mut i64,
    buffer: *const c_void,
    buffershape: *mut i64,
    buffersize: i64,
) -> c_int {
    guard(|| {
        // SAFETY: the caller promises so.
        unsafe {
            together(array, |array| {
                let (selected, shape, need) =
                    selection_at(array, selection, selection_size, buffershape, buffersize)?;
                array.orthogonal(&selected, shape, Selected::Set(bytes(buffer, need)?))
            })?;
        }
        Ok(0)
    })
}

/// Encodes the metalayer of an array, into memory that the caller frees. Answers its length.
///
/// # Safety
/// The pointers are null or valid, with a value for each dimension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_serialize_meta(
    ndim: i8,
    shape: *const i64,
    chunkshape: *const i32,
    blockshape: *const i32,
    dtype: *const c_char,
    dtype_format: i8,
    smeta: *mut *mut u8,
) -> c_int {
    guard(|| {
        let n = length(ndim)?;
        ensure(n <= MAX_DIM && dtype_format >= 0, code::INVALID_PARAM)?;
        // SAFETY: the caller promises so.
        let (shape, chunk, block) =
            unsafe { (values(shape, n)?, values(chunkshape, n)?, values(blockshape, n)?) };
        // SAFETY: as above.
        let dtype = if dtype.is_null() { b"|u1" } else { unsafe { text(dtype) }?.to_bytes() };
        let shapes = Shapes { shape: shape.to_vec(), chunk: chunk.to_vec(), block: block.to_vec() };
        let meta = nd::serialize(&shapes, dtype, dtype_format);
        ensure(!smeta.is_null(), code::NULL_POINTER)?;
        // SAFETY: as above.
        unsafe { put(smeta, copied(&meta)?) };
        Ok(meta.len() as c_int)
    })
}

/// Decodes the metalayer of an array. Answers its length; the caller frees the dtype.
///
/// # Safety
/// `smeta` has `smeta_len` bytes; the shapes have room for 16 lengths; `dtype` and `dtype_format` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_deserialize_meta(
    smeta: *const u8,
    smeta_len: i32,
    ndim: *mut i8,
    shape: *mut i64,
    chunkshape: *mut i32,
    blockshape: *mut i32,
    dtype: *mut *mut c_char,
    dtype_format: *mut i8,
) -> c_int {
    guard(|| {
        let nulls = smeta.is_null()
            || ndim.is_null()
            || shape.is_null()
            || chunkshape.is_null()
            || blockshape.is_null();
        ensure(!nulls, code::NULL_POINTER)?;
        // SAFETY: the caller promises so.
        unsafe {
            put(dtype, std::ptr::null_mut());
            put(dtype_format, 0);
        }
        ensure(smeta_len > 0, code::FAILURE)?;
        // SAFETY: as above.
        let meta = unsafe { bytes(smeta.cast(), length(smeta_len)?) }?;
        let (shapes, text, len) = nd::deserialize(meta)?;
        let bare = meta.len() - text.as_ref().map_or(0, |(text, _)| 6 + text.len()) - (meta.len() - len);
        // SAFETY: as above.
        unsafe {
            put(ndim, shapes.ndim() as i8);
            for axis in 0..shapes.ndim() {
                put(shape.add(axis), shapes.shape[axis]);
                put(chunkshape.add(axis), shapes.chunk[axis]);
                put(blockshape.add(axis), shapes.block[axis]);
            }
            if dtype.is_null() || dtype_format.is_null() {
                return Ok(bare as c_int);
            }
            if let Some((text, format)) = text {
                let text: Vec<u8> = text.into_iter().chain([0]).collect();
                put(dtype, copied(&text)?.cast());
                put(dtype_format, format);
            }
        }
        Ok(len as c_int)
    })
}

/// As [`b2nd_copy_buffer2`], for items of up to 255 bytes.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_copy_buffer(
    ndim: i8,
    itemsize: u8,
    src: *const c_void,
    src_pad_shape: *const i64,
    src_start: *const i64,
    src_stop: *const i64,
    dst: *mut c_void,
    dst_pad_shape: *const i64,
    dst_start: *const i64,
) -> c_int {
    // SAFETY: the caller promises so.
    unsafe {
        b2nd_copy_buffer2(
            ndim,
            i32::from(itemsize),
            src,
            src_pad_shape,
            src_start,
            src_stop,
            dst,
            dst_pad_shape,
            dst_start,
        )
    }
}

/// Copies a box of one buffer into another.
///
/// # Safety
/// The buffers have the shapes given, and do not overlap; shapes and limits have `ndim` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn b2nd_copy_buffer2(
    ndim: i8,
    itemsize: i32,
    src: *const c_void,
    src_pad_shape: *const i64,
    src_start: *const i64,
    src_stop: *const i64,
    dst: *mut c_void,
    dst_pad_shape: *const i64,
    dst_start: *const i64,
) -> c_int {
    guard(|| {
        let (n, size) = (length(ndim)?, length(itemsize)?);
        ensure(n <= MAX_DIM && size > 0, code::INVALID_PARAM)?;
        // SAFETY: the caller promises so.
        let (from_shape, start, stop) =
            unsafe { (values(src_pad_shape, n)?, values(src_start, n)?, values(src_stop, n)?) };
        // SAFETY: as above.
        let (to_shape, to_start) = unsafe { (values(dst_pad_shape, n)?, values(dst_start, n)?) };
        ensure(start.iter().zip(stop).all(|(start, stop)| start <= stop), code::INVALID_PARAM)?;
        let lens: Vec<i64> = start.iter().zip(stop).map(|(start, stop)| stop - start).collect();
        let size_of =
            |shape: &[i64]| shape.iter().try_fold(size as i64, |bytes, len| bytes.checked_mul(*len));
        let (from_len, to_len) = (size_of(from_shape), size_of(to_shape));
        let (Some(from_len), Some(to_len)) = (from_len, to_len) else {
            return Err(Error(code::INVALID_PARAM));
        };
        // SAFETY: as above.
        let (from, to) = unsafe { (bytes(src, length(from_len)?)?, bytes_mut(dst, length(to_len)?)?) };
        let from_part = Part { shape: from_shape, start };
        nd::copy(&lens, size, from, from_part, to, Part { shape: to_shape, start: to_start })?;
        Ok(0)
    })
}
