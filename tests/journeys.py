"""How many modules a read, a write and a function pass, how often control changes between them, and their sizes.

    python -m tests.journeys           # the tables of connector/README.md
    python -m tests.journeys read      # the modules of one journey, in the order in which they first run

Each journey runs twice in this process, and the second run is counted: imports, and what a process does once, are not.
Spark's classes of the data source are called as Spark calls them, with what is pickled on the way, but without a JVM;
tasks of functions likewise. A module runs if one of its functions does. Control changes when a function of another
module begins or goes on, or when one returns to it. Kernels are compiled: no step inside of them counts.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import pyspark_savepoint
from pyspark_savepoint.api.functions.bootstrap_plans import RecordTask
from pyspark_savepoint.engines.reader_functions import ReadTask
from pyspark_savepoint.engines.spark.datasource import SavepointDataSource
from pyspark_savepoint.formats.kernels.interpretation import always_compile
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.schema import spark_schema
from pyspark_savepoint.statebackends.processing.api.functions import (
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import ValueStateDescriptor
from pyspark_savepoint.statebackends.processing.operators.bootstrap import BootstrapPlan
from pyspark_savepoint.statebackends.processing.readers.keyed_reader import KeyedReaderPlan
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.test_imports import FOLDERS, ROOT

SHOP = str(Path(__file__).parent / "oracle" / "savepoints" / "shop" / "savepoint")
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "total": pa.array([5, None, 20], pa.int64())})
TOTAL = ValueStateDescriptor("total", "LONG")


class Totals(KeyedStateReaderFunction):
    """The total of each account."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(TOTAL)

    def read_key(self, key: Any, ctx: Any) -> Iterator[Any]:
        yield (key, self.total.value())


