"""Commands that write an edited savepoint: what they change, what they refuse, and what a failure leaves: nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import pyspark_savepoint
from tests.connector.command_line.conftest import Run

Rows = dict[Any, dict[str, Any]]
ROWS = pa.table({"id": [1, 2, 3], "total": [10, None, 30], "tags": [["a"], [], None]})


def rows_of(path: Path, uid: str, **options: Any) -> Rows:
    return {row.pop("key"): row for row in pyspark_savepoint.open(path).keyed_state(uid, **options).rows()}


def states_of(path: Path) -> set[tuple[str, str]]:
    rows = pyspark_savepoint.open(path).states().rows()
    return {(row["operator_uid"], row["state"]) for row in rows if row["state"]}


def changed_states(run: Run, old: Path, new: Path) -> set[str]:
    rows = run("diff", old, new, "--json").records
    return {row["state"] for row in rows if row["added"] or row["removed"] or row["changed"]}


@pytest.fixture
def golden(run: Run, tmp_path: Path) -> Path:
    """A savepoint of two states, of a Parquet file."""
    parquet.write_table(ROWS, tmp_path / "rows.parquet")
    assert run("create", tmp_path / "golden", "accounts", tmp_path / "rows.parquet", "--key", "id").code == 0
    return tmp_path / "golden"


def test_names_are_changed(run: Run, shop: Path, tmp_path: Path) -> None:
    names = ["accounts=customers", "accounts.total=sum", "accounts.user-timers=alarms"]
    done = run("rename", shop, tmp_path / "new", *names)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1].startswith(f"{tmp_path / 'new'}: 7 operators, ")
    expected = {("customers" if uid == "accounts" else uid, state) for uid, state in states_of(shop)}
    expected -= {("customers", "total"), ("customers", "_timer_state/event_user-timers")}
    expected -= {("customers", "_timer_state/processing_user-timers")}
    expected |= {("customers", "sum"), ("customers", "_timer_state/event_alarms")}
    expected |= {("customers", "_timer_state/processing_alarms")}
    assert states_of(tmp_path / "new") == expected
    swapped = tmp_path / "swapped"
    assert run("rename", shop, swapped, "accounts=orders-parser", "orders-parser=accounts").code == 0
    assert {uid for uid, state in states_of(swapped) if state == "total"} == {"orders-parser"}


def test_uids_and_states_may_have_dots_and_equals_signs(run: Run, golden: Path, tmp_path: Path) -> None:
    assert run("rename", golden, tmp_path / "a", "accounts=v1.a=b", "accounts.total=x.y").code == 0
    assert states_of(tmp_path / "a") == {("v1.a=b", "x.y"), ("v1.a=b", "tags")}
    assert run("remove", tmp_path / "a", tmp_path / "b", "v1.a=b.x.y").code == 0
    assert states_of(tmp_path / "b") == {("v1.a=b", "tags")}
    assert run("rename", tmp_path / "a", tmp_path / "c", "v1.a=b=w").code == 0
    assert states_of(tmp_path / "c") == {("w", "x.y"), ("w", "tags")}
    # An operator and a state of one name: neither is guessed.
    assert run("copy-operator", golden, tmp_path / "two", "accounts", "accounts.total").code == 0
    done = run("remove", tmp_path / "two", tmp_path / "d", "accounts.total")
    assert done.code == 2
    assert "names 2 things" in done.err
    assert "uid hash" in done.err


def test_operators_and_states_are_removed_and_copied(run: Run, shop: Path, tmp_path: Path) -> None:
    done = run("remove", shop, tmp_path / "less", "currency-converter", "accounts.coupon", "--json")
    assert done.code == 0
    *changes, closing = done.records
    assert [(one["operator"], one["state"], one["entries"]) for one in changes] == [
        ("currency-converter", None, 10),
        ("accounts", "coupon", 50),
    ]
    assert closing["operators"] == 6
    assert states_of(shop) - states_of(tmp_path / "less") == {("currency-converter", "rates"), ("accounts", "coupon")}
    assert run("copy-operator", shop, tmp_path / "more", "accounts", "a2", "a3").code == 0
    assert rows_of(tmp_path / "more", "a3", state="total") == rows_of(shop, "accounts", state="total")


@pytest.mark.parametrize("how", ["keys", "where", "txt", "csv", "parquet", "jsonl"])
def test_keys_are_removed(run: Run, shop: Path, tmp_path: Path, how: str) -> None:
    keys = [key for key, row in rows_of(shop, "accounts", state="total").items() if row["total"] < 50000]
    assert 0 < len(keys) < 200
    file = tmp_path / f"keys.{how}"
    given: list[object] = ["--keys-file", file]
    if how == "keys":
        given = ["--keys", *keys]
    elif how == "where":
        given = ["--where", "total < 50000"]
    elif how == "parquet":
        parquet.write_table(pa.table({"id": pa.array(keys, pa.int32())}), file)
    elif how == "jsonl":
        file.write_text("".join(json.dumps({"key": key}) + "\n" for key in keys))
    else:
        file.write_text(("key\n" if how == "csv" else "") + "".join(f"{key}\n" for key in keys))
    done = run("remove-keys", shop, tmp_path / "new", "accounts", *given, "--json")
    assert (done.code, done.err) == (0, "")
    assert done.records[0] == {"change": "keys removed", "operator": "accounts", "keys": len(keys)}
    before, after = rows_of(shop, "accounts"), rows_of(tmp_path / "new", "accounts")
    assert after == {key: row for key, row in before.items() if key not in keys}
    timers = pyspark_savepoint.open(tmp_path / "new").timers("accounts").rows()
    assert not {row["key"] for row in timers} & set(keys)


def test_keys_that_are_not_there(run: Run, shop: Path, tmp_path: Path) -> None:
    done = run("remove-keys", shop, tmp_path / "new", "accounts", "--keys", 1042, 7)
    assert done.code == 0
    assert "1 of 2 keys found" in done.err
    for given in (["--keys", 7], ["--where", "total < -1"]):
        done = run("remove-keys", shop, tmp_path / "none", "accounts", *given)
        assert done.code == 2
        assert "nothing would be removed" in done.err
    assert not (tmp_path / "none").exists()


def test_keys_of_windows_and_timers_by_a_condition(run: Run, shop: Path, tmp_path: Path) -> None:
    condition = "window.start < TIMESTAMP '2025-06-01 10:08:00' AND key LIKE 'bi%'"
    windows = list(pyspark_savepoint.open(shop).window_state("orders-per-minute").rows())
    chosen = windows[0]["key"]
    done = run("remove-keys", shop, tmp_path / "a", "orders-per-minute", "--where", f"key = '{chosen}'", "--json")
    assert done.records[0]["rows"] == sum(row["key"] == chosen for row in windows)
    left = pyspark_savepoint.open(tmp_path / "a").window_state("orders-per-minute").rows()
    assert {row["key"] for row in left} == {row["key"] for row in windows} - {chosen}
    assert run("remove-keys", shop, tmp_path / "b", "orders-per-minute", "--where", condition).code == 0
    options = ["--table", "timers", "--where", "timestamp > 0 AND domain = 'event'"]
    done = run("remove-keys", shop, tmp_path / "c", "accounts", *options)
    assert done.code == 0
    timers = pyspark_savepoint.open(tmp_path / "c").timers("accounts").rows()
    assert not [row for row in timers if row["domain"] == "event"]


def test_keys_become_others(run: Run, shop: Path, tmp_path: Path) -> None:
    done = run("rekey", shop, tmp_path / "text", "accounts", "--type", "key=STRING", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.records[0] == {
        "change": "new keys",
        "operator": "accounts",
        "key_type": "STRING",
        "entries": 1250,
        "bytes": 37619,
    }
    before, after = rows_of(shop, "accounts"), rows_of(tmp_path / "text", "accounts")
    assert after == {str(key): row for key, row in before.items()}
    file = tmp_path / "ids.csv"
    file.write_text("key,new_key\n1042,C-1042\n")
    done = run("rekey", shop, tmp_path / "none", "accounts", file, "--type", "key=STRING")
    assert done.code == 2
    assert "do not say what a key of the operator becomes" in done.err
    file.write_text("key,new_key\n1042,2042\n1043,1042\n")
    assert run("rekey", shop, tmp_path / "moved", "accounts", file).code == 0
    moved = {1042: 2042, 1043: 1042}
    after = rows_of(tmp_path / "moved", "accounts")
    assert after == {moved.get(key, key): row for key, row in before.items()}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "give the type of the new keys, or a file"),
        (["--type", "STRING"], "--type takes COLUMN=TYPE"),
        (["--type", "key=BYTE"], "key: 1158"),
        (["--type", "total=LONG"], "only the key gets another type"),
        (["CLASH"], "key 1042 and key 1043 become key 1043"),
    ],
)
def test_keys_that_cannot_become_others(run: Run, shop: Path, tmp_path: Path, words: list[str], told: str) -> None:
    """A dry run tells it too."""
    file = tmp_path / "clash.csv"
    file.write_text("key,new_key\n1042,1043\n")
    for more in ([], ["--dry-run"]):
        done = run(
            "rekey", shop, tmp_path / "new", "accounts", *(str(file) if w == "CLASH" else w for w in words), *more
        )
        assert done.code == 2
        assert told in done.err
        assert not (tmp_path / "new").exists()


def test_max_parallelism(run: Run, shop: Path, tmp_path: Path) -> None:
    assert run("set-max-parallelism", shop, tmp_path / "new", 256).code == 0
    metadata = pyspark_savepoint.open(tmp_path / "new").metadata().rows()
    assert {row["operator_max_parallelism"] for row in metadata} == {256}
    assert changed_states(run, shop, tmp_path / "new") == set()


def test_a_savepoint_is_split_and_merged(run: Run, shop: Path, tmp_path: Path) -> None:
    a, b, rest, whole = (tmp_path / name for name in ("a", "b", "rest", "whole"))
    done = run("split", shop, "--to", a, "accounts", "--to", b, "rates-source", "orders-source", "--rest", rest)
    assert done.code == 0, done.err
    assert [len({row["operator_uid"] for row in run("ls", path, "--json").records}) for path in (a, b)] == [1, 2]
    assert run("merge", a, b, rest, whole).code == 0
    assert changed_states(run, shop, whole) == set()
    assert states_of(whole) == states_of(shop)
    again = run("merge", a, whole, tmp_path / "twice")
    assert again.code == 2
    assert "accounts" in again.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--to", "a", "accounts"], "would be in no savepoint"),
        (["--to", "a", "accounts", "--to", "b", "accounts", "--rest", "c"], "goes to 'a' and 'b'"),
        (["--to", "a", "acounts", "--rest", "c"], "did you mean 'accounts'"),
        (["--to", "a", "--rest", "c"], "--to FOLDER UID"),
        (["--to", "a", "accounts", "--rest", "a"], "a folder of its own"),
    ],
)
def test_splits_that_lose_or_repeat_operators(
    run: Run, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("split", shop, *words)
    assert done.code == 2
    assert told in done.err, done.err
    assert list(tmp_path.iterdir()) == []


EDITS = [
    ["rename", "OLD", "NEW", "accounts=b"],
    ["copy-operator", "OLD", "NEW", "accounts", "b"],
    ["remove", "OLD", "NEW", "accounts.total"],
    ["remove-keys", "OLD", "NEW", "accounts", "--keys", "1"],
    ["set-max-parallelism", "OLD", "NEW", "64"],
    ["rename-class", "SHOP", "NEW", "oracle.Shop=com.Shop"],
    ["rekey", "OLD", "NEW", "accounts", "--type", "key=STRING"],
    ["put", "OLD", "NEW", "accounts", "FILE", "--key", "id"],
    ["create", "NEW", "accounts", "FILE", "--key", "id"],
    ["merge", "OLD", "OTHER", "NEW"],
    ["split", "OLD", "--rest", "NEW", "--to", "NEW-2", "OF-OTHER"],
]


@pytest.mark.parametrize("words", EDITS, ids=lambda words: words[0])
def test_a_dry_run_writes_nothing_and_an_existing_savepoint_is_refused(
    run: Run, golden: Path, shop: Path, tmp_path: Path, words: list[str]
) -> None:
    other = tmp_path / "other"
    assert run("rename", golden, other, "accounts=other").code == 0
    if words[0] == "split":
        assert run("merge", golden, other, tmp_path / "both").code == 0
    old = tmp_path / "both" if words[0] == "split" else golden
    names = {
        "OLD": old, "SHOP": shop, "NEW": tmp_path / "new", "NEW-2": tmp_path / "new-2", "OTHER": other,
        "OF-OTHER": "other", "FILE": tmp_path / "rows.parquet",
    }  # fmt: skip
    given = [names.get(word, word) for word in words]
    before = sorted(tmp_path.rglob("*"))
    dry = run(*given, "--dry-run")
    assert dry.code == 0, dry.err
    assert "nothing was written: " in dry.out.splitlines()[-1]
    assert run(*given, "--dry-run", "--json").records[-1]["dry_run"] is True
    assert sorted(tmp_path.rglob("*")) == before
    done = run(*given)
    assert done.code == 0, done.err
    assert dry.out.splitlines()[0] == done.out.splitlines()[0]
    for more in ((), ("--dry-run",)):
        again = run(*given, *more)
        assert again.code == 2
        assert "a savepoint exists at this path already" in again.err


def test_the_new_savepoint_has_the_checkpoint_id(run: Run, golden: Path, tmp_path: Path) -> None:
    new = tmp_path / "numbered"
    for more in ((), ("--dry-run",)):
        refused = run("rename", golden, new, "accounts=other", "--checkpoint-id", "-1", *more)
        assert refused.code == 2
        assert "a checkpoint id is a whole number from 0" in refused.err
    assert run("rename", golden, new, "accounts=other", "--checkpoint-id", "41").code == 0
    assert run("ls", new).out.splitlines()[0].startswith(f"{new}: canonical savepoint 41, ")


# -- files ------------------------------------------------------------------------------------------------------


def jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS.to_pylist()))


def csv(path: Path) -> None:
    path.write_text('id,total,tags\n1,10,"[""a""]"\n2,,[]\n3,30,\n')


@pytest.mark.parametrize(
    ("suffix", "write"),
    [
        ("parquet", lambda path: parquet.write_table(ROWS, path)),
        ("feather", lambda path: feather.write_feather(ROWS, path)),
        ("jsonl", jsonl),
        ("csv", csv),
    ],
)
def test_files_of_every_format_are_the_same_state(
    run: Run, tmp_path: Path, suffix: str, write: Callable[[Path], None]
) -> None:
    file = tmp_path / f"rows.{suffix}"
    write(file)
    types = ["--type", "tags=LIST<STRING>"] if suffix == "csv" else []
    done = run("create", tmp_path / "new", "accounts", file, "--key", "id", "--max-parallelism", 64, *types, "--json")
    assert done.code == 0, done.err
    assert {row["state"]: (row["key_type"], row["type"], row["rows"]) for row in done.records[:-1]} == {
        "total": ("LONG", "LONG", 3),
        "tags": ("LONG", "LIST<STRING>", 3),
    }
    # An empty list state is none.
    assert rows_of(tmp_path / "new", "accounts") == {
        1: {"total": 10, "tags": ["a"]},
        3: {"total": 30, "tags": None},
    }


def test_types_kinds_and_times_to_live(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    row = {"t": "a", "n": 1, "sum": 7, "at": "2026-01-02T03:04:05Z", "price": "1.50", "by": {"x": 1}, "r": {"f0": "z"}}
    file.write_text(json.dumps(row) + "\n")
    types = {"n": "INT", "sum": "INT", "at": "INSTANT", "by": "MAP<STRING, INT>"}
    types |= {"r": "TUPLE<STRING>", "price": "BIG_DECIMAL"}
    given = [word for name, kind in types.items() for word in ("--type", f"{name}={kind}")]
    words = ["create", tmp_path / "new", "accounts", file, "--key", "t,n", *given, "--kind", "sum=reducing"]
    done = run(*words, "--ttl", "at", "--name", "Accounts")
    assert done.code == 0, done.err
    states = {row["state"]: row for row in run("ls", tmp_path / "new", "--json").records}
    assert {name: state["kind"] for name, state in states.items()} == {
        "sum": "REDUCING",
        "at": "VALUE",
        "price": "VALUE",
        "by": "MAP",
        "r": "VALUE",
    }
    assert states["sum"]["key_type"] == "TUPLE<STRING, INT>"
    assert states["at"]["value_type"] == "TTL<INSTANT>"
    shown = run("show", tmp_path / "new", "accounts", "--json").records
    assert shown[0] | {"at": None} == {
        "key": {"f0": "a", "f1": 1},
        "sum": 7,
        "at": None,
        "price": "1.50",
        "by": {"x": 1},
        "r": {"f0": "z"},
    }


def test_states_are_replaced_and_added(run: Run, golden: Path, tmp_path: Path) -> None:
    file = tmp_path / "total.csv"
    file.write_text("id,total\n1,70\n4,80\n")
    done = run("put", golden, tmp_path / "a", "accounts", file, "total", "--key", "id", "--replace")
    assert done.code == 0, done.err
    assert rows_of(tmp_path / "a", "accounts", state="total") == {1: {"total": 70}, 4: {"total": 80}}
    assert changed_states(run, golden, tmp_path / "a") == {"total"}
    # Without a name, every column is a state: one is replaced, one is new.
    file.write_text("key,total,city\n1,70,Rome\n4,,\n")
    done = run("put", golden, tmp_path / "b", "accounts", file, "--json", "--replace")
    assert [(row["change"], row["state"]) for row in done.records[:-1]] == [("replaced", "total"), ("added", "city")]
    assert rows_of(tmp_path / "b", "accounts")[1] == {"total": 70, "tags": ["a"], "city": "Rome"}


def test_keys_that_the_file_lacks(run: Run, golden: Path, tmp_path: Path) -> None:
    """They stay with --upsert, and go with --replace; without a word that is refused, and a dry run shows both."""
    file = tmp_path / "totals.csv"
    file.write_text("id,total\n1,70\n4,80\n3,\n")
    arguments = ["accounts", file, "total", "--key", "id"]
    refused = run("put", golden, tmp_path / "new", *arguments)
    assert refused.code == 2
    assert "1 of 2 keys of state 'total' would go" in refused.err
    assert all(word in refused.err for word in ("--upsert", "--replace", "--dry-run"))
    dry = run("put", golden, tmp_path / "new", *arguments, "--dry-run", "--json").records[0]
    assert (dry["before"], dry["rows"], dry["after"]) == (2, 3, 2)
    assert "1 of 2 keys go: --replace drops them, --upsert keeps them (2 after)" in dry["note"]
    for words, expected in ((["--upsert"], {1: 70, 4: 80}), (["--replace"], {1: 70, 4: 80})):
        new = tmp_path / words[0][2:]
        done = run("put", golden, new, *arguments, *words, "--json").records[0]
        assert (done["before"], done["rows"], done["after"]) == (2, 3, 2)
        assert {key: row["total"] for key, row in rows_of(new, "accounts", state="total").items()} == expected
    file.write_text("id,total\n4,80\n")
    done = run("put", golden, tmp_path / "more", *arguments, "--upsert", "--json").records[0]
    assert (done["change"], done["before"], done["rows"], done["after"]) == ("updated", 2, 1, 3)
    assert rows_of(tmp_path / "more", "accounts", state="total") == {
        key: {"total": total} for key, total in ((1, 10), (3, 30), (4, 80))
    }
    for words, why in (
        (["totl", "--upsert"], "did you mean 'total'? (without --upsert a state is added)"),
        (["total", "--upsert", "--replace"], "give one of them"),
        (["total", "--upsert", "--type", "total=INT"], "--type cannot change a state"),
    ):
        refused = run("put", golden, tmp_path / "no", "accounts", file, *words, "--key", "id")
        assert refused.code != 0
        assert why in refused.err
    refused = run("put", golden, tmp_path / "no", "acounts", file, "total", "--key", "id", "--upsert")
    assert "did you mean 'accounts'" in refused.err


@pytest.mark.parametrize(
    ("name", "text", "types", "key_type", "keys"),
    [
        ("text.csv", "key,value\nEUR,1.5\n", (), "STRING", ["EUR"]),
        ("numbers.csv", "key,value\n7,1.5\n", (), "LONG", [7]),
        ("numbers.jsonl", '{"key": 7, "value": 1.5}\n', (), "LONG", [7]),
        ("given.csv", "key,value\n7,1.5\n", ("--type", "key=STRING"), "STRING", ["7"]),
        ("given.jsonl", '{"key": 7, "value": 1.5}\n', ("--type", "key=INT"), "INT", [7]),
    ],
)
def test_keys_of_broadcast_state_are_its_own(
    run: Run, golden: Path, tmp_path: Path, name: str, text: str, types: tuple[str, ...], key_type: str, keys: list[Any]
) -> None:
    """The operator's keyed state has LONG, or STRING, keys; a dry run shows the types."""
    file, people = tmp_path / name, tmp_path / "people.csv"
    file.write_text(text)
    people.write_text("key,city\nAnn,Rome\n")
    assert run("create", tmp_path / "texts", "accounts", people).code == 0
    for base in (golden, tmp_path / "texts"):
        arguments = ["accounts", file, "rates", "--table", "broadcast", *types, "--json"]
        for dry in (True, False):
            done = run("put", base, tmp_path / f"{base.name}-new", *arguments, *["--dry-run"][: int(dry)])
            assert done.code == 0, done.err
            assert {(row["key_type"], row["type"]) for row in done.records[:-1]} == {(key_type, "DOUBLE")}
        read = pyspark_savepoint.open(tmp_path / f"{base.name}-new").broadcast_state("accounts", "rates")
        assert [row["key"] for row in read.rows()] == keys
        # A state that exists keeps its types, whatever the file looks like.
        again = run("put", tmp_path / f"{base.name}-new", tmp_path / f"{base.name}-again", "accounts", file, "rates")
        assert again.code == 0, again.err
        read = pyspark_savepoint.open(tmp_path / f"{base.name}-again").broadcast_state("accounts", "rates")
        assert [row["key"] for row in read.rows()] == keys


