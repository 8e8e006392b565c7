"""A real example of each kind of error, for the page of errors. ``tests/pages.py`` writes them into it."""

from __future__ import annotations

import re
import shutil
import tempfile
import warnings
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


def _gone(folder: Path) -> None:
    copy = shutil.copytree(SHOP, folder / "copy")
    savepoint = pyspark_savepoint.open(str(copy))
    savepoint.states().to_arrow()
    accounts = savepoint.keyed_state("accounts")
    (copy / "_metadata").unlink()
    accounts.to_arrow()


def _output(folder: Path) -> None:
    (folder / "full").write_text("a file, so no folder can be made here")
    with warnings.catch_warnings(action="ignore"):  # that files may remain
        _open().update_state("accounts", "total", ROWS).write(str(folder / "full" / "new"))


#: Each class by the part of the page: when it is raised, and what to do.
CLASSES: dict[str, dict[str, tuple[str, str]]] = {
    "Names and arguments": {
        "OperatorNotFoundError": (
            "The snapshot has no operator of this uid, hash or name.",
            "Take the name that the error suggests. `ls` lists all.",
        ),
        "StateNotFoundError": (
            "The operator has no such state or table.",
            "Take the name that the error suggests.",
        ),
        "SnapshotNotFoundError": (
            "There is no snapshot at the path.",
            "Check the path. For a folder of checkpoints, give a version.",
        ),
        "OptionError": (
            "An option, an argument or a combination is not valid.",
            "Follow the error: it names the option and what is allowed.",
        ),
        "TypeNotationError": (
            "A text is not a type of Flink.",
            "The error points at the character.",
        ),
        "StateExistsError": (
            "What you add exists already.",
            "Replace it, or choose another name.",
        ),
    },
    "Rows": {
        "DuplicateKeyError": (
            "A key has several rows, and the state has one value per key.",
            "Aggregate, or drop duplicates.",
        ),
        "ValueRangeError": (
            "A value does not fit the type exactly.",
            "Correct the value, or choose a wider type.",
        ),
        "UserFunctionError": (
            "Your function raised an exception, or cannot be sent to tasks.",
            "The error has your traceback.",
        ),
        "SpillError": (
            "Sorted rows do not fit on the local disk.",
            "Free space, or name another folder.",
        ),
    },
    "Snapshots": {
        "CorruptStateError": (
            "Bytes do not match the format: cut, damaged, or unknown.",
            "Copy the file again. `verify` finds all damage. `salvage` keeps the rest.",
        ),
        "StateFileNotFoundError": (
            "A file of the snapshot is missing.",
            "Copy it again, or use a newer checkpoint.",
        ),
        "SnapshotGoneError": (
            "The job deleted the checkpoint while it was read.",
            "Retain more checkpoints, or `pin` it first.",
        ),
        "FileReplacedError": (
            "A file changed while it was read.",
            "Read again.",
        ),
        "UnsupportedVersionError": (
            "The format is too old, or newer than this release.",
            "The error lists the releases of Flink.",
        ),
        "UnsupportedStateError": (
            "This operation does not work on this kind of state.",
            "The error names another way.",
        ),
        "UndecodableStateError": (
            "Only the job's own code can decode the state.",
            "Give the job's jars: option `classes`.",
        ),
        "UnsafePathError": (
            "The snapshot names a file outside its own folder.",
            "If you trust it: `allowOutside`.",
        ),
    },
    "Storage and clusters": {
        "AccessDeniedError": (
            "You may not read the file.",
            "Check credentials and permissions.",
        ),
        "StorageError": (
            "The store cannot be reached, or answers with an error.",
            "Check endpoint, region and network. Raise `retryLimit` in `storageOptions`.",
        ),
        "OutputError": (
            "A file cannot be written.",
            "Check free space and permissions.",
        ),
        "StoreBusyError": (
            "The store refused to write until `retryLimit` was over.",
            "Write again later. Nothing was published.",
        ),
        "UncertainOutcomeError": (
            "The store did not say if it published the file.",
            "Look if the savepoint is there before you write again.",
        ),
        "ConcurrentWriteError": (
            "Another writer published first.",
            "Load the savepoint again, and repeat the change.",
        ),
        "WorkerPythonError": (
            "Spark's Python lacks this package, or has another version.",
            "[Run on a cluster](clusters.md).",
        ),
    },
}
#: What raises an error of each kind.
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
    "SnapshotGoneError": _gone,
    "UnsupportedStateError": lambda _: _open().sources.with_offsets("orders-source", {("orders", 0): 1}),
    "OutputError": _output,
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
        return re.sub(r"\.pending-\w+", ".pending-7aa83701928f", text.replace(str(folder), "/savepoints"))


def classes() -> str:
    """Each class of error as Markdown: when it is raised, what to do, and an example."""
    lines = []
    for part, kinds in CLASSES.items():
        lines += [f"## {part}", ""]
        for kind, (when, remedy) in kinds.items():
            lines += [f"### {kind}", "", f"{when} **To do:** {remedy}", ""]
            lines += ["```text", example(kind), "```", ""] if kind in EXAMPLES else []
    return "\n".join(lines)


if __name__ == "__main__":
    print(classes())