class Sums(KeyedStateBootstrapFunction):
    """A total of each key."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(TOTAL)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.total.update((self.total.value() or 0) + (value.total or 0))


def read_with_spark(folder: str) -> int:
    """Return the rows of a keyed operator, by the classes that Spark calls."""
    source = SavepointDataSource({"path": SHOP, "uid": "accounts"})
    reader = pickle.loads(pickle.dumps(source.reader(source.schema())))
    partitions = pickle.loads(pickle.dumps(reader.partitions()))
    return sum(batch.num_rows for partition in partitions for batch in reader.read(partition))


def read(folder: str) -> int:
    """Return the rows of a keyed operator, without Spark."""
    return pyspark_savepoint.open(SHOP).keyed_state("accounts").to_arrow().num_rows


def write_with_spark(folder: str) -> int:
    """Return the rows of a new operator, by the classes that Spark calls."""
    options = {"path": folder, "uid": "totals", "key": "id", "maxParallelism": "4"}
    writer = SavepointDataSource(options).writer(spark_schema(ROWS.schema), overwrite=False)
    task = pickle.loads(pickle.dumps(writer))
    messages = pickle.loads(pickle.dumps([task.write(iter(ROWS.to_batches()))]))
    writer.commit(messages)
    return ROWS.num_rows


def write(folder: str) -> int:
    """Return the rows of a new operator, without Spark."""
    created = pyspark_savepoint.create(max_parallelism=4)
    created.with_operator("totals", ROWS, key="id").write(folder)
    return ROWS.num_rows


def reader_function(folder: str) -> int:
    """Return the rows of a reader function: its plan, and the task that Spark runs."""
    snapshot = Snapshot.open(SHOP)
    opened = OpenOperator(snapshot, snapshot.operator(uid="accounts"))
    schema = pa.schema({"key": pa.int64(), "total": pa.int64()})
    plan = KeyedReaderPlan.of(Totals(), schema, opened, TableRequest(SHOP, uid="accounts"), 1)
    task = pickle.loads(pickle.dumps(ReadTask(plan, "accounts")))
    return sum(batch.num_rows for batch in task(pa.table({"id": range(len(plan.vertices))}).to_batches()))


def bootstrap_function(folder: str) -> int:
    """Return the entries that a bootstrap function makes: its plan, and the task that Spark runs."""
    key = KeyedDescriptor(("id",), parse_type("LONG"), ())
    plan = BootstrapPlan(Sums(), key, ("id", "total"), 4).describe()
    task = pickle.loads(pickle.dumps(RecordTask(plan)))
    return sum(batch.num_rows for batch in task.run(0, ROWS.to_batches()))


#: The journeys by the names that connector/README.md gives them.
JOURNEYS: dict[str, Callable[[str], int]] = {
    "read": read_with_spark,
    "read without Spark": read,
    "write": write_with_spark,
    "write without Spark": write,
    "reader function": reader_function,
    "bootstrap function": bootstrap_function,
}


def module_names() -> dict[str, str]:
    """Return the names of all modules by the file that their functions name."""
    package = Path(pyspark_savepoint.__file__).parent
    return {
        str(package / ("" if name == "connector" else name) / path.relative_to(ROOT / name)): str(
            path.relative_to(ROOT)
        )
        for name in FOLDERS
        for path in (ROOT / name).rglob("*.py")
    }


@dataclass
class Steps:
    """What was run: each module with how many of its functions began or went on, and the changes between modules."""

    modules: dict[str, int] = field(default_factory=dict)
    changes: int = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count in this thread, and in those that begin meanwhile."""
        names = module_names()
        at: dict[int, list[str]] = {}

        def step(frame: FrameType, event: str, _: Any) -> None:
            module = names.get(frame.f_code.co_filename)
            if module is None or frame.f_code.co_name == "<module>":
                return
            stack = at.setdefault(threading.get_ident(), [])
            if event == "call":
                self.modules[module] = self.modules.get(module, 0) + 1
                self.changes += bool(stack) and stack[-1] != module
                stack.append(module)
            elif event == "return" and stack:
                stack.pop()
                self.changes += bool(stack) and stack[-1] != module

        threading.setprofile(step)
        sys.setprofile(step)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def steps_of(name: str) -> Steps:
    """Run a journey twice, and return the steps of the second run."""
    always_compile()
    steps = Steps()
    with tempfile.TemporaryDirectory() as folder:
        assert JOURNEYS[name](os.path.join(folder, "first")) > 0
        with steps.counting():
            JOURNEYS[name](os.path.join(folder, "second"))
    return steps


def journeys_table() -> str:
    """Return the table of journeys as Markdown."""
    rows = []
    for name in JOURNEYS:
        steps = steps_of(name)
        folders = {module.rpartition("/")[0] for module in steps.modules}
        rows.append(f"| {name} | {len(steps.modules)} | {len(folders)} | {steps.changes:,} |")
    return "\n".join(["| journey | modules | folders | changes between modules |", "| --- | --- | --- | --- |", *rows])


def sizes_table() -> str:
    """Return the numbers of modules and lines by folder as Markdown; a package's own file counts."""
    rows = ["| folder | modules | lines |", "| --- | --- | --- |"]
    totals = [0, 0]
    for folder in FOLDERS:
        texts = [path.read_text().splitlines() for path in (ROOT / folder).rglob("*.py") if path.name != "_release.py"]
        size = [len(texts), sum(map(len, texts))]
        rows.append(f"| `{folder}` | {size[0]} | {size[1]:,} |")
        totals = [total + more for total, more in zip(totals, size, strict=True)]
    return "\n".join([*rows, f"| all | {totals[0]} | {totals[1]:,} |"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("journey", nargs="?", choices=JOURNEYS, help="prints the modules of this journey")
    name = parser.parse_args().journey
    if name is None:
        print(journeys_table(), sizes_table(), sep="\n\n")
        return
    steps = steps_of(name)
    for module, count in steps.modules.items():
        print(f"{count:8,}  {module}")
    print(f"{len(steps.modules)} modules, {steps.changes:,} changes between them")


if __name__ == "__main__":
    main()
