//! The files of a frame and their names.

/// One of the files that a frame consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameFile {
    /// The contiguous frame, or the index file of a sparse frame.
    Main,
    /// The chunk file with this id (sparse frames only).
    Chunk(u32),
}

/// Name of the index file of a sparse frame.
pub const INDEX_NAME: &str = "chunks.b2frame";
/// Name of the lock file in a sparse frame's directory.
pub(crate) const LOCK_NAME: &str = ".b2lock";

/// Returns the name of the file that holds chunk `id`.
pub(crate) fn chunk_name(id: u32) -> String {
    format!("{id:08X}.chunk")
}

/// Returns whether a file of this name can belong to a sparse frame.
pub(crate) fn is_member(name: &str) -> bool {
    let is_chunk = name.strip_suffix(".chunk").is_some_and(|id| {
        id.len() == 8 && id.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b))
    });
    is_chunk || name == INDEX_NAME || name == LOCK_NAME || is_temporary(name)
}

/// Parses the id in the name of a chunk file.
pub(crate) fn chunk_id(name: &str) -> Option<u32> {
    let id = u32::from_str_radix(name.strip_suffix(".chunk")?, 16).ok()?;
    (chunk_name(id) == name).then_some(id)
}

/// Returns whether staging could have created this name.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with(".b2kit-") && name.ends_with(".tmp")
}
