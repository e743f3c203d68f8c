//! The list of targets.

use b2_codecs::CodecId;

/// Called once, before the first input. Makes all parallel work run on the calling thread.
pub fn init() {
    if !cfg!(fuzzing) {
        panic!("built without --cfg fuzzing: use fuzz/run.py");
    }
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
    /// Msgpack items.
    msgpack => |data| crate::msgpack::run(data);
    /// Blosclz streams, with all instruction sets.
    blosclz => |data| crate::codecs::decode(CodecId::BLOSCLZ, data);
    /// Lz4 and lz4hc streams, with all instruction sets.
    lz4 => |data| crate::codecs::decode(CodecId::LZ4, data);
    /// Zlib streams.
    zlib => |data| crate::codecs::decode(CodecId::ZLIB, data);
    /// Zstd streams.
    zstd => |data| crate::codecs::decode(CodecId::ZSTD, data);
    /// Ndlz streams.
    ndlz => |data| crate::codecs::decode(CodecId::NDLZ, data);
    /// Streams of the three zfp codecs.
    zfp => |data| {
        let Some((which, data)) = data.split_first() else { return };
        crate::codecs::decode(CodecId(33 + which % 3), data);
    };
    /// Streams of pcodec.
    pco => |data| crate::codecs::decode(CodecId::PCO, data);
    /// Round trips through encoders.
    encoders => |data| crate::codecs::roundtrip(data);
    /// All filters, in both directions, with all kernels.
    filters => |data| crate::filters::run(data);
    /// A chunk: whole, in parts and from its head.
    chunk => |data| crate::chunk::run(data);
    /// A frame in memory, with small and default limits, with and without checksums.
    frame => |data| crate::frame::memory(data);
    /// A frame in a file, at its start and after other bytes, and the output of salvage.
    frame_disk => |data| crate::frame::disk(data);
    /// A frame read in other pieces, with failing reads, and while it changes.
    split_reads => |data| crate::frame::split(data);
    /// A web server whose responses the input determines.
    server => |data| crate::server::run(data);
    /// The directory of a sparse frame.
    sparse => |data| crate::sparse::run(data);
    /// The array metalayer and dtypes.
    b2nd_meta => |data| crate::meta::array(data);
    /// The vlmetalayers of a trailer.
    vlmetalayers => |data| crate::meta::vlmetalayers(data);
    /// The value of an attribute, as the Python package decodes it.
    attributes => |data| crate::meta::attribute(data);
    /// Array selections, compared with a model.
    slices => |data| crate::arrays::slices(data);
    /// Round trips of chunks and frames.
    roundtrip => |data| crate::roundtrip::write_read(data);
    /// Edits of a frame, compared with a model.
    edit => |data| crate::roundtrip::edit(data);
    /// Command-line arguments.
    cli => |data| crate::cli::arguments(data);
    /// Files passed to the commands that read: archives, frames in frames, `.npy`, chunks.
    store => |data| crate::cli::file(data);
    /// Directories passed to the commands that read.
    store_dir => |data| crate::cli::directory(data);
    /// An HDF5 or NetCDF file: its names, attributes and items.
    hdf5 => |data| crate::hdf5::run(data);
    /// Frames that C-Blosc2 reads too.
    versus_c => |data| crate::versus::run(data);
}
