//! The directory of a zip archive.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use b2_frame::ReadAt;
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ReaderAt, ZipLocator};

use crate::StoreError;
use crate::members::{Member, MemberLocation, Members};
use crate::names::{self, EMBEDDED, MAX_MEMBERS, key_of, last_part};

/// Length of the header of a member without its name and extra field.
const HEADER_LEN: usize = 30;
/// Signature of a local file header.
const SIGNATURE: [u8; 4] = *b"PK\x03\x04";
/// The flags that change how a member is read: encryption, a descriptor after the data, the encoding of the name.
const CHECKED_FLAGS: u16 = 1 | HAS_DESCRIPTOR | 1 << 6 | 1 << 11;
/// The flag for a descriptor: lengths and checksum follow the data instead of being in the member's header.
const HAS_DESCRIPTOR: u16 = 1 << 3;
/// Maximum length of a descriptor.
const MAX_DESCRIPTOR_LEN: u64 = 24;
/// Placeholder for a length that needs 64 bits and is stored in the extra field with this id.
const LEN_IN_EXTRA_FIELD: u32 = u32::MAX;
const ZIP64: u16 = 1;

/// An open archive. Its members can be read while other programs replace the file.
pub struct Archive {
    file: Arc<dyn ReadAt>,
    /// All entries of the directory, by the offsets of their headers.
    entries: Vec<DirectoryEntry>,
    /// Where the directory starts.
    directory: u64,
    /// Number of entries according to the end record.
    declared_count: u64,
}

/// An entry of the directory, to be compared with its header.
struct DirectoryEntry {
    header: u64,
    name: Box<[u8]>,
    method: u16,
    flags: u16,
    crc: u32,
    /// Lengths, stored and uncompressed.
    lens: [u64; 2],
}

impl DirectoryEntry {
    /// Returns the lowest possible end of the entry: only its header has the length of its extra field.
    fn min_end(&self) -> u64 {
        let [len, _] = self.lens;
        self.header
            .saturating_add(HEADER_LEN as u64)
            .saturating_add(self.name.len() as u64)
            .saturating_add(len)
    }

    fn damaged(&self, what: &str) -> StoreError {
        let name = names::text_of(&self.name);
        StoreError::Damaged(format!("zip archive: {name}: the directory and the member differ in {what}"))
    }
}

