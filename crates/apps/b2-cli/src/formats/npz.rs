//! NumPy's `.npz` files: zip archives of `.npy` files.
//!
//! Stored members are read in place after their checksum was verified, compressed ones from a temporary file.

use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2kit::frame::ReadAt;
use b2kit::{Dtype, Limits, NdArray};
use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;
use rawzip::path::EntryPath;
use rawzip::{
    CompressionMethod, RECOMMENDED_BUFFER_SIZE, ReaderAt, ZipArchive, ZipArchiveEntryWayfinder,
    ZipArchiveWriter, ZipLocator,
};

use crate::args::Global;
use crate::files::recognition::open_regular;
use crate::files::stdio::spooled;
use crate::formats::npy::{self, NpyHeader, RawSource};
use crate::process::signals;

/// Maximum number of members, more than any real archive has.
const MAX_MEMBERS: usize = 1 << 20;
/// Enough bytes for the header of any array.
const HEADER: u64 = (1 << 20) + 12;

/// An open `.npz` file.
pub(crate) struct Npz {
    archive: Arc<Archive>,
    members: Vec<Member>,
}

struct Archive {
    zip: ZipArchive<Reader>,
    file: Arc<dyn ReadAt>,
    limits: Limits,
}

/// An entry of the archive.
#[derive(Clone)]
pub(crate) struct Member {
    /// Its name, without `.npy`.
    pub(crate) name: String,
    method: CompressionMethod,
    found: ZipArchiveEntryWayfinder,
    stored: u64,
    /// The reason why it is not read.
    refused: Option<&'static str>,
}

/// An array in an `.npz` file.
pub(crate) struct NpzArray {
    archive: Arc<Archive>,
    member: Member,
    header: NpyHeader,
    /// The items, once they are needed.
    items: Mutex<Option<Arc<RawSource>>>,
}

impl Npz {
    /// Opens a file or URL.
    pub(crate) fn open(path: &Path, global: Global) -> Result<Self> {
        let file = open_regular(path)?;
        let len = file.len()?;
        let limits = global.with_output_limit().limits(len);
        let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
        let located = ZipLocator::new().locate_in_reader(Reader(file.clone()), &mut buffer, len);
        let zip = located.map_err(|(_, error)| anyhow!(error).context("not a zip archive"))?;
        let mut members: Vec<Member> = Vec::new();
        let mut entries = zip.entries(&mut buffer);
        while let Some(entry) = entries.next_entry().context("damaged zip archive")? {
            ensure!(members.len() < MAX_MEMBERS, "more than {MAX_MEMBERS} members");
            let path = entry.file_path();
            let raw: &[u8] = path.as_bytes();
            let name = String::from_utf8_lossy(raw).into_owned();
            if name.ends_with('/') {
                continue;
            }
            let method = entry.compression_method();
            let refused = match method {
                _ if entry.flags().is_encrypted() => Some("encrypted"),
                _ if !name.ends_with(".npy") => Some("not an .npy file"),
                CompressionMethod::STORE | CompressionMethod::DEFLATE => None,
                _ => Some("compressed with a method that NumPy does not write"),
            };
            let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
            // The last of several members with the same name counts, as in Python.
            members.retain(|member| member.name != name);
            let (found, stored) = (entry.wayfinder(), entry.compressed_size_hint());
            members.push(Member { name, method, found, stored, refused });
        }
        let archive = Arc::new(Archive { zip, file, limits });
        Ok(Self { archive, members })
    }

    /// The members, in the order of the file.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Opens the array in a member.
    pub(crate) fn array(&self, member: &Member) -> Result<NpzArray> {
        if let Some(why) = member.refused {
            bail!(why);
        }
        let mut head = Vec::new();
        self.archive.plain(member, |reader| Ok(reader.take(HEADER).read_to_end(&mut head)?))?;
        let header = NpyHeader::read(&mut &head[..])?;
        self.archive.limits.check_output(header.nbytes, member.stored)?;
        let (archive, member) = (self.archive.clone(), member.clone());
        Ok(NpzArray { archive, member, header, items: Mutex::default() })
    }
}

impl Archive {
    /// Lets `read` read the bytes of a member, decompressed.
    fn plain<T>(&self, member: &Member, read: impl FnOnce(&mut dyn Read) -> Result<T>) -> Result<T> {
        let entry = self.zip.get_entry(member.found).context("damaged zip archive")?;
        match member.method {
            CompressionMethod::STORE => read(&mut entry.reader()),
            _ => read(&mut DeflateDecoder::new(io::BufReader::new(entry.reader()))),
        }
    }

    /// Compares the checksum of a member. Returns its bytes as a file, and where they start in it.
    fn opened(&self, member: &Member, len: u64) -> Result<(Arc<dyn ReadAt>, u64)> {
        let entry = self.zip.get_entry(member.found).context("damaged zip archive")?;
        if member.method == CompressionMethod::STORE {
            let mut reader = entry.verifying_reader(entry.reader());
            copy(&mut reader, &mut io::sink(), len)?;
            return Ok((self.file.clone(), entry.compressed_data_range().0));
        }
        let mut file = tempfile::tempfile().context("a temporary file")?;
        let mut reader = entry.verifying_reader(DeflateDecoder::new(io::BufReader::new(entry.reader())));
        let mut writer = BufWriter::new(&mut file);
        copy(&mut reader, &mut writer, len)?;
        writer.flush().context("a temporary file")?;
        drop(writer);
        Ok((spooled(file, len), 0))
    }
}

