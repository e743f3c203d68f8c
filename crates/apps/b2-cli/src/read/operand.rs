//! The `IN` argument of commands that put data into a file: raw bytes or an `.npy` file, recognised by content.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2kit::Dtype;
use b2kit::frame::ReadAt;

use super::Items;
use super::slice::{self, PieceSize, Pieces};
use crate::files::{RecognisedFormat, is_stdin, recognition, refuse_same, spool_beside as spool, urls};
use crate::formats::npy::{self, NpyHeader, RawSource};
use crate::print::dims;
use crate::process::{Trouble, Usage, allow_many_files, buffer, resize};

/// An open input of a command.
pub(crate) struct Operand {
    /// Path as given on the command line.
    pub(crate) name: String,
    pub(crate) file: File,
    /// Length of the file, in bytes.
    pub(crate) len: u64,
    /// The header of an `.npy` file.
    pub(crate) npy: Option<NpyHeader>,
}

impl Operand {
    /// Opens the input of a command that writes to `output`, which must be another file. Anything but a regular file,
    /// including `-` for standard input, is first copied to a temporary file next to `output`.
    ///
    /// # Errors
    /// Fails if the input cannot be read, or if it is an incomplete `.npy` file. Errors name the input.
    pub(crate) fn open(path: &Path, output: &Path) -> Result<Self> {
        refuse_same(output, path)?;
        Self::look(path, output)
    }

    /// Opens the input of a command that does not write a file. For `output` see [`open`](Self::open).
    pub(crate) fn look(path: &Path, output: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let opened = || -> Result<Self> {
            let (file, len) = open(path, output)?;
            let npy = NpyHeader::alone(&file, len)?;
            Ok(Self { name: name.clone(), file, len, npy })
        };
        opened().with_context(|| name.clone())
    }

    /// Opens the input as consecutive `.npy` arrays, as repeated `numpy.save` writes them to an open file. Otherwise
    /// like [`open`](Self::open).
    ///
    /// # Errors
    /// Same as [`open`](Self::open). Also fails if anything else follows.
    pub(crate) fn each(path: &Path, output: &Path) -> Result<Vec<Self>> {
        refuse_same(output, path)?;
        let name = path.display().to_string();
        let opened = || -> Result<Vec<Self>> {
            let (file, len) = open(path, output)?;
            let (mut arrays, mut at) = (Vec::new(), 0);
            while at < len || arrays.is_empty() {
                let Some(header) = NpyHeader::at(&file, at, len)? else {
                    match arrays.is_empty() {
                        true => bail!("--each: not an .npy file"),
                        false => return Err(npy::data_after(&file, at, len)),
                    }
                };
                at = header.end();
                arrays.push(Self { name: name.clone(), file: file.try_clone()?, len, npy: Some(header) });
            }
            Ok(arrays)
        };
        opened().with_context(|| name.clone())
    }

    /// Rejects a regular file of another format as the items of an array. A super-chunk takes any bytes.
    ///
    /// # Errors
    /// Names the format, and what to do.
    pub(crate) fn refuse_foreign_items(&self) -> Result<()> {
        let path = Path::new(&self.name);
        match path.is_file().then(|| self.find_foreign(path)).transpose()?.flatten() {
            Some(RecognisedFormat { what, hint, .. }) => bail!(
                "{}: {what}, not an .npy file or raw items: {hint} (standard input, -, takes any bytes)",
                self.name
            ),
            None => Ok(()),
        }
    }

