//! Reads boxes of items from a file with a whole array, in C or Fortran order.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use b2kit::RegionSource;
use b2kit::frame::ReadAt;
use b2kit::nd::{Region, SharedRegions};

use super::header::nbytes;
use super::transpose::reverse_axes;

/// Runs with gaps of up to this many bytes are read together, since that costs less than another call.
const MAX_GAP: u64 = 16 << 10;
/// Maximum number of bytes to read together.
const MAX_SPAN: u64 = 4 << 20;

/// An array in a file of plain items, read box by box.
pub(crate) struct RawSource {
    bytes: Arc<dyn ReadAt>,
    /// Offset of the first item.
    offset: u64,
    itemsize: usize,
    /// Shape in file order: the last dimension varies fastest.
    file_shape: Vec<u64>,
    fortran_order: bool,
    /// Buffers for reading, one for each thread. They are reused, since fresh memory would have to be mapped.
    buffers: Mutex<Vec<Buffers>>,
}

#[derive(Default)]
struct Buffers {
    /// A box in file order, to be transposed.
    turned: Vec<u8>,
    /// Neighbouring runs, including the gaps between them.
    span: Vec<u8>,
}

impl RawSource {
    /// An array of `shape` whose items start at `offset` of `bytes`. `None` if its size overflows.
    pub(crate) fn new(
        bytes: Arc<dyn ReadAt>,
        offset: u64,
        shape: &[u64],
        itemsize: usize,
        fortran_order: bool,
    ) -> Option<Self> {
        nbytes(shape, itemsize as u64)?.checked_add(offset)?;
        let mut file_shape = shape.to_vec();
        if fortran_order {
            file_shape.reverse();
        }
        Some(Self { bytes, offset, itemsize, file_shape, fortran_order, buffers: Mutex::default() })
    }

    /// Reads the box of size `shape` at item `start` into `dst`, in C order.
    ///
    /// # Errors
    /// Fails if the box is not inside the array, if `dst` has another size, or if reading fails.
    pub(crate) fn read_box(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> io::Result<()> {
        let pool = || self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffers = pool().pop().unwrap_or_default();
        let Buffers { turned, span } = &mut buffers;
        let result = match self.fortran_order {
            false => self.read_in_file_order(start, shape, dst, span),
            true => {
                let start: Vec<u64> = start.iter().rev().copied().collect();
                let file_shape: Vec<u64> = shape.iter().rev().copied().collect();
                turned.resize(dst.len(), 0);
                let read = self.read_in_file_order(&start, &file_shape, turned, span);
                read.map(|()| reverse_axes(turned, dst, shape, self.itemsize))
            }
        };
        pool().push(buffers);
        result
    }

    fn read_in_file_order(
        &self,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
        span: &mut Vec<u8>,
    ) -> io::Result<()> {
        let ndim = self.file_shape.len();
        let inside = start.len() == ndim
            && shape.len() == ndim
            && self
                .file_shape
                .iter()
                .zip(start)
                .zip(shape)
                .all(|((full, start), len)| start.checked_add(*len).is_some_and(|end| end <= *full));
        if !inside || nbytes(shape, self.itemsize as u64) != Some(dst.len() as u64) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "box outside the array"));
        }
        if dst.is_empty() {
            return Ok(());
        }
        // Stride of each axis in bytes. They fit, since the size of the whole array does.
        let mut strides = vec![self.itemsize as u64; ndim];
        for axis in (1..ndim).rev() {
            strides[axis - 1] = strides[axis] * self.file_shape[axis];
        }
        // The axes from `first` on are contiguous: all of them but the first are taken whole.
        let mut first = ndim.saturating_sub(1);
        while first > 0 && shape[first] == self.file_shape[first] {
            first -= 1;
        }
        let run = match ndim {
            0 => self.itemsize as u64,
            _ => strides[first] * shape[first],
        };
        let origin = self.offset + start.iter().zip(&strides).map(|(i, stride)| i * stride).sum::<u64>();
        let mut outer = OuterAxes { lens: &shape[..first], strides: &strides[..first], at: vec![0; first] };
        let mut next = Some(origin);
        let mut dst = dst;
        while let Some(group_start) = next {
            let mut offsets = vec![group_start];
            let mut end = group_start + run;
            next = outer.advance().map(|relative| origin + relative);
            while let Some(offset) = next {
                if offset - end > MAX_GAP || offset + run - group_start > MAX_SPAN {
                    break;
                }
                offsets.push(offset);
                end = offset + run;
                next = outer.advance().map(|relative| origin + relative);
            }
            let (group, rest) = dst.split_at_mut(run as usize * offsets.len());
            dst = rest;
            if offsets.len() == 1 {
                self.bytes.read_exact_at(group_start, group)?;
                continue;
            }
            span.resize((end - group_start) as usize, 0);
            self.bytes.read_exact_at(group_start, span)?;
            for (piece, offset) in group.chunks_exact_mut(run as usize).zip(offsets) {
                let at = (offset - group_start) as usize;
                piece.copy_from_slice(&span[at..at + run as usize]);
            }
        }
        Ok(())
    }
}

