//! Calls report their progress and stop when cancelled, without leaving partial results.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use b2_chunk::{
    Chunk, ChunkError, ChunkReader, CodecId, Compression, Control, DParams, ErrorKind, FilterSlot, Pool,
    Progress,
};

const ITEMS: u32 = 1_500_000;

fn values() -> Vec<u32> {
    (0..ITEMS).map(|i| i / 30).collect()
}

/// Returns a control that cancels a call after `most` bytes, and a record of the progress reported to it.
fn stopping(control: Control, most: u64) -> (Control, Arc<[AtomicU64; 3]>) {
    let seen = Arc::new([AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)]);
    let tell = Arc::clone(&seen);
    let control = control.progress(move |Progress { nbytes, total, itemsize, .. }| {
        tell[0].fetch_max(nbytes, Relaxed);
        tell[1].store(total, Relaxed);
        tell[2].store(itemsize, Relaxed);
        if nbytes > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (control, seen)
}

fn controls() -> [Control; 3] {
    [Control::new(), Control::new().threads(1), Control::new().pool(Pool::new(3))]
}

/// Runs `work` to the end, then cancels it halfway. `total` is its progress in bytes.
#[track_caller]
fn check(total: usize, work: impl Fn(&Control) -> Result<(), ChunkError>) {
    for control in controls() {
        let (all, seen) = stopping(control.clone(), u64::MAX);
        work(&all).unwrap();
        assert_eq!([0, 1, 2].map(|i| seen[i].load(Relaxed)), [total as u64, total as u64, 4]);
        let (half, seen) = stopping(control.clone(), total as u64 / 2);
        assert_eq!(work(&half), Err(b2_chunk::base::Cancelled.into()));
        // Other threads may have finished the rest before the callback ran.
        let done = seen[0].load(Relaxed);
        let in_the_middle = control.max_threads() > 1 || done < total as u64;
        assert!(done > total as u64 / 2 && in_the_middle, "{done} of {total}");
        // The next call starts at zero.
        assert_eq!(work(&half).map_err(|error| error.kind()), Err(ErrorKind::Cancelled));
    }
}

fn compressions() -> Vec<Compression> {
    let base = || Compression::lz4().blocksize(50_000);
    let negate = |_: &b2_chunk::BlockInfo, src: &[u8], dst: &mut [u8]| {
        dst.iter_mut().zip(src).for_each(|(d, s)| *d = !s);
        Ok(())
    };
    vec![
        base(),
        base().filters([FilterSlot::DELTA, FilterSlot::SHUFFLE]),
        base().codec(CodecId::BLOSCLZ).no_filters(),
        base().level(1).prefilter(negate),
    ]
}

#[test]
fn compressing_stops() {
    let values = values();
    for compression in compressions() {
        let whole = Chunk::compress(&values, &compression).unwrap();
        let mut buffer = vec![0; 4 * values.len() + 32];
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        check(4 * values.len(), |control| {
            let compression = compression.clone().control(control.clone());
            Chunk::compress(&values, &compression).map(|chunk| assert_eq!(chunk, whole))
        });
        let cparams = compression.clone().itemsize(4).build().unwrap();
        let (control, _) = stopping(Control::new(), 1 << 20);
        let stopped = cparams.clone().with_control(control);
        assert!(Chunk::compress_bytes_into(&bytes, &mut buffer, &stopped).is_err());
        let len = Chunk::compress_bytes_into(&bytes, &mut buffer, &cparams).unwrap();
        assert_eq!(&buffer[..len], whole.as_bytes());
    }
    let blocks: Vec<Vec<u8>> =
        values.chunks(9_999).map(|block| block.iter().flat_map(|v| v.to_le_bytes()).collect()).collect();
    let blocks: Vec<&[u8]> = blocks.iter().map(|block| &block[..]).collect();
    check(4 * values.len(), |control| {
        let cparams = Compression::new().itemsize(4).codec(CodecId::LZ4).control(control.clone()).build()?;
        Chunk::compress_vl(&blocks, &cparams).map(|_| ())
    });
}

#[test]
fn special_and_stored_chunks_count_too() {
    for (plain, level) in [(vec![0; 3 << 20], 5), (vec![7; 3 << 20], 5), (b"abc".repeat(1 << 20), 0)] {
        let (control, seen) = stopping(Control::new(), u64::MAX);
        let compression = Compression::new().itemsize(1).level(level).control(control.clone());
        let chunk = Chunk::compress_bytes(&plain, &compression.build().unwrap()).unwrap();
        assert_eq!(seen[0].swap(0, Relaxed), plain.len() as u64);
        let dparams = DParams::default().control(control);
        assert!(chunk.decompress_bytes_with(&dparams).unwrap() == plain);
        assert_eq!(seen[0].swap(0, Relaxed), plain.len() as u64);
        assert!(chunk.get_bytes(5..100_005, &dparams).unwrap() == plain[5..100_005]);
        assert_eq!(seen[0].load(Relaxed), 100_000);
    }
}

#[test]
fn reading_stops() {
    let values = values();
    for compression in compressions() {
        let chunk = Chunk::compress(&values, &compression).unwrap();
        let plain: Vec<u32> = chunk.decompress().unwrap();
        let dparams = |control: &Control| DParams::default().control(control.clone());
        check(4 * plain.len(), |control| {
            chunk.decompress_with::<u32>(&dparams(control)).map(|got| assert!(got == plain))
        });
        let part = 77_777..plain.len() - 99;
        check(4 * part.len(), |control| {
            let got = chunk.get_items::<u32>(part.clone(), &dparams(control));
            got.map(|got| assert!(got == plain[part.clone()]))
        });
        check(4 * plain.len(), |control| chunk.check(&dparams(control)).0);
        check(4 * part.len(), |control| {
            let mut reader = ChunkReader::new(chunk.clone(), dparams(control))?;
            reader.read(4 * part.start, &mut vec![0; 4 * part.len()])
        });
        // The content of the caller's buffer is unspecified now; the next call fills it.
        let mut dst = vec![0; chunk.nbytes()];
        let (control, _) = stopping(Control::new(), 1 << 20);
        let stopped = chunk.decompress_bytes_into(&mut dst, &dparams(&control));
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
        chunk.decompress_bytes_into(&mut dst, &DParams::default()).unwrap();
        assert!(dst == chunk.decompress_bytes().unwrap());
    }
    let block: Vec<u8> = (0..90_000u32).map(|i| (i / 7) as u8).collect();
    let cparams = Compression::new().itemsize(4).codec(CodecId::LZ4).build().unwrap();
    let chunk = Chunk::compress_vl(&[&block[..]; 20], &cparams).unwrap();
    check(chunk.nbytes(), |control| {
        chunk.blocks(&DParams::default().control(control.clone())).map(|blocks| assert!(blocks.len() == 20))
    });
}
