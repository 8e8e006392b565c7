"""Snapshots of very many of one thing: twice as many take about twice as long. All: ``python -m tests.fuzz.shapes``."""

from __future__ import annotations

import pytest

from tests.fuzz.shapes import COMMANDS, SHAPES, made, measured, problem_of

#: What took more than in proportion once, and what stands for the rest.
PAIRS = (
    ("case", "show"),
    ("case", "statements"),
    ("case", "add a state"),
    ("states", "heaviest"),
    ("states", "verify"),
    ("states and key groups", "sizes"),
    ("states and keys of their own", "keyed_state"),
    ("operators of one name", "statements"),
    ("paths", "ls"),
    ("operator states", "verify"),
)


@pytest.mark.parametrize(("shape", "command"), PAIRS)
def test_twice_as_many_take_about_twice_as_long(shape: str, command: str) -> None:
    measured(shape, command, 2)  # compiles
    problem, _ = problem_of(shape, command, 0.25)
    assert problem is None


@pytest.mark.parametrize("shape", ["states", "case", "states and keys of their own"])
def test_memory_grows_with_the_bytes(shape: str) -> None:
    problem, _ = problem_of(shape, "show", 0.2, memory=True)
    assert problem is None


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_a_snapshot_of_its_size(shape: str) -> None:
    count = max(3, SHAPES[shape].count // 20)
    with made(SHAPES[shape].make(count)) as (path, small), made(SHAPES[shape].make(2 * count)) as (_, large):
        assert 1.4 < large / small < 2.6 or small < 7000
        COMMANDS["ls"](path, path)
