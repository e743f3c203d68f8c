//! File access: the traits that the crate needs, the file system, memory maps, the lock, and staging files next to
//! their targets. Also has the files of a frame and the redo record that repairs a torn header, keeps relative paths
//! valid when the working directory changes, asks the system to start writing early, and checks the responses of remote
//! storage. Uses `format`.

pub(crate) mod absolute_paths;
#[cfg(unix)]
pub(crate) mod attributes;
pub(crate) mod disk;
pub(crate) mod files;
#[allow(clippy::cast_possible_truncation, reason = "a small constant")]
pub(crate) mod lock;
#[cfg(feature = "mmap")]
pub(crate) mod mmap;
pub(crate) mod redo;
pub(crate) mod remote;
pub(crate) mod request_stats;
#[cfg_attr(not(unix), path = "rooted_dir_checked.rs")]
pub(crate) mod rooted_dir;
pub(crate) mod sparse;
pub(crate) mod staging;
pub(crate) mod traits;
#[cfg(windows)]
mod windows;
#[cfg(target_os = "linux")]
mod writeback;
