//! The streams of a stored block (docs/format/chunk.md, data streams).

/// One stream as stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream<'a> {
    /// All bytes have this value.
    Run(u8),
    /// The bytes are stored uncompressed.
    Stored(&'a [u8]),
    /// The bytes are the output of the codec.
    Encoded(&'a [u8]),
}

/// Iterates over the streams of a block.
#[derive(Clone, Debug)]
pub(crate) enum Streams<'a> {
    /// The next stream is at `pos` of the stored block. Each has `stream_len` uncompressed bytes.
    Listed { stored: &'a [u8], pos: usize, stream_len: usize },
    /// The block consists of this stream.
    Single(Stream<'a>),
}

/// What is malformed in a stored block. Kept small, since it is part of every result of [`Streams::next`].
#[derive(Debug)]
pub(crate) struct MalformedStream {
    /// Offset of the field from the start of the block.
    pub(crate) pos: usize,
    pub(crate) fault: StreamFault,
    pub(crate) value: i64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamFault {
    RoomForLength,
    RoomForToken,
    Length,
    RunLength,
    Token,
    Split,
}

impl StreamFault {
    /// Returns the name of the field and what was expected, for [`ChunkError::Block`](crate::ChunkError::Block).
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::RoomForLength => ("room for the length of a stream", "4 bytes or more"),
            Self::RoomForToken => ("room for the token of a run", "1 byte or more"),
            Self::Length => ("length of a stream", "at most what is left of the block"),
            Self::RunLength => ("length of a stream", "-255 or more"),
            Self::Token => ("token of a run", "an odd number"),
            Self::Split => ("length of a split block", "a multiple of typesize, and not 0"),
        }
    }
}

impl<'a> Streams<'a> {
    pub(crate) fn new(stored: &'a [u8], stream_len: usize) -> Self {
        Self::Listed { stored, pos: 0, stream_len }
    }

    /// Returns the stored block from the start of the last encoded stream on, which was `stream`. It is longer than the stream
    /// if other streams follow, so that decoders need not be careful near its end.
    #[inline(always)]
    pub(crate) fn from(&self, stream: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Listed { stored, pos, .. } => {
                pos.checked_sub(stream.len()).and_then(|start| stored.get(start..)).unwrap_or(stream)
            }
            Self::Single(_) => stream,
        }
    }

    /// Reads the next stream. The caller knows how many there are.
    #[inline(always)] // A result passed through memory costs as much as a short stream: its load waits for the stores.
    pub(crate) fn next(&mut self) -> Result<Stream<'a>, MalformedStream> {
        let (stored, pos, stream_len) = match self {
            Self::Single(stream) => return Ok(*stream),
            Self::Listed { stored, pos, stream_len } => (*stored, pos, *stream_len),
        };
        let start = *pos;
        let fail = |pos, fault, value| Err(MalformedStream { pos, fault, value });
        let rest = stored.get(start..).unwrap_or_default();
        let Some((csize, rest)) = rest.split_first_chunk::<4>() else {
            let room = i64::try_from(rest.len()).unwrap_or(i64::MAX);
            return fail(start, StreamFault::RoomForLength, room);
        };
        let csize = i32::from_le_bytes(*csize);
        // From here on `pos` and `data` are within `stored`.
        let data = start.saturating_add(4);
        match csize {
            0 => {
                *pos = data;
                Ok(Stream::Run(0))
            }
            i32::MIN..=-1 => {
                let Some(&token) = rest.first() else {
                    return fail(data, StreamFault::RoomForToken, 0);
                };
                let Ok(value) = u8::try_from(csize.unsigned_abs()) else {
                    return fail(start, StreamFault::RunLength, csize.into());
                };
                if token & 1 == 0 {
                    return fail(data, StreamFault::Token, token.into());
                }
                *pos = data.saturating_add(1);
                Ok(Stream::Run(value))
            }
            1.. => {
                let Some(bytes) = rest.get(..csize.unsigned_abs() as usize) else {
                    return fail(start, StreamFault::Length, csize.into());
                };
                let csize = bytes.len();
                *pos = data.saturating_add(csize);
                // The encoder stores a stream uncompressed if it does not shrink.
                Ok(if csize == stream_len { Stream::Stored(bytes) } else { Stream::Encoded(bytes) })
            }
        }
    }
}
