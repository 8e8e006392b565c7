"""Files in the folder of a savepoint that `_metadata` does not name: a person in one of them makes the proof fail."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint.erasure.report import ErasureReport
from pyspark_savepoint.errors import OptionError
from pyspark_savepoint.formats.metadata.keyed_handles import IncrementalRemoteKeyedStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.sources.keyed_source import RocksDBSource
from tests.connector.erasure.conftest import opened_job
from tests.connector.erasure.test_erasing import errors
from tests.oracle.person import BY, ID, MAIL, WHERE, keys

pytestmark = pytest.mark.many_sets

Erased = tuple[Path, ErasureReport]


@pytest.fixture
def copied(erased: Erased, tmp_path: Path) -> Erased:
    """A copy of the savepoint without the person, in whose folder a test puts files."""
    return Path(shutil.copytree(erased[0], tmp_path / "new")), erased[1]


def proof(copied: Erased, **arguments: Any) -> list[dict[str, Any]]:
    return opened_job(copied[0]).verify_erasure(copied[1], keys(), where=WHERE, **arguments)


@pytest.mark.thorough  # whole snapshots are searched
def test_all_other_files_are_searched(copied: Erased, job: Path) -> None:
    folder = copied[0]
    (folder / "000042.sst").write_bytes(table_with_person(job))
    shutil.copy(job / "_metadata", folder / "_metadata.old")
    below = folder / "notes" / ".hidden"
    below.mkdir(parents=True)
    (below / "todo.txt").write_text(f"called {MAIL} today")
    (below / "nothing.txt").write_text(f"called {MAIL}x today, and wrote to {ID}0")
    (folder / f"of {MAIL}.txt").write_text("")
    (folder / "notes.txt.gz").write_bytes(gzip.compress(MAIL.encode()))
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")

    found = proof(copied)

    assert errors(found) == {"files"}
    evidence = {one["evidence"].partition(", which _metadata does not name: ")[0]: one for one in found}
    named = {
        "000042.sst",
        "_metadata.old",
        "notes/.hidden/todo.txt",
        f"of {MAIL}.txt",
        "notes.txt.gz",
        "link",
        "pipe",
        "notes/.hidden/nothing.txt",
    }
    assert {name for name in evidence if evidence[name]["check"] == "files"} == named
    assert {name for name in named if evidence[name]["severity"] == "note"} == {"notes/.hidden/nothing.txt"}
    assert "compressed (gzip)" in evidence["notes.txt.gz"]["evidence"]
    assert "root:" not in str(found)
    accepted = proof(copied, accept=sorted(named))
    assert errors(accepted) == set()
    with pytest.raises(OptionError, match=r"notes/\.hidden/todo\.txt"):
        proof(copied, accept=["notes/.hidden/todo.tx"])


def table_with_person(job: Path) -> bytes:
    """A table file whose entries have the address."""
    snapshot = Snapshot.open(str(job))
    for operator in snapshot.operators:
        for subtask in operator.subtasks.values():
            handle = subtask.managed_keyed_state
            if isinstance(handle, IncrementalRemoteKeyedStateHandle):
                for name, location in RocksDBSource.of(snapshot, operator, handle).files:
                    with location.open() as source:
                        data = source.read(0, source.size)
                    if name.endswith(".sst") and MAIL.encode() in data:
                        return data
    raise AssertionError("no table file has the address")


def test_a_clean_savepoint_is_proved_beside_notes(copied: Erased) -> None:
    (copied[0] / "README.txt").write_text("kept for the audit")
    found = proof(copied)
    assert errors(found) == set()
    assert any("README.txt, which _metadata does not name: nothing of the keys" in one["evidence"] for one in found)


def test_a_dry_run_names_other_files_with_the_person(job: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(job.parent, tmp_path / "job")) / job.name
    (folder / "note.txt").write_text(MAIL)
    report = opened_job(folder).erase(keys(), by=BY, dry_run=True, below=job)
    (note,) = [one for one in report.content["before"]["files"] if one["name"] == "note.txt"]
    assert note["of"] == ["not named by _metadata"]
    assert note["hits"][0]["certain"]


def test_many_bytes_that_look_compressed_cost_no_more_than_their_number(shop: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(shop, tmp_path / "sp"))
    chunk = b"\xff\x06\x00\x00sNaPpY" + b"\x00\xf0\xff\x00"
    (folder / "like-snappy").write_bytes(chunk * 40_000)
    report = pyspark_savepoint.open(folder).erase([1042], dry_run=True, below=folder)
    (one,) = [one for one in report.content["before"]["files"] if one["name"] == "like-snappy"]
    assert "look like compressed" in one["problem"]
