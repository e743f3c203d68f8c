//! Short descriptions of a frame or chunk.

use b2kit::SuperChunk;
use b2kit::chunk::FilterSlot;
use b2kit::frame::Checksums;

use crate::args::values;
use crate::print::{from_to, ratio, short_size};
use crate::read::Input;

/// The line that `pack` and `copy` print about a new file, which takes `stored` bytes.
pub(crate) fn written(input: &Input, stored: u64, chosen: bool) -> String {
    let nbytes = input.nbytes();
    let mut parts = vec![match input.frame() {
        Some(frame) => format!("{} {}", frame.header().codec(), frame.header().level()),
        None => codec_text(input),
    }];
    let filters = input.filters();
    if filters.is_empty() {
        parts.push("no filter".into());
    }
    parts.extend(filters.iter().map(filter_text));
    if let Some(frame) = input.frame() {
        let header = frame.header();
        if header.codec_meta() != 0 {
            parts.push(format!("codec meta {}", header.codec_meta()));
        }
        if chosen {
            parts.push(format!("split {} (chosen by --codec auto)", values::split_name(header.splitmode())));
        }
    }
    format!("{} ({}), {}", from_to(nbytes, stored), ratio(nbytes, stored), parts.join(", "))
}

/// A filter in the syntax of `--filters`.
pub(crate) fn filter_text(slot: &FilterSlot) -> String {
    match slot.meta {
        0 => slot.id.to_string(),
        meta => format!("{}:{meta}", slot.id),
    }
}

/// Summarises a file for `--verbose`.
pub(crate) fn one_line(input: &Input) -> String {
    let (nbytes, cbytes) = match input {
        Input::Chunk(chunk) => (chunk.nbytes() as u64, chunk.cbytes() as u64),
        _ => (input.nbytes(), input.frame().map_or(0, SuperChunk::cbytes)),
    };
    format!(
        "{} -> {} ({}), {}",
        short_size(nbytes),
        short_size(cbytes),
        ratio(nbytes, cbytes),
        codec_text(input)
    )
}

/// Codec and level, or the reason why the codec was not used.
pub(crate) fn codec_text(input: &Input) -> String {
    let Some(frame) = input.frame() else {
        let Input::Chunk(chunk) = input else { return String::new() };
        let header = chunk.header();
        let name = header.codec().map_or("unknown".into(), |codec| codec.to_string());
        return match (header.special(), header.is_memcpyed()) {
            (Some(_), _) => format!("{name}, not used: one value"),
            (None, true) => format!("{name}, not used: stored as it is"),
            _ if header.has_dict() => format!("{name}, with a dictionary"),
            _ => name,
        };
    };
    let header = frame.header();
    let mut text = format!("{}, level {}", header.codec(), header.level());
    if header.codec_meta() != 0 {
        text.push_str(&format!(", meta {}", header.codec_meta()));
    }
    text.push_str(&format!(", split {}", values::split_name(header.splitmode())));
    if header.use_dict() {
        text.push_str(", with dictionaries");
    }
    text
}

/// Checksum state.
pub(crate) fn checksums_text(checksums: Checksums) -> &'static str {
    match checksums {
        Checksums::None => "none",
        Checksums::Ok => "ok",
        Checksums::Changed => "changed",
    }
}
