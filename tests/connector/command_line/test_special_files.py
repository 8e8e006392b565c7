"""Named pipes, devices, sockets, folders and links where a file is expected: nothing blocks, and no memory fills.

Every command that opens local files, and writes, with one file replaced by each of them.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv

from pyspark_savepoint.command_line import commands
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.command_line.parsing import parse
from pyspark_savepoint.command_line.shared_arguments import AtPath, WithTarget
from pyspark_savepoint.formats import redaction
from pyspark_savepoint.formats.errors import SavepointError, UnsafePathError
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from pyspark_savepoint.formats.snapshot.publication import relative_files
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.statebackends.writing.written_operators import read, write

#: Seconds after which a call counts as blocked; on a busy machine a report takes many.
PATIENCE = 120


def as_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(path.parent)  # the path of a socket has at most 108 bytes
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


def as_link_to_pipe(path: Path) -> None:
    os.mkfifo(path.parent / "a-pipe")
    path.symlink_to("a-pipe")


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "zeros": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/ptmx"),
    "link to a pipe": as_link_to_pipe,
    "link to itself": lambda path: path.symlink_to(path.name),
    "socket": as_socket,
    "folder": Path.mkdir,
}

pytestmark = [pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes"), pytest.mark.many_sets]


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """A call that blocks, or needs more than 2 GiB more than now, is an error."""

    def give_up(*_: Any) -> None:
        raise AssertionError(f"blocked for {PATIENCE} seconds")

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + (2 << 30), limits[1]))
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    resource.setrlimit(resource.RLIMIT_AS, limits)


ROWS = pa.table({"key": list(range(10)), "n": list(range(10))})


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "sp"
    write(path, [ROWS])
    csv.write_csv(ROWS, f"{path}.csv")
    return path


@pytest.fixture
def savepoint(base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(base, tmp_path / "sp"))


def replaced(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    KINDS[kind](path)


#: Commands with a snapshot, and what they write to. Those without words here need nothing more.
COMMANDS = [
    "ls {above}", "show {sp} op", "offsets {above} --history", "diff {sp} {base}", "vacuum {sp} --older-than 0",
    "relocate {sp} /old /new {new}", "check-migration {sp} --flink 2.0", "migrate {sp} {new} --flink 2.0",
    "check-restore {sp} {base}", "check-restore {base} {sp}", "schema {sp}", "export {sp} op --file {new}.parquet",
    "evolve {sp} --old-plan {sp} --new-plan {sp}", "catch-up {sp} {base} --old-plan {sp} --new-plan {sp}",
    "merge {sp} {base} {new}", "split {sp} --to {new} op", "changes {above} op", "metrics {above}",
    "changes {above} op --net --start 1", "erase {sp} {new} --keys 1", "remove-keys {sp} {new} op --keys 1",
    "rename {sp} {new} op=other --portable", "set-offsets {sp} {new} --by 1",
    "rekey {sp} {new} op --type key=STRING", "rename-class {sp} {new} a.B=c.D", "remove {sp} {new} op",
    "copy-operator {sp} {new} op two", "set-max-parallelism {sp} {new} 256",
    "verify-erasure {sp} {base}.csv --keys 1", "put {sp} {new} op {base}.csv --replace", "ls {sp}",
    "report {sp} --file {new}.html", "show {sp} --table files", "retained {above}",
]  # fmt: skip
NAMED = {words.partition(" ")[0] for words in COMMANDS}
COMMANDS += [
    f"{command.name} {{sp}}" + " {new}" * issubclass(command.takes, WithTarget)
    for command in commands.COMMANDS
    if issubclass(command.takes, AtPath) and command.name not in NAMED
]


@pytest.mark.parametrize("command", COMMANDS)
def test_arguments_are_understood(command: str) -> None:
    parse(command.split())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["_metadata", "state"])
def test_commands(savepoint: Path, base: Path, place: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    (name,) = relative_files(Snapshot.open(str(savepoint)).metadata)
    replaced(savepoint / (name if place == "state" else place), kind)
    for number, command in enumerate(COMMANDS):
        signal.alarm(PATIENCE)
        places = {"sp": savepoint, "above": savepoint.parent, "base": base, "new": savepoint.parent / f"new-{number}"}
        code = main([part.format(**places) for part in command.split()])
        told = capsys.readouterr()
        assert code in (0, 1, 2, 3), command
        assert "Traceback" not in told.err, command
        assert "unexpected" not in told.err, f"{command}: {told.err}"


@pytest.mark.parametrize("kind", KINDS)
def test_writes(savepoint: Path, kind: str) -> None:
    replaced(savepoint / "_metadata", kind)
    before = sorted(path.name for path in savepoint.iterdir())
    for more in ({"uid": "more"}, {"overwrite": True}):
        with pytest.raises(SavepointError, match="_metadata"):
            write(savepoint, [ROWS], **more)
    assert sorted(path.name for path in savepoint.iterdir()) == before


@pytest.mark.parametrize("kind", KINDS)
def test_records_of_replaced_files(savepoint: Path, kind: str) -> None:
    """Neither a write nor a vacuum believes them, or stops because of them."""
    replaced(savepoint / f".replaced-0-{'a' * 12}", kind)
    write(savepoint, [ROWS.slice(0, 5)], overwrite=True)
    assert len(read(savepoint)) == 5
    assert main(["vacuum", str(savepoint), "--older-than", "0"]) == 0
    left = [path.name for path in savepoint.iterdir() if path.name.startswith(".replaced") and not path.is_dir()]
    assert left == []
    assert len(read(savepoint)) == 5


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_the_user_names(
    savepoint: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "given.jar"
    replaced(given, kind)
    for command in (
        *("show {sp} op -o classes={given}", "check-restore {sp} {given}", "schema {sp} --check {given}"),
        *("put {sp} {new} op {given}", "remove-keys {sp} {new} op --keys-file {given}", "merge {sp} {given} {new}"),
        "rekey {sp} {new} op {given}",
        *("erase {sp} {new} --keys-file {given}", "verify-erasure {sp} {given} --keys 1", "changes {given} op"),
        *("migrate {sp} {new} --flink 2.3 --classes {given}", "migrate {sp} {new} --flink 2.3 --types-from {given}"),
    ):
        signal.alarm(PATIENCE)
        places = {"sp": savepoint, "given": given, "new": tmp_path / "new"}
        assert main([part.format(**places) for part in command.split()]) in (0, 1, 2, 3), command
        assert "Traceback" not in capsys.readouterr().err, command
    monkeypatch.setenv(redaction.GOOGLE_KEY_FILE, str(given))
    assert redaction.redact("a text") == "a text"


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_swapped_between_check_and_use(
    savepoint: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links are resolved first; what is opened then must still be a regular file."""
    path = savepoint / "_metadata"
    real = os.path.realpath

    def swapped(name: Any, **more: Any) -> str:
        found = real(name, **more)
        if str(name).endswith("_metadata"):
            replaced(path, kind)
        return str(found)

    monkeypatch.setattr(os.path, "realpath", swapped)
    with pytest.raises((UnsafePathError, SavepointError)):
        LocalFileSystem().read_published(str(path))