def test_timers_and_operator_state(run: Run, golden: Path, tmp_path: Path) -> None:
    timers, rates, sent = (tmp_path / name for name in ("timers.jsonl", "rates.csv", "sent.jsonl"))
    timers.write_text('{"key": 1, "timestamp": 5, "domain": "event"}\n')
    rates.write_text('key,value\nEUR,1.5\n"",2\n')
    sent.write_text('{"value": 1}\n{"value": 2}\n')
    assert run("put", golden, tmp_path / "a", "accounts", timers, "--table", "timers").code == 0
    assert run("put", tmp_path / "a", tmp_path / "b", "converter", rates, "rates", "--table", "broadcast").code == 0
    assert run("put", tmp_path / "b", tmp_path / "c", "export", sent, "sent", "--table", "union").code == 0
    assert run("show", tmp_path / "c", "accounts", "--table", "timers", "--json").records == [
        {"key": 1, "timestamp": 5, "domain": "event", "service": "user-timers"}
    ]
    found = {row["key"]: row["value"] for row in run("show", tmp_path / "c", "converter", "--json").records}
    assert found == {"EUR": 1.5, "": 2.0}
    rates.write_text("key,value\nUSD,1\n")
    assert run("put", tmp_path / "c", tmp_path / "d", "converter", rates, "rates", "--replace").code == 0
    assert run("show", tmp_path / "d", "converter", "--json").records == [{"key": "USD", "value": 1.0}]
    assert [row["value"] for row in run("show", tmp_path / "d", "export", "--json").records] == [1, 2]


