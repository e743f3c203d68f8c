"""Tests of the page in Chromium: `pytest crates/apps/b2-wasm/tests`, with the packages of .ci/requirements.txt."""

import base64
import io
import shutil
import socket
import subprocess

import blosc2
import numpy as np
import pytest

# Texts that must not be interpreted as HTML.
EVIL = '<img src=x onerror="window.evil=1"><script>window.evil=1</script>'
# An engine that never returns from its first command: space for input, and a loop.
ENDLESS = (
    b"\0asm\x01\0\0\0\x01\x0a\x02\x60\x01\x7f\x01\x7f\x60\x01\x7f\0\x03\x03\x02\0\x01\x05\x03\x01\0\x01"
    b"\x07\x1f\x03\x06memory\x02\0\x08b2_input\0\0\x07b2_call\0\x01\x0a\x0f\x02\x05\0\x41\x80\x08\x0b\x07\0\x03\x40\x0c\0\x0b\x0b"
)


def store(bench, name, members):
    """Writes a store of python-blosc2, and serves it."""
    path = bench.folder / name
    path.unlink(missing_ok=True)
    if name.endswith(".b2z"):
        with blosc2.TreeStore(str(path), mode="w") as made:
            for key, value in members.items():
                made[key] = value
    else:
        made = blosc2.EmbedStore(str(path), mode="w")
        for key, value in members.items():
            made[key] = value
    bench.files.put(name, path.read_bytes())
    return path


def with_attributes(items, **attributes):
    array = blosc2.asarray(items)
    for name, value in attributes.items():
        array.schunk.vlmeta[name] = value
    return array


def members(bench):
    return bench.page.locator("#tree button").all_inner_texts()


def test_an_address_is_drawn_exactly(bench, sst, months):
    bench.open(sst, slice=3)
    bench.shows(months[3])
    assert "12 × 90 × 180" in bench.text("facts")


def test_files_are_picked_and_dropped_and_never_read_whole(bench, sst, months, large):
    bench.open()
    bench.page.set_input_files("#pick", bench.folder / sst)
    bench.shows(months[6])
    # A dropped file is treated like a picked one.
    bench.page.evaluate("addEventListener('change', (event) => event.stopImmediatePropagation(), true)")
    bench.page.set_input_files("#pick", large)
    bench.again("""
        const files = new DataTransfer();
        files.items.add(document.getElementById("pick").files[0]);
        window.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));""")
    bench.state("shown")
    assert bench.text("title") == "large.b2nd"
    assert int(bench.data("bytes")) < large.stat().st_size / 4


def test_the_cursor_says_the_items(bench, sst, months):
    bench.open(sst, slice=3)
    for row, column in [(0, 0), (44, 20), (45, 25), (60, 100), (89, 179)]:
        bench.point(row, column)
        bench.at(f"3,{row},{column}")
        assert np.float32(bench.page.get_attribute("#cell", "data-value")) == months[3, row, column]


def marks(bench, axis):
    """The marks of an axis: text, and the position of its middle along the picture, from 0 to 1."""
    return bench.page.evaluate("""(axis) => {
        const p = document.getElementById("picture").getBoundingClientRect();
        return [...document.querySelectorAll(`#${axis} span`)].map((span) => {
            const b = span.getBoundingClientRect();
            return [span.textContent, axis === "down" ? ((b.top + b.bottom) / 2 - p.top) / p.height : ((b.left + b.right) / 2 - p.left) / p.width];
        });
    }""", axis)


def assert_marks(bench, axis, first, step, count):
    """Numbers are next to their items: those of `first + step * k` next to the k-th of `count`."""
    found = marks(bench, axis)
    assert len(found) > 1
    for text, place in found:
        # Half a pixel of a picture of 180.
        assert abs(place - ((float(text) - first) / step + 0.5) / count) < 0.003, (axis, found)


