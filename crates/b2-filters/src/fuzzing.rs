//! For the fuzz targets: the kernels by name, so that one process can compare them.

use std::cell::Cell;

use crate::kernels::{self, Kernels};

thread_local! {
    static FORCED: Cell<Option<&'static dyn Kernels>> = const { Cell::new(None) };
}

/// From now on this thread uses the kernels of that name, or of the CPU's choice.
pub fn force(name: Option<&str>) {
    FORCED.set(kernels::available().into_iter().find(|kernels| Some(kernels.name()) == name));
}

pub(crate) fn forced() -> Option<&'static dyn Kernels> {
    FORCED.get()
}
