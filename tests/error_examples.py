"""A real example of each kind of error, for the page of errors. ``tests/pages.py`` writes them into it."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import pyspark_savepoint
from pyspark_savepoint.errors import SavepointError
from tests.remote.measured_store import MeasuredStore
from tests.remote.storage import CREDENTIALS

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


class _Discount(pyspark_savepoint.KeyedStateReaderFunction):
    """A user's function that fails at a value."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(pyspark_savepoint.ValueStateDescriptor("total", "LONG"))

    def read_key(self, key: Any, ctx: Any) -> Iterator[tuple[int, float]]:
        yield key, 100 / (self.total.value() - self.total.value())


def _function(_: Path) -> None:
    _open().read_keyed_state("accounts", _Discount(), "key long, share double").to_arrow()


def _replaced(folder: Path) -> None:
    copy = shutil.copytree(SHOP, folder / "copy")
    edited = pyspark_savepoint.open(str(copy)).update_state("accounts", "total", ROWS)
    other = _open().remove_operator("currency-converter").write(str(folder / "other"))
    shutil.copy(Path(str(other.path), "_metadata"), copy / "_metadata")
    edited.write(str(folder / "new"))


def _outside(folder: Path) -> None:
    shutil.copytree(SHOP, folder / "copy")
    pyspark_savepoint.open(str(folder / "copy")).write(str(folder / "new"), files="reference")
    pyspark_savepoint.open(str(folder / "new")).keyed_state("accounts").to_arrow()


def _second_writer(folder: Path) -> None:
    path = str(folder / "new")

    def rows() -> Iterator[pa.RecordBatch]:
        _open().write(path)  # while the first writer works
        yield from ROWS.to_batches()

    given = pa.RecordBatchReader.from_batches(ROWS.schema, rows())
    _open().update_state("accounts", "total", given).write(path)


@contextmanager
def _store(**options: object) -> Iterator[tuple[MeasuredStore, pyspark_savepoint.LocalSavepoint]]:
    """A store that has the savepoint, and the savepoint in it."""
    store = MeasuredStore()
    threading.Thread(target=store.serve_forever, daemon=True).start()
    try:
        store.upload(SHOP, "savepoint-2f1a3c")
        with patch.dict("os.environ", CREDENTIALS):
            given = {"endpoint": store.endpoint, "region": "us-east-1", **options}
            yield store, pyspark_savepoint.open("s3://bucket/savepoint-2f1a3c", storage_options=given)
    finally:
        store.shutdown()
        store.server_close()


def _denied(_: Path) -> None:
    with _store() as (store, savepoint):
        store.denied = {"GET"}
        savepoint.keyed_state("accounts").to_arrow()


def _silent(_: Path) -> None:
    with _store(retryLimit=1) as (store, savepoint):
        store.fault = lambda kind, key: "reset"
        savepoint.keyed_state("accounts").to_arrow()


def _busy(_: Path) -> None:
    with _store(retryLimit=1) as (store, savepoint):
        store.fault = lambda kind, key: 503 if kind == "PUT" and key.endswith("_metadata") else None
        savepoint.rename_state("accounts", "total", "sum").write("s3://bucket/new")


def _uncertain(_: Path) -> None:
    with _store(retryLimit=1) as (store, savepoint):
        sent: list[str] = []

        def fault(kind: str, key: str) -> str | None:
            if key == "new/_metadata" and (kind == "PUT" or sent):
                sent.append(kind)
                return "vanished"
            return None

        store.fault = fault
        savepoint.rename_state("accounts", "total", "sum").write("s3://bucket/new")


def _spill(folder: Path) -> None:
    """Nobody can make files in this folder of Linux."""
    parts = [
        pa.table({"key": [*range(last, last - 500, -1)], "note": ["x" * 1000] * 500}) for last in (1999, 1499, 999)
    ]
    with patch.dict("os.environ", SPARK_LOCAL_DIRS="/sys"):
        new = pyspark_savepoint.create().with_operator(
            "accounts", pa.concat_tables(parts), sort_memory="1MB", parallelism=1
        )
        new.write(str(folder / "new"))


def _undecodable(_: Path) -> None:
    savepoint = SHOP.parents[1] / "own-serializer" / "2.3.0"
    pyspark_savepoint.open(str(savepoint)).rekey("by-money", types={"key": "LONG"})


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
            "Copy the file again. [Check and salvage](check-and-salvage.md) shows how.",
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
    "UserFunctionError": _function,
    "FileReplacedError": _replaced,
    "UnsafePathError": _outside,
    "ConcurrentWriteError": _second_writer,
    "AccessDeniedError": _denied,
    "StorageError": _silent,
    "StoreBusyError": _busy,
    "UncertainOutcomeError": _uncertain,
    "SpillError": _spill,
    "UndecodableStateError": _undecodable,
}
#: The error of a Spark whose Python lacks the package. tests/connector/options/test_worker_python.py compares it.
OF_SPARK = """\
the Python that Spark starts does not have pyspark_savepoint
  expected: Python 3.11 with pyspark_savepoint
  found: /usr/bin/python3
  to do: install the package where Spark's driver and executors run, and set PYSPARK_PYTHON to that Python before the \
session starts; on one machine: PYSPARK_PYTHON=/venv/bin/python"""


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
        text = text.replace("file: /sys\n", "file: /local\n")
        text = re.sub(r"\.pending-\w+", ".pending-7aa83701928f", text.replace(str(folder), "/savepoints"))
        text = re.sub(r"(in [\d.]+[mµ]?s) - (?!HTTP).*", r"\1 - Server returned ...", text)  # its middle is cut
        text = re.sub(r"in [\d.]+[mµ]?s\b", "in 5 ms", text)
        text = text.replace("tests.error_examples._Discount", "discounts.Discount")
        text = re.sub(rf'"{re.escape(__file__)}", line \d+', '"/jobs/discounts.py", line 12', text)
        text = "\n".join(line.rstrip() for line in text.splitlines())
        return re.sub(r"127\.0\.0\.1:\d+", "store.example.com:9000", text)


def classes() -> str:
    """Each class of error as Markdown: when it is raised, what to do, and an example."""
    lines = []
    for part, kinds in CLASSES.items():
        lines += [f"## {part}", ""]
        for kind, (when, remedy) in kinds.items():
            lines += [f"### {kind}", "", f"{when} **To do:** {remedy}", ""]
            lines += ["```text", OF_SPARK if kind == "WorkerPythonError" else example(kind), "```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(classes())
