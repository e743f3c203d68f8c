"""Hooks of the documentation site (mkdocs.yml): pages from outside of docs/, links into the repository, and languages of code blocks.

The pages are also read in the repository, so their links are relative to their files there.
"""

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
# Pages of the site that are elsewhere in the repository.
ELSEWHERE = {
    "explanation/architecture.md": "ARCHITECTURE.md",
    "explanation/security.md": "SECURITY.md",
    "contributing/index.md": "CONTRIBUTING.md",
    "contributing/changelog.md": "CHANGELOG.md",
}
PAGES = {path: uri for uri, path in ELSEWHERE.items()}
# `python`, `pycon` (in docstrings), `console`, `rust` and `c` run in the tests, `json` is data, `layers` is checked by xtask.
# `text` does not run.
LANGUAGES = {"python", "pycon", "console", "rust", "c", "json", "layers", "text"}
# Where the pages with Rust are included as documentation tests, and the one with C is compared with a program.
TESTS = ["crates/b2kit/src/lib.rs", "crates/adapters/b2-async/src/lib.rs", "crates/bindings/b2-c/tests/programs.rs"]
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
BLOCK = re.compile(r'<div class="(?:language-(\S+) )?highlight">(.*?)</div>', re.DOTALL)
log = logging.getLogger("mkdocs.hooks.site")


def on_files(files, config):
    for uri, path in ELSEWHERE.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    # The pages of the repository that are not on the site: at least the targets of their links exist.
    for path in [ROOT / "README.md", *ROOT.glob("crates/**/*.md"), *ROOT.glob("packaging/**/*.md"), *ROOT.glob("benches/**/*.md")]:
        for _, target, *_ in LINK.findall(path.read_text(encoding="utf-8")):
            if ":" not in target and not (path.parent / target).exists():
                log.warning("%s: %s does not exist", path.relative_to(ROOT), target)
    return files


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    folder = posixpath.dirname(ELSEWHERE.get(uri, f"docs/{uri}"))

    def moved(match):
        start, target, anchor, end = match.groups()
        if ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if (ROOT / path).is_dir() and path.startswith("docs/"):
            path += "/README.md"
        to = PAGES.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(to):
            to = posixpath.relpath(to, posixpath.dirname(uri) or ".")
        elif (ROOT / path).exists():
            to = f"{config.repo_url.rstrip('/')}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"
        else:
            log.warning("%s: %s does not exist", uri, target)
            return match[0]
        return f"{start}{to}{anchor or ''}{end}"

    # Code blocks have no links.
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def on_page_content(html, page, config, files):
    for language, code in BLOCK.findall(html):
        first = re.sub(r"<[^>]*>", "", code).strip().partition("\n")[0]
        if language not in LANGUAGES:
            log.warning("%s: a code block in %s, which does not run: %s", page.file.src_uri, language or "no language", first)
        elif language in ("rust", "c") and not any(f"/docs/{page.file.src_uri}\"" in (ROOT / test).read_text() for test in TESTS):
            log.warning("%s: no test runs the code in %s: %s", page.file.src_uri, language, first)
        elif language in ("python", "pycon", "console") and not first.startswith(("&gt;&gt;&gt; ", "$ ")):
            log.warning("%s: %s is not run without a prompt: %s", page.file.src_uri, language, first)
    # Roles of Sphinx in docstrings.
    return re.sub(r":(?:func|class|meth|mod|exc|attr):(?=<code)", "", html)
