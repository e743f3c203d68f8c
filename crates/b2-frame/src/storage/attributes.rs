//! Attributes that are preserved when a file is replaced: mode, owner, access control list and extended attributes.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Gives an open file the attributes of the one at `from`, which it is about to replace.
///
/// # Errors
/// Any error of setting the mode or the access control list. The owner and other attributes that this process is not
/// allowed to set are skipped.
pub(crate) fn copy(from: &Path, to: &File) -> io::Result<()> {
    copy_from(&fs::metadata(from)?, &extended::OfPath(from), to)
}

/// As [`copy`], from an open file.
pub(crate) fn copy_open(from: &File, to: &File) -> io::Result<()> {
    copy_from(&from.metadata()?, &extended::OfFile(from), to)
}

fn copy_from(metadata: &fs::Metadata, attributes: &dyn extended::Source, to: &File) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let own = to.metadata()?;
        if (own.uid(), own.gid()) != (metadata.uid(), metadata.gid()) {
            // Only root may change the owner; others set at least the group if they may.
            let _ = fchown(to, Some(metadata.uid()), Some(metadata.gid()))
                .or_else(|_| fchown(to, None, Some(metadata.gid())));
        }
    }
    // A list that a new file has from its directory would otherwise change with the mode.
    extended::clear(to)?;
    to.set_permissions(metadata.permissions())?;
    extended::copy(attributes, to)
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod extended {
    use std::ffi::CStr;
    use std::fs::File;
    use std::io;
    use std::path::Path;

    use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, getxattr, listxattr};
    use rustix::io::{Errno, Result};

    /// The longest list of names, and the longest value, that Linux allows.
    const MAX_ATTRIBUTES_LEN: usize = 64 << 10;
    /// The access control list.
    const ACL: &CStr = c"system.posix_acl_access";
    /// Attributes that describe the content, which is another one now.
    const OF_CONTENT: [&CStr; 3] = [c"security.capability", c"security.ima", c"security.evm"];

    /// A file whose attributes are read.
    pub(super) trait Source {
        fn list(&self, names: &mut [u8]) -> Result<usize>;
        fn get(&self, name: &CStr, value: &mut [u8]) -> Result<usize>;
    }

    pub(super) struct OfPath<'a>(pub(super) &'a Path);
    pub(super) struct OfFile<'a>(pub(super) &'a File);

    impl Source for OfPath<'_> {
        fn list(&self, names: &mut [u8]) -> Result<usize> {
            listxattr(self.0, names)
        }
        fn get(&self, name: &CStr, value: &mut [u8]) -> Result<usize> {
            getxattr(self.0, name, value)
        }
    }

    impl Source for OfFile<'_> {
        fn list(&self, names: &mut [u8]) -> Result<usize> {
            flistxattr(self.0, names)
        }
        fn get(&self, name: &CStr, value: &mut [u8]) -> Result<usize> {
            fgetxattr(self.0, name, value)
        }
    }

    /// Removes the access control list.
    pub(super) fn clear(to: &File) -> io::Result<()> {
        match fremovexattr(to, ACL) {
            // The attribute does not exist, or the file system does not support attributes.
            Ok(()) | Err(Errno::NOTSUP | Errno::INVAL) => Ok(()),
            Err(error) if is_missing(error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn copy(from: &dyn Source, to: &File) -> io::Result<()> {
        let room =
            || b2_core::memory::zeroed(MAX_ATTRIBUTES_LEN).map_err(crate::storage::traits::out_of_memory);
        let mut names = room()?;
        // Files without attributes visible to this process have none to copy.
        let len = from.list(&mut names).unwrap_or(0);
        if len == 0 {
            return Ok(());
        }
        let mut value = room()?;
        for name in names.get(..len).unwrap_or_default().split_inclusive(|byte| *byte == 0) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
            if OF_CONTENT.contains(&name) {
                continue;
            }
            let copied = from.get(name, &mut value).and_then(|len| {
                fsetxattr(to, name, value.get(..len).unwrap_or_default(), XattrFlags::empty())
            });
            match copied {
                // Without its list, the mode would mean other rights: those of the mask would be those of the group.
                Err(error) if name == ACL => return Err(error.into()),
                Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP) | Ok(()) => {}
                // Removed in the meantime.
                Err(error) if is_missing(error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    #[cfg(not(target_vendor = "apple"))]
    fn is_missing(error: Errno) -> bool {
        error == Errno::NODATA
    }

    #[cfg(target_vendor = "apple")]
    fn is_missing(error: Errno) -> bool {
        // ENOATTR, which other systems do not have.
        error.raw_os_error() == 93
    }
}

/// Systems without extended attributes.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
mod extended {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(super) trait Source {}
    pub(super) struct OfPath<'a>(pub(super) &'a Path);
    pub(super) struct OfFile<'a>(pub(super) &'a File);
    impl Source for OfPath<'_> {}
    impl Source for OfFile<'_> {}

    pub(super) fn clear(_: &File) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn copy(_: &dyn Source, _: &File) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{XattrFlags, getxattr, setxattr};

    use super::*;

    #[test]
    fn mode_list_and_attributes_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        fs::write(&old, "old").unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).unwrap();
        let attributes = setxattr(&old, "user.note", b"kept", XattrFlags::empty()).is_ok();
        // user::rw-, user:1234:rw-, group::r--, mask::rw-, other::---
        let entry = |tag: u16, rights: u16, id: u32| {
            [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let none = u32::MAX;
        let list = [
            2_u32.to_le_bytes().to_vec(),
            entry(1, 6, none),
            entry(2, 6, 1234),
            entry(4, 4, none),
            entry(0x10, 6, none),
            entry(0x20, 0, none),
        ]
        .concat();
        let lists = setxattr(&old, "system.posix_acl_access", &list, XattrFlags::empty()).is_ok();
        fs::write(&new, "new").unwrap();
        copy(&old, &File::open(&new).unwrap()).unwrap();
        let value = |path: &Path, name: &str| {
            let mut value = [0; 100];
            getxattr(path, name, &mut value[..]).map(|len| value[..len].to_vec())
        };
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&new), mode(&old));
        assert_eq!(fs::read(&new).unwrap(), b"new");
        if attributes {
            assert_eq!(value(&new, "user.note").unwrap(), b"kept");
        }
        if lists {
            assert_eq!(value(&new, "system.posix_acl_access").unwrap(), list);
            // A file without a list takes that of another away.
            fs::write(&old, "plain").unwrap();
            rustix::fs::removexattr(&old, "system.posix_acl_access").unwrap();
            fs::set_permissions(&old, fs::Permissions::from_mode(0o604)).unwrap();
            copy_open(&File::open(&old).unwrap(), &File::open(&new).unwrap()).unwrap();
            assert!(value(&new, "system.posix_acl_access").is_err());
            assert_eq!(mode(&new), 0o604);
        }
    }
}
