//! Groups of cases, which are the rows of the table.

use b2_testkit::hostile::Part;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Group {
    Valid,
    /// One field of this part of a file is changed.
    Field(Part),
    Codec,
    Pairs,
    Truncation,
    Behind,
    Flips,
    Damage,
    Relations,
    Sparse,
    Stores,
    Bombs,
    Nesting,
    Garbage,
}

/// All groups in the order of the table: name, and share of the sampled cases in thousandths (0 means that all cases
/// always run).
pub(crate) const GROUPS: &[(Group, &str, u32)] = &[
    (Group::Valid, "valid", 0),
    (Group::Field(Part::Header), "frame header", 110),
    (Group::Field(Part::Metalayers), "metalayer map", 45),
    (Group::Field(Part::Array), "b2nd metalayer", 60),
    (Group::Field(Part::VlMetalayers), "vlmetalayers", 60),
    (Group::Field(Part::Index), "index", 45),
    (Group::Field(Part::Trailer), "trailer", 35),
    (Group::Field(Part::Checksums), "checksum block", 30),
    (Group::Field(Part::ChunkHeader), "chunk header", 120),
    (Group::Field(Part::Streams), "bstarts, csizes, tokens", 95),
    (Group::Codec, "codec streams", 65),
    (Group::Pairs, "two fields at once", 65),
    (Group::Truncation, "truncation", 70),
    (Group::Behind, "bytes behind the end", 10),
    (Group::Flips, "flips of bits and bytes", 90),
    (Group::Damage, "sectors, copied, swapped", 60),
    (Group::Relations, "index and metadata rebuilt", 80),
    (Group::Sparse, "sparse directories", 0),
    (Group::Stores, "stores", 0),
    (Group::Bombs, "bombs", 0),
    (Group::Nesting, "deep and many", 0),
    (Group::Garbage, "tiny, garbage, no files", 0),
];

impl Group {
    /// Returns the name in the table.
    pub(crate) fn name(self) -> &'static str {
        GROUPS.iter().find(|(group, ..)| *group == self).map_or("", |(_, name, _)| name)
    }
}