def coordinates(months):
    """The months with names of dimensions, and arrays with coordinates of these names."""
    return {
        "sst": with_attributes(months, _ARRAY_DIMENSIONS=["time", "lat", "lon"]),
        "lat": with_attributes(89.0 - 2 * np.arange(90), units="degrees"),
        "lon": with_attributes(1.0 + 2 * np.arange(180), units="degrees"),
        "time": blosc2.asarray(np.datetime64("2020-01-01") + 30 * np.arange(12)),
    }


@pytest.mark.parametrize("name", ["store.b2z", "store.b2e"])
def test_coordinates_are_along_the_axes_and_at_the_cursor(bench, months, name):
    store(bench, name, {f"/ocean/{key}": array for key, array in coordinates(months).items()})
    bench.open(name, key="/ocean/sst", slice=3)
    bench.shows(months[3])
    assert_marks(bench, "across", 1, 2, 180)
    assert_marks(bench, "down", 89, -2, 90)
    assert bench.text("down").startswith("lat, degrees")
    bench.point(44, 100)
    words = "time 3 (2020-03-31), lat 44 (1.0 degrees), lon 100 (201.0 degrees)"
    bench.wait("document.getElementById('cell').textContent.includes(words)", words=words)
    bench.focus("picture")
    bench.keys("+")
    bench.wait("document.getElementById('picture').width === 90")
    bench.state("shown")
    _, row, column = [int(part.split(":")[0]) for part in bench.value("slice").split(",")]
    assert_marks(bench, "across", 1 + 2 * column, 2, 90)
    assert_marks(bench, "down", 89 - 2 * row, -2, 45)
    bench.page.fill("#slice", ":,3,4")
    bench.again("document.getElementById('slice').dispatchEvent(new Event('change'))")
    bench.state("shown")
    days = marks(bench, "across")
    assert len(days) > 1 and days[0][0] == "2020-01" and abs(days[0][1] - 0.5 / 12) < 0.003, days


def test_coordinates_of_files_in_a_folder(bench, months):
    folder = bench.folder / "folder"
    folder.mkdir()
    arrays = coordinates(months)
    # Too few of them.
    arrays["time"] = blosc2.asarray(np.arange(3))
    for name, array in arrays.items():
        array.save(str(folder / f"{name}.b2nd"), mode="w")
    bench.files.put("sst.b2nd", (folder / "sst.b2nd").read_bytes())
    # Without arrays next to it: items.
    bench.open("sst.b2nd", slice=3)
    assert_marks(bench, "across", 0, 1, 180)
    assert_marks(bench, "down", 0, 1, 90)
    assert bench.text("down").startswith("lat")
    bench.open()
    bench.page.set_input_files("#pick-folder", folder)
    bench.state("shown")
    bench.again("[...document.querySelectorAll('#tree button')].find((b) => b.textContent === 'sst.b2nd').click()")
    bench.state("shown")
    assert_marks(bench, "across", 1, 2, 180)
    bench.focus("picture")
    bench.wait("document.getElementById('cell').textContent.includes('time 6, lat 0 (89.0 degrees), ')")


def test_all_can_be_done_with_keys(bench, sst, months):
    bench.open()
    bench.focus("url")
    bench.page.keyboard.type(bench.files.url(sst))
    bench.keys("Enter")
    bench.state("shown")
    bench.focus("picture")
    bench.at("6,0,0")
    bench.keys("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowUp")
    bench.at("6,1,2")
    bench.keys("PageDown")
    bench.wait("document.getElementById('slice').value === '7,:,:'")
    bench.shows(months[7])
    bench.keys("+")
    bench.wait("document.getElementById('picture').width === 90")
    bench.state("shown")
    rows, columns = [slice(*map(int, part.split(":"))) for part in bench.value("slice").split(",")[1:]]
    bench.shows(months[7, rows, columns])
    bench.keys("0")
    bench.wait("document.getElementById('picture').width === 180")
    bench.state("shown")
    bench.focus("tab-picture")
    bench.keys("ArrowRight")
    bench.wait("document.body.dataset.chunks === '4'")
    assert bench.page.evaluate("document.activeElement.id") == "tab-chunks"


