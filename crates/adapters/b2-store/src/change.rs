//! Changes of stores in directories. Each becomes visible to others when it is complete.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use b2_frame::{
    EditOptions, Entry, FileKind, FileSystem, FrameEditor, FrameParams, FrameWriter, Links, ReadAhead,
    ReadFiles, ReadOptions, RootedDir, SuperChunk, Table, count,
};
use rmpv::Value;

use crate::StoreError;
use crate::members::{MemberLocation, kind_of};
use crate::names::{self, EMBEDDED, EMBEDDED_MAP, MemberKind, absolute, last_part};
use crate::store::{Files, Store, StoreRoot};
use crate::table::TABLE_META;

/// The vlmetalayer of [`EMBEDDED`] that counts changes of file members.
const CHANGE_COUNTER: &str = "dstore_tick";
/// The vlmetalayer of [`EMBEDDED`] that lists tables in a `TreeStore` by their keys.
const OBJECTS: &str = "_object_registry";

impl Store {
    /// Returns the directory of the store as a file system that does not follow links, for writing to
    /// [`place_for`](Self::place_for). `None` for archives and frames, which cannot be changed.
    pub fn directory(&self) -> Option<Arc<dyn FileSystem>> {
        self.inside().map(|inside| inside.clone() as _)
    }

    /// Returns the directory with its full interface.
    #[doc(hidden)]
    pub fn inside(&self) -> Option<&Arc<RootedDir>> {
        match &self.root {
            StoreRoot::Directory { files: Files::RootedDir(inside), .. } => Some(inside),
            _ => None,
        }
    }

    /// Allows changes of tables of python-blosc2 (`CTable`) after which it cannot read the table, or reads other rows:
    /// resizing, replacing or removing columns, and changing `_valid_rows`.
    #[must_use]
    pub fn allow_table_edits(mut self) -> Self {
        self.table_edits = true;
        self
    }

    /// Locks files while they are changed, so that others wait: on by default. Without locks, the caller ensures that
    /// the store is not changed elsewhere at the same time, see [`EditOptions::lock`].
    #[must_use]
    pub fn lock(mut self, lock: bool) -> Self {
        self.locks = lock;
        self
    }

    fn edit_options(&self, read: ReadOptions) -> EditOptions {
        EditOptions::from(read).lock(self.locks)
    }

    /// Opens a member for changing. In a table of python-blosc2, each commit of changed items marks the indexes of the
    /// table as outdated first, and fails if the length of the column changes (see
    /// [`allow_table_edits`](Self::allow_table_edits)).
    ///
    /// ```no_run
    /// # use b2_frame::ReadOptions;
    /// # use b2_store::Store;
    /// # use b2nd::{ArrayEditor, source};
    /// let options = ReadOptions::default();
    /// let store = Store::open("table.b2d", &options)?.expect("a store");
    /// let mut column = ArrayEditor::new(store.edit("_cols/price", &options)?)?;
    /// column.set(10..20, source::item(1.5_f64.to_le_bytes()))?;
    /// column.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`] when there is no such member, [`StoreError::Unsupported`] when it is embedded or the store
    /// cannot be changed, [`StoreError::Frame`] as for [`EditOptions::edit`].
    pub fn edit(&self, key: &str, options: &ReadOptions) -> Result<FrameEditor, StoreError> {
        self.changed()?;
        let MemberLocation::Path(path) = &self.member(key)?.place else {
            return Err(StoreError::Unsupported(format!(
                "{key}: small members in {EMBEDDED} cannot be changed"
            )));
        };
        let read = self.options(options);
        Ok(self.edit_options(read).allow_table_edit(self.table_edits).edit(path)?)
    }

    /// Notifies other handles that share the store that members were added, replaced or removed: handles of
    /// python-blosc2 opened with `locking=True` list the members again. Call it after writing a member to
    /// [`place_for`](Self::place_for). Does nothing if no program shares the store in this way.
    ///
    /// # Errors
    /// [`StoreError::Unsupported`] when the store cannot be changed, [`StoreError::Frame`] when the frame with the
    /// counter cannot be changed.
    pub fn announce(&self) -> Result<(), StoreError> {
        let inside = self.changed()?;
        let path = inside.path().join(EMBEDDED);
        let lock = inside.path().join(format!("{EMBEDDED}.b2lock"));
        let ticks = self.embedded.as_ref().is_some_and(|frame| {
            frame.vlmetalayers().iter().any(|(name, _)| name == CHANGE_COUNTER.as_bytes())
        });
        let is_there = |path: &PathBuf| matches!(inside.kind(path, Links::Refuse), Ok(FileKind::File));
        if !is_there(&path) || !(ticks || is_there(&lock)) {
            return Ok(());
        }
        let mut editor = self.edit_options(self.options(&ReadOptions::default())).edit(path)?;
        count(&mut editor, CHANGE_COUNTER)?;
        editor.commit()?;
        Ok(())
    }

