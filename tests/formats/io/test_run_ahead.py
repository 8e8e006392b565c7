"""Files that are opened ahead of several readers."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyspark_savepoint.formats.filesystems.filesystem import RemoteFileSystem
from pyspark_savepoint.formats.io.byte_source import EXPECTED, FileLocation
from pyspark_savepoint.formats.io.local_files import LocalInputFile
from pyspark_savepoint.formats.io.run_ahead import (
    AHEAD,
    AHEAD_FILES,
    LONGEST_WAIT,
    Announcement,
    BytesAhead,
    Readers,
    announced,
    announced_file,
)
from pyspark_savepoint.formats.io.snapshot_files import BEGINNING, WHOLE, InputFile, Opening
from pyspark_savepoint.formats.metadata.stream_handles import UNKNOWN_SIZE


@pytest.mark.parametrize(
    ("size", "opening", "counted"),
    [
        (600, BEGINNING, 600),
        (UNKNOWN_SIZE, BEGINNING, EXPECTED),
        (40 << 20, BEGINNING, EXPECTED),
        (5 << 20, WHOLE, 5 << 20),
        (40 << 20, Opening(count=700), 700),
    ],
)
def test_a_file_counts_as_many_bytes_as_its_request_may_bring(size: int, opening: Opening, counted: int) -> None:
    """Small files of a database would else take the place of its table files."""
    announcement = FileLocation(RemoteFileSystem("s3", "bucket"), "/file", size=size).announcement(opening)
    assert announcement is not None
    assert announcement.size == counted


def test_a_reader_that_ends_does_not_hold_up_another_one(tmp_path: Path) -> None:
    """The second one waits for a file that the first one would open, and that it gives up."""
    path = tmp_path / "file"
    path.write_bytes(b"content")
    may_go_on = threading.Event()

    def open_file() -> InputFile:
        return LocalInputFile(str(path), str(path))

    def open_slowly() -> InputFile:
        may_go_on.wait(30)
        return open_file()

    slow = [Announcement((number, "data"), 1, open_slowly) for number in range(AHEAD)]
    shared, group = ("shared", "data"), Readers(2)
    with ExitStack() as second, ExitStack() as first:
        first.enter_context(announced([*slow, Announcement(shared, 1, open_file)], AHEAD_FILES, group))
        second.enter_context(announced([Announcement(shared, 1, open_file)], AHEAD_FILES, group))
        first.close()
        begin = time.monotonic()
        file = announced_file(shared)
        assert file is not None
        file.close()
        assert time.monotonic() - begin < LONGEST_WAIT / 2
        may_go_on.set()


def test_a_reader_is_collected_while_another_one_opens_files(tmp_path: Path) -> None:
    """It was not read to its end, and its queue ends in a thread that holds the lock of all queues."""
    path = tmp_path / "file"
    path.write_bytes(b"content")

    def open_file() -> InputFile:
        return LocalInputFile(str(path), str(path))

    def left() -> Iterator[None]:
        with announced([Announcement((number, "left"), 1, open_file) for number in range(3)]):
            yield

    def files() -> Iterator[Announcement]:
        for number in range(3):
            if number:  # the first one is asked for without the lock
                gc.collect()
            yield Announcement((number, "data"), 1, open_file)

    def read() -> None:
        reader: list[object] = [left()]
        next(reader[0])  # type: ignore[call-overload]
        reader.append(reader)
        del reader
        with announced(files(), AHEAD_FILES):
            for number in range(3):
                file = announced_file((number, "data"))
                assert file is not None
                file.close()
        done.set()

    done = threading.Event()
    threading.Thread(target=read, daemon=True).start()
    assert done.wait(30), "no thread waits for itself"
    assert BytesAhead.total == 0
