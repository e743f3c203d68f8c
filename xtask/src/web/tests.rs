//! The tests of the page, in a real browser.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use b2_chunk::CodecId;
use b2_testkit::web::{Manner, Server};
use b2_view::colours::{Map, Range, Scale};
use serde_json::{Value, json};

use super::chromium::Browser;
use super::driver::Page;
use super::place::folder;
use super::{build, data};
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
    ("an address is drawn exactly", address_is_drawn),
    ("files are picked and dropped, and never read whole", files_are_picked_and_dropped),
    ("the cursor tells the items", cursor_tells_items),
    ("coordinates are along the axes and at the cursor", axes_have_coordinates),
    ("all can be done with keys", keys_do_all),
    ("a link shows the same view", link_shows_the_same),
    ("few requests draw a large array", few_requests),
    ("planes along all dimensions are exact", planes_are_exact),
    ("lines, super-chunks and records", other_kinds),
    ("stores are trees", stores_are_trees),
    ("chunks are mapped", chunks_are_mapped),
    ("selections are saved", selections_are_saved),
    ("texts are never taken for HTML", texts_are_texts),
    ("servers that refuse are told in words", refusals_are_told),
    ("servers that misbehave are told in words", misbehaviour_is_told),
    ("damaged files leave the page alive", damaged_files),
    ("folders and sparse frames are opened", folders_are_opened),
    ("decoding that takes long is told and can be stopped", long_decoding_is_stopped),
    ("a page that is not complete says so", incomplete_page),
    ("the command serves the page", command_serves),
    ("a page holds the file", page_holds_the_file),
    ("everything has a name", everything_has_a_name),
    ("small screens and the dark", small_and_dark),
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

