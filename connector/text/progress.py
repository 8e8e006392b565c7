"""Progress of work of this process: one line of a terminal after a second, or plain lines where they are asked for.

A verb or a command says what it does (:func:`showing`); what it calls counts parts, rows and files, in whatever thread
it runs, and costs next to nothing while nothing is shown. Output that is no progress erases the line first
(:func:`erase`). Spark's jobs have progress of their own (``api.spark.progress``).
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from pyspark_savepoint.formats.redaction import printable

#: Seconds of work before anything is shown, between two updates of a line, and between two plain lines.
SILENT, UPDATES, PLAIN = 1.0, 0.2, 5.0


class Mode(Enum):
    """Where progress is shown: on terminals, as plain lines elsewhere too, or nowhere."""

    TERMINALS = "terminals"
    LINES = "lines"
    NOWHERE = "nowhere"


class Work:
    """What a verb or a command has done so far."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.rows = self.done = self.parts = 0
        self.detail = ""
        self.began = time.monotonic()
        self.lock = threading.Lock()

    def text(self) -> str:
        """Return the line: what was counted, and the time that it took."""
        counted = [f"{self.done} of {self.parts} parts"] if self.parts > 1 else []
        counted += [f"{self.rows:,} rows"] if self.rows else []
        counted += [self.detail] if self.detail else []
        return printable(f"{self.what}: {', '.join([*counted, f'{time.monotonic() - self.began:.0f} s'])}", line=True)


class Line:
    """The line of standard error, which one thread writes and others erase."""

    def __init__(self) -> None:
        self.mode = Mode.TERMINALS
        self.work: Work | None = None
        self.length = 0
        self.lock = threading.RLock()

    @property
    def moves(self) -> bool:
        """Whether the line is overwritten."""
        return self.mode is not Mode.NOWHERE and sys.stderr is not None and sys.stderr.isatty()

    def draw(self, text: str) -> None:
        """Replace the line, cut to the width of the terminal."""
        with self.lock:
            text = text[: max(1, columns() - 1)]
            sys.stderr.write("\r" + text.ljust(self.length))
            sys.stderr.flush()
            self.length = len(text)

    def erase(self) -> None:
        """Remove the line."""
        with self.lock:
            if self.length:
                sys.stderr.write("\r" + " " * self.length + "\r")
                sys.stderr.flush()
                self.length = 0


LINE = Line()


def columns() -> int:
    """Return the width of the terminal of standard error, where standard output may be a file."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or shutil.get_terminal_size().columns
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns


def erase() -> None:
    """Remove the line before something else is printed."""
    if LINE.length:
        LINE.erase()


@contextmanager
def showing(what: str, mode: Mode | None = None) -> Iterator[None]:
    """Show the progress of a block, of blocks inside of it as part of it; ``mode`` applies to all of them."""
    if LINE.work is not None:
        yield
        return
    before = LINE.mode
    LINE.mode = mode or before
    moves = LINE.moves
    if not moves and LINE.mode is not Mode.LINES:
        try:
            yield
        finally:
            LINE.mode = before
        return
    work, over = Work(what), threading.Event()
    LINE.work = work

    def follow() -> None:
        wait = SILENT
        while not over.wait(wait):
            if moves:
                LINE.draw(work.text())
                wait = UPDATES
            else:
                print(f"savepoint: {work.text()}", file=sys.stderr, flush=True)
                wait = PLAIN

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        yield
    finally:
        over.set()
        follower.join()
        LINE.work, LINE.mode = None, before
        LINE.erase()


def parts(count: int) -> None:
    """Say in how many parts the work that begins is done; they come to those of work that is under way."""
    work = LINE.work
    if work is not None:
        with work.lock:
            if work.done < work.parts:
                work.parts += count
            else:
                work.done, work.parts = 0, count


def part_done() -> None:
    """Count a part."""
    work = LINE.work
    if work is not None:
        with work.lock:
            work.done += 1


def rows(count: int) -> None:
    """Count rows."""
    work = LINE.work
    if work is not None:
        with work.lock:
            work.rows += count


def detail(text: str) -> None:
    """Say more about the work, such as how many files were copied."""
    work = LINE.work
    if work is not None:
        work.detail = text
