//! Any damage to frames with checksums is detected, wherever it is, and the damaged chunk is named.
//!
//! Tests every bit and every length of small frames, and random bytes, sectors and files. `B2KIT_DAMAGE` sets the
//! number of random cases for each frame in a file (2,000, and a fifth of that for each one in a directory). A smaller
//! number also skips positions in the files of frames in directories, which are rewritten for each case;
//! `B2KIT_DAMAGE=100000` is the long run of docs/explanation/reliability-tests.md.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::common::{cparams, damages, data, stride};
use b2_chunk::{CParams, Chunk, CodecId, Compression, SpecialKind};
use b2_frame::{
    Checksums, Durability, FrameEditor, FrameError, FrameParams, FrameWriter, ReadOptions, Storage,
    Structure, SuperChunk, WriteOptions,
};
use b2_testkit::hostile::{flipped, overwrite};

const CHUNK: usize = 600;

fn options() -> WriteOptions {
    FrameWriter::options().durability(Durability::None).overwrite(true)
}

fn params(cparams: &CParams) -> FrameParams {
    FrameParams::from_cparams(cparams)
        .chunksize(CHUNK)
        .metalayer("m", b"\x01\x02\x03")
        .metalayer("empty", b"")
}

/// Appends chunks of all kinds, stored and not.
fn fill(editor: &mut FrameEditor, cparams: &CParams) {
    let special = |kind, value: &[u8]| Chunk::special(kind, value, CHUNK, 4, 0).unwrap();
    for n in 0..3 {
        editor.append(Chunk::compress_bytes(&data(CHUNK, n), cparams).unwrap()).unwrap();
    }
    editor.append(special(SpecialKind::Zeros, &[])).unwrap();
    editor.append(special(SpecialKind::NaN, &[])).unwrap();
    editor.append(special(SpecialKind::Value, &[1, 2, 3, 4])).unwrap();
    editor.append(special(SpecialKind::Uninit, &[])).unwrap();
    let stored = Compression::new().itemsize(4).level(0).build().unwrap();
    editor.append(Chunk::compress_bytes(&data(CHUNK, 9), &stored).unwrap()).unwrap();
    editor.append(Chunk::compress_bytes(&data(CHUNK / 2, 10), cparams).unwrap()).unwrap();
    editor.vlmeta().set("note", b"\xa5hello").unwrap();
    editor.vlmeta().set("longer", &data(300, 11)).unwrap();
}

/// Makes changes that leave dead space with older chunks, indices and checksums.
fn edit(editor: &mut FrameEditor) {
    editor.commit().unwrap();
    editor.update_bytes(1, &data(CHUNK, 20)).unwrap();
    editor.commit().unwrap();
    editor.insert_bytes(2, &data(CHUNK, 21)).unwrap();
    editor.delete(0).unwrap();
    editor.vlmeta().set("note", b"\xa3bye").unwrap();
    editor.commit().unwrap();
    editor.set_metalayer("m", b"\x04\x05\x06").unwrap();
}

/// A frame on disk, and its files that are damaged.
struct DamagedSubject {
    name: &'static str,
    path: PathBuf,
    content: Vec<u8>,
    /// The files with their content, index file first, and the parts of the index file and of chunks in them.
    files: Vec<(PathBuf, Vec<u8>)>,
    parts: Vec<(Range<u64>, Structure)>,
}

fn content(frame: &SuperChunk) -> Result<Vec<u8>, FrameError> {
    let mut all = frame.read_bytes(0..frame.nbytes())?;
    for name in frame.vlmetalayers().names() {
        all.extend(frame.vlmetalayers().get(&*name)?.unwrap());
    }
    frame.metalayers().iter().for_each(|(_, value)| all.extend_from_slice(value));
    Ok(all)
}

impl DamagedSubject {
    fn new(name: &'static str, path: PathBuf) -> Self {
        let frame = SuperChunk::open(&path).unwrap();
        let layout = frame.layout().clone();
        let mut files = Vec::new();
        let mut parts = vec![
            (layout.header.clone(), Structure::Header),
            (layout.index.clone(), Structure::Index),
            (layout.index.end..layout.trailer.start, Structure::Checksums),
            (layout.trailer.clone(), Structure::Trailer),
        ];
        if path.is_dir() {
            let mut names: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
            names.retain(|name| !name.ends_with(".b2lock"));
            // The index file comes first.
            names.sort_by_key(|name| (name.extension() != Some("b2frame".as_ref()), name.clone()));
            files.extend(names.into_iter().map(|name| (name.clone(), fs::read(&name).unwrap())));
        } else {
            files.push((path.clone(), fs::read(&path).unwrap()));
            for info in frame.chunk_infos().map(Result::unwrap) {
                let Some(offset) = info.offset() else { continue };
                let start = layout.data.start + offset;
                parts.push((start..start + info.cbytes, Structure::Chunk(info.nchunk)));
            }
        }
        assert_eq!(frame.verify_checksums().unwrap(), Checksums::Ok);
        Self { name, content: content(&frame).unwrap(), path, files, parts }
    }