    /// Fails if a member belongs to a table, unless table edits are allowed, and prepares the table for the change.
    fn check_table(&self, key: &str) -> Result<(), StoreError> {
        let read = self.options(&ReadOptions::default());
        let Some(table) = Table::needing(&self.path_of(key)?, &read) else { return Ok(()) };
        if !self.table_edits {
            return Err(StoreError::Unsupported(table.refusal()));
        }
        Ok(table.outdate(true, &self.edit_options(read))?)
    }

    /// Returns the path at which to write the frame of a new member, or of one that is replaced if `overwrite` is given.
    /// Creates the directories above it.
    ///
    /// # Errors
    /// [`StoreError::Key`] when the key is not a relative path, [`StoreError::Exists`] when it is taken,
    /// [`StoreError::Unsupported`] when the store cannot be changed, or when a column of a table would be replaced (see
    /// [`allow_table_edits`](Self::allow_table_edits)); [`StoreError::Io`] when a directory cannot be created.
    pub fn place_for(&self, key: &str, kind: MemberKind, overwrite: bool) -> Result<PathBuf, StoreError> {
        let path = self.unused_path(key, overwrite)?;
        if self.members.0.contains_key(&absolute(key)) {
            self.check_table(key)?;
        }
        let path = self.with_parent_dirs(path, kind)?;
        match self.members.0.get(&absolute(key)).map(|member| &member.place) {
            // Readers might find the other file instead.
            Some(MemberLocation::Path(there)) if *there != path => {
                Err(StoreError::Exists(format!("{key}: a member of another kind exists; remove it first")))
            }
            _ => Ok(path),
        }
    }

