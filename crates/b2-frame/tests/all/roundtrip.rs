//! Frames read back as written, for every storage and many parameters, and depend on nothing else.

use crate::common::*;
use b2_chunk::{CParams, Chunk, CodecId, Compression, FilterSlot, Plugins, SpecialKind};
use b2_frame::{Entry, FrameParams, FrameWriter, Storage, SuperChunk};
use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::select;

/// One chunk to append.
#[derive(Clone, Debug)]
enum Part {
    Data(Vec<u8>),
    Repeated(Vec<u8>, usize),
    Special(SpecialKind, usize),
}

impl Part {
    fn plain(&self) -> Vec<u8> {
        match self {
            Self::Data(data) => data.clone(),
            Self::Repeated(value, n) => value.repeat(*n),
            Self::Special(SpecialKind::NaN, nbytes) if nbytes % 8 == 0 => {
                f64::NAN.to_le_bytes().repeat(nbytes / 8)
            }
            Self::Special(_, nbytes) => vec![0; *nbytes],
        }
    }

    fn append(&self, writer: &mut FrameWriter, cparams: &CParams) {
        match self {
            Self::Data(data) => writer.append(compress(data, cparams)),
            Self::Repeated(value, n) => {
                let (nbytes, typesize) = (value.len() * n, cparams.itemsize());
                let chunk = Chunk::special(SpecialKind::Value, value, nbytes, typesize, 0).unwrap();
                writer.append(chunk)
            }
            Self::Special(kind, nbytes) => writer.append_special(*kind, *nbytes),
        }
        .unwrap();
    }
}

fn codecs() -> Vec<CodecId> {
    let all = [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD];
    all.into_iter().filter(|id| Plugins::builtin().codec(*id).is_ok()).collect()
}

prop_compose! {
    fn cparams_strategy()(
        typesize in select(vec![1usize, 2, 3, 4, 7, 8, 16, 255, 256, 1000]),
        codec in select(codecs()),
        clevel in 0u8..=9,
        filters in select(vec![vec![], vec![FilterSlot::SHUFFLE], vec![FilterSlot::BITSHUFFLE],
            vec![FilterSlot::DELTA, FilterSlot::SHUFFLE]]),
        blocks in select(vec![0usize, 1, 16, 100]),
    ) -> CParams {
        Compression::new().itemsize(typesize).codec(codec).level(clevel).filters(filters)
            .blocksize(blocks * typesize).build().unwrap()
    }
}

/// Chunks of one size (the last one smaller), or of individual sizes, some of them special.
fn parts_strategy(typesize: usize) -> impl Strategy<Value = Vec<Part>> {
    let part = move |nbytes: usize| {
        let items = nbytes / typesize;
        let mut kinds = vec![
            any::<u64>().prop_map(move |seed| Part::Data(data(nbytes, seed))).boxed(),
            Just(Part::Data(vec![0; nbytes])).boxed(),
        ];
        if nbytes > 0 {
            kinds.push(Just(Part::Special(SpecialKind::Zeros, nbytes)).boxed());
            kinds.push(Just(Part::Special(SpecialKind::Uninit, nbytes)).boxed());
        }
        if nbytes > 0 && nbytes.is_multiple_of(typesize) {
            kinds.push(
                prop::collection::vec(any::<u8>(), typesize)
                    .prop_map(move |v| Part::Repeated(v, items))
                    .boxed(),
            );
            if typesize == 8 {
                kinds.push(Just(Part::Special(SpecialKind::NaN, nbytes)).boxed());
            }
        }
        prop::strategy::Union::new(kinds)
    };
    let equal = (1usize..400, 0usize..8, 0usize..400).prop_flat_map(move |(items, n, rest)| {
        let rest = (rest * 13).min(items * typesize);
        let sizes = std::iter::repeat_n(items * typesize, n).chain((rest > 0).then_some(rest));
        sizes.map(part).collect::<Vec<_>>()
    });
    let individual = prop::collection::vec(0usize..3000, 0..8)
        .prop_flat_map(move |sizes| sizes.into_iter().map(part).collect::<Vec<_>>());
    prop_oneof![equal, individual]
}

#[derive(Clone, Debug)]
struct Case {
    cparams: CParams,
    parts: Vec<Part>,
    metalayers: Vec<Vec<u8>>,
    vlmetalayers: Vec<Vec<u8>>,
}

