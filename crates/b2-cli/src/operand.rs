//! The `IN` of commands that put data into a file: raw bytes or an `.npy` file, told by content.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use b2kit::{Dtype, Geometry, RegionSource};

use crate::npy::{self, NpyHeader, RawSource};
use crate::output::spool_beside as spool;
use crate::progress::Progress;
use crate::pump::resize;
use crate::slice::{self, PieceSize, Pieces};
use crate::table::dims;

/// An input that is open, and what it is.
pub(crate) struct Operand {
    /// As given on the command line.
    pub(crate) name: String,
    pub(crate) file: File,
    /// Length of the file, in bytes.
    pub(crate) len: u64,
    /// For `.npy` files.
    pub(crate) npy: Option<NpyHeader>,
}

impl Operand {
    /// Opens the input. What is no regular file, `-` for standard input included, is first copied to a temporary
    /// one beside `beside`.
    ///
    /// # Errors
    /// With the name of the input: when it cannot be read, or is an `.npy` file that is not whole.
    pub(crate) fn open(path: &Path, beside: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let opened = || -> Result<Self> {
            let (mut file, len) = open(path, beside)?;
            let npy = recognise(&mut file, len)?;
            Ok(Self { name: name.clone(), file, len, npy })
        };
        opened().with_context(|| name.clone())
    }

    /// Bytes of all items.
    pub(crate) fn nbytes(&self) -> u64 {
        self.npy.as_ref().map_or(self.len, |header| header.nbytes)
    }

    /// Fails when an `.npy` file has another dtype than the array. `None` for arrays without: any of the item
    /// size fits.
    ///
    /// # Errors
    /// That one.
    pub(crate) fn check_dtype(&self, dtype: Option<&Dtype>, itemsize: usize) -> Result<()> {
        let Some(header) = &self.npy else { return Ok(()) };
        let Some(dtype) = dtype else { return self.check_itemsize(itemsize) };
        // Both as NumPy tells them: there are several ways to write a dtype.
        let same = match (npy::descr::to_npy(&header.dtype), npy::descr::to_npy(dtype)) {
            (Ok(ours), Ok(theirs)) => ours == theirs,
            _ => header.dtype == *dtype,
        };
        ensure!(same, "{}: the dtype is {}, the array has {dtype}", self.name, header.dtype);
        Ok(())
    }

    /// Fails when an `.npy` file has items of another size.
    ///
    /// # Errors
    /// That one.
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

    /// Fails when the input has not this shape: that of the `.npy` file, or the bytes it takes.
    ///
    /// # Errors
    /// That one.
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

    /// The length along `axis` of a part that goes into an array of `shape` there.
    ///
    /// # Errors
    /// When the other dimensions are not those of the array, or raw bytes do not make whole rows.
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
    ///
    /// # Errors
    /// When the size overflows.
    pub(crate) fn into_items(self, shape: &[u64], itemsize: usize, quiet: bool) -> Result<Items> {
        let progress = Progress::new(self.name.clone(), self.nbytes(), quiet);
        let (offset, fortran) = match &self.npy {
            Some(header) => (header.data_offset, header.fortran_order),
            None => (0, false),
        };
        let source = RawSource::new(self.file, offset, shape, itemsize, fortran);
        Ok(Items { source: source.context("the array is too large")?, name: self.name, progress })
    }

    /// All bytes of the items in C order, as an array of bytes. Fortran order is turned into C order beside
    /// `beside` first.
    ///
    /// # Errors
    /// When that cannot be done.
    pub(crate) fn into_bytes(mut self, beside: &Path, quiet: bool) -> Result<Items> {
        let nbytes = self.nbytes();
        let turned = self.npy.take_if(|header| header.fortran_order && header.shape.len() > 1);
        if let Some(header) = turned {
            let itemsize = header.dtype.itemsize();
            let name = self.name.clone();
            self.npy = Some(header.clone());
            let mut items = self.into_items(&header.shape, itemsize, true)?;
            let mut spool = spool(beside)?;
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
        let progress = Progress::new(self.name.clone(), nbytes, quiet);
        let offset = self.npy.as_ref().map_or(0, |header| header.data_offset);
        let source = RawSource::new(self.file, offset, &[nbytes], 1, false);
        Ok(Items { source: source.context("the input is too large")?, name: self.name, progress })
    }
}

/// The items of an input.
pub(crate) struct Items {
    source: RawSource<File>,
    name: String,
    progress: Progress,
}

impl Items {
    /// Reads a box, in C order, into all of `dst`.
    ///
    /// # Errors
    /// With the name of the input.
    pub(crate) fn read(&mut self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> io::Result<()> {
        let read = self.source.read_box(start, shape, dst);
        read.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", self.name)))?;
        self.progress.add(dst.len() as u64);
        Ok(())
    }
}

impl RegionSource for Items {
    fn read_region(&mut self, _: &Geometry, start: &[u64], shape: &[u64], dst: &mut [u8]) -> io::Result<()> {
        self.read(start, shape, dst)
    }
}

/// Opens the input and finds its length.
fn open(path: &Path, beside: &Path) -> Result<(File, u64)> {
    let mut stream: Box<dyn Read> = if path == Path::new("-") {
        crate::capture::check_stdin()?;
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
    let mut spool = spool(beside)?;
    let len = io::copy(&mut stream, &mut spool)?;
    Ok((spool, len))
}

/// The header, if this is an `.npy` file.
fn recognise(file: &mut File, len: u64) -> Result<Option<NpyHeader>> {
    file.rewind()?;
    let mut magic = Vec::new();
    file.take(npy::MAGIC.len() as u64).read_to_end(&mut magic)?;
    if magic != npy::MAGIC {
        return Ok(None);
    }
    file.rewind()?;
    let header = NpyHeader::read(file)?;
    let have = len.saturating_sub(header.data_offset);
    ensure!(
        header.nbytes <= have,
        "items: {} bytes expected at offset {}, the file ends after {have}",
        header.nbytes,
        header.data_offset
    );
    Ok(Some(header))
}
