//! Files that the page can show directly, and files that are converted first.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use b2kit::frame::Durability;
use b2kit::{ArrayBuilder, FrameWriter};
use tempfile::TempDir;

use super::link::name_of;
use crate::args::plugins;
use b2_view::formats::FormatKind;

use crate::files::recognition::{self, open_regular};
use crate::files::{RecognisedFormat, urls};
use crate::formats::npy::{NpyHeader, RawSource};

/// A file for the page.
pub(super) struct Input {
    pub(super) path: PathBuf,
    /// The temporary folder of a converted file.
    _made: Option<TempDir>,
}

impl Input {
    /// Packs an `.npy` file. Any other file is used unchanged if the page can read it.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let own = || Self { path: path.to_owned(), _made: None };
        let named = || path.display().to_string();
        if urls::is_url(path) {
            return Ok(own());
        }
        if path.is_dir() {
            // Folders may hold anything; their files are selected by name.
            return match recognition::directory(path).filter(|found| !found.is_ours()) {
                Some(RecognisedFormat { what, hint, .. }) => {
                    bail!("{}: {what}, which the page does not show; {hint}", named())
                }
                None => Ok(own()),
            };
        }
        let file = open_regular(path).with_context(named)?;
        let len = file.len()?;
        if let Some(header) = NpyHeader::alone(&*file, len).with_context(named)? {
            let made = tempfile::tempdir().context("a temporary folder")?;
            let new = made.path().join(format!("{}.b2nd", name_of(path)?));
            let NpyHeader { dtype, fortran_order, shape, data_offset, .. } = header;
            let source = RawSource::new(file, data_offset, &shape, dtype.itemsize(), fortran_order);
            let options = FrameWriter::options().durability(Durability::None);
            let compression = plugins::cparams(dtype.itemsize());
            let builder =
                ArrayBuilder::of_dtype(shape, dtype).compression(compression).write_options(options);
            builder.write(&new, source.context("the array is too large")?).with_context(named)?;
            return Ok(Self { path: new, _made: Some(made) });
        }
        let head = file.read_at(0..recognition::LOOK.min(len))?;
        let found = recognition::recognise_file(path, &head, len, |buf, at| file.read_exact_at(at, buf))?;
        match found.filter(|found| !found.is_ours() && found.kind != FormatKind::Store) {
            Some(RecognisedFormat { what, hint, .. }) => {
                bail!("{}: {what}, which the page does not show; {hint}", named())
            }
            None => Ok(own()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_of_other_formats_are_packed_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let dtype = b2kit::Dtype::parse("<i4").unwrap();
        let items: Vec<u8> = (0..12_i32).flat_map(i32::to_le_bytes).collect();
        fs::write(&path, [crate::formats::npy::header_bytes(&dtype, &[3, 4]).unwrap(), items].concat())
            .unwrap();
        let made = Input::of(&path).unwrap();
        let array = b2kit::NdArray::open(&made.path).unwrap();
        assert_eq!((array.shape(), array.all().read::<Vec<i32>>().unwrap()[11]), (&[3, 4][..], 11));
        // A Blosc2 file is used unchanged.
        let packed = folder.path().join("x");
        fs::copy(&made.path, &packed).unwrap();
        assert_eq!(Input::of(&packed).unwrap().path, packed);
        let copy = made.path.clone();
        drop(made);
        assert!(!copy.exists());
        let other = folder.path().join("b.h5");
        fs::write(&other, b"\x89HDF\r\n\x1a\n and more").unwrap();
        assert!(format!("{:#}", Input::of(&other).err().unwrap()).contains("an HDF5 file"));
        fs::create_dir(folder.path().join("z")).unwrap();
        fs::write(folder.path().join("z/zarr.json"), b"{}").unwrap();
        assert!(format!("{:#}", Input::of(&folder.path().join("z")).err().unwrap()).contains("Zarr"));
        assert!(Input::of(folder.path()).is_ok());
    }
}
