"""Real Flink restores savepoints whose Kryo values were written from columns: other values for the keys, a new key."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_savepoint import Savepoint
from tests.oracle.conftest import failing_in_one_line
from tests.oracle.migration import MIGRATION, restored

pytestmark = pytest.mark.flink

#: Fields of all primitive types and boxes, superclasses, POJOs, registrations, classes and maps in fields of a POJO.
CASES = (
    *("kryo-u-simple", "kryo-u-derived", "kryo-u-pojo", "kryo-reg-swapped"),
    *("pojo-list-kryo-class", "pojo-map-string-map"),
)
KEYED = "key-kryo-uuid"


@pytest.mark.parametrize(("release", "backend"), [("1.20.5", "rocksdb"), ("2.3.0", "hashmap")])
def test_flink_reads_what_was_written_from_columns(
    spark: SparkSession, tmp_path: Path, release: str, backend: str
) -> None:
    sizes = {case: changed(spark, case, release, tmp_path) for case in CASES}
    with_kryo_key(spark, release, tmp_path)
    with failing_in_one_line():
        found = restored(release, backend, tmp_path, tmp_path / "out", "|".join((*CASES, KEYED)))
    outcomes = {case: each["outcome"] for case, each in found.items()}
    assert outcomes == {**dict.fromkeys(CASES, "DIFFERENT"), KEYED: "equal"}
    for case, size in sizes.items():
        rows = [re.fullmatch(r"(\D*)(\d+)(.*)", row, re.DOTALL) for row in found[case]["want"]]
        moved = {f"{row[1]}{size - 1 - int(row[2])}{row[3]}" for row in rows if row}
        added = {f"{row[1]}{size}{row[3]}" for row in rows if row and int(row[2]) == size - 1}
        assert set(found[case]["got"]) == moved | added, case


def changed(spark: SparkSession, case: str, release: str, folder: Path) -> int:
    """Write a case whose keys have each other's values, and the first value again under a new key; return how many."""
    source = MIGRATION / "cases" / case
    size = len(json.loads((source / "expected.json").read_text("utf-8"))["rows"])
    sp = Savepoint.load(spark, source / f"{release}-hashmap", classes=MIGRATION / "classes", timestamps="raw")
    values = sp.keyed_state("state").selectExpr(f"{size - 1}L - key AS key", "v")
    more = values.where("key = 0").selectExpr(f"{size}L AS key", "v")
    sp.with_state("state", "v", values.union(more)).write(folder / case / "savepoint")
    return size


def with_kryo_key(spark: SparkSession, release: str, folder: Path) -> None:
    """Write the values of keys that Kryo wrote, by their columns."""
    source = MIGRATION / "cases" / KEYED / f"{release}-hashmap"
    sp = Savepoint.load(spark, source)
    sp.with_state("state", "v", sp.keyed_state("state").select("key", "v")).write(folder / KEYED / "savepoint")
