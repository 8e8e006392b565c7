"""Measures Flink's own Kryo beside this project's, on the same values: microseconds of the processor a value.

    python -m tests.oracle.kryo_speed                         all types, Flink 2.3.0 (Kryo 5)
    python -m tests.oracle.kryo_speed 1.20.5 uuid tree-map    some of them, Flink 1.20.5 (Kryo 2)

The values are those that real Flink wrote (``tests/data``). Flink reads each into an object and writes it, warmed up,
with its usual compiler; this project reads and writes a column of 100,000, and 3,000 of them one by one. Each figure is
the least of five.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.serializers.base import UnknownPayloads
from pyspark_savepoint.formats.serializers.kryo.described import job_classes, serializer
from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from pyspark_savepoint.statebackends.rows.state_entries import encode_column
from tests.data import unpacked
from tests.oracle import flink

COUNT, FEW, TIMES = 100_000, 3_000, 5
#: What is measured unless types are named.
CASES = """uuid optional optional-long local-date local-date-time instant duration period zoned-date-time
    offset-date-time year zone-offset big-decimal big-integer date bit-set enum-set enum-map array-list hash-set
    tree-set hash-map tree-map int-array byte-array string-array object-array object tuple atomic-long u-simple
    u-derived u-pojo u-collections u-maps u-gen u-generics reg-same"""


def known(version: str) -> dict[str, tuple[str, list[str]]]:
    """Return the recorded values by case: the snapshot of their serializer, and their bytes."""
    recorded = json.loads((unpacked() / "migration" / f"bytes-{version}.json").read_text())
    return {
        name.removeprefix("kryo-"): (case["snapshot"], [each for each in case["values"] if not each.startswith("!")])
        for name, case in recorded.items()
        if name.startswith("kryo-") and "snapshot" in case and case.get("values")
    }


def of_flink(version: str, cases: dict[str, tuple[str, list[str]]]) -> dict[str, tuple[float, float]]:
    """Return the microseconds of Flink's reader and writer; cases that it refuses are left out."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "values"
        file.write_text("\n".join("\t".join([name, snapshot, *values]) for name, (snapshot, values) in cases.items()))
        command = flink.command_line(version, "oracle.ReadKryo", [str(file), str(COUNT)])
        command = [each for each in command if each != "-XX:TieredStopAtLevel=1"]
        place = command.index("-cp") + 1
        command[place] = flink.class_path([Path(command[place]), unpacked() / "migration" / "classes"])
        lines = flink.output_of(command, f"oracle.ReadKryo on Flink {version}")
    answers = (line.split("\t") for line in lines.splitlines())
    return {name: (int(nanos[0]) / 1000, int(nanos[1]) / 1000) for name, *nanos in answers if len(nanos) == 2}


def least(work: Callable[[], object], count: int, times: int = TIMES) -> float:
    """Return the least microseconds of the processor for each of some values."""
    figures = []
    for _ in range(times):
        start = time.process_time()
        work()
        figures.append((time.process_time() - start) / count * 1e6)
    return min(figures)


def of_this_project(version: str, snapshot: str, values: list[str]) -> tuple[list[float], list[float]]:
    """Return the microseconds of values one by one and together, read and written; nothing of those not written."""
    kryo = 2 if version.startswith("1.") else 5
    classes = JobClasses((str(unpacked() / "migration" / "classes"),), kryo=kryo)
    made = snapshot_reader(DataInputView(bytes.fromhex(snapshot)), UnknownPayloads(classes=classes)).versioned()
    options = DecodeOptions(kryo=kryo, timestamps="truncate")
    rows = [bytes.fromhex(values[row % len(values)]) for row in range(COUNT)]

    def decode(count: int) -> pa.Array:
        return made.decode(Cursors.over(rows[:count], options=options))

    def both(work: Callable[[int], object]) -> list[float]:
        work(COUNT)
        with pytest.MonkeyPatch.context() as patch:
            for module in (serializer, job_classes):
                patch.setattr(module, "MANY", COUNT)
            alone = least(lambda: work(FEW), FEW, 1)
        return [alone, least(lambda: work(COUNT), COUNT)]

    column = decode(COUNT)
    try:
        made.sizes(column[:1])
    except SavepointError:
        return both(decode), []
    return both(decode), both(lambda count: encode_column(made, column[:count]))


def report(version: str, names: list[str]) -> Iterator[str]:
    """Yield the lines of a table."""
    cases = {name: case for name, case in known(version).items() if name in names}
    flinks = of_flink(version, cases)
    yield f"| Kryo, Flink {version} | read one by one | together | Flink | written one by one | together | Flink |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name, case in cases.items():
        try:
            figures = of_this_project(version, *case)
        except SavepointError as error:
            yield f"| {name} | {str(error).splitlines()[0][:80]} | | | | | |"
            continue
        flink_took = flinks.get(name, ("", ""))
        cells = (
            f"{own[0]:.1f} | {own[1]:.2f} | {theirs}" if own else f" |  | {theirs}"
            for own, theirs in zip(figures, flink_took, strict=True)
        )
        yield f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    given = sys.argv[1:] or ["2.3.0"]
    for row in report(given[0], given[1:] or CASES.split()):
        print(row, flush=True)
