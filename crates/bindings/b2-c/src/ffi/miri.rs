//! Small C calls for Miri: memory that changes owners, shared objects, several threads.

use std::ffi::c_void;

use super::chunk::{blosc2_compress_ctx, blosc2_decompress_ctx};
use super::contexts::{blosc2_create_cctx, blosc2_create_dctx, blosc2_free_ctx};
use super::schunk::items::{
    blosc2_schunk_append_buffer, blosc2_schunk_decompress_chunk, blosc2_schunk_delete_chunk,
    blosc2_schunk_get_slice_buffer,
};
use super::schunk::meta::{blosc2_meta_add, blosc2_vlmeta_add, blosc2_vlmeta_delete, blosc2_vlmeta_get};
use super::schunk::open::{blosc2_schunk_free, blosc2_schunk_new};
use crate::abi::{blosc2_cparams, blosc2_dparams, blosc2_schunk, blosc2_storage};

/// A super-chunk that several threads read.
struct SharedSchunk(*mut blosc2_schunk);

// SAFETY: allowed for C programs by the README.
unsafe impl Sync for SharedSchunk {}

impl SharedSchunk {
    fn get(&self) -> *mut blosc2_schunk {
        self.0
    }
}

/// lz4 after a byte shuffle, for items of 4 bytes; neither has C code.
fn cparams() -> blosc2_cparams {
    blosc2_cparams { compcode: 1, typesize: 4, filters: [0, 0, 0, 0, 0, 1], ..blosc2_cparams::DEFAULT }
}

fn items(count: u32) -> Vec<u8> {
    (0..count).flat_map(|n| (n * 3).to_le_bytes()).collect()
}

#[test]
fn small_chunks_go_through_contexts() {
    let data = items(60);
    let len = data.len() as i32;
    let mut chunk = vec![0_u8; data.len() + 32];
    let mut back = vec![0_u8; data.len()];
    // SAFETY: the parameters have no pointers, and all buffers have the lengths given.
    unsafe {
        let cctx = blosc2_create_cctx(cparams());
        let dctx = blosc2_create_dctx(blosc2_dparams { nthreads: 1, ..blosc2_dparams::DEFAULT });
        for _ in 0..2 {
            let room = chunk.len() as i32;
            let cbytes =
                blosc2_compress_ctx(cctx, data.as_ptr().cast(), len, chunk.as_mut_ptr().cast(), room);
            assert!(cbytes > 32 && cbytes < len);
            let to = back.as_mut_ptr().cast();
            assert_eq!(blosc2_decompress_ctx(dctx, chunk.as_ptr().cast(), cbytes, to, len), len);
            assert_eq!(back, data);
            assert!(blosc2_decompress_ctx(dctx, chunk.as_ptr().cast(), 40, to, len) < 0);
        }
        blosc2_free_ctx(cctx);
        blosc2_free_ctx(dctx);
    }
}

#[test]
fn small_super_chunks_change_and_are_read_by_two_threads() {
    let data = items(40);
    let len = data.len() as i32;
    let mut cparams = cparams();
    let mut storage = blosc2_storage { cparams: &raw mut cparams, ..blosc2_storage::DEFAULT };
    // SAFETY: all pointers are valid, and all buffers have the lengths given.
    unsafe {
        let schunk = blosc2_schunk_new(&raw mut storage);
        assert!(!schunk.is_null());
        for nchunks in 1..=3 {
            assert_eq!(blosc2_schunk_append_buffer(schunk, data.as_ptr().cast(), len), nchunks);
        }
        assert_eq!(blosc2_schunk_delete_chunk(schunk, 1), 2);
        let (mut fixed, mut text) = (*b"0123", *b"some text");
        assert_eq!(blosc2_meta_add(schunk, c"fixed".as_ptr(), fixed.as_mut_ptr(), 4), 0);
        let none = std::ptr::null_mut();
        assert_eq!(blosc2_vlmeta_add(schunk, c"note".as_ptr(), text.as_mut_ptr(), 9, none), 0);
        let (mut content, mut content_len) = (std::ptr::null_mut(), 0);
        let answer = blosc2_vlmeta_get(schunk, c"note".as_ptr(), &raw mut content, &raw mut content_len);
        assert_eq!((answer, content_len), (0, 9));
        assert_eq!(std::slice::from_raw_parts(content, 9), b"some text");
        libc::free(content.cast::<c_void>());
        assert_eq!(blosc2_vlmeta_delete(schunk, c"note".as_ptr()), 0);

        let shared = SharedSchunk(schunk);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let schunk = shared.get();
                    let mut back = vec![0_u8; data.len()];
                    let to: *mut c_void = back.as_mut_ptr().cast();
                    assert_eq!(blosc2_schunk_decompress_chunk(schunk, 1, to, len), len);
                    assert_eq!(back, data);
                    assert_eq!(blosc2_schunk_get_slice_buffer(schunk, 30, 50, to), 0);
                    assert_eq!(back[..40], data[120..]);
                    assert_eq!(back[40..80], data[..40]);
                });
            }
        });
        assert_eq!(blosc2_schunk_free(schunk), 0);
    }
}
