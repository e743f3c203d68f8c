//! What is no test: pictures of the documentation, and measurements.

use std::path::Path;

use anyhow::{Context, Result};
use b2_chunk::CodecId;
use serde_json::json;

use super::{Bench, place, write};
use crate::root;
use crate::web::chromium::Browser;
use crate::web::place::folder;
use crate::web::{build, data};

/// Draws the pictures of the documentation.
pub(in crate::web) fn images(page: &Path, browser: &Browser) -> Result<()> {
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
pub(in crate::web) fn bench(page: &Path, browser: &Browser) -> Result<()> {
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
