"""Table ``files``: every file that a snapshot needs, with operator, subtask, folder and size; none is opened."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyspark_savepoint
from tests.data import unpacked

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"


def test_files_of_an_incremental_checkpoint() -> None:
    folder = unpacked() / "history" / "2.3.0-rocksdb-incr-retained-3" / "checkpoints"
    chk = next(folder.rglob("chk-9"))
    rows = list(pyspark_savepoint.open(chk).table("files").rows())
    own = {row["path"] for row in rows if row["folder"] == "own"}
    shared = {row["path"] for row in rows if row["folder"] == "shared"}
    assert own == {str(path) for path in chk.iterdir() if path.name != "_metadata"}
    assert shared
    assert shared <= {str(path) for path in (chk.parent / "shared").iterdir()}
    assert len(own) + len(shared) == len({row["path"] for row in rows})
    assert {(row["path"], row["bytes"]) for row in rows} == {(path, Path(path).stat().st_size) for path in own | shared}
    keyed = [row for row in rows if row["folder"] == "shared"]
    assert {row["part"] for row in keyed} == {"keyed_state"}
    assert None not in {row["operator_uid"] for row in keyed}


def test_files_outside_are_named_and_not_opened(tmp_path: Path) -> None:
    folder = unpacked() / "history" / "2.3.0-rocksdb-incr-retained-3" / "checkpoints"
    alone = tmp_path / "alone"
    shutil.copytree(next(folder.rglob("chk-9")), alone)
    rows = list(pyspark_savepoint.open(alone).table("files").rows())
    outside = [row for row in rows if row["folder"] == "outside"]
    assert outside
    assert all("/shared/" in row["path"] and row["bytes"] > 0 for row in outside)
    assert {row["path"] for row in rows if row["folder"] == "own"} == {
        str(path) for path in alone.iterdir() if path.name != "_metadata"
    }


def test_of_one_operator() -> None:
    table = pyspark_savepoint.open(SHOP).table("files", "accounts")
    assert table.schema.names[-4:] == ["states", "folder", "bytes", "path"]
    assert [(row["subtask"], row["part"], row["bytes"]) for row in table.rows()] == [
        (0, "keyed_state", 30665),
        (1, "keyed_state", 26420),
    ]
