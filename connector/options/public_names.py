"""The public names of the package: imported on first use, and answers to names that do not exist.

They stand in ``__init__.pyi``. Type checkers read it, and so does the package.
"""

from __future__ import annotations

import sys

#: As in module typing, which is not imported: little comes before the command line's handler of Ctrl-C.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Packages whose modules need PySpark.
WITH_SPARK = ("api.spark.", "api.functions.", "engines.spark.")
#: What to use in place of names that are often guessed.
INSTEAD = {
    **dict.fromkeys(
        ("load", "read", "read_savepoint", "load_savepoint"),
        "pyspark_savepoint.open(path) without Spark; Savepoint.load(spark, path), or "
        'spark.read.format("savepoint").load(path), with Spark',
    ),
    **dict.fromkeys(
        ("new", "write"),
        'pyspark_savepoint.create() without Spark; Savepoint.create(spark), or df.write.format("savepoint")'
        '.mode("append").save(path)',
    ),
    "doctor": "inspect.doctor() of pyspark_savepoint.open(path) and of Savepoint, and pyspark-savepoint doctor PATH",
}


class PublicNames:
    """The names of a package that has a stub.

    Args:
        package: The name of the package.
        stub: The path of its stub, in a folder or in an archive.
        read: A function that returns the bytes at a path.

    """

    def __init__(self, package: str, stub: str, read: Callable[[str], bytes]) -> None:
        self._package = package
        self._stub = stub
        self._read = read
        self._names: dict[str, tuple[str, str]] = {}

    def places(self) -> dict[str, tuple[str, str]]:
        """Return the module of each name, and its name there."""
        if not self._names:
            _, _, imports = self._read(self._stub).decode().split('"""')
            code = " ".join(line.partition("#")[0] for line in imports.splitlines())
            words = code.translate(str.maketrans("(),", "   ")).split()
            module = ""
            for before, word, after in zip(words, words[1:], words[2:], strict=False):
                if before == "from":
                    module = word
                elif word == "as":
                    self._names[after] = (module, before)
        return self._names

    def all(self) -> list[str]:
        """Return the names that ``import *`` imports: not ``open``, which would replace Python's."""
        return sorted({*self.places()} - {"open"})

    def value(self, name: str) -> object:
        """Return what a name stands for, or raise AttributeError with what to use instead."""
        if name == "__all__":
            return self.all()
        package = self._package
        if name not in self.places():
            from difflib import get_close_matches

            near = get_close_matches(name, self.places(), n=1, cutoff=0.75)
            instead = f"; did you mean {near[0]!r}?" if near else ""
            instead = f"; there is {INSTEAD[name]}" if name in INSTEAD else instead
            raise AttributeError(f"module {package!r} has no attribute {name!r}{instead}")
        module, there = self.places()[name]
        if module.removeprefix(f"{package}.").startswith(WITH_SPARK):
            _expect_spark(name)
        from importlib import import_module

        return getattr(import_module(module), there)


def _expect_spark(name: str) -> None:
    """Raise ImportError with instructions if PySpark is missing or has no Python data sources."""
    try:
        import pyspark.sql.datasource  # noqa: F401
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        version = getattr(sys.modules.get("pyspark"), "__version__", None)
        raise ImportError(
            f"pyspark_savepoint.{name} needs PySpark 4.0 or later, and "
            + (f"PySpark {version} is installed" if version else "PySpark is not installed")
            + ': pip install "pyspark-savepoint[spark]"; without Spark: pyspark_savepoint.open(path)',
            name=missing.name,
        ) from None
