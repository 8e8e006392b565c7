"""``python -m tests.site FOLDER``: builds the documentation site. Warnings, and links that lead nowhere, are errors."""

from __future__ import annotations

import inspect
import json
import posixpath
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from nbconvert import MarkdownExporter
from sphinx.cmd.build import build_main

import pyspark_savepoint
from tests.site.markdown import Document
from tests.site.pages import CHAPTERS, FIRST, Names, Page, Section, pages, worth

ROOT = Path(__file__).parents[2]


class Site:
    """The sources of the site, in a folder that Sphinx reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.documents: dict[str, Document] = {}
        self.notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
        #: The page of each section, by README and anchor; the whole file by "".
        self.places: dict[tuple[str, str], tuple[Page, str]] = {}
        for page in pages():
            self._place(page)

    def document(self, readme: str) -> Document:
        """A README, read once."""
        if readme not in self.documents:
            self.documents[readme] = Document(ROOT / readme)
        return self.documents[readme]

    def _place(self, page: Page) -> None:
        for part in page.parts:
            if not isinstance(part, Section):
                continue
            document = self.document(part.readme)
            top = document.heading(part.heading)
            end = top.own_end if part.own else top.end
            for heading in document.headings:
                if top.line <= heading.line < end:
                    anchor = "" if self._is_title(page, part) and heading is top else heading.anchor
                    self.places[part.readme, heading.anchor] = page, anchor
            self.places.setdefault((part.readme, ""), (page, ""))

    @staticmethod
    def _is_title(page: Page, part: Section) -> bool:
        """Whether the heading of a part is replaced by, or is, the title of its page."""
        return part is page.parts[0] and (page.title is None or len(page.parts) == 1 or part.heading is None)

    def follow(self, readme: str, target: str) -> str | None:
        """Where a link of a README leads on the site; None if it leads to a file that the site does not show."""
        if target.startswith(("https://", "http://", "mailto:")):
            return target
        path, _, anchor = target.partition("#")
        full = posixpath.normpath(posixpath.join(posixpath.dirname(readme), path)) if path else readme
        if (full, anchor) in self.places:
            page, own = self.places[full, anchor]
            return f"{page.name}.md" + (f"#{own}" if own else "")
        if full.startswith("notebooks/"):
            if full.endswith(".ipynb"):
                return f"{Path(full).stem}.md"
            shutil.copy(ROOT / full, self.folder / "static")
            return f"static/{Path(full).name}"
        if anchor or not (ROOT / full).exists():
            raise ValueError(f"{readme} has a link to {target}, which does not exist")
        return None

    def write(self) -> None:
        """Write all pages."""
        shutil.copy(Path(__file__).parent / "conf.py", self.folder)
        (self.folder / "static").mkdir()
        shutil.copy(Path(__file__).parent / "site.css", self.folder / "static")
        order = (Path(__file__).parent / "search.js").read_text("utf-8")
        (self.folder / "search.js").write_text(f"const WORTH = {json.dumps(worth())};\n{order}", "utf-8")
        for page in pages():
            self._write(page.name, self._lines(page))
        for notebook in self.notebooks:
            self._write_notebook(notebook)

    def _write(self, name: str, lines: Iterable[str]) -> None:
        (self.folder / f"{name}.md").write_text("\n".join(lines) + "\n")

    def _lines(self, page: Page) -> list[str]:
        lines = [f"# {page.title}", ""] if page.title else []
        for part in page.parts:
            if isinstance(part, Names):
                lines += _reference(part)
                continue
            title = self._is_title(page, part)
            level = (0 if page.title else 1) if title else 2
            lines += self.document(part.readme).section(
                part.heading, own=part.own, level=level, follow=lambda target, of=part.readme: self.follow(of, target)
            )
            lines.append("")
        return lines + self._navigation() if page is FIRST else lines

    def _navigation(self) -> list[str]:
        chapters = [(chapter.title, [page.name for page in chapter.pages]) for chapter in CHAPTERS]
        chapters.insert(1, ("Notebooks", [notebook.stem for notebook in self.notebooks]))
        lines = []
        for title, names in chapters:
            lines += ["```{toctree}", ":hidden:", f":caption: {title}", "", *names, "```", ""]
        return lines

    def _write_notebook(self, notebook: Path) -> None:
        text, resources = MarkdownExporter(exclude_input_prompt=True).from_filename(str(notebook))
        for name, content in resources["outputs"].items():
            (self.folder / f"{notebook.stem}-{name}").write_bytes(content)
            text = text.replace(f"]({name})", f"]({notebook.stem}-{name})")
        copy = self.folder / f"{notebook.stem}.md"
        copy.write_text(text)
        document = Document(copy)
        lines = document.section(
            None, own=False, level=1, follow=lambda to: to if "-output_" in to else self.follow("notebooks/x", to)
        )
        copy.write_text("\n".join(lines) + "\n")


def _reference(part: Names) -> list[str]:
    """A section of the reference: what autodoc takes from the docstrings of some names."""
    lines = [f"## {part.heading}", ""]
    lines += [part.text, ""] if part.text else []
    lines += ["```{eval-rst}"]
    for name in part.names:
        full = f"{part.of}.{name}"
        value = _value(full)
        if isinstance(value, property):
            lines += [f".. autoproperty:: {full}", ""]
        elif isinstance(value, type):
            lines += [f".. autoclass:: {full}"]
            lines += ["   :show-inheritance:"] if value.__bases__ != (object,) else []
            lines += ["   :members:"] if part.members != "no" else []
            lines += ["   :inherited-members:"] if part.members == "all" else []
            lines += [""]
        else:
            method = isinstance(_value(part.of), type)
            lines += [f".. auto{'method' if method else 'function'}:: {full}", ""]
    return [*lines, "```", ""]


def _value(full: str) -> object:
    """The object of a dotted name."""
    module, names = full, []
    while module not in sys.modules:
        try:
            __import__(module)
        except ModuleNotFoundError:
            module, _, name = module.rpartition(".")
            names.insert(0, name)
    value: object = sys.modules[module]
    for name in names:
        value = inspect.getattr_static(value, name, None) if isinstance(value, type) else getattr(value, name)
    return value


def main(folder: Path, builder: str = "html") -> int:
    """Build the site into a folder; the exit code of Sphinx."""
    for name in pyspark_savepoint.__all__:  # imported when they are used, and autodoc looks into the module
        setattr(pyspark_savepoint, name, getattr(pyspark_savepoint, name))
    with tempfile.TemporaryDirectory() as sources:
        site = Site(Path(sources))
        site.write()
        return int(build_main(["-q", "-W", "--keep-going", "-b", builder, sources, str(folder)]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