fn address_is_drawn(bench: &Bench) -> Result<()> {
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

fn files_are_picked_and_dropped(bench: &Bench) -> Result<()> {
    bench.page.open(&bench.home.url("index.html"))?;
    bench.page.state("empty")?;
    bench.page.pick(&write(bench, "sst.b2nd", &data::temperature()?)?)?;
    bench.page.state("shown")?;
    bench.compare(180, &month(6)?, Map::Viridis)?;
    let large = data::large(CodecId::LZ4)?;
    let picked = write(bench, "large.b2nd", &large)?;
    // What people drop is the same as what they pick: a file of which the page reads slices.
    bench.page.run("document.getElementById('pick').addEventListener('change', (e) => e.stopImmediatePropagation(), true);")?;
    bench.page.pick(&picked)?;
    bench.page.run("document.body.dataset.state = ''; document.body.dataset.bytes = 0; \
        const files = new DataTransfer(); files.items.add(document.getElementById('pick').files[0]); \
        window.dispatchEvent(new DragEvent('drop', { dataTransfer: files, bubbles: true, cancelable: true }));")?;
    bench.page.state("shown")?;
    ensure!(bench.page.text("title")? == "large.b2nd", "the dropped file is not shown");
    let bytes: usize = bench.page.data("bytes")?.parse()?;
    ensure!(bytes < large.len() / 4, "{bytes} bytes were read of {}", large.len());
    Ok(())
}

/// Where a pixel of the picture is in the window.
fn place(bench: &Bench, row: f64, column: f64) -> Result<(f64, f64)> {
    let place = bench.page.run(&format!(
        "const c = document.getElementById('picture'); c.scrollIntoView(); const b = c.getBoundingClientRect(); \
         return [b.left + ({column} + 0.5) * b.width / c.width, b.top + ({row} + 0.5) * b.height / c.height];"
    ))?;
    Ok((place[0].as_f64().context("no place")?, place[1].as_f64().context("no place")?))
}

fn cursor_tells_items(bench: &Bench) -> Result<()> {
    let url = bench.files.put("sst.b2nd", data::temperature()?);
    bench.show(&url, "&slice=3")?;
    bench.page.state("shown")?;
    let items = month(3)?;
    for (row, column) in [(0, 0), (44, 20), (45, 25), (60, 100), (89, 179)] {
        let (x, y) = place(bench, f64::from(row), f64::from(column))?;
        bench.page.point(x, y)?;
        let position = format!("3,{row},{column}");
        bench.page.wait(&format!("document.getElementById('cell').dataset.position === '{position}'"))?;
        let told = bench.page.run("return document.getElementById('cell').dataset.value;")?;
        let number = items[row as usize * 180 + column as usize] as f32;
        let told = told.as_str().context("no value")?;
        ensure!(told.parse::<f32>()? == number, "{position}: {told} instead of {number}");
    }
    Ok(())
}

/// The marks of an axis: text, and the place of its middle along the picture, from 0 to 1.
fn marks(bench: &Bench, id: &str) -> Result<Vec<(String, f64)>> {
    let found = bench.page.run(&format!(
        "const p = document.getElementById('picture').getBoundingClientRect(); \
         return [...document.querySelectorAll('#{id} span')].map((span) => {{ const b = span.getBoundingClientRect(); \
             return [span.textContent, {}]; }});",
        match id {
            "down" => "((b.top + b.bottom) / 2 - p.top) / p.height",
            _ => "((b.left + b.right) / 2 - p.left) / p.width",
        }
    ))?;
    let marks = found.as_array().context("no marks")?.iter();
    marks
        .map(|mark| Some((mark[0].as_str()?.to_owned(), mark[1].as_f64()?)))
        .collect::<Option<_>>()
        .context("no mark")
}

/// Checks that numbers are beside their items: those of `first + step * k` beside the `k`-th of `len`.
fn are_beside(bench: &Bench, id: &str, [first, step, len]: [f64; 3]) -> Result<()> {
    let marks = marks(bench, id)?;
    ensure!(marks.len() > 1, "{id}: {marks:?}");
    for (text, place) in &marks {
        let expected = ((text.parse::<f64>()? - first) / step + 0.5) / len;
        // Half a pixel of a picture of 180.
        ensure!((place - expected).abs() < 0.003, "{id}: {text} at {place} instead of {expected}");
    }
    Ok(())
}

fn axes_have_coordinates(bench: &Bench) -> Result<()> {
    let arrays = data::with_coordinates()?;
    // Without arrays beside it: items.
    bench.show(&bench.files.put("sst.b2nd", arrays[0].1.clone()), "&slice=3")?;
    bench.page.state("shown")?;
    are_beside(bench, "across", [0.0, 1.0, 180.0])?;
    are_beside(bench, "down", [0.0, 1.0, 90.0])?;
    ensure!(bench.page.text("down")?.starts_with("lat"), "{}", bench.page.text("down")?);
    let folder = root::temporary("coordinates-")?;
    for layout in [b2_store::Layout::Archive, b2_store::Layout::Frame] {
        let path = folder.path().join("store");
        data::group(&path, layout, &arrays)?;
        let url = bench.files.put("store", std::fs::read(&path)?);
        std::fs::remove_file(&path)?;
        bench.show(&url, "&key=/ocean/sst&slice=3")?;
        coordinates_are_shown(bench).with_context(|| format!("{layout:?}"))?;
    }
    // Files in a folder, of which one has too few items.
    for (name, bytes) in &arrays {
        std::fs::write(folder.path().join(format!("{name}.b2nd")), bytes)?;
    }
    std::fs::write(folder.path().join("time.b2nd"), data::array([3], &[1_i32, 2, 3])?)?;
    bench.page.open(&bench.home.url("index.html"))?;
    bench.page.state("empty")?;
    bench.page.pick_in("pick-folder", folder.path())?;
    bench.page.state("shown")?;
    bench.page.run(
        "document.body.dataset.state = ''; \
         [...document.querySelectorAll('#tree button')].find((b) => b.textContent === 'sst.b2nd').click();",
    )?;
    bench.page.state("shown")?;
    are_beside(bench, "across", [1.0, 2.0, 180.0])?;
    focus(bench, "picture")?;
    bench
        .page
        .wait("document.getElementById('cell').textContent.startsWith('time 6, lat 0 (89.0 degrees), ')")
}

/// The month 3 of [`data::with_coordinates`] is shown with coordinates, also after zooming, and as a line.
fn coordinates_are_shown(bench: &Bench) -> Result<()> {
    bench.page.state("shown")?;
    bench.compare(180, &month(3)?, Map::Viridis)?;
    are_beside(bench, "across", [1.0, 2.0, 180.0])?;
    are_beside(bench, "down", [89.0, -2.0, 90.0])?;
    ensure!(bench.page.text("down")?.starts_with("lat, degrees"), "{}", bench.page.text("down")?);
    let (x, y) = place(bench, 44.0, 100.0)?;
    bench.page.point(x, y)?;
    let words = "time 3 (2020-03-31), lat 44 (1.0 degrees), lon 100 (201.0 degrees): ";
    bench.page.wait(&format!("document.getElementById('cell').textContent.startsWith('{words}')"))?;
    focus(bench, "picture")?;
    bench.page.keys("+")?;
    bench
        .page
        .wait("document.getElementById('picture').width === 90 && document.body.dataset.state === 'shown'")?;
    let shown = bench.page.run("return document.getElementById('slice').value;")?;
    let shown = shown.as_str().context("no slice")?.to_owned();
    let start = |part: &str| part.split(':').next().and_then(|text| text.parse::<f64>().ok());
    let starts: Vec<f64> = shown.split(',').filter_map(start).collect();
    let [_, row, column] = starts[..] else { bail!("{shown}") };
    are_beside(bench, "across", [1.0 + 2.0 * column, 2.0, 90.0])?;
    are_beside(bench, "down", [89.0 - 2.0 * row, -2.0, 45.0])?;
    bench.page.run(
        "document.body.dataset.state = ''; const s = document.getElementById('slice'); \
         s.value = ':,3,4'; s.dispatchEvent(new Event('change'));",
    )?;
    bench.page.state("shown")?;
    ensure!(marks(bench, "down")?.is_empty(), "rows of a line");
    let days = marks(bench, "across")?;
    // Days are texts at the items that they are of.
    ensure!(days.len() > 1 && days[0].0 == "2020-01-01", "{days:?}");
    ensure!((days[0].1 - 0.5 / 12.0).abs() < 0.003, "{days:?}");
    Ok(())
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

fn keys_do_all(bench: &Bench) -> Result<()> {
    let url = bench.files.put("sst.b2nd", data::temperature()?);
    bench.page.open(&bench.home.url("index.html"))?;
    bench.page.state("empty")?;
    focus(bench, "url")?;
    bench.page.keys(&url)?;
    bench.page.keys(ENTER)?;
    bench.page.state("shown")?;
    focus(bench, "picture")?;
    let at = |position: &str| {
        bench.page.wait(&format!("document.getElementById('cell').dataset.position === '{position}'"))
    };
    at("6,0,0")?;
    bench.page.keys(&format!("{DOWN}{DOWN}{RIGHT}{RIGHT}{RIGHT}{LEFT}{UP}"))?;
    at("6,1,2")?;
    bench.page.keys(PAGE_DOWN)?;
    bench.page.wait(
        "document.getElementById('slice').value === '7,:,:' && document.body.dataset.state === 'shown'",
    )?;
    bench.compare(180, &month(7)?, Map::Viridis)?;
    bench.page.keys("+")?;
    bench
        .page
        .wait("document.getElementById('picture').width === 90 && document.body.dataset.state === 'shown'")?;
    let month = month(7)?;
    let zoomed: Vec<f64> = (0..45).flat_map(|row| month[row * 180 + 1..row * 180 + 91].to_vec()).collect();
    ensure!(
        bench.page.run("return document.getElementById('slice').value;")? == json!("7,0:45,1:91")
            || bench.compare(90, &zoomed, Map::Viridis).is_err(),
        "the slice is not that of the picture"
    );
    bench.page.keys("0")?;
    bench.page.wait(
        "document.getElementById('picture').width === 180 && document.body.dataset.state === 'shown'",
    )?;
    focus(bench, "tab-picture")?;
    bench.page.keys(RIGHT)?;
    bench.page.wait("document.body.dataset.chunks === '4'")?;
    ensure!(
        bench.page.run("return document.activeElement.id;")? == json!("tab-chunks"),
        "the tab has no focus"
    );
    Ok(())
}

fn link_shows_the_same(bench: &Bench) -> Result<()> {
    let url = bench.files.put("sst.b2nd", data::temperature()?);
    bench.show(&url, "&slice=:,10:50,-100:&map=cividis&dims=2,1&range=2%25:98%25")?;
    bench.page.state("shown")?;
    let link = bench.page.run("return location.href;")?;
    let (wide, high, pixels) = bench.pixels()?;
    ensure!((wide, high) == (40, 100), "the picture has {wide} x {high} pixels");
    bench.page.open("about:blank")?;
    bench.page.open(link.as_str().context("no link")?)?;
    bench.page.state("shown")?;
    ensure!(bench.pixels()? == (wide, high, pixels), "the link shows another picture");
    let shown = bench
        .page
        .run("return [document.getElementById('slice').value, document.getElementById('map').value];")?;
    ensure!(shown == json!(["6,10:50,80:180", "cividis"]), "{shown}");
    Ok(())
}

/// What was read before the first picture: requests, bytes, rounds.
fn first(bench: &Bench) -> Result<[u64; 3]> {
    bench.page.wait("document.body.dataset.first !== undefined")?;
    let counts: Value = serde_json::from_str(&bench.page.data("first")?)?;
    Ok(["requests", "bytes", "rounds"].map(|name| counts[name].as_u64().unwrap_or(u64::MAX)))
}

fn few_requests(bench: &Bench) -> Result<()> {
    let bytes = data::large(CodecId::ZSTD)?;
    let len = bytes.len() as u64;
    let url = bench.files.put("large.b2nd", bytes);
    bench.files.delay(Duration::from_millis(20));
    bench.files.counts();
    bench.show(&url, "&slice=200")?;
    let [requests, read, rounds] = first(bench)?;
    println!(
        "page: first picture of {len} bytes over 20 ms: {requests} requests, {read} bytes, {rounds} rounds"
    );
    bench.page.state("shown")?;
    ensure!(rounds <= 5, "{rounds} rounds");
    ensure!(read < len / 4, "{read} bytes of {len}");
    let counted = bench.files.counts();
    let told: u64 = bench.page.data("requests")?.parse()?;
    ensure!(counted.requests == told, "{} requests, the page tells {told}", counted.requests);
    for head in bench.files.heads() {
        ensure!(!head.starts_with("OPTIONS"), "the browser had to ask first: {head}");
        ensure!(!head.to_lowercase().contains("bytes=-"), "a suffix was requested: {head}");
    }
    Ok(())
}

fn planes_are_exact(bench: &Bench) -> Result<()> {
    let url = bench.files.put("large.b2nd", data::large(CodecId::LZ4)?);
    let items = data::large_items();
    let [_, n1, n2] = data::LARGE.map(|n| n as usize);
    let at = |i: usize, j: usize, k: usize| f64::from(items[(i * n1 + j) * n2 + k]);
    // Parts that are not thinned: one pixel for each item.
    for (more, width, numbers) in [
        (
            "&slice=7,:300,20:200",
            180,
            (0..300).flat_map(|j| (20..200).map(move |k| (7, j, k))).collect::<Vec<_>>(),
        ),
        (
            "&slice=::-1,33,100:&dims=0,2",
            156,
            (0..400).rev().flat_map(|i| (100..256).map(move |k| (i, 33, k))).collect(),
        ),
        (
            "&slice=0:100:3,:200,255&dims=1,0",
            34,
            (0..200).flat_map(|j| (0..100).step_by(3).map(move |i| (i, j, 255))).collect(),
        ),
    ] {
        bench.show(&url, more)?;
        bench.page.state("shown")?;
        let numbers: Vec<f64> = numbers.into_iter().map(|(i, j, k)| at(i, j, k)).collect();
        bench.compare(width, &numbers, Map::Viridis).with_context(|| more.to_owned())?;
    }
    Ok(())
}

fn other_kinds(bench: &Bench) -> Result<()> {
    let line: Vec<i16> = (0..5000).map(|k| (k % 700) as i16 - 350).collect();
    let url = bench.files.put("line.b2nd", data::array([5000], &line)?);
    bench.show(&url, "")?;
    bench.page.state("shown")?;
    ensure!(bench.page.text("low")? == "-350" && bench.page.text("high")? == "349", "the range of the line");
    ensure!(bench.page.text("cell")?.is_empty(), "the cursor was not moved");
    focus(bench, "picture")?;
    bench.page.keys(&format!("{RIGHT}{RIGHT}"))?;
    bench.page.wait("document.getElementById('cell').dataset.value === '-348'")?;
    let url = bench.files.put("plain.b2frame", data::frame(&(0..200_000_u32).collect::<Vec<_>>())?);
    bench.show(&url, "")?;
    bench.page.state("shown")?;
    ensure!(
        bench.page.text("high")? == "199999",
        "the range of the super-chunk: {}",
        bench.page.text("high")?
    );
    let url = bench.files.put("records.b2nd", data::records()?);
    bench.show(&url, "&field=speed")?;
    bench.page.state("shown")?;
    ensure!(bench.page.text("high")? == "99.5", "the range of the field");
    bench.show(&url, "&field=name")?;
    bench.page.state("problem")?;
    ensure!(bench.page.text("problem")?.contains("not drawn"), "{}", bench.page.text("problem")?);
    Ok(())
}

fn stores_are_trees(bench: &Bench) -> Result<()> {
    let folder = root::temporary("store-")?;
    for (layout, name) in [(b2_store::Layout::Archive, "store.b2z"), (b2_store::Layout::Frame, "store.b2e")] {
        let path = folder.path().join(name);
        data::store(&path, layout)?;
        let bytes = std::fs::read(&path)?;
        let url = bench.files.put(name, bytes);
        bench.show(&url, "&key=/ocean/sst&slice=3")?;
        bench.page.state("shown")?;
        bench.compare(180, &month(3)?, Map::Viridis).context(name)?;
        let members = bench
            .page
            .run("return [...document.querySelectorAll('#tree button')].map((b) => b.textContent);")?;
        ensure!(members == json!(["/depth", "/ocean/sst"]), "{members}");
        bench.page.run("document.querySelector('#tree button').click();")?;
        bench.page.wait("document.getElementById('facts').textContent.includes('shape64') && document.body.dataset.state === 'shown'")?;
        bench.show(&url, "&key=/nothing")?;
        bench.page.wait("document.getElementById('tree').children.length === 2 && document.body.dataset.state === 'shown'")?;
        bench.page.wait(
            "document.getElementById('problem').textContent === 'there is no member /nothing in this store'",
        )?;
    }
    Ok(())
}

fn chunks_are_mapped(bench: &Bench) -> Result<()> {
    let mut items = vec![0_f32; 64 * 64];
    items[..64 * 16].iter_mut().enumerate().for_each(|(k, x)| *x = (k as f32).sin());
    let url = bench.files.put("chunks.b2nd", data::cut([64, 64], [16, 16], &items)?);
    bench.show(&url, "")?;
    bench.page.state("shown")?;
    bench.page.run("document.getElementById('tab-chunks').click();")?;
    bench.page.wait("document.body.dataset.chunks === '16'")?;
    let told = bench.page.text("chunk-summary")?;
    ensure!(told.starts_with("16 chunks, of them 12 zeros."), "{told}");
    let colours = bench.page.run(
        "const c = document.getElementById('chunks'); const p = (x, y) => [...c.getContext('2d').getImageData(x, y, 1, 1).data]; \
         const side = c.width / 4; return [c.height, c.width, p(2, 2), p(2, side + 2)];",
    )?;
    ensure!(colours[0] == colours[1] && colours[3] == json!([86, 180, 233, 255]), "{colours}");
    let grey = &colours[2];
    ensure!(grey[0] == grey[1] && grey[1] == grey[2], "a stored chunk is grey: {colours}");
    Ok(())
}

fn wait_for(path: &Path) -> Result<Vec<u8>> {
    for _ in 0..600 {
        if let Ok(bytes) = std::fs::read(path) {
            return Ok(bytes);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("{} was not saved", path.display())
}

fn selections_are_saved(bench: &Bench) -> Result<()> {
    let url = bench.files.put("sst.b2nd", data::temperature()?);
    bench.show(&url, "&slice=3,10:50:2,::-1")?;
    bench.page.state("shown")?;
    bench.page.run("document.getElementById('npy').click();")?;
    bench.page.wait("document.body.dataset.saved === 'sst.npy'")?;
    let saved = wait_for(&bench.page.downloads().join("sst.npy"))?;
    let items = month(3)?;
    let expected: Vec<u8> = (10..50)
        .step_by(2)
        .flat_map(|row| (0..180).rev().map(move |column| (row, column)))
        .flat_map(|(row, column)| (items[row * 180 + column] as f32).to_le_bytes())
        .collect();
    ensure!(
        saved.starts_with(b"\x93NUMPY") && saved.ends_with(&expected) && saved.len() == expected.len() + 128,
        "the items saved"
    );
    let head = String::from_utf8_lossy(&saved[..128]).into_owned();
    ensure!(head.contains("'<f4'") && head.contains("(20, 180)"), "{head}");
    let (wide, high, pixels) = bench.pixels()?;
    bench.page.run("document.getElementById('png').click();")?;
    bench.page.wait("document.body.dataset.saved === 'sst.png'")?;
    let saved = wait_for(&bench.page.downloads().join("sst.png"))?;
    let mut reader = png::Decoder::new(std::io::Cursor::new(saved)).read_info()?;
    let mut found = vec![0; reader.output_buffer_size().context("too large")?];
    let info = reader.next_frame(&mut found)?;
    let samples = info.color_type.samples();
    let found: Vec<[u8; 3]> =
        found[..info.buffer_size()].chunks_exact(samples).map(|p| [p[0], p[1], p[2]]).collect();
    ensure!(
        (info.width as usize, info.height as usize) == (wide, high) && found == pixels,
        "the picture saved"
    );
    Ok(())
}

/// What a page must not take for HTML.
const EVIL: &str = "<img src=x onerror=\"window.evil=1\"><script>window.evil=1</script>";

fn texts_are_texts(bench: &Bench) -> Result<()> {
    let url = bench.files.put("evil%3Cb%3E.b2nd", data::evil(EVIL)?);
    bench.show(&url, "")?;
    bench.page.state("shown")?;
    bench.page.run("document.getElementById('layers').open = true;")?;
    let folder = root::temporary("store-")?;
    let path = folder.path().join("evil.b2e");
    data::evil_store(&path)?;
    let told = bench.page.run("return document.body.innerText;")?;
    ensure!(
        told.as_str().is_some_and(|text| text.contains("<img src=x onerror=")),
        "the text is not shown: {told}"
    );
    let url = bench.files.put("evil.b2e", std::fs::read(&path)?);
    bench.show(&url, "")?;
    bench.page.state("shown")?;
    ensure!(bench.page.text("tree")?.contains("<b onclick=x>"), "{}", bench.page.text("tree")?);
    let found = bench
        .page
        .run("return [window.evil ?? 0, document.images.length, document.querySelectorAll('b').length];")?;
    ensure!(found == json!([0, 0, 0]), "{found}");
    Ok(())
}

/// The page says these words, and then opens a good file.
fn told(bench: &Bench, url: &str, words: &str) -> Result<()> {
    bench.show(url, "")?;
    bench.page.state("problem")?;
    let told = bench.page.text("problem")?;
    ensure!(told.contains(words), "{words}: the page says: {told}");
    Ok(())
}

fn refusals_are_told(bench: &Bench) -> Result<()> {
    let url = bench.files.put("sst.b2nd", data::temperature()?);
    told(bench, &bench.files.url("nothing.b2nd"), "no such file")?;
    told(bench, "ftp://example.org/a", "no address of a file")?;
    // A port at which nobody listens.
    let nobody = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
    told(bench, &format!("http://{nobody}/a.b2nd"), "no answer from the server")?;
    let other = bench.files.put("other.html", "<!doctype html><p>hello</p>".repeat(1000));
    told(bench, &other, "web page")?;
    for (name, start, words) in [
        ("other.h5", &b"\x89HDF\r\n\x1a\n"[..], "`b2kit convert`"),
        ("other.npy", b"\x93NUMPY\x01\0", "`b2kit pack`"),
        ("other.nc", b"CDF\x01", "NetCDF 3"),
        ("other.png", b"\x89PNG\r\n\x1a\n", "picture"),
        ("other.gz", b"\x1f\x8b\x08", "gzip"),
    ] {
        let other = bench.files.put(name, [start, &[0; 4000]].concat());
        told(bench, &other, words)?;
    }
    let other = bench.files.put("empty.b2nd", "");
    told(bench, &other, "empty")?;
    bench.files.headers("");
    told(bench, &url, "Access-Control-Allow-Origin")?;
    bench.files.headers("access-control-allow-origin: *\r\n");
    bench.show(&url, "")?;
    bench.page.state("shown")
}

fn misbehaviour_is_told(bench: &Bench) -> Result<()> {
    let url = bench.files.put("sst.b2nd", data::temperature()?);
    let many = 1000;
    for (manner, good, words) in [
        (Manner::Whole, 0, "ranges of bytes"),
        (Manner::Whole, 2, "ranges of bytes"),
        (Manner::Status(500, false), 0, "status 500"),
        (Manner::Status(403, false), 1, "status 403"),
        (Manner::Close, 0, "no answer"),
        (Manner::Noise, 1, ""),
        (Manner::Short, 1, ""),
        (Manner::Long, 1, ""),
        (Manner::Endless, 0, "more bytes"),
        (Manner::Compressed, 0, ""),
        (Manner::Other, 0, ""),
    ] {
        bench.files.spoil(manner.clone(), good, many);
        told(bench, &url, words).with_context(|| format!("{manner:?} after {good}"))?;
    }
    bench.files.spoil(Manner::Good, 0, 0);
    bench.show(&url, "&slice=3")?;
    bench.page.state("shown")?;
    bench.compare(180, &month(3)?, Map::Viridis)
}

fn damaged_files(bench: &Bench) -> Result<()> {
    let good = data::temperature()?;
    bench.files.put("good.b2nd", good.clone());
    bench.page.open(&bench.home.url("index.html"))?;
    bench.page.state("empty")?;
    let mut rng = b2_testkit::Rng::new(27);
    let (mut shown, mut refused) = (0, 0);
    let store = {
        let folder = root::temporary("store-")?;
        let path = folder.path().join("store.b2z");
        data::store(&path, b2_store::Layout::Archive)?;
        std::fs::read(&path)?
    };
    for case in 0..120 {
        let of = if case % 4 == 3 { &store } else { &good };
        let mut bytes = of.clone();
        match case % 3 {
            0 => bytes.truncate(rng.below(of.len())),
            // The header, and the index and trailer at the end, say what is where.
            1 => {
                for _ in 0..rng.within(1..=4) {
                    let at = rng.below(600);
                    let at = if rng.chance(50) { at } else { bytes.len() - 1 - at };
                    bytes[at] = rng.below(256) as u8;
                }
            }
            _ => (0..rng.within(1..=50)).for_each(|_| {
                let at = rng.below(bytes.len());
                bytes[at] ^= 1 << rng.below(8);
            }),
        }
        let url = bench.files.put(&format!("damaged{case}.b2nd"), bytes);
        bench.page.run(&format!(
            "document.body.dataset.state = 'none'; document.getElementById('url').value = '{url}'; \
             document.getElementById('address').requestSubmit();"
        ))?;
        bench
            .page
            .wait("['shown', 'problem', 'store'].includes(document.body.dataset.state)")
            .with_context(|| format!("case {case}"))?;
        match bench.page.data("state")?.as_str() {
            "problem" => {
                ensure!(!bench.page.text("problem")?.is_empty(), "case {case}: nothing is said");
                refused += 1;
            }
            _ => shown += 1,
        }
    }
    println!("page: {refused} damaged files refused, {shown} shown in part or not touched");
    ensure!(refused > 30, "only {refused} were refused");
    let url = bench.files.url("good.b2nd");
    bench.page.run(&format!(
        "document.body.dataset.state = 'none'; document.getElementById('url').value = '{url}'; \
         document.getElementById('address').requestSubmit();"
    ))?;
    bench.page.state("shown")?;
    bench.compare(180, &month(6)?, Map::Viridis)
}

fn folders_are_opened(bench: &Bench) -> Result<()> {
    let folder = root::temporary("folder-")?;
    let sparse = folder.path().join("inner").join("sparse.b2nd");
    std::fs::create_dir(folder.path().join("inner"))?;
    data::sparse(&sparse)?;
    std::fs::write(folder.path().join("zzz.b2nd"), data::array([70], &[1.5_f32; 70])?)?;
    std::fs::write(folder.path().join("notes.txt"), "no file of ours")?;
    bench.page.open(&bench.home.url("index.html"))?;
    bench.page.state("empty")?;
    bench.page.pick_in("pick-folder", folder.path())?;
    bench.page.state("shown")?;
    bench.compare(180, &month(6)?, Map::Viridis)?;
    let members = "return [...document.querySelectorAll('#tree button')].map((b) => b.textContent);";
    ensure!(
        bench.page.run(members)? == json!(["inner/sparse.b2nd", "zzz.b2nd"]),
        "{}",
        bench.page.run(members)?
    );
    bench.page.run("document.querySelectorAll('#tree button')[1].click();")?;
    bench.page.wait("document.getElementById('facts').textContent.includes('shape70') && document.body.dataset.state === 'shown'")?;
    ensure!(bench.page.run(members)?[0] == json!("inner/sparse.b2nd"), "the list stays");
    // What is dropped has entries to be read, of which an event of a script has none.
    bench.page.run(
        "document.body.dataset.state = ''; const files = [...document.getElementById('pick-folder').files]; \
         const entry = (name, depth, inside) => ({ name, isDirectory: true, createReader() { \
             const names = new Map(); \
             for (const file of inside) { \
                 const parts = file.webkitRelativePath.split('/'); \
                 if (parts.length === depth + 2) names.set(parts[depth + 1], { name: parts[depth + 1], isDirectory: false, file: (ok) => ok(file) }); \
                 else names.set(parts[depth + 1], entry(parts[depth + 1], depth + 1, inside.filter((f) => f.webkitRelativePath.split('/')[depth + 1] === parts[depth + 1]))); \
             } \
             const rest = [...names.values()]; \
             return { readEntries: (ok) => ok(rest.splice(0, 2)) }; } }); \
         const event = new Event('drop', { cancelable: true }); \
         event.dataTransfer = { files: [], items: [{ webkitGetAsEntry: () => entry('dropped', 0, files) }] }; \
         window.dispatchEvent(event);",
    )?;
    bench.page.state("shown")?;
    bench.compare(180, &month(6)?, Map::Viridis)?;
    // By its address: chunks are files beside the index.
    for entry in std::fs::read_dir(&sparse)?.flatten() {
        bench
            .files
            .put(&format!("sparse/{}", entry.file_name().to_string_lossy()), std::fs::read(entry.path())?);
    }
    for url in ["sparse/", "sparse/chunks.b2frame"] {
        bench.show(&bench.files.url(url), "&slice=3")?;
        bench.page.state("shown")?;
        bench.compare(180, &month(3)?, Map::Viridis).context(url)?;
    }
    // The index alone, and a folder without files of ours.
    bench.page.open(&bench.home.url("index.html"))?;
    bench.page.state("empty")?;
    bench.page.pick(&sparse.join("chunks.b2frame"))?;
    bench.page.state("problem")?;
    let told = bench.page.text("problem")?;
    ensure!(told.contains("open the folder"), "{told}");
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty)?;
    std::fs::write(empty.join("notes.txt"), "no file of ours")?;
    bench.page.pick_in("pick-folder", &empty)?;
    bench.page.wait("document.getElementById('problem').textContent.includes('no file in this folder')")?;
    let serving = serve(&sparse, &["--slice=3"])?;
    bench.page.open(&serving.address)?;
    bench.page.state("shown")?;
    bench.compare(180, &month(3)?, Map::Viridis)
}

/// An engine that never returns from its first command: room for input, and a loop.
const ENDLESS: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x0a\x02\x60\x01\x7f\x01\x7f\x60\x01\x7f\0\
    \x03\x03\x02\0\x01\
    \x05\x03\x01\0\x01\
    \x07\x1f\x03\x06memory\x02\0\x08b2_input\0\0\x07b2_call\0\x01\
    \x0a\x0f\x02\x05\0\x41\x80\x08\x0b\x07\0\x03\x40\x0c\0\x0b\x0b";

fn long_decoding_is_stopped(bench: &Bench) -> Result<()> {
    let url = bench.files.put("sst.b2nd", data::temperature()?);
    let good = std::fs::read(folder("page").join("engine.wasm"))?;
    bench.home.put("engine.wasm", ENDLESS);
    bench.show(&url, "&slice=3")?;
    bench.page.wait("!document.getElementById('slow').hidden")?;
    let told = bench.page.text("slow-text")?;
    ensure!(told.starts_with("Still decoding, for ") && told.contains("seconds"), "{told}");
    // The page itself is alive, and the time goes on.
    bench.page.wait(&format!("document.getElementById('slow-text').textContent !== '{told}'"))?;
    focus(bench, "stop")?;
    bench.home.put("engine.wasm", good);
    bench.page.keys(ENTER)?;
    bench.page.state("problem")?;
    let told = bench.page.text("problem")?;
    ensure!(told.contains("was stopped"), "{told}");
    bench.page.wait("document.getElementById('slow').hidden")?;
    bench
        .page
        .run("document.body.dataset.state = ''; document.getElementById('address').requestSubmit();")?;
    bench.page.state("shown")?;
    bench.compare(180, &month(6)?, Map::Viridis)
}

fn incomplete_page(bench: &Bench) -> Result<()> {
    let url = bench.files.put("sst.b2nd", data::temperature()?);
    for engine in ["", "\0asm and no more"] {
        bench.home.put("engine.wasm", engine);
        bench.home.counts();
        bench.show(&url, "")?;
        bench.page.state("problem")?;
        let told = bench.page.text("problem")?;
        ensure!(told.contains("does not start"), "{told}");
        ensure!(bench.home.counts().requests < 10, "it tries again and again");
    }
    Ok(())
}

/// The command, which is stopped when this is dropped.
struct Serving {
    child: Child,
    address: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(path: &Path, more: &[&str]) -> Result<Serving> {
    let mut command = Command::new(build::program());
    command.args(["view", "--web", "--no-open", "--quiet"]).args(more).arg(path).stdout(Stdio::piped());
    let mut child = command.spawn().context("b2kit does not start")?;
    let mut address = String::new();
    BufReader::new(child.stdout.take().context("no pipe")?).read_line(&mut address)?;
    let serving = Serving { child, address: address.trim().to_owned() };
    ensure!(serving.address.starts_with("http://127.0.0.1:"), "{address}");
    Ok(serving)
}

fn command_serves(bench: &Bench) -> Result<()> {
    let path = write(bench, "a b.b2nd", &data::temperature()?)?;
    let serving = serve(&path, &["--slice=3"])?;
    bench.page.open(&serving.address)?;
    bench.page.state("shown")?;
    bench.compare(180, &month(3)?, Map::Viridis)?;
    ensure!(bench.page.text("title")? == "a b.b2nd", "the title");
    drop(serving);
    // From a server that lets no other pages read its files: the command reads them for the page.
    bench.files.headers("");
    let url = bench.files.put("sst.b2nd", data::temperature()?);
    let serving = serve(Path::new(&url), &[])?;
    bench.page.open(&serving.address)?;
    bench.page.state("shown")?;
    bench.compare(180, &month(6)?, Map::Viridis)?;
    drop(serving);
    let folder = root::temporary("served-")?;
    std::fs::create_dir(folder.path().join("inner"))?;
    std::fs::write(folder.path().join("inner").join("sst.b2nd"), data::temperature()?)?;
    data::store(&folder.path().join("store.b2z"), b2_store::Layout::Archive)?;
    let serving = serve(folder.path(), &[])?;
    bench.page.open(&serving.address)?;
    bench.page.wait("document.querySelectorAll('li a').length === 2")?;
    bench.page.run("document.querySelector('li a').click();")?;
    bench.page.state("shown")?;
    bench.compare(180, &month(6)?, Map::Viridis)
}

fn page_holds_the_file(bench: &Bench) -> Result<()> {
    let path = write(bench, "<b>sst.b2nd", &data::temperature()?)?;
    let html = bench.page.downloads().join("out.html");
    let mut command = Command::new(build::program());
    command.args(["view", "--slice=3", "--html"]).arg(&html).arg(&path);
    crate::sh::output(&mut command)?;
    bench.page.open(&format!("file://{}", html.canonicalize()?.display()))?;
    bench.page.state("shown")?;
    bench.compare(180, &month(3)?, Map::Viridis)?;
    ensure!(bench.page.text("title")? == "<b>sst.b2nd", "the title");
    let large = write(bench, "large.b2nd", &data::large(CodecId::LZ4)?)?;
    let mut command = Command::new(build::program());
    let failed = crate::sh::output(command.args(["view", "--force", "--html"]).arg(&html).arg(&large));
    let told = failed.err().context("a large file was put inside")?.to_string();
    ensure!(told.contains("at most 67108864"), "{told}");
    Ok(())
}

fn everything_has_a_name(bench: &Bench) -> Result<()> {
    let url = bench.files.put("sst.b2nd", data::temperature()?);
    bench.show(&url, "")?;
    bench.page.state("shown")?;
    let tree = bench.page.chromium("Accessibility.getFullAXTree", &json!({}))?;
    let mut named = 0;
    for node in tree["nodes"].as_array().context("no tree")? {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        let demanding =
            ["button", "textbox", "combobox", "slider", "spinbutton", "checkbox", "tab", "image", "img"];
        if node["ignored"] == json!(false) && demanding.contains(&role) {
            let name = node["name"]["value"].as_str().unwrap_or_default();
            ensure!(!name.is_empty(), "a {role} has no name: {node}");
            named += 1;
        }
    }
    ensure!(named > 15, "only {named} elements");
    let labels = bench.page.run("return document.getElementById('picture').getAttribute('aria-label');")?;
    ensure!(labels.as_str().is_some_and(|label| label.contains("values from")), "{labels}");
    Ok(())
}

fn small_and_dark(bench: &Bench) -> Result<()> {
    let url = bench.files.put("sst.b2nd", data::temperature()?);
    let paper = |bench: &Bench| bench.page.run("return getComputedStyle(document.body).backgroundColor;");
    bench.show(&url, "&slice=3")?;
    bench.page.state("shown")?;
    ensure!(paper(bench)? == json!("rgb(255, 255, 255)"), "it is not light");
    let dark = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
    bench.page.chromium("Emulation.setEmulatedMedia", &dark)?;
    ensure!(paper(bench)? == json!("rgb(20, 23, 26)"), "it is not dark");
    bench.page.screenshot(&bench.shots.join("dark.png"))?;
    let small = json!({ "width": 360, "height": 640, "deviceScaleFactor": 2, "mobile": true });
    bench.page.chromium("Emulation.setDeviceMetricsOverride", &small)?;
    bench.show(&url, "&slice=3")?;
    bench.page.state("shown")?;
    let wide = bench.page.run("return [document.documentElement.scrollWidth, innerWidth];")?;
    ensure!(wide[0].as_u64() <= wide[1].as_u64(), "wider than the screen: {wide}");
    bench.compare(180, &month(3)?, Map::Viridis)
}

/// Draws the pictures of the documentation.
pub(super) fn images(page: &Path, browser: &Browser) -> Result<()> {
    let images = root::workspace().join("docs").join("images");
    let dark = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
    for (name, size, scheme) in [("page.png", [1000, 900], None), ("page_small.png", [420, 800], Some(dark))]
    {
        let bench = Bench::start(page, browser, size, &images)?;
        if let Some(scheme) = &scheme {
            bench.page.chromium("Emulation.setEmulatedMedia", scheme)?;
        }
        let url = bench.files.put("sst.b2nd", data::temperature()?);
        bench.show(&url, "&slice=0,::-1")?;
        bench.page.state("shown")?;
        // The port of the server differs from run to run.
        bench.page.run("document.getElementById('url').value = 'https://example.org/sst.b2nd';")?;
        let (x, y) = place(&bench, 40.0, 60.0)?;
        bench.page.point(x, y)?;
        bench.page.wait("document.getElementById('cell').dataset.position === '0,49,60'")?;
        bench.page.run("scrollTo(0, 0);")?;
        bench.page.screenshot(&images.join(name))?;
        println!("{}", images.join(name).display());
    }
    Ok(())
}

/// Decodes the file at `url` five times as the page does, in its process, without copying the result.
const DECODE: &str = r#"
    const wasm = (await WebAssembly.instantiate(await (await fetch('engine.wasm')).arrayBuffer(), {})).instance.exports;
    const file = new Uint8Array(await (await fetch('URL')).arrayBuffer());
    const input = (bytes) => {
        const at = wasm.b2_input(bytes.length);
        new Uint8Array(wasm.memory.buffer, at, bytes.length).set(bytes);
    };
    const call = (command) => {
        input(new TextEncoder().encode(command));
        wasm.b2_call(1);
        for (;;) {
            const kind = wasm.b2_next();
            if (kind === 0) continue;
            const text = new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, wasm.b2_json(), wasm.b2_json_len()));
            const message = JSON.parse(text);
            if (kind !== 1) return message.answer;
            input(file.subarray(message.start, message.end));
            wasm.b2_answer(message.read, 0, file.length, 0, 0);
        }
    };
    call('open\nfile=1\nname=x');
    let best = Infinity;
    for (let n = 0; n < 5; n += 1) {
        const begun = performance.now();
        for (let part = 0; call(`npy\nhandle=1\nslice=\npart=${part}`).more; part += 1);
        best = Math.min(best, performance.now() - begun);
    }
    return best / 1000;
"#;

/// Measures what is not a test: the speed of decoding in the browser, and in native code with the same crates.
pub(super) fn bench(page: &Path, browser: &Browser) -> Result<()> {
    for codec in [CodecId::ZSTD, CodecId::LZ4] {
        let bytes = data::rows(codec)?;
        let bench = Bench::start(page, browser, [1000, 900], &folder("screenshots"))?;
        let file = write(&bench, "rows.b2nd", &bytes)?;
        let native: f64 = build::native_speed(&file)?;
        bench.files.put("rows.b2nd", bytes);
        bench.page.open(&bench.home.url("index.html"))?;
        bench.page.state("empty")?;
        let script = DECODE.replace("URL", &bench.files.url("rows.b2nd"));
        let there = bench.page.run(&script)?.as_f64().context("no time")?;
        let nbytes = f64::from(1_u32 << 22) * 39.0;
        println!(
            "page: {codec}: {:.0} MB/s in the browser, {:.0} MB/s in native code on one thread: {:.2}",
            nbytes / there / 1e6,
            nbytes / native / 1e6,
            native / there
        );
    }
    Ok(())
}