def test_what_export_writes_is_put_back(run: Run, shop: Path, tmp_path: Path) -> None:
    for form, suffix in (("json", "jsonl"), ("csv", "csv"), ("arrow", "arrow"), ("parquet", "parquet")):
        for state in ("total", "recent_amounts", "spent_by_currency", "profile"):
            file, new = tmp_path / f"{state}.{suffix}", tmp_path / f"{state}-{form}"
            assert run("export", shop, "accounts", state, "--format", form, "--file", file).code == 0
            done = run("put", shop, new, "accounts", file, state)
            assert done.code == 0, done.err
            assert changed_states(run, shop, new) == set(), (form, state)


@pytest.mark.parametrize(
    ("name", "text", "words", "told"),
    [
        ("a.csv", "id,total\n1,7\n3,x\n", ["--type", "total=INT"], "a.csv, line 3, column 'total'"),
        ("a.csv", 'id,total\n1,"a\nb"\n3,2147483648\n', ["--type", "id=INT", "--type", "total=STRING"], None),
        ("a.csv", 'id,note,n\n1,"a\nb",1\n3,c,2147483648\n', ["--type", "n=INT"], "line 4, column 'n'"),
        ("a.jsonl", '{"id": 1, "x": 1}\n\n{"id": 2, "x": "b"}\n', [], "line 3, column 'x'"),
        ("a.jsonl", '{"id": 1, "x": 0.12345678901234567890}\n', [], "a number that a DOUBLE does not keep"),
        ("a.jsonl", '{"id": 1, "x": 9223372036854775808}\n', [], "no LONG"),
        ("a.jsonl", '{"id": 1, "x": 9007199254740993}\n{"id": 2, "x": 0.5}\n', [], "which a DOUBLE does not keep"),
        ("a.jsonl", '{"id": 1, "x": {"a": 1}}\n', [], "whose type does not follow"),
        ("a.jsonl", '{"id": 1, "x": 1.5}\n', ["--type", "x=LONG"], "line 1, column 'x'"),
        ("a.jsonl", '{"id": 1, "x": 1, "x": 2}\n', [], "occurs twice"),
        ("a.jsonl", '{"id": 1}\n[1]\n', [], "line 2: no JSON object"),
        (
            "a.jsonl",
            '{"id": 1, "x": "2026-01-01T00:00:00.123456789Z"}\n',
            ["--type", "x=INSTANT"],
            "line 1, column 'x'",
        ),
        ("a.jsonl", '{"id": 1, "x": "2026-01-01T00:00:00Z"}\n', ["--type", "x=LOCAL_DATE_TIME"], "line 1"),
        ("a.jsonl", '{"id": 1, "x": 1}\n', ["--type", "y=INT"], "--type names 'y'"),
        ("a.jsonl", '{"id": 1, "x": 1}\n', ["--key", "idd"], "did you mean 'id'"),
        ("a.jsonl", "", [], "the file has no rows"),
        ("a.csv", "id,id\n1,2\n", [], "a column occurs twice"),
        ("a.csv", "id,x\n1\n", [], "cannot be read as CSV after line 1"),
        ("a.dat", "", [], "the format of the file does not follow"),
        ("a.parquet", "no Parquet", [], "the file is no parquet that can be read"),
        ("a.arrow", "no Arrow", [], "the file is no arrow that can be read"),
    ],
)
def test_values_are_exact_or_an_error_names_line_and_column(
    run: Run, tmp_path: Path, name: str, text: str, words: list[str], told: str | None
) -> None:
    (tmp_path / name).write_text(text)
    key = [] if "--key" in words else ["--key", "id"]
    given = ["create", tmp_path / "new", "accounts", tmp_path / name, *key, *words]
    dry = run(*given, "--dry-run")
    done = run(*given)
    if told is None:
        assert (dry.code, done.code) == (0, 0), done.err
        return
    assert (dry.code, done.code) == (2, 2)
    assert told in done.err
    assert "Traceback" not in done.err
    assert told in dry.err
    assert not (tmp_path / "new").exists()


