"""What commands print: on terminals of several widths, in pipes, as CSV and JSON; and completion in shells."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv

import pyspark_savepoint
from pyspark_savepoint.command_line.commands import COMMANDS
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.command_line.output import Form, Output, width_of
from tests.connector.command_line.conftest import Run
from tests.connector.command_line.test_special_files import ROWS, WRITING
from tests.data import unpacked
from tests.statebackends.writing.written_operators import write

COMMAND = [sys.executable, "-m", "pyspark_savepoint"]
WIDTHS = (50, 80, 120, 200)


def on_terminal(width: int, *arguments: str, **environment: str) -> list[str]:
    """Return the lines that a command prints on a terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | environment
    process = subprocess.Popen([*COMMAND, *arguments], stdout=slave, stderr=subprocess.DEVNULL, env=env)
    os.close(slave)
    printed = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end was closed
            break
        if not part:
            break
        printed += part
    os.close(master)
    assert process.wait(timeout=60) == 0
    return printed.decode().replace("\r\n", "\n").splitlines()


def printed(width: int | None, columns: list[str], rows: list[dict[str, Any]], **settings: Any) -> list[str]:
    results = io.StringIO()
    Output(results, io.StringIO(), Form.TEXT, width).table(columns, rows, **settings)
    return results.getvalue().splitlines()


# -- terminals ----------------------------------------------------------------------------------------------


@pytest.mark.thorough  # a process for each command
def test_numbers_and_types_are_there_at_80_columns(shop: Path) -> None:
    sizes = on_terminal(80, "sizes", str(shop), NO_COLOR="1")
    assert sizes[0].split()[-3:] == ["entries", "bytes", "largest"]
    assert any(line.split()[-3:] == ["200", "12400", "62"] for line in sizes)
    listed = on_terminal(80, "ls", str(shop))
    assert any(line.split() == ["keyed_state", "total", "VALUE", "LONG", "LONG"] for line in listed)
    assert "accounts" in listed
    for line in (*sizes, *listed):
        assert width_of(line) <= 80 or "/" in line  # paths are never broken
        assert "\x1b" not in line


