//! The complete content of a frame.

use b2_frame::SuperChunk;
use sha2::{Digest, Sha256};

/// Uncompressed chunks, metalayers and vlmetalayers.
#[derive(Clone, PartialEq, Eq)]
pub struct Contents {
    pub typesize: usize,
    pub chunks: Vec<Vec<u8>>,
    pub metalayers: Vec<(Vec<u8>, Vec<u8>)>,
    pub vlmetalayers: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Contents {
    pub fn of(schunk: &SuperChunk) -> Result<Self, String> {
        let chunk = |n| schunk.chunk(n).decompress().map_err(|error| format!("chunk {n}: {error}"));
        let chunks = (0..schunk.nchunks()).map(chunk).collect::<Result<_, _>>()?;
        let metalayers = schunk.metalayers().iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
        let layers = schunk.vlmetalayers();
        let vlmetalayers = layers
            .iter()
            .map(|(name, _)| match layers.get(name) {
                Ok(value) => Ok((name.to_vec(), value.unwrap_or_default())),
                Err(error) => Err(error.to_string()),
            })
            .collect::<Result<_, String>>()?;
        let contents =
            Self { typesize: schunk.itemsize(), chunks, metalayers: metalayers.collect(), vlmetalayers };
        // The size in the header and the chunks could come from different states.
        if contents.nbytes() as u64 != schunk.nbytes() {
            return Err(format!("nbytes is {}, chunks have {}", schunk.nbytes(), contents.nbytes()));
        }
        Ok(contents)
    }

    pub fn nbytes(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    pub fn plain(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    /// Returns the SHA-256 of typesize, uncompressed bytes, metalayers and vlmetalayers, each preceded by its length as
    /// u64, with the metalayers sorted by name. Other programs can compute the same digest.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(self.typesize.to_string().as_bytes());
        add(&self.plain());
        for layers in [&self.metalayers, &self.vlmetalayers] {
            let mut sorted = layers.clone();
            sorted.sort();
            add(sorted.len().to_string().as_bytes());
            for (name, value) in sorted {
                add(&name);
                add(&value);
            }
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sizes: Vec<usize> = self.chunks.iter().map(Vec::len).collect();
        write!(f, "chunks {sizes:?}, {}", self.digest())
    }
}
