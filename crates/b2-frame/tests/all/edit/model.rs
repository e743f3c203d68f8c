//! Random sequences of operations compared with a simple model, on every storage.

use std::collections::BTreeMap;

use b2_chunk::{Chunk, SpecialKind};
use b2_frame::{FrameEditor, SuperChunk};
use proptest::prelude::*;

use super::{HOMES, Home, chunks, params};
use crate::common::{cparams, data};

/// The size of full chunks.
const FULL: usize = 240;

#[derive(Clone, Debug)]
enum Op {
    Append(usize, u64),
    Insert(usize, usize, u64),
    Update(usize, usize, u64),
    Special(SpecialKind, usize),
    Delete(usize),
    Reorder(u64),
    AppendBytes(usize, u64),
    WriteBytes(usize, usize, u64),
    Fill(SpecialKind, usize),
    FillValue(u32, usize),
    SetVl(u8, usize),
    RemoveVl(u8),
    SetMeta(u64),
    Commit,
    Rollback,
    Reopen,
    Compact,
    Snapshot,
}

fn kind() -> impl Strategy<Value = SpecialKind> {
    prop_oneof![Just(SpecialKind::Zeros), Just(SpecialKind::NaN), Just(SpecialKind::Uninit)]
}

fn op() -> impl Strategy<Value = Op> {
    let size = || prop_oneof![8 => Just(FULL), 1 => 1..2 * FULL];
    prop_oneof![
        4 => (size(), any::<u64>()).prop_map(|(n, seed)| Op::Append(n, seed)),
        2 => (any::<usize>(), size(), any::<u64>()).prop_map(|(at, n, seed)| Op::Insert(at, n, seed)),
        3 => (any::<usize>(), size(), any::<u64>()).prop_map(|(at, n, seed)| Op::Update(at, n, seed)),
        2 => (kind(), size()).prop_map(|(kind, n)| Op::Special(kind, n)),
        3 => any::<usize>().prop_map(Op::Delete),
        1 => any::<u64>().prop_map(Op::Reorder),
        4 => (1..3 * FULL, any::<u64>()).prop_map(|(n, seed)| Op::AppendBytes(n, seed)),
        3 => (any::<usize>(), 1..3 * FULL, any::<u64>()).prop_map(|(at, n, seed)| Op::WriteBytes(at, n, seed)),
        1 => (kind(), 0..3 * FULL).prop_map(|(kind, n)| Op::Fill(kind, n)),
        1 => (any::<u32>(), 0..FULL).prop_map(|(item, n)| Op::FillValue(item, n)),
        2 => (0..4u8, 0..300usize).prop_map(|(name, n)| Op::SetVl(name, n)),
        1 => (0..4u8).prop_map(Op::RemoveVl),
        1 => any::<u64>().prop_map(Op::SetMeta),
        5 => Just(Op::Commit),
        1 => Just(Op::Rollback),
        2 => Just(Op::Reopen),
        1 => Just(Op::Compact),
        1 => Just(Op::Snapshot),
    ]
}

/// The expected content of a frame.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    chunks: Vec<Vec<u8>>,
    individual: bool,
    /// The size of full chunks, once one has been written.
    full: Option<usize>,
    vlmetalayers: BTreeMap<String, Vec<u8>>,
    meta: u64,
}

impl Model {
    /// After sizes have changed, determines whether they are individual now.
    fn settle(&mut self) {
        if self.full.is_none() {
            self.full = self.chunks.first().map(Vec::len);
        }
        let Some((last, others)) = self.chunks.split_last() else { return };
        let full = self.full.unwrap();
        self.individual |= others.iter().any(|chunk| chunk.len() != full) || last.len() > full;
    }

    fn append_bytes(&mut self, mut bytes: &[u8]) {
        if self.individual {
            self.chunks.push(bytes.to_vec());
            return;
        }
        let full = *self.full.get_or_insert(1 << 20);
        while !bytes.is_empty() {
            if self.chunks.last().is_none_or(|last| last.len() == full) {
                self.chunks.push(Vec::new());
            }
            let last = self.chunks.last_mut().unwrap();
            let (part, rest) = bytes.split_at(bytes.len().min(full - last.len()));
            last.extend_from_slice(part);
            bytes = rest;
        }
    }

    fn write(&mut self, mut at: usize, mut bytes: &[u8]) {
        for chunk in &mut self.chunks {
            if at < chunk.len() && !bytes.is_empty() {
                let (part, rest) = bytes.split_at(bytes.len().min(chunk.len() - at));
                chunk[at..at + part.len()].copy_from_slice(part);
                (at, bytes) = (0, rest);
            } else {
                at = at.saturating_sub(chunk.len());
            }
        }
    }

    fn nbytes(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }
}

fn special(kind: SpecialKind, n: usize) -> Vec<u8> {
    match kind {
        SpecialKind::NaN => f32::NAN.to_le_bytes().into_iter().cycle().take(n).collect(),
        _ => vec![0; n],
    }
}

