"""Files that do not have their checksum any more: each command that writes says what to do, and takes them as asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_savepoint.command_line.commands import COMMANDS
from tests.connector.command_line.conftest import Run
from tests.connector.command_line.test_evolving import words as evolve_words
from tests.connector.command_line.test_migrating import HINT, UID_HASH
from tests.remote.every_command import COMMANDS as WORDS
from tests.remote.every_command import words_of

TAKING = {one.name for one in COMMANDS if any("--checksums" in part.names for part in one.all_arguments)}
#: Those that write a new savepoint of one that is damaged.
EDITS = [name for name in TAKING if WORDS[name].split()[1:3] == ["{sp}", "{new}"]]
OTHERS = {"evolve", "merge", "salvage", "set-offsets", "split"}


@pytest.fixture
def damaged(run: Run, shop: Path, tmp_path: Path) -> Path:
    """A savepoint with checksums, and a flipped bit in the city of an account."""
    savepoint = tmp_path / "job" / "shop"
    assert run("cp", shop, savepoint).code == 0
    flip(savepoint, b"Toronto")
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "total": 2}\n')
    return savepoint


def flip(folder: Path, text: bytes) -> None:
    """Flip a bit of the first byte of a text."""
    file = next(one for one in folder.iterdir() if one.name != "_metadata" and text in one.read_bytes())
    data = bytearray(file.read_bytes())
    data[data.index(text)] ^= 1
    file.write_bytes(data)


def test_every_command_that_takes_checksums_is_here() -> None:
    assert {*EDITS, *OTHERS} == TAKING


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize("name", sorted(EDITS))
def test_damaged_files_are_an_error_or_taken_as_they_are(run: Run, tmp_path: Path, name: str) -> None:
    words, new = words_of(name, tmp_path, str(tmp_path)), tmp_path / "out" / "new"
    refused = run(*words)
    assert refused.code == 2
    assert "its checksum differs" in refused.err
    assert "--checksums ignore reads the file as it is" in refused.err
    assert not (new / "_metadata").exists()
    assert run(*words, "--checksums", "ignore").code == 0
    assert run("verify", new).code == 0


def test_splits_merges_and_salvages_take_it_too(run: Run, damaged: Path, tmp_path: Path) -> None:
    one, rest, whole = tmp_path / "one", tmp_path / "rest", tmp_path / "whole"
    parts = ("split", damaged, "--to", one, "accounts", "--rest", rest)
    assert "--checksums ignore" in run(*parts).err
    assert run(*parts, "--checksums", "ignore").code == 0
    flip(one, b"Paris")
    assert "--checksums ignore" in run("merge", one, rest, whole).err
    assert run("merge", one, rest, whole, "--checksums", "ignore").code == 0
    assert "--checksums verify leaves its state out" in run("salvage", damaged, tmp_path / "left").err
    assert run("salvage", damaged, tmp_path / "left", "--checksums", "verify").code == 0


def test_a_changed_query_takes_it_too(run: Run, tmp_path: Path) -> None:
    command, base, *plans = evolve_words("agg-reorder")
    assert run("set-max-parallelism", base, tmp_path / "base", "64").code == 0  # state is in a file then
    flip(tmp_path / "base", b"\x9e\x01\x00\x00\x00\x00\x00\x00\xff\xff")
    words = (command, tmp_path / "base", tmp_path / "new", *plans)
    assert "--checksums ignore" in run(*words).err
    assert run(*words, "--checksums", "ignore").code == 0


def test_a_migration_that_rewrites_values_takes_it_too(run: Run, tmp_path: Path) -> None:
    base = tmp_path / "base"
    assert run("set-max-parallelism", HINT, base, "64").code == 0  # state is in a file then
    flip(base, b"x\x00\xff\xff")
    words = ("migrate", base, tmp_path / "new", "--flink", "2.3", "--type", "v=LIST<STRING>")
    assert "--checksums ignore" in run(*words).err
    assert run(*words, "--checksums", "ignore").code == 0
    assert '["y", null]' in run("show", tmp_path / "new", UID_HASH).out
