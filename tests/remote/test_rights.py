"""Rights in a store: commands that only read, and dry runs of those that write, send nothing but GET, HEAD and LIST."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_savepoint.command_line import commands
from pyspark_savepoint.formats.filesystems.filesystem import store_of
from tests.remote.every_command import COMMANDS, fill, words_of
from tests.remote.faulty_writes import run
from tests.remote.measured_store import MeasuredStore, measured_store

SENT = {"PUT", "COPY", "BEGIN", "PART", "COMPLETE", "ABORT", "DELETE", "DELETES"}


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[MeasuredStore]:
    """A filled store whose keys may only read."""
    store_of.cache_clear()
    with measured_store() as store:
        fill(store, tmp_path)
        store.denied = SENT
        yield store


@pytest.mark.parametrize("name", COMMANDS)
def test_what_only_reads_needs_no_right_to_write(
    measured: MeasuredStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    command = next(one for one in commands.COMMANDS if one.name == name)
    dry = ["--dry-run"] * any("--dry-run" in part.names for part in command.all_arguments)
    done = run(measured, *words_of(name, tmp_path), *dry)
    said = capsys.readouterr()
    assert done in (0, 1, 3), said.err
    assert {one.kind for one in measured.requests} <= {"GET", "HEAD", "LIST"}
    assert {one.status for one in measured.requests} <= {200, 206, 304, 404, 416}
    assert measured.requests or name == "create"
