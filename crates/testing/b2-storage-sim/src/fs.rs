use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use b2_frame::{FileId, FileKind, FileSystem, Links, ReadAt, ReadFiles, WriteAt};
use bytes::Bytes;

use crate::fault::{Call, Fault, Trouble};
use crate::image::{Image, ROOT};
use crate::log::Log;
use crate::op::{NodeId, Op};

/// A file system in memory that records all calls that change it. Clones share it.
#[derive(Clone, Default)]
pub struct SimFs(Arc<SharedFs>);

#[derive(Default)]
struct SharedFs {
    state: Mutex<FsState>,
    unlocked: Condvar,
}

#[derive(Default)]
struct FsState {
    start: Image,
    image: Image,
    ops: Vec<Op>,
    fault: Option<Fault>,
    hit: Option<String>,
    /// The handle that holds the lock of a file.
    locks: BTreeMap<NodeId, u64>,
    handles: u64,
}

impl SimFs {
    /// Creates an empty file system.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a file system with the contents of a disk, without open files or locks.
    pub fn from_image(image: &Image) -> Self {
        Self::after(image.clone(), image.clone(), Vec::new())
    }

    /// Creates the file system that remains after a process was killed: with everything that the
    /// process saw after `at` calls, synced or not. The log continues.
    pub fn resume(log: &Log, at: usize) -> Self {
        Self::after(log.image(0).clone(), log.image(at).clone(), log.ops()[..at].to_vec())
    }

    fn after(start: Image, image: Image, ops: Vec<Op>) -> Self {
        let inner = FsState { start, image, ops, ..FsState::default() };
        Self(Arc::new(SharedFs { state: Mutex::new(inner), unlocked: Condvar::new() }))
    }

    /// Creates a file and its parent directories before the test begins. This is not recorded.
    pub fn write(&self, path: &Path, contents: &[u8]) {
        let mut inner = self.inner();
        let image = &mut inner.image;
        let parents = path.ancestors().skip(1).map(|dir| (dir, true));
        for (path, directory) in Vec::from_iter([(path, false)].into_iter().chain(parents)).into_iter().rev()
        {
            if image.lookup(path).is_err() {
                let op = create(image, path, directory).expect("it can be made");
                image.apply(&op);
            }
        }
        let node = image.lookup(path).expect("it was made");
        image.apply(&Op::SetLen { node, len: 0 });
        image.apply(&Op::Write { node, offset: 0, data: Bytes::copy_from_slice(contents) });
    }

    /// Declares everything on the disk as synced, and begins a new log.
    pub fn restart(&self) {
        let mut inner = self.inner();
        inner.start = inner.image.clone();
        inner.ops.clear();
    }

    /// Records that the program under test has made a promise, such as a returned commit.
    pub fn mark(&self, mark: u64) {
        self.inner().ops.push(Op::Mark(mark));
    }

    /// Returns the log since the last restart.
    pub fn log(&self) -> Log {
        let inner = self.inner();
        Log::new(&inner.start, &inner.ops)
    }

    /// Returns the contents that the process sees.
    pub fn image(&self) -> Image {
        self.inner().image.clone()
    }

    /// Sets the fault to inject, or none.
    pub fn fail(&self, fault: Option<Fault>) {
        let mut inner = self.inner();
        inner.fault = fault;
        inner.hit = None;
    }

    /// Returns the first call that was made to fail since [`SimFs::fail`].
    pub fn failed(&self) -> Option<String> {
        self.inner().hit.clone()
    }

    fn inner(&self) -> MutexGuard<'_, FsState> {
        // If a thread of a test panics, that panic should be reported, not the poisoned lock.
        self.0.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn call(&self, call: Call, path: &Path) -> io::Result<MutexGuard<'_, FsState>> {
        let mut inner = self.inner();
        inner.call(call, || path.display().to_string())?;
        Ok(inner)
    }

    fn handle(&self, inner: &mut FsState, node: NodeId) -> Arc<SimFile> {
        inner.handles += 1;
        Arc::new(SimFile { fs: self.clone(), node, handle: inner.handles })
    }

    fn open_node(&self, call: Call, path: &Path) -> io::Result<Arc<SimFile>> {
        let mut inner = self.call(call, path)?;
        let node = inner.image.lookup(path)?;
        if inner.image.is_directory(node) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(self.handle(&mut inner, node))
    }
}

