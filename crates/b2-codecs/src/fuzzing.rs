//! Access for fuzz targets: selects the decoders' inner loops by name, so that one process can compare them.

use crate::lz77::{FORCED, Isa};

/// Returns the names of the instruction sets that this CPU supports, best first. The last one is safe code only.
pub fn available() -> Vec<&'static str> {
    Isa::available().into_iter().map(Isa::name).collect()
}

/// Makes this thread decode with the named loops, or with the CPU's best if `None`.
pub fn force(name: Option<&str>) {
    FORCED.set(Isa::available().into_iter().find(|isa| Some(isa.name()) == name));
}
