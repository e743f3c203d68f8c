//! The operating system's file system, through `std::fs`.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
#[cfg(target_os = "linux")]
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::names::device;
#[cfg(unix)]
use crate::storage::attributes;
#[cfg(any(unix, windows))]
use crate::storage::traits::FileId;
use crate::storage::traits::{FileKind, FileSystem, Links, ReadAt, ReadFiles, WriteAt};
#[cfg(windows)]
use crate::storage::windows;

/// The file system of the operating system.
///
/// It opens only regular files and never blocks on others: a path is checked before it is opened,
/// and the open file again, in case the path was replaced in between.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl ReadFiles for Disk {
    fn open(&self, path: &Path, links: Links) -> io::Result<Arc<dyn ReadAt>> {
        open(path, links, OpenOptions::new().read(true)).map(|(file, _)| Arc::new(file) as _)
    }

    fn open_with_len(&self, path: &Path, links: Links) -> io::Result<(Arc<dyn ReadAt>, u64)> {
        open(path, links, OpenOptions::new().read(true)).map(|(file, len)| (Arc::new(file) as _, len))
    }

    fn kind(&self, path: &Path, links: Links) -> io::Result<FileKind> {
        stat(path, links).map(|metadata| kind_of(&metadata))
    }

    #[cfg(unix)]
    fn identity(&self, path: &Path, links: Links) -> io::Result<Option<FileId>> {
        let metadata = stat(path, links)?;
        regular(&metadata)?;
        Ok(Some(identity_of(&metadata)))
    }

    #[cfg(windows)]
    fn identity(&self, path: &Path, links: Links) -> io::Result<Option<FileId>> {
        self.open(path, links)?.identity()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        open(path, Links::Refuse, OpenOptions::new().read(true))?.0.is_locked()
    }

    fn is_local(&self) -> bool {
        true
    }

    fn writable(self: Arc<Self>) -> Option<Arc<dyn FileSystem>> {
        Some(self)
    }
}

impl FileSystem for Disk {
    fn open_write(&self, path: &Path, links: Links) -> io::Result<Arc<dyn WriteAt>> {
        open(path, links, OpenOptions::new().read(true).write(true)).map(|(file, _)| Arc::new(file) as _)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn WriteAt>> {
        refuse_device(path)?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Arc::new(DiskFile::new(file)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        refuse_device(path)?;
        fs::create_dir(path)
    }

    #[cfg(not(windows))]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    #[cfg(windows)]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        refuse_device(to)?;
        windows::rename(from, to)
    }

    #[cfg(windows)]
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        refuse_device(to)?;
        windows::rename_new(from, to)
    }

    #[cfg(not(windows))]
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        // In one step if the system supports it: a process that is killed between two steps would leave a file with
        // two names.
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(io::Error::from) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
                // Not every file system supports this. Other errors recur below.
                Err(_) => {}
            }
        }
        // A hard link is the only portable way to take a name that must not exist. Without hard
        // links, a check leaves a short race.
        match fs::hard_link(from, to) {
            Ok(()) => match fs::remove_file(from) {
                // An editor that opened the new name has already removed the old one.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed.inspect_err(|_| {
                    // All or nothing. If this fails too, the file exists under both names.
                    let _ = fs::remove_file(to);
                }),
            },
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(_) => match fs::symlink_metadata(to) {
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(_) => fs::rename(from, to),
            },
        }
    }

    #[cfg(target_os = "linux")]
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // On other systems directories cannot be opened as files, and renames need no sync.
        if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn copy_attributes(&self, from: &Path, to: &Path) -> io::Result<()> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            // A new file of this process, or a directory.
            let to =
                OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(to)?;
            attributes::copy(from, &to)
        }
        #[cfg(not(unix))]
        fs::set_permissions(to, fs::metadata(from)?.permissions())
    }
}

/// Refuses to create a file that Windows treats as a device: the data would go there, or the file could not get its
/// name in the end. Other systems have no such names.
///
/// # Errors
/// [`io::ErrorKind::InvalidFilename`], on Windows only.
#[doc(hidden)]
pub fn refuse_device(path: &Path) -> io::Result<()> {
    match path.file_name().and_then(OsStr::to_str).and_then(device) {
        Some(device) if cfg!(windows) => {
            let what = format!("{device} is the name of a device on Windows, also with a suffix");
            Err(io::Error::new(io::ErrorKind::InvalidFilename, what))
        }
        _ => Ok(()),
    }
}

fn stat(path: &Path, links: Links) -> io::Result<fs::Metadata> {
    match links {
        Links::Follow => fs::metadata(path),
        Links::Refuse => fs::symlink_metadata(path),
    }
}

fn kind_of(metadata: &fs::Metadata) -> FileKind {
    let kind = metadata.file_type();
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Directory
    } else if kind.is_symlink() {
        FileKind::Link
    } else {
        FileKind::Other
    }
}

#[cfg(feature = "mmap")]
impl Disk {
    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, path: &Path, links: Links) -> io::Result<DiskFile> {
        Ok(open(path, links, OpenOptions::new().read(true))?.0)
    }
}

#[cfg(feature = "mmap")]
impl DiskFile {
    pub(crate) fn as_file(&self) -> &File {
        &self.file
    }
}

