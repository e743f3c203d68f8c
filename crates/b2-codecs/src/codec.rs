//! The codec traits and the properties of codecs.

use std::fmt::Debug;

use crate::{CodecError, CodecId};

/// Parameters of the streams that a codec is used on.
///
/// They are constant within a chunk, so an [`Encoder`] or [`Decoder`] made from them can be reused for all streams of
/// the chunk.
///
/// ```
/// use b2_codecs::CodecContext;
/// let cx = CodecContext::new(5).itemsize(4).blockshape(&[8, 8]);
/// assert_eq!((cx.level, cx.dict), (5, None));
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct CodecContext<'a> {
    /// Compression level, 0 to 9 (encoders only).
    pub level: u8,
    /// The codec's parameter byte, chunk header byte 0x17.
    pub meta: u8,
    /// Item size in bytes; 1 for chunks whose real item size is above 255.
    pub itemsize: usize,
    /// The chunk's dictionary, if it has one.
    pub dict: Option<&'a [u8]>,
    /// Shape of a block in items, for N-dimensional codecs (ndlz, zfp). Empty if the data is not an array.
    pub blockshape: &'a [u32],
}

impl<'a> CodecContext<'a> {
    b2_core::setters! {
        meta: u8,
        itemsize: usize,
        dict: Option<&'a [u8]>,
        blockshape: &'a [u32],
    }

    /// Creates a context for `level` with item size 1, no dictionary and no block shape.
    pub fn new(level: u8) -> Self {
        Self { level, itemsize: 1, ..Self::default() }
    }

    /// Fails if there is a dictionary, for formats that do not support them.
    pub(crate) fn refuse_dict(&self, codec: CodecId) -> Result<(), CodecError> {
        match self.dict {
            None => Ok(()),
            Some(_) => Err(CodecError::Unsupported { codec, what: "dictionaries" }),
        }
    }
}

