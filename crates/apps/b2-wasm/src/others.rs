//! Guesses what other files are by their first bytes.

use b2_view::formats::{Format, FormatKind, recognise};

/// Guesses the format of another file.
pub(crate) fn guess(first: &[u8]) -> String {
    let Some(Format { kind, what }) = recognise(first) else {
        let what = match first.first() {
            Some(b'<') => "apparently a web page; check the address",
            Some(b'{') => "apparently JSON",
            _ => return String::new(),
        };
        return format!(". It is {what}");
    };
    let hint = match kind {
        FormatKind::Npy => "; `b2kit pack` makes an array of it, and `b2kit view` draws it in a terminal",
        FormatKind::Npz | FormatKind::Hdf5 | FormatKind::Nifti => "; `b2kit convert` makes arrays of it",
        FormatKind::Zarr => "; `b2kit convert` makes arrays of the folder that it is in",
        FormatKind::Other => "; save the array as `.npy` with a program that reads it, then use `b2kit pack`",
        FormatKind::Packed => "; unpack it first",
        FormatKind::Blosc2 | FormatKind::Store | FormatKind::Useless => "",
    };
    format!(". It is {what}{hint}")
}
