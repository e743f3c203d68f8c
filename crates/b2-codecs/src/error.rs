use crate::CodecId;

/// Why a stream could not be encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The stream breaks the codec's rules.
    #[error("{codec}: malformed stream at byte {offset}: {what}")]
    Malformed {
        /// The codec that read it.
        codec: CodecId,
        /// Where in the stream, in bytes.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// The stream decodes to another number of bytes than the chunk says.
    #[error("{codec}: stream decodes to {got} bytes, expected {expected}")]
    WrongLength {
        /// The codec that read it.
        codec: CodecId,
        /// Bytes it decodes to (a lower bound when there were more).
        got: usize,
        /// Bytes the caller expects.
        expected: usize,
    },
    /// The codec cannot do this.
    #[error("{codec} does not support {what}")]
    Unsupported {
        /// The codec asked.
        codec: CodecId,
        /// What it was asked for.
        what: &'static str,
    },
    /// There is not enough memory.
    #[error(transparent)]
    OutOfMemory(#[from] crate::memory::OutOfMemory),
    /// The library behind the codec reported an error.
    #[error("{codec}: {message}")]
    Backend {
        /// The codec whose backend failed.
        codec: CodecId,
        /// The backend's words.
        message: String,
    },
}
