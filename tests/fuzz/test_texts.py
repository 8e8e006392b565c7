"""Texts and files that users hand over: work and memory grow as their bytes do. All: ``python -m tests.fuzz.texts``."""

from __future__ import annotations

import pytest

from pyspark_savepoint.formats.class_files import ClassPath
from pyspark_savepoint.formats.errors import CorruptStateError, OptionError
from pyspark_savepoint.statebackends.sql_plans.explained_plan import nodes_of
from tests.fuzz.shapes import Measured, growth
from tests.fuzz.texts import TEXTS, made, problem_of

pytestmark = pytest.mark.many_sets


@pytest.mark.parametrize("name", TEXTS)
def test_twice_the_bytes_take_about_twice_as_long(name: str) -> None:
    problem, _ = problem_of(name, 0.25)
    assert problem is None


@pytest.mark.parametrize(
    "name",
    ["compiled: sorted by one long name", "compiled: a call of many arguments", "compiled: a key of one long name"],
)
def test_memory_grows_with_the_bytes(name: str) -> None:
    problem, _ = problem_of(name, 0.25, memory=True)
    assert problem is None


def test_a_square_is_told_from_a_line() -> None:
    """What the other tests measure with."""
    assert growth([Measured(size, size / 1000, 0) for size in (1000, 2000, 4000)]) is None
    assert "power of 2.00" in (growth([Measured(size, size**2 / 1e6, 0) for size in (1000, 2000, 4000)]) or "")
    assert "memory" in (growth([Measured(size, 0, size**2) for size in (4000, 8000, 16_000)]) or "")


def test_a_node_of_explain_that_is_its_own_input_is_refused() -> None:
    with pytest.raises(OptionError, match="its own input"):
        nodes_of("Join(y=[a])(reuse_id=[1])\n+- Reused(reference_id=[1])")


def test_entries_of_a_jar_that_overlap_are_refused() -> None:
    with made("jar: overlapping entries", 10) as (_, read), pytest.raises(CorruptStateError, match="overlap"):
        read()


def test_classes_of_a_jar_are_read() -> None:
    with made("jar: classes", 20) as (_, read):
        found, below = read()
    assert found.name == "C0"
    assert len(below) == 19
    assert ClassPath([]).subclasses("C0") == []