def test_a_link_shows_the_same_view(bench, sst):
    bench.open(sst, slice=":,10:50,-100:", map="cividis", dims="2,1", range="2%25:98%25")
    link, pixels = bench.page.url, bench.pixels()
    assert pixels.shape == (100, 40, 4)
    bench.page.goto("about:blank")
    bench.page.goto(link)
    bench.state("shown")
    np.testing.assert_array_equal(bench.pixels(), pixels)
    assert (bench.value("slice"), bench.value("map")) == ("6,10:50,80:180", "cividis")


def test_few_requests_draw_a_large_array(bench, waves, large):
    path = bench.pack("large.b2nd", waves, "--chunks=100,100,128", "--blocks=25,25,32", "--codec=zstd")
    bench.files.delay = 0.02
    bench.files.requests.clear()
    bench.open("large.b2nd", slice=200)
    first = bench.page.evaluate("JSON.parse(document.body.dataset.first)")
    print(f"first picture of {path.stat().st_size} bytes over 20 ms: {first}")
    assert first["rounds"] <= 5 and first["bytes"] < path.stat().st_size / 4
    assert len(bench.files.requests) == int(bench.data("requests"))
    for method, headers in bench.files.requests:
        assert method != "OPTIONS", "the browser had to ask first"
        assert "=-" not in headers.get("Range", ""), "a suffix was requested"


@pytest.mark.parametrize("more, part", [
    (dict(slice="7,:300,20:200"), lambda a: a[7, :300, 20:200]),
    (dict(slice="::-1,33,100:", dims="0,2"), lambda a: a[::-1, 33, 100:]),
    (dict(slice="0:100:3,:200,255", dims="1,0"), lambda a: a[0:100:3, :200, 255].T),
])
def test_planes_along_all_dimensions_are_exact(bench, waves, large, more, part):
    bench.open("large.b2nd", **more)
    bench.shows(part(waves))


def test_lines_and_super_chunks(bench):
    bench.pack("line.b2nd", (np.arange(5000) % 700 - 350).astype("i2"))
    bench.open("line.b2nd")
    assert (bench.text("low"), bench.text("high"), bench.text("cell")) == ("-350", "349", "")
    bench.focus("picture")
    bench.keys("ArrowRight", "ArrowRight")
    bench.wait("document.getElementById('cell').dataset.value === '-348'")
    frame = blosc2.SChunk(chunksize=200_000, data=np.arange(200_000, dtype="u4"), cparams={"typesize": 4})
    bench.files.put("plain.b2frame", frame.to_cframe())
    bench.open("plain.b2frame")
    assert bench.text("high") == "199999"


def test_records(bench):
    items = np.zeros((10, 20), [("name", "<U4"), ("speed", "<f8")])
    items["speed"] = np.arange(200).reshape(10, 20) / 2
    bench.pack("records.b2nd", items)
    bench.open("records.b2nd", field="speed")
    assert bench.text("high") == "99.5"
    bench.open("records.b2nd", state="problem", field="name")
    assert "cannot be drawn" in bench.text("problem")


@pytest.mark.parametrize("name", ["store.b2z", "store.b2e"])
def test_stores_are_trees(bench, months, name):
    store(bench, name, {"/ocean/sst": blosc2.asarray(months), "/depth": blosc2.asarray(np.arange(64, dtype="f4"))})
    bench.open(name, key="/ocean/sst", slice=3)
    bench.shows(months[3])
    assert members(bench) == ["/depth", "/ocean/sst"]
    bench.again("document.querySelector('#tree button').click()")
    bench.state("shown")
    assert "shape64" in bench.text("facts")
    bench.open(name, key="/nothing")
    assert len(members(bench)) == 2
    bench.wait("document.getElementById('problem').textContent === 'there is no member /nothing in this store'")


