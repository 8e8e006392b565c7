"""A real example of each kind of error, for the page of errors. ``tests/pages.py`` writes them into it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import pyspark_savepoint
from pyspark_savepoint.errors import SavepointError

SHOP = Path(__file__).parent / "oracle" / "savepoints" / "shop" / "savepoint"
NAME = "/savepoints/savepoint-2f1a3c"
ROWS = pa.table({"key": [1042], "total": [7]})


def _damaged(folder: Path, change: Callable[[bytes], bytes]) -> str:
    """A copy of the savepoint whose ``_metadata`` has other bytes."""
    shutil.copytree(SHOP, folder / "copy")
    metadata = folder / "copy" / "_metadata"
    metadata.write_bytes(change(metadata.read_bytes()))
    return str(folder / "copy")


def _without_files(folder: Path) -> str:
    copy = shutil.copytree(SHOP, folder / "copy")
    for file in copy.iterdir():
        if file.name != "_metadata":
            file.unlink()
    return str(copy)


def _open() -> pyspark_savepoint.LocalSavepoint:
    return pyspark_savepoint.open(str(SHOP))


def _corrupt(folder: Path) -> None:
    pyspark_savepoint.open(_damaged(folder, lambda data: data[: len(data) // 2])).states().to_arrow()


def _version(folder: Path) -> None:
    pyspark_savepoint.open(_damaged(folder, lambda data: data[:4] + b"\0\0\0\x63" + data[8:])).states().to_arrow()


def _missing_file(folder: Path) -> None:
    pyspark_savepoint.open(_without_files(folder)).keyed_state("accounts").to_arrow()


def _exists(folder: Path) -> None:
    _open().with_operator("accounts", ROWS)


def _duplicate(folder: Path) -> None:
    twice = pa.concat_tables([ROWS, ROWS])
    _open().update_state("accounts", "total", twice).write(str(folder / "new"))


def _range(folder: Path) -> None:
    rows = pa.table({"key": [1042], "total": [1 << 40]})
    pyspark_savepoint.create().with_operator("accounts", rows, types={"total": "INT"}).write(str(folder / "new"))


#: The kind of error, and what raises it.
EXAMPLES: dict[str, Callable[[Path], object]] = {
    "OperatorNotFoundError": lambda _: _open().keyed_state("acounts"),
    "StateNotFoundError": lambda _: _open().keyed_state("accounts", state="totals").to_arrow(),
    "SnapshotNotFoundError": lambda folder: pyspark_savepoint.open(str(folder / "savepoint-2f1a3d")).states(),
    "StateFileNotFoundError": _missing_file,
    "CorruptStateError": _corrupt,
    "UnsupportedVersionError": _version,
    "OptionError": lambda _: _open().keyed_state("accounts", keys=["x"]).to_arrow(),
    "TypeNotationError": lambda _: _open().with_state("accounts", "n", ROWS, types={"n": "LIST<LNG>"}),
    "StateExistsError": _exists,
    "DuplicateKeyError": _duplicate,
    "ValueRangeError": _range,
}


def example(kind: str) -> str:
    """Provoke an error; return its text as users see it, with the path that the pages use.

    Raises:
        AssertionError: If another error, or none, was raised.

    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            EXAMPLES[kind](folder)
        except SavepointError as error:
            raised = error
        else:
            raise AssertionError(f"nothing raised {kind}")
        assert type(raised).__name__ == kind, repr(raised)
        text = str(raised)
        for path in (str(SHOP), str(folder / "copy")):
            text = text.replace(path, NAME)
        return text.replace(str(folder), "/savepoints")


def examples_section() -> str:
    """The examples as Markdown."""
    return "\n".join(f"### {kind}\n\n```text\n{example(kind)}\n```\n" for kind in EXAMPLES)


if __name__ == "__main__":
    print(examples_section())
