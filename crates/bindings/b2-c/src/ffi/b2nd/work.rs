//! Reading and changing the items of an array.

use super::*;

impl ArrayHandle<'_> {
    /// Reloads the shape if another handle changed it in the file. Returns whether it did.
    pub(super) fn look(&mut self) -> Result<bool> {
        self.state.refresh()?;
        self.reload()
    }

    /// Reloads the shape if the super-chunk noticed a change. Returns whether it is another one.
    pub(super) fn reload(&mut self) -> Result<bool> {
        if self.c.last_tick.get() == self.state.c.change_tick.get() || self.state.c.view.get() {
            return Ok(false);
        }
        self.c.last_tick.set(self.state.c.change_tick.get());
        let Some((shapes, _)) = meta_of(self.state)? else { return Ok(false) };
        let same = shapes.chunk == self.shapes.chunk && shapes.block == self.shapes.block;
        ensure(same && shapes.ndim() == self.shapes.ndim(), code::DATA)?;
        if shapes.shape == self.shapes.shape {
            return Ok(false);
        }
        self.shapes = Shapes::new(&shapes.shape, &shapes.chunk, &shapes.block, self.itemsize as i64)?;
        show(self.c, &self.shapes);
        Ok(true)
    }

    pub(super) fn chunk_nbytes(&self) -> Result<usize> {
        let nbytes = length(self.shapes.chunk_stored())?.saturating_mul(self.itemsize);
        ensure(nbytes <= MAX_BUFFERSIZE as usize, code::MAX_BUFSIZE_EXCEEDED)?;
        Ok(nbytes)
    }

    pub(super) fn block_nbytes(&self) -> usize {
        self.shapes.block_nitems() as usize * self.itemsize
    }

    /// The part of a chunk that overlaps a box of the array: start and end in the array.
    pub(super) fn overlap(&self, nchunk: i64, start: &[i64], stop: &[i64]) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
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

    /// The blocks of a chunk that overlap a box: their numbers and starts in the chunk.
    pub(super) fn blocks(&self, from: &[i64], to: &[i64]) -> Vec<(usize, Vec<i64>)> {
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
    pub(super) fn read(
        &mut self,
        start: &[i64],
        stop: &[i64],
        buffer: &mut [u8],
        room: &[i64],
    ) -> Result<()> {
        self.check(start, stop)?;
        let mut plain = Vec::new();
        for nchunk in nd::chunks_of(&self.shapes, start, stop) {
            let (origin, from, to) = self.overlap(nchunk, start, stop);
            let local =
                |at: &[i64]| -> Vec<i64> { at.iter().zip(&origin).map(|(at, origin)| at - origin).collect() };
            let (first, last) = (local(&from), local(&to));
            let blocks = self.blocks(&first, &last);
            let whole = self.shapes.blocks().iter().product::<i64>() as usize;
            // Decompressing a whole chunk uses all threads.
            let all = blocks.len() == whole || blocks.len() * 2 > whole && whole > 4;
            let (size, shape) = (self.block_nbytes(), self.shapes.block64());
            if all {
                let nbytes = self.chunk_nbytes()?;
                let plain = b2_core::memory::sized(&mut plain, nbytes)?;
                let got = self.state.decompress(length(nchunk)?, plain)?;
                ensure(got == nbytes, code::DATA)?;
            }
            for (nblock, block_start) in blocks {
                let block = if all {
                    plain.get(nblock * size..(nblock + 1) * size).ok_or(Error(code::DATA))?
                } else {
                    let block = b2_core::memory::sized(&mut plain, size)?;
                    self.state.read(length(nchunk)?, nblock * size..(nblock + 1) * size, block)?;
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
                let from = BoxPart { shape: &shape, start: &in_block };
                nd::copy(
                    &lens,
                    self.itemsize,
                    block,
                    from,
                    buffer,
                    BoxPart { shape: room, start: &in_buffer },
                )?;
            }
        }
        Ok(())
    }

    pub(super) fn check(&self, start: &[i64], stop: &[i64]) -> Result<()> {
        let inside = (0..self.shapes.ndim()).all(|axis| {
            start[axis] >= 0 && start[axis] <= stop[axis] && stop[axis] <= self.shapes.shape[axis]
        });
        ensure(inside, code::INVALID_PARAM)
    }

    /// Copies a box of a buffer into the bytes of a chunk.
    pub(super) fn fill(
        &self,
        plain: &mut [u8],
        (origin, from, to): (&[i64], &[i64], &[i64]),
        buffer: &[u8],
        room: BoxPart<'_>,
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
            let from = BoxPart { shape: room.shape, start: &in_buffer };
            nd::copy(&lens, self.itemsize, buffer, from, block, BoxPart { shape: &shape, start: &in_block })?;
        }
        Ok(())
    }

    /// Replaces a box of the array by a buffer of the shape `room`.
    pub(super) fn write(&mut self, start: &[i64], stop: &[i64], buffer: &[u8], room: &[i64]) -> Result<()> {
        self.check(start, stop)?;
        let nbytes = self.chunk_nbytes()?;
        let mut plain = b2_core::memory::zeroed(nbytes)?;
        for nchunk in nd::chunks_of(&self.shapes, start, stop) {
            let n = length(nchunk)?;
            let (origin, from, to) = self.overlap(nchunk, start, stop);
            // The padding does not count.
            let whole = (0..origin.len()).all(|axis| {
                let end = (origin[axis] + i64::from(self.shapes.chunk[axis])).min(self.shapes.shape[axis]);
                from[axis] == origin[axis] && to[axis] == end
            });
            if whole {
                plain.fill(0);
            } else {
                let got = self.state.decompress(n, &mut plain)?;
                ensure(got == nbytes, code::DATA)?;
            }
            self.fill(&mut plain, (&origin, &from, &to), buffer, BoxPart { shape: room, start })?;
            let chunk = self.state.compressed(n, &plain)?;
            self.state.update(n, chunk)?;
            self.c.last_tick.set(self.state.c.change_tick.get());
        }
        Ok(())
    }

    /// Writes the shape to the metalayer.
    pub(super) fn save_shape(&mut self) -> Result<()> {
        let dtype = match self.c.dtype.get().is_null() {
            true => Vec::new(),
            // SAFETY: a C string that belongs to the array.
            false => unsafe { text(self.c.dtype.get()) }?.to_bytes().to_vec(),
        };
        let meta = nd::serialize(&self.shapes, &dtype, self.c.dtype_format.get());
        let name =
            if self.state.store().metas()?.iter().any(|meta| meta.0 == META) { META } else { OLD_META };
        schunk::update_meta(self.state, name, &meta)?;
        show(self.c, &self.shapes);
        self.c.last_tick.set(self.state.c.change_tick.get());
        Ok(())
    }

    /// Changes the shape. Along each axis, items are added or removed at `start`, or at the end.
    pub(super) fn resize(&mut self, shape: &[i64], start: Option<&[i64]>) -> Result<()> {
        ensure(!self.state.c.view.get(), code::INVALID_PARAM)?;
        let old = self.shapes.clone();
        let new = Shapes::new(shape, &old.chunk, &old.block, self.itemsize as i64)?;
        // Shapes of damaged files may require more chunks than exist, and more memory than available.
        ensure(old.nchunks() == self.state.c.nchunks.get(), code::DATA)?;
        let most = |grid: &[i64]| grid.iter().all(|len| *len <= MAX_NCHUNKS);
        ensure(most(&old.grid()) && most(&new.grid()) && new.nchunks() <= MAX_NCHUNKS, code::INVALID_PARAM)?;
        // The old chunk at each position along each axis.
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

    /// Rearranges the chunks by a list of old chunks, or new chunks of zeros.
    pub(super) fn rearrange(&mut self, list: &[Option<i64>]) -> Result<()> {
        let mut kept = list.iter().flatten().copied().collect::<Vec<_>>();
        kept.sort_unstable();
        for nchunk in (0..self.state.c.nchunks.get()).rev() {
            if kept.binary_search(&nchunk).is_err() {
                self.state.delete(length(nchunk)?)?;
            }
        }
        let nbytes = self.chunk_nbytes()?;
        let cparams = self.state.cctx()?.cparams();
        let zeros = special(&cparams, SpecialKind::Zeros, &[], nbytes as i32)?;
        for (n, chunk) in list.iter().enumerate() {
            if chunk.is_none() {
                self.state.insert(n, MallocBytes::copy(zeros.as_bytes())?, code::CHUNK_INSERT)?;
            }
        }
        Ok(())
    }

    /// Zeros the items outside a smaller shape in edge chunks, which would otherwise reappear when it grows.
    fn clear_edges(&mut self, shape: &[i64], start: Option<&[i64]>) -> Result<()> {
        for (axis, new) in shape.iter().enumerate() {
            // Removing chunks in the middle leaves edge chunks unchanged.
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
            self.clear(&start, &stop, true)?;
        }
        Ok(())
    }

    /// Zeros the padding of chunks that a larger shape shows: C-Blosc2 leaves old items there when it shrinks an array.
    /// Chunks that repeat one item show it there, too, as in C: `b2nd_full` creates them.
    pub(super) fn clear_padding(&mut self, shape: &[i64], start: Option<&[i64]>) -> Result<()> {
        ensure(self.shapes.nchunks() == self.state.c.nchunks.get(), code::DATA)?;
        let (old, ext) = (self.shapes.shape.clone(), self.shapes.ext());
        let mut shown = old.clone();
        for axis in 0..shape.len() {
            // Whole chunks that are added in the middle leave edge chunks unchanged.
            if start.is_none_or(|start| start[axis] == old[axis]) {
                shown[axis] = shape[axis].min(ext[axis]).max(old[axis]);
            }
        }
        self.shapes.shape.clone_from(&shown);
        let cleared = (0..shape.len()).filter(|axis| shown[*axis] > old[*axis]).try_for_each(|axis| {
            let mut from = vec![0; shape.len()];
            from[axis] = old[axis];
            self.clear(&from, &shown, false)
        });
        self.shapes.shape = old;
        cleared
    }

    /// Zeros a box, chunk by chunk; with `repeated`, in chunks that repeat one item, too. Chunks in which it has only zeros
    /// stay as they are.
    fn clear(&mut self, start: &[i64], stop: &[i64], repeated: bool) -> Result<()> {
        for nchunk in nd::chunks_of(&self.shapes, start, stop) {
            if !repeated && self.state.store().header(length(nchunk)?)?.0.special().is_some() {
                continue;
            }
            let (_, from, to) = self.overlap(nchunk, start, stop);
            let lens: Vec<i64> = from.iter().zip(&to).map(|(from, to)| to - from).collect();
            let mut part = b2_core::memory::zeroed(lens.iter().product::<i64>() as usize * self.itemsize)?;
            self.read(&from, &to, &mut part, &lens)?;
            if part.iter().any(|byte| *byte != 0) {
                part.fill(0);
                self.write(&from, &to, &part, &lens)?;
            }
        }
        Ok(())
    }

    /// Copies the selected items of one chunk.
    fn select(
        &mut self,
        nchunk: usize,
        axes: &[&ChunkPositions],
        places: &[i64],
        plain: &mut [u8],
        buffer: &mut ItemBuffer<'_>,
    ) -> Result<()> {
        let size = self.itemsize;
        self.state.decompress(nchunk, plain)?;
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
        if matches!(buffer, ItemBuffer::Set(_)) {
            let chunk = self.state.compressed(nchunk, plain)?;
            self.state.update(nchunk, chunk)?;
            self.c.last_tick.set(self.state.c.change_tick.get());
        }
        Ok(())
    }

    /// Copies items between the array and a buffer, given by lists of positions along each axis.
    pub(super) fn orthogonal(
        &mut self,
        selection: &[&[i64]],
        room: &[i64],
        mut buffer: ItemBuffer<'_>,
    ) -> Result<()> {
        for (axis, list) in selection.iter().enumerate() {
            let len = self.shapes.shape[axis];
            ensure(list.iter().all(|at| (0..len).contains(at)), code::INVALID_PARAM)?;
        }
        // For each axis and chunk: positions in the buffer, and their contribution to the offset in the chunk.
        let mut groups: Vec<Vec<ChunkPositions>> = Vec::new();
        for (axis, list) in selection.iter().enumerate() {
            let chunk = i64::from(self.shapes.chunk[axis]).max(1);
            let mut by_chunk = std::collections::BTreeMap::<i64, Vec<(i64, i64)>>::new();
            for (place, at) in list.iter().enumerate() {
                let offset = self.shapes.offset_in_chunk(axis, at % chunk);
                b2_core::memory::push(by_chunk.entry(at / chunk).or_default(), (place as i64, offset))?;
            }
            groups.push(b2_core::memory::collect(by_chunk)?);
        }
        let (grid, places) = (nd::strides(&self.shapes.grid()), nd::strides(room));
        let ranges: Vec<Range<i64>> = groups.iter().map(|groups| 0..groups.len() as i64).collect();
        let mut plain = b2_core::memory::zeroed(self.chunk_nbytes()?)?;
        let mut result = Ok(());
        nd::for_each_index(&ranges, &mut |index| {
            if result.is_err() {
                return;
            }
            let axes: Vec<&ChunkPositions> =
                index.iter().zip(&groups).filter_map(|(at, groups)| groups.get(*at as usize)).collect();
            let nchunk = axes.iter().zip(&grid).map(|(axis, stride)| axis.0 * stride).sum::<i64>() as usize;
            result = self.select(nchunk, &axes, &places, &mut plain, &mut buffer);
        });
        result
    }
}

/// A chunk along an axis, and the selected positions in it: positions in the buffer and their contribution to the
/// offset.
pub(super) type ChunkPositions = (i64, Vec<(i64, i64)>);

/// A buffer to copy items to, or from.
pub(super) enum ItemBuffer<'a> {
    Get(&'a mut [u8]),
    Set(&'a [u8]),
}

impl ItemBuffer<'_> {
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
