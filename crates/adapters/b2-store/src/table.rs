//! The names of members of python-blosc2 tables (`CTable`) that are not user data.

/// The member that makes a group a table.
pub(crate) const TABLE_META: &str = "_meta";
/// The member with the attributes of the table.
pub(crate) const TABLE_ATTRIBUTES: &str = "_vlmeta";
/// The group with the indexes, as part of a key.
pub(crate) const TABLE_INDEXES: &str = "_indexes/";

/// Returns whether the name of a member, or of a file without its suffix, is that of an index of an array.
pub(crate) fn is_index(name: &str) -> bool {
    name.contains(".__index__.")
}