impl FsState {
    fn call(&mut self, call: Call, what: impl FnOnce() -> String) -> io::Result<()> {
        match self.trouble(call, what) {
            Some(trouble) => Err(trouble.error()),
            None => Ok(()),
        }
    }

    /// Returns how a call must fail, if it must.
    fn trouble(&mut self, call: Call, what: impl FnOnce() -> String) -> Option<Trouble> {
        let fault = self.fault.as_mut().filter(|fault| fault.calls.contain(call))?;
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        let trouble = fault.trouble;
        match (fault.lasting, trouble) {
            (false, _) => self.fault = None,
            (true, Trouble::Short) => fault.trouble = Trouble::Full,
            (true, _) => {}
        }
        self.hit.get_or_insert_with(|| format!("{call:?} {}", what()));
        Some(trouble)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.image.place(path)?;
        self.run(Op::Remove { dir, name: name.to_owned() });
        Ok(())
    }

    fn run(&mut self, op: Op) {
        self.image.apply(&op);
        self.ops.push(op);
    }
}

fn create(image: &Image, path: &Path, directory: bool) -> io::Result<Op> {
    let (dir, name) = image.place(path)?;
    if image.names(dir)?.contains_key(name) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let (name, node) = (name.to_owned(), image.free_id());
    Ok(Op::Create { dir, name, node, directory })
}

impl ReadFiles for SimFs {
    fn open(&self, path: &Path, _: Links) -> io::Result<Arc<dyn ReadAt>> {
        Ok(self.open_node(Call::Open, path)?)
    }

    fn kind(&self, path: &Path, _: Links) -> io::Result<FileKind> {
        let inner = self.call(Call::Kind, path)?;
        let node = inner.image.lookup(path)?;
        Ok(if inner.image.is_directory(node) { FileKind::Directory } else { FileKind::File })
    }

    fn identity(&self, path: &Path, _: Links) -> io::Result<Option<FileId>> {
        let inner = self.call(Call::Identity, path)?;
        let inode = inner.image.lookup(path)?;
        inner.image.file(inode)?;
        Ok(Some(FileId::new(1, inode.into())))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let inner = self.call(Call::List, dir)?;
        inner.image.list(dir)
    }

    fn writable(self: Arc<Self>) -> Option<Arc<dyn FileSystem>> {
        Some(self)
    }
}

