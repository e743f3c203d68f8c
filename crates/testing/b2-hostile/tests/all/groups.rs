//! Groups of cases, and their shares of a sample.

use b2_testkit::hostile::FilePart;

/// The kind of change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Valid,
    /// One field of this part of a file is changed.
    Field(FilePart),
    Codec,
    Pairs,
    Truncation,
    Trailing,
    Flips,
    Damage,
    Relations,
    Sparse,
    Stores,
    Bombs,
    Nesting,
    Garbage,
}

/// All groups, and their shares of the sampled cases in thousandths (0: the same share as in a full run).
pub(crate) const GROUPS: &[(Group, u32)] = &[
    (Group::Valid, 0),
    (Group::Field(FilePart::Header), 110),
    (Group::Field(FilePart::Metalayers), 45),
    (Group::Field(FilePart::Array), 60),
    (Group::Field(FilePart::VlMetalayers), 60),
    (Group::Field(FilePart::Index), 45),
    (Group::Field(FilePart::Trailer), 35),
    (Group::Field(FilePart::Checksums), 30),
    (Group::Field(FilePart::ChunkHeader), 120),
    (Group::Field(FilePart::Streams), 95),
    (Group::Codec, 65),
    (Group::Pairs, 65),
    (Group::Truncation, 70),
    (Group::Trailing, 10),
    (Group::Flips, 90),
    (Group::Damage, 60),
    (Group::Relations, 80),
    (Group::Sparse, 0),
    (Group::Stores, 0),
    (Group::Bombs, 0),
    (Group::Nesting, 0),
    (Group::Garbage, 0),
];
