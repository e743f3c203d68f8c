"""Not a test: `pytest crates/apps/b2-wasm/tests/figures.py` draws docs/images/page*.png, and with -s prints speeds."""

import subprocess

import pytest
from conftest import ROOT

# Decodes a file five times as the page does, without copying the result; returns seconds.
DECODE = """async (url) => {
    const wasm = (await WebAssembly.instantiate(await (await fetch("engine.wasm")).arrayBuffer(), {})).instance.exports;
    const file = new Uint8Array(await (await fetch(url)).arrayBuffer());
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
    call("open\\nfile=1\\nname=x");
    let best = Infinity;
    for (let n = 0; n < 5; n += 1) {
        const begun = performance.now();
        for (let part = 0; call(`npy\\nhandle=1\\nslice=\\npart=${part}`).more; part += 1);
        best = Math.min(best, performance.now() - begun);
    }
    return best / 1000;
}"""


@pytest.mark.parametrize("name, width, height, scheme", [("page", 1000, 900, "light"), ("page_small", 420, 800, "dark")])
def test_pictures_of_the_documentation(bench, sst, name, width, height, scheme):
    bench.page.set_viewport_size({"width": width, "height": height})
    bench.page.emulate_media(color_scheme=scheme)
    bench.open(sst, slice="0,::-1")
    # The port of the server differs from run to run.
    bench.page.evaluate("document.getElementById('url').value = 'https://example.org/sst.b2nd'")
    bench.point(40, 60)
    bench.at("0,49,60")
    bench.page.evaluate("scrollTo(0, 0)")
    bench.page.screenshot(path=ROOT / "docs" / "images" / f"{name}.png")


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_speed_of_decoding(bench, waves, codec):
    rows = waves.ravel()[: 39 << 20].reshape(39, 1 << 20)
    path = bench.pack("rows.b2nd", rows, "--chunks=1,1048576", "--blocks=1,65536", f"--codec={codec}", "--clevel=5")
    words = ["cargo", "run", "--quiet", "--locked", "--release", "-p", "b2-wasm", "--example", "speed", "--", path]
    native = float(subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout)
    bench.open()
    there = bench.page.evaluate(DECODE, bench.files.url("rows.b2nd"))
    speeds = rows.nbytes / there / 1e6, rows.nbytes / native / 1e6
    print(f"{codec}: {speeds[0]:.0f} of {speeds[1]:.0f} MB/s of native code on one thread: {native / there:.2f}")