/// A compression algorithm for streams, identified by the codec id in the chunk header.
///
/// # Using one
/// [`builtin`](crate::builtin) returns the codecs of this crate. Chunks use them automatically; used directly, they work on bare
/// streams, whose length the caller has to store.
///
/// ```
/// use b2_codecs::{CodecContext, CodecError, CodecId, Encoded, builtin};
///
/// let plain = b"she sells sea shells by the sea shore, sea shells she sells".repeat(4);
/// for codec in builtin().iter().filter(|codec| [CodecId::BLOSCLZ, CodecId::LZ4].contains(&codec.id())) {
///     let cx = CodecContext::new(5).itemsize(1);
///     let mut stream = vec![0; plain.len()];
///     match codec.encoder(&cx)?.encode(&plain, &mut stream)? {
///         Encoded::Len(len) => stream.truncate(len),
///         Encoded::TooBig => continue, // the caller stores the bytes as they are
///     }
///     println!("{}: {} of {} bytes", codec.name(), stream.len(), plain.len());
///     let mut back = vec![0; plain.len()];
///     codec.decoder(&cx)?.decode(&stream, &mut back)?;
///     assert_eq!(back, plain);
/// }
/// # Ok::<(), CodecError>(())
/// ```
///
/// # Writing one
/// A codec creates encoders and decoders, one per thread. Ids from 160 on are free for users. `Plugins`
/// of the crate `b2-chunk` registers it with `with_codec`. Decoders get bytes from damaged and hostile files: they return errors
/// instead of panicking, and fill all of their destination or fail.
///
/// ```
/// use b2_codecs::{Codec, CodecContext, CodecError, CodecId, CodecProperties, Decoder, Encoded, Encoder};
///
/// /// Stores how often the first byte is repeated, and the rest as it is.
/// #[derive(Debug)]
/// struct Head;
///
/// impl Codec for Head {
///     fn id(&self) -> CodecId {
///         CodecId(200)
///     }
///     fn name(&self) -> &str {
///         "head"
///     }
///     fn properties(&self) -> CodecProperties {
///         CodecProperties::BYTES
///     }
///     fn encoder(&self, _: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
///         Ok(Box::new(Head))
///     }
///     fn decoder(&self, _: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
///         Ok(Box::new(Head))
///     }
/// }
///
/// impl Encoder for Head {
///     fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError> {
///         let Some(&first) = src.first() else { return Ok(Encoded::Len(0)) };
///         let run = src.iter().take(255).take_while(|byte| **byte == first).count();
///         let stream = [&[run as u8, first], &src[run..]].concat();
///         let Some(to) = dst.get_mut(..stream.len()) else { return Ok(Encoded::TooBig) };
///         to.copy_from_slice(&stream);
///         Ok(Encoded::Len(stream.len()))
///     }
/// }
///
/// impl Decoder for Head {
///     fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
///         let wrong = CodecError::malformed(CodecId(200), 0, "lengths do not fit");
///         let [run, first, rest @ ..] = src else { return if dst.is_empty() { Ok(()) } else { Err(wrong) } };
///         let run = usize::from(*run);
///         if run + rest.len() != dst.len() {
///             return Err(wrong);
///         }
///         dst[..run].fill(*first);
///         dst[run..].copy_from_slice(rest);
///         Ok(())
///     }
/// }
///
/// let cx = CodecContext::new(5);
/// let (plain, mut stream) = ([[7; 100], [1; 100]].concat(), [0; 200]);
/// let Encoded::Len(len) = Head.encoder(&cx)?.encode(&plain, &mut stream)? else { panic!("does not fit") };
/// let mut back = [0; 200];
/// Head.decoder(&cx)?.decode(&stream[..len], &mut back)?;
/// assert_eq!((len, &back[..]), (102, &plain[..]));
/// # Ok::<(), CodecError>(())
/// ```
pub trait Codec: Debug + Send + Sync {
    /// Returns the id stored in chunk and frame headers.
    fn id(&self) -> CodecId;
    /// Returns the name that users write, for example `zstd`.
    fn name(&self) -> &str;
    /// Returns what callers need to know before using the codec.
    fn properties(&self) -> CodecProperties {
        CodecProperties::default()
    }
    /// Creates an encoder. Each worker thread needs its own and reuses it for all streams of a chunk.
    ///
    /// # Errors
    /// [`CodecError::Unsupported`] if the codec cannot encode, or not with these parameters;
    /// [`CodecError::OutOfMemory`]; [`CodecError::Backend`] if the underlying library fails.
    fn encoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError>;
    /// Creates a decoder. Each worker thread needs its own and reuses it for all streams of a chunk.
    ///
    /// # Errors
    /// [`CodecError::Unsupported`] if the codec cannot decode with these parameters; [`CodecError::OutOfMemory`];
    /// [`CodecError::Backend`] if the underlying library fails.
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError>;
    /// Trains a dictionary of at most `max_len` bytes for the streams of a chunk.
    ///
    /// `samples` is the concatenation of the filtered blocks. `sample_lens` are the lengths of consecutive samples,
    /// from its start. Returns `Ok(None)` if a dictionary would not help or training failed.
    ///
    /// # Errors
    /// [`CodecError::Unsupported`] if the codec has no [dictionaries](CodecProperties::dictionaries) (the default).
    fn train_dict(
        &self,
        samples: &[u8],
        sample_lens: &[usize],
        max_len: usize,
    ) -> Result<Option<Vec<u8>>, CodecError> {
        let _ = (samples, sample_lens, max_len);
        Err(CodecError::Unsupported { codec: self.id(), what: "dictionaries" })
    }
}

/// Properties of a codec: where it can be used, and what it costs.
///
/// The default, [`UNKNOWN`](Self::UNKNOWN), makes no promises. A codec overrides what it can promise:
///
/// ```
/// use b2_codecs::CodecProperties;
/// let properties = CodecProperties::BYTES.dictionaries(true);
/// assert!(properties.lossless && !properties.takes_floats);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CodecProperties {
    /// Whether decoding restores the input exactly.
    ///
    /// Input that repeats one item becomes a special chunk only if codec and filters are lossless and
    /// [`shapeless`](Self::shapeless). Otherwise it goes through the codec, which may change it.
    pub lossless: bool,
    /// Whether it works without [`CodecContext::blockshape`].
    pub shapeless: bool,
    /// Whether [`Codec::train_dict`] can train dictionaries and the encoder uses them.
    pub dictionaries: bool,
    /// Whether it interprets its input as floats, so that the filters before it must keep them floats.
    pub takes_floats: bool,
    /// Whether it compresses items as numbers, so that no filter may change their bytes before it.
    pub takes_numbers: bool,
    /// Whether it benefits from large blocks, because its matches reach far back.
    pub long_windows: bool,
    /// The highest level at which blocks are split into one stream per byte of the item in automatic split mode; 0 for
    /// none.
    pub splits_up_to: u8,
    /// Approximate time to decode a byte, relative to a fast codec (blosclz, lz4). Used to estimate the work of a
    /// chunk.
    pub decoding_cost: u16,
    /// Approximate minimum time to encode a byte at each level, relative to decoding with a fast codec.
    pub encoding_cost: [u16; 10],
    /// The levels to try when parameters are chosen from a sample. Used for lossless codecs only.
    pub trials: &'static [Trial],
}

