//! Access for fuzz targets: selects kernels by name, so that one process can compare them.

use std::cell::Cell;

use crate::kernels::{self, Kernels};

thread_local! {
    static FORCED: Cell<Option<&'static dyn Kernels>> = const { Cell::new(None) };
}

/// Makes this thread use the named kernels, or the CPU's best if `None`.
pub fn force(name: Option<&str>) {
    FORCED.set(kernels::available().into_iter().find(|kernels| Some(kernels.name()) == name));
}

pub(crate) fn forced() -> Option<&'static dyn Kernels> {
    FORCED.get()
}