impl FileSystem for SimFs {
    fn open_write(&self, path: &Path, _: Links) -> io::Result<Arc<dyn WriteAt>> {
        Ok(self.open_node(Call::OpenWrite, path)?)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn WriteAt>> {
        let mut inner = self.call(Call::Create, path)?;
        let op = create(&inner.image, path, false)?;
        inner.run(op);
        let node = inner.image.lookup(path)?;
        Ok(self.handle(&mut inner, node))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.call(Call::CreateDirectory, path)?;
        let op = create(&inner.image, path, true)?;
        inner.run(op);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut inner = self.call(Call::Rename, from)?;
        let node = inner.image.lookup(from)?;
        let ((from_dir, from), (to_dir, to)) = (inner.image.place(from)?, inner.image.place(to)?);
        if let Some(there) = inner.image.names(to_dir)?.get(to).copied() {
            match (inner.image.is_directory(node), inner.image.is_directory(there)) {
                _ if node == there => return Ok(()),
                (true, false) => return Err(io::ErrorKind::NotADirectory.into()),
                (false, true) => return Err(io::ErrorKind::IsADirectory.into()),
                (true, true) if !inner.image.names(there)?.is_empty() => {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                _ => {}
            }
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        inner.run(Op::Rename { from_dir, from, to_dir, to, node });
        Ok(())
    }

    /// Implemented as a hard link and the removal of the old name, between which a crash may
    /// happen.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut inner = self.call(Call::Rename, from)?;
        let node = inner.image.lookup(from)?;
        let ((from_dir, from), (dir, to)) = (inner.image.place(from)?, inner.image.place(to)?);
        if inner.image.names(dir)?.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        if inner.image.is_directory(node) {
            inner.run(Op::Rename { from_dir, from, to_dir: dir, to, node });
        } else {
            inner.run(Op::Link { dir, name: to, node });
            inner.run(Op::Remove { dir: from_dir, name: from });
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.call(Call::Remove, path)?;
        if inner.image.is_directory(inner.image.lookup(path)?) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        inner.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.call(Call::Remove, path)?;
        let node = inner.image.lookup(path)?;
        if !inner.image.names(node)?.is_empty() || node == ROOT {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut inner = self.call(Call::SyncDirectory, dir)?;
        let dir = inner.image.lookup(dir)?;
        inner.image.names(dir)?;
        inner.run(Op::SyncDirectory { dir });
        Ok(())
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let inner = self.call(Call::Resolve, path)?;
        inner.image.lookup(path)?;
        Ok(path.to_owned())
    }

    fn copy_attributes(&self, from: &Path, to: &Path) -> io::Result<()> {
        let inner = self.call(Call::CopyAttributes, to)?;
        inner.image.lookup(from)?;
        inner.image.lookup(to)?;
        Ok(())
    }
}

impl fmt::Debug for SimFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFs").field("calls", &self.inner().ops.len()).finish_non_exhaustive()
    }
}

/// An open file. It remains the same file when another one takes its name.
struct SimFile {
    fs: SimFs,
    node: NodeId,
    handle: u64,
}

impl SimFile {
    fn call(&self, call: Call) -> io::Result<MutexGuard<'_, FsState>> {
        let mut inner = self.fs.inner();
        inner.call(call, || format!("file {}", self.node))?;
        Ok(inner)
    }
}

impl ReadAt for SimFile {
    fn len(&self) -> io::Result<u64> {
        let inner = self.call(Call::Len)?;
        Ok(inner.image.file(self.node)?.len() as u64)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let inner = self.call(Call::Read)?;
        let rest = usize::try_from(offset).ok().and_then(|at| inner.image.file(self.node).ok()?.get(at..));
        let part = rest.and_then(|rest| rest.get(..buf.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(part);
        Ok(())
    }

    fn identity(&self) -> io::Result<Option<FileId>> {
        drop(self.call(Call::Identity)?);
        Ok(Some(FileId::new(1, self.node.into())))
    }
}

impl WriteAt for SimFile {
    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.fs.inner();
        let what = || format!("file {} at {offset}, {} bytes", self.node, data.len());
        let trouble = inner.trouble(Call::Write, what);
        let written = match trouble {
            None => data,
            Some(Trouble::Short) => &data[..data.len() / 2],
            Some(_) => &[],
        };
        if !written.is_empty() {
            inner.run(Op::Write { node: self.node, offset, data: Bytes::copy_from_slice(written) });
        }
        trouble.map_or(Ok(()), |trouble| Err(trouble.error()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut inner = self.call(Call::SetLen)?;
        inner.run(Op::SetLen { node: self.node, len });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.fs.inner();
        let node = self.node;
        let failed = inner.call(Call::Sync, || format!("file {node}"));
        inner.run(if failed.is_ok() { Op::Sync { node } } else { Op::SyncFailed { node } });
        failed
    }

    fn hard_links(&self) -> io::Result<u64> {
        let inner = self.call(Call::Identity)?;
        Ok(inner.image.links(self.node))
    }

    fn lock(&self) -> io::Result<()> {
        // Long enough for any test, and short enough to report a deadlock.
        const DEADLOCK_TIMEOUT: Duration = Duration::from_secs(120);
        let mut inner = self.call(Call::Lock)?;
        let blocked = |inner: &FsState| inner.locks.get(&self.node).is_some_and(|held| *held != self.handle);
        while blocked(&inner) {
            let waited = self.fs.0.unlocked.wait_timeout(inner, DEADLOCK_TIMEOUT);
            let (guard, timeout) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
            assert!(!timeout.timed_out(), "a lock was waited for too long: a deadlock?");
            inner = guard;
        }
        inner.locks.insert(self.node, self.handle);
        inner.run(Op::Lock { node: self.node });
        Ok(())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut inner = self.fs.inner();
        if inner.locks.get(&self.node) == Some(&self.handle) {
            inner.locks.remove(&self.node);
            drop(inner);
            self.fs.0.unlocked.notify_all();
        }
    }
}
