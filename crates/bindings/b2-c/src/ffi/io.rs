//! Files through functions of the program, or mapped into memory: a file system for the engine whose files are streams of
//! `blosc2_io_cb`.
//!
//! These functions cannot create a file under another name and rename it. New and rewritten frames are therefore built
//! in memory and then written in one go, which a crash can interrupt. Changes of an existing frame go to the file
//! itself, in an order that keeps the old frame readable.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, c_int, c_void};
use std::fmt;
use std::io::{Error as IoError, ErrorKind, Result as IoResult};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use b2_frame::{Disk, FileKind, FileSystem, Links, ReadAt, ReadFiles, WriteAt};

use crate::abi::{blosc2_io, blosc2_io_cb, blosc2_stdio_params, code};
use crate::core::error::{Error, Result, ensure};
use crate::core::frame::Files;
use crate::ffi::{copy_at, guard, locked, stdio, text};

/// `BLOSC2_IO_DEFAULTS`: files of the system.
pub(crate) const DEFAULT: blosc2_io =
    blosc2_io { id: 0, name: c"filesystem".as_ptr(), params: std::ptr::null_mut() };

/// I/O functions and their user data.
#[derive(Clone, Copy)]
struct IoFunctions {
    io: blosc2_io_cb,
    params: *mut c_void,
}

// SAFETY: registered functions may be called from several threads, as in C.
unsafe impl Send for IoFunctions {}
// SAFETY: as above.
unsafe impl Sync for IoFunctions {}

struct RegisteredIo(Box<blosc2_io_cb>);
// SAFETY: as above; it is only read.
unsafe impl Send for RegisteredIo {}
// SAFETY: as above.
unsafe impl Sync for RegisteredIo {}

static REGISTERED: RwLock<Vec<RegisteredIo>> = RwLock::new(Vec::new());

/// Registers functions for files, with an id of at least 160.
///
/// # Safety
/// `io` is null or valid, and its functions and name live forever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_register_io_cb(io: *const blosc2_io_cb) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let io = unsafe { copy_at(io) }?;
        ensure(io.id >= 160, code::PLUGIN_IO)?;
        let all =
            [io.open.is_some(), io.close.is_some(), io.size.is_some(), io.write.is_some(), io.read.is_some()];
        ensure(all == [true; 5] && io.truncate.is_some() && io.destroy.is_some(), code::PLUGIN_IO)?;
        let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = registered.iter().find(|other| other.0.id == io.id) else {
            registered.push(RegisteredIo(Box::new(io)));
            return Ok(0);
        };
        // As in C, registering the same name again is not an error.
        let names = (known.0.name, io.name);
        // SAFETY: guaranteed by the caller, now and for the earlier registration.
        let same = names.0 == names.1 || unsafe { text(names.0)? == text(names.1)? };
        ensure(same, code::PLUGIN_IO)?;
        Ok(0)
    })
}

/// Returns registered functions, or null.
#[unsafe(no_mangle)]
pub extern "C" fn blosc2_get_io_cb(id: u8) -> *mut blosc2_io_cb {
    guard(|| match id {
        0 => Ok(stdio::FUNCTIONS.get()),
        1 => Ok(stdio::MMAP_FUNCTIONS.get()),
        _ => {
            let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
            let found = registered.iter().find(|registered| registered.0.id == id);
            // Boxed and never removed, so the address is stable.
            found.map(|found| std::ptr::from_ref(&*found.0).cast_mut()).ok_or(Error(code::PLUGIN_IO))
        }
    })
}

/// Returns whether files may be other than system files.
pub(crate) fn is_custom(io: &blosc2_io) -> bool {
    io.id > 1
}

/// Returns how to access files, and whether changes take the lock.
///
/// With `creating`, a file unknown to the system does not exist, and the functions are not called to open it.
pub(crate) fn files(io: &blosc2_io, creating: bool) -> Result<(Files, bool)> {
    let variable = std::env::var("BLOSC_LOCKING").ok().filter(|value| !matches!(&value[..], "" | "0"));
    if io.id == 0 {
        // SAFETY: parameters of system files have this type.
        let params = unsafe { io.params.cast::<blosc2_stdio_params>().as_ref() };
        return Ok((Files::Disk, params.is_some_and(|params| params.locking) || variable.is_some()));
    }
    let functions = blosc2_get_io_cb(io.id);
    // SAFETY: registered functions stay valid.
    let functions = unsafe { copy_at(functions) }.map_err(|_| Error(code::PLUGIN_IO))?;
    let functions = IoFunctions { io: functions, params: io.params };
    let (new, streams, made) = (Mutex::default(), Mutex::default(), Mutex::default());
    let program = ProgramFiles { functions, creating, new, streams, made };
    Ok((Files::Program(Arc::new(program)), false))
}