def test_texts_of_csv_that_only_look_like_numbers_stay_texts(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,zip,amount,flag\n1,00501,1.5,true\n2,10115,2,false\n")
    done = run("create", tmp_path / "new", "a", file, "--key", "id", "--json")
    types = {row["state"]: row["type"] for row in done.records[:-1]}
    assert types == {"zip": "STRING", "amount": "DOUBLE", "flag": "BOOLEAN"}


# -- how it ends ------------------------------------------------------------------------------------------------


def test_interrupted_while_it_writes(tmp_path: Path) -> None:
    """Ctrl-C leaves no target, no temporary files, and the exit code of other commands."""
    count = 400_000
    table = pa.table({"key": range(count), "text": [f"text {number}" for number in range(count)]})
    parquet.write_table(table, tmp_path / "rows.parquet")
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "pyspark_savepoint", "create", str(tmp_path / "new"), "a"]
    process = subprocess.Popen(
        [*command, str(tmp_path / "rows.parquet"), "-o", "parallelism=2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
    )
    ends = time.monotonic() + 120
    while not any((tmp_path / "tmp").iterdir()) and process.poll() is None and time.monotonic() < ends:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert process.stderr is not None
    assert process.stderr.read().endswith("interrupted\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.parquet", "tmp"]
    assert list((tmp_path / "tmp").iterdir()) == []


# -- README -----------------------------------------------------------------------------------------------------

README = Path(__file__).parents[3] / "connector" / "command_line" / "README.md"


def blocks_of(language: str, containing: str) -> str:
    """Return the block of code of the README that has a text."""
    (block,) = [
        block for block in re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL) if containing in block
    ]
    return str(block)


