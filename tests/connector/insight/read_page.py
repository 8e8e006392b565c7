"""The page of a report, as a reader sees it."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path


class Read(HTMLParser):
    """The sections, headings, tables and tags of a page, and the numbers by which it sorts its tables."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.sections: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.rows: dict[str, list[list[str]]] = {}
        self.numbers: dict[str, list[dict[str, float]]] = {}
        self._table = ""
        self._in_cell = False
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.attributes |= given.keys()
        if tag == "section":
            self.sections.append(given["id"] or "")
        if tag == "table":
            self._table = given["id"] or ""
            self.rows[self._table], self.numbers[self._table] = [], []
        if tag == "tr":
            self.rows[self._table].append([])
            self.numbers[self._table].append({})
        self._in_cell = tag == "td" or (self._in_cell and tag == "span")
        if tag == "td":
            self.rows[self._table][-1].append("")
            if "data-v" in given:
                self.numbers[self._table][-1][given["data-l"] or ""] = float(given["data-v"] or "nan")

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[self._table][-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag != "td"
