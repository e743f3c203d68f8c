//! The files of a frame and their names, and the display of names.

pub(crate) mod redact;

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

/// The devices that Windows has in every folder.
const DEVICES: [&str; 30] = [
    "CON",
    "PRN",
    "AUX",
    "NUL",
    "CONIN$",
    "CONOUT$",
    "COM1",
    "COM2",
    "COM3",
    "COM4",
    "COM5",
    "COM6",
    "COM7",
    "COM8",
    "COM9",
    "COM\u{b9}",
    "COM\u{b2}",
    "COM\u{b3}",
    "LPT1",
    "LPT2",
    "LPT3",
    "LPT4",
    "LPT5",
    "LPT6",
    "LPT7",
    "LPT8",
    "LPT9",
    "LPT\u{b9}",
    "LPT\u{b2}",
    "LPT\u{b3}",
];

/// Returns the device that Windows takes a file of this name for. Suffixes make no difference before Windows 11.
pub(crate) fn device(name: &str) -> Option<&'static str> {
    let stem = name.split(['.', ':']).next()?.trim_end_matches(' ');
    DEVICES.into_iter().find(|device| device.eq_ignore_ascii_case(stem))
}

/// Returns whether staging could have created this name.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with(".b2kit-") && name.ends_with(".tmp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_known() {
        let devices = [
            ("NUL", "NUL"),
            ("nul", "NUL"),
            ("aux.b2nd", "AUX"),
            ("Con.tar.gz", "CON"),
            ("prn .b2nd", "PRN"),
            ("COM1", "COM1"),
            ("lpt9.b2frame", "LPT9"),
            ("com\u{b2}.b2nd", "COM\u{b2}"),
            ("conin$", "CONIN$"),
            ("nul:", "NUL"),
        ];
        for (name, expected) in devices {
            assert_eq!(device(name), Some(expected), "{name}");
        }
        let files = [
            "",
            ".nul",
            "null.b2nd",
            "aux_2.b2nd",
            "com.b2nd",
            "COM10",
            "LPT0",
            "COM0.b2nd",
            "x.nul",
            " nul",
        ];
        for name in files.into_iter().chain([INDEX_NAME, LOCK_NAME, &chunk_name(0xC0)]) {
            assert_eq!(device(name), None, "{name}");
        }
    }
}
