"""Histories of retained checkpoints: every checkpoint holds what the job knew when it took it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint

HISTORIES = (
    "1.20.5-changelog-rocksdb-mat",
    "1.20.5-rocksdb-incr",
    "1.20.5-rocksdb-incr-rescaled",
    "2.3.0-forst-incr",
    "2.3.0-hashmap",
    "2.3.0-rocksdb-incr",
    "2.3.0-rocksdb-incr-retained-3",
)


def held(path: Path) -> dict[str, Any]:
    """What a checkpoint holds, in the form of ``truth/ID.json``."""
    savepoint = pyspark_savepoint.open(path, allow_outside=True)
    accounts = [
        [row["key"], row["total"], row["tags"], row["per"] and dict(row["per"]), row["seen"]]
        for row in savepoint.keyed_state("accounts").rows()
    ]
    windows = [
        [row["key"], int(row["window"]["start"].timestamp() * 1000), row["window-contents"]["f1"]]
        for row in savepoint.table("window_state", uid="windows").rows()
    ]
    timers = [[row["key"], row["timestamp"]] for row in savepoint.table("timers", uid="accounts").rows()]
    return {
        "accounts": sorted(accounts, key=str),
        "names": {row["key"]: row["count"] for row in savepoint.keyed_state("names").rows()},
        "windows": sorted(windows, key=str),
        "timers": sorted(timers),
        "log": [row["value"] for row in savepoint.table("operator_state", uid="log", state="log").rows()],
    }


def of_truth(truth: dict[str, Any]) -> dict[str, Any]:
    """The truth about a checkpoint in the form of what it holds."""
    accounts = [[key, total, tags, per and dict(per), seen] for key, total, tags, per, seen in truth["accounts"]]
    return {
        "accounts": sorted(accounts, key=str),
        "names": truth["names"],
        "windows": sorted(truth["windows"], key=str),
        "timers": sorted(truth["timers"]),
        "log": truth["log"],
    }


@pytest.mark.parametrize("name", HISTORIES)
def test_every_checkpoint_holds_what_the_job_knew(corpus: Path, name: str) -> None:
    folder = corpus / "history" / name
    checkpoints = json.loads((folder / "history.json").read_text())["checkpoints"]
    retained = [checkpoint for checkpoint in checkpoints if (folder / checkpoint["path"]).exists()]
    assert len(retained) >= 3
    for checkpoint in retained:
        truth = of_truth(json.loads((folder / "truth" / f"{checkpoint['id']}.json").read_text()))
        for part, rows in held(folder / checkpoint["path"]).items():
            assert rows == truth[part], (checkpoint["id"], part)
