//! Small calls as HDF5 makes them, for Miri: memory is filled, replaced and freed. None fails, since reporting errors
//! to HDF5 looks up symbols, which Miri does not support.

use std::ffi::{c_uint, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::slice;

use super::{AllocatedBytes, REVERSE, description, memory};
use crate::filter::{Dataset, Filter, Memory};
use crate::tests::noise;
use crate::{Blosc, Blosc2};

/// Memory of HDF5 with a chunk in it.
struct Buffer {
    start: *mut c_void,
    room: usize,
    nbytes: usize,
}

impl Buffer {
    fn new(bytes: &[u8]) -> Self {
        let start = memory::zeroed(bytes.len()).unwrap().as_ptr();
        // SAFETY: this many bytes were just allocated.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), start.cast(), bytes.len()) };
        Self { start, room: bytes.len(), nbytes: bytes.len() }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: this many bytes exist, written by the filter or `new`.
        unsafe { slice::from_raw_parts(self.start.cast(), self.nbytes) }
    }

    /// Passes the chunk through a filter. Returns the result of the filter.
    fn pass<F: Filter>(&mut self, flags: c_uint, parameters: &[c_uint]) -> usize {
        let filter = description::<F>().filter.unwrap();
        let (room, start) = (&raw mut self.room, &raw mut self.start);
        // SAFETY: the parameters and the buffer have these lengths.
        let nbytes =
            unsafe { filter(flags, parameters.len(), parameters.as_ptr(), self.nbytes, room, start) };
        assert!(nbytes <= self.room);
        if nbytes > 0 {
            self.nbytes = nbytes;
        }
        nbytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it is from `memory`, here or in the filter.
        unsafe { memory::free(self.start) };
    }
}

/// Parameters for `nitems` items of 4 bytes: lz4 after a byte shuffle, which need no C code.
fn parameters<F: Filter>(nitems: u64) -> Vec<c_uint> {
    let dataset = Dataset { itemsize: 4, base_itemsize: 4, chunk: &[nitems] };
    F::parameters(&[0, 0, 0, 0, 5, 1, 1], &dataset).unwrap()
}

fn ones(memory: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    memory.fill(MaybeUninit::new(1));
    // SAFETY: all bytes were just initialised, and stay borrowed as long as the result.
    unsafe { slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), memory.len()) }
}

fn comes_back<F: Filter>() {
    let items: Vec<u8> = (0..256_u32).flat_map(|n| (n / 9).to_le_bytes()).collect();
    let parameters = parameters::<F>(256);
    let mut buffer = Buffer::new(&items);
    let start = buffer.start;
    assert!(buffer.pass::<F>(0, &parameters) < items.len());
    assert_eq!((buffer.start, buffer.room), (start, items.len()));
    // The filter frees this memory and leaves another.
    assert_eq!(buffer.pass::<F>(REVERSE, &parameters), items.len());
    assert_eq!(buffer.bytes(), items);
}

#[test]
fn chunks_come_back() {
    comes_back::<Blosc>();
    comes_back::<Blosc2>();
}

#[test]
fn threads_share_the_filters() {
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(comes_back::<Blosc>);
            scope.spawn(comes_back::<Blosc2>);
        }
    });
}

#[test]
fn chunks_that_grow_get_other_memory() {
    let items = noise(64);
    let parameters = parameters::<Blosc2>(16);
    let mut buffer = Buffer::new(&items);
    assert!(buffer.pass::<Blosc2>(0, &parameters) > items.len());
    assert!(buffer.room > items.len());
    assert_eq!(buffer.pass::<Blosc2>(REVERSE, &parameters), items.len());
    assert_eq!(buffer.bytes(), items);
}

#[test]
fn chunks_that_do_not_compress_stay_as_they_are() {
    let items = noise(64);
    let mut buffer = Buffer::new(&items);
    let start = buffer.start;
    assert_eq!(buffer.pass::<Blosc>(0, &parameters::<Blosc>(16)), 0);
    assert_eq!((buffer.start, buffer.bytes()), (start, &items[..]));
}

#[test]
fn memory_is_freed_if_it_is_not_filled() {
    let failed = AllocatedBytes::filled(8, |_| Err("no"));
    assert!(matches!(failed, Some(Err("no"))));
    // A partial fill is not enough: the rest would be uninitialised.
    let part = AllocatedBytes::filled::<()>(8, |memory| Ok(ones(&mut memory[..4])));
    assert!(part.is_none());
    let mut all = AllocatedBytes::filled::<()>(8, |memory| Ok(ones(memory))).unwrap().unwrap();
    assert_eq!(all.bytes(), [1; 8]);
    let mut none = AllocatedBytes::zeroed(0).unwrap();
    assert_eq!(none.bytes(), []);
}
