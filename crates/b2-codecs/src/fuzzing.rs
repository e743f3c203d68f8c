//! For the fuzz targets: the decoders' inner loops by name, so that one process can compare them.

use std::cell::Cell;

use crate::wide::Isa;

thread_local! {
    static FORCED: Cell<Option<Isa>> = const { Cell::new(None) };
}

/// Names of the instruction sets that this CPU has loops for, best first; the last one is safe code alone.
pub fn available() -> Vec<&'static str> {
    Isa::available().into_iter().map(Isa::name).collect()
}

/// From now on this thread decodes with the loops of that name, or of the CPU's choice.
pub fn force(name: Option<&str>) {
    FORCED.set(Isa::available().into_iter().find(|isa| Some(isa.name()) == name));
}

pub(crate) fn forced() -> Option<Isa> {
    FORCED.get()
}
