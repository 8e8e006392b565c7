"""SQL jobs (`oracle.SqlCases`), a savepoint for each kind of plan node and each of its cases: every state reads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from tests.corpus.everything import KEYED, misplaced_keys, read_state, states_of
from tests.oracle.sql_cases import CASES, NOT_IN_2_3


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_every_case_is_there(corpus: Path, release: str) -> None:
    expected = set(CASES) - set(NOT_IN_2_3 if release == "2.3" else ())
    found = {path.name.rpartition("-") for path in (corpus / "sql").iterdir()}
    assert {name for name, _, each in found if each == release} == expected


def test_every_state_reads_and_every_key_is_in_its_key_group(corpus: Path) -> None:
    problems: list[str] = []
    kinds: Counter[str] = Counter()
    binary: Counter[str] = Counter()
    for path in sorted((corpus / "sql").iterdir()):
        for listed in states_of(path):
            note = listed["note"]
            assert note is None or "shows its content as rows" in note, note
            if listed["state"] is None:
                continue
            table = read_state(path, listed)
            assert table is not None
            kinds[listed["kind"]] += 1
            if listed["spark_value_type"] == "binary":
                binary[listed["state"]] += 1
            if listed["table"] in KEYED:
                problems += misplaced_keys(path, listed)

    assert problems == []
    assert kinds["VALUE"] >= 220
    assert kinds["MAP"] >= 160
    assert set(binary) == {"SourceReaderState", "bucket-states"}


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_sums_and_counts_are_those_of_the_orders(corpus: Path, release: str) -> None:
    """`accState` of COUNT(*), SUM(v), AVG(v), MAX(price), MIN(item) has all of them."""
    path = corpus / "sql" / f"group-aggregate-simple-{release}"
    (listed,) = [listed for listed in states_of(path) if listed["state"] == "accState"]
    table = read_state(path, listed, DecodeOptions())
    assert table is not None
    found = {row["key"]["f0"]: row["accState"] for row in table.to_pylist()}
    for key in range(4):
        numbers = range(key, 60, 4)
        values = [n * n % 13 for n in numbers if n % 7 != 6]
        items = [("apple", "pear", "plum tart")[n % 3] for n in numbers if n % 11 != 10]
        told = found[f"k{key}"]
        assert told["f0"] == len(numbers)
        assert sum(values) in told.values()
        assert len(values) in told.values()
        assert min(items) in told.values()
    assert len(found) == 4
