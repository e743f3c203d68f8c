//! What the page shows.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use b2_chunk::CodecId;
use b2_view::colours::Map;
use serde_json::{Value, json};

use super::{Bench, DOWN, ENTER, LEFT, PAGE_DOWN, RIGHT, UP, focus, month, place, write};
use crate::root;
use crate::web::data;

pub(super) fn address_is_drawn(bench: &Bench) -> Result<()> {
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

pub(super) fn files_are_picked_and_dropped(bench: &Bench) -> Result<()> {
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

pub(super) fn cursor_tells_items(bench: &Bench) -> Result<()> {
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

pub(super) fn keys_do_all(bench: &Bench) -> Result<()> {
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

pub(super) fn link_shows_the_same(bench: &Bench) -> Result<()> {
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

pub(super) fn few_requests(bench: &Bench) -> Result<()> {
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

pub(super) fn planes_are_exact(bench: &Bench) -> Result<()> {
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

pub(super) fn other_kinds(bench: &Bench) -> Result<()> {
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

pub(super) fn stores_are_trees(bench: &Bench) -> Result<()> {
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

pub(super) fn chunks_are_mapped(bench: &Bench) -> Result<()> {
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

pub(super) fn everything_has_a_name(bench: &Bench) -> Result<()> {
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

pub(super) fn small_and_dark(bench: &Bench) -> Result<()> {
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