def test_chunks_are_mapped(bench):
    items = np.zeros((64, 64), "f4")
    items[:16] = np.sin(np.arange(1024)).reshape(16, 64)
    bench.pack("chunks.b2nd", items, "--chunks=16,16", "--blocks=16,16")
    bench.open("chunks.b2nd")
    bench.page.click("#tab-chunks")
    bench.wait("document.body.dataset.chunks === '16'")
    assert bench.text("chunk-summary").startswith("16 chunks, of them 12 zeros.")
    colours = bench.pixels("chunks")
    side = colours.shape[1] // 4
    assert colours.shape[0] == colours.shape[1] and list(colours[side + 2, 2]) == [86, 180, 233, 255]
    assert len({*colours[2, 2, :3]}) == 1, "a chunk with data is grey"


def test_selections_are_saved(bench, sst, months):
    bench.open(sst, slice="3,10:50:2,::-1")
    with bench.page.expect_download() as download:
        bench.page.click("#npy")
    assert download.value.suggested_filename == "sst.npy"
    saved = np.load(io.BytesIO(download.value.path().read_bytes()))
    assert saved.dtype == months.dtype
    np.testing.assert_array_equal(saved, months[3, 10:50:2, ::-1])
    with bench.page.expect_download() as download:
        bench.page.click("#png")
    assert download.value.suggested_filename == "sst.png"
    png = base64.b64encode(download.value.path().read_bytes()).decode()
    np.testing.assert_array_equal(bench.pixels(f"data:image/png;base64,{png}"), bench.pixels())


def test_texts_are_never_taken_for_html(bench):
    items = np.arange(100, dtype="f4").reshape(10, 10)
    attributes = {"<b onclick=x>name</b>": EVIL, "long_name": EVIL, "_ARRAY_DIMENSIONS": [EVIL, "<b>x</b>"]}
    bench.files.put("evil<b>.b2nd", with_attributes(items, **attributes).to_cframe())
    harmless = "[window.evil ?? 0, document.images.length, document.querySelectorAll('b').length]"
    bench.open(bench.files.url("evil%3Cb%3E.b2nd"))
    bench.page.evaluate("document.getElementById('layers').open = true")
    assert "<img src=x onerror=" in bench.page.inner_text("body")
    assert bench.page.evaluate(harmless) == [0, 0, 0]
    store(bench, "evil.b2e", {"/<b onclick=x>": blosc2.asarray(items)})
    bench.open("evil.b2e")
    assert "<b onclick=x>" in bench.text("tree")
    assert bench.page.evaluate(harmless) == [0, 0, 0]


OTHERS = [
    ("other.html", b"<!doctype html><p>hello</p>" * 1000, "web page"),
    ("other.h5", b"\x89HDF\r\n\x1a\n" + bytes(4000), "`b2kit convert`"),
    ("other.npy", b"\x93NUMPY\x01\0" + bytes(4000), "`b2kit pack`"),
    ("other.nc", b"CDF\x01" + bytes(4000), "NetCDF file"),
    ("other.png", b"\x89PNG\r\n\x1a\n" + bytes(4000), "PNG image"),
    ("other.gz", b"\x1f\x8b\x08" + bytes(4000), "gzip"),
    ("empty.b2nd", b"", "empty"),
    (None, None, "no such file"),
]


@pytest.mark.parametrize("name, content, words", OTHERS)
def test_other_files_are_named(bench, name, content, words):
    if name is not None:
        bench.files.put(name, content)
    bench.open(name or "nothing.b2nd", state="problem")
    assert words in bench.text("problem")


def test_servers_that_refuse_are_named(bench, sst):
    bench.open("ftp://example.org/a", state="problem")
    assert "not the address of a file" in bench.text("problem")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    bench.open(f"http://127.0.0.1:{port}/a.b2nd", state="problem")
    assert "no answer from the server" in bench.text("problem")
    headers, bench.files.headers = bench.files.headers, {}
    bench.open(sst, state="problem")
    assert "Access-Control-Allow-Origin" in bench.text("problem")
    bench.files.headers = headers
    bench.open(sst)


