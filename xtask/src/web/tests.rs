//! The tests of the page, in a real browser.

mod axes;
mod faulty;
mod figures;
mod files;
mod shown;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use b2_testkit::web::Server;
use b2_view::colours::{Map, Range, Scale};
use serde_json::json;

pub(super) use self::figures::{bench, images};
use super::chromium::Browser;
use super::data;
use super::driver::Page;
use super::place::folder;
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
struct Bench {
    page: Page,
    /// Serves the page.
    home: Server,
    /// Serves files, from another origin, with the least that browsers demand.
    files: Server,
    shots: PathBuf,
}

type Test = (&'static str, fn(&Bench) -> Result<()>);

const TESTS: &[Test] = &[
    ("an address is drawn exactly", shown::address_is_drawn),
    ("files are picked and dropped, and never read whole", shown::files_are_picked_and_dropped),
    ("the cursor tells the items", shown::cursor_tells_items),
    ("coordinates are along the axes and at the cursor", axes::axes_have_coordinates),
    ("all can be done with keys", shown::keys_do_all),
    ("a link shows the same view", shown::link_shows_the_same),
    ("few requests draw a large array", shown::few_requests),
    ("planes along all dimensions are exact", shown::planes_are_exact),
    ("lines, super-chunks and records", shown::other_kinds),
    ("stores are trees", shown::stores_are_trees),
    ("chunks are mapped", shown::chunks_are_mapped),
    ("selections are saved", files::selections_are_saved),
    ("texts are never taken for HTML", faulty::texts_are_texts),
    ("servers that refuse are told in words", faulty::refusals_are_told),
    ("servers that misbehave are told in words", faulty::misbehaviour_is_told),
    ("damaged files leave the page alive", faulty::damaged_files),
    ("folders and sparse frames are opened", files::folders_are_opened),
    ("decoding that takes long is told and can be stopped", faulty::long_decoding_is_stopped),
    ("a page that is not complete says so", faulty::incomplete_page),
    ("the command serves the page", files::command_serves),
    ("a page holds the file", files::page_holds_the_file),
    ("everything has a name", shown::everything_has_a_name),
    ("small screens and the dark", shown::small_and_dark),
];

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

impl Bench {
    fn start(page: &Path, browser: &Browser, size: [u32; 2], shots: &Path) -> Result<Self> {
        let home = Server::start()?;
        for entry in std::fs::read_dir(page)?.flatten() {
            home.put(&entry.file_name().to_string_lossy(), std::fs::read(entry.path())?);
        }
        let files = Server::start()?;
        files.headers("access-control-allow-origin: *\r\n");
        Ok(Self { page: Page::start(browser, size)?, home, files, shots: shots.to_owned() })
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

/// The numbers of a plane of the temperature.
fn month(k: usize) -> Result<Vec<f64>> {
    let ([_, rows, columns], items) = data::temperature_items()?;
    let plane = (rows * columns) as usize;
    Ok(items[k * plane..(k + 1) * plane].iter().map(|x| f64::from(*x)).collect())
}

fn write(bench: &Bench, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let path = bench.page.downloads().join(name);
    std::fs::write(&path, bytes)?;
    Ok(path)
}

/// Where a pixel of the picture is in the window.
fn place(bench: &Bench, row: f64, column: f64) -> Result<(f64, f64)> {
    let place = bench.page.run(&format!(
        "const c = document.getElementById('picture'); c.scrollIntoView(); const b = c.getBoundingClientRect(); \
         return [b.left + ({column} + 0.5) * b.width / c.width, b.top + ({row} + 0.5) * b.height / c.height];"
    ))?;
    Ok((place[0].as_f64().context("no place")?, place[1].as_f64().context("no place")?))
}

fn focus(bench: &Bench, id: &str) -> Result<()> {
    for _ in 0..60 {
        if bench.page.run("return document.activeElement.id;")? == json!(id) {
            return Ok(());
        }
        bench.page.keys(TAB)?;
    }
    bail!("{id} cannot be reached with the Tab key")
}
