//! Fields of a file.

use b2_testkit::hostile::Number;

use super::groups::Group;

/// A number of a file, and what it is called.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) group: Group,
    pub(crate) name: String,
    /// Which file of a sparse frame, by its place in the list of the base.
    pub(crate) file: usize,
    pub(crate) number: Number,
}