@pytest.mark.parametrize("manner, good, words", [
    ("whole", 0, "ranges of bytes"), ("whole", 2, "ranges of bytes"), (500, 0, "status 500"), (403, 1, "status 403"),
    ("close", 0, "no answer"), ("noise", 1, ""), ("short", 1, ""), ("long", 1, ""), ("endless", 0, "more bytes"),
    ("compressed", 0, ""), ("other", 0, ""),
])
def test_servers_that_misbehave_are_named(bench, sst, months, manner, good, words):
    bench.files.spoil(manner, good)
    bench.open(sst, state="problem")
    assert bench.text("problem") and words in bench.text("problem")
    bench.files.spoil(None)
    bench.open(sst, slice=3)
    bench.shows(months[3])


def test_damaged_files_leave_the_page_alive(bench, sst, months):
    good = bench.files.files[sst]
    archive = store(bench, "store.b2z", {"/sst": blosc2.asarray(months), "/depth": np.arange(64)}).read_bytes()
    random = np.random.default_rng(27)
    refused = 0

    def show(name):
        bench.again(f"document.getElementById('url').value = '{bench.files.url(name)}'; document.getElementById('address').requestSubmit()")
        bench.state("shown", "problem", "store")

    bench.open()
    for case in range(120):
        content = bytearray(archive if case % 4 == 3 else good)
        if case % 3 == 0:
            content = content[: random.integers(len(content))]
        elif case % 3 == 1:
            # Header, index and trailer contain the positions.
            for at in random.integers(-600, 600, random.integers(1, 5)):
                content[at] = random.integers(256)
        else:
            for at in random.integers(len(content), size=random.integers(1, 51)):
                content[at] ^= 1 << random.integers(8)
        bench.files.put(f"damaged{case}.b2nd", bytes(content))
        show(f"damaged{case}.b2nd")
        if bench.data("state") == "problem":
            assert bench.text("problem"), case
            refused += 1
    assert refused > 30
    show(sst)
    bench.shows(months[6])


def test_folders_and_sparse_frames_are_opened(bench, b2kit, months):
    folder = bench.folder / "folder"
    sparse = folder / "inner" / "sparse.b2nd"
    sparse.parent.mkdir(parents=True)
    blosc2.asarray(months, urlpath=str(sparse), contiguous=False, mode="w", chunks=(3, 90, 180), blocks=(1, 45, 90))
    shutil.copy(bench.pack("zzz.b2nd", np.full(70, 1.5, "f4")), folder)
    (folder / "notes.txt").write_text("no file of ours")
    bench.open()
    bench.page.set_input_files("#pick-folder", folder)
    bench.shows(months[6])
    assert members(bench) == ["inner/sparse.b2nd", "zzz.b2nd"]
    bench.again("document.querySelectorAll('#tree button')[1].click()")
    bench.state("shown")
    assert "shape70" in bench.text("facts") and members(bench)[0] == "inner/sparse.b2nd"
    # Scripted drop events have no entries to read.
    bench.again("""
        const files = [...document.getElementById("pick-folder").files];
        const entry = (name, depth, inside) => ({ name, isDirectory: true, createReader() {
            const names = new Map();
            for (const file of inside) {
                const parts = file.webkitRelativePath.split("/");
                const own = parts[depth + 1];
                if (parts.length === depth + 2) names.set(own, { name: own, isDirectory: false, file: (ok) => ok(file) });
                else names.set(own, entry(own, depth + 1, inside.filter((f) => f.webkitRelativePath.split("/")[depth + 1] === own)));
            }
            const rest = [...names.values()];
            return { readEntries: (ok) => ok(rest.splice(0, 2)) };
        } });
        const event = new Event("drop", { cancelable: true });
        event.dataTransfer = { files: [], items: [{ webkitGetAsEntry: () => entry("dropped", 0, files) }] };
        window.dispatchEvent(event);""")
    bench.shows(months[6])
    # By URL: chunks are files next to the index.
    for path in sparse.iterdir():
        bench.files.put(f"sparse/{path.name}", path.read_bytes())
    for name in ["sparse/", "sparse/chunks.b2frame"]:
        bench.open(name, slice=3)
        bench.shows(months[3])
    # The index alone, and a folder without Blosc2 files.
    bench.open()
    bench.page.set_input_files("#pick", sparse / "chunks.b2frame")
    bench.state("problem")
    assert "open the folder" in bench.text("problem")
    empty = bench.folder / "empty"
    empty.mkdir()
    (empty / "notes.txt").write_text("no file of ours")
    bench.page.set_input_files("#pick-folder", empty)
    bench.wait("document.getElementById('problem').textContent.includes('no file in this folder')")
    with serving(b2kit, sparse, "--slice=3") as address:
        bench.page.goto(address)
        bench.shows(months[3])