    /// Opens several inputs, by [`each`](Self::each) or [`open`](Self::open) depending on `each`.
    ///
    /// # Errors
    /// Same as for these functions. Also fails if standard input is given twice.
    pub(crate) fn several(paths: &[PathBuf], output: &Path, each: bool) -> Result<Vec<Self>> {
        if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
            return Err(Usage("-: standard input can only be read once".into()).into());
        }
        allow_many_files();
        let mut inputs = Vec::with_capacity(paths.len());
        for path in paths {
            match each {
                true => inputs.extend(Self::each(path, output)?),
                false => inputs.push(Self::open(path, output)?),
            }
        }
        Ok(inputs)
    }

    /// Opens the input as raw bytes, whatever it contains.
    pub(crate) fn raw(path: &Path, output: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let (file, len) = open(path, output).with_context(|| name.clone())?;
        Ok(Self { name, file, len, npy: None })
    }

    /// Rejects a file of another format, which contains more than the plain bytes of items.
    ///
    /// # Errors
    /// Returns [`Trouble`] with the format and what to do.
    pub(crate) fn refuse_foreign(&self, path: &Path) -> Result<()> {
        match self.find_foreign(path)? {
            Some(found) => Err(refusal(&self.name, found).into()),
            None => Ok(()),
        }
    }

    /// The format of a file that is neither an `.npy` file nor perhaps raw items.
    fn find_foreign(&self, path: &Path) -> Result<Option<RecognisedFormat>> {
        if self.npy.is_some() {
            return Ok(None);
        }
        let mut head = buffer(usize::try_from(recognition::LOOK.min(self.len))?)?;
        self.file.read_exact_at(0, &mut head).with_context(|| self.name.clone())?;
        let found =
            recognition::recognise_file(path, &head, self.len, |buf, at| self.file.read_exact_at(at, buf));
        found.with_context(|| self.name.clone())
    }

    /// Size of all items, in bytes.
    pub(crate) fn nbytes(&self) -> u64 {
        self.npy.as_ref().map_or(self.len, |header| header.nbytes)
    }

    /// Checks that an `.npy` file has the dtype of the array. An array without a dtype (`None`) takes any dtype of its
    /// item size.
    pub(crate) fn check_dtype(&self, dtype: Option<&Dtype>, itemsize: usize) -> Result<()> {
        let Some(header) = &self.npy else { return Ok(()) };
        let Some(dtype) = dtype else { return self.check_itemsize(itemsize) };
        // Compare in NumPy's notation, since there are several ways to write a dtype.
        let same = match (npy::descr::to_npy(&header.dtype), npy::descr::to_npy(dtype)) {
            (Ok(ours), Ok(theirs)) => ours == theirs,
            _ => header.dtype == *dtype,
        };
        ensure!(same, "{}: the dtype is {}, the array has {dtype}", self.name, header.dtype);
        Ok(())
    }

    /// Checks that the items of an `.npy` file have this size.
    pub(crate) fn check_itemsize(&self, itemsize: usize) -> Result<()> {
        let Some(header) = &self.npy else { return Ok(()) };
        let have = header.dtype.itemsize();
        ensure!(
            have == itemsize,
            "{}: items of {have} bytes ({}), the file has items of {itemsize} bytes",
            self.name,
            header.dtype
        );
        Ok(())
    }

    /// Checks that an `.npy` file has this shape, or that raw bytes have the length for it.
    pub(crate) fn check_shape(&self, shape: &[u64], itemsize: usize) -> Result<()> {
        match &self.npy {
            Some(header) => ensure!(
                header.shape == shape,
                "{}: the shape is {}, expected {}",
                self.name,
                dims(&header.shape),
                dims(shape)
            ),
            None => {
                let need = npy::nbytes(shape, itemsize as u64);
                ensure!(
                    need == Some(self.len),
                    "{}: {} bytes, expected {} for shape {}",
                    self.name,
                    self.len,
                    need.map_or("more than there can be".into(), |need| need.to_string()),
                    dims(shape)
                );
            }
        }
        Ok(())
    }

    /// The length along `axis` of an input that goes into an array of `shape`.
    ///
    /// # Errors
    /// Fails if the other dimensions differ from those of the array, or if raw bytes are not whole rows.
    pub(crate) fn length_along(&self, axis: usize, shape: &[u64], itemsize: usize) -> Result<u64> {
        let mut row = shape.to_vec();
        if let Some(header) = &self.npy {
            let fits = header.shape.len() == shape.len();
            row[axis] = header.shape.get(axis).copied().unwrap_or(0);
            ensure!(
                fits && header.shape == row,
                "{}: the shape is {}, the array has {}: all but dimension {axis} must be the same",
                self.name,
                dims(&header.shape),
                dims(shape)
            );
            return Ok(row[axis]);
        }
        row[axis] = 1;
        let row_nbytes = npy::nbytes(&row, itemsize as u64).context("the array is too large")?;
        let fits = if row_nbytes == 0 { self.len == 0 } else { self.len.is_multiple_of(row_nbytes) };
        ensure!(
            fits,
            "{}: {} bytes, expected a multiple of {row_nbytes} (shape {})",
            self.name,
            self.len,
            dims(&row)
        );
        Ok(self.len.checked_div(row_nbytes).unwrap_or(0))
    }

    /// The items, to be read box by box. Raw bytes are taken as an array of `shape`.
    pub(crate) fn into_items(self, shape: &[u64], itemsize: usize, quiet: bool) -> Result<Items> {
        Self::join(vec![(self, shape.to_vec())], 0, itemsize, quiet)
    }

    /// The items of several inputs, which follow each other along `axis`. Each input comes with its shape, in which
    /// only the length along `axis` may differ.
    pub(crate) fn join(
        inputs: Vec<(Self, Vec<u64>)>,
        axis: usize,
        itemsize: usize,
        quiet: bool,
    ) -> Result<Items> {
        let nbytes = inputs.iter().map(|(input, _)| input.nbytes()).fold(0, u64::saturating_add);
        let parts = inputs.into_iter().map(|(input, shape)| {
            let (offset, fortran) = match &input.npy {
                Some(header) => (header.data_offset, header.fortran_order),
                None => (0, false),
            };
            let source = RawSource::new(Arc::new(input.file), offset, &shape, itemsize, fortran)?;
            Some((input.name, source, shape.get(axis).copied().unwrap_or(1)))
        });
        let parts: Option<Vec<_>> = parts.collect();
        parts
            .and_then(|parts| Items::new(parts, axis, itemsize, nbytes, quiet))
            .context("the array is too large")
    }

    /// The bytes of all items in C order, as an array of bytes. Fortran order is converted first, in a temporary file
    /// next to `output`.
    pub(crate) fn into_bytes(mut self, output: &Path, quiet: bool) -> Result<Items> {
        let nbytes = self.nbytes();
        let turned = self.npy.take_if(|header| header.fortran_order && header.shape.len() > 1);
        if let Some(header) = turned {
            let itemsize = header.dtype.itemsize();
            let name = self.name.clone();
            self.npy = Some(header.clone());
            let items = self.into_items(&header.shape, itemsize, true)?;
            let mut spool = spool(output)?;
            let axes = slice::resolve(&[], &header.shape)?;
            let whole = &header.shape;
            let mut buffer = Vec::new();
            for piece in Pieces::new(&axes, whole, whole, itemsize as u64, PieceSize::default()) {
                let (start, shape): (Vec<u64>, Vec<u64>) =
                    piece.iter().map(|axis| (axis.start, axis.len)).unzip();
                let len = npy::nbytes(&shape, itemsize as u64).context("the array is too large")?;
                resize(&mut buffer, usize::try_from(len)?)?;
                items.read(&start, &shape, &mut buffer)?;
                spool.write_all(&buffer)?;
            }
            self = Self { name, file: spool, len: nbytes, npy: None };
        }
        // Bytes in C order, whatever their shape.
        if let Some(header) = &mut self.npy {
            header.shape = vec![nbytes];
            header.fortran_order = false;
        }
        self.into_items(&[nbytes], 1, quiet)
    }
}