/// Calls the destroy function of the parameters. Returns whether it succeeded.
///
/// # Safety
/// `io` is null or valid.
pub(crate) unsafe fn destroy(io: *const blosc2_io) -> bool {
    // SAFETY: guaranteed by the caller.
    let Some(io) = (unsafe { io.as_ref() }) else { return true };
    if io.id == 0 {
        return true;
    }
    // SAFETY: registered functions stay valid.
    let functions = unsafe { blosc2_get_io_cb(io.id).as_ref() };
    match functions.and_then(|functions| functions.destroy) {
        // SAFETY: the program registered the function for these parameters.
        Some(destroy) => unsafe { destroy(io.params) >= 0 },
        None => true,
    }
}

/// Files accessed through functions of the program.
struct ProgramFiles {
    functions: IoFunctions,
    creating: bool,
    /// New files, in memory until they are renamed.
    new: Mutex<HashMap<PathBuf, Arc<NewFile>>>,
    /// The open stream of each file.
    streams: Mutex<HashMap<PathBuf, std::sync::Weak<ProgramStream>>>,
    /// The files that were created.
    made: Mutex<HashSet<PathBuf>>,
}

impl fmt::Debug for ProgramFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Program").field(&self.functions.io.id).finish()
    }
}

fn failed(what: &'static str) -> IoError {
    IoError::other(what)
}

impl IoFunctions {
    /// Opens a file.
    fn stream(self, path: &Path, mode: &CStr) -> IoResult<ProgramStream> {
        let name =
            CString::new(path.as_os_str().as_bytes()).map_err(|_| IoError::from(ErrorKind::InvalidInput))?;
        let open = self.io.open.ok_or_else(|| failed("no function to open"))?;
        // SAFETY: the program registered the function for this.
        let stream = unsafe { open(name.as_ptr(), mode.as_ptr(), self.params) };
        if stream.is_null() {
            return Err(ErrorKind::NotFound.into());
        }
        Ok(ProgramStream { functions: self, stream: Mutex::new(StreamHandle(stream)) })
    }
}

impl ProgramFiles {
    /// Opens a file; concurrent users share it.
    fn shared(&self, path: &Path, mode: &CStr) -> IoResult<Arc<ProgramStream>> {
        let mut streams = locked(&self.streams);
        let key = path.join(mode.to_str().unwrap_or_default());
        if let Some(stream) = streams.get(&key).and_then(std::sync::Weak::upgrade) {
            return Ok(stream);
        }
        let stream = Arc::new(self.functions.stream(path, mode)?);
        streams.insert(key, Arc::downgrade(&stream));
        Ok(stream)
    }
}

#[derive(Clone, Copy)]
struct StreamHandle(*mut c_void);
// SAFETY: as for `IoFunctions`.
unsafe impl Send for StreamHandle {}

/// An open file. Calls are serialized, since streams have positions.
struct ProgramStream {
    functions: IoFunctions,
    stream: Mutex<StreamHandle>,
}

impl Drop for ProgramStream {
    fn drop(&mut self) {
        if let Some(close) = self.functions.io.close {
            // SAFETY: the stream is open, and this is its only owner.
            unsafe { close(locked(&self.stream).0) };
        }
    }
}

