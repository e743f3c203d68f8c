"""Shared fixtures: the page in a browser, servers for it and for files, and the command with the embedded page."""

import base64
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import sync_playwright
from server import Server

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
sys.path.insert(0, str(HERE.parent))
NAMES = ["chromium", "chromium-browser", "google-chrome", "chrome"]
# Reads the pixels of an image at a URL, or of a canvas, as width, height, and red, green, blue, opacity of each.
PIXELS = """async (source) => {
    let canvas = document.getElementById(source);
    if (canvas === null) {
        const image = new Image();
        image.src = source;
        await image.decode();
        canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
        canvas.getContext("2d").drawImage(image, 0, 0);
    }
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let text = "";
    for (const byte of data) text += String.fromCharCode(byte);
    return [canvas.width, canvas.height, btoa(text)];
}"""
MISSING = [222, 222, 222]


@pytest.fixture(scope="session")
def browser():
    program = os.environ.get("B2KIT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert program, "the page is tested in Chromium: install it (Debian: apt install chromium) or set B2KIT_CHROMIUM to its path"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--force-color-profile=srgb"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def built():
    """The folder with the page."""
    from build import build

    return build()


@pytest.fixture(scope="session")
def b2kit():
    """Runs the command, or starts it."""
    subprocess.run(["cargo", "build", "--locked", "--bin", "b2kit", "--features", "b2kit-cli/web"], cwd=ROOT, check=True)
    program = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "b2kit"

    def run(*words, start=False):
        words = [program, *map(str, words)]
        if start:
            return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        return subprocess.run(words, check=True, capture_output=True).stdout

    return run


class Bench:
    """A page in the browser."""

    def __init__(self, page, home, files, b2kit, folder):
        self.page, self.home, self.files, self.b2kit, self.folder = page, home, files, b2kit, folder

    def pack(self, name, items, *options):
        """Writes an array, returns its path, and serves it."""
        source, path = self.folder / "source.npy", self.folder / name
        np.save(source, items)
        self.b2kit("pack", "--force", "--no-sync", source, path, *options)
        self.files.put(name, path.read_bytes())
        return path

    def open(self, name="", state="shown", **more):
        """Opens the page with a file of the server, or any URL."""
        url = name if "://" in name else self.files.url(name)
        query = "&".join(f"{key}={value}" for key, value in more.items())
        self.page.goto("about:blank")
        self.page.goto(self.home.url("index.html") + (f"?url={quote(url, safe='')}&{query}" if name else ""))
        self.state(state if name else "empty")

    def state(self, *states):
        self.wait("states.includes(document.body?.dataset.state)", states=states)

    def wait(self, what, **values):
        """Waits until an expression is true."""
        names = ", ".join(values)
        try:
            self.page.wait_for_function(f"({{ {names} }}) => {what}", arg=values)
        except Exception as error:
            raise AssertionError(f"still not {what} {values}: {self.page.inner_text('body')}") from error

    def again(self, script):
        """Runs a script and waits until the page changes."""
        self.page.evaluate(f"() => {{ document.body.dataset.state = ''; {script} }}")

    def text(self, id):
        return self.page.evaluate("(id) => document.getElementById(id).textContent", id)

    def data(self, name):
        return self.page.evaluate("(name) => document.body.dataset[name]", name)

    def value(self, id):
        return self.page.evaluate("(id) => document.getElementById(id).value", id)

    def focus(self, id):
        """Moves the focus to an element using only the Tab key."""
        for _ in range(60):
            if self.page.evaluate("document.activeElement.id") == id:
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"{id} cannot be reached with the Tab key")

    def keys(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def at(self, position):
        """Waits until the cursor is at an item."""
        self.wait("document.getElementById('cell').dataset.position === position", position=position)

    def point(self, row, column):
        """Moves the pointer to a pixel of the picture."""
        self.page.mouse.move(*self.page.evaluate(
            """([row, column]) => {
                const c = document.getElementById("picture");
                c.scrollIntoView();
                const b = c.getBoundingClientRect();
                return [b.left + (column + 0.5) * b.width / c.width, b.top + (row + 0.5) * b.height / c.height];
            }""", [row, column]))

    def pixels(self, source="picture"):
        width, height, text = self.page.evaluate(PIXELS, source)
        return np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, width, 4)

    def shows(self, items):
        """Compares the picture with that of `b2kit cat --png` of the same items."""
        self.state("shown")
        self.pack("expected.b2nd", items)
        png = self.b2kit("cat", self.folder / "expected.b2nd", "--png")
        expected = self.pixels("data:image/png;base64," + base64.b64encode(png).decode()).copy()
        expected[expected[..., 3] == 0] = [*MISSING, 255]
        np.testing.assert_array_equal(self.pixels(), expected)


@pytest.fixture
def bench(browser, built, b2kit, tmp_path):
    home, files = Server(), Server(Access_Control_Allow_Origin="*")
    for path in built.iterdir():
        home.put(path.name, path.read_bytes())
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.set_default_timeout(60_000)
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield Bench(page, home, files, b2kit, tmp_path)
    context.close()
    home.close()
    files.close()
    # Requests refused by servers are part of the tests.
    own = [text for text in complaints if "Failed to load resource" not in text and "CORS policy" not in text]
    assert not own, f"the browser complains: {own}"


@pytest.fixture(scope="session")
def months():
    """The sea surface temperature of a year."""
    return np.load(ROOT / "testdata" / "arrays" / "sea_surface_temperature.npy")


@pytest.fixture
def sst(bench, months):
    """The name of a file with it."""
    bench.pack("sst.b2nd", months, "--chunks=3,90,180", "--blocks=1,45,90")
    return "sst.b2nd"


@pytest.fixture(scope="session")
def waves():
    """164 MB of waves with noise, of which about 40 MB are stored."""
    i, j, k = (np.sin(np.arange(n, dtype="f4") * by) * 40 for n, by in [(400, 0.05), (400, 0.03), (256, 0.01)])
    noise = np.random.default_rng(27).integers(0, 64, (400, 400, 256), "u1")
    return np.round(i[:, None, None] + j[:, None] + k) + noise.astype("f4") / 64


@pytest.fixture
def large(bench, waves):
    return bench.pack("large.b2nd", waves, "--chunks=100,100,128", "--blocks=25,25,32", "--codec=lz4")
