/// Identifies the process that owns a resource.
///
/// After a fork the child has copies of all values, but not the other threads, and files on disk still belong to the
/// parent. So the child must not wait for threads, and must not roll back or remove files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId(u32);

impl ProcessId {
    /// Returns the id of this process. Takes one system call.
    pub fn current() -> Self {
        // On wasm there is only one process.
        Self(if cfg!(all(target_family = "wasm", target_os = "unknown")) { 0 } else { std::process::id() })
    }

    /// Returns whether this is still the same process: `false` in a child after a fork.
    pub fn is_current(self) -> bool {
        self == Self::current()
    }
}
