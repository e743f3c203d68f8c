//! Bases written by this project: one of every kind, with data and parameters from the seed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use b2_testkit::Rng;
use b2kit::chunk::{CParams, Compression, FilterSlot, SpecialKind, SplitMode};
use b2kit::frame::{FrameParams, Storage};
use b2kit::{
    ArrayBuilder, Chunk, CodecId, Dtype, FilterId, FrameEditor, FrameWriter, NdArray, RegionSource,
    SuperChunk, source,
};
use bytes::Bytes;

use super::base::Base;
use super::content::Content;
use crate::plugins;

const CODECS: [(&str, CodecId); 5] = [
    ("blosclz", CodecId::BLOSCLZ),
    ("lz4", CodecId::LZ4),
    ("lz4hc", CodecId::LZ4HC),
    ("zlib", CodecId::ZLIB),
    ("zstd", CodecId::ZSTD),
];

/// Returns all bases.
pub(crate) fn bases(seed: u64, folder: &Path) -> Result<Vec<Base>> {
    let mut maker = FrameMaker { rng: Rng::case(seed, 1), out: Vec::new(), folder };
    maker.chunks().context("chunks")?;
    maker.frames().context("frames")?;
    maker.arrays().context("arrays")?;
    Ok(maker.out)
}

struct FrameMaker<'a> {
    rng: Rng,
    out: Vec<Base>,
    folder: &'a Path,
}

