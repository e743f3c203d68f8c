//! The directory of a sparse frame, encoded as one input.

use std::path::Path;
use std::sync::Arc;

use b2_storage_sim::SimFs;

use crate::dice::Dice;
use crate::frame::{observe, options, small};

/// Iterates over the files and their numbers: 0 for the index file, or one more than the number of the chunk file.
pub(crate) fn unpack(mut data: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        let (id, rest) = data.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
        let (file, rest) = rest.split_at(len);
        data = rest;
        Some((u32::from_le_bytes(*id), file))
    })
}

/// The inverse of [`unpack`].
pub(crate) fn pack(files: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (id, file) in files {
        let file = &file[..file.len().min(u16::MAX.into())];
        out.extend(id.to_le_bytes());
        out.extend((file.len() as u16).to_le_bytes());
        out.extend(file);
    }
    out
}

/// The input holds the files of a directory, which is read like any sparse frame.
pub(crate) fn run(data: &[u8]) {
    let fs = SimFs::new();
    let folder = Path::new("frame.b2nd");
    let mut files = 0;
    for (id, file) in unpack(data).take(40) {
        let name = match id.checked_sub(1) {
            None => "chunks.b2frame".to_owned(),
            Some(id) => format!("{id:08X}.chunk"),
        };
        fs.write(&folder.join(name), file);
        files += 1;
    }
    if files == 0 {
        return;
    }
    let fs = Arc::new(fs);
    for checksums in [true, false] {
        let options = options(small()).file_system(fs.clone()).checksums(checksums);
        match options.open(folder) {
            Ok(schunk) => {
                let first = observe(&schunk, &mut Dice::of(data));
                let again = observe(&schunk, &mut Dice::of(data));
                assert!(first == again, "another result the second time");
            }
            Err(error) => drop(error.to_string()),
        }
    }
}
