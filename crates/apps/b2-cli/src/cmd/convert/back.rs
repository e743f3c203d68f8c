//! The way back: arrays and stores become HDF5 files.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2_hdf5::{Codec as ChunkCodec, File, Hdf5Error, Writer};
use b2kit::NdArray;
use b2kit::nd::Value;

use super::args::Compression;
use super::job::{Job, compare};
use crate::args::{Codec, Format, Source};
use crate::files::{Output, members, recognition, stdio, write_through};
use crate::formats::npy;
use crate::print::{count, from_to, ratio, short_size};
use crate::process::error::kind_of;
use crate::process::{Usage, signals};
use crate::read::{Input, Store};

/// Whether this is the name of a file of netCDF.
fn is_netcdf(file: &Path) -> bool {
    matches!(members::extension(file).as_deref(), Some("nc" | "nc4"))
}

/// The format of the new file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    Hdf5,
    Zarr,
    Npz,
}

impl Target {
    /// The format by the extension of the output, perhaps `FILE::NAME`; `None` for Blosc2.
    pub(super) fn of(output: &Path) -> Option<Self> {
        match members::extension(&members::file(output))?.as_str() {
            "h5" | "hdf5" | "he5" | "hdf" | "nc" | "nc4" => Some(Self::Hdf5),
            "zarr" => Some(Self::Zarr),
            "npz" => Some(Self::Npz),
            _ => None,
        }
    }
}

/// Levels of gzip: h5py's default.
const LEVEL: u8 = 4;

/// Where the arrays of the input come from.
pub(super) enum ArrayInput {
    Array(Box<NdArray>),
    Store(Box<Store>),
}

