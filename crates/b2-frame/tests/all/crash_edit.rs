//! Crashes and errors during every operation of the editor, contiguous and sparse.

use crate::crash;

use std::path::Path;
use std::sync::Arc;

use crate::common::{compress, cparams, data};
use b2_chunk::{CParams, Chunk, Compression, SpecialKind};
use b2_frame::{FrameParams, FrameWriter, Storage, SuperChunk};
use b2_storage_sim::SimFs;
use crash::errors::{Change, survives_retries};
use crash::reopen::edit;
use crash::{PATH, Progress, Scenario};

const CHUNKSIZE: usize = 2400;

/// Bytes that do not compress.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    b2_testkit::Rng::case(seed, 0).bytes(len)
}

fn chunk(seed: u64) -> Chunk {
    compress(&data(CHUNKSIZE, seed), &cparams(4))
}

/// Returns a chunk that is large enough for a table of block starts.
fn large(seed: u64) -> Chunk {
    compress(
        &noise(10 * CHUNKSIZE, seed),
        &Compression::new().itemsize(4).level(1).blocksize(CHUNKSIZE).build().unwrap(),
    )
}

fn create(fs: &SimFs, storage: Storage, params: FrameParams, fill: &dyn Fn(&mut FrameWriter)) {
    let options = FrameWriter::options().file_system(Arc::new(fs.clone()));
    let writer = options.storage(storage).create(PATH, params);
    let mut writer = writer.unwrap();
    fill(&mut writer);
    writer.finish().unwrap();
}

fn params() -> FrameParams {
    FrameParams::from_cparams(&cparams(4)).metalayer("m", b"value").chunksize(CHUNKSIZE)
}

/// Writes five chunks of one size, one of them zeros, one incompressible, and a vlmetalayer.
fn five(writer: &mut FrameWriter) {
    let cparams: CParams = cparams(4);
    writer.append(compress(&data(CHUNKSIZE, 1), &cparams)).unwrap();
    writer.append(compress(&noise(CHUNKSIZE, 2), &cparams)).unwrap();
    writer.append_special(SpecialKind::Zeros, CHUNKSIZE).unwrap();
    writer.append(compress(&data(CHUNKSIZE, 3), &cparams)).unwrap();
    writer.append(compress(&data(CHUNKSIZE, 4), &cparams)).unwrap();
    writer.set_vlmetalayer("v", &noise(9000, 5)).unwrap();
}

/// The same as `five`, followed by a short chunk.
fn five_and_a_half(writer: &mut FrameWriter) {
    five(writer);
    writer.append(compress(&data(CHUNKSIZE / 2, 6), &cparams(4))).unwrap();
}

/// Each change is one commit, all by the same editor.
fn check_on(
    name: &str,
    params: &dyn Fn() -> FrameParams,
    fill: &dyn Fn(&mut FrameWriter),
    changes: &[Change<'_>],
) {
    for storage in [Storage::Contiguous, Storage::Sparse] {
        let start = |fs: &SimFs| create(fs, storage, params(), fill);
        let steps = |fs: &SimFs, progress: &mut Progress<'_>| {
            let mut editor = edit(fs)?;
            for change in changes {
                change(&mut editor)?;
                editor.commit()?;
                progress.committed();
            }
            Ok(())
        };
        let name = format!("{name}, {}", if storage == Storage::Sparse { "sparse" } else { "contiguous" });
        let scenario = Scenario { name: &name, start: &start, steps: &steps };
        scenario.survives_crashes();
        scenario.survives_errors();
        if let [change] = changes {
            survives_retries(&name, &start, change);
        }
    }
}

fn check(name: &str, change: Change<'_>) {
    check_on(name, &params, &five, &[change]);
}

#[test]
fn append() {
    check("append", &|e| e.append(chunk(10)).map(drop));
}

#[test]
fn append_bytes() {
    check_on(
        "append bytes after a short chunk",
        &params,
        &five_and_a_half,
        &[&|e| e.append_bytes(&data(CHUNKSIZE * 2 + 100, 11))],
    );
}

#[test]
fn insert() {
    check("insert", &|e| e.insert(2, chunk(12)));
}

#[test]
fn insert_of_another_size() {
    check("insert, other size", &|e| e.insert(1, compress(&data(400, 13), &cparams(4))));
}

#[test]
fn update() {
    check("update, larger", &|e| e.update(0, compress(&noise(CHUNKSIZE, 14), &cparams(4))));
    check("update, smaller", &|e| e.update(1, chunk(15)));
}

#[test]
fn delete() {
    check("delete", &|e| e.delete(0));
    check("delete, last", &|e| e.delete(4));
}