/// Iterates over the outer axes of a box, the last one fastest.
struct OuterAxes<'a> {
    lens: &'a [u64],
    strides: &'a [u64],
    at: Vec<u64>,
}

impl OuterAxes<'_> {
    /// The next position, in bytes relative to the first one.
    fn advance(&mut self) -> Option<u64> {
        for axis in (0..self.lens.len()).rev() {
            self.at[axis] += 1;
            if self.at[axis] < self.lens[axis] {
                return Some(self.at.iter().zip(self.strides).map(|(i, stride)| i * stride).sum());
            }
            self.at[axis] = 0;
        }
        None
    }
}

impl RegionSource for RawSource {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.read_box(region.start(), region.shape(), dst)
    }

    fn shared(&self) -> Option<&dyn SharedRegions> {
        Some(self)
    }
}

impl SharedRegions for RawSource {
    fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.read_box(region.start(), region.shape(), dst)
    }

    fn is_plain(&self) -> bool {
        !self.fortran_order || self.file_shape.len() < 2
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;

    use super::*;

    /// Bytes in memory that count reads.
    struct Memory {
        bytes: Vec<u8>,
        reads: AtomicUsize,
        read_bytes: AtomicUsize,
    }

    impl Memory {
        /// The number of reads, and of bytes read.
        fn counts(&self) -> (usize, usize) {
            (self.reads.load(Ordering::Relaxed), self.read_bytes.load(Ordering::Relaxed))
        }
    }

    impl ReadAt for Memory {
        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }

        fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            let at = offset as usize;
            let src = self.bytes.get(at..at + buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            buf.copy_from_slice(src);
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.read_bytes.fetch_add(buf.len(), Ordering::Relaxed);
            Ok(())
        }
    }

    const HEAD: usize = 5;

    /// An array whose bytes depend on the C-order position of the items, in a file of either order.
    fn array(shape: &[u64], itemsize: usize, fortran: bool) -> (RawSource, Arc<Memory>, Vec<u8>) {
        let nitems: u64 = shape.iter().product();
        let c_order: Vec<u8> = (0..nitems as usize * itemsize).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut bytes = vec![0xEE; HEAD];
        bytes.resize(HEAD + c_order.len(), 0);
        if fortran {
            // Iterate over the items in C order and put each at its position in Fortran order.
            for item in 0..nitems {
                let (mut rest, mut index) = (item, vec![0; shape.len()]);
                for axis in (0..shape.len()).rev() {
                    index[axis] = rest % shape[axis];
                    rest /= shape[axis];
                }
                let mut at = 0;
                for axis in (0..shape.len()).rev() {
                    at = at * shape[axis] + index[axis];
                }
                let (from, to) = (item as usize * itemsize, HEAD + at as usize * itemsize);
                bytes[to..to + itemsize].copy_from_slice(&c_order[from..from + itemsize]);
            }
        } else {
            bytes[HEAD..].copy_from_slice(&c_order);
        }
        let memory = Arc::new(Memory { bytes, reads: AtomicUsize::new(0), read_bytes: AtomicUsize::new(0) });
        let source = RawSource::new(memory.clone(), HEAD as u64, shape, itemsize, fortran).unwrap();
        (source, memory, c_order)
    }

    /// Cuts a box out of bytes in C order, item by item.
    fn cut(c_order: &[u8], full: &[u64], start: &[u64], shape: &[u64], itemsize: usize) -> Vec<u8> {
        let mut out = vec![];
        for item in 0..shape.iter().product::<u64>() {
            let (mut rest, mut at, mut stride) = (item, 0, 1);
            for axis in (0..shape.len()).rev() {
                at += (start[axis] + rest % shape[axis]) * stride;
                rest /= shape[axis];
                stride *= full[axis];
            }
            out.extend(&c_order[at as usize * itemsize..][..itemsize]);
        }
        out
    }

    #[test]
    fn boxes_of_all_shapes() {
        let cases: [(&[u64], &[u64], &[u64]); 9] = [
            (&[], &[], &[]),
            (&[7], &[2], &[4]),
            (&[7], &[0], &[7]),
            (&[5, 6], &[1, 2], &[3, 4]),
            (&[5, 6], &[0, 0], &[5, 6]),
            (&[40, 50], &[3, 0], &[37, 50]),
            (&[3, 4, 5], &[1, 0, 0], &[2, 4, 5]),
            (&[3, 4, 5], &[0, 1, 2], &[3, 2, 2]),
            (&[4, 3, 2, 5], &[1, 1, 0, 1], &[2, 2, 2, 3]),
        ];
        for fortran in [false, true] {
            for itemsize in [1, 2, 3, 4, 8, 12, 16] {
                for (full, start, shape) in cases {
                    let (source, _, c_order) = array(full, itemsize, fortran);
                    let expected = cut(&c_order, full, start, shape, itemsize);
                    let mut got = vec![0; expected.len()];
                    source.read_box(start, shape, &mut got).unwrap();
                    assert_eq!(got, expected, "{full:?} {start:?} {shape:?} x{itemsize} fortran {fortran}");
                }
            }
        }
    }

    #[test]
    fn whole_array_is_one_read_and_near_runs_go_together() {
        for fortran in [false, true] {
            let (source, memory, _) = array(&[30, 40, 50], 4, fortran);
            source.read_box(&[0, 0, 0], &[30, 40, 50], &mut vec![0; 240_000]).unwrap();
            assert_eq!(memory.counts(), (1, 240_000));
        }
        let (source, memory, _) = array(&[100, 100], 4, false);
        source.read_box(&[0, 0], &[100, 50], &mut vec![0; 20_000]).unwrap();
        assert_eq!(memory.counts(), (1, 40_000 - 200));
        let (source, memory, _) = array(&[3, 10_000], 4, false);
        source.read_box(&[0, 0], &[3, 10], &mut [0; 120]).unwrap();
        assert_eq!(memory.counts(), (3, 120), "gaps are too wide to read over");
    }

    #[test]
    fn refuses_boxes_outside_and_short_files() {
        let (source, memory, _) = array(&[4, 4], 1, false);
        assert!(source.read_box(&[1, 0], &[4, 4], &mut [0; 16]).is_err());
        assert!(source.read_box(&[u64::MAX, 0], &[2, 4], &mut [0; 8]).is_err());
        assert!(source.read_box(&[0], &[4], &mut [0; 4]).is_err());
        assert!(source.read_box(&[0, 0], &[4, 4], &mut [0; 15]).is_err());
        let short = Arc::new(Bytes::copy_from_slice(&memory.bytes[..HEAD + 15]));
        let source = RawSource::new(short, HEAD as u64, &[4, 4], 1, false).unwrap();
        assert!(source.read_box(&[0, 0], &[4, 4], &mut [0; 16]).is_err());
    }
}