def test_decoding_that_takes_long_can_be_stopped(bench, sst, months):
    good = bench.home.files["engine.wasm"]
    bench.home.put("engine.wasm", ENDLESS)
    bench.open(sst, state="opening", slice=3)
    bench.wait("!document.getElementById('slow').hidden")
    words = bench.text("slow-text")
    assert words.startswith("Still decoding, for ") and "seconds" in words
    # The page itself still responds, and its clock advances.
    bench.wait("document.getElementById('slow-text').textContent !== words", words=words)
    bench.focus("stop")
    bench.home.put("engine.wasm", good)
    bench.keys("Enter")
    bench.state("problem")
    assert "was stopped" in bench.text("problem")
    bench.wait("document.getElementById('slow').hidden")
    bench.again("document.getElementById('address').requestSubmit()")
    bench.shows(months[6])


@pytest.mark.parametrize("engine", [b"", b"\0asm and no more"])
def test_a_page_that_is_not_complete_says_so(bench, sst, engine):
    bench.home.put("engine.wasm", engine)
    bench.home.requests.clear()
    bench.open(sst, state="problem")
    assert "does not start" in bench.text("problem")
    assert len(bench.home.requests) < 10, "it retries forever"


class serving:
    """The address at which the command serves the page."""

    def __init__(self, b2kit, *words):
        self.process = b2kit("view", "--web", "--no-open", "--quiet", *words, start=True)

    def __enter__(self):
        address = self.process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), address
        return address

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def test_the_command_serves_the_page(bench, b2kit, months):
    path = bench.pack("a b.b2nd", months)
    with serving(b2kit, path, "--slice=3") as address:
        bench.page.goto(address)
        bench.shows(months[3])
        assert bench.text("title") == "a b.b2nd"
    # A server without CORS headers: the command reads its files for the page.
    bench.files.headers = {}
    with serving(b2kit, bench.files.url("a%20b.b2nd")) as address:
        bench.page.goto(address)
        bench.shows(months[6])
    folder = bench.folder / "served"
    (folder / "inner").mkdir(parents=True)
    shutil.copy(path, folder / "inner" / "sst.b2nd")
    shutil.copy(store(bench, "store.b2z", {"/depth": np.arange(64)}), folder)
    with serving(b2kit, folder) as address:
        bench.page.goto(address)
        assert bench.page.locator("li a").count() == 2
        bench.page.click("li a >> nth=0")
        bench.shows(months[6])


def test_a_page_holds_the_file(bench, b2kit, months, large):
    path, html = bench.pack("<b>sst.b2nd", months), bench.folder / "out.html"
    b2kit("view", "--slice=3", "--html", html, path)
    bench.page.goto(html.as_uri())
    bench.shows(months[3])
    assert bench.text("title") == "<b>sst.b2nd"
    with pytest.raises(subprocess.CalledProcessError) as failed:
        b2kit("view", "--force", "--html", html, bench.pack("random.b2nd", np.random.default_rng(1).random(10 << 20)))
    assert b"at most 67108864" in failed.value.stderr


def test_everything_has_a_name(bench, sst):
    bench.open(sst)
    tree = bench.page.context.new_cdp_session(bench.page).send("Accessibility.getFullAXTree")
    roles = {"button", "textbox", "combobox", "slider", "spinbutton", "checkbox", "tab", "image", "img"}
    nodes = [node for node in tree["nodes"] if not node["ignored"] and node["role"]["value"] in roles]
    assert len(nodes) > 15 and all(node["name"]["value"] for node in nodes)
    assert "values from" in bench.page.get_attribute("#picture", "aria-label")