#: Rows like those of the commands: long names, numbers, notes, wide characters.
NAMES = {
    "operator": "orders-per-minute-and-country",
    "state": "_timer_state/processing_user-timers",
    "kind": "VALUE",
    "entries": 12_345_678,
    "bytes": 9_876_543_210,
    "text": "玉露" * 40,
    "note": "a file of the snapshot is missing\n  to do: copy it again " + "and again " * 20,
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("lines", [1, 4])
def test_every_row_fits_and_numbers_are_whole(width: int, lines: int) -> None:
    shown = printed(width, list(NAMES), [NAMES, {**NAMES, "state": "total", "note": None}], lines=lines)
    assert max(map(width_of, shown)) <= width
    assert "12345678" in "\n".join(shown)
    assert "9876543210" in "\n".join(shown)
    words = " ".join(shown).split()
    assert words.count("again") >= 21  # a note is never cut
    if lines > 1 and width > WIDTHS[0]:
        assert any("timers" in word for word in words)
        assert "orders-per-minute-and-country" in words


def test_operators_stand_above_their_states_and_paths_above_their_rows() -> None:
    rows = [{"operator": f"operator-{n // 3}", "state": f"state-{n}" * 4, "bytes": n} for n in range(6)]
    shown = printed(40, ["operator", "state", "bytes"], rows)
    assert [line for line in shown if not line.startswith(" ")] == ["operator-0", "operator-1"]
    path = "/savepoints/" + "x" * 60
    assert path in printed(40, ["path", "kind"], [{"path": path, "kind": "savepoint"}])


def test_too_many_columns_become_lines() -> None:
    row = {f"column_{n}": f"value {n} " + "x" * 30 for n in range(20)}
    shown = printed(60, list(row), [row, row])
    assert shown[0].split() == ["column_0", "value", "0", "x" * 30]
    assert len(shown) == 2 * 20 + 1
    assert max(map(len, shown)) <= 60


def test_columns_have_the_names_that_options_take(run: Run, shop: Path) -> None:
    title = run("show", shop, "accounts", "--limit", 1).out.splitlines()[0].split()
    assert title[:4] == ["key", "total", "recent_amounts", "spent_by_currency"]
    assert [each["key"] for each in run("show", shop, "accounts", "--where", f"{title[1]} = 95296", "--json").records]


def test_nothing_is_cut_without_a_terminal(run: Run) -> None:
    rows = [{"operator": "a", "value": "x" * 5000, "note": "y" * 5000}, {"operator": "b", "value": "z", "note": None}]
    shown = printed(None, ["operator", "value", "note"], rows)
    assert len(shown) == 3
    assert ("x" * 5000) in shown[1]
    assert ("y" * 5000) in shown[1]
    assert len(shown[2]) < 100  # and not padded to the longest


@pytest.mark.thorough("80, 120 and 200 columns")
def test_wide_cuts_nothing_on_a_terminal(shop: Path) -> None:
    wide = on_terminal(80, "show", str(shop), "accounts", "--wide", "--limit", "3")
    assert any('"tier": "SILVER"}' in line for line in wide)
    assert not any("…" in line for line in wide)
    assert any("…" in line for line in on_terminal(80, "show", str(shop), "accounts", "--limit", "3"))


class Terminal(io.StringIO):
    """A stream that says it is a terminal; its width is that of the environment."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def places(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Snapshots that commands are tried with, and a folder for what they write."""
    room, sets = tmp_path_factory.mktemp("places"), unpacked()
    edited, left = room / "edited", room / "left"
    assert main(["remove-keys", str(shop), str(edited), "accounts", "--where", "total < 30000"]) == 0
    shutil.copytree(shop, left)
    (left / ".pending-0123456789ab").mkdir()
    shutil.copytree(shop, damaged := room / "damaged")
    max(damaged.iterdir(), key=lambda file: file.stat().st_size * (file.name != "_metadata")).unlink()
    operator = {"uid": "accounts", "key": "STRING", "states": {"total": "STRING", "recent_amounts": "LONG"}}
    (room / "job.json").write_text(json.dumps({"operators": [operator, {"uid": "a-new-operator-of-the-job"}]}))
    (kafka,) = (sets / "connectors" / "2.3.0-kafka-v5.0.0").glob("savepoint-*")
    migration = sets / "migration"
    found = {
        "shop": shop, "edited": edited, "left": left, "damaged": damaged,
        "job": room / "job.json", "kafka": kafka, "new": room,
        "old": migration / "cases" / "pojo-all" / "1.20.5-hashmap", "classes": migration / "classes",
        "lab": sets / "lab" / "2.2.1-hashmap-canonical" / "savepoint", "history": sets / "history",
    }  # fmt: skip
    return {name: str(path) for name, path in found.items()}


#: Commands, their exit codes, and words that are whole at every width.
COMMANDS_OF_A_TERMINAL = {
    "ls {shop}": (0, "COORDINATOR accounts"),
    "ls {lab}": (0, "AGGREGATING window-tumbling-process"),
    "ls {history}": (0, "checkpoint 176835"),
    "sizes {lab}": (0, "AGGREGATING 23774 12015"),
    "diff {shop} {edited}": (1, "spent_by_currency removed"),
    "diff {shop} {edited} accounts": (1, "removed"),
    "diff {shop} {lab}": (1, "removed de96504ebb8d70d14beb6a829f93715a"),
    "set-offsets {kafka} {new}/offsets-{width} source --set orders-1=5": (0, "records"),
    "salvage {damaged} {new}/salvaged-{width}": (0, "lost missing"),
    "vacuum {left} --older-than 0 --dry-run": (0, "pending deleted"),
    "check-restore {shop} {job}": (1, "orders-source incompatible,"),
    "check-restore {shop} {lab}": (1, "warehouse-export"),
    "check-migration {old} --flink 2.3 --classes {classes}": (
        1,
        "rewritten restoring 0dccc6d845eac8e1b962e0ff56612b4e",
    ),
    "check-migration {old} --flink 2.3": (1, "rewritten unknown miglab.Model$PAll"),
    "migrate {old} {new}/migrated-{width} --flink 2.3 --classes {classes}": (0, "java.util.LinkedHashSet starts"),
    "migrate {old} {new}/refused --flink 2.3": (2, "error: miglab.Model$PAll"),
    "heaviest {shop}": (0, "accounts 1016"),
    "doctor {old}": (1, "unclear-for-flink-2: KRYO<java.util.Map>,"),
}


@pytest.mark.parametrize("width", WIDTHS[1:])
@pytest.mark.parametrize("command", COMMANDS_OF_A_TERMINAL)
def test_commands_fit_and_break_no_words(
    places: dict[str, str], command: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, whole = COMMANDS_OF_A_TERMINAL[command]
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main([word.format(width=width, **places) for word in command.split()]) == code
    text = terminal.getvalue()
    for line in text.splitlines():
        assert width_of(line) <= width or max(line.split(), key=len).startswith("/"), line  # paths are never broken
    assert set(whole.split()) <= set(text.split())


# -- CSV and JSON -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [["ls"], ["sizes"], ["heaviest"], ["show", "accounts"], ["verify"], ["offsets"], ["doctor"]]
)
def test_csv_has_the_values_of_json(run: Run, shop: Path, command: list[str]) -> None:
    arguments = [command[0], shop, *command[1:]]
    records = run(*arguments, "--json").records
    done = run(*arguments, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        for name, value in record.items():
            if name in row and not isinstance(value, dict | list | bool):
                assert row[name] == ("" if value is None else str(value))


def test_csv_tells_nothing_from_an_empty_text() -> None:
    results = io.StringIO()
    rows = [{"a": None, "b": ""}, {"a": 'say "x, y"\n', "b": [1, None]}]
    Output(results, io.StringIO(), Form.CSV).table(["a", "b"], rows)
    assert results.getvalue() == 'a,b\n,""\n"say ""x, y""\n","[1, null]"\n'


def test_maps_are_objects_if_their_keys_are_strings(run: Run, shop: Path, tmp_path: Path) -> None:
    (row,) = run("show", shop, "accounts", "--keys", 1039, "--json").records
    assert row["spent_by_currency"] == {"USD": 73062}
    assert run("export", shop, "accounts", "--format", "json", "--file", tmp_path / "a.jsonl").code == 0
    lines = map(json.loads, (tmp_path / "a.jsonl").read_text().splitlines())
    assert next(line for line in lines if line["key"] == 1039) == row


def test_export_to_csv(run: Run, shop: Path, tmp_path: Path) -> None:
    target = tmp_path / "accounts.csv"
    assert run("export", shop, "accounts", "--format", "csv", "--file", target).code == 0
    found = arrow_csv.read_csv(target)
    expected = pyspark_savepoint.open(shop).keyed_state("accounts").to_arrow()
    assert found["total"].to_pylist() == expected["total"].to_pylist()
    assert json.loads(found["profile"][0].as_py()).keys() == expected["profile"][0].as_py().keys()
    assert found["coupon"].to_pylist() == [text or "" for text in expected["coupon"].to_pylist()]


# -- completion ---------------------------------------------------------------------------------------------


@pytest.mark.thorough("completion of commands", sets=("pyspark-savepoint show",))
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pyspark-savepoint si", {"sizes"}),
        ("pyspark-savepoint show SHOP acc", {"accounts"}),
        ("pyspark-savepoint show SHOP accounts to", {"total"}),
        ("pyspark-savepoint ls SHOP --w", {"--wide"}),
        ("pyspark-savepoint show s3://bucket/x acc", set()),
    ],
)
def test_completion(shop: Path, tmp_path: Path, line: str, expected: set[str]) -> None:
    """What a shell asks, and what it is answered."""
    line = line.replace("SHOP", str(shop))
    answer = tmp_path / "answer"
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "_ARGCOMPLETE_IFS": "\n"}
    env = os.environ | asked | {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
    subprocess.run(COMMAND, env=env, check=False, capture_output=True)
    assert {one.strip().replace("\\", "") for one in answer.read_text().split("\n") if one.strip()} == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_code_that_a_shell_reads(run: Run, tmp_path: Path, shell: str) -> None:
    done = run("completion", shell)
    assert done.code == 0
    assert "_ARGCOMPLETE" in done.out
    assert "pyspark-savepoint" in done.out
    if shutil.which(shell):
        (tmp_path / "code").write_text(done.out)
        subprocess.run([shell, "-n", str(tmp_path / "code")], check=True, capture_output=True)
    assert {command.name for command in COMMANDS} > {"completion"}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A savepoint of one operator."""
    write(tmp_path / "sp", [ROWS])
    return tmp_path / "sp"


def test_links_and_long_names_that_are_written(run: Run, small: Path, tmp_path: Path) -> None:
    for number, (command, suffix) in enumerate(WRITING):
        if "--salt-file" in command:
            continue
        for name in ("out", "n" * 250):
            folder = tmp_path / f"{name[0]}-{number}"
            (folder / "real").mkdir(parents=True)
            out = folder / f"{name}{suffix}"
            out.symlink_to(folder / "real" / "there" if number % 2 else Path("real/there"))
            if number % 3:
                out.resolve().write_text("old")
            words = [part.format(sp=small, out=folder / name, new=folder / "new") for part in command.split()]
            done = run(*words)
            assert done.code in (0, 3), done.err
            assert out.is_symlink()
            assert len(out.read_bytes()) > 5
            assert [path.name for path in (folder / "real").iterdir()] == ["there"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--report", "{tmp}/r.md"), "the file of JSON"),
        (("--report", "{tmp}/r.salt"), "the file of JSON"),
        (("--report", ""), "must not be empty"),
        (("--report", "{tmp}/none/r.json"), "there is no such folder"),
        (("--report", "{tmp}/r.json", "--salt-file", "{tmp}/r.json"), "write the same file"),
        (("--report", "{tmp}/r.json", "--salt-file", "{tmp}/./r.md"), "write the same file"),
        (("--report", "{tmp}/r.json", "--all-below", "{tmp}", "--all-to", "s3://bucket/to"), "a file of this machine"),
        (("--report", "{tmp}/" + "n" * 300), "File name too long"),
    ],
)
def test_reports_that_cannot_be_written(
    run: Run, small: Path, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    before = sorted(tmp_path.iterdir())
    done = run("erase", small, tmp_path / "new", "--keys", 1, *(word.replace("{tmp}", str(tmp_path)) for word in words))
    assert done.code == 2
    assert told in done.err
    assert sorted(tmp_path.iterdir()) == before


def test_csv_whose_texts_no_spreadsheet_takes_for_formulas(run: Run, tmp_path: Path) -> None:
    rows = pa.table({"key": [1, -2], "t": ["=HYPERLINK(1)", "-1.5"]})
    path = tmp_path / "savepoint"
    pyspark_savepoint.create().with_operator("op", rows).write(path)
    assert "1,=HYPERLINK(1)\n" in run("show", path, "op", "--csv", "--columns", "key,t").out
    printed = run("show", path, "op", "--safe-csv", "--columns", "key,t").out
    assert sorted(printed.splitlines()) == ["-2,-1.5", "1,'=HYPERLINK(1)", "key,t"]
    file = tmp_path / "rows.csv"
    run("export", path, "op", "--format", "csv", "--file", file, "--columns", "key,t", "--safe-csv")
    assert sorted(file.read_text().splitlines()) == sorted(printed.splitlines())
    refused = run("export", path, "op", "--file", tmp_path / "rows.parquet", "--safe-csv")
    assert refused.code == 2
    assert "--safe-csv is for CSV" in refused.err
