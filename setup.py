"""The packages of the distribution: every folder with an ``__init__.py``, by the name under which it is imported.

All else is in ``pyproject.toml``. An editable install is a strict one unless another mode is named, because Spark and
type checkers find a package by its files, and not by the import hook of setuptools' default mode.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Container
from pathlib import Path

#: A link of Markdown to another file: its text, the path, and the part of the page.
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def packages(root: Path) -> list[str]:
    """Return the names of all packages below the folders that ``pyproject.toml`` names."""
    folders = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    return sorted(
        ".".join((name, *path.parent.relative_to(root / folder).parts))
        for name, folder in folders.items()
        for path in (root / folder).rglob("__init__.py")
    )


def installed_path(path: str) -> str:
    """Return where a file of the repository is in the installed package: ``statebackends/x`` is in ``connector``."""
    return path.removeprefix("connector/") if path.startswith("connector/") else path


def installed_page(path: str, text: str, installed: Container[str]) -> str:
    """Return a page with links from where it is installed; of files that are not there, only their name is left."""
    folder = posixpath.dirname(path)

    def followed(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if installed_path(target) not in installed:
            return f"{link[1]} (`{target}` of the repository)"
        place = posixpath.relpath(installed_path(target), posixpath.dirname(installed_path(path)))
        return f"[{link[1]}]({place}{link[3] or ''})"

    return LINK.sub(followed, text)


if __name__ == "__main__":
    from setuptools import setup
    from setuptools.command.build_py import build_py
    from setuptools.command.editable_wheel import editable_wheel

    class StrictByDefault(editable_wheel):  # type: ignore[misc]
        """Editable install in strict mode, unless ``editable_mode`` names another."""

        def finalize_options(self) -> None:
            """Choose the mode."""
            super().finalize_options()
            self.mode = self.mode or "strict"

    class WithPages(build_py):  # type: ignore[misc]
        """Build whose pages have links that lead somewhere."""

        def run(self) -> None:
            """Copy all files, and change the pages among the copies."""
            super().run()
            if self.editable_mode:
                return
            root = Path(self.build_lib, "pyspark_savepoint")
            installed = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
            for name in installed:
                if name.endswith(".md"):
                    of_repository = name if name.startswith(("formats/", "statebackends/")) else f"connector/{name}"
                    page = root / name
                    page.write_text(installed_page(of_repository, page.read_text("utf-8"), installed), "utf-8")

    commands = {"build_py": WithPages, "editable_wheel": StrictByDefault}
    setup(packages=packages(Path(__file__).parent), cmdclass=commands)
