"""The packages of the distribution: every folder with an ``__init__.py``, by the name under which it is imported.

All else is in ``pyproject.toml``. An editable install is a strict one unless another mode is named, because Spark and
type checkers find a package by its files, and not by the import hook of setuptools' default mode.
"""

from __future__ import annotations

import tomllib
from pathlib import Path


def packages(root: Path) -> list[str]:
    """Return the names of all packages below the folders that ``pyproject.toml`` names."""
    folders = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    return sorted(
        ".".join((name, *path.parent.relative_to(root / folder).parts))
        for name, folder in folders.items()
        for path in (root / folder).rglob("__init__.py")
    )


if __name__ == "__main__":
    from setuptools import setup
    from setuptools.command.editable_wheel import editable_wheel

    class StrictByDefault(editable_wheel):  # type: ignore[misc]
        """Editable install in strict mode, unless ``editable_mode`` names another."""

        def finalize_options(self) -> None:
            """Choose the mode."""
            super().finalize_options()
            self.mode = self.mode or "strict"

    setup(packages=packages(Path(__file__).parent), cmdclass={"editable_wheel": StrictByDefault})
