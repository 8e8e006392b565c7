"""Every command and verb that writes a savepoint takes the number of the new one, in the same way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.command_line.commands import COMMANDS
from pyspark_savepoint.errors import OptionError
from tests.connector.command_line.conftest import Run

#: Commands that write savepoints and no single new one: each part, or several, have their own.
WITHOUT = {"split", "vacuum"}


def test_each_command_that_writes_has_the_option() -> None:
    writes = {
        command.name
        for command in COMMANDS
        if any(one.names[:1] == ("target",) for one in command.arguments if hasattr(one, "names"))
    }
    having = {
        command.name
        for command in COMMANDS
        if any("--checkpoint-id" in one.names for one in command.arguments if hasattr(one, "names"))
    }
    assert {"erase", "migrate", "cp", "pin", "relocate"} <= having
    assert writes - having - WITHOUT == set()


@pytest.mark.parametrize(
    "words",
    [
        "cp {sp} {new}",
        "cp {sp} {new} --portable",
        "pin {sp} {new}",
        "migrate {sp} {new} --flink 2.3",
        "erase {sp} {new} --keys 1 --report {report}",
        "remove-keys {sp} {new} accounts --keys 1",
    ],
)
def test_the_new_savepoint_has_the_number(run: Run, tmp_path: Path, words: str) -> None:
    rows = pa.table({"key": range(2), "total": range(2)})
    old, new = tmp_path / "old", tmp_path / "new"
    pyspark_savepoint.create().with_operator("accounts", rows).write(old, flink_version="1.20")
    names = {"sp": old, "new": new, "report": tmp_path / "report.json"}
    given = words.format(**names).split()
    refused = run(*given, "--checkpoint-id", "-1")
    assert refused.code == 2
    assert "a checkpoint id is a whole number from 0" in refused.err
    assert not new.exists()
    done = run(*given, "--checkpoint-id", "77")
    assert done.code == 0, done.err
    assert pyspark_savepoint.open(new, allow_outside=True)._snapshot().metadata.checkpoint_id == 77


def test_verbs_take_it_too(tmp_path: Path) -> None:
    rows = pa.table({"key": [1, 2], "total": [3, 4]})
    base = pyspark_savepoint.create().with_operator("accounts", rows).write(tmp_path / "old", flink_version="1.20")
    base.erase([1], to=tmp_path / "erased", checkpoint_id=5)
    written = [
        base.pin(tmp_path / "held", checkpoint_id=5),
        base.migrate("2.3").write(tmp_path / "migrated", checkpoint_id=5),
        pyspark_savepoint.open(tmp_path / "erased"),
    ]
    assert [one._snapshot().metadata.checkpoint_id for one in written] == [5, 5, 5]
    with pytest.raises(OptionError, match="a whole number from 0"):
        base.pin(tmp_path / "never", checkpoint_id="5")  # type: ignore[arg-type]


def test_several_savepoints_keep_their_own(run: Run, tmp_path: Path, shop: Path) -> None:
    given = ["--all-below", tmp_path / "a", "--all-to", tmp_path / "b", "--checkpoint-id", "4"]
    refused = run("erase", shop, tmp_path / "new", "--keys", "1", "--report", tmp_path / "r.json", *given)
    assert refused.code == 2
    assert "--all-below writes several" in refused.err
