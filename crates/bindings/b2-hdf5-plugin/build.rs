//! Keeps the libraries loaded: HDF5 unloads its plug-ins when it closes, and threads started for `BLOSC_NTHREADS` may
//! still be running.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let elf = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os != "macos" && os != "windows");
    if elf {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