#[test]
fn block_starts() {
    let params = || FrameParams::new(4).metalayer("m", b"value").chunksize(10 * CHUNKSIZE);
    let fill = |writer: &mut FrameWriter| {
        for seed in 20..22 {
            writer.append(large(seed)).unwrap();
        }
    };
    check_on(
        "table of block starts",
        &params,
        &fill,
        &[
            &|e| e.set_block_starts(true),
            &|e| e.insert(1, large(22)),
            &|e| e.update(0, large(23)),
            &|e| e.set_metalayer("m", b"VALUE"),
            &|e| e.delete(2),
            &|e| e.set_block_starts(false),
        ],
    );
    check_on(
        "table of block starts, made",
        &params,
        &fill,
        &[&|e| {
            e.set_block_starts(true)?;
            e.insert(0, large(24))
        }],
    );
}

#[test]
fn reorder() {
    check("reorder", &|e| e.reorder(&[4, 2, 0, 1, 3]));
}

#[test]
fn append_special() {
    check("fill special", &|e| e.append_special(SpecialKind::Zeros, CHUNKSIZE as u64 * 3));
}

#[test]
fn write_bytes() {
    check("write bytes over three chunks", &|e| e.write_bytes(1000, &noise(CHUNKSIZE + 700, 16)));
}

#[test]
fn metalayer() {
    check("metalayer", &|e| e.set_metalayer("m", b"VALUE"));
}

/// The header grows, so a contiguous frame is rewritten; still it is one commit, together with other changes.
#[test]
fn added_metalayer() {
    check("metalayer, added", &|e| e.add_metalayer("n", &noise(700, 32)));
    check("metalayers, added with other changes", &|e| {
        e.append(chunk(33))?;
        e.add_metalayer("n", b"new")?;
        e.delete(1)?;
        e.set_metalayer("n", b"NEW")?;
        e.vlmeta().set("w", b"another")?;
        e.add_metalayer("o", &noise(300, 34))?;
        e.append_bytes(&data(500, 35))
    });
    check_on(
        "metalayer, added between other commits",
        &params,
        &five,
        &[
            &|e| e.append(chunk(36)).map(drop),
            &|e| e.add_metalayer("n", b"new"),
            &|e| e.update(0, chunk(37)),
            &|e| e.set_metalayer("n", b"NEW"),
        ],
    );
    check_on(
        "metalayer and chunk size of an empty frame",
        &|| FrameParams::from_cparams(&cparams(4)),
        &|_| {},
        &[
            &|e| {
                e.add_metalayer("n", b"new")?;
                e.set_chunksize(CHUNKSIZE)
            },
            &|e| e.set_chunksize(2 * CHUNKSIZE),
            &|e| e.append(chunk(38)).map(drop),
        ],
    );
}

#[test]
fn vlmetalayer() {
    check("vlmetalayer, new", &|e| e.vlmeta().set("w", &data(900, 17)));
    check("vlmetalayer, replaced", &|e| e.vlmeta().set("v", b"other"));
    check("vlmetalayer, removed", &|e| {
        assert!(e.vlmeta().remove("v"));
        Ok(())
    });
}

#[test]
fn emptying() {
    check("emptying", &|e| (0..5).try_for_each(|_| e.delete(0)));
}

#[test]
fn first_append() {
    check_on("first append", &params, &|_| {}, &[&|e| e.append(chunk(18)).map(drop)]);
    let with_vlmetalayer = |w: &mut FrameWriter| w.set_vlmetalayer("v", &noise(9000, 5)).unwrap();
    check_on("first append, vlmetalayer", &params, &with_vlmetalayer, &[&|e| e.append(chunk(18)).map(drop)]);
}

#[test]
fn vlmetalayer_of_an_empty_frame() {
    check_on("vlmetalayer, empty frame", &params, &|_| {}, &[&|e| e.vlmeta().set("v", b"first")]);
}

#[test]
fn transaction() {
    check("transaction", &|e| {
        e.append(chunk(19))?;
        e.delete(1)?;
        e.update(0, chunk(20))?;
        e.vlmeta().set("v", b"changed too")?;
        e.set_metalayer("m", b"other")?;
        e.write_bytes(100, &noise(3000, 21))?;
        e.append_bytes(&data(500, 22))
    });
}

#[test]
fn several_commits() {
    check_on(
        "six commits",
        &params,
        &five,
        &[
            &|e| e.append(chunk(23)).map(drop),
            &|e| e.update(1, chunk(24)),
            &|e| e.delete(0),
            &|e| e.vlmeta().set("w", &data(300, 25)),
            &|e| (0..e.nchunks()).try_for_each(|_| e.delete(0)),
            &|e| e.append(chunk(26)).map(drop),
        ],
    );
}

