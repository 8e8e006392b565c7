"""Data sets are made anew by real Flink, and read as the archives do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pyspark_savepoint
from tests.corpus.expected import RecordedSnapshot, differences
from tests.corpus.test_history import held, of_truth
from tests.oracle.conftest import failing_in_one_line
from tests.oracle.make_data import arguments_parser

pytestmark = pytest.mark.flink


def made(out: Path, *arguments: str) -> list[Path]:
    """What a command of `make_data` wrote."""
    with failing_in_one_line():
        told = arguments_parser().parse_args(["--out", str(out), *arguments])
        folders: list[Path] = told.make(told)
    return folders


def test_every_kind_of_state(tmp_path: Path) -> None:
    (folder,) = made(tmp_path, "lab", "2.3.0", "rocksdb", "canonical")
    assert folder == tmp_path / "lab" / "2.3.0-rocksdb-canonical"
    assert differences(RecordedSnapshot(folder)) == []


def test_a_history(tmp_path: Path) -> None:
    (folder,) = made(tmp_path, "history", "2.3.0", "rocksdb-incr", "--steps=3", "--keys=50")
    checkpoints = json.loads((folder / "history.json").read_text())["checkpoints"]
    assert len(checkpoints) == 3
    for checkpoint in checkpoints:
        truth = json.loads((folder / "truth" / f"{checkpoint['id']}.json").read_text())
        assert held(folder / checkpoint["path"]) == of_truth(truth)


def test_a_source_that_was_stopped(tmp_path: Path) -> None:
    (folder,) = made(tmp_path, "connectors", "2.3.0", "seq")
    expected = json.loads((folder / "expected.json").read_text())
    emitted = set(map(int, expected["emitted"]))
    rows = list(pyspark_savepoint.open(folder / expected["savepoint"]).table("offsets", uid="source").rows())
    assert len(rows) == 2
    for row in rows:
        assert {row["offset"], row["offset"] - 1} & emitted == {row["offset"] - 1}


def test_a_state_of_flink_1_and_its_bytes(tmp_path: Path, corpus: Path) -> None:
    (folder,) = made(tmp_path, "migration", "1.20.5", "cases", "--only=pojo-list-string")
    archived = corpus / "migration" / "cases" / "pojo-list-string"
    assert folder == tmp_path / "migration" / "cases" / "pojo-list-string" / "1.20.5-hashmap"
    rows = [
        sorted(pyspark_savepoint.open(path).keyed_state("state").rows(), key=str)
        for path in (folder, archived / "1.20.5-hashmap")
    ]
    assert rows[0] == rows[1]
    assert (
        json.loads((folder.parent / "expected.json").read_text())["rows"]
        == (json.loads((archived / "expected.json").read_text())["rows"])
    )
