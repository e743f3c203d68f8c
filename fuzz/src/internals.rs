//! Internals of the crates under test, which they expose with `--cfg fuzzing`. Without it there are stand-ins, so that lints
//! compile this package; the targets then refuse to run.

#[cfg(fuzzing)]
pub(crate) use b2_codecs::fuzzing as loops;
#[cfg(fuzzing)]
pub(crate) use b2_filters::fuzzing as kernels;
#[cfg(fuzzing)]
pub(crate) use b2_hdf5::fuzzing::lookup3;

#[cfg(not(fuzzing))]
pub(crate) mod loops {
    pub(crate) fn available() -> Vec<&'static str> {
        Vec::new()
    }

    pub(crate) fn force(_: Option<&str>) {}
}

#[cfg(not(fuzzing))]
pub(crate) mod kernels {
    pub(crate) fn force(_: Option<&str>) {}
}

#[cfg(not(fuzzing))]
pub(crate) fn lookup3(_: &[u8]) -> u32 {
    0
}
