//! What the tests of the page share: a browser with the page, and servers of it and of files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use b2_testkit::web::Server;
use b2_view::colours::{Map, Range, Scale};
use serde_json::json;

use crate::web::chromium::Browser;
use crate::web::data;
use crate::web::driver::Page;

/// Keys of WebDriver.
pub(super) const TAB: &str = "\u{e004}";
pub(super) const ENTER: &str = "\u{e007}";
pub(super) const LEFT: &str = "\u{e012}";
pub(super) const UP: &str = "\u{e013}";
pub(super) const RIGHT: &str = "\u{e014}";
pub(super) const DOWN: &str = "\u{e015}";
pub(super) const PAGE_DOWN: &str = "\u{e00f}";

/// What the tests share.
pub(super) struct Bench {
    pub(super) page: Page,
    /// Serves the page.
    pub(super) home: Server,
    /// Serves files, from another origin, with the least that browsers demand.
    pub(super) files: Server,
    pub(super) shots: PathBuf,
}

impl Bench {
    pub(super) fn start(page: &Path, browser: &Browser, size: [u32; 2], shots: &Path) -> Result<Self> {
        let home = Server::start()?;
        for entry in std::fs::read_dir(page)?.flatten() {
            home.put(&entry.file_name().to_string_lossy(), std::fs::read(entry.path())?);
        }
        let files = Server::start()?;
        files.headers("access-control-allow-origin: *\r\n");
        Ok(Self { page: Page::start(browser, size)?, home, files, shots: shots.to_owned() })
    }

    /// Opens the page with the address of a file, and other parts of the link.
    pub(super) fn show(&self, url: &str, more: &str) -> Result<()> {
        self.page.open(&format!("{}?url={}{more}", self.home.url("index.html"), encoded(url)))
    }

    /// The pixels that are drawn: width, height, and red, green and blue of each.
    pub(super) fn pixels(&self) -> Result<(usize, usize, Vec<[u8; 3]>)> {
        let drawn = self.page.run(
            "const c = document.getElementById('picture'); \
             const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; \
             let text = ''; for (let i = 0; i < d.length; i += 4) text += String.fromCharCode(d[i], d[i + 1], d[i + 2]); \
             return [c.width, c.height, btoa(text)];",
        )?;
        let size = |k: usize| drawn[k].as_u64().context("no size").map(|n| n as usize);
        let bytes = data_encoding::BASE64.decode(drawn[2].as_str().context("no pixels")?.as_bytes())?;
        Ok((size(0)?, size(1)?, bytes.chunks_exact(3).map(|p| [p[0], p[1], p[2]]).collect()))
    }

    /// Compares what is drawn with numbers, row by row.
    pub(super) fn compare(&self, width: usize, numbers: &[f64], map: Map) -> Result<()> {
        let (wide, high, pixels) = self.pixels()?;
        ensure!((wide, high) == (width, numbers.len() / width), "the picture has {wide} x {high} pixels");
        let range = Range::of(numbers, true).context("no numbers")?;
        let scale = Scale { range, map, log: false };
        for (k, (pixel, number)) in pixels.iter().zip(numbers).enumerate() {
            let expected = scale.colour(*number).unwrap_or_else(|| map.missing());
            ensure!(*pixel == expected, "pixel {k}, {number}: {pixel:?} instead of {expected:?}");
        }
        Ok(())
    }
}

/// A text as a part of an address.
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// The numbers of a plane of the temperature.
pub(super) fn month(k: usize) -> Result<Vec<f64>> {
    let ([_, rows, columns], items) = data::temperature_items()?;
    let plane = (rows * columns) as usize;
    Ok(items[k * plane..(k + 1) * plane].iter().map(|x| f64::from(*x)).collect())
}

pub(super) fn write(bench: &Bench, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let path = bench.page.downloads().join(name);
    std::fs::write(&path, bytes)?;
    Ok(path)
}

/// Where a pixel of the picture is in the window.
pub(super) fn place(bench: &Bench, row: f64, column: f64) -> Result<(f64, f64)> {
    let place = bench.page.run(&format!(
        "const c = document.getElementById('picture'); c.scrollIntoView(); const b = c.getBoundingClientRect(); \
         return [b.left + ({column} + 0.5) * b.width / c.width, b.top + ({row} + 0.5) * b.height / c.height];"
    ))?;
    Ok((place[0].as_f64().context("no place")?, place[1].as_f64().context("no place")?))
}

pub(super) fn focus(bench: &Bench, id: &str) -> Result<()> {
    for _ in 0..60 {
        if bench.page.run("return document.activeElement.id;")? == json!(id) {
            return Ok(());
        }
        bench.page.keys(TAB)?;
    }
    bail!("{id} cannot be reached with the Tab key")
}