/// Returns the pipelines with the names of their bases.
fn pipelines(typesize: usize) -> [(&'static str, Vec<FilterSlot>); 8] {
    let width = typesize.min(127) as u8;
    [
        ("none", vec![]),
        ("shuffle", vec![FilterSlot::SHUFFLE]),
        ("bitshuffle", vec![FilterSlot::BITSHUFFLE]),
        ("delta-shuffle", vec![FilterSlot::DELTA, FilterSlot::SHUFFLE]),
        ("delta", vec![FilterSlot::DELTA]),
        ("bytedelta", vec![FilterSlot::SHUFFLE, FilterSlot::new(FilterId::BYTEDELTA, width)]),
        ("trunc", vec![FilterSlot::new(FilterId::TRUNC_PREC, 10), FilterSlot::SHUFFLE]),
        ("int-trunc", vec![FilterSlot::new(FilterId::INT_TRUNC, 4), FilterSlot::BITSHUFFLE]),
    ]
}

impl FrameMaker<'_> {
    /// Returns data that compress to some degree.
    fn data(&mut self, nitems: usize, typesize: usize) -> Vec<u8> {
        let nbytes = nitems * typesize;
        let mut out = Vec::with_capacity(nbytes);
        let mut walk = self.rng.next() % 1000;
        while out.len() < nbytes {
            let word = self.rng.next();
            walk = walk.wrapping_add(word % 13);
            let len = typesize.min(8).min(nbytes - out.len());
            out.extend_from_slice(&walk.to_le_bytes()[..len]);
            out.resize((out.len() + typesize.saturating_sub(8)).min(nbytes), (word >> 20) as u8 & 3);
        }
        out
    }

    fn cparams(&mut self, codec: CodecId, filters: &[FilterSlot], typesize: usize) -> Result<CParams> {
        let split = *self.rng.pick(&[SplitMode::Always, SplitMode::Never, SplitMode::Auto]);
        let clevel = self.rng.within(1..=9) as u8;
        let builder = Compression::new().itemsize(typesize).codec(codec).level(clevel).filters(filters);
        Ok(builder.splitmode(split).plugins(plugins()).build()?)
    }

    fn chunk(&mut self, name: &str, chunk: &Chunk) -> Result<()> {
        let data = chunk.decompress_bytes_with(&b2kit::chunk::DParams::default().plugins(plugins()))?;
        self.out.push(Base::new(name, Content::file(chunk.as_bytes().to_vec()), &data)?);
        Ok(())
    }

    fn chunks(&mut self) -> Result<()> {
        for (codec_name, codec) in CODECS {
            for _ in 0..3 {
                let typesize = *self.rng.pick(&[1, 2, 3, 4, 4, 8, 8, 12, 16, 17]);
                let typesize = if codec == CodecId::ZLIB { 4 } else { typesize };
                let (filters_name, filters) = pipelines(typesize)[self.rng.within(0..=6)].clone();
                let lossy = matches!(filters_name, "trunc");
                let typesize = if lossy { 4 } else { typesize };
                let cparams = self.cparams(codec, &filters, typesize)?;
                let blocksize = typesize * self.rng.within(40..=90);
                let cparams = cparams.to_builder().blocksize(blocksize).build()?;
                let (nitems, rest) = (self.rng.within(60..=300), self.rng.within(0..=1) * (typesize - 1));
                let mut data = self.data(nitems, typesize);
                data.truncate(data.len() - rest);
                let name = format!("chunk-{codec_name}-{filters_name}-{typesize}");
                self.chunk(&name, &Chunk::compress_bytes(&data, &cparams)?)?;
            }
        }
        for (name, codec) in [("zstd", CodecId::ZSTD), ("lz4", CodecId::LZ4)] {
            let cparams = self.cparams(codec, &[FilterSlot::SHUFFLE], 4)?;
            let cparams = cparams.to_builder().blocksize(512).use_dict(true).build()?;
            let data = self.data(2000, 4);
            self.chunk(&format!("chunk-{name}-dict"), &Chunk::compress_bytes(&data, &cparams)?)?;
            let cparams = cparams.to_builder().itemsize(1).use_dict(name == "lz4").build()?;
            let blocks: Vec<Vec<u8>> = (0..10).map(|n| self.data(20 + 9 * n, 2)).collect();
            let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
            self.chunk(&format!("chunk-{name}-vl"), &Chunk::compress_vl(&blocks, &cparams)?)?;
        }
        for (name, kind, value) in [
            ("zeros", SpecialKind::Zeros, &b""[..]),
            ("nan", SpecialKind::NaN, b""),
            ("uninit", SpecialKind::Uninit, b""),
            ("value", SpecialKind::Value, b"\x01\x02\x03\x04"),
        ] {
            self.chunk(&format!("chunk-{name}"), &Chunk::special(kind, value, 4000, 4, 512)?)?;
        }
        let wide = self.data(1, 300);
        self.chunk("chunk-value-300", &Chunk::special(SpecialKind::Value, &wide, 3000, 300, 0)?)?;
        self.chunk("chunk-zero-runs", &Chunk::zero_runs(2000, 4, 512)?)?;
        let noise = self.rng.bytes(333);
        let plain = self.cparams(CodecId::ZSTD, &[], 1)?;
        self.chunk("chunk-memcpyed", &Chunk::compress_bytes(&noise, &plain)?)?;
        self.chunk("chunk-empty", &Chunk::compress_bytes(&[], &plain)?)?;
        let wide = self.data(10, 300);
        let cparams = self.cparams(CodecId::LZ4, &[FilterSlot::SHUFFLE], 300)?;
        self.chunk("chunk-typesize-300", &Chunk::compress_bytes(&wide, &cparams)?)
    }

    /// Adds the frame in all forms: contiguous and sparse, with checksums and without.
    fn frame(
        &mut self,
        name: &str,
        forms: &[FrameForm],
        fill: impl Fn(&mut FrameWriter) -> Result<()>,
        params: &FrameParams,
        data: &[u8],
    ) -> Result<()> {
        for form in forms {
            let options = FrameWriter::options().checksums(form.sums).overwrite(true);
            let content = if form.sparse {
                let path = self.folder.join("sparse");
                let mut writer = options.storage(Storage::Sparse).create(&path, params.clone())?;
                fill(&mut writer)?;
                writer.finish()?;
                take_folder(&path)?
            } else {
                let mut writer = options.memory(params.clone())?;
                fill(&mut writer)?;
                Content::file(writer.finish()?.into_bytes().to_vec())
            };
            self.out.push(Base::new(format!("{name}{}", form.suffix()), content, data)?);
        }
        Ok(())
    }

    fn frames(&mut self) -> Result<()> {
        for (n, (codec_name, codec)) in CODECS.into_iter().enumerate() {
            let typesize = *self.rng.pick(&[1, 2, 4, 8, 12]);
            let (filters_name, filters) = pipelines(typesize)[n % 6].clone();
            let cparams = self.cparams(codec, &filters, typesize)?;
            let chunksize = typesize * self.rng.within(60..=110);
            let cparams = cparams.to_builder().blocksize(typesize * self.rng.within(30..=60)).build()?;
            let nitems = chunksize / typesize * 3 + self.rng.within(1..=40);
            let data = self.data(nitems, typesize);
            let params = layers(FrameParams::from_cparams(&cparams).chunksize(chunksize), n);
            let vlmeta = self.data(50, 3);
            let fill = |writer: &mut FrameWriter| {
                append(writer, data.chunks(chunksize), &cparams)?;
                for (k, name) in ["unit", "history", "z"].iter().enumerate().take(n % 4) {
                    writer.set_vlmetalayer(name, &vlmeta[k * 20..])?;
                }
                Ok(())
            };
            let forms = if n % 2 == 0 { &ALL[..] } else { &ALL[1..3] };
            self.frame(&format!("frame-{codec_name}-{filters_name}"), forms, fill, &params, &data)?;
        }
        let cparams = self.cparams(CodecId::LZ4, &[FilterSlot::SHUFFLE], 4)?;
        self.special_frames(&cparams)?;
        self.odd_frames(&cparams)
    }

    fn special_frames(&mut self, cparams: &CParams) -> Result<()> {
        let some = self.data(100, 4);
        let params = layers(FrameParams::from_cparams(cparams).chunksize(400), 1);
        let data = [&some[..], &[0; 400], &[0, 0, 0xC0, 0x7F].repeat(100), &[0; 400], &b"abcd".repeat(100)];
        let fill = |writer: &mut FrameWriter| {
            writer.append(Chunk::compress_bytes(&some, cparams)?)?;
            writer.append_special(SpecialKind::Zeros, 400)?;
            writer.append_special(SpecialKind::NaN, 400)?;
            writer.append_special(SpecialKind::Uninit, 400)?;
            writer.append(Chunk::special(SpecialKind::Value, b"abcd", 400, 4, 0)?)?;
            Ok(writer.set_vlmetalayer("vl", b"\xa3abc")?)
        };
        self.frame("frame-special", &ALL, fill, &params, &data.concat())?;
        let zeros = |writer: &mut FrameWriter| {
            (0..12).try_for_each(|_| Ok(writer.append_special(SpecialKind::Zeros, 400).map(drop)?))
        };
        let params = FrameParams::from_cparams(cparams).chunksize(400);
        self.frame("frame-zeros", &ALL[..3], zeros, &params, &[0; 4800])?;
        self.frame("frame-empty", &ALL, |_| Ok(()), &layers(params, 2), &[])
    }

    fn odd_frames(&mut self, cparams: &CParams) -> Result<()> {
        let parts: Vec<Vec<u8>> = [40, 100, 1, 77].into_iter().map(|n| self.data(n, 4)).collect();
        let variable = |writer: &mut FrameWriter| append(writer, parts.iter().map(Vec::as_slice), cparams);
        let params = FrameParams::from_cparams(cparams).chunksize(0);
        self.frame("frame-variable", &ALL, variable, &params, &parts.concat())?;

        let vl = cparams.to_builder().itemsize(1).codec(CodecId::ZSTD).build()?;
        let batches: Vec<Vec<Vec<u8>>> =
            (0..3).map(|n| (0..3 + n).map(|k| self.data(30 + 11 * k, 1)).collect()).collect();
        let fill = |writer: &mut FrameWriter| {
            batches.iter().try_for_each(|blocks| {
                let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
                Ok(writer.append(Chunk::compress_vl(&blocks, &vl)?).map(drop)?)
            })
        };
        let params = FrameParams::from_cparams(&vl).chunksize(0);
        self.frame("frame-vl", THREE, fill, &params, &batches.concat().concat())?;

        let dict = cparams.to_builder().codec(CodecId::ZSTD).use_dict(true).blocksize(512).build()?;
        let wide = cparams.to_builder().itemsize(300).build()?;
        for (name, cparams, nitems, typesize, chunksize) in
            [("frame-dict", dict, 1500, 4, 4000), ("frame-typesize-300", wide, 10, 300, 1200)]
        {
            let data = self.data(nitems, typesize);
            let fill = |writer: &mut FrameWriter| append(writer, data.chunks(chunksize), &cparams);
            let params = FrameParams::from_cparams(&cparams).chunksize(chunksize);
            self.frame(name, TWO, fill, &params, &data)?;
        }

        // Many metalayers, and a frame that was changed and so has holes.
        let data = self.data(200, 4);
        let fill = |writer: &mut FrameWriter| {
            append(writer, data.chunks(400), cparams)?;
            (0..16).try_for_each(|n| Ok(writer.set_vlmetalayer(format!("v{n}"), &[n; 5])?))
        };
        let mut params = FrameParams::from_cparams(cparams).chunksize(400);
        for n in 0..16u8 {
            params = params.metalayer(format!("m{n}"), vec![n; usize::from(n)]);
        }
        self.frame("frame-layers-16", TWO, fill, &params, &data)?;
        for sums in [false, true] {
            let mut editor = FrameEditor::options().edit_bytes(self.edited(cparams, sums)?)?;
            editor.delete(1)?;
            editor.update_bytes(0, &data[..400])?;
            editor.vlmeta().set("new", b"\x01")?;
            editor.commit()?;
            let frame = editor.into_bytes().context("a frame in memory")?;
            let plain = SuperChunk::from_bytes(frame.clone())?;
            let data = plain.read_bytes(0..plain.nbytes())?;
            let name = if sums { "frame-edited+sums" } else { "frame-edited" };
            self.out.push(Base::new(name, Content::file(frame.to_vec()), &data)?);
        }
        Ok(())
    }

    fn edited(&mut self, cparams: &CParams, sums: bool) -> Result<Bytes> {
        let params = FrameParams::from_cparams(cparams).chunksize(400);
        let mut writer = FrameWriter::options().checksums(sums).memory(params)?;
        append(&mut writer, self.data(400, 4).chunks(400), cparams)?;
        Ok(writer.finish()?.into_bytes())
    }

    fn arrays(&mut self) -> Result<()> {
        for (name, dtype, shape, chunks, blocks) in ARRAYS {
            let dtype = Dtype::parse(dtype)?;
            let nitems: u64 = shape.iter().product();
            let mut data = self.data(nitems as usize, dtype.itemsize());
            let (_, codec) = *self.rng.pick(&CODECS);
            let filters = pipelines(dtype.itemsize().min(255))[self.rng.within(0..=5)].1.clone();
            let cparams = self.cparams(codec, &filters, dtype.itemsize())?;
            let builder = ArrayBuilder::of_dtype(shape.to_vec(), dtype).compression(cparams);
            let mut builder = builder.chunks(chunks.to_vec()).blocks(blocks.to_vec());
            if name.ends_with("meta") {
                builder =
                    builder.metalayer("m", b"\xa1m".to_vec()).vlmetalayer("v", b"\x93\x01\x02\x03".to_vec());
            }
            let forms: &[FrameForm] = if shape.len() < 3 { &ALL } else { TWO };
            data.truncate(nitems as usize * builder.geometry()?.itemsize());
            for form in forms {
                self.array(&format!("array-{name}"), *form, &builder, &data[..], Some(&data))?;
            }
        }
        for (name, fill) in [
            ("zeros", source::zeros()),
            ("uninit", source::uninit()),
            ("nans", source::nans(&Dtype::parse("<f8")?)?),
            ("full", source::value(2.5f64)),
        ] {
            let builder = ArrayBuilder::of_dtype(vec![30, 20], Dtype::parse("<f8")?);
            let builder = builder.chunks(vec![8, 8]).blocks(vec![4, 4]);
            for form in THREE {
                self.array(&format!("array-{name}"), *form, &builder, fill.clone(), None)?;
            }
        }
        self.plugin_arrays()
    }

    fn plugin_arrays(&mut self) -> Result<()> {
        let filter = |id, meta| vec![FilterSlot::new(id, meta), FilterSlot::SHUFFLE];
        let plain = self.cparams(CodecId::ZSTD, &[], 4)?;
        let with = |codec, meta, filters: Vec<FilterSlot>| -> Result<CParams> {
            Ok(plain.to_builder().codec(codec).codec_meta(meta).filters(filters).build()?)
        };
        for (name, dtype, cparams) in [
            ("ndcell", "<i4", with(CodecId::LZ4, 0, filter(FilterId::NDCELL, 4))?),
            ("ndmean", "<f4", with(CodecId::ZSTD, 0, filter(FilterId::NDMEAN, 4))?),
            ("zfp-acc", "<f4", with(CodecId::ZFP_FIXED_ACCURACY, 253, vec![])?),
            ("zfp-prec", "<f8", with(CodecId::ZFP_FIXED_PRECISION, 20, vec![])?),
            ("zfp-rate", "<f4", with(CodecId::ZFP_FIXED_RATE, 50, vec![])?),
        ] {
            let dtype = Dtype::parse(dtype)?;
            let cparams = cparams.to_builder().itemsize(dtype.itemsize()).build()?;
            let items: Vec<u8> = match dtype.itemsize() {
                8 => (0..600).flat_map(|n| f64::from(n).sin().to_le_bytes()).collect(),
                _ if name == "ndcell" => self.data(600, 4),
                _ => (0..600).flat_map(|n| (n as f32).sin().to_le_bytes()).collect(),
            };
            let builder = ArrayBuilder::of_dtype(vec![30, 20], dtype).compression(cparams);
            let builder = builder.chunks(vec![16, 12]).blocks(vec![8, 8]);
            for form in TWO {
                self.array(&format!("array-{name}"), *form, &builder, &items[..], None)?;
            }
        }
        Ok(())
    }

    fn array(
        &mut self,
        name: &str,
        form: FrameForm,
        builder: &ArrayBuilder,
        source: impl RegionSource,
        data: Option<&[u8]>,
    ) -> Result<()> {
        let options = FrameWriter::options().checksums(form.sums).overwrite(true);
        let builder = builder.clone().write_options(options);
        let reading = SuperChunk::options().plugins(plugins());
        let (content, read) = if form.sparse {
            let path = self.folder.join("sparse.b2nd");
            builder.storage(Storage::Sparse).write(&path, source)?;
            let read = NdArray::open_with(&path, &reading)?.all().read_bytes()?;
            (take_folder(&path)?, read)
        } else {
            let frame = builder.to_bytes(source)?;
            (
                Content::file(frame.to_vec()),
                NdArray::from_super_chunk(reading.from_bytes(frame)?)?.all().read_bytes()?,
            )
        };
        ensure!(data.is_none_or(|data| data == read), "{name} reads back differently");
        self.out.push(Base::new(format!("{name}{}", form.suffix()), content, &read)?);
        Ok(())
    }
}