fn cases() -> impl Strategy<Value = Case> {
    let values = || prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..=16);
    cparams_strategy().prop_flat_map(move |cparams| {
        let parts = parts_strategy(cparams.itemsize());
        (parts, values(), values()).prop_map(move |(parts, metalayers, vlmetalayers)| Case {
            cparams: cparams.clone(),
            parts,
            metalayers,
            vlmetalayers,
        })
    })
}

impl Case {
    fn params(&self) -> FrameParams {
        let params = FrameParams::from_cparams(&self.cparams);
        self.metalayers
            .iter()
            .enumerate()
            .fold(params, |p, (i, value)| p.metalayer(format!("meta{i}"), value))
    }

    fn fill(&self, mut writer: FrameWriter) -> Bytes {
        for part in &self.parts {
            part.append(&mut writer, &self.cparams);
        }
        for (i, value) in self.vlmetalayers.iter().enumerate() {
            writer.set_vlmetalayer(format!("vl{i}"), value).unwrap();
        }
        writer.finish().unwrap().into_bytes()
    }

    fn check(&self, schunk: &SuperChunk, ranges: &[(u64, u64)]) -> Result<(), TestCaseError> {
        let raw: Vec<u8> = self.parts.iter().flat_map(Part::plain).collect();
        prop_assert_eq!(schunk.nchunks(), self.parts.len());
        prop_assert_eq!(schunk.nbytes(), raw.len() as u64);
        prop_assert_eq!(schunk.itemsize(), self.cparams.itemsize());
        prop_assert_eq!(schunk.header().codec(), self.cparams.codec());
        prop_assert_eq!(schunk.header().level(), self.cparams.level());
        prop_assert_eq!(schunk.header().filters(), self.cparams.filters());
        for (nchunk, part) in self.parts.iter().enumerate() {
            let plain = part.plain();
            prop_assert_eq!(schunk.chunk(nchunk).nbytes().unwrap(), plain.len() as u64);
            prop_assert_eq!(&schunk.chunk(nchunk).decompress().unwrap(), &plain);
            let all: Vec<usize> = (0..schunk.chunk(nchunk).head().unwrap().nblocks()).rev().collect();
            let mut blocks = Vec::new();
            schunk.chunk(nchunk).blocks(&all, |_, block| blocks.push(block.to_vec())).unwrap();
            blocks.reverse();
            prop_assert_eq!(&blocks.concat(), &plain);
        }
        prop_assert_eq!(&schunk.read_bytes(0..schunk.nbytes()).unwrap(), &raw);
        for (a, b) in ranges {
            let (a, b) = (a % (schunk.nbytes() + 1), b % (schunk.nbytes() + 1));
            let (a, b) = (a.min(b), a.max(b));
            prop_assert_eq!(&schunk.read_bytes(a..b).unwrap(), &raw[a as usize..b as usize], "{}..{}", a, b);
        }
        prop_assert!(schunk.read_bytes(0..schunk.nbytes() + 1).is_err());
        prop_assert!(schunk.read_items(0..schunk.nitems() + 1).is_err());
        let metalayers: Vec<_> = schunk.metalayers().iter().map(|(_, value)| value.to_vec()).collect();
        prop_assert_eq!(&metalayers, &self.metalayers);
        for (i, value) in self.vlmetalayers.iter().enumerate() {
            prop_assert_eq!(&schunk.vlmetalayers().get(format!("vl{i}")).unwrap().unwrap(), value);
        }
        prop_assert_eq!(schunk.vlmetalayers().iter().len(), self.vlmetalayers.len());
        Ok(())
    }
}