/// A compression level to try, with its cost in nanoseconds on one core of a recent machine. The costs are rounded:
/// only their order over all codecs matters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trial {
    /// Compression level, 1 to 9.
    pub level: u8,
    /// Cost of a byte that is encoded, even if the result is discarded.
    pub encode: f64,
    /// Cost of a byte that is decoded.
    pub decode: f64,
    /// Whether it may produce the smallest result of all, so that it is tried when only size matters.
    pub smallest: bool,
}

impl Default for CodecProperties {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl CodecProperties {
    b2_core::setters! {
        lossless: bool,
        shapeless: bool,
        dictionaries: bool,
        takes_floats: bool,
        takes_numbers: bool,
        long_windows: bool,
        splits_up_to: u8,
        decoding_cost: u16,
        encoding_cost: [u16; 10],
        trials: &'static [Trial],
    }

    /// Assumptions about an unknown codec.
    pub const UNKNOWN: Self = Self {
        lossless: false,
        shapeless: false,
        dictionaries: false,
        takes_floats: false,
        takes_numbers: false,
        long_windows: false,
        splits_up_to: 0,
        decoding_cost: 6,
        encoding_cost: [30; 10],
        trials: &[],
    };
    /// Properties of a general-purpose codec for bytes: lossless, and independent of shape.
    pub const BYTES: Self = Self { lossless: true, shapeless: true, ..Self::UNKNOWN };
}

impl Trial {
    /// Creates an entry for a level that is not the one with the smallest results.
    pub const fn new(level: u8, encode: f64, decode: f64) -> Self {
        Self { level, encode, decode, smallest: false }
    }

    b2_core::setters! {
        smallest: bool,
    }
}

/// Compresses the streams of a chunk.
pub trait Encoder: Send {
    /// Compresses `src` into the start of `dst`.
    ///
    /// [`Encoded::TooBig`] is not an error: the result does not fit `dst`, or the codec gave up. The caller then stores
    /// the stream uncompressed.
    ///
    /// # Errors
    /// Only [`CodecError::Backend`] if the backend fails for a reason other than space, and [`CodecError::OutOfMemory`].
    fn encode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Encoded, CodecError>;
}

/// Decompresses the streams of a chunk.
pub trait Decoder: Send {
    /// Decompresses `src` into all of `dst`. The result does not depend on the previous content of `dst`.
    ///
    /// # Errors
    /// [`CodecError::Malformed`] if `src` violates the format, or [`CodecError::Backend`] if only the underlying library
    /// can tell; [`CodecError::WrongLength`] if it decodes to fewer or more than `dst.len()` bytes;
    /// [`CodecError::OutOfMemory`].
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError>;

    /// Decompresses the first `end` bytes of `src` into the first `len` bytes of `dst`; both are at least that long. The
    /// bytes after them do not matter and may be read and overwritten, so that a decoder need not be careful near the ends.
    ///
    /// # Errors
    /// Fails like [`decode`](Self::decode).
    #[doc(hidden)]
    fn decode_with_room(
        &mut self,
        src: &[u8],
        end: usize,
        dst: &mut [u8],
        len: usize,
    ) -> Result<(), CodecError> {
        self.decode(&src[..end], &mut dst[..len])
    }

    /// Decompresses the first `dst.len()` bytes of a stream that decodes to `len` bytes.
    ///
    /// The rest of the stream may or may not be checked. If it is damaged, the result is an error or the bytes before
    /// the damage, never other bytes.
    ///
    /// The default implementation decodes all `len` bytes into a separate buffer, so `len` must be checked if it
    /// comes from a file. Codecs that can stop early override it and need no buffer.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), for the part of the stream that is read; the default also fails with
    /// [`CodecError::OutOfMemory`] if there is no memory for all `len` bytes.
    fn decode_start(&mut self, src: &[u8], dst: &mut [u8], len: usize) -> Result<(), CodecError> {
        if dst.len() >= len {
            return self.decode(src, dst);
        }
        let mut all = b2_core::memory::zeroed(len)?;
        self.decode(src, &mut all)?;
        dst.copy_from_slice(&all[..dst.len()]);
        Ok(())
    }
}

/// The result of [`Encoder::encode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// This many bytes were written.
    Len(usize),
    /// The result does not fit, or the codec gave up.
    TooBig,
}

/// Fails in the build for the browser page (`crates/apps/b2-wasm`), so that no encoders are linked into it.
///
/// # Errors
/// [`CodecError::Unsupported`] in that build.
#[inline(always)]
pub(crate) fn may_encode(codec: CodecId) -> Result<(), CodecError> {
    match cfg!(b2kit_decode_only) {
        true => Err(CodecError::Unsupported { codec, what: "encoding" }),
        false => Ok(()),
    }
}