    /// Damages a file and checks that this is detected. `hit` is the range of bytes that may differ, for messages.
    fn damage(&self, nfile: usize, bad: &[u8], hit: &Range<usize>) -> DamageOutcome {
        let (file, good) = &self.files[nfile];
        if bad == good {
            return DamageOutcome::Nothing;
        }
        if self.path.is_file() {
            // Much faster than on disk, and equivalent except for bytes after the frame.
            return self.judge(nfile, bad, hit, |options| options.from_bytes(bad.to_vec()));
        }
        fs::write(file, bad).unwrap();
        let seen = self.judge(nfile, bad, hit, |options| options.open(&self.path));
        fs::write(file, good).unwrap();
        seen
    }

    /// Returns whether only the fingerprint is zeroed: without chunks, nothing else shows that there were checksums.
    fn is_stripped(&self, bad: &[u8]) -> bool {
        let mut stripped = self.files[0].1.clone();
        let at = stripped.len() - 17;
        stripped[at..].fill(0);
        bad == stripped
    }

    fn judge(
        &self,
        nfile: usize,
        bad: &[u8],
        hit: &Range<usize>,
        open: impl Fn(&ReadOptions) -> Result<SuperChunk, FrameError>,
    ) -> DamageOutcome {
        let good = &self.files[nfile].1;
        let differs = |part: &Range<u64>| {
            let part = part.start as usize..part.end as usize;
            bad.get(part.clone()) != good.get(part)
        };
        let hits: Vec<&Structure> = match nfile {
            0 => {
                self.parts.iter().filter(|(part, _)| differs(part)).map(|(_, structure)| structure).collect()
            }
            _ => Vec::new(),
        };
        let verdict = open(&SuperChunk::options()).and_then(|frame| frame.verify_checksums());
        match verdict {
            Ok(Checksums::None) if self.name.ends_with("empty") && nfile == 0 && self.is_stripped(bad) => {
                DamageOutcome::Stripped
            }
            Ok(Checksums::Ok | Checksums::None) => {
                // Dead space, or bytes after the frame.
                assert!(hits.is_empty() && nfile == 0, "{}: {hit:?} of {hits:?} is not seen", self.name);
                let frame = open(&SuperChunk::options().checksums(false)).unwrap();
                assert_eq!(content(&frame).unwrap(), self.content, "{}: {hit:?}", self.name);
                DamageOutcome::Dead
            }
            Ok(Checksums::Changed) => {
                let header = hits.contains(&&Structure::Header) || hits.contains(&&Structure::Trailer);
                assert!(header, "{}: {hit:?} of {hits:?} passes as a change", self.name);
                DamageOutcome::Changed
            }
            Err(error) => {
                let error = error.detail();
                if let [Structure::Chunk(nchunk)] = hits[..] {
                    let text = error.to_string();
                    assert!(text.contains(&format!("chunk {nchunk}")), "{}: {hit:?}: {text}", self.name);
                    return DamageOutcome::Chunk;
                }
                assert!(nfile == 0 || error.to_string().contains("chunk "), "{}: {error}", self.name);
                DamageOutcome::Elsewhere
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DamageOutcome {
    /// The bytes were unchanged.
    Nothing,
    /// It is now a frame without checksums.
    Stripped,
    Dead,
    Changed,
    Chunk,
    Elsewhere,
}

#[derive(Default)]
struct OutcomeCounts(std::collections::BTreeMap<DamageOutcome, u64>);

impl OutcomeCounts {
    fn add(&mut self, seen: DamageOutcome) {
        *self.0.entry(seen).or_default() += 1;
    }

    fn of(&self, seen: DamageOutcome) -> u64 {
        self.0.get(&seen).copied().unwrap_or(0)
    }
}

fn subjects(dir: &Path) -> Vec<DamagedSubject> {
    let mut subjects = Vec::new();
    let lz4 = Compression::new().itemsize(4).codec(CodecId::LZ4).build().unwrap();
    let zstd = cparams(4);
    let mut make =
        |name: &'static str, cparams: &CParams, sparse: bool, change: &dyn Fn(&mut FrameEditor)| {
            let path = dir.join(name);
            let storage = if sparse { Storage::Sparse } else { Storage::Contiguous };
            let mut editor =
                FrameEditor::create(&path, params(cparams), &options().storage(storage)).unwrap();
            change(&mut editor);
            editor.commit().unwrap();
            drop(editor);
            subjects.push(DamagedSubject::new(name, path));
        };
    for (names, sparse) in [
        (["empty", "new", "edited", "compact"], false),
        (["sparse empty", "sparse new", "sparse edited", "sparse compact"], true),
    ] {
        make(names[0], &zstd, sparse, &|_| ());
        make(names[1], &lz4, sparse, &|editor| {
            fill(editor, &lz4);
            editor.compact().unwrap();
        });
        make(names[2], &zstd, sparse, &|editor| {
            fill(editor, &zstd);
            edit(editor);
        });
        make(names[3], &lz4, sparse, &|editor| {
            fill(editor, &lz4);
            edit(editor);
            editor.compact().unwrap();
        });
    }
    subjects
}

#[test]
fn every_bit_and_every_length() {
    let dir = tempfile::tempdir().unwrap();
    for subject in subjects(dir.path()) {
        let mut count = OutcomeCounts::default();
        for (nfile, (_, good)) in subject.files.iter().enumerate() {
            // All of the index, whose parts are short.
            let step = match (subject.path.is_dir(), nfile) {
                (false, _) => 1,
                (true, 0) => 3,
                (true, _) => 3 * stride(),
            };
            for at in (0..good.len()).step_by(step) {
                // Sparse frames have many files, so flip only one bit of each byte.
                let bits = if subject.path.is_dir() { at % 8..at % 8 + 1 } else { 0..8 };
                for bit in bits {
                    count.add(subject.damage(nfile, &flipped(good, 8 * at + bit), &(at..at + 1)));
                }
            }
            for len in (0..good.len()).step_by(step) {
                let seen = subject.damage(nfile, &good[..len], &(len..good.len()));
                assert!(
                    seen == DamageOutcome::Elsewhere || seen == DamageOutcome::Chunk,
                    "{} cut to {len}",
                    subject.name
                );
            }
        }
        let has_dead = subject.name.ends_with("edited") && !subject.name.starts_with("sparse");
        assert_eq!(count.of(DamageOutcome::Dead) > 0, has_dead, "{}: {:?}", subject.name, count.0);
        assert!(count.of(DamageOutcome::Changed) > 0 && count.of(DamageOutcome::Stripped) == 0);
        println!("{}: flips {:?}", subject.name, count.0);
    }
}

#[test]
fn bytes_sectors_and_files() {
    let cases = damages();
    let dir = tempfile::tempdir().unwrap();
    let mut random = b2_testkit::Rng::new(1);
    for subject in subjects(dir.path()) {
        let mut count = OutcomeCounts::default();
        let cases = if subject.path.is_dir() { cases / 5 } else { cases };
        for _ in 0..cases {
            let nfile = random.below(subject.files.len());
            let good = &subject.files[nfile].1;
            let mut bad = good.clone();
            overwrite(&mut bad, 4096, &mut random);
            let mut changed = (0..bad.len()).filter(|&at| bad[at] != good[at]);
            let first = changed.next().unwrap_or(0);
            count.add(subject.damage(nfile, &bad, &(first..changed.next_back().unwrap_or(first) + 1)));
        }
        // Files that are swapped or missing.
        for a in 1..subject.files.len() {
            for b in 1..a {
                let (first, second) = (&subject.files[a], &subject.files[b]);
                fs::write(&first.0, &second.1).unwrap();
                fs::write(&second.0, &first.1).unwrap();
                let verdict = SuperChunk::open(&subject.path).and_then(|frame| frame.verify_checksums());
                assert!(
                    verdict.is_err(),
                    "{}: {} and {}",
                    subject.name,
                    first.0.display(),
                    second.0.display()
                );
                fs::write(&first.0, &first.1).unwrap();
                fs::write(&second.0, &second.1).unwrap();
            }
            fs::remove_file(&subject.files[a].0).unwrap();
            assert!(SuperChunk::open(&subject.path).and_then(|frame| frame.verify_checksums()).is_err());
            fs::write(&subject.files[a].0, &subject.files[a].1).unwrap();
        }
        println!("{}: random damage {:?}", subject.name, count.0);
    }
}
