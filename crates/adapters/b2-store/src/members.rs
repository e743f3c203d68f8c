//! The members of a store, and the list of those that are embedded in a frame.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use b2_frame::SuperChunk;
use b2nd::{METALAYER, OLD_METALAYER, Object};

use crate::StoreError;
use crate::names::{self, EMBEDDED_MAP, EMBEDDED_MARKS, MAX_DEPTH, MAX_MEMBERS, MemberKind};

/// Where a member is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemberLocation {
    /// A file, or the directory of a sparse frame.
    Path(PathBuf),
    /// Stored in the archive. [`Store::window`](crate::Store::window) returns its bytes.
    Archived {
        /// Offset of the header of the member, in bytes.
        header: u64,
        /// Length of the member, in bytes.
        len: u64,
    },
    /// A range of the uncompressed bytes of the frame with small members.
    Embedded(Range<u64>),
    /// It cannot be opened: it is compressed in the archive, or on another server.
    Unreadable(String),
}

/// A member of a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Member {
    /// The kind of content according to its name.
    pub kind: MemberKind,
    /// Where it is.
    pub place: MemberLocation,
}

/// Members by key.
#[derive(Clone, Debug, Default)]
pub struct Members(pub BTreeMap<String, Member>);

impl Members {
    /// Returns whether a frame has members.
    pub fn has(frame: &SuperChunk) -> bool {
        let marked = EMBEDDED_MARKS.iter().any(|mark| frame.metalayers().get(mark).is_some());
        marked && frame.vlmetalayers().iter().any(|(name, _)| name == EMBEDDED_MAP.as_bytes())
    }

    /// Adds a member.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if there are too many, or if the key is nested too deep.
    pub fn insert(&mut self, key: String, member: Member) -> Result<(), StoreError> {
        let damaged = |what: String| Err(StoreError::Damaged(what));
        if self.0.len() >= MAX_MEMBERS {
            return damaged(format!("more than {MAX_MEMBERS} members"));
        }
        let depth = key.split('/').count().saturating_sub(2);
        if depth > MAX_DEPTH {
            return damaged(format!("a key is nested {depth} deep, at most {MAX_DEPTH} are allowed"));
        }
        match (self.0.get(&key).map(|there| &there.place), &member.place) {
            // The names differ only in their suffix. Which one is used must not depend on the order of the directory.
            (Some(MemberLocation::Path(there)), MemberLocation::Path(path)) if there < path => {}
            // Files take precedence over embedded members, as in Python.
            (Some(there), MemberLocation::Embedded(_)) if !matches!(there, MemberLocation::Embedded(_)) => {}
            _ => drop(self.0.insert(key, member)),
        }
        Ok(())
    }

    /// Adds the members that are embedded in a frame.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the list of them is malformed.
    pub fn embedded(&mut self, frame: &SuperChunk) -> Result<(), StoreError> {
        let damaged = |what: &str| StoreError::Damaged(format!("{EMBEDDED_MAP}{what}"));
        let map = frame.vlmetalayers().get(EMBEDDED_MAP)?.unwrap_or_default();
        let map = Object::decode(EMBEDDED_MAP, &map, &frame.dparams().limits)
            .map_err(|error| damaged(&format!(": {error}")))?;
        let Some(Object::Map(entries)) = field(&map, "embed_map") else {
            return Err(damaged(" is malformed"));
        };
        for (key, entry) in entries {
            let Object::Text(key) = key else { return Err(damaged(": an entry is malformed")) };
            let number = |name| match field(entry, name) {
                Some(Object::Int(number)) => u64::try_from(*number).ok(),
                Some(Object::Large(number)) => Some(*number),
                _ => None,
            };
            let place = match (number("offset"), number("length"), field(entry, "urlbase")) {
                (Some(start), Some(len), _) => match start.checked_add(len) {
                    Some(end) if end <= frame.nbytes() => MemberLocation::Embedded(start..end),
                    _ => {
                        return Err(damaged(&format!(
                            ": key {key}: bytes {start} + {len} are outside the frame"
                        )));
                    }
                },
                (None, None, Some(_)) => MemberLocation::Unreadable(
                    "a reference to an array on the network, which is not followed".to_owned(),
                ),
                _ => return Err(damaged(": an entry is malformed")),
            };
            self.insert(names::absolute(key), Member { kind: MemberKind::Unknown, place })?;
        }
        Ok(())
    }
}

/// Returns what a frame holds.
pub(crate) fn kind_of(frame: &SuperChunk) -> MemberKind {
    let has = |name: &str| frame.metalayers().get(name).is_some();
    if has(METALAYER) || has(OLD_METALAYER) {
        MemberKind::Array
    } else if has("batcharray") {
        MemberKind::Batches
    } else {
        MemberKind::SuperChunk
    }
}

fn field<'a>(map: &'a Object, name: &str) -> Option<&'a Object> {
    let Object::Map(pairs) = map else { return None };
    pairs.iter().find(|(key, _)| matches!(key, Object::Text(key) if key == name)).map(|(_, value)| value)
}