fn open(path: &Path, links: Links, options: &mut OpenOptions) -> io::Result<(DiskFile, u64)> {
    // Check before opening, since opening a device can have side effects.
    regular(&stat(path, links)?)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // If the path has become a FIFO in the meantime, opening it must not block.
        let refuse = if links == Links::Refuse { libc::O_NOFOLLOW } else { 0 };
        options.custom_flags(libc::O_NONBLOCK | refuse);
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    regular(&metadata)?;
    // Windows can refuse links only by opening them, which would not open the content of files that a cloud holds.
    if cfg!(windows) && links == Links::Refuse {
        regular(&fs::symlink_metadata(path)?)?;
    }
    let file = DiskFile::new(file);
    #[cfg(unix)]
    let _ = file.identity.set(identity_of(&metadata));
    Ok((file, metadata.len()))
}

#[cfg(unix)]
fn identity_of(metadata: &fs::Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt;
    FileId::new(metadata.dev(), metadata.ino().into())
}

pub(crate) fn regular(metadata: &fs::Metadata) -> io::Result<()> {
    match kind_of(metadata) {
        FileKind::File => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// An open regular file.
pub(crate) struct DiskFile {
    file: File,
    /// Asked for when the file is opened: Wine forgets the volume of a file that is renamed later.
    #[cfg(windows)]
    identity: Option<FileId>,
    /// An open file remains the same file.
    #[cfg(unix)]
    identity: std::sync::OnceLock<FileId>,
}

impl DiskFile {
    pub(crate) fn new(file: File) -> Self {
        Self {
            #[cfg(windows)]
            identity: windows::identity(&file).ok().map(|(id, _)| id),
            #[cfg(unix)]
            identity: std::sync::OnceLock::new(),
            file,
        }
    }

    /// Returns whether there is an exclusive lock on the file.
    #[cfg(windows)]
    pub(crate) fn is_locked(&self) -> io::Result<bool> {
        windows::is_locked(&self.file)
    }

    /// Returns whether there is an exclusive lock on the file.
    #[cfg(not(windows))]
    pub(crate) fn is_locked(&self) -> io::Result<bool> {
        // A shared lock, so that processes that check do not block each other.
        match self.file.try_lock_shared() {
            Ok(()) => self.file.unlock().map(|()| false),
            Err(fs::TryLockError::WouldBlock) => Ok(true),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// A file as it was opened, whatever its path names later. Its identity is not known, so nothing can notice that another file
/// has its name.
impl ReadAt for File {
    fn len(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    #[cfg(unix)]
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buf, offset)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, mut offset: u64, mut buf: &mut [u8]) -> io::Result<()> {
        while !buf.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(self, buf, offset) {
                Ok(0) => return Err(crate::storage::traits::eof()),
                Ok(n) => {
                    offset += n as u64;
                    buf = buf.get_mut(n..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    #[cfg(not(any(unix, windows)))]
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        use std::io::{Read, Seek, SeekFrom};
        let _cursor = cursor();
        let mut file = self;
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(buf)
    }
}

/// Locks the cursors of all files: platforms without positioned I/O have one per file, which all threads share.
#[cfg(not(any(unix, windows)))]
fn cursor() -> std::sync::MutexGuard<'static, ()> {
    static CURSOR: std::sync::Mutex<()> = std::sync::Mutex::new(());
    CURSOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl ReadAt for DiskFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        ReadAt::read_exact_at(&self.file, offset, buf)
    }

    #[cfg(unix)]
    fn identity(&self) -> io::Result<Option<FileId>> {
        if let Some(known) = self.identity.get() {
            return Ok(Some(*known));
        }
        let identity = identity_of(&self.file.metadata()?);
        Ok(Some(*self.identity.get_or_init(|| identity)))
    }

    #[cfg(windows)]
    fn identity(&self) -> io::Result<Option<FileId>> {
        match self.identity {
            None => windows::identity(&self.file).map(|(id, _)| Some(id)),
            known => Ok(known),
        }
    }
}

impl WriteAt for DiskFile {
    #[cfg(unix)]
    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.file, data, offset)
    }

    #[cfg(windows)]
    fn write_all_at(&self, mut offset: u64, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            match std::os::windows::fs::FileExt::seek_write(&self.file, data, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    offset += n as u64;
                    data = data.get(n..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    #[cfg(not(any(unix, windows)))]
    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        use std::io::{Seek, SeekFrom, Write};
        let _cursor = cursor();
        (&self.file).seek(SeekFrom::Start(offset))?;
        (&self.file).write_all(data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, range: Range<u64>) {
        use rustix::fs::{FallocateFlags, fallocate};
        // File systems that cannot do this allocate space when bytes are written.
        let len = range.end.saturating_sub(range.start);
        let _ = fallocate(&self.file, FallocateFlags::KEEP_SIZE, range.start, len);
    }

    #[cfg(target_os = "linux")]
    fn start_sync(&self, range: Range<u64>) {
        crate::storage::writeback::start(&self.file, range);
    }

    #[cfg(unix)]
    fn hard_links(&self) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        self.file.metadata().map(|metadata| metadata.nlink())
    }

    #[cfg(windows)]
    fn hard_links(&self) -> io::Result<u64> {
        windows::identity(&self.file).map(|(_, links)| links)
    }

    #[cfg(windows)]
    fn lock(&self) -> io::Result<()> {
        windows::lock(&self.file)
    }

    #[cfg(windows)]
    fn unlock(&self) -> io::Result<()> {
        windows::unlock(&self.file)
    }

    #[cfg(not(windows))]
    fn lock(&self) -> io::Result<()> {
        loop {
            match self.file.lock() {
                // Interrupted by a signal handler. The standard library retries other calls in the same way.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                locked => return locked,
            }
        }
    }

    #[cfg(not(windows))]
    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}
