"""Snapshots of very many of one thing: twice as many take about twice as long. All: ``python -m tests.fuzz.shapes``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_savepoint.formats.errors import OutputError
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from tests.fuzz.seeds import SHOP as SHOP_JOB
from tests.fuzz.shapes import COMMANDS, RATIO, SECONDS, SHAPES, made, measured, problem_of, run_command
from tests.processor_time import processor_seconds

pytestmark = pytest.mark.slow("damaged snapshots by the hundred")

SHOP = str(SHOP_JOB / "savepoint")

#: What took more than in proportion once, and what stands for the rest.
PAIRS = (
    ("case", "show"),
    ("case", "statements"),
    ("case", "add a state"),
    ("case", "verify-erasure"),
    ("states", "heaviest"),
    ("states", "verify"),
    ("states and key groups", "sizes"),
    ("states and keys of their own", "keyed_state"),
    ("operators of one name", "statements"),
    ("operators without state", "ls"),
    ("operators without state", "doctor"),
    ("operators without state", "split"),
    ("paths", "ls"),
    ("rows", "show"),
    ("operator states", "verify"),
    ("broadcast states", "verify"),
    ("broadcast states", "diff"),
    ("broadcast entries", "verify"),
    ("heap subtasks", "verify"),
    ("RocksDB files", "ls"),
    ("changelog handles", "ls"),
    ("segments of a file", "ls"),
    ("subclasses that subtasks met", "ls"),
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


def in_parts(text: str) -> Callable[[int], str]:
    """A path of some number of parts."""
    return lambda count: text * count


@pytest.mark.parametrize(
    ("path", "command"),
    [
        (in_parts("/a"), ("ls",)),
        (in_parts("/a"), ("cp", SHOP)),
        (in_parts("/tmp/.."), ("ls",)),
        (in_parts("../"), ("cp", SHOP)),
        (lambda count: "file://" + "/a" * count, ("ls",)),
        (lambda count: f"{SHOP}{'/../savepoint' * count}", ("ls",)),
    ],
)
def test_a_path_of_very_many_parts(path: Callable[[int], str], command: tuple[str, ...]) -> None:
    """A path of 200,000 parts took more than nine minutes."""

    def work(count: int) -> Callable[[], None]:
        name, *more = command
        return lambda: run_command(name, *more, path(count))

    work(10)()
    small, large = processor_seconds(work(50_000), 2), processor_seconds(work(200_000), 2)
    assert large < 4 * RATIO / 2 * small + SECONDS


def test_a_folder_of_more_parts_than_python_has_frames(tmp_path: Path) -> None:
    folder = str(tmp_path) + "/a" * 1500
    LocalFileSystem().create_directory(folder)
    LocalFileSystem().create_directory(folder)
    assert os.path.isdir(folder)
    with pytest.raises(OutputError, match="cannot be written"):
        LocalFileSystem().create_directory(str(tmp_path) + "/a" * 50_000)
    subprocess.run(["rm", "-r", tmp_path / "a"], check=True)  # shutil.rmtree calls itself for every part


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_a_snapshot_of_its_size(shape: str) -> None:
    count = max(3, SHAPES[shape].count // 20)
    with made(SHAPES[shape].make(count)) as (path, small), made(SHAPES[shape].make(2 * count)) as (_, large):
        assert 1.4 < large / small < 2.6 or small < 7000
        COMMANDS["ls"](path, path)