/// Copies exactly `len` bytes, to the end of the reader, where the checksum is compared.
fn copy(reader: &mut impl Read, writer: &mut impl Write, len: u64) -> Result<()> {
    let mut buffer = vec![0; 1 << 16];
    let mut left = len;
    loop {
        signals::check()?;
        let count = reader.read(&mut buffer).context("damaged zip archive")?;
        left = left.checked_sub(count as u64).context("bytes after the array")?;
        if count == 0 {
            break;
        }
        writer.write_all(buffer.get(..count).unwrap_or_default()).context("a temporary file")?;
    }
    ensure!(left == 0, "{left} bytes of the array are missing");
    Ok(())
}

impl NpzArray {
    pub(crate) fn shape(&self) -> &[u64] {
        &self.header.shape
    }

    pub(crate) fn dtype(&self) -> &Dtype {
        &self.header.dtype
    }

    /// Reads the items of a box in C order, which fill `dst`.
    pub(crate) fn read_box(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> Result<()> {
        Ok(self.items()?.read_box(start, shape, dst)?)
    }

    fn items(&self) -> Result<Arc<RawSource>> {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(items) = &*items {
            return Ok(items.clone());
        }
        let NpyHeader { data_offset, nbytes, fortran_order, shape, dtype } = &self.header;
        let (file, at) = self.archive.opened(&self.member, data_offset.saturating_add(*nbytes))?;
        let source =
            RawSource::new(file, at.saturating_add(*data_offset), shape, dtype.itemsize(), *fortran_order);
        let source = Arc::new(source.context("the array is too large")?);
        *items = Some(source.clone());
        Ok(source)
    }
}

/// Adapts a file to the reader of archives.
struct Reader(Arc<dyn ReadAt>);

impl ReaderAt for Reader {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let room = self.0.len()?.saturating_sub(offset);
        let count = buf.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if let Some(buf) = buf.get_mut(..count) {
            self.0.read_exact_at(offset, buf)?;
        }
        Ok(count)
    }
}

/// Bytes that are compressed between two looks at signals.
const PART_LEN: usize = 1 << 20;

/// Writes an `.npz` file.
pub(crate) struct NpzWriter<W: Write> {
    zip: ZipArchiveWriter<W>,
    /// The level of deflate; `None`: members are stored, as by `numpy.savez`.
    level: Option<u8>,
}

impl<W: Write> NpzWriter<W> {
    pub(crate) fn new(writer: W, level: Option<u8>) -> Self {
        Self { zip: ZipArchiveWriter::new(writer), level }
    }

    /// Adds an array. `each` is called after each part of a piece, with its bytes.
    ///
    /// # Errors
    /// Fails if an `.npy` file cannot hold it, if it cannot be read, or the archive not be written, or as `each` does.
    pub(crate) fn array(
        &mut self,
        name: &str,
        array: &NdArray,
        pieces: impl IntoIterator<Item = Result<Vec<u8>>>,
        mut each: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let header = npy::header_bytes(&npy::shown_dtype(array), array.shape()).context("as an .npy file")?;
        let name = format!("{name}.npy");
        ensure!(
            !name.contains(':') || name.is_ascii(),
            "a name with both a colon and non-ASCII letters is not supported"
        );
        let path = match name.contains(':') {
            true => EntryPath::verbatim(name.as_bytes()),
            false => EntryPath::conformant(&name),
        };
        let method = if self.level.is_some() { CompressionMethod::DEFLATE } else { CompressionMethod::STORE };
        let (mut entry, config) = self.zip.new_file(path).compression_method(method).start()?;
        let end = match self.level {
            None => {
                let mut writer = config.wrap(&mut entry);
                writer.write_all(&header)?;
                for piece in pieces {
                    let piece = piece?;
                    for part in piece.chunks(PART_LEN) {
                        writer.write_all(part)?;
                        each(part.len() as u64)?;
                    }
                }
                writer.finish()?.1
            }
            Some(level) => {
                let encoder = DeflateEncoder::new(&mut entry, flate2::Compression::new(level.into()));
                let mut writer = config.wrap(encoder);
                writer.write_all(&header)?;
                for piece in pieces {
                    let piece = piece?;
                    for part in piece.chunks(PART_LEN) {
                        writer.write_all(part)?;
                        each(part.len() as u64)?;
                    }
                }
                let (encoder, end) = writer.finish()?;
                encoder.finish()?;
                end
            }
        };
        entry.finish(end)?;
        Ok(())
    }

    /// Writes the directory. Returns what was written to.
    pub(crate) fn finish(self) -> Result<W> {
        Ok(self.zip.finish()?)
    }
}
