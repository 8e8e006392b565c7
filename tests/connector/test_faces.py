"""Both faces, ``Savepoint`` with Spark and ``LocalSavepoint`` without: the same verbs, and the same savepoints."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint, Savepoint
from pyspark_savepoint.errors import OptionError

SHOP = Path(__file__).parents[1] / "oracle" / "savepoints" / "shop" / "savepoint"

#: Verbs that only one face has.
ONLY_WITH_SPARK = {
    "load",
    "create",  # of one savepoint without Spark: pyspark_savepoint.open, pyspark_savepoint.create
    "create_tables",
    "drop_tables",  # Spark's catalog
}
ONLY_WITHOUT_SPARK: set[str] = set()
#: Verbs of both whose arguments differ.
DIFFERENT_ARGUMENTS: set[str] = set()


def verbs(face: type) -> dict[str, list[str]]:
    """The public methods of a face, with the names and defaults of their arguments."""
    found = {}
    for name, value in inspect.getmembers_static(face):
        target = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if not name.startswith("_") and inspect.isfunction(target):
            parameters = inspect.signature(target).parameters.values()
            found[name] = [f"{each.kind} {each.name} {each.default!r}" for each in parameters]
    return found


def test_both_faces_have_the_same_verbs() -> None:
    with_spark, without = verbs(Savepoint), verbs(LocalSavepoint)
    assert with_spark.keys() - without.keys() == ONLY_WITH_SPARK
    assert without.keys() - with_spark.keys() == ONLY_WITHOUT_SPARK
    both = with_spark.keys() & without.keys()
    assert {name for name in both if with_spark[name] != without[name]} == DIFFERENT_ARGUMENTS
    assert len(both) > 35


def test_verbs_of_edits_are_defined_once() -> None:
    for name in (
        "with_state",
        "remove_keys",
        "merge_operator",
        "sources",
        "write",
        "job",
        "relocate",
        "migrate",
        "read_window",
        "diff",
        "table",
        "inspect",
        "sinks",
    ):
        assert getattr(Savepoint, name) is getattr(LocalSavepoint, name)


def test_misspelt_arguments_are_answered_with_the_nearest() -> None:
    opened: Any = pyspark_savepoint.open(SHOP)
    tried = 0
    families = (opened.inspect, opened.sources, opened.sinks, opened.job({"operators": []}))
    for owner, name in ((of, name) for of in (opened, *families) for name in verbs(type(of))):
        parameters = inspect.signature(getattr(owner, name)).parameters.values()
        words = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        if not words or any(each.kind is each.VAR_KEYWORD for each in parameters):
            continue
        tried += 1
        with pytest.raises(OptionError, match=f"(?s){name}\\(\\) has no argument '{words[0]}x'.*'{words[0]}'"):
            getattr(owner, name)(**{f"{words[0]}x": 1})
    assert tried > 15
    for misspelt in (
        lambda: pyspark_savepoint.create(max_paralelism=5),  # type: ignore[call-arg]
        lambda: Savepoint.create(None, max_paralelism=5),  # type: ignore[call-arg, arg-type]
    ):
        with pytest.raises(OptionError, match="did you mean 'max_parallelism'"):
            misspelt()
    with pytest.raises(OptionError, match="did you mean 'table'"):
        pyspark_savepoint.diff(opened, opened, tabel="timers")  # type: ignore[call-arg]
