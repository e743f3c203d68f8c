//! The way back to Zarr and `.npz`.

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use b2_hdf5::attributes_of;
use b2kit::frame::{Disk, FileSystem};
use b2kit::nd::Value;
use b2kit::{CodecId, NdArray};

use super::args::Compression;
use super::back::ArrayInput;
use super::folder_beside;
use super::job::{Job, compare};
use crate::args::{Codec, Format};
use crate::cmd::copy::ranges;
use crate::files::{Output, members, write_through};
use crate::formats::npz::{Npz, NpzWriter};
use crate::formats::zarr::{Compressor, Content, Zarr, ZarrWriter};
use crate::print::{count, json, short_size};
use crate::process::{Progress, Usage, one_line, signals};
use crate::read::{Input, Store};

/// The default level of gzip, which is that of zlib.
const GZIP: u8 = 6;
/// The default level of Blosc.
const BLOSC: u8 = 5;
/// Bytes of items to read at once.
const BATCH_LEN: u64 = 16 << 20;

/// The attribute with the order of the arrays of a group.
const ORDER: &str = "_ARRAY_ORDER";

/// An array, and its name in the new file.
struct NamedArray {
    key: String,
    array: Box<NdArray>,
}

impl Job<'_> {
    pub(super) fn to_zarr(&self, output: &Path) -> Result<()> {
        self.refuse_reading_options()?;
        let compressor = match (self.args.codec, *self.args.clevel) {
            (Some(Compression::Gzip), level) => Compressor::Gzip(level.unwrap_or(GZIP)),
            (Some(Compression::Own(Codec::Id(codec))), level) if is_of_blosc(codec) => {
                Compressor::Blosc { codec, level: level.unwrap_or(BLOSC) }
            }
            (None, level) => Compressor::Blosc { codec: CodecId::ZSTD, level: level.unwrap_or(BLOSC) },
            (Some(_), _) => {
                let why =
                    "--codec: Zarr gets gzip, or the codec blosc with blosclz, lz4, lz4hc, zlib or zstd";
                return Err(Usage(why.into()).into());
            }
        };
        let (file, name) = match members::split(output) {
            Some((file, name)) => (file, name.trim_matches('/').to_owned()),
            None => (output.to_owned(), String::new()),
        };
        let start = Instant::now();
        let (_, from) = self.from()?;
        signals::begin();
        let folder = folder_beside(&file)?;
        let new = folder.path().join("new");
        fs::create_dir(&new)?;
        let mut writer = ZarrWriter::new(&new, compressor, !self.args.no_sync);
        let mut written = Vec::new();
        match from {
            ArrayInput::Array(array) => {
                if !name.is_empty() {
                    ZarrWriter::check_key(&name)?;
                }
                self.put_zarr(&mut writer, &name, &array)?;
                written.push(NamedArray { key: name, array });
            }
            ArrayInput::Store(store) => {
                ensure!(name.is_empty(), "a store is a whole file: give OUT without ::NAME");
                for group in groups(&store) {
                    let attrs =
                        store.attributes(&group).with_context(|| format!("attributes of {group}/"))?;
                    let attrs = attrs.iter().filter(|(name, _)| name != ORDER);
                    let attrs: Vec<_> =
                        attrs.map(|(name, value)| (name.clone(), json::attribute_exactly(value))).collect();
                    writer.group(group.trim_matches('/'), &attrs)?;
                }
                self.each_array(&store, |key, array| {
                    ZarrWriter::check_key(key)?;
                    self.put_zarr(&mut writer, key, &array)?;
                    written.push(NamedArray { key: key.to_owned(), array });
                    Ok(())
                })?;
            }
        }
        if self.args.verify {
            let zarr = Zarr::in_directory(&new, &self.global.limits(u64::MAX))?;
            for NamedArray { key, array } in &written {
                let nodes = zarr.nodes(key)?;
                let Some(Content::Array(copy)) = nodes.first().map(|node| &node.content) else {
                    return Err(anyhow!("--verify: {key} is missing"));
                };
                compare(array, |start, shape, dst| copy.read_box(start, shape, dst))
                    .with_context(|| format!("--verify: {key}"))?;
            }
        }
        signals::check()?;
        ensure!(fs::symlink_metadata(&file).is_err(), "{}: already exists", file.display());
        Disk.rename(&new, &file).with_context(|| file.display().to_string())?;
        if !self.args.no_sync {
            let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
            Disk.sync_dir(parent.unwrap_or(Path::new(".")))?;
        }
        signals::done();
        self.tell_back(&file, &written, start);
        Ok(())
    }

    fn put_zarr(&self, writer: &mut ZarrWriter, key: &str, array: &NdArray) -> Result<()> {
        array.check_output()?;
        let mut progress = Progress::new(key, array.nbytes(), self.global.quiet);
        writer.array(key, array, &attributes(array)?, json::attribute_exactly, |nbytes| {
            progress.add(nbytes);
            Ok(signals::check()?)
        })
    }

    pub(super) fn to_npz(&self, output: &Path) -> Result<()> {
        self.refuse_reading_options()?;
        let level = match (self.args.codec, *self.args.clevel) {
            (None, None) => None,
            (Some(Compression::Gzip | Compression::Own(Codec::Id(CodecId::ZLIB))), level) => {
                Some(level.unwrap_or(GZIP))
            }
            (None, Some(_)) => return Err(Usage("--clevel: only with --codec gzip".into()).into()),
            (Some(_), _) => {
                let why = "--codec: members of .npz files are stored, or compressed with gzip";
                return Err(Usage(why.into()).into());
            }
        };
        let (file, name) = match members::split(output) {
            Some((file, name)) => (file, Some(name.trim_matches('/').to_owned())),
            None => (output.to_owned(), None),
        };
        let start = Instant::now();
        let (source, from) = self.from()?;
        let mut written = Vec::new();
        write_through(&file, Format::Cframe, self.args.force, |to| {
            let mut new = Output::create(Some(to), self.args.force)?;
            let mut writer = NpzWriter::new(BufWriter::with_capacity(1 << 20, &mut new), level);
            match from {
                ArrayInput::Array(array) => {
                    let key = name.unwrap_or_else(|| self.stem(&source));
                    self.put_npz(&mut writer, &key, &array)?;
                    written.push(NamedArray { key, array });
                }
                ArrayInput::Store(store) => {
                    ensure!(name.is_none(), "a store is a whole file: give OUT without ::NAME");
                    for group in groups(&store) {
                        self.note_lost(&group, &store.attributes(&group)?);
                    }
                    self.each_array(&store, |key, array| {
                        self.put_npz(&mut writer, key, &array)?;
                        written.push(NamedArray { key: key.to_owned(), array });
                        Ok(())
                    })?;
                }
            }
            let inner = writer.finish()?.into_inner().map_err(|error| error.into_error());
            inner.with_context(|| file.display().to_string())?;
            if self.args.verify {
                let path: PathBuf =
                    new.path_so_far().context("--verify: the new file cannot be read back")?.into();
                let npz = Npz::open(&path, self.global)?;
                for NamedArray { key, array } in &written {
                    let member = npz.members().iter().find(|member| member.name == *key);
                    let copy = npz.array(member.with_context(|| format!("--verify: {key} is missing"))?)?;
                    compare(array, |start, shape, dst| copy.read_box(start, shape, dst))
                        .with_context(|| format!("--verify: {key}"))?;
                }
            }
            match self.args.no_sync {
                true => new.finish()?,
                false => new.finish_synced()?,
            }
            signals::done();
            self.tell_back(&file, &written, start);
            Ok(())
        })
    }

    fn put_npz<W: std::io::Write>(
        &self,
        writer: &mut NpzWriter<W>,
        key: &str,
        array: &NdArray,
    ) -> Result<()> {
        array.check_output()?;
        self.note_lost(key, &attributes(array)?);
        let mut progress = Progress::new(key, array.nbytes(), self.global.quiet);
        writer.array(key, array, pieces(array), |nbytes| {
            progress.add(nbytes);
            Ok(signals::check()?)
        })
    }

    /// Names the attributes that an `.npz` file cannot hold.
    fn note_lost(&self, key: &str, attrs: &[(String, Value)]) {
        if !attrs.is_empty() {
            let key = if key.is_empty() { "/" } else { key };
            self.note(&format!("{key}: {}: left out", count(attrs.len() as u64, "attribute")));
        }
    }

    /// Calls `put` for each array of a store.
    fn each_array(&self, store: &Store, mut put: impl FnMut(&str, Box<NdArray>) -> Result<()>) -> Result<()> {
        let mut arrays = 0;
        for key in store.keys() {
            let name = key.trim_start_matches('/');
            let done = match store.member(key)? {
                Input::Array(array) => put(name, array),
                _ => Err(anyhow!("not an array: only arrays have a shape")),
            };
            match done {
                Ok(()) => arrays += 1,
                Err(error) if self.args.skip_unsupported && is_unsupported(&error) => {
                    self.note(&format!("{name}: {}: left out", one_line(&error)));
                }
                Err(error) => return Err(error.context(format!("key {key}"))),
            }
        }
        ensure!(arrays > 0, "there is no array in it");
        Ok(())
    }

    fn tell_back(&self, file: &Path, written: &[NamedArray], start: Instant) {
        let nbytes = written.iter().fold(0_u64, |n, named| n.saturating_add(named.array.nbytes()));
        let seconds = self.global.seconds(start);
        let what = format!("{}, {}", count(written.len() as u64, "array"), short_size(nbytes));
        self.note(&format!("{} -> {}  {what}{seconds}", self.input.display(), file.display()));
    }
}