/// A member as the directory describes it.
#[derive(Debug)]
pub struct ArchiveEntry {
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
    /// Opens an archive of members. Returns its file members by key, and the frame with small members.
    pub fn members(file: Arc<dyn ReadAt>) -> Result<(Self, Members, Option<MemberLocation>), StoreError> {
        let wanted = |name: &str| name == EMBEDDED || key_of(last_part(name)).is_some();
        let (archive, entries) = Self::open(file, wanted)?;
        let (mut members, mut embedded) = (Members::default(), None);
        // Of several entries of one name, the last one counts, as in Python.
        for ArchiveEntry { name, header, len, unreadable } in entries {
            let place =
                unreadable.map_or(MemberLocation::Archived { header, len }, MemberLocation::Unreadable);
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
    ) -> Result<(Self, Vec<ArchiveEntry>), StoreError> {
        let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
        let end = file.len().map_err(StoreError::archive)?;
        let located = ZipLocator::new().locate_in_reader(ArchiveFile(file.clone()), &mut buffer, end);
        let archive = located.map_err(|(_, error)| StoreError::archive(error))?;
        let (directory, declared_count) = (archive.directory_offset(), archive.entries_hint());
        let (mut found, mut entries) = (Vec::new(), Vec::new());
        let mut cursor = archive.entries(&mut buffer);
        while let Some(entry) = cursor.next_entry().map_err(StoreError::archive)? {
            if entries.len() >= MAX_MEMBERS {
                return Err(StoreError::Damaged(format!("zip archive: more than {MAX_MEMBERS} members")));
            }
            let method = entry.compression_method();
            let lens = [entry.compressed_size_hint(), entry.uncompressed_size_hint()];
            let (header, len) = (entry.local_header_offset(), entry.compressed_size_hint());
            let path = entry.file_path();
            let raw: &[u8] = path.as_bytes();
            entries.push(DirectoryEntry {
                header,
                name: raw.into(),
                method: method.as_u16(),
                flags: entry.flags().bits(),
                crc: entry.crc32(),
                lens,
            });
            let name = names::text_of(raw);
            if !wanted(&name) {
                continue;
            }
            // A name that is not UTF-8 is checked before it is escaped, since backslashes are refused.
            names::check_entry(&String::from_utf8_lossy(raw))?;
            let unreadable = if entry.flags().is_encrypted() {
                Some("encrypted in the archive".to_owned())
            } else if method != CompressionMethod::STORE {
                Some(format!(
                    "compressed in the archive ({method}), must be stored; unpack the archive and use the directory"
                ))
            } else if entry.uncompressed_size_hint() != len {
                Some("stored with two different lengths in the archive".to_owned())
            } else {
                None
            };
            found.push(ArchiveEntry { name: name.into_owned(), header, len, unreadable });
        }
        entries.sort_by_key(|entry| (entry.header, entry.min_end()));
        let starts = entries.iter().map(|entry| entry.header).skip(1).chain([directory]);
        if entries.iter().zip(starts).any(|(entry, next)| entry.min_end() > next) {
            return Err(StoreError::Damaged("zip archive: members overlap".to_owned()));
        }
        Ok((Self { file, entries, directory, declared_count }, found))
    }

    /// The file of the archive.
    pub fn file(&self) -> &Arc<dyn ReadAt> {
        &self.file
    }

    /// Returns where the bytes of a member are. The header of the member is read and compared with the directory only
    /// now, so that listing a remote archive takes no request per member.
    pub fn data(&self, header: u64, len: u64) -> Result<Range<u64>, StoreError> {
        let none = || StoreError::Damaged(format!("zip archive: no member starts at byte {header}"));
        let at = self.entries.binary_search_by_key(&header, |entry| entry.header).map_err(|_| none())?;
        let data = self.verified_data(at)?;
        match data.end.checked_sub(data.start) {
            Some(found) if found == len => Ok(data),
            _ => Err(none()),
        }
    }

    /// Compares the directory with the headers of all entries, including those that are not store members.
    pub fn verify(&self) -> Result<(), StoreError> {
        // The 16-bit count of an archive without zip64 wraps around.
        let count = |entries: u64| entries & u64::from(u16::MAX);
        if count(self.declared_count) != count(self.entries.len() as u64) {
            return Err(StoreError::Damaged(format!(
                "zip archive: the directory has {} entries, the end record says {}",
                self.entries.len(),
                self.declared_count
            )));
        }
        self.check_unlisted(0, self.entries.first().map_or(self.directory, |entry| entry.header))?;
        for (at, entry) in self.entries.iter().enumerate() {
            let (end, next) = (self.verified_data(at)?.end, self.next(at));
            let end = match entry.flags & HAS_DESCRIPTOR {
                0 => end,
                _ => end.saturating_add(self.descriptor(entry, end, next)?),
            };
            self.check_unlisted(end, next)?;
        }
        Ok(())
    }

    /// Returns the start of the entry after the one at an index, or of the directory.
    fn next(&self, at: usize) -> u64 {
        self.entries.get(at.saturating_add(1)).map_or(self.directory, |entry| entry.header)
    }

    /// Returns where the bytes of an entry are, after comparing its header with the directory.
    fn verified_data(&self, at: usize) -> Result<Range<u64>, StoreError> {
        let Some(entry) = self.entries.get(at) else { return Err(StoreError::Damaged(String::new())) };
        let [len, _] = entry.lens;
        let header = entry.header;
        let name_at = header.saturating_add(HEADER_LEN as u64);
        let extra_at = name_at.saturating_add(entry.name.len() as u64);
        let head = self.file.read_at(header..extra_at).map_err(StoreError::archive)?;
        let number =
            |at: usize| head.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |n| u16::from_le_bytes(*n));
        let long =
            |at: usize| head.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |n| u32::from_le_bytes(*n));
        if !head.starts_with(&SIGNATURE) {
            return Err(StoreError::Damaged(format!("zip archive: no member starts at byte {header}")));
        }
        let [flags, method, name_len, extra_len] = [6, 8, 26, 28].map(number);
        let [crc, stored, uncompressed] = [14, 18, 22].map(long);
        let start = name_at.saturating_add(name_len.into()).saturating_add(extra_len.into());
        let data = match start.checked_add(len) {
            Some(end) if end <= self.next(at) => start..end,
            _ => {
                return Err(StoreError::Damaged(format!(
                    "zip archive: the member at byte {header} is longer than its slot in the archive"
                )));
            }
        };
        if head.get(HEADER_LEN..) != Some(&*entry.name) || usize::from(name_len) != entry.name.len() {
            return Err(entry.damaged("its name"));
        }
        if method != entry.method {
            return Err(entry.damaged("the compression method"));
        }
        if flags & CHECKED_FLAGS != entry.flags & CHECKED_FLAGS {
            return Err(entry.damaged("the flags"));
        }
        // With a descriptor, both may be missing here.
        let later = flags & HAS_DESCRIPTOR != 0;
        if crc != entry.crc && !(later && crc == 0) {
            return Err(entry.damaged("the checksum"));
        }
        let mut lens = [uncompressed, stored].map(u64::from);
        if [uncompressed, stored].contains(&LEN_IN_EXTRA_FIELD) {
            let extra = extra_at..extra_at.saturating_add(extra_len.into());
            let extra = self.file.read_at(extra).map_err(StoreError::archive)?;
            let mut long = zip64(&extra);
            for len in lens.iter_mut().filter(|len| **len == LEN_IN_EXTRA_FIELD.into()) {
                if let Some((first, rest)) = long.split_first_chunk() {
                    (*len, long) = (u64::from_le_bytes(*first), rest);
                }
            }
        }
        lens.reverse();
        let same = |(found, expected): (u64, u64)| found == expected || later && found == 0;
        if !lens.into_iter().zip(entry.lens).all(same) {
            return Err(entry.damaged("the length"));
        }
        Ok(data)
    }

    /// Returns the length of the descriptor that follows the data of an entry, after comparing it with the directory.
    fn descriptor(&self, entry: &DirectoryEntry, at: u64, next: u64) -> Result<u64, StoreError> {
        let found = at..next.min(at.saturating_add(MAX_DESCRIPTOR_LEN));
        let found = self.file.read_at(found).map_err(StoreError::archive)?;
        let [short, long] = [
            entry.lens.iter().flat_map(|len| u32::try_from(*len).unwrap_or(u32::MAX).to_le_bytes()).collect(),
            entry.lens.iter().flat_map(|len| len.to_le_bytes()).collect::<Vec<u8>>(),
        ];
        let crc = entry.crc.to_le_bytes();
        for start in [&b"PK\x07\x08"[..], b""] {
            for lens in [&short, &long] {
                let expected = [start, &crc, lens].concat();
                if found.starts_with(&expected) {
                    return Ok(expected.len() as u64);
                }
            }
        }
        Err(entry.damaged("the descriptor after the data"))
    }

    /// Fails if there is a member in a gap between members.
    fn check_unlisted(&self, from: u64, to: u64) -> Result<(), StoreError> {
        let found = from..to.min(from.saturating_add(SIGNATURE.len() as u64)).max(from);
        match self.file.read_at(found).map_err(StoreError::archive)?.starts_with(&SIGNATURE) {
            true => Err(StoreError::Damaged(format!(
                "zip archive: the member at byte {from} is missing from the directory"
            ))),
            false => Ok(()),
        }
    }
}

/// Returns the content of the extra field with lengths of 64 bits; empty if there is none.
fn zip64(mut extra: &[u8]) -> &[u8] {
    while let Some(([i0, i1, n0, n1], rest)) = extra.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes([*n0, *n1])).min(rest.len());
        let (content, rest) = rest.split_at(len);
        if u16::from_le_bytes([*i0, *i1]) == ZIP64 {
            return content;
        }
        extra = rest;
    }
    &[]
}

/// Adapts a file to the reader of archives.
struct ArchiveFile(Arc<dyn ReadAt>);

impl ReaderAt for ArchiveFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let room = self.0.len()?.saturating_sub(offset);
        let count = buf.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if let Some(buf) = buf.get_mut(..count) {
            self.0.read_exact_at(offset, buf)?;
        }
        Ok(count)
    }
}
