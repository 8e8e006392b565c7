"""Mistakes in files, names and options of commands: one sentence each, with what to do, and nothing is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.connector.command_line.conftest import Run

#: Words of the other doors, of Python and of Java, which no user of a command has given.
FOREIGN = re.compile(
    r"option '|option\(|\b(?:with|update|remove|rename)_[a-z]+\(|types=|\bdf\.|\bSavepoint\b|spark\.|mode\(|INSERT|"
    r"DataFrame|Traceback|(?:Key|Value|Type|Attribute|Decode)Error|this is a bug|<class|\bwhere\[|verify\(\)"
)
#: The content of a file, more words of ``put``, and what is said.
FILES: dict[str, tuple[bytes, tuple[str, ...], str]] = {
    "semicolons": (b"key;total\n1042;5\n", ("--upsert",), "with commas between columns: it has semicolons"),
    "tabs": (b"key\ttotal\n1042\t5\n", ("--upsert",), "it has tabs"),
    "Latin": ("key,total\n1042,é\n".encode("latin-1"), ("--upsert",), "to do: save the file as UTF-8"),
    "UTF-16": ("key,total\n1042,5\n".encode("utf-16"), ("--upsert",), "to do: save the file as UTF-8"),
    "a line with more": (b"key,total\n1042,5,6\n", ("--upsert",), "as many columns as the header"),
    "nothing": (b"", ("--upsert",), "to do: write the file again"),
    "a header alone": (b"key,total\n", ("--upsert",), "the file has no rows"),
    "no key": (b"key,total\n,5\n", ("--upsert",), "leave the rows out in which 'key' is NULL"),
    "a kind that there is not": (b"key,total\n1,5\n", ("--replace", "--kind", "total=liste"), "one of aggregating"),
    "the kind of no column": (b"key,total\n1,5\n", ("--replace", "--kind", "totl=list"), "--kind names 'totl'"),
    "a kind without its type": (b"key,total\n1,5\n", ("--replace", "--kind", "total=map"), "or leave --kind out"),
    "a time to live of no column": (b"key,total\n1,5\n", ("--replace", "--ttl", "totl"), "--ttl names 'totl'"),
    "another max parallelism": (
        b"key,total\n1042,5\n", ("--upsert", "-o", "maxParallelism=64"), "of pyspark-savepoint create --max-parallelism"
    ),
    "another uid": (b"key,total\n1042,5\n", ("--upsert", "-o", "uid=x"), "--option does not take uid"),
    "a number that is none": (b"key,total\n1042,5\n", ("--upsert", "--checkpoint-id", str(2**63)), "at most 92233720"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", list(FILES))
def test_files_and_options_of_put(run: Run, shop: Path, tmp_path: Path, mistake: str) -> None:
    content, words, said = FILES[mistake]
    file = tmp_path / "rows.csv"
    file.write_bytes(content)
    done = run("put", shop, tmp_path / "new", "accounts", file, "total", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert FOREIGN.findall(done.err) == []
    assert list(tmp_path.iterdir()) == [file]


#: A command, with SHOP, NEW and FOLDER for paths, and what it says.
COMMANDS: dict[tuple[str, ...], str] = {
    ("put", "SHOP", "NEW", "newop", "TOTAL", "--key", "total"): "the rows have no column for a state",
    ("put", "SHOP", "NEW", "accounts", "ROWS", "user-timers", "--upsert"): "'user-timers' are timers",
    ("set-max-parallelism", "SHOP", "NEW", "0"): "expected: 1 to 32768\n  found: 0",
    ("set-max-parallelism", "SHOP", "NEW", "1.5"): "n is '1.5', expected a whole number",
    ("set-offsets", "SHOP", "NEW", "--by", "x"): "--by is 'x', expected a whole number",
    ("set-offsets", "SHOP", "NEW", "accounts", "--by", "1"): "pyspark-savepoint offsets lists the sources",
    ("rekey", "SHOP", "NEW", "accounts", "--type", "total=LONG"): "expected: --type key=TYPE",
    ("erase", "SHOP", "NEW"): "give --keys, or conditions in --where",
    ("erase", "SHOP", "NEW", "--where", "accounts: totl > 1"): "--where 'accounts: CONDITION': there is no column totl",
    ("salvage", "SHOP", "NEW"): "pyspark-savepoint cp copies it as it is",
    ("evolve", "SHOP", "NEW", "--old-plan", "PLAN", "--new-plan", "PLAN"): "found: no 'nodes'",
    ("show", "SHOP", "accounts", "-o", "uid=orders-source"): "--option does not take uid",
    ("show", "SHOP", "accounts", "-o", "path=/x"): "--option does not take path",
    ("show", "SHOP", "accounts", "-o", "state=total"): "--option does not take state",
    ("show", "SHOP", "accounts", "-o", "Table=timers"): "--option does not take Table",
    ("show", "SHOP", "accounts", "--keys", "1", "-o", "keys=[2]"): "--option does not take keys",
    ("export", "SHOP", "accounts", "-o", "state=total"): "--option does not take state",
    ("changes", "SHOP", "accounts", "-o", "state=total"): "--option does not take state",
    ("show", "SHOP", "accounts", "-o", "startingVersion=1"): "pyspark-savepoint changes reads them",
    ("show", "SHOP", "accounts", "-o", "readChangeFeed=true"): "pyspark-savepoint changes shows what changed",
    ("retained", "FOLDER/none"): "there is no folder at this path",
    ("check-restore", "SHOP", "JOB"): "expected: a field uid, uidHash or generatedId",
    ("ls", "SHOP", "-o", "uid=x"): "-o is an option of show",
    ("check-restore", "SHOP", "LATIN"): "to do: save the file as UTF-8",
    ("check-restore", "SHOP", "HALF"): "to do: correct it there",
    ("remove-keys", "SHOP", "NEW", "accounts", "--keys-file", "LATIN"): "to do: save the file as UTF-8",
    ("remove-keys", "SHOP", "NEW", "accounts", "--keys-file", "KEYS"): "did you mean",
    ("put", "SHOP", "ROWS/new", "accounts", "ROWS", "total", "--upsert"): "a part of the path is a file",
}


@pytest.mark.parametrize("words", list(COMMANDS), ids=" ".join)
def test_words_of_commands(run: Run, shop: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    files = {"ROWS": "key,total\n1042,5\n", "TOTAL": "total\n5\n"}
    files |= {"PLAN": '{"flinkVersion": "2.3"}', "JOB": '{"operators": [{"uid": null}]}'}
    for name, text in files.items():
        (tmp_path / f"{name}.{'csv' if name in ('ROWS', 'TOTAL') else 'json'}").write_text(text)
    places = {"SHOP": str(shop), "NEW": str(tmp_path / "new"), "FOLDER/none": str(tmp_path / "none")}
    (tmp_path / "LATIN.json").write_bytes('{"operators": [{"uid": "\xe9"}]}'.encode("latin-1"))
    (tmp_path / "HALF.json").write_text('{"operators": ')
    places |= {path.stem: str(path) for path in tmp_path.iterdir()}
    places |= {"KEYS": str(tmp_path / "HALV.json"), "ROWS/new": str(tmp_path / "ROWS.csv" / "new")}
    there = sorted(tmp_path.iterdir())
    done = run(*(places.get(word, word) for word in words))
    assert (done.code, done.out) == (2, "")
    assert COMMANDS[words] in done.err
    assert FOREIGN.findall(done.err) == []
    assert sorted(tmp_path.iterdir()) == there


def test_a_row_without_a_value_is_said_to_remove_it(run: Run, shop: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("key,total\n1042,\n1043,6\n7,8\n")
    done = run("put", shop, tmp_path / "new", "accounts", rows, "total", "--upsert", "--json")
    (change, _) = done.records
    assert (change["before"], change["rows"], change["after"]) == (200, 3, 200)
    assert change["note"] == "1 key whose row has no value: the state goes"


def test_help_alone_lists_the_commands(run: Run) -> None:
    assert run("help") == run("--help")
    assert "check-restore" in run("help").out
