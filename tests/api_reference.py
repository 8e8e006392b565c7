"""``python -m tests.api_reference FOLDER``: the API reference, as HTML made from docstrings. Warnings are errors.

It has what users import: the public names, the errors, and the base class of users' serializers.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pdoc
import pdoc.render

import pyspark_savepoint

MODULES = ("pyspark_savepoint", "pyspark_savepoint.errors", "pyspark_savepoint.formats.serializers.base")


def main(folder: Path) -> None:
    """Write the pages into a folder."""
    for name in pyspark_savepoint.__all__:  # pdoc takes what a module holds, and these are imported when they are used
        setattr(pyspark_savepoint, name, getattr(pyspark_savepoint, name))
    warnings.simplefilter("error")
    pdoc.render.configure(docformat="google", show_source=False)
    # The rooms are excluded, because their public names are already in the first module; so is the command line.
    first, *others = MODULES
    hidden = [f"!{name}" for name in (*rooms(), "pyspark_savepoint.__main__")]
    pdoc.pdoc(first, *hidden, *others, output_directory=folder)


def rooms() -> list[str]:
    """The packages of the package that users do not import from."""
    folder = Path(pyspark_savepoint.__file__).parent
    return [f"pyspark_savepoint.{path.name}" for path in sorted(folder.iterdir()) if (path / "__init__.py").exists()]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
