"""The documentation site: it builds without a warning, has all sections and public names, and opens in a browser."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote

import pytest

import pyspark_savepoint
from pyspark_savepoint import errors, testing
from tests.connector.insight.browser import opened
from tests.site.markdown import Document
from tests.site.pages import INTRODUCTIONS, PACKAGE, SAVEPOINT, Names, Section, pages

ROOT = Path(__file__).parents[2]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "tests.site", str(folder)], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where a server on this machine shows the site."""
    handler = partial(QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def names(of: str) -> list[str]:
    return [
        name
        for page in pages()
        for part in page.parts
        if isinstance(part, Names) and part.of == of
        for name in part.names
    ]


def test_every_section_is_on_one_page() -> None:
    shown: Counter[tuple[str, str]] = Counter()
    readmes = {part.readme for page in pages() for part in page.parts if isinstance(part, Section)}
    documents = {readme: Document(ROOT / readme) for readme in readmes}
    for page in pages():
        for part in page.parts:
            if isinstance(part, Section):
                document = documents[part.readme]
                top = document.heading(part.heading)
                end = top.own_end if part.own else top.end
                shown.update((part.readme, h.text) for h in document.headings if top.line <= h.line < end)
    wanted = Counter((readme, h.text) for readme, document in documents.items() for h in document.headings)
    wanted -= Counter((readme, documents[readme].headings[0].text) for readme in INTRODUCTIONS)
    assert shown == wanted


def test_every_readme_is_on_a_page() -> None:
    readmes = {part.readme for page in pages() for part in page.parts if isinstance(part, Section)}
    rooms = ("*.md", "[cfs]*/**/README.md", "tests/*.md", "tests/*/README.md")
    assert {str(path.relative_to(ROOT)) for room in rooms for path in ROOT.glob(room)} - readmes == set()


def test_every_public_name_is_on_one_page() -> None:
    aliases = {"__version__", "DefaultSource"}
    not_by_star = {"open"}  # would replace Python's
    assert sorted(names(PACKAGE)) == sorted(set(pyspark_savepoint.__all__) - aliases | not_by_star)
    elsewhere = set(pyspark_savepoint.__all__)
    assert sorted(names("pyspark_savepoint.errors")) == sorted(set(errors.__all__) - elsewhere)
    assert sorted(names("pyspark_savepoint.testing")) == sorted(testing.__all__)


def test_every_method_of_savepoint_is_on_one_page() -> None:
    public = [name for name, _ in inspect.getmembers(pyspark_savepoint.Savepoint) if not name.startswith("_")]
    assert sorted(names(SAVEPOINT)) == sorted(public)


class Links(HTMLParser):
    """The targets of links, and the anchors, of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.add(values.get("id") or "")
        self.targets.update(filter(None, (values.get("href"), values.get("src"))))


def test_links_lead_somewhere_and_nothing_is_fetched(site: Path) -> None:
    found = {path.name: Links(path.read_text()) for path in site.glob("*.html")}
    for name, page in found.items():
        for target in page.targets:
            if re.match(r"https://|mailto:", target):
                continue
            path, _, anchor = unquote(target).partition("#")
            path = path.partition("?")[0] or name
            assert (site / path).exists(), f"{name}: {target}"
            if path in found:
                assert anchor in found[path].anchors, f"{name}: {target}"
        sources = re.findall(r"""(?:src|<link[^>]*href)=["'](https?:[^"']+)""", (site / name).read_text())
        assert not sources, f"{name} would fetch {sources}"


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("index.html", "Try it"),
        ("api-savepoint.html", "change_operator_identifier"),
        ("flink-1-to-2.html", "check-migration"),
        ("01_open_a_savepoint.html", "savepoint"),
        ("search.html?q=rewind", "Rewind Kafka, or skip"),
        ("search.html?q=with_offsets", "pyspark_savepoint.api.sources.Sources.with_offsets"),
    ],
)
def test_it_opens_in_a_browser(address: str, tmp_path: Path, page: str, shown: str) -> None:
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--virtual-time-budget=10000",
            f"--user-data-dir={tmp_path}",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            "--dump-dom",
            f"{address}/{page}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    content = re.sub(r"<(script|nav|aside)\b.*?</\1>", "", done.stdout, flags=re.DOTALL)
    assert shown in re.sub(r"<[^>]+>", "", content), content[-3000:]
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []


#: What is cut: a page wider than the window, and blocks of code that scroll.
CUT = """
(() => [document.documentElement.scrollWidth > document.documentElement.clientWidth ? "the page" : "",
    ...Array.from(document.querySelectorAll("pre"), it => it.scrollWidth > it.clientWidth + 1 ? it.textContent : "")]
    .filter(it => it))()
"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_nothing_is_cut_on_the_right(site: Path, tmp_path: Path) -> None:
    with opened(tmp_path) as page:
        for name in ("index", "architecture", "contributing", "errors", "command-line", "01_open_a_savepoint"):
            for width in (1280, 800):
                page.open(site / f"{name}.html", width)
                assert page.run(CUT) == [], f"{name}, {width} pixels wide"


#: Words of users, and the page that answers.
SOUGHT = {
    "upsert": "fix-a-value",
    "kubernetes": "clusters",
    "yarn": "clusters",
    "emr": "clusters",
    "serverless": "clusters",
    "databricks": "clusters",
    "key type": "another-key-or-class",
    "renamed class": "another-key-or-class",
    "SQL plan": "change-a-sql-job",
    "salvage": "check-and-salvage",
    "checkpoint id": "change-operators",
    "VARIANT": "open-and-query",
    "DuckDB": "open-and-query",
    "Polars": "open-and-query",
    "rewind": "rewind-a-source",
    "GDPR": "erase-a-person",
}
FIRST_FOUND = "Search._performSearch(...Search._parseQuery({})).map(it => it[0]).pop()"


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_the_search_finds_the_page_that_answers_first(site: Path, tmp_path: Path) -> None:
    with opened(tmp_path) as page:
        page.open(site / "search.html")
        assert {words: page.run(FIRST_FOUND.format(json.dumps(words))) for words in SOUGHT} == SOUGHT
