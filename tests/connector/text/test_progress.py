"""Progress of work in this process: a line of a terminal that goes away, plain lines where asked for, else nothing."""

from __future__ import annotations

import os
import pty
import re
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.text import progress

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a second."""
    monkeypatch.setattr(progress, "SILENT", 0.0)
    monkeypatch.setattr(progress, "PLAIN", 0.01)
    monkeypatch.setattr(progress, "UPDATES", 0.02)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], str]:
    """What work prints on a terminal."""

    def on_terminal(work: Callable[[], object], columns: int = 80) -> str:
        reader, writer = pty.openpty()
        termios.tcsetwinsize(writer, (24, columns))
        found = bytearray()

        def read() -> None:
            with suppress(OSError):  # the terminal is closed
                while data := os.read(reader, 1 << 12):
                    found.extend(data)

        reading = threading.Thread(target=read)
        reading.start()
        with os.fdopen(writer, "w", encoding="utf-8") as stream, monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", stream)
            work()
        reading.join()
        os.close(reader)
        return found.decode()

    return on_terminal


def slow_rows() -> pa.RecordBatchReader:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])

    def batches() -> object:
        for number in range(5):
            time.sleep(0.05)
            yield pa.RecordBatch.from_pydict({"id": [2 * number, 2 * number + 1], "n": [1, 2]}, schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def test_a_write_shows_rows_on_a_terminal(printed: Callable[..., str], tmp_path: Path) -> None:
    plan = pyspark_savepoint.create().with_operator("x", slow_rows(), key="id")
    text = printed(lambda: plan.write(tmp_path / "sp"))
    assert "writing: 0 s" in text
    assert re.search(r"\rwriting: [2468] rows, [0-9]+ s", text)
    assert text.endswith(" \r")  # the line is removed
    assert progress.LINE.work is None


def test_the_line_is_no_wider_than_the_terminal(printed: Callable[..., str], tmp_path: Path) -> None:
    plan = pyspark_savepoint.create().with_operator("x", slow_rows(), key="id")
    text = printed(lambda: plan.write(tmp_path / "sp"), columns=12)  # standard output is none
    assert "writing: 2 r" not in text
    assert {len(each) for each in text.split("\r")} <= set(range(12))
    assert "\rwriting: 2 " in text or "\rwriting: 4 " in text


def test_nothing_is_shown_where_standard_error_is_no_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pyspark_savepoint.create().with_operator("x", slow_rows(), key="id").write(tmp_path / "sp")
    assert main(["verify", str(SHOP)]) == 0
    told = capsys.readouterr().err
    assert "writing: " not in told
    assert "verify: " not in told


def test_commands_print_lines_where_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words in (
        ["verify", str(SHOP)],
        ["diff", str(SHOP), str(SHOP)],
        ["remove-keys", str(SHOP), str(tmp_path / "new"), "accounts", "--keys", "1042"],
        ["cp", str(SHOP), str(tmp_path / "copy")],
    ):
        assert main([*words, "--progress"]) == 0
        assert f"savepoint: {words[0]}: " in capsys.readouterr().err


def test_a_terminal_shows_nothing_that_is_not_wanted(
    printed: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "verify: " in printed(lambda: main(["verify", str(SHOP)]))
    for word in ("--quiet", "--json"):

        def command(word: str = word) -> None:
            main(["verify", str(SHOP), word])
            print("nothing else", file=sys.stderr)

        assert printed(command) == "nothing else\r\n"
    assert main(["verify", str(SHOP), "--quiet", "--progress"]) == 2
    assert "exclude each other" in capsys.readouterr().err