def test_a_lock_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "sp")
    with pytest.raises(NotADirectoryError), LocalFileSystem().lock(str(tmp_path / "sp")):
        pass


def test_a_published_file_has_a_largest_size(savepoint: Path) -> None:
    """A sparse file takes no disk; its bytes would take all memory."""
    with (savepoint / "_metadata").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(UnsafePathError, match="the file is too large"):
        LocalFileSystem().read_published(str(savepoint / "_metadata"))
    with pytest.raises(SavepointError, match=r"_metadata"):
        Snapshot.open(str(savepoint))


#: Every command with a file that it writes, and the suffix of the file that is replaced.
WRITING = (
    ("report {sp} --file {out}.html", ".html"),
    ("metrics {sp} --push-textfile {out}.prom", ".prom"),
    ("schema {sp} --file {out}.json", ".json"),
    ("schema {sp} --format avro --file {out}.json", ".json"),
    ("check-restore {sp} {sp} --junit {out}.xml", ".xml"),
    *((f"export {{sp}} op --format {to} --file {{out}}.rows --force", ".rows") for to in ("parquet", "arrow", "csv")),
    ("erase {sp} {new} --keys 1 --report {out}.json", ".json"),
    ("erase {sp} {new} --keys 1 --report {out}.json", ".md"),
    ("erase {sp} {new} --keys 1 --report {out}.json", ".salt"),
    ("erase {sp} {new} --keys 1 --salt-file {out}.salt", ".salt"),
)  # fmt: skip


def seen(path: Path) -> tuple[int, int, list[str]]:
    """What a path is, and what is beside it."""
    status = path.lstat()
    return status.st_mode, status.st_ino, sorted(each.name for each in path.parent.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_written(savepoint: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no file is left as it is, and an erasure whose report has no place has not begun."""
    for number, (command, suffix) in enumerate(WRITING):
        folder = tmp_path / f"out-{number}"
        folder.mkdir()
        out = folder / f"out{suffix}"
        replaced(out, kind)
        before = seen(out)
        words = [part.format(sp=savepoint, out=folder / "out", new=tmp_path / "new") for part in command.split()]
        signal.alarm(PATIENCE)
        assert main(words) == 2, command
        told = capsys.readouterr().err
        assert str(out) in told, told
        assert "this is a bug" not in told, told
        assert seen(out) == before, command
        assert not (tmp_path / "new").exists(), command
