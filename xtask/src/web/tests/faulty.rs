//! Files, servers and pages that are not as they should be.

use anyhow::{Context, Result, ensure};
use b2_testkit::web::Manner;
use b2_view::colours::Map;
use serde_json::json;

use super::{Bench, ENTER, focus, month};
use crate::root;
use crate::web::data;
use crate::web::place::folder;

/// What a page must not take for HTML.
const EVIL: &str = "<img src=x onerror=\"window.evil=1\"><script>window.evil=1</script>";

pub(super) fn texts_are_texts(bench: &Bench) -> Result<()> {
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

pub(super) fn refusals_are_told(bench: &Bench) -> Result<()> {
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

pub(super) fn misbehaviour_is_told(bench: &Bench) -> Result<()> {
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

pub(super) fn damaged_files(bench: &Bench) -> Result<()> {
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

/// An engine that never returns from its first command: room for input, and a loop.
const ENDLESS: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x0a\x02\x60\x01\x7f\x01\x7f\x60\x01\x7f\0\
    \x03\x03\x02\0\x01\
    \x05\x03\x01\0\x01\
    \x07\x1f\x03\x06memory\x02\0\x08b2_input\0\0\x07b2_call\0\x01\
    \x0a\x0f\x02\x05\0\x41\x80\x08\x0b\x07\0\x03\x40\x0c\0\x0b\x0b";

pub(super) fn long_decoding_is_stopped(bench: &Bench) -> Result<()> {
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

pub(super) fn incomplete_page(bench: &Bench) -> Result<()> {
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
