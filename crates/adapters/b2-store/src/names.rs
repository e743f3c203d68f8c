//! The names that python-blosc2 gives members, and the rules for them.

use std::borrow::Cow;

use crate::StoreError;

/// The kind of content according to the name of a member. Only opening it makes sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemberKind {
    /// An array: `.b2nd`.
    Array,
    /// A super-chunk: `.b2f`.
    SuperChunk,
    /// Batches of objects: `.b2b`.
    Batches,
    /// Unknown, as for embedded members.
    Unknown,
}

/// Last part of the key of the member with the attributes of a group.
pub const ATTRIBUTES: &str = "__vlmeta__";
/// The frame with small members, in the root of directories and archives.
pub(crate) const EMBEDDED: &str = "embed.b2e";
/// The vlmetalayer with the positions of the embedded members.
pub(crate) const EMBEDDED_MAP: &str = "estore_metadata";
/// Metalayers that mark frames with embedded members.
pub(crate) const EMBEDDED_MARKS: [&str; 3] = ["b2embed", "b2dict", "b2tree"];
/// Maximum number of members, and of entries of an archive.
pub(crate) const MAX_MEMBERS: usize = 1 << 20;
/// Maximum nesting. Printed trees are indented, so their size grows with the square of the depth.
pub(crate) const MAX_DEPTH: usize = 64;

const SUFFIXES: [(&str, MemberKind); 3] =
    [(".b2nd", MemberKind::Array), (".b2f", MemberKind::SuperChunk), (".b2b", MemberKind::Batches)];

pub(crate) fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

/// Splits the name of a file into the last part of its key and the kind of member; `None` for files that are not
/// members.
pub(crate) fn key_of(name: &str) -> Option<(&str, MemberKind)> {
    let (stem, kind) =
        SUFFIXES.iter().find_map(|(suffix, kind)| Some((name.strip_suffix(suffix)?, *kind)))?;
    // As in Python, leading dots are part of the stem.
    (!stem.trim_start_matches('.').is_empty()).then_some((stem, kind))
}

pub(crate) fn suffix(kind: MemberKind) -> &'static str {
    SUFFIXES.iter().find(|(_, other)| *other == kind).map_or(".b2f", |(suffix, _)| suffix)
}

/// Returns the suffixes of members, without the dot.
pub(crate) fn suffixes() -> impl Iterator<Item = &'static str> {
    SUFFIXES.iter().map(|(suffix, _)| suffix.trim_start_matches('.'))
}

/// Returns a name as text. Bytes that are not UTF-8 are escaped, so that the member is listed and can be read.
pub(crate) fn text_of(name: &[u8]) -> Cow<'_, str> {
    if let Ok(name) = std::str::from_utf8(name) {
        return name.into();
    }
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02X}")));
    }
    text.into()
}

/// Returns whether a part of a path is a plain name of a file or directory: no `..`, no drive, and not a path on any
/// system.
fn is_name(part: &str) -> bool {
    let drive =
        cfg!(windows) && matches!(part.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    !part.trim_start_matches('.').is_empty() && !drive && !part.contains(['\\', '\0'])
}

/// Returns whether Windows gives a name another meaning than a file of that name: a device, a drive, a stream of
/// another file, a pattern, or the name without its last character.
fn is_special_on_windows(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let device = ["con", "prn", "aux", "nul", "conin$", "conout$"];
    let numbered = |port: &str| {
        let start = stem.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(port));
        start
            && matches!(
                stem.get(3..),
                Some("1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³")
            )
    };
    device.iter().any(|device| stem.eq_ignore_ascii_case(device))
        || numbered("com")
        || numbered("lpt")
        || name.ends_with(['.', ' '])
        || name.contains(|char| matches!(char, ':' | '*' | '?' | '"' | '<' | '>' | '|') || char < ' ')
}

/// Returns whether a name is that of a directory still being written by this crate or by `b2kit.dask.to_b2kit`.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with(".b2kit-") && name.ends_with(".tmp") || name.contains(".b2nd.parts-")
}

/// Checks that the name of an entry of an archive does not lead out of it.
pub(crate) fn check_entry(name: &str) -> Result<(), StoreError> {
    match name.split('/').all(is_name) {
        true => Ok(()),
        false => Err(StoreError::Damaged(format!(
            "zip archive: the member name {name:?} is not a path inside the archive"
        ))),
    }
}

/// Splits the key of a new member into its parts. The leading slash may be omitted.
pub(crate) fn parts(key: &str) -> Result<Vec<&str>, StoreError> {
    let parts: Vec<&str> = key.strip_prefix('/').unwrap_or(key).split('/').collect();
    let special = cfg!(windows) && parts.iter().any(|part| is_special_on_windows(part));
    match parts.len() <= MAX_DEPTH
        && !special
        && parts.iter().all(|part| is_name(part) && !is_temporary(part) && !part.contains(['\n', '\r', '\t']))
    {
        true => Ok(parts),
        false => Err(StoreError::Key(key.to_owned())),
    }
}

/// Returns the key with a leading slash.
pub(crate) fn absolute(key: &str) -> String {
    if key.starts_with('/') { key.to_owned() } else { format!("/{key}") }
}

/// Returns the key of a member of a group. The root is `""` or `"/"`.
pub(crate) fn member_of(group: &str, name: &str) -> String {
    format!("{}/{name}", absolute(group).trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_relative_paths_are_names() {
        for name in ["a.b2nd", "g/a.b2nd", "g/.hidden.b2f", "ä/b.b2b", "ab:c.b2nd", "..a.b2nd"] {
            assert!(check_entry(name).is_ok(), "{name}");
        }
        for name in
            ["/a.b2nd", "../a.b2nd", "g/../a.b2nd", "./a.b2nd", "g//a.b2nd", "a\\b.b2nd", "a\0.b2nd", ""]
        {
            assert!(check_entry(name).is_err(), "{name}");
        }
        assert_eq!(check_entry("C:/a.b2nd").is_err(), cfg!(windows));
        assert_eq!(parts("c:x").is_err(), cfg!(windows));
        for name in
            ["ab:c.b2nd", "NUL", "con.b2nd", "Aux .x", "com1", "lpt9.b2nd", "a.", "a ", "a?", "a\x01b"]
        {
            assert!(is_special_on_windows(name), "{name}");
            assert!(!cfg!(windows) || parts(name).is_err(), "{name}");
        }
        for name in ["com", "com10", "lpt0", "a b", "nula", ".con"] {
            assert!(!is_special_on_windows(name), "{name}");
        }
        assert_eq!(parts("/a/.b2kit-b").unwrap(), ["a", ".b2kit-b"]);
        for key in
            ["", "/", "a/", "//a", "a//b", "/..", "/a/../b", "/.", "a\nb", ".b2kit-x.tmp/a", &"d/".repeat(80)]
        {
            assert!(parts(key).is_err(), "{key:?}");
        }
    }

    #[test]
    fn suffixes_are_not_part_of_keys() {
        assert_eq!(key_of("a.b.b2nd"), Some(("a.b", MemberKind::Array)));
        assert_eq!(key_of("..a.b2f"), Some(("..a", MemberKind::SuperChunk)));
        for name in [".b2nd", "..b2nd", "...b2f", "a.B2ND", "a.b2e", "embed.b2e", "a", "a.b2nd.tmp"] {
            assert_eq!(key_of(name), None, "{name}");
        }
    }
}
