"""Files of an edited operator in whose key groups nothing changes: they stay byte for byte, and are not read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from tests.benchmarks.data import UID, write_savepoint

FILES, KEYS = 8, 2000
Edit = Callable[[LocalSavepoint], LocalSavepoint]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A savepoint with a file for each of some subtasks."""
    return write_savepoint(tmp_path / "base", "long", KEYS, parallelism=FILES)


def of_key(key: int) -> pa.Table:
    return pa.table({"key": pa.array([key]), "total": pa.array([-1])})


def files(folder: Path) -> set[bytes]:
    return {file.read_bytes() for file in folder.iterdir() if file.name != "_metadata"}


def rows(path: Path) -> dict[int, int]:
    return {row["key"]: row["total"] for row in pyspark_savepoint.open(path).keyed_state(UID).rows()}


@pytest.mark.parametrize(
    "edit",
    [lambda sp: sp.remove_keys(UID, [0]), lambda sp: sp.update_state(UID, "total", of_key(0))],
    ids=["remove_keys", "update_state"],
)
def test_one_file_is_written_for_one_key(base: Path, tmp_path: Path, edit: Edit) -> None:
    edit(pyspark_savepoint.open(base)).write(tmp_path / "new")
    assert (len(files(base)), len(files(tmp_path / "new")), len(files(base) & files(tmp_path / "new"))) == (8, 8, 7)
    expected = {**rows(base), 0: -1}
    if 0 not in rows(tmp_path / "new"):
        del expected[0]
    assert rows(tmp_path / "new") == expected
    assert {row["status"] for row in pyspark_savepoint.open(tmp_path / "new").inspect.verify().rows()} == {"ok"}


def test_all_files_stay_for_a_key_that_is_not_there(base: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="no state"):
        pyspark_savepoint.open(base).remove_keys(UID, [-5]).write(tmp_path / "new")
    assert files(base) == files(tmp_path / "new")


@pytest.mark.parametrize(
    "edit",
    [
        lambda sp: sp.remove_keys(UID, [0]).rename_state(UID, "total", "sum"),
        lambda sp: sp.remove_keys(UID, [0]).with_max_parallelism(256),
        lambda sp: sp.remove_keys(UID, [0]).with_state(UID, "total", of_key(9), replace=True),
    ],
    ids=["new name", "other key groups", "other rows"],
)
def test_files_are_written_anew_if_all_change(base: Path, tmp_path: Path, edit: Edit) -> None:
    edit(pyspark_savepoint.open(base)).write(tmp_path / "new")
    assert not files(base) & files(tmp_path / "new")