def test_the_golden_savepoint_of_the_readme(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both forms are run as they are written, are equal, and take about a second."""
    monkeypatch.chdir(tmp_path)
    shell = blocks_of("bash", "cat > accounts.jsonl")
    shell = shell.replace("pyspark-savepoint ", f"{sys.executable} -m pyspark_savepoint ")
    as_users = {name: value for name, value in os.environ.items() if name != "PYSPARK_SAVEPOINT_KERNELS"}
    for command in (["sh", "-ec", shell], [sys.executable, "-c", blocks_of("python", "golden-in-python")]):
        before = os.times()
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=as_users)
        after = os.times()
        assert done.returncode == 0, done.stderr
        used = after.children_user + after.children_system - before.children_user - before.children_system
        assert used < 8  # seconds of a processor that others use too; each process takes about one
    assert changed_states(run, tmp_path / "golden-with-timers", tmp_path / "golden-in-python") == set()
    assert rows_of(tmp_path / "golden", "accounts") == {
        1042: {"total": 68520, "tags": ["gold"], "spent": [("EUR", 60000), ("USD", 8520)]},
        1043: {"total": 120, "tags": None, "spent": None},
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("accounts.total=accounts.sum",), "the new name of a state takes no operator"),
        (("accounts=a", "accounts=b"), "'accounts' is given two new names"),
        (("accounts.total=a", "accounts.total=b"), "'accounts.total' is given two new names"),
    ],
)
def test_names_that_were_not_meant(run: Run, shop: Path, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = run("rename", shop, tmp_path / "new", *words)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "new").exists()


def test_put_takes_operator_and_state_as_two_arguments(run: Run, golden: Path, tmp_path: Path) -> None:
    """An operator `accounts.total` was added in silence."""
    (tmp_path / "rows.csv").write_text("key,total\n1,2\n")
    done = run("put", golden, tmp_path / "new", "accounts.total", tmp_path / "rows.csv")
    assert done.code == 2
    assert "put OLD NEW accounts FILE total" in done.err
    assert run("put", golden, tmp_path / "new", "accounts.sum", tmp_path / "rows.csv").code == 0


def test_a_failed_write_tells_of_no_changes(run: Run, golden: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("key,total\n1,2\n1,3\n")
    done = run("put", golden, tmp_path / "new", "accounts", tmp_path / "rows.csv", "--replace")
    assert done.code == 2
    assert "same key" in done.err
    assert done.out == ""