    /// Returns the path of the file of a member, to change it. A member in the frame with small members is moved to a
    /// separate file and removed from the list of that frame, as python-blosc2 stores members that are not small.
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`] when there is no such member, [`StoreError::Unsupported`] when the store cannot be
    /// changed, [`StoreError::Frame`] when the member cannot be read or its file cannot be written; otherwise as for
    /// [`place_for`](Self::place_for).
    pub fn file_of(&self, key: &str, options: &ReadOptions) -> Result<PathBuf, StoreError> {
        let inside = self.changed()?;
        if let MemberLocation::Path(path) = &self.member(key)?.place {
            return Ok(path.clone());
        }
        let frame = self.frame(key, options)?;
        let path = self.with_parent_dirs(self.path_of(&absolute(key))?, kind_of(&frame))?;
        // Another thread or process may have created it first.
        if inside.kind(&path, Links::Refuse).is_err() {
            copy_frame(&frame, inside, &path)?;
        }
        self.forget(&[absolute(key)])?;
        Ok(path)
    }

    /// Removes members from the list of the frame with small members, if they are listed, and tables of which they are
    /// `_meta` from the list of tables. The bytes remain, as in python-blosc2.
    ///
    /// # Errors
    /// [`StoreError::Unsupported`] when the store cannot be changed, [`StoreError::Damaged`] or [`StoreError::Frame`]
    /// when the list cannot be read or written.
    pub fn forget(&self, keys: &[String]) -> Result<(), StoreError> {
        let path = self.changed()?.path().join(EMBEDDED);
        if !self.has_embedded() {
            return Ok(());
        }
        let mut editor = self.edit_options(self.options(&SuperChunk::options())).edit(path)?;
        let snapshot = editor.snapshot()?;
        let layers = snapshot.vlmetalayers();
        let list = layers.get(EMBEDDED_MAP)?.unwrap_or_default();
        let damaged = || StoreError::Damaged(format!("{EMBEDDED_MAP} is malformed"));
        let mut list = rmpv::decode::read_value(&mut list.as_slice()).map_err(|_| damaged())?;
        let Value::Map(fields) = &mut list else { return Err(damaged()) };
        let found = fields.iter_mut().find(|(name, _)| name.as_str() == Some("embed_map"));
        let Some((_, Value::Map(entries))) = found else { return Err(damaged()) };
        let before = entries.len();
        entries.retain(|(key, _)| !key.as_str().is_some_and(|key| keys.contains(&absolute(key))));
        let embedded = (entries.len() != before).then_some((EMBEDDED_MAP, list));
        let objects =
            layers.get(OBJECTS)?.and_then(|value| rmpv::decode::read_value(&mut value.as_slice()).ok());
        let objects = match objects {
            Some(Value::Map(mut objects)) => {
                let before = objects.len();
                let is_gone = |key: &str| keys.contains(&names::member_of(key, TABLE_META));
                objects.retain(|(key, _)| !key.as_str().is_some_and(is_gone));
                (objects.len() != before).then_some((OBJECTS, Value::Map(objects)))
            }
            _ => None,
        };
        for (name, value) in embedded.into_iter().chain(objects) {
            let mut bytes = Vec::new();
            rmpv::encode::write_value(&mut bytes, &value).map_err(|_| damaged())?;
            editor.vlmeta().set(name, &bytes)?;
        }
        editor.commit()?;
        Ok(())
    }

    /// Creates a group. Readers see it only once it has members or attributes; nothing else is stored.
    ///
    /// # Errors
    /// As for [`place_for`](Self::place_for).
    pub fn create_group(&self, key: &str) -> Result<(), StoreError> {
        let path = self.unused_path(key, false)?;
        self.changed()?.create_dirs(&path).map_err(StoreError::io(&path))
    }

    /// Removes a member, or a group and all its contents.
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`] when neither exists, [`StoreError::Unsupported`] when the store cannot be changed or
    /// it belongs to a table (see [`allow_table_edits`](Self::allow_table_edits)), [`StoreError::Io`] when a file
    /// cannot be removed, or as for [`forget`](Self::forget).
    pub fn remove(&self, key: &str) -> Result<(), StoreError> {
        let (inside, key) = (self.changed()?, absolute(key));
        let group = format!("{key}/");
        let below =
            self.members.0.range(group.clone()..).take_while(|(member, _)| member.starts_with(&group));
        let gone: Vec<_> = self.members.0.get_key_value(&key).into_iter().chain(below).collect();
        if gone.is_empty() {
            return Err(StoreError::NoSuchKey(key));
        }
        self.check_table(&key)?;
        // Including file members: the list may have an older member with the same key.
        self.forget(&gone.iter().map(|(member, _)| (*member).clone()).collect::<Vec<_>>())?;
        let mut paths = Vec::new();
        for (_, found) in gone {
            let MemberLocation::Path(path) = &found.place else { continue };
            // Files with the same key and another suffix would reappear.
            let others = names::suffixes().map(|suffix| path.with_extension(suffix));
            paths.extend(others.filter(|other| other != path && inside.kind(other, Links::Refuse).is_ok()));
            paths.push(path.clone());
        }
        let folder = self.path_of(&key)?;
        if matches!(inside.kind(&folder, Links::Refuse), Ok(FileKind::Directory)) {
            paths.push(folder);
        }
        paths.iter().try_for_each(|path| inside.remove_all(path).map_err(StoreError::io(path)))?;
        self.announce()
    }

    /// Changes attributes of a group in one commit. The values are msgpack; the root is `""`.
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`] if an attribute to be removed does not exist, [`StoreError::Frame`] if the attributes
    /// cannot be read or written, or as for [`place_for`](Self::place_for).
    pub fn set_attributes(
        &self,
        group: &str,
        changed: &[(String, Vec<u8>)],
        removed: &[String],
        options: &ReadOptions,
    ) -> Result<(), StoreError> {
        let (inside, key) = (self.changed()?, self.attributes_key(group, options));
        let missing = |name: &String| StoreError::NoSuchKey(name.clone());
        if let Some(MemberLocation::Path(path)) = self.members.0.get(&key).map(|member| &member.place) {
            let mut editor = self.edit_options(self.options(options)).edit(path)?;
            for name in removed {
                editor.vlmeta().remove(name).then_some(()).ok_or_else(|| missing(name))?;
            }
            for (name, value) in changed {
                editor.vlmeta().set(name, value)?;
            }
            editor.commit()?;
            return Ok(());
        }
        // Move attributes in the frame with small members to a separate file.
        let mut all = Attributes::default();
        if let Some(frame) = self.attributes(group, options)? {
            for (name, _) in frame.vlmetalayers().iter() {
                all.set(name, frame.vlmetalayers().get(name)?.unwrap_or_default());
            }
        }
        for name in removed {
            all.remove(name.as_bytes()).then_some(()).ok_or_else(|| missing(name))?;
        }
        for (name, value) in changed {
            all.set(name.as_bytes(), value.clone());
        }
        let path = self.with_parent_dirs(self.path_of(&key)?, MemberKind::SuperChunk)?;
        let writer = FrameWriter::options().file_system(inside.clone()).create(path, empty_frame_params())?;
        write_attributes(writer, &all)?;
        self.forget(&[key])?;
        self.announce()
    }

    fn changed(&self) -> Result<&Arc<RootedDir>, StoreError> {
        let fixed = || StoreError::Unsupported("only stores in directories (.b2d) can be changed".to_owned());
        self.inside().ok_or_else(fixed)
    }

    /// Returns the path of a member or group without a suffix.
    fn path_of(&self, key: &str) -> Result<PathBuf, StoreError> {
        let parts = names::parts(key)?;
        Ok(parts.into_iter().fold(self.changed()?.path().to_owned(), |path, part| path.join(part)))
    }

    /// Creates the directories above a member, and returns its path with the suffix.
    fn with_parent_dirs(&self, mut path: PathBuf, kind: MemberKind) -> Result<PathBuf, StoreError> {
        if let Some(parent) = path.parent() {
            self.changed()?.create_dirs(parent).map_err(StoreError::io(parent))?;
        }
        path.as_mut_os_string().push(names::suffix(kind));
        Ok(path)
    }

    /// Returns the path for a new member or group, unless its key is taken.
    fn unused_path(&self, key: &str, overwrite: bool) -> Result<PathBuf, StoreError> {
        let (path, key) = (self.path_of(key)?, absolute(key));
        check_unused(
            &key,
            overwrite,
            |key| self.members.0.contains_key(key),
            |group| {
                self.members
                    .0
                    .range(group.to_owned()..)
                    .next()
                    .is_some_and(|(member, _)| member.starts_with(group))
            },
        )?;
        Ok(path)
    }
}

/// Checks that a key is free: it is not a group, and neither the key nor any prefix of it is a member.
pub(crate) fn check_unused(
    key: &str,
    overwrite: bool,
    is_member: impl Fn(&str) -> bool,
    is_group: impl Fn(&str) -> bool,
) -> Result<(), StoreError> {
    if last_part(key) == names::ATTRIBUTES {
        return Err(StoreError::Key(key.to_owned()));
    }
    if is_group(&format!("{key}/")) {
        return Err(StoreError::Exists(format!("{key}: a group of that name exists")));
    }
    let slashes = key.match_indices('/').map(|(at, _)| at).skip(1);
    let above = slashes.filter_map(|at| key.get(..at)).chain((!overwrite).then_some(key));
    match above.into_iter().find(|key| is_member(key)) {
        Some(key) => Err(StoreError::Exists(format!("{key}: a member of that name exists"))),
        None => Ok(()),
    }
}

/// Writes a copy of a frame to a new file, chunk by chunk.
fn copy_frame(frame: &SuperChunk, inside: &Arc<RootedDir>, path: &Path) -> Result<(), StoreError> {
    let mut params = FrameParams::like(frame.header()).plugins(frame.dparams().plugins.clone());
    for (name, value) in frame.metalayers().iter() {
        params = params.metalayer(name, value);
    }
    let mut writer = FrameWriter::options().file_system(inside.clone()).create(path, params)?;
    for (name, _) in frame.vlmetalayers().iter() {
        writer.set_vlmetalayer(name, &frame.vlmetalayers().get(name)?.unwrap_or_default())?;
    }
    let mut reader = ReadAhead::new(frame);
    for nchunk in 0..frame.nchunks() {
        let chunk = frame.chunk(nchunk);
        match chunk.entry()? {
            Entry::Special(kind) => {
                let nbytes = usize::try_from(chunk.nbytes()?).unwrap_or(usize::MAX);
                writer.append_special(kind, nbytes)?;
            }
            Entry::Stored(_) => {
                writer.append(reader.read(nchunk)?)?;
            }
        }
    }
    writer.finish()?;
    Ok(())
}

/// Attributes of a group in the order in which they were first set: names and encoded values.
#[derive(Default)]
pub(crate) struct Attributes(Vec<(Vec<u8>, Vec<u8>)>);

impl Attributes {
    pub(crate) fn set(&mut self, name: &[u8], value: Vec<u8>) {
        match self.0.iter_mut().find(|(there, _)| there == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_vec(), value)),
        }
    }

    /// Removes an attribute. Returns whether it existed.
    fn remove(&mut self, name: &[u8]) -> bool {
        let len = self.0.len();
        self.0.retain(|(there, _)| there != name);
        self.0.len() < len
    }
}

/// Parameters of a frame without data, for attributes.
pub(crate) fn empty_frame_params() -> FrameParams {
    FrameParams::new(1).chunksize(0)
}

/// Writes attributes to a new frame, and returns it if it is in memory.
pub(crate) fn write_attributes(
    mut writer: FrameWriter,
    attributes: &Attributes,
) -> Result<b2_frame::WrittenFrame, StoreError> {
    for (name, value) in &attributes.0 {
        writer.set_vlmetalayer(name, value)?;
    }
    Ok(writer.finish()?)
}
