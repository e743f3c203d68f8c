//! Sets the soname of the library, and keeps it loaded: its threads may outlive `dlclose`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if os != "macos" && os != "windows" {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libblosc2.so.9");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