def test_small_screens_and_the_dark(bench, browser, sst, months):
    paper = "getComputedStyle(document.body).backgroundColor"
    bench.open(sst, slice=3)
    assert bench.page.evaluate(paper) == "rgb(255, 255, 255)"
    bench.page.emulate_media(color_scheme="dark")
    assert bench.page.evaluate(paper) == "rgb(20, 23, 26)"
    context = browser.new_context(viewport={"width": 360, "height": 640}, device_scale_factor=2, is_mobile=True)
    bench.page = context.new_page()
    bench.open(sst, slice=3)
    assert bench.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    bench.shows(months[3])
    context.close()


def test_what_cannot_be_drawn_shows_nothing_of_before(bench, months):
    records = np.zeros((10, 20), [("name", "<U4"), ("speed", "<f8")])
    bench.pack("records.b2nd", records)
    bench.pack("sst.b2nd", months)
    bench.pack("text.b2nd", np.array([["a", "b"], ["c", "d"]]))
    bench.open("sst.b2nd", slice=3)
    bench.point(44, 100)
    bench.at("3,44,100")
    bench.wait("!document.getElementById('profile-plot').hidden")
    # Another plane: the announcement is about its items.
    bench.focus("picture")
    bench.keys("PageDown")
    bench.at("4,44,100")
    bench.page.fill("#url", bench.files.url("text.b2nd"))
    bench.keys("Enter")
    bench.state("problem")
    assert "cannot be drawn" in bench.text("problem") and bench.text("cell") == ""
    for id in ["plot", "legend", "profile-plot"]:
        assert bench.page.locator(f"#{id}").is_hidden(), id
    bench.page.go_back()
    bench.shows(months[4])


def test_integers_have_all_of_their_digits(bench):
    bench.pack("long.b2nd", np.array([[2**63 - 1, -(2**63)], [2**53 + 1, 12345678]]))
    bench.open("long.b2nd")
    assert (bench.text("low"), bench.text("high")) == ("-9223372036854775808", "9223372036854775807")
    bench.point(1, 0)
    bench.at("1,0")
    assert bench.text("cell") == "[1, 0] = 9007199254740993"
    bench.pack("unsigned.b2nd", np.array([2**64 - 1, 2**64 - 2, 2**53 + 1], "u8"))
    bench.open("unsigned.b2nd")
    assert (bench.text("low"), bench.text("high")) == ("9007199254740993", "18446744073709551615")
    bench.focus("picture")
    bench.keys("ArrowRight")
    bench.wait("document.getElementById('cell').textContent === '[1] = 18446744073709551614'")


