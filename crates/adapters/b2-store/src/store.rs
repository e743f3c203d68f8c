//! Opening and listing stores, and opening their members.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use b2_frame::{
    FileKind, FrameError, INDEX_NAME, Links, MAGIC, ReadAt, ReadFiles, ReadOptions, RootedDir, SuperChunk,
    is_table,
};

use crate::StoreError;
use crate::archive::Archive;
use crate::members::{Member, MemberLocation, Members};
use crate::names::{self, ATTRIBUTES, EMBEDDED, MAX_DEPTH, MAX_MEMBERS, key_of, last_part};
use crate::table::{self, TABLE_ATTRIBUTES, TABLE_META};
use crate::window::{FileWindow, FrameData};

/// An open store: its keys and the locations of its members. It does not follow later changes.
pub struct Store {
    name: String,
    pub(crate) root: StoreRoot,
    pub(crate) members: Members,
    /// The frame with small members.
    pub(crate) embedded: Option<SuperChunk>,
    /// Whether members of tables may be changed in any way.
    pub(crate) table_edits: bool,
    /// Whether files are locked while they are changed.
    pub(crate) locks: bool,
}

pub(crate) enum StoreRoot {
    Directory { files: Files, path: PathBuf },
    Archive(Archive),
    Frame,
}

/// The files of a directory.
pub(crate) enum Files {
    /// On the local disk: links are not followed.
    RootedDir(Arc<RootedDir>),
    Other(Arc<dyn ReadFiles>),
}

