//! The parts of the page, which the build script has located.

/// The page.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) index: &'static str,
    pub(super) style: &'static str,
    /// Its scripts, in the order in which the page loads them.
    pub(super) scripts: &'static [(&'static str, &'static str)],
    pub(super) worker: &'static str,
    pub(super) engine: &'static [u8],
}

macro_rules! part {
    ($name:literal) => {
        include_str!(concat!(env!("B2KIT_VIEWER"), "/", $name))
    };
}

pub(super) static PAGE: Page = Page {
    index: part!("index.html"),
    style: part!("style.css"),
    scripts: &[
        ("engine.js", part!("engine.js")),
        ("draw.js", part!("draw.js")),
        ("main.js", part!("main.js")),
    ],
    worker: part!("worker.js"),
    engine: include_bytes!(env!("B2KIT_ENGINE")),
};