def test_missing_values_are_neither_drawn_nor_in_the_range(bench):
    items = np.array([1.0, 2.0, np.nan, 1e20, -1e34, np.inf, -np.inf, 4.0])
    bench.pack("line.b2nd", items)
    bench.open("line.b2nd")
    assert (bench.text("low"), bench.text("high"), bench.text("missing")) == ("1", "4", "5 missing")
    ink = bench.pixels()[..., 3] > 0
    filled = [ink[:, k * ink.shape[1] // 8 + ink.shape[1] // 16].any() for k in range(8)]
    assert filled == [True, True, False, False, False, False, False, True]
    bench.pack("plane.b2nd", items.reshape(2, 4))
    bench.open("plane.b2nd")
    assert bench.text("missing") == "5 missing"
    bench.shows(items.reshape(2, 4))
    assert [list(pixel[:3]) == [222, 222, 222] for pixel in bench.pixels().reshape(8, 4)] == [k in range(2, 7) for k in range(8)]


def test_values_are_along_lines_profiles_and_histograms(bench, sst):
    bench.pack("line.b2nd", np.arange(101.0))
    bench.open("line.b2nd")
    for text, place in marks(bench, "down"):
        # A line leaves two of 240 pixels free at each end.
        assert abs(place - (1 - float(text) / 100)) < 0.02
    assert [text for text, _ in marks(bench, "down")] == ["0", "20", "40", "60", "80", "100"]
    assert [text for text, _ in marks(bench, "count")] == ["2", "0"]
    bench.open(sst, slice=3)
    bench.point(44, 100)
    bench.wait("!document.getElementById('profile-plot').hidden")
    assert [text for text, _ in marks(bench, "profile-down")] == ["0", "10", "20", "30"]
    bench.pack("large.b2nd", 1e9 + np.arange(10))
    bench.open("large.b2nd")
    texts = [text for text, _ in marks(bench, "down")]
    assert len(texts) > 2 and len(set(texts)) == len(texts), texts


def test_dates_are_written_as_such(bench):
    days = np.datetime64("2021-03-01") + np.arange(400)
    for name, items in (("line.b2nd", days), ("plane.b2nd", days.reshape(20, 20))):
        bench.pack(name, items)
        bench.open(name)
        assert (bench.text("low"), bench.text("high")) == ("2021-03-01", "2022-04-04")
        assert ("2021-07" in bench.text("down")) == (name == "line.b2nd")


def test_a_single_item_is_shown(bench):
    bench.pack("item.b2nd", np.array(21.5))
    bench.open("item.b2nd")
    assert bench.text("cell") == "[()] = 21.5" and bench.page.locator("#plot").is_hidden()


def test_the_back_button_goes_back_a_member(bench, months):
    store(bench, "store.b2z", {"/ocean/sst": blosc2.asarray(months), "/depth": blosc2.asarray(np.arange(64, dtype="f4"))})
    bench.open("store.b2z", key="/ocean/sst", slice=3)
    bench.again("document.querySelector('#tree button').click()")
    bench.state("shown")
    assert bench.text("title") == "store.b2z /depth"
    bench.again("history.back()")
    bench.shows(months[3])
    bench.again("history.forward()")
    bench.state("shown")
    assert bench.text("title") == "store.b2z /depth"


@pytest.mark.parametrize("text, part, shown", [
    ("-3,::-2,100:999", np.s_[9, ::-2, 100:], "9,89:0:-2,100:180"),
    ("2:99,-500:5,-4:", np.s_[7, :5, -4:], "7,0:5,176:180"),
    ("...,7", np.s_[:, :, 7], ":,:,7"),
])
def test_slices_are_those_of_numpy(bench, sst, months, text, part, shown):
    bench.open(sst)
    bench.page.fill("#slice", text)
    bench.again("document.getElementById('slice').dispatchEvent(new Event('change'))")
    bench.shows(months[part])
    assert bench.value("slice") == shown
    bench.page.fill("#slice", "99")
    bench.again("document.getElementById('slice').dispatchEvent(new Event('change'))")
    bench.state("problem")
    assert "out of range" in bench.text("problem")


def test_a_silent_server_is_named_and_can_be_left(bench, sst, months):
    bench.files.spoil("silent")
    bench.open(sst, state="opening")
    bench.wait("document.getElementById('slow-text').textContent.startsWith('The server has sent nothing for ')")
    bench.page.click("#stop")
    bench.state("problem")
    assert "was stopped" in bench.text("problem")
    script = bench.home.files["worker.js"]
    bench.home.put("worker.js", script.replace(b"RESPONSE_TIMEOUT = 60000", b"RESPONSE_TIMEOUT = 1000"))
    bench.open(sst, state="problem")
    assert "the server has sent nothing for 1 seconds" in bench.text("problem")
    bench.files.spoil(None)
    bench.open(sst, slice=3)
    bench.shows(months[3])


def test_wide_pictures_fill_small_screens(bench):
    bench.page.set_viewport_size({"width": 360, "height": 640})
    bench.pack("wide.b2nd", np.arange(1000.0).reshape(10, 100))
    bench.open("wide.b2nd")
    box = bench.page.locator("#picture").bounding_box()
    assert box["height"] >= 0.45 * 640 - 1
