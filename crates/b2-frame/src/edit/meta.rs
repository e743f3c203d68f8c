//! Metalayers and vlmetalayers.

use std::sync::Arc;

use ::bytes::{Bytes, BytesMut};
use b2_chunk::{CParams, Chunk, CodecId};

use crate::edit::FrameEditor;
use crate::metalayers::{Metalayers, VlMetalayers, check_name, show};
use crate::{FrameError, Structure};

impl FrameEditor {
    /// The metalayers, with changes that are not committed.
    ///
    /// # Errors
    /// None unless the header has been damaged in memory.
    pub fn metalayers(&self) -> Result<Metalayers, FrameError> {
        Metalayers::parse(&self.staged.header)
    }

    /// The vlmetalayers, with changes that are not committed.
    pub fn vlmetalayers(&self) -> VlMetalayers {
        VlMetalayers::from_entries(self.staged.vlmetalayers.to_vec(), &self.fit.dparams)
    }

    /// Changes the value of a metalayer. It becomes visible with the same write as the chunks of the commit.
    ///
    /// # Errors
    /// When there is no such metalayer, or the new value does not have the length of the old one.
    pub fn set_metalayer(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), FrameError> {
        let name = name.as_ref();
        let Some(place) = self.metalayers()?.place(&self.staged.header, name) else {
            return Err(FrameError::argument("metalayer", format!("there is no {:?}", show(name))));
        };
        if place.len() != value.len() {
            let what = format!("{} bytes for {:?}, which has {}", value.len(), show(name), place.len());
            return Err(FrameError::argument("metalayer", what));
        }
        let mut header = BytesMut::from(&self.staged.header[..]);
        if let Some(old) = header.get_mut(place) {
            old.copy_from_slice(value);
        }
        self.staged.header = header.freeze();
        Ok(())
    }

    /// Sets a vlmetalayer, compressed. By convention the value is msgpack.
    ///
    /// # Errors
    /// For names that are not 1 to 31 bytes long, and for a new one where there are 16 (see
    /// [`OpenOptions::many_vlmetalayers`](crate::OpenOptions::many_vlmetalayers)).
    pub fn set_vlmetalayer(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), FrameError> {
        let name = name.as_ref();
        let chunk = compress_value(value, &self.fit.dparams.plugins);
        let chunk = chunk.map_err(FrameError::chunk(Structure::VlMetalayer(show(name))))?;
        self.set_vlmetalayer_chunk(name, chunk)
    }

    /// Sets a vlmetalayer to a value that is compressed already.
    ///
    /// # Errors
    /// As [`set_vlmetalayer`](Self::set_vlmetalayer).
    pub fn set_vlmetalayer_chunk(&mut self, name: impl AsRef<[u8]>, value: Chunk) -> Result<(), FrameError> {
        let name = name.as_ref();
        check_name(name)?;
        let place = self.staged.vlmetalayers.iter().position(|(n, _)| n == name);
        if place.is_none() && self.staged.vlmetalayers.len() >= self.max_vlmetalayers {
            return Err(FrameError::argument("vlmetalayers", format!("more than {}", self.max_vlmetalayers)));
        }
        let vlmetalayers = Arc::make_mut(&mut self.staged.vlmetalayers);
        match place.and_then(|place| vlmetalayers.get_mut(place)) {
            Some((_, old)) => *old = value.into_bytes(),
            None => vlmetalayers.push((Bytes::copy_from_slice(name), value.into_bytes())),
        }
        Ok(())
    }

    /// Removes a vlmetalayer; tells whether there was one.
    pub fn remove_vlmetalayer(&mut self, name: impl AsRef<[u8]>) -> bool {
        let name = name.as_ref();
        let Some(place) = self.staged.vlmetalayers.iter().position(|(n, _)| n == name) else { return false };
        Arc::make_mut(&mut self.staged.vlmetalayers).remove(place);
        true
    }
}

/// A vlmetalayer's value as a chunk.
pub(crate) fn compress_value(
    value: &[u8],
    plugins: &b2_chunk::Plugins,
) -> Result<Chunk, b2_chunk::ChunkError> {
    let cparams = CParams::builder(1).plugins(plugins.clone()).build();
    // A build without any compressor can still store.
    let cparams = cparams.or_else(|_| CParams::builder(1).codec(CodecId::BLOSCLZ).clevel(0).build());
    Chunk::compress(value, &cparams?)
}
