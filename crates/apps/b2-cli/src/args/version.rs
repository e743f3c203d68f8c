//! The output of `--version`: the version, and what this build supports on this machine.

use std::sync::LazyLock;

use b2kit::filters;

use super::plugins::plugins;

/// The version and the commit; then codecs, filters and the instruction set, one line each.
pub(crate) fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        let plugins = plugins();
        let codecs: Vec<&str> = plugins.codecs().map(|codec| codec.name()).collect();
        let names: Vec<&str> = plugins.filters().map(|filter| filter.name()).collect();
        let commit = match env!("B2KIT_COMMIT") {
            "" => "unknown",
            commit => commit,
        };
        format!(
            "{}\ncommit: {commit}\ncodecs: {}\nfilters: {}\ninstruction set: {} (of {})",
            env!("CARGO_PKG_VERSION"),
            codecs.join(", "),
            names.join(", "),
            filters::kernels(),
            filters::available_kernels().join(", "),
        )
    });
    &LONG
}