/// Checks the rules for frames that C-Blosc2 must be able to read.
fn check_rules(schunk: &SuperChunk) -> Result<(), TestCaseError> {
    let typesize = schunk.itemsize();
    for nchunk in 0..schunk.nchunks() {
        match schunk.chunk(nchunk).entry().unwrap() {
            Entry::Special(_) => {
                prop_assert!(schunk.chunksize() > 0);
                prop_assert_eq!(schunk.chunk(nchunk).nbytes().unwrap() % typesize as u64, 0);
            }
            Entry::Stored(_) => {
                let header = schunk.chunk(nchunk).header().unwrap().unwrap();
                prop_assert!(header.is_extended() && header.cbytes() >= 32);
                prop_assert_eq!(header.itemsize(), if typesize > 255 { 1 } else { typesize });
                match header.special() {
                    None => {}
                    Some(SpecialKind::Value) => prop_assert_eq!(header.cbytes(), 32 + typesize),
                    Some(kind) => prop_assert!(false, "{:?} stored", kind),
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_storage_gives_back_what_it_got(
        case in cases().prop_filter("all chunks empty", |case| {
            case.parts.is_empty() || case.parts.iter().any(|part| !part.plain().is_empty())
        }),
        ranges in prop::collection::vec(any::<(u64, u64)>(), 6),
    ) {
        let frame = case.fill(FrameWriter::memory(case.params()).unwrap());
        let memory = SuperChunk::from_bytes(frame.clone()).unwrap();
        case.check(&memory, &ranges)?;
        check_rules(&memory)?;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("contiguous");
        case.fill(FrameWriter::create(&path, case.params()).unwrap());
        prop_assert_eq!(&std::fs::read(&path).unwrap(), &frame);
        case.check(&SuperChunk::open(&path).unwrap(), &ranges)?;
        std::fs::write(&path, [&[0xA5; 77][..], &frame, b"behind"].concat()).unwrap();
        case.check(&SuperChunk::options().offset(77).open(&path).unwrap(), &ranges)?;

        let path = dir.path().join("sparse");
        case.fill(FrameWriter::options().storage(Storage::Sparse).create(&path, case.params()).unwrap());
        let sparse = SuperChunk::open(&path).unwrap();
        prop_assert_eq!(sparse.storage(), Storage::Sparse);
        case.check(&sparse, &ranges)?;
        check_rules(&sparse)?;
        prop_assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
    }
}

#[cfg(feature = "rayon")]
#[test]
fn bytes_do_not_depend_on_the_number_of_threads() {
    let raw = data(3_000_000, 1);
    let cparams = Compression::new().itemsize(4).codec(CodecId::BLOSCLZ).blocksize(16_384).build().unwrap();
    let make = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let frame = frame(&raw, 500_000, &cparams);
            assert_eq!(SuperChunk::from_bytes(frame.clone()).unwrap().read_bytes(0..3_000_000).unwrap(), raw);
            frame
        })
    };
    let one = make(1);
    for threads in [2, 3, 8] {
        assert!(make(threads) == one, "{threads} threads");
    }
}

#[test]
fn special_chunks_are_stored_when_sizes_become_individual() {
    let cparams = cparams(8);
    let zeros = Part::Special(SpecialKind::Zeros, 800);
    let nan = Part::Special(SpecialKind::NaN, 800);
    let uninit = Part::Special(SpecialKind::Uninit, 800);
    let odd = Part::Special(SpecialKind::Zeros, 77);
    let stored = Part::Data(data(800, 1));
    let parts = [&zeros, &nan, &stored, &uninit, &odd, &stored];
    for storage in [Storage::Contiguous, Storage::Sparse] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frame");
        for n in 1..=parts.len() {
            let params = FrameParams::from_cparams(&cparams);
            let options = FrameWriter::options().overwrite(true);
            let mut writer = options.storage(storage).create(&path, params).unwrap();
            parts[..n].iter().for_each(|part| part.append(&mut writer, &cparams));
            writer.finish().unwrap();
            let schunk = SuperChunk::open(&path).unwrap();
            let raw: Vec<u8> = parts[..n].iter().flat_map(|part| part.plain()).collect();
            assert_eq!(whole(&schunk), raw);
            assert_eq!(schunk.read_bytes(0..schunk.nbytes()).unwrap(), raw);
            check_rules(&schunk).unwrap();
            assert_eq!(schunk.chunksize(), if n < 6 { 800 } else { 0 });
            let special = |nchunk| matches!(schunk.chunk(nchunk).entry().unwrap(), Entry::Special(_));
            assert_eq!((0..n).filter(|nchunk| special(*nchunk)).count(), [0, 1, 2, 2, 3, 3, 0][n]);
        }
    }
}

#[test]
fn file_numbers_stay_below_cbytes() {
    // C-Blosc2 mistakes file numbers for offsets.
    let dir = tempfile::tempdir().unwrap();
    for n in [0, 1, 3] {
        let path = dir.path().join(n.to_string());
        let mut writer =
            FrameWriter::options().storage(Storage::Sparse).create(&path, FrameParams::new(1)).unwrap();
        for _ in 0..n {
            writer.append(compress(&data(50, 1), &cparams(1))).unwrap();
        }
        let written = writer.finish().unwrap();
        assert!(n == 0 || written.cbytes >= n + 31);
        assert_eq!(written.cbytes, SuperChunk::open(&path).unwrap().cbytes());
    }
}
