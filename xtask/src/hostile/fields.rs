//! Fields of a file.

use b2_testkit::hostile::Number;

use super::groups::Group;

/// A number in a file, and its name.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) group: Group,
    pub(crate) name: String,
    /// The file of a sparse frame, by its position in the list of the base.
    pub(crate) file: usize,
    pub(crate) number: Number,
}
