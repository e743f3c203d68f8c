//! What becomes of the checksums of damaged frames.

use b2_testkit::hostile::Places;

use super::layout::Layout;

/// What becomes of the checksums of a damaged frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// They stay as they were: the damage must be seen.
    Stale,
    /// They are made to fit, as somebody would who means harm.
    Sealed,
    /// The fingerprint says that there are none, as after a change by C-Blosc2.
    Zeroed,
}

pub(crate) const SEALS: [Seal; 3] = [Seal::Stale, Seal::Sealed, Seal::Zeroed];

/// The parts of a frame whose fields changed in place.
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