fn apply(op: &Op, editor: &mut FrameEditor, model: &mut Model, committed: &mut Model) {
    let cparams = cparams(4);
    let compress = |raw: &[u8]| Chunk::compress_bytes(raw, &cparams).unwrap();
    let n = model.chunks.len();
    match *op {
        Op::Append(len, seed) => {
            let raw = data(len, seed);
            assert_eq!(editor.append(compress(&raw)).unwrap(), n);
            model.chunks.push(raw);
            model.settle();
        }
        Op::Insert(at, len, seed) => {
            let raw = data(len, seed);
            editor.insert(at % (n + 1), compress(&raw)).unwrap();
            model.chunks.insert(at % (n + 1), raw);
            model.settle();
        }
        Op::Update(at, len, seed) if n > 0 => {
            let raw = data(len, seed);
            editor.update(at % n, compress(&raw)).unwrap();
            model.chunks[at % n] = raw;
            model.settle();
        }
        Op::Special(kind, len) => {
            let len = len.next_multiple_of(4);
            editor.append(Chunk::special(kind, &[], len, 4, 0).unwrap()).unwrap();
            model.chunks.push(special(kind, len));
            model.settle();
        }
        Op::Delete(at) if n > 0 => {
            editor.delete(at % n).unwrap();
            model.chunks.remove(at % n);
            if model.individual && model.chunks.is_empty() {
                (model.individual, model.full) = (false, None);
            }
        }
        Op::Reorder(seed) if n > 0 => {
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by_key(|i| (*i as u64 + 1).wrapping_mul(seed | 1) >> 13);
            editor.reorder(&order).unwrap();
            model.chunks = order.iter().map(|i| model.chunks[*i].clone()).collect();
            model.settle();
        }
        Op::AppendBytes(len, seed) => {
            let raw = data(len, seed);
            editor.append_bytes(&raw).unwrap();
            model.append_bytes(&raw);
        }
        Op::WriteBytes(at, len, seed) if model.nbytes() > 0 => {
            let at = at % model.nbytes();
            let raw = data(len.min(model.nbytes() - at), seed);
            editor.write_bytes(at as u64, &raw).unwrap();
            model.write(at, &raw);
        }
        Op::Fill(kind, len) => {
            let len = len.next_multiple_of(4);
            let fits = model.nbytes().is_multiple_of(4) || kind != SpecialKind::NaN;
            assert_eq!(editor.append_special(kind, len as u64).is_ok(), fits);
            if fits && len > 0 {
                model.append_bytes(&special(kind, len));
            }
        }
        Op::FillValue(item, count) => {
            editor.append_value(&item.to_le_bytes(), count as u64).unwrap();
            if count > 0 {
                model.append_bytes(&item.to_le_bytes().repeat(count));
            }
        }
        Op::SetVl(name, len) => {
            let (name, value) = (format!("vl{name}"), data(len, u64::from(name)));
            editor.vlmeta().set(&name, &value).unwrap();
            model.vlmetalayers.insert(name, value);
        }
        Op::RemoveVl(name) => {
            let name = format!("vl{name}");
            assert_eq!(editor.vlmeta().remove(&name), model.vlmetalayers.remove(&name).is_some());
        }
        Op::SetMeta(value) => {
            editor.set_metalayer("meta", &value.to_be_bytes()).unwrap();
            model.meta = value;
        }
        Op::Commit => {
            editor.commit().unwrap();
            *committed = model.clone();
        }
        Op::Compact => {
            editor.compact().unwrap();
            *committed = model.clone();
            assert_eq!(editor.dead_bytes().unwrap(), 0);
        }
        Op::Rollback => {
            editor.rollback();
            *model = committed.clone();
        }
        Op::Snapshot => check(&editor.snapshot().unwrap(), model),
        Op::Reopen | Op::Update(..) | Op::Delete(_) | Op::Reorder(_) | Op::WriteBytes(..) => {}
    }
}

fn check(schunk: &SuperChunk, model: &Model) {
    assert_eq!(schunk.nchunks(), model.chunks.len());
    for (nchunk, raw) in model.chunks.iter().enumerate() {
        assert!(schunk.chunk(nchunk).decompress().unwrap() == *raw, "chunk {nchunk}");
    }
    assert_eq!(schunk.nbytes(), model.nbytes() as u64);
    assert!(schunk.read_bytes(0..schunk.nbytes()).unwrap() == model.chunks.concat());
    assert_eq!(schunk.chunksize() == 0, model.individual || model.full.is_none());
    let found = schunk.vlmetalayers();
    assert_eq!(found.iter().len(), model.vlmetalayers.len());
    for (name, value) in &model.vlmetalayers {
        assert_eq!(found.get(name).unwrap().as_ref(), Some(value));
    }
    assert_eq!(schunk.metalayers().get("meta"), Some(&model.meta.to_be_bytes()[..]));
    for info in schunk.chunk_infos() {
        let info = info.unwrap();
        assert_eq!(info.nbytes, model.chunks[info.nchunk].len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_operations_do_what_a_plain_vector_does(
        ops in prop::collection::vec(op(), 1..40),
        home in 0..3usize,
        sized in any::<bool>(),
        late in any::<bool>(),
    ) {
        let params = params(&cparams(4)).metalayer("meta", [0; 8]);
        let params = if sized { params.chunksize(FULL) } else { params };
        let mut home = Home::new(HOMES[home], params);
        let mut model = Model { full: sized.then_some(FULL), ..Model::default() };
        let mut committed = model.clone();
        let mut editor = home.edit();
        for op in &ops {
            apply(op, &mut editor, &mut model, &mut committed);
            prop_assert_eq!((editor.nchunks(), editor.nbytes()), (model.chunks.len(), model.nbytes() as u64));
            match op {
                Op::Reopen => {
                    home.close(editor);
                    check(&home.read(), &committed);
                    model = committed.clone();
                    editor = home.edit();
                }
                // Others see exactly what has been committed.
                _ if late && !home.path().as_os_str().is_empty() => check(&home.read(), &committed),
                _ => {}
            }
        }
        check(&editor.snapshot().unwrap(), &model);
        editor.commit().unwrap();
        home.close(editor);
        check(&home.read(), &model);
        prop_assert_eq!(chunks(&home.read()), model.chunks);
    }
}
