//! The streams of a stored block (docs/format/chunk.md, data streams).

/// One stream, as it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream<'a> {
    /// One byte value all over.
    Run(u8),
    /// The plain bytes.
    Stored(&'a [u8]),
    /// What the codec made.
    Encoded(&'a [u8]),
}

/// Reads the streams of a block one after the other.
#[derive(Clone, Debug)]
pub(crate) enum Streams<'a> {
    /// The next stream is at `pos` of the stored block; each has `stream_len` plain bytes.
    Listed { stored: &'a [u8], pos: usize, stream_len: usize },
    /// There is only this one.
    Single(Stream<'a>),
}

/// Where in the stored block something is wrong, and what.
pub(crate) type Malformed = (usize, &'static str);

impl<'a> Streams<'a> {
    pub(crate) fn new(stored: &'a [u8], stream_len: usize) -> Self {
        Self::Listed { stored, pos: 0, stream_len }
    }

    /// The next stream; the caller knows how many there are.
    pub(crate) fn next(&mut self) -> Result<Stream<'a>, Malformed> {
        let (stored, pos, stream_len) = match self {
            Self::Single(stream) => return Ok(*stream),
            Self::Listed { stored, pos, stream_len } => (*stored, pos, *stream_len),
        };
        let Some(csize) = stored.get(*pos..).and_then(|rest| rest.first_chunk::<4>()) else {
            return Err((*pos, "the block ends before the length of a stream"));
        };
        let csize = i32::from_le_bytes(*csize);
        let data = *pos + 4;
        match csize {
            0 => {
                *pos = data;
                Ok(Stream::Run(0))
            }
            i32::MIN..=-1 => {
                let Some(&token) = stored.get(data) else {
                    return Err((data, "the block ends before the token of a run"));
                };
                match u8::try_from(csize.unsigned_abs()) {
                    Ok(value) if token & 1 == 1 => {
                        *pos = data + 1;
                        Ok(Stream::Run(value))
                    }
                    _ => Err((data, "unknown kind of run")),
                }
            }
            1.. => {
                let csize = csize.unsigned_abs() as usize;
                let Some(bytes) = stored.get(data..).and_then(|rest| rest.get(..csize)) else {
                    return Err((data, "the stream is longer than its block"));
                };
                *pos = data + csize;
                // A stream that would not shrink is stored as it is.
                Ok(if csize == stream_len { Stream::Stored(bytes) } else { Stream::Encoded(bytes) })
            }
        }
    }
}
