//! The targets by name.

use b2_codecs::CodecId;

/// Called once, before the first input: what runs in parallel elsewhere runs on the calling thread.
pub fn init() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread();
    pool.build_global().expect("the first to ask for threads");
}

macro_rules! targets {
    ($($(#[$about:meta])* $name:ident => |$data:ident| $run:expr;)*) => {$(
        $(#[$about])*
        pub fn $name($data: &[u8]) {
            $run
        }
    )*};
}

targets! {
    /// Items of msgpack.
    msgpack => |data| crate::msgpack::run(data);
    /// Streams of blosclz, by all instruction sets.
    blosclz => |data| crate::codecs::decode(CodecId::BLOSCLZ, data);
    /// Streams of lz4 and lz4hc, by all instruction sets.
    lz4 => |data| crate::codecs::decode(CodecId::LZ4, data);
    /// Streams of zlib.
    zlib => |data| crate::codecs::decode(CodecId::ZLIB, data);
    /// Streams of zstd.
    zstd => |data| crate::codecs::decode(CodecId::ZSTD, data);
    /// Streams of ndlz.
    ndlz => |data| crate::codecs::decode(CodecId::NDLZ, data);
    /// Streams of the three zfp codecs.
    zfp => |data| {
        let Some((which, data)) = data.split_first() else { return };
        crate::codecs::decode(CodecId(33 + which % 3), data);
    };
    /// What encoders write.
    encoders => |data| crate::codecs::roundtrip(data);
    /// All filters, both ways, by all kernels.
    filters => |data| crate::filters::run(data);
    /// A chunk, whole, in parts and by its head.
    chunk => |data| crate::chunk::run(data);
    /// A frame in memory, with small and default limits, with checksums and without.
    frame => |data| crate::frame::memory(data);
    /// A frame in a file, at its start and behind other bytes, and what salvage makes of it.
    frame_disk => |data| crate::frame::disk(data);
    /// A frame read in other pieces, with reads that fail, and while it changes.
    split_reads => |data| crate::frame::split(data);
    /// A web server that answers as the input says.
    server => |data| crate::server::run(data);
    /// The directory of a sparse frame.
    sparse => |data| crate::sparse::run(data);
    /// The array metalayer and dtypes.
    b2nd_meta => |data| crate::meta::array(data);
    /// The vlmetalayers of a trailer.
    vlmetalayers => |data| crate::meta::vlmetalayers(data);
    /// The value of an attribute, as the Python package decodes it.
    attributes => |data| crate::meta::attribute(data);
    /// Selections of arrays, against a model.
    slices => |data| crate::arrays::slices(data);
    /// Chunks and frames that are written and read again.
    roundtrip => |data| crate::roundtrip::write_read(data);
    /// Changes of a frame, against a model.
    edit => |data| crate::roundtrip::edit(data);
    /// Arguments of the command.
    #[cfg(feature = "cli")]
    cli => |data| crate::cli::arguments(data);
    /// Files that are given to the commands that read: archives, frames in frames, `.npy`, chunks.
    #[cfg(feature = "cli")]
    store => |data| crate::cli::file(data);
    /// Directories that are given to the commands that read.
    #[cfg(feature = "cli")]
    store_dir => |data| crate::cli::directory(data);
    /// Frames, read by C-Blosc2, too.
    versus_c => |data| crate::versus::run(data);
}