/// Whether the other format has nothing like this, rather than that something failed.
fn is_unsupported(error: &anyhow::Error) -> bool {
    let text = one_line(error);
    ["not an array", "Zarr has no data type", "cannot be the path of an array", "as an .npy file"]
        .iter()
        .any(|start| text.contains(start))
}

fn is_of_blosc(codec: CodecId) -> bool {
    [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD].contains(&codec)
}

/// The groups of a store, each before those in it; the root is `""`.
fn groups(store: &Store) -> Vec<String> {
    let mut groups = vec![String::new()];
    for key in store.keys() {
        let key = key.trim_start_matches('/');
        groups.extend(key.match_indices('/').filter_map(|(at, _)| key.get(..at)).map(str::to_owned));
    }
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// The attributes of an array.
fn attributes(array: &NdArray) -> Result<Vec<(String, Value)>> {
    let layers = array.super_chunk().vlmetalayers();
    let mut named = Vec::new();
    for (name, _) in layers.iter() {
        let bytes = layers.get(name)?.unwrap_or_default();
        named.push((String::from_utf8_lossy(name).into_owned(), bytes.to_vec()));
    }
    Ok(attributes_of(&named))
}

/// The items of an array in C order, in pieces.
fn pieces(array: &NdArray) -> impl Iterator<Item = Result<Vec<u8>>> + '_ {
    let shape = array.shape().to_vec();
    let item = shape.iter().skip(1).fold(array.itemsize() as u64, |n, &length| n.saturating_mul(length));
    let rows = shape.first().copied().unwrap_or(1);
    // Whole rows of chunks, so that none is decoded twice.
    let chunk = array.chunkshape().first().map_or(1, |&length| u64::from(length).max(1));
    let step = (BATCH_LEN / item.max(1)).max(1).div_ceil(chunk).saturating_mul(chunk);
    let starts = (0..rows.div_ceil(step)).map(move |n| n * step).filter(move |_| item > 0);
    starts.map(move |start| {
        if shape.is_empty() {
            return Ok(array.all().read_bytes()?);
        }
        let (mut at, mut lengths) = (vec![0; shape.len()], shape.clone());
        (at[0], lengths[0]) = (start, step.min(rows - start));
        Ok(array.slice(ranges(&at, &lengths))?.read_bytes()?)
    })
}
