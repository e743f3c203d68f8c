//! How checksums of damaged frames are treated.

use b2_testkit::hostile::Places;

use super::layout::Layout;

/// How the checksums of a damaged frame are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// Unchanged, so that the damage must be detected.
    Stale,
    /// Recomputed, as an attacker would do.
    Sealed,
    /// The fingerprint says that there are none, as after a change by C-Blosc2.
    Zeroed,
}

pub(crate) const SEALS: [Seal; 3] = [Seal::Stale, Seal::Sealed, Seal::Zeroed];

/// Returns the parts of a frame whose fields changed in place.
pub(crate) fn places(layout: &Layout, chunks: Vec<u64>) -> Places {
    Places {
        header: layout.header.clone(),
        index: layout.index.clone(),
        sums: layout.sums.clone(),
        pages: layout.pages.clone(),
        trailer: layout.trailer.clone(),
        metalayers: layout.metalayers.iter().map(|(_, range)| range.clone()).collect(),
        chunks,
    }
}
