use b2_core::ErrorKind;

use crate::CodecId;

/// The error type of encoding and decoding streams.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The stream violates the codec's format.
    #[error("{codec}: malformed stream at byte {offset}: {what}")]
    #[non_exhaustive]
    Malformed {
        /// The codec that read the stream.
        codec: CodecId,
        /// Offset in the stream, in bytes.
        offset: usize,
        /// What is malformed.
        what: &'static str,
    },
    /// The stream decodes to a number of bytes other than expected.
    #[error("{codec}: stream decodes to {got} bytes, expected {expected}")]
    #[non_exhaustive]
    WrongLength {
        /// The codec that read the stream.
        codec: CodecId,
        /// Bytes that it decodes to, or a lower bound if they do not fit.
        got: usize,
        /// Bytes the caller expects.
        expected: usize,
    },
    /// The codec does not support the request.
    #[error("{codec} does not support {what}")]
    #[non_exhaustive]
    Unsupported {
        /// The codec.
        codec: CodecId,
        /// What is not supported.
        what: &'static str,
    },
    /// There is not enough memory.
    #[error(transparent)]
    OutOfMemory(#[from] b2_core::OutOfMemory),
    /// The underlying library failed.
    #[error("{codec}: {message}")]
    #[non_exhaustive]
    Backend {
        /// The codec.
        codec: CodecId,
        /// The message of the library.
        message: String,
    },
}

impl CodecError {
    /// Creates the error for a stream that violates the codec's format at byte `offset`.
    pub fn malformed(codec: CodecId, offset: usize, what: &'static str) -> Self {
        Self::Malformed { codec, offset, what }
    }

    /// Creates the error for a stream that decodes to `got` bytes.
    pub fn wrong_length(codec: CodecId, got: usize, expected: usize) -> Self {
        Self::WrongLength { codec, got, expected }
    }

    /// Creates the error for a request that the codec does not support.
    pub fn unsupported(codec: CodecId, what: &'static str) -> Self {
        Self::Unsupported { codec, what }
    }

    /// Creates the error for a failure of the underlying library.
    pub fn backend(codec: CodecId, message: impl Into<String>) -> Self {
        Self::Backend { codec, message: message.into() }
    }

    /// Classifies the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Malformed { .. } | Self::WrongLength { .. } | Self::Backend { .. } => ErrorKind::Damaged,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::OutOfMemory(_) => ErrorKind::Memory,
        }
    }
}
