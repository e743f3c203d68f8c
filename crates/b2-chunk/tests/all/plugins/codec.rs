use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use b2_chunk::CodecId;
use b2_chunk::codecs::{Codec, CodecContext, CodecError, CodecProperties, Decoder, Encoded, Encoder};

pub(crate) const ID: CodecId = CodecId(200);

fn lz4() -> Arc<dyn Codec> {
    b2_chunk::codecs::builtin().into_iter().find(|codec| codec.id() == CodecId::LZ4).unwrap()
}

/// LZ4 under a different name, recording its calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestCodec {
    pub(crate) properties: CodecProperties,
    pub(crate) seen: Arc<Mutex<Seen>>,
    /// Whether the first stream waits for a second thread.
    pub(crate) waits: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) trained: usize,
    /// Encoders and decoders with a dictionary.
    pub(crate) dicts: (usize, usize),
    pub(crate) shapes: HashSet<Vec<u32>>,
    pub(crate) encoded: usize,
    pub(crate) threads: HashSet<ThreadId>,
}

impl TestCodec {
    pub(crate) fn new(properties: CodecProperties) -> Self {
        Self { properties, ..Self::default() }
    }
}

impl Codec for TestCodec {
    fn id(&self) -> CodecId {
        ID
    }
    fn name(&self) -> &str {
        "test"
    }
    fn properties(&self) -> CodecProperties {
        self.properties
    }
    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        let mut seen = self.seen.lock().unwrap();
        seen.dicts.0 += usize::from(cx.dict.is_some());
        seen.shapes.insert(cx.blockshape.to_vec());
        Ok(Box::new(Noting { inner: lz4().encoder(cx)?, seen: Arc::clone(&self.seen), waits: self.waits }))
    }
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        let mut seen = self.seen.lock().unwrap();
        seen.dicts.1 += usize::from(cx.dict.is_some());
        seen.shapes.insert(cx.blockshape.to_vec());
        lz4().decoder(cx)
    }
    fn train_dict(
        &self,
        samples: &[u8],
        sample_lens: &[usize],
        max_len: usize,
    ) -> Result<Option<Vec<u8>>, CodecError> {
        self.seen.lock().unwrap().trained += 1;
        lz4().train_dict(samples, sample_lens, max_len)
    }
}

struct Noting {
    inner: Box<dyn Encoder>,
    seen: Arc<Mutex<Seen>>,
    waits: bool,
}

impl Encoder for Noting {
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
        let note = || {
            let mut seen = self.seen.lock().unwrap();
            seen.threads.insert(thread::current().id());
            seen.threads.len()
        };
        let begun = Instant::now();
        while note() < 2 && self.waits && begun.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(1));
        }
        self.seen.lock().unwrap().encoded += 1;
        self.inner.encode(src, dst)
    }
}