impl ReadAt for ProgramStream {
    fn len(&self) -> IoResult<u64> {
        let size = self.functions.io.size.ok_or_else(|| failed("no function for the size"))?;
        // SAFETY: the stream is open.
        let len = unsafe { size(locked(&self.stream).0) };
        u64::try_from(len).map_err(|_| failed("the size is not known"))
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> IoResult<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let read = self.functions.io.read.ok_or_else(|| failed("no function for reading"))?;
        let handle = locked(&self.stream);
        let own = buf.as_mut_ptr().cast::<c_void>();
        let mut place = own;
        let offset = i64::try_from(offset).map_err(|_| IoError::from(ErrorKind::UnexpectedEof))?;
        // SAFETY: the stream is open. The function fills the buffer, or returns the address of the bytes instead.
        let got = unsafe { read(&mut place, 1, buf.len() as i64, offset, handle.0) };
        if got != buf.len() as i64 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if place != own {
            if place.is_null() {
                return Err(failed("the function for reading returned no bytes"));
            }
            // SAFETY: the function returned this many bytes, which stay valid until the next call.
            buf.copy_from_slice(unsafe { std::slice::from_raw_parts(place.cast(), buf.len()) });
        }
        Ok(())
    }
}

impl WriteAt for ProgramStream {
    fn write_all_at(&self, offset: u64, data: &[u8]) -> IoResult<()> {
        if data.is_empty() {
            return Ok(());
        }
        let write = self.functions.io.write.ok_or_else(|| failed("no function for writing"))?;
        let handle = locked(&self.stream);
        let offset = i64::try_from(offset).map_err(|_| IoError::from(ErrorKind::InvalidInput))?;
        // SAFETY: the stream is open, the buffer has these bytes.
        let written = unsafe { write(data.as_ptr().cast(), 1, data.len() as i64, offset, handle.0) };
        if written == data.len() as i64 { Ok(()) } else { Err(ErrorKind::WriteZero.into()) }
    }

    fn set_len(&self, len: u64) -> IoResult<()> {
        let truncate = self.functions.io.truncate.ok_or_else(|| failed("no function to truncate"))?;
        // SAFETY: the stream is open.
        let result = unsafe { truncate(locked(&self.stream).0, len as i64) };
        if result == 0 { Ok(()) } else { Err(failed("truncating failed")) }
    }

    fn sync(&self) -> IoResult<()> {
        Ok(())
    }

    fn lock(&self) -> IoResult<()> {
        Ok(())
    }
}

/// A new file: in memory until it is renamed, then the file of that name.
#[derive(Default)]
struct NewFile(Mutex<NewFileContent>);

enum NewFileContent {
    Memory(Vec<u8>),
    /// Written to the file of this name, which is opened only if it is used again.
    Named(IoFunctions, PathBuf),
    Opened(ProgramStream),
}

impl Default for NewFileContent {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

impl NewFile {
    /// Runs one of two functions: with the bytes in memory, or with the file.
    fn with<T>(
        &self,
        memory: impl FnOnce(&mut Vec<u8>) -> IoResult<T>,
        file: impl FnOnce(&ProgramStream) -> IoResult<T>,
    ) -> IoResult<T> {
        let mut content = locked(&self.0);
        if let NewFileContent::Named(functions, path) = &*content {
            *content = NewFileContent::Opened(functions.stream(path, c"rb+")?);
        }
        match &mut *content {
            NewFileContent::Memory(bytes) => memory(bytes),
            NewFileContent::Named(..) => Err(failed("the file is not open")),
            NewFileContent::Opened(stream) => file(stream),
        }
    }

    /// Writes the file under its name.
    fn put(&self, functions: IoFunctions, path: &Path) -> IoResult<()> {
        let mut content = locked(&self.0);
        let NewFileContent::Memory(bytes) = &*content else {
            return Err(failed("the file already has a name"));
        };
        let stream = functions.stream(path, c"wb")?;
        stream.write_all_at(0, bytes)?;
        if stream.len()? > bytes.len() as u64 {
            stream.set_len(bytes.len() as u64)?;
        }
        *content = NewFileContent::Named(functions, path.to_owned());
        Ok(())
    }
}

impl ReadAt for NewFile {
    fn len(&self) -> IoResult<u64> {
        self.with(|bytes| Ok(bytes.len() as u64), |file| file.len())
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> IoResult<()> {
        // Only one of the two runs.
        let buf = std::cell::RefCell::new(buf);
        self.with(
            |bytes| {
                let mut buf = buf.borrow_mut();
                let from =
                    usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)?.get(..buf.len()));
                buf.copy_from_slice(from.ok_or(ErrorKind::UnexpectedEof)?);
                Ok(())
            },
            |file| file.read_exact_at(offset, &mut buf.borrow_mut()),
        )
    }
}