impl Job<'_> {
    /// Converts an array or a store to a file of another format.
    pub(super) fn back(&self, output: &Path, target: Target) -> Result<()> {
        let written = match target {
            Target::Hdf5 => self.to_hdf5(output),
            Target::Zarr => self.to_zarr(output),
            Target::Npz => self.to_npz(output),
        };
        // Errors of reading are those of the library.
        let is_writing =
            |error: &anyhow::Error| error.root_cause().is::<io::Error>() && kind_of(error).is_none();
        written.map_err(|error| match is_writing(&error) {
            true => error.context(format!("cannot write {}", members::file(output).display())),
            false => error,
        })
    }

    /// Opens the array or the store.
    pub(super) fn from(&self) -> Result<(Source, ArrayInput)> {
        let source = Source::of(self.input).inside();
        let is_foreign = recognition::hdf5(&source.file)
            .or_else(|| recognition::is_npz(&source.file).then_some("an .npz file"))
            .or_else(|| {
                (source.file.is_dir() && recognition::is_zarr(&source.file)).then_some("a Zarr array")
            });
        if let Some(what) = is_foreign {
            bail!(
                "{what} already: convert makes a store (.b2d) or an array (.b2nd) of it, and other formats from those"
            );
        }
        stdio::refuse_stdin(&source.file, "cannot be converted: name the file")?;
        let none = "not an array: only arrays have the shape that a data set needs";
        let from = match (Input::open_source(&source, self.global), &source.key) {
            (Ok(Input::Array(array)), _) => ArrayInput::Array(array),
            (opened, None) => match Store::open(&source.file, 0, self.global)? {
                Some(store) => ArrayInput::Store(Box::new(store)),
                None => {
                    opened?;
                    bail!(none);
                }
            },
            (opened, Some(_)) => {
                opened?;
                bail!(none);
            }
        };
        Ok((source, from))
    }

    fn to_hdf5(&self, output: &Path) -> Result<()> {
        let stored = self.stored(is_netcdf(&members::file(output)))?;
        let (file, name) = match members::split(output) {
            Some((file, name)) => (file, Some(name)),
            None => (output.to_owned(), None),
        };
        let (source, from) = self.from()?;
        if let (ArrayInput::Store(_), Some(_)) = (&from, &name) {
            return Err(Usage("a store is a whole file: give OUT without ::NAME".into()).into());
        }
        write_through(&file, Format::Cframe, self.args.force, |to| {
            let start = Instant::now();
            let mut new = Output::create(Some(to), self.args.force)?;
            let mut writer =
                Writer::new(BufWriter::with_capacity(1 << 20, &mut new), file.display().to_string())?;
            writer.set_netcdf(is_netcdf(&file));
            let (arrays, nbytes) = match &from {
                ArrayInput::Array(array) => {
                    let stem = self.stem(&source);
                    let name = name.as_deref().unwrap_or(&stem);
                    self.put(&mut writer, name, array, stored)?;
                    (vec![name.to_owned()], array.nbytes())
                }
                ArrayInput::Store(store) => self.put_all(&mut writer, store, stored)?,
            };
            let (inner, left_out) = writer.finish()?;
            left_out.iter().for_each(|what| self.note(&format!("{what}: left out")));
            inner
                .into_inner()
                .map_err(|error| error.into_error())
                .with_context(|| file.display().to_string())?;
            let len = new.len_so_far().unwrap_or(0);
            if self.args.verify {
                let path = new.path_so_far().context("--verify: the new file cannot be read back")?;
                self.verify(&from, path, &arrays)?;
            }
            match self.args.no_sync {
                true => new.finish()?,
                false => new.finish_synced()?,
            }
            signals::done();
            let seconds = self.global.seconds(start);
            let what = match (len, arrays.len()) {
                (0, n) => format!("{}, {}", count(n as u64, "data set"), short_size(nbytes)),
                (len, n) => {
                    format!(
                        "{}, {} ({})",
                        count(n as u64, "data set"),
                        from_to(nbytes, len),
                        ratio(nbytes, len)
                    )
                }
            };
            self.note(&format!("{} -> {}  {what}{seconds}", self.input.display(), file.display()));
            Ok(())
        })
    }

    /// How chunks are stored. Readers of netCDF rarely have other filters than gzip.
    fn stored(&self, is_netcdf: bool) -> Result<ChunkCodec> {
        let args = self.args;
        self.refuse_reading_options()?;
        match (args.codec, *args.clevel) {
            (Some(Compression::Gzip), level) => Ok(ChunkCodec::Gzip(level.unwrap_or(LEVEL))),
            (None, level) if is_netcdf => Ok(ChunkCodec::Gzip(level.unwrap_or(LEVEL))),
            (None | Some(Compression::Blosc2), None) => Ok(ChunkCodec::Blosc2),
            (None | Some(Compression::Blosc2), Some(_)) => {
                Err(Usage("--clevel: only with --codec gzip; chunks are moved as they are".into()).into())
            }
            (Some(Compression::Own(codec)), _) => {
                let name = match codec {
                    Codec::Id(id) => id.to_string(),
                    Codec::Auto => "auto".into(),
                };
                let why =
                    "HDF5 gets gzip, or the chunks of the array as they are; b2kit copy recompresses it";
                Err(Usage(format!("--codec {name}: {why}")).into())
            }
        }
    }

    /// Rejects options for reading other formats.
    pub(super) fn refuse_reading_options(&self) -> Result<()> {
        let args = self.args;
        let recut = [
            ("--chunks", args.chunks.is_some()),
            ("--blocks", args.blocks.is_some()),
            ("--filters", args.filters.is_some()),
        ];
        if let Some((option, _)) = recut.iter().find(|(_, given)| *given) {
            return Err(Usage(format!(
                "{option}: data sets get the chunks of the array; b2kit copy changes them"
            ))
            .into());
        }
        for (option, given) in [("--slice", args.slice.is_some()), ("--mask-and-scale", args.mask_and_scale)]
        {
            if given {
                return Err(Usage(format!("{option}: only for reading HDF5, NetCDF and Zarr")).into());
            }
        }
        Ok(())
    }

    /// The name of a data set that got none: that of the file, or of the member.
    pub(super) fn stem(&self, source: &Source) -> String {
        let path = source.key.as_deref().map_or_else(|| source.file.clone(), PathBuf::from);
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if stem.is_empty() { "data".into() } else { stem.to_owned() }
    }

    fn put<W: std::io::Write + std::io::Seek + Send>(
        &self,
        writer: &mut Writer<W>,
        name: &str,
        array: &NdArray,
        stored: ChunkCodec,
    ) -> Result<()> {
        array.check_output()?;
        writer.set_control(self.control(name, array.nbytes()));
        let written = writer.array(name, array, stored);
        signals::check()?;
        Ok(written?)
    }

    /// Writes all arrays of a store, each group with its attributes. Returns their names, and the bytes of the items.
    fn put_all<W: std::io::Write + std::io::Seek + Send>(
        &self,
        writer: &mut Writer<W>,
        store: &Store,
        stored: ChunkCodec,
    ) -> Result<(Vec<String>, u64)> {
        let mut keys: Vec<&str> = store.keys().collect();
        let group = |key: &str| key.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        let groups: BTreeSet<String> = keys.iter().map(|key| group(key)).chain([String::new()]).collect();
        let orders = RefCell::new(Vec::new());
        for group in &groups {
            let attrs = store.attributes(group).with_context(|| format!("attributes of {group}/"))?;
            if let Some((_, Value::Array(names))) = attrs.iter().find(|(name, _)| name == "_ARRAY_ORDER") {
                let names = names.iter().filter_map(|name| name.as_str().map(str::to_owned));
                orders.borrow_mut().push((group.clone(), names.collect::<Vec<_>>()));
            }
            writer.group(group, &attrs)?;
        }
        // In the order of the group if it has one, then by name.
        keys.sort_by_key(|key| {
            let (group, orders) = (group(key), orders.borrow());
            let name = key.rsplit('/').next().unwrap_or_default();
            let order = orders.iter().find(|(own, _)| *own == group);
            let at = order.and_then(|(_, names)| names.iter().position(|own| own == name));
            (group, at.unwrap_or(usize::MAX), name.to_owned())
        });
        let (mut names, mut nbytes) = (Vec::new(), 0_u64);
        for key in keys {
            let put = match store.member(key) {
                Ok(Input::Array(array)) => {
                    nbytes = nbytes.saturating_add(array.nbytes());
                    self.put(writer, key, &array, stored).map(|()| names.push(key.to_owned()))
                }
                Ok(_) => Err(anyhow!("not an array: only arrays have the shape that a data set needs")),
                Err(error) => return Err(error),
            };
            match put {
                Ok(()) => {}
                Err(error) if self.args.skip_unsupported && is_unsupported(&error) => {
                    self.note(&format!("{key}: {}: left out", crate::process::one_line(&error)));
                }
                Err(error) => return Err(error.context(format!("key {key}"))),
            }
        }
        ensure!(!names.is_empty(), "there is no array in it");
        Ok((names, nbytes))
    }

    /// Compares the items of the new file with those of the arrays.
    fn verify(&self, from: &ArrayInput, path: &Path, names: &[String]) -> Result<()> {
        let file = File::open(path)?;
        for name in names {
            let named = || format!("--verify: {name}");
            let own;
            let array = match from {
                ArrayInput::Array(array) => &**array,
                ArrayInput::Store(store) => match store.member(name)? {
                    Input::Array(array) => {
                        own = array;
                        &*own
                    }
                    _ => continue,
                },
            };
            let data = file.data_set(name).with_context(named)?;
            let (have, need) = (data.dtype()?.itemsize().max(1), array.itemsize().max(1));
            let is_big_endian_text = npy::shown_dtype(array).as_str().starts_with(">U");
            compare(array, |start, shape, dst| {
                if have == need {
                    data.read_box(start, shape, dst)?;
                } else {
                    // Texts of variable length come back as long as the longest.
                    ensure!(have < need, "items of {have} bytes, expected {need}");
                    let mut items = crate::process::buffer(dst.len() / need * have)?;
                    data.read_box(start, shape, &mut items)?;
                    dst.fill(0);
                    for (item, dst) in items.chunks_exact(have).zip(dst.chunks_exact_mut(need)) {
                        dst[..have].copy_from_slice(item);
                    }
                }
                if is_big_endian_text {
                    // They come back in little-endian characters.
                    dst.chunks_exact_mut(4).for_each(<[u8]>::reverse);
                }
                Ok(())
            })
            .with_context(named)?;
        }
        Ok(())
    }
}

/// Whether HDF5 has nothing like this.
fn is_unsupported(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<Hdf5Error>() {
        Some(error) => matches!(error, Hdf5Error::Unsupported { .. }),
        // Super-chunks.
        None => error.to_string().starts_with("not an array"),
    }
}
