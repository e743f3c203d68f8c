//! Axes, and the coordinates along them.

use anyhow::{Context, Result, bail, ensure};
use b2_view::colours::Map;

use super::{Bench, focus, month, place};
use crate::root;
use crate::web::data;

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

pub(super) fn axes_have_coordinates(bench: &Bench) -> Result<()> {
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