impl WriteAt for NewFile {
    fn write_all_at(&self, offset: u64, data: &[u8]) -> IoResult<()> {
        self.with(
            |bytes| {
                let start = usize::try_from(offset).map_err(|_| IoError::from(ErrorKind::OutOfMemory))?;
                let end = start.checked_add(data.len()).ok_or(ErrorKind::OutOfMemory)?;
                if end > bytes.len() {
                    let more = end - bytes.len();
                    bytes.try_reserve(more).map_err(|_| IoError::from(ErrorKind::OutOfMemory))?;
                    bytes.resize(end, 0);
                }
                bytes[start..end].copy_from_slice(data);
                Ok(())
            },
            |file| file.write_all_at(offset, data),
        )
    }

    fn set_len(&self, len: u64) -> IoResult<()> {
        self.with(
            |bytes| {
                let len = usize::try_from(len).map_err(|_| IoError::from(ErrorKind::OutOfMemory))?;
                bytes.resize(len, 0);
                Ok(())
            },
            |file| file.set_len(len),
        )
    }

    fn sync(&self) -> IoResult<()> {
        Ok(())
    }

    fn lock(&self) -> IoResult<()> {
        Ok(())
    }
}

impl ReadFiles for ProgramFiles {
    fn open(&self, path: &Path, _: Links) -> IoResult<Arc<dyn ReadAt>> {
        if let Some(new) = locked(&self.new).get(path) {
            return Ok(new.clone());
        }
        // Check that the file exists before calling the open function, which reports no reason for failure.
        Ok(self.shared(path, c"rb")?)
    }

    fn kind(&self, path: &Path, links: Links) -> IoResult<FileKind> {
        if locked(&self.new).contains_key(path) {
            return Ok(FileKind::File);
        }
        match Disk.kind(path, links) {
            Ok(kind) => Ok(kind),
            // Not a system path; its meaning is up to the functions.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if self.creating && !locked(&self.made).contains(path) {
                    return Err(error);
                }
                self.shared(path, c"rb").map(|_| FileKind::File)
            }
            Err(error) => Err(error),
        }
    }

    fn identity(&self, _: &Path, _: Links) -> IoResult<Option<b2_frame::FileId>> {
        Ok(None)
    }

    fn list(&self, dir: &Path) -> IoResult<Vec<std::ffi::OsString>> {
        Disk.list(dir)
    }

    fn writable(self: Arc<Self>) -> Option<Arc<dyn FileSystem>> {
        Some(self)
    }
}

impl FileSystem for ProgramFiles {
    fn open_write(&self, path: &Path, _: Links) -> IoResult<Arc<dyn WriteAt>> {
        if let Some(new) = locked(&self.new).get(path) {
            return Ok(new.clone());
        }
        Ok(self.shared(path, c"rb+")?)
    }

    fn create_new(&self, path: &Path) -> IoResult<Arc<dyn WriteAt>> {
        let new = Arc::<NewFile>::default();
        locked(&self.new).insert(path.to_owned(), new.clone());
        Ok(new)
    }

    fn create_dir(&self, path: &Path) -> IoResult<()> {
        Disk.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> IoResult<()> {
        let Some(new) = locked(&self.new).remove(from) else { return Disk.rename(from, to) };
        new.put(self.functions, to)?;
        // Older streams may have cached data. Their users keep them.
        locked(&self.streams).retain(|key, _| key.parent() != Some(to));
        locked(&self.made).insert(to.to_owned());
        Ok(())
    }

    fn rename_new(&self, from: &Path, to: &Path) -> IoResult<()> {
        self.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> IoResult<()> {
        match locked(&self.new).remove(path) {
            Some(_) => Ok(()),
            None => Disk.remove_file(path),
        }
    }

    fn remove_dir(&self, path: &Path) -> IoResult<()> {
        Disk.remove_dir(path)
    }

    fn sync_dir(&self, _: &Path) -> IoResult<()> {
        Ok(())
    }

    fn resolve(&self, path: &Path) -> IoResult<PathBuf> {
        Ok(path.to_owned())
    }

    fn copy_attributes(&self, _: &Path, _: &Path) -> IoResult<()> {
        Ok(())
    }
}
