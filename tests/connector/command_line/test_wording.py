"""Sentences of other doors in the words of the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.command_line.wording import worded
from tests.connector.command_line.conftest import Run


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("put", "use option('flinkVersion', '2.1') if", "use --flink 2.1 if"),
        (
            "show",
            "give the types: option('pyTypes', 'v_long LONG; red ...')",
            "give the types: --option 'pyTypes=v_long LONG; red ...'",
        ),
        (
            "show",
            'name the jar in option \'classes\', or read bytes: option("raw", "total")',
            "name the jar in --option classes=..., or read bytes: --option raw=total",
        ),
        ("check-migration", "name the jar in option 'classes'", "name the jar in --classes"),
        ("show", "('versionAsOf' = 'latest' of the folder)", "(--as-of latest of the folder)"),
        (
            "ls",
            "option('table', 'splits') shows its content",
            "pyspark-savepoint show --table splits shows its content",
        ),
        ("show", "option('table', 'splits') shows its content", "--table splits shows its content"),
        ("ls", "set option 'allowOutside' = true; if", "set --allow-outside; if"),
        ("changes", "end before it with 'endingVersion'", "end before it with --end"),
        ("put", """name it: option("types", '{"key": "ROW<...>"}')""", "name it: --type 'key=ROW<...>'"),
        (
            "put",
            "with_state replaces it, remove_state('total') removes it first",
            "pyspark-savepoint put replaces it, pyspark-savepoint remove OLD NEW UID.STATE removes it first",
        ),
        (
            "doctor",
            "Savepoint.assign_uid('0b637ce1b947c559bb5f723647b7cc8e', uid) gives",
            "pyspark-savepoint rename OLD NEW HASH=UID gives",
        ),
        (
            "check-restore",
            "change_operator_identifier('accounts', 'my ledger')",
            "pyspark-savepoint rename OLD NEW 'accounts=my ledger'",
        ),
        (
            "set-offsets",
            "if it is a known one: connector='kafka'; else",
            "if it is a known one: --connector kafka; else",
        ),
        ("show", "it migrates values of one option", "it migrates values of one option"),
        ("show", "did you mean 'total' or 'perDay'?", "did you mean 'total' or 'perDay'?"),
    ],
)
def test_words(command: str, text: str, expected: str) -> None:
    assert worded(text, command) == expected


def test_a_moved_operator_is_renamed_by_a_command(run: Run, shop: Path, tmp_path: Path) -> None:
    assert run("rename", shop, tmp_path / "moved", "accounts=ledger").code == 0
    checked = run("check-restore", shop, tmp_path / "moved")
    assert checked.code == 1
    assert "pyspark-savepoint rename OLD NEW accounts=ledger" in checked.out + checked.err


def test_errors_name_an_operator_as_it_was_given(run: Run, corpus: Path, tmp_path: Path) -> None:
    """Metadata of Flink 1 have hashes only."""
    old = corpus / "lab" / "1.20.5-hashmap-native" / "savepoint"
    for command in (("show", old, "kv-string", "nostate"), ("remove", old, tmp_path / "new", "kv-string.nostate")):
        assert "  operator: kv-string (bf8de4b01a38035ad1e25e0e033f5ce1)\n" in run(*command).err


def test_ls_says_that_splits_show_the_positions_of_a_consumer(run: Run, tmp_path: Path) -> None:
    rows = pa.table({"value": pa.array([("orders", 3)], pa.struct([("f0", pa.string()), ("f1", pa.int64())]))})
    sp = pyspark_savepoint.create().with_operator("source")
    sp = sp.with_union_state("source", "topic-partition-offset-states", rows, types={"value": "TUPLE<STRING, LONG>"})
    (row,) = run("ls", sp.write(tmp_path / "sp").path, "--json").records
    assert row["note"] == "pyspark-savepoint show --table splits shows its content as rows"


def test_a_repeated_key_is_named(run: Run, shop: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("key,total\n1042,5\n1043,6\n1042,7\n")
    assert (
        "found: key 1042 again, in key group 19"
        in run("put", shop, tmp_path / "new", "accounts", rows, "total", "--upsert").err
    )


def test_a_name_that_flink_cannot_write_is_refused(run: Run, shop: Path, tmp_path: Path) -> None:
    for names in (f"accounts.total={'x' * 70_000}", f"accounts={'x' * 70_000}"):
        done = run("rename", shop, tmp_path / "new", names)
        assert (done.code, "at most 65,535 bytes" in done.err) == (2, True)
        assert not (tmp_path / "new").exists()
