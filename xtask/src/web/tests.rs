//! The tests of the page, in a real browser.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use b2_chunk::CodecId;
use b2_testkit::web::{Manner, Server};
use b2_view::colours::{Map, Range, Scale};
use serde_json::{Value, json};

use super::chromium::Browser;
use super::driver::Page;
use super::{data, folder};
use crate::root;
use crate::sh::Counts;

/// Keys of WebDriver.
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const LEFT: &str = "\u{e012}";
const UP: &str = "\u{e013}";
const RIGHT: &str = "\u{e014}";
const DOWN: &str = "\u{e015}";
const PAGE_DOWN: &str = "\u{e00f}";

/// What the tests share.
struct Bench<'a> {
    browser: &'a Browser,
    page: Page,
    /// Serves the page.
    home: Server,
    /// Serves files, from another origin, with the least that browsers demand.
    files: Server,
    shots: PathBuf,
}

type Test = (&'static str, fn(&Bench<'_>) -> Result<()>);

const TESTS: &[Test] = &[("an address is drawn exactly", address_is_drawn)];

/// Runs the tests. What fails is told, and the others go on.
pub(super) fn all(page: &Path, browser: &Browser, only: Option<&str>) -> Result<Counts> {
    let shots = folder("screenshots");
    root::empty(&shots)?;
    let mut counts = Counts::default();
    for (name, test) in TESTS {
        if only.is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let bench = Bench::start(page, browser, [1200, 900], &shots)?;
        let result = test(&bench).and_then(|()| {
            let complaints = bench.page.complaints()?;
            // What servers refuse is part of the tests.
            let own: Vec<_> = complaints
                .iter()
                .filter(|line| !line.contains("Failed to load resource") && !line.contains("CORS policy"))
                .collect();
            ensure!(own.is_empty(), "the browser complains: {own:?}");
            Ok(())
        });
        let file = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let _ = bench.page.screenshot(&shots.join(format!("{file}.png")));
        match result {
            Ok(()) => {
                println!("page: {name} ... ok");
                counts.passed += 1;
            }
            Err(error) => {
                println!("page: {name} ... FAILED: {error:#}");
                counts.failed += 1;
            }
        }
    }
    println!("screenshots: {}", shots.display());
    Ok(counts)
}

impl<'a> Bench<'a> {
    fn start(page: &Path, browser: &'a Browser, size: [u32; 2], shots: &Path) -> Result<Self> {
        let home = Server::start()?;
        for entry in std::fs::read_dir(page)?.flatten() {
            home.put(&entry.file_name().to_string_lossy(), std::fs::read(entry.path())?);
        }
        let files = Server::start()?;
        files.headers("access-control-allow-origin: *\r\n");
        Ok(Self { browser, page: Page::start(browser, size)?, home, files, shots: shots.to_owned() })
    }

    /// Opens the page with the address of a file, and other parts of the link.
    fn show(&self, url: &str, more: &str) -> Result<()> {
        self.page.open(&format!("{}?url={}{more}", self.home.url("index.html"), encoded(url)))
    }

    /// The pixels that are drawn: width, height, and red, green and blue of each.
    fn pixels(&self) -> Result<(usize, usize, Vec<[u8; 3]>)> {
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
    fn compare(&self, width: usize, numbers: &[f64], map: Map) -> Result<()> {
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
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

fn address_is_drawn(bench: &Bench<'_>) -> Result<()> {
    let url = bench.files.put("sst.b2nd", data::temperature()?);
    bench.show(&url, "&slice=3")?;
    bench.page.state("shown")?;
    let ([_, rows, columns], items) = data::temperature_items()?;
    let plane = (rows * columns) as usize;
    let numbers: Vec<f64> = items[3 * plane..4 * plane].iter().map(|x| f64::from(*x)).collect();
    bench.compare(columns as usize, &numbers, Map::Viridis)?;
    ensure!(bench.page.text("facts")?.contains("12 × 90 × 180"), "the shape is not told");
    Ok(())
}

/// Draws the pictures of the documentation.
pub(super) fn images(_: &Path, _: &Browser) -> Result<()> {
    bail!("not yet")
}

/// Measures.
pub(super) fn bench(_: &Path, _: &Browser) -> Result<()> {
    bail!("not yet")
}
