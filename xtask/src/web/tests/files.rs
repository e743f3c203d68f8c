//! Folders, files that are saved, and the command that serves the page.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use b2_chunk::CodecId;
use b2_view::colours::Map;
use serde_json::json;

use super::{Bench, month, write};
use crate::root;
use crate::web::{build, data};

fn wait_for(path: &Path) -> Result<Vec<u8>> {
    for _ in 0..600 {
        if let Ok(bytes) = std::fs::read(path) {
            return Ok(bytes);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("{} was not saved", path.display())
}

pub(super) fn selections_are_saved(bench: &Bench) -> Result<()> {
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

pub(super) fn folders_are_opened(bench: &Bench) -> Result<()> {
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

pub(super) fn command_serves(bench: &Bench) -> Result<()> {
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

pub(super) fn page_holds_the_file(bench: &Bench) -> Result<()> {
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
