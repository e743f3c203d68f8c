//! The directory of a zip archive.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use b2_frame::ReadAt;
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ReaderAt, ZipLocator};

use crate::StoreError;
use crate::members::{Member, Members, Place};
use crate::names::{self, EMBEDDED, MAX_MEMBERS, key_of, last_part};

/// Length of the header of a member without its name and extra field.
const HEADER: usize = 30;

/// An open archive. Its members can be read while other programs replace the file.
pub struct Archive {
    file: Arc<dyn ReadAt>,
    /// Where the members start, and the directory, in ascending order.
    starts: Vec<u64>,
}

/// A member as the directory describes it.
#[derive(Debug)]
pub struct Entry {
    pub name: String,
    /// Offset of the header of the member.
    pub header: u64,
    pub len: u64,
    /// Why the member cannot be read in place.
    pub unreadable: Option<String>,
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive").finish_non_exhaustive()
    }
}

impl Archive {
    /// Opens an archive of members, and returns those of them that are files, by key, and the frame with small members.
    pub fn members(file: Arc<dyn ReadAt>) -> Result<(Self, Members, Option<Place>), StoreError> {
        let wanted = |name: &str| name == EMBEDDED || key_of(last_part(name)).is_some();
        let (archive, entries) = Self::open(file, wanted)?;
        let (mut members, mut embedded) = (Members::default(), None);
        // Of several entries of one name, the last one counts, as in Python.
        for Entry { name, header, len, unreadable } in entries {
            let place = unreadable.map_or(Place::Archived { header, len }, Place::Unreadable);
            match key_of(last_part(&name)) {
                Some((stem, kind)) => {
                    let folder = name.strip_suffix(last_part(&name)).unwrap_or_default();
                    members.insert(format!("/{folder}{stem}"), Member { kind, place })?;
                }
                None => embedded = Some(place),
            }
        }
        Ok((archive, members, embedded))
    }

    /// Returns the archive and those of its entries that `wanted` accepts by name.
    pub fn open(
        file: Arc<dyn ReadAt>,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<(Self, Vec<Entry>), StoreError> {
        let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
        let end = file.len().map_err(StoreError::archive)?;
        let located = ZipLocator::new().locate_in_reader(Reader(file.clone()), &mut buffer, end);
        let archive = located.map_err(|(_, error)| StoreError::archive(error))?;
        let (mut found, mut places) = (Vec::new(), vec![(archive.directory_offset(), u64::MAX)]);
        let mut entries = archive.entries(&mut buffer);
        while let Some(entry) = entries.next_entry().map_err(StoreError::archive)? {
            if places.len() > MAX_MEMBERS {
                return Err(StoreError::Damaged(format!("zip archive: more than {MAX_MEMBERS} members")));
            }
            let (header, len) = (entry.local_header_offset(), entry.compressed_size_hint());
            let name = entry.file_path();
            let name = name.as_bytes();
            // Its extra field follows too, whose length only the header of the member tells.
            let end =
                header.saturating_add(HEADER as u64).saturating_add(name.len() as u64).saturating_add(len);
            places.push((header, end));
            let Ok(name) = std::str::from_utf8(name) else { continue };
            if !wanted(name) {
                continue;
            }
            names::check_entry(name)?;
            let method = entry.compression_method();
            let unreadable = if entry.flags().is_encrypted() {
                Some("encrypted in the archive".to_owned())
            } else if method != CompressionMethod::STORE {
                Some(format!(
                    "compressed in the archive ({method}), must be stored; unpack the archive and use the directory"
                ))
            } else if entry.uncompressed_size_hint() != len {
                Some("of two lengths in the archive".to_owned())
            } else {
                None
            };
            found.push(Entry { name: name.to_owned(), header, len, unreadable });
        }
        places.sort_unstable();
        if places.windows(2).any(|pair| matches!(pair, [(_, end), (next, _)] if end > next)) {
            return Err(StoreError::Damaged("zip archive: members overlap".to_owned()));
        }
        Ok((Self { file, starts: places.into_iter().map(|(start, _)| start).collect() }, found))
    }

    /// The file of the archive.
    pub fn file(&self) -> &Arc<dyn ReadAt> {
        &self.file
    }

    /// Returns where the bytes of a member are. The header of the member is read only now, so that listing an archive
    /// far away takes no request per member.
    pub fn data(&self, header: u64, len: u64) -> Result<Range<u64>, StoreError> {
        let mut fixed = [0; HEADER];
        self.file.read_exact_at(header, &mut fixed).map_err(StoreError::archive)?;
        let [b'P', b'K', 3, 4, .., n0, n1, x0, x1] = fixed else {
            return Err(StoreError::Damaged(format!("zip archive: no member starts at byte {header}")));
        };
        let variable =
            u64::from(u16::from_le_bytes([n0, n1])).saturating_add(u16::from_le_bytes([x0, x1]).into());
        let start = header.saturating_add(HEADER as u64).saturating_add(variable);
        let next = self.starts.partition_point(|start| *start <= header);
        let limit = self.starts.get(next).copied().unwrap_or(0);
        match start.checked_add(len) {
            Some(end) if end <= limit => Ok(start..end),
            _ => Err(StoreError::Damaged(format!(
                "zip archive: the member at byte {header} is longer than its place in the archive"
            ))),
        }
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
