//! Access for fuzz targets: selects kernels by name, so that one process can compare them.

use crate::kernels;

/// Makes this thread use the named kernels, or the CPU's best if `None`.
pub fn force(name: Option<&str>) {
    kernels::SELECTED_KERNELS
        .set(kernels::available().into_iter().find(|kernels| Some(kernels.name()) == name));
}