#[test]
fn compact() {
    check_on(
        "update, then compact",
        &params,
        &five,
        &[
            &|e| {
                e.update(0, chunk(27))?;
                e.delete(1)
            },
            &|e| e.compact().map(drop),
        ],
    );
}

/// Headers larger than a sector, and larger than a page: the part that a commit changes can be torn.
#[test]
fn long_headers() {
    // Like the b2nd metalayer of an array with 16 dimensions, first among many.
    let many = || {
        let start =
            FrameParams::from_cparams(&cparams(4)).chunksize(CHUNKSIZE).metalayer("shape", noise(420, 1));
        (0..15).fold(start, |params, i| params.metalayer(format!("layer{i}"), noise(280, i)))
    };
    check_on(
        "long header: shape and append",
        &many,
        &five,
        &[
            &|e| {
                e.set_metalayer("shape", &noise(420, 28))?;
                e.append(chunk(29)).map(drop)
            },
            &|e| {
                e.set_metalayer("shape", &noise(420, 30))?;
                e.delete(0)
            },
        ],
    );
    check_on(
        "long header: last metalayer",
        &many,
        &five,
        &[&|e| {
            e.set_metalayer("layer14", &noise(280, 31))?;
            e.append(chunk(29)).map(drop)
        }],
    );
}

/// A reader that repairs a half written header on the fly sees what is committed later.
#[test]
fn a_half_written_header_does_not_hide_later_commits() {
    let fs = crash::begin(&|fs| create(fs, Storage::Contiguous, params(), &five));
    let mut editor = edit(&fs).unwrap();
    editor.append(chunk(10)).unwrap();
    editor.commit().unwrap();
    drop(editor);
    let log = fs.log();
    let read = |at: usize| log.image(at).read(Path::new(PATH)).unwrap().to_vec();
    let (old, new) = (read(0), read(log.ops().len()));
    let len = SuperChunk::from_bytes(old.clone()).unwrap().header_bytes().len();
    let differing: Vec<usize> = (0..len).filter(|at| old[*at] != new[*at]).collect();
    let cut = differing[differing.len() / 2];
    let record = (0..=log.ops().len()).map(read).find(|frame| frame.ends_with(b"b2kit/hr")).unwrap();
    let torn = [&old[..cut], &new[cut..len], &record[len..]].concat();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("frame");
    std::fs::write(&path, torn).unwrap();
    let mut schunk = SuperChunk::open(&path).unwrap();
    let nchunks = schunk.nchunks();
    let mut editor = b2_frame::EditOptions::default().edit(&path).unwrap();
    editor.append(chunk(11)).unwrap();
    editor.commit().unwrap();
    schunk.refresh().unwrap();
    assert_eq!(schunk.nchunks(), nchunks + 1);
}

/// C-Blosc2 leaves the redo record after the frame when it changes only a metalayer. It writes the header with its own
/// number of threads. Its change must be kept, whichever version of the metalayer that is.
#[test]
fn a_metalayer_that_others_set_after_a_crash_stays() {
    let fs = crash::begin(&|fs| create(fs, Storage::Contiguous, params(), &five));
    let mut editor = edit(&fs).unwrap();
    editor.set_metalayer("m", b"VALUE").unwrap();
    editor.append(chunk(10)).unwrap();
    editor.commit().unwrap();
    drop(editor);
    let log = fs.log();
    let mut stale = 0;
    for at in 0..=log.ops().len() {
        let image = log.image(at);
        let frame = image.read(Path::new(PATH)).unwrap();
        if !frame.ends_with(b"b2kit/hr") {
            continue;
        }
        for value in [b"value", b"VALUE", b"VALue", b"other"] {
            let mut frame = frame.to_vec();
            // The numbers of threads (docs/format/frame-contiguous.md, section 1).
            (frame[64], frame[67]) = (2, 2);
            let place = frame.windows(5).position(|part| part.eq_ignore_ascii_case(b"value")).unwrap();
            frame[place..place + 5].copy_from_slice(value);
            let fs = SimFs::new();
            fs.write(Path::new(PATH), &frame);
            for _ in 0..2 {
                let schunk = SuperChunk::options().file_system(Arc::new(fs.clone())).open(PATH).unwrap();
                assert_eq!(schunk.metalayers().get("m"), Some(&value[..]), "after {at} calls");
                // Writers must not repair it either.
                drop(edit(&fs).unwrap());
            }
            stale += 1;
        }
    }
    // Before and after the header was written.
    assert!(stale >= 2 * 4, "{stale}");
}
