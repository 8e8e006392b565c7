"""Real Flink restores what was bootstrapped with a TypeSerializer of the job's own, and what it writes then is read.

    python -m tests.oracle.own_serializer 1.20.5 2.3.0
    python -m tests.oracle.own_serializer 2.3.0 --keep tests/oracle/savepoints/own-serializer

The job is `oracle.Prices`; keys, values, elements of lists, map values, fields of tuples and elements of operator state
are sums of money. Flink must refuse the same state in another currency, which only the payload of the snapshot names.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark_savepoint
from pyspark_savepoint import (
    KeyedStateBootstrapFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OperatorTransformation,
    Savepoint,
    ValueStateDescriptor,
)
from tests.money import MoneySerializer
from tests.oracle.flink import BACKENDS, PATIENCE, FlinkError, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SNAPSHOT = "oracle.Prices$MoneySerializerSnapshot"
#: The input of the job: one record for every key.
PURCHASES = 3
#: By key, what the job must find in keyed state.
KEYED: dict[int, tuple[str, list[str], dict[str, str], int]] = {
    key: (f"CHF {key}.25", ["CHF 0.05", f"CHF -{key + 1}.00"], {"a": f"CHF {key + 7}.10"}, key * 11) for key in range(3)
}
COUNTS = {"CHF 0.00": 4, "CHF 0.50": 5, "CHF 1.00": 6}
LISTED = ["CHF 20.00", "CHF 21.75"]


class Prices(KeyedStateBootstrapFunction):
    """A state of each kind."""

    def __init__(self, serializer: MoneySerializer) -> None:
        self.serializer = serializer

    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", self.serializer))
        self.every = ctx.get_list_state(ListStateDescriptor("every", self.serializer))
        self.named = ctx.get_map_state(MapStateDescriptor("named", "STRING", self.serializer))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.last.update(value.last)
        self.every.add_all(value.every)
        self.named.put_all(value.named)


def bootstrap(spark: SparkSession, serializer: MoneySerializer, folder: Path) -> Path:
    """Write the savepoint that the job starts from."""
    rows = [
        (key, last, every, named, {"f0": last, "f1": number}) for key, (last, every, named, number) in KEYED.items()
    ]
    df = spark.createDataFrame(
        rows,
        "id long, last string, every array<string>, named map<string, string>, pair struct<f0: string, f1: long>",
    )
    counts = spark.createDataFrame(list(COUNTS.items()), "key string, count long")
    keyed = OperatorTransformation.bootstrap_with(df).key_by("id").transform(Prices(serializer))
    listed = spark.createDataFrame([(each,) for each in LISTED], "value string")
    pairs = df.selectExpr("id AS key", "pair")
    given = {"serializers": [serializer]}
    savepoint = Savepoint.create(spark, max_parallelism=128).with_operator("keyed", keyed)
    savepoint = savepoint.with_operator("by-money", counts, types={"key": "MONEY", "count": "LONG"}, **given)
    savepoint = savepoint.with_operator("listed")
    savepoint = savepoint.with_list_state("listed", "list", listed, types={"value": "MONEY"}, **given)
    first = savepoint.write(str(folder / "first"))
    path, types = folder / "savepoint", {"pair": "TUPLE<MONEY, LONG>"}
    first.with_state("keyed", "pair", pairs, types=types, **given).write(str(path))
    return path


def start(version: str, snapshot: Path, out: Path, backend: str) -> dict[str, dict[str, list[Any]]]:
    """Let Flink restore the savepoint, process a record for every key, and write a savepoint: what it found."""
    arguments = [f"--snapshot={snapshot.as_uri()}", f"--out={out}", f"--staging={out / 'tmp'}"]
    arguments += ["--parallelism=2", f"--purchases={PURCHASES}", "--format=canonical"]
    arguments += [f"--conf={name}={value}" for name, value in {**BACKENDS[backend], **PATIENCE}.items()]
    out.mkdir()
    run(version, "oracle.Prices", arguments)
    found: dict[str, dict[str, list[Any]]] = json.loads((out / "found.json").read_text("utf-8"))
    return found


def compare_found(found: dict[str, dict[str, list[Any]]]) -> None:
    """Compare what Flink found with what was bootstrapped."""
    keyed = {row[0]: row[1:] for row in found["keyed"]["found"]}
    expected = {
        key: [last, every, f"{{{', '.join(f'{name}={text}' for name, text in named.items())}}}", f"{last}, {number}"]
        for key, (last, every, named, number) in KEYED.items()
    }
    assert keyed == expected, keyed
    assert dict(found["by-money"]["found"]) == COUNTS, found["by-money"]
    assert sorted(found["listed"]["found"]) == LISTED, found["listed"]


def compare_read(path: Path) -> None:
    """Compare what Flink wrote, read with the serializer, with what the job puts there."""
    read = pyspark_savepoint.open(path, serializers={SNAPSHOT: MoneySerializer})
    rows = {row["key"]: row for row in read.keyed_state("keyed").rows()}
    for key, (_, every, named, _) in KEYED.items():
        new = f"CHF {10 + key / 100:.2f}"
        assert rows[key]["last"] == new, rows[key]
        assert rows[key]["every"] == [*every, new], rows[key]
        assert dict(rows[key]["named"]) == {**named, "flink": new}, rows[key]
        assert rows[key]["pair"] == {"f0": new, "f1": key}, rows[key]
    counts = {row["key"]: row["count"] for row in read.keyed_state("by-money").rows()}
    assert counts == {text: count + 1 for text, count in COUNTS.items()}, counts
    listed = sorted(row["value"] for row in read.operator_state("listed", "list").rows())
    assert listed == sorted([*LISTED, "CHF 20.00", "CHF 20.01", "CHF 20.02"]), listed
    # A key is found by its hashCode, which the serializer computes.
    (one,) = read.keyed_state("by-money", keys=["CHF 0.50"]).rows()
    assert one["count"] == 6, one


def main() -> int:
    """Bootstrap once, and have every release restore it on both state backends."""
    from tests.oracle.matrix.__main__ import session

    parser = argparse.ArgumentParser(prog="python -m tests.oracle.own_serializer", description=__doc__)
    parser.add_argument("versions", nargs="+")
    parser.add_argument("--keep", type=Path, help="a folder for the savepoints that Flink writes")
    args = parser.parse_args()
    spark = session()
    with tempfile.TemporaryDirectory(prefix="savepoint-own-serializer-") as name:
        folder = Path(name)
        path, euros = (bootstrap(spark, MoneySerializer(SNAPSHOT, 2, each), folder / each) for each in ("CHF", "EUR"))
        for version in args.versions:
            for backend in ("hashmap", "rocksdb"):
                out = folder / f"{version}-{backend}"
                compare_found(start(version, path, out, backend))
                compare_read(out / "savepoint")
                print(f"{version}, {backend}: restored, continued, and read again")
            refused = ""
            try:
                start(version, euros, folder / f"{version}-euros", "hashmap")
            except FlinkError as error:
                refused = str(error)
            assert "must be compatible" in refused, f"{version} and another currency: {refused or 'restored'}"
            print(f"{version}: another currency is refused")
            if args.keep:
                target = args.keep / version
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(folder / f"{version}-hashmap" / "savepoint", target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