impl Files {
    pub(crate) fn file_system(&self) -> Arc<dyn ReadFiles> {
        match self {
            Self::RootedDir(inside) => inside.clone(),
            Self::Other(fs) => fs.clone(),
        }
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<(OsString, FileKind)>> {
        match self {
            Self::RootedDir(inside) => inside.entries(dir),
            Self::Other(fs) => {
                let kind = |name: OsString| Ok((name.clone(), fs.kind(&dir.join(name), Links::Refuse)?));
                fs.list(dir)?.into_iter().map(kind).collect()
            }
        }
    }

    /// Returns whether anything exists at this path.
    fn exists(&self, path: &Path) -> Result<bool, StoreError> {
        match self.file_system().kind(path, Links::Refuse) {
            Ok(_) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(StoreError::io(path)(error)),
        }
    }
}

/// Returns whether an error means that nothing exists. A link in place of a directory counts as missing.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("name", &self.name)
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store at a path, detected by its content; `None` if the path is something else, or a frame that does
    /// not open. `options` determine how to read it, and from which file system.
    ///
    /// # Errors
    /// [`StoreError::Io`] if nothing exists there or it cannot be read, [`StoreError::Unreadable`] if it is damaged,
    /// with [`Archive`](StoreError::Archive) or [`Damaged`](StoreError::Damaged) as [`detail`](StoreError::detail),
    /// [`StoreError::Frame`] if the frame with the embedded members does not open.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Option<Self>, StoreError> {
        let path = path.as_ref();
        Self::open_any(path, options).map_err(|error| error.of(&path.display().to_string()))
    }

    fn open_any(path: &Path, options: &ReadOptions) -> Result<Option<Self>, StoreError> {
        let fs = options.frame_file_system();
        match fs.kind(path, Links::Follow).map_err(StoreError::io(path))? {
            FileKind::Directory => Self::open_directory(path, options),
            FileKind::File => {
                let file = fs.open(path, Links::Follow).map_err(StoreError::io(path))?;
                Self::open_file(file, path, options, || options.open(path))
            }
            FileKind::Link | FileKind::Other => Ok(None),
        }
    }

    fn open_file(
        file: Arc<dyn ReadAt>,
        path: &Path,
        options: &ReadOptions,
        open_frame: impl FnOnce() -> Result<SuperChunk, FrameError>,
    ) -> Result<Option<Self>, StoreError> {
        let start = read_start(&*file, options.frame_offset()).map_err(StoreError::io(path))?;
        match start.as_slice() {
            b"PK\x03\x04" | b"PK\x05\x06" if options.frame_offset() == 0 => {
                Self::open_archive(file, path.display().to_string(), options)
            }
            start if start.len() == 4 && MAGIC.starts_with(start) => {
                open_frame().map_or(Ok(None), Self::from_frame)
            }
            _ => Ok(None),
        }
    }

    /// Opens a store in a file that is not at a path, such as a remote one; `None` if it is something else. `name` is
    /// used in errors.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_reader(
        file: Arc<dyn ReadAt>,
        name: &str,
        options: &ReadOptions,
    ) -> Result<Option<Self>, StoreError> {
        let frame = || options.from_reader(file.clone(), name);
        Self::open_file(file.clone(), Path::new(name), options, frame).map_err(|error| error.of(name))
    }

    /// Opens the frame of an `EmbedStore`, which may itself be a member of a store; `None` if it has no members.
    ///
    /// # Errors
    /// When the list of members is damaged: [`StoreError::Frame`] if it does not decompress, [`StoreError::Damaged`] if
    /// it is malformed.
    pub fn from_frame(frame: SuperChunk) -> Result<Option<Self>, StoreError> {
        if !Members::has(&frame) {
            return Ok(None);
        }
        let name = frame.name().unwrap_or_default().into_owned();
        let mut store = Self::new(name, StoreRoot::Frame);
        store.list_embedded(frame)?;
        Ok(Some(store))
    }

    fn new(name: String, root: StoreRoot) -> Self {
        Self { name, root, members: Members::default(), embedded: None, table_edits: false, locks: true }
    }

    fn open_directory(path: &Path, options: &ReadOptions) -> Result<Option<Self>, StoreError> {
        let fs = options.frame_file_system();
        let (files, path) = if fs.is_local() {
            let inside = RootedDir::new(path).map_err(StoreError::io(path))?;
            let path = inside.path().to_owned();
            (Files::RootedDir(Arc::new(inside)), path)
        } else {
            (Files::Other(fs.clone()), path.to_owned())
        };
        if files.exists(&path.join(INDEX_NAME))? {
            return Ok(None);
        }
        let embedded = path.join(EMBEDDED);
        let has_embedded = files.exists(&embedded)?;
        if !has_embedded && path.extension().is_none_or(|end| end != "b2d") && !has_member(&files, &path)? {
            return Ok(None);
        }
        let mut store = Self::new(path.display().to_string(), StoreRoot::Directory { files, path });
        store.list_directory()?;
        if has_embedded {
            store.list_embedded(store.options(options).open(embedded)?)?;
        }
        Ok(Some(store))
    }

    fn open_archive(
        file: Arc<dyn ReadAt>,
        name: String,
        options: &ReadOptions,
    ) -> Result<Option<Self>, StoreError> {
        let (archive, members, embedded) = Archive::members(file)?;
        if members.0.is_empty() && embedded.is_none() {
            return Ok(None);
        }
        let mut store = Self::new(name, StoreRoot::Archive(archive));
        store.members = members;
        if let Some(place) = embedded {
            let frame = store.open_at(&place, EMBEDDED, options)?;
            store.list_embedded(frame)?;
        }
        Ok(Some(store))
    }

    /// Returns all members by key, including those with attributes of groups, see [`ATTRIBUTES`].
    pub fn members(&self) -> &BTreeMap<String, Member> {
        &self.members.0
    }

    /// Returns the keys in order, except for those with attributes of groups and those of indexes of python-blosc2.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let keys = self.members.0.keys().map(String::as_str);
        keys.filter(|key| last_part(key) != ATTRIBUTES && !self.is_index(key))
    }

    /// Returns whether a member is an index that python-blosc2 maintains for an array or a column of a table.
    #[doc(hidden)]
    pub fn is_index(&self, key: &str) -> bool {
        let of_table = || {
            key.match_indices(table::TABLE_INDEXES).any(|(at, _)| {
                let group = key.get(..at).filter(|group| group.ends_with('/'));
                group.is_some_and(|group| self.members.0.contains_key(&format!("{group}{TABLE_META}")))
            })
        };
        table::is_index(last_part(key)) || of_table()
    }

    /// Returns the member with this key. The leading slash may be omitted.
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`] if there is none.
    pub fn member(&self, key: &str) -> Result<&Member, StoreError> {
        let found = self.members.0.get(key).or_else(|| self.members.0.get(&names::absolute(key)));
        found.ok_or_else(|| StoreError::NoSuchKey(key.to_owned()))
    }

    /// Opens a member. File system and offset of `options` are replaced by those of the member.
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`] if there is none, [`StoreError::Frame`] as for [`SuperChunk::open`],
    /// [`StoreError::Unreadable`] if its location in the store is damaged or cannot be read.
    pub fn frame(&self, key: &str, options: &ReadOptions) -> Result<SuperChunk, StoreError> {
        let opened = self.open_at(&self.member(key)?.place, key, options);
        opened.map_err(|error| error.of(&format!("{}:{key}", self.name)))
    }

    /// Returns whether a group is a table of python-blosc2 (`CTable`). Its columns are arrays below `_cols`;
    /// `_valid_rows` marks the existing rows. The root is `""`.
    pub fn is_table(&self, group: &str, options: &ReadOptions) -> bool {
        self.frame(&names::member_of(group, TABLE_META), options).is_ok_and(|frame| is_table(&frame))
    }

    /// Opens the frame whose vlmetalayers are the attributes of a group or table; `None` if it has none. The root is `""`.
    ///
    /// # Errors
    /// As for [`frame`](Self::frame) when it cannot be opened, but never [`StoreError::NoSuchKey`].
    pub fn attributes(&self, group: &str, options: &ReadOptions) -> Result<Option<SuperChunk>, StoreError> {
        match self.frame(&self.attributes_key(group, options), options) {
            Err(StoreError::NoSuchKey(_)) => Ok(None),
            found => found.map(Some),
        }
    }

    pub(crate) fn attributes_key(&self, group: &str, options: &ReadOptions) -> String {
        let name = if self.is_table(group, options) { TABLE_ATTRIBUTES } else { ATTRIBUTES };
        names::member_of(group, name)
    }

    /// Compares the directory of an archive with the headers of all its members. Other stores have no directory and
    /// pass. The members are not read; use [`SuperChunk::verify`] for each.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] when they contradict each other or cannot be read, with
    /// [`Archive`](StoreError::Archive) or [`Damaged`](StoreError::Damaged) as [`detail`](StoreError::detail).
    pub fn verify_directory(&self) -> Result<(), StoreError> {
        match &self.root {
            StoreRoot::Archive(archive) => archive.verify().map_err(|error| error.of(&self.name)),
            StoreRoot::Directory { .. } | StoreRoot::Frame => Ok(()),
        }
    }

    /// Returns the range of the archive that holds a member; `None` for other stores and members.
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`] when there is no such member; [`StoreError::Unreadable`] when its header is damaged or
    /// cannot be read, with [`Archive`](StoreError::Archive) or [`Damaged`](StoreError::Damaged) as
    /// [`detail`](StoreError::detail).
    pub fn window(&self, key: &str) -> Result<Option<Range<u64>>, StoreError> {
        match (&self.root, &self.member(key)?.place) {
            (StoreRoot::Archive(archive), MemberLocation::Archived { header, len }) => {
                let window = archive.data(*header, *len).map(Some);
                window.map_err(|error| error.of(&format!("{}:{key}", self.name)))
            }
            _ => Ok(None),
        }
    }

    /// Returns the options for members that are files.
    pub(crate) fn options(&self, options: &ReadOptions) -> ReadOptions {
        let options = options.clone().offset(0);
        match &self.root {
            StoreRoot::Directory { files, .. } => options.file_system(files.file_system()),
            _ => options,
        }
    }

    fn open_at(
        &self,
        place: &MemberLocation,
        key: &str,
        options: &ReadOptions,
    ) -> Result<SuperChunk, StoreError> {
        let options = self.options(options);
        let name = || format!("{}:{key}", self.name);
        match (place, &self.root, &self.embedded) {
            (MemberLocation::Path(path), ..) => Ok(options.open(path)?),
            (MemberLocation::Archived { header, len }, StoreRoot::Archive(archive), _) => {
                let data = archive.data(*header, *len)?;
                let window = FileWindow::new(archive.file().clone(), data.start, *len);
                options.from_reader(Arc::new(window), name()).map_err(|error| match error.detail() {
                    FrameError::Truncated { need, .. } if need > len => StoreError::Damaged(format!(
                        "has {need} bytes, but its slot in the archive has {len}"
                    )),
                    _ => error.into(),
                })
            }
            (MemberLocation::Embedded(range), _, Some(frame)) => {
                let len = range.end.saturating_sub(range.start);
                let window = FileWindow::new(Arc::new(FrameData(frame.clone())), range.start, len);
                Ok(options.from_reader(Arc::new(window), name())?)
            }
            (MemberLocation::Unreadable(why), ..) => Err(StoreError::Unsupported(format!("{key} is {why}"))),
            (MemberLocation::Archived { .. } | MemberLocation::Embedded(_), ..) => {
                Err(StoreError::NoSuchKey(key.to_owned()))
            }
        }
    }

    fn list_directory(&mut self) -> Result<(), StoreError> {
        let StoreRoot::Directory { files, path } = &self.root else { return Ok(()) };
        let (mut found, mut pending) = (Vec::new(), vec![(path.clone(), String::new(), 0usize)]);
        while let Some((dir, prefix, depth)) = pending.pop() {
            if depth > MAX_DEPTH || found.len() > MAX_MEMBERS {
                return Err(StoreError::Damaged(format!(
                    "directories are nested more than {MAX_DEPTH} deep, or have more than {MAX_MEMBERS} members"
                )));
            }
            let entries = match files.entries(&dir) {
                // Removed, or replaced by a link, since its name was listed.
                Err(error) if depth > 0 && is_missing(&error) => continue,
                entries => entries.map_err(StoreError::io(&dir))?,
            };
            for (name, kind) in entries {
                let path = dir.join(&name);
                let name = names::text_of(name.as_encoded_bytes());
                match (key_of(&name), kind) {
                    (Some((stem, of)), FileKind::File) => found.push((format!("{prefix}/{stem}"), of, path)),
                    (Some((stem, of)), FileKind::Directory) if files.exists(&path.join(INDEX_NAME))? => {
                        found.push((format!("{prefix}/{stem}"), of, path));
                    }
                    (_, FileKind::Directory) if !names::is_temporary(&name) => {
                        pending.push((path, format!("{prefix}/{name}"), depth.saturating_add(1)));
                    }
                    _ => {}
                }
            }
        }
        for (key, kind, path) in found {
            self.members.insert(key, Member { kind, place: MemberLocation::Path(path) })?;
        }
        Ok(())
    }

    /// Returns whether there is a frame with small members.
    pub(crate) fn has_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    fn list_embedded(&mut self, frame: SuperChunk) -> Result<(), StoreError> {
        self.members.embedded(&frame)?;
        self.embedded = Some(frame);
        Ok(())
    }
}

/// Returns the first four bytes from `offset` on, or fewer.
fn read_start(file: &dyn ReadAt, offset: u64) -> io::Result<Vec<u8>> {
    let len = file.len()?;
    Ok(file.read_at(offset.min(len)..offset.saturating_add(4).min(len))?.to_vec())
}

/// Returns whether a directory, or one of its subdirectories, has an entry with the name of a member. It looks no
/// deeper, since the directory may be any directory.
fn has_member(files: &Files, dir: &Path) -> Result<bool, StoreError> {
    let is_member =
        |(name, _): &(OsString, FileKind)| key_of(&names::text_of(name.as_encoded_bytes())).is_some();
    let entries = files.entries(dir).map_err(StoreError::io(dir))?;
    Ok(entries.iter().any(is_member)
        || entries.iter().any(|(name, kind)| {
            *kind == FileKind::Directory
                && files.entries(&dir.join(name)).is_ok_and(|inner| inner.iter().any(is_member))
        }))
}