/// How a frame is stored.
#[derive(Clone, Copy)]
struct FrameForm {
    sparse: bool,
    sums: bool,
}

const ALL: [FrameForm; 4] = [
    FrameForm { sparse: false, sums: false },
    FrameForm { sparse: false, sums: true },
    FrameForm { sparse: true, sums: false },
    FrameForm { sparse: true, sums: true },
];
/// The contiguous forms, and those with one sparse form.
const TWO: &[FrameForm] = ALL.split_at(2).0;
const THREE: &[FrameForm] = ALL.split_at(3).0;

impl FrameForm {
    fn suffix(self) -> String {
        format!("{}{}", if self.sparse { "-sparse" } else { "" }, if self.sums { "+sums" } else { "" })
    }
}

type ArrayRow = (&'static str, &'static str, &'static [u64], &'static [u32], &'static [u32]);

const ARRAYS: &[ArrayRow] = &[
    ("0d", "<f8", &[], &[], &[]),
    ("1d-meta", "<i4", &[300], &[120], &[50]),
    ("2d", "<i2", &[21, 17], &[8, 9], &[4, 5]),
    ("2d-record", "[('a', '<i4'), ('b', '<f8', (2,))]", &[9, 5], &[4, 4], &[2, 3]),
    ("2d-zero-size", "<f4", &[0, 7], &[4, 4], &[2, 2]),
    ("1d-large-items", "|S300", &[12], &[5], &[2]),
    ("3d", "<f4", &[7, 6, 5], &[4, 3, 5], &[2, 3, 2]),
    ("3d-bytes", "|u1", &[10, 9, 8], &[5, 5, 5], &[5, 3, 2]),
    ("5d", ">i4", &[3, 2, 3, 2, 3], &[2, 2, 2, 2, 2], &[1, 2, 2, 1, 2]),
    (
        "16d",
        "|u1",
        &[2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2],
        &[2, 2, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2],
        &[1, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2],
    ),
    ("1d-text", "<U3", &[40], &[40], &[20]),
];

/// Appends one chunk for each of these parts.
fn append<'a>(
    writer: &mut FrameWriter,
    parts: impl Iterator<Item = &'a [u8]>,
    cparams: &CParams,
) -> Result<()> {
    for part in parts {
        writer.append(Chunk::compress_bytes(part, cparams)?)?;
    }
    Ok(())
}

/// Adds some metalayers.
fn layers(mut params: FrameParams, count: usize) -> FrameParams {
    for (name, value) in [("one", &b"\x01"[..]), ("a longer name of a metalayer", b"\xa4text"), ("", b"")] {
        if count > 0 && !name.is_empty() {
            params = params.metalayer(name, value);
        }
    }
    params
}

/// Returns the files of a folder, and removes it.
fn take_folder(path: &Path) -> Result<Content> {
    let content = read_folder(path)?;
    fs::remove_dir_all(path)?;
    Ok(content)
}

/// Returns the files of a folder.
pub(crate) fn read_folder(path: &Path) -> Result<Content> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().context("a name that is not UTF-8")?;
        if !name.ends_with(".b2lock") {
            files.push((name, fs::read(entry.path())?));
        }
    }
    files.sort();
    Ok(Content::folder(files))
}