/// Rejects a directory as input.
///
/// # Errors
/// Returns [`Trouble`] with what the directory is.
pub(crate) fn refuse_directory(path: &Path) -> Result<()> {
    if !path.is_dir() {
        return Ok(());
    }
    let name = path.display().to_string();
    match recognition::directory(path) {
        Some(found) => Err(Trouble(anyhow!("{name}: {}; {}", found.what, found.hint)).into()),
        None => Err(anyhow!("{name}: is a directory")),
    }
}

fn refusal(name: &str, RecognisedFormat { what, hint, .. }: RecognisedFormat) -> Trouble {
    Trouble(anyhow!(
        "{name}: {what}, not an .npy file or raw items: {hint} (--raw stores its bytes as they are)"
    ))
}

/// Rejects a URL as input.
pub(crate) fn refuse_url_input(path: &Path) -> Result<()> {
    ensure!(
        !urls::is_url(path),
        "a URL, which this command does not read: download it first (info, show, cat, unpack, copy, verify and diff \
         read URLs)"
    );
    Ok(())
}

/// Opens the input and returns its length.
fn open(path: &Path, output: &Path) -> Result<(File, u64)> {
    refuse_url_input(path)?;
    let mut stream: Box<dyn Read> = if is_stdin(path) {
        crate::process::capture::check_stdin()?;
        Box::new(io::stdin().lock())
    } else {
        let there = fs::metadata(path)?;
        ensure!(!there.is_dir(), "is a directory");
        let file = File::open(path)?;
        if there.is_file() {
            return Ok((file, there.len()));
        }
        Box::new(file)
    };
    let mut spool = spool(output)?;
    let len = io::copy(&mut stream, &mut spool)?;
    Ok((spool, len))
}
