"""Erasures of keys, and their proofs, on savepoints of real Flink."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint, Savepoint
from pyspark_savepoint.command_line.warming import unpack
from pyspark_savepoint.erasure.report import ErasureReport
from pyspark_savepoint.erasure.sought import NONE, fitting
from pyspark_savepoint.erasure.tables import place_of
from pyspark_savepoint.errors import OptionError, SavepointError, StateNotFoundError, UnsupportedStateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.many_sets

ORDERS = "warehouse-export.pending_orders"


def errors(findings: list[dict[str, Any]]) -> set[str]:
    """The checks that failed."""
    return {one["check"] for one in findings if one["severity"] == "error"}


def removed(report: ErasureReport) -> dict[tuple[str, str | None], int]:
    """Rows that were removed, by operator and state."""
    return {(row["operator"], row["state"]): row["removed"] for row in report.rows() if row["removed"]}


@pytest.fixture
def person(shop: Path) -> int:
    """An account that has pending orders, too."""
    rows = pyspark_savepoint.open(shop).operator_state("warehouse-export", "pending_orders").rows()
    return int(next(row["value"]["accountId"] for row in rows))


def erased(shop: Path, folder: Path, person: int) -> tuple[LocalSavepoint, ErasureReport]:
    """The shop without a person, and the report."""
    where = {ORDERS: f"value.accountId = {person}"}
    report = pyspark_savepoint.open(shop).erase([person], where=where, to=folder / "erased", below=folder)
    return pyspark_savepoint.open(folder / "erased"), report


def test_a_person_is_erased_and_all_others_stay(shop: Path, tmp_path: Path, person: int) -> None:
    old = pyspark_savepoint.open(shop)
    new, report = erased(shop, tmp_path, person)

    assert removed(report) | {("accounts", "coupon"): 0} == {
        ("accounts", "total"): 1,
        ("accounts", "recent_amounts"): 1,
        ("accounts", "spent_by_currency"): 1,
        ("accounts", "profile"): 1,
        ("accounts", "user-timers"): 2,
        ("warehouse-export", "pending_orders"): removed(report)["warehouse-export", "pending_orders"],
        ("accounts", "coupon"): 0,
    }
    assert {row["key"] for row in old.diff(new, "accounts").rows()} == {person}
    assert new.timers("accounts").to_arrow().num_rows == 398
    orders = new.operator_state("warehouse-export", "pending_orders").to_arrow().column("value").to_pylist()
    assert orders
    assert all(order["accountId"] != person for order in orders)
    assert errors(new.verify_erasure(report, [person], where={ORDERS: f"value.accountId = {person}"})) == set()


def test_without_conditions_the_report_names_what_stays(shop: Path, tmp_path: Path, person: int) -> None:
    report = pyspark_savepoint.open(shop).erase([person], to=tmp_path / "erased", below=tmp_path)

    (standing,) = [one for one in report.content["standing"] if one["column"] == "value.accountId"]
    assert (standing["operator_uid"], standing["state"], standing["equal"] > 0) == (
        "warehouse-export",
        "pending_orders",
        True,
    )
    new = pyspark_savepoint.open(tmp_path / "erased")
    assert errors(new.verify_erasure(report, [person])) == {"standing"}
    accepted = new.verify_erasure(report, [person], accept=[f"{ORDERS}.value.accountId"])
    assert errors(accepted) == set()
    assert any(f"{ORDERS}.value.accountId" in one["evidence"] for one in accepted)


def test_the_report_does_not_hold_the_person(shop: Path, tmp_path: Path, person: int) -> None:
    _, report = erased(shop, tmp_path, person)

    texts = report.to_json(), report.to_markdown()

    # numbers that may be the person's by chance: of the package's version, and in the names and sizes of files
    by_chance = rf"{re.escape(report.content['package'])}|[0-9a-f]+(-[0-9a-z]+)+|\"size\": \d+"
    rest = [re.sub(by_chance, "", text.replace(str(tmp_path), "")) for text in texts]
    assert not any(re.search(rf"(?<![0-9a-f]){person}(?![0-9a-f])", text) for text in rest)
    assert "| accounts | keyed_state | total | 200 | 1 |" in texts[1]
    content = json.loads(texts[0])
    files = {one["name"] for one in content["after"]["files"] if not one["name"].startswith("_metadata: ")}
    assert files == {path.name for path in (tmp_path / "erased").iterdir()}
    assert content["arguments"]["keys"] != [person]
    assert ErasureReport.read(texts[0]) == report
    with pytest.raises(OptionError, match="not a report"):
        ErasureReport.read("[]")


def test_names_of_a_snapshot_are_text_on_the_page(shop: Path, tmp_path: Path) -> None:
    """They are no commands of a terminal, and neither HTML nor Markdown."""
    name = "a\x1b[31m\u202e<img src=x>|`[a](b)"
    sp = pyspark_savepoint.open(shop).change_operator_identifier("accounts", name)
    page = sp.write(tmp_path / "named", flink_version="2.2").erase([1042], dry_run=True, below=tmp_path).to_markdown()
    assert r"| a\\x1b\[31m\\u202e&lt;img src=x>\|\`\[a](b) | keyed_state | total |" in page
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]|<img", page)


def test_a_secret_salt_is_not_in_the_report(shop: Path, tmp_path: Path, person: int) -> None:
    sp = pyspark_savepoint.open(shop)
    for given in ("secret", None):
        report = sp.erase([person], dry_run=True, salt=given, below=tmp_path)
        assert report.salt == given or (given is None and len(bytes.fromhex(report.salt or "")) == 16)
        text = report.to_json()
        shown = text + report.to_markdown() + repr(report)
        assert str(report.salt) not in shown.replace(str(tmp_path), "")
        # Nobody finds the person by trying: not without the salt.
        with pytest.raises(OptionError, match=r"(?s)salt alone, which is kept apart.*argument 'salt'"):
            sp.verify_erasure(text, [person])
        assert errors(sp.verify_erasure(report, [person])) == {"report"}
        assert errors(sp.verify_erasure(text, [person], salt=report.salt)) == {"report"}
        assert errors(sp.verify_erasure(text, [person], salt="another")) == {"report", "keys"}
        with pytest.raises(OptionError, match="not that of the report"):
            sp.verify_erasure(report, [person], salt="another")


def put_back_key(old: LocalSavepoint, new: LocalSavepoint, person: int) -> LocalSavepoint:
    return new.with_state("accounts", "total", old.keyed_state("accounts", state="total"))


def put_back_timer(old: LocalSavepoint, new: LocalSavepoint, person: int) -> LocalSavepoint:
    return new.remove_state("accounts", "user-timers").with_timers("accounts", old.timers("accounts"))


def put_back_element(old: LocalSavepoint, new: LocalSavepoint, person: int) -> LocalSavepoint:
    return new.with_state(
        "warehouse-export", "pending_orders", old.operator_state("warehouse-export", "pending_orders")
    )


def put_into_a_value(old: LocalSavepoint, new: LocalSavepoint, person: int) -> LocalSavepoint:
    rows = new.keyed_state("accounts", state="total").to_arrow()
    totals = pa.array([person, *rows.column("total").to_pylist()[1:]], pa.int64())
    return new.with_state("accounts", "total", rows.set_column(1, "total", totals))


def remove_another(old: LocalSavepoint, new: LocalSavepoint, person: int) -> LocalSavepoint:
    other = next(row["key"] for row in new.keyed_state("accounts").rows())
    return new.remove_keys("accounts", [other])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (put_back_key, {"rows", "files", "after", "differences"}),
        (put_back_timer, {"rows", "after", "differences"}),
        (put_back_element, {"rows", "files", "after", "differences"}),
        (put_into_a_value, {"standing", "after", "differences"}),
        (remove_another, {"after", "differences"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_change_by_hand_is_found(shop: Path, tmp_path: Path, person: int, change: Any, found: set[str]) -> None:
    new, report = erased(shop, tmp_path, person)
    changed = change(pyspark_savepoint.open(shop), new, person).write(tmp_path / "changed")

    findings = changed.verify_erasure(report, [person], where={ORDERS: f"value.accountId = {person}"})

    assert found <= errors(findings) | {"files"}


def test_another_file_other_keys_and_another_savepoint_are_found(shop: Path, tmp_path: Path, person: int) -> None:
    new, report = erased(shop, tmp_path, person)
    where = {ORDERS: f"value.accountId = {person}"}

    assert "keys" in errors(new.verify_erasure(report, [person + 1], where=where))
    assert "keys" in errors(new.verify_erasure(report, [person, f"{person}!"], where=where))
    assert "where" in errors(new.verify_erasure(report, [person], where={ORDERS: "value.accountId = 0"}))
    assert {"after", "rows"} <= errors(pyspark_savepoint.open(shop).verify_erasure(report, [person], where=where))
    assert "before" in errors(new.verify_erasure(report, [person], where=where, old=tmp_path / "erased"))
    assert "before" in errors(new.verify_erasure(report, [person], where=where, old=tmp_path / "nothing"))
    # A byte of a value, which no check of the format can find: in a file that was written, and in one that stayed.
    names = sorted(one.name for one in (tmp_path / "erased").iterdir())
    for part in ("-op2k-", "-copy-"):
        holds = {name: (tmp_path / "erased" / name).read_bytes() for name in names if part in name}
        name, data = next((name, data) for name, data in holds.items() if b"GOLD" in data or b"BASIC" in data)
        damaged = bytearray(data)
        at = data.rindex(b"GOLD") if b"GOLD" in data else data.rindex(b"BASIC")
        damaged[at - 20] ^= 1
        (tmp_path / "erased" / name).write_bytes(damaged)
        assert "after" in errors(new.verify_erasure(report, [person], where=where))
        (tmp_path / "erased" / name).write_bytes(data)


def test_dry_run_writes_nothing(shop: Path, tmp_path: Path, person: int) -> None:
    sp = pyspark_savepoint.open(shop)
    report = sp.erase([person], to=tmp_path / "erased", dry_run=True, below=tmp_path)
    assert report.removed == 6
    assert report.content["after"] is None
    assert not (tmp_path / "erased").exists()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"keys": [1]}, OptionError, "no folder"),
        ({"dry_run": True}, OptionError, "nothing to erase"),
        ({"keys": [], "dry_run": True}, OptionError, "no keys"),
        ({"keys": 7, "dry_run": True}, OptionError, "a list"),
        ({"keys": [b"1", 1.5], "dry_run": True}, OptionError, "no operator can have any"),
        ({"where": {"acounts": "key = 1"}, "dry_run": True}, StateNotFoundError, "accounts"),
        ({"where": {"accounts.splits": "offset = 1"}, "dry_run": True}, StateNotFoundError, "nor a state of one"),
        ({"where": {"orders-source.split": "offset = 1"}, "dry_run": True}, StateNotFoundError, "orders-source.splits"),
        ({"where": {"accounts": 1}, "dry_run": True}, OptionError, "a text or an expression"),
        ({"where": {"accounts": "ky = 1"}, "dry_run": True}, OptionError, r"where={'accounts'.*no column ky"),
        ({"keys": [1], "by": {"accounts": "id"}, "dry_run": True}, OptionError, "no column 'id'"),
    ],
)
def test_wrong_arguments(shop: Path, arguments: dict[str, Any], error: type[SavepointError], text: str) -> None:
    with pytest.raises(error, match=text):
        pyspark_savepoint.open(shop).erase(**arguments)


def test_keys_of_rows_by_condition(shop: Path, tmp_path: Path) -> None:
    sp = pyspark_savepoint.open(shop)
    gold = {row["key"] for row in sp.keyed_state("accounts").rows() if row["profile"]["tier"] == "GOLD"}
    for where in ("profile.tier = 'GOLD'", pc.field("profile", "tier") == "GOLD"):
        report = sp.erase(where={"accounts": where}, dry_run=True, below=tmp_path)
        assert removed(report)["accounts", "total"] == len(gold)
    report = sp.erase(where={"accounts": "profile.tier = 'GOLD'"}, to=tmp_path / "new", below=tmp_path)
    new = pyspark_savepoint.open(tmp_path / "new")
    assert {row["key"] for row in sp.diff(new, "accounts").rows()} == gold
    assert errors(new.verify_erasure(report, where={"accounts": "profile.tier = 'GOLD'"})) <= {"differences"}


def test_elements_of_lists_entries_of_maps_and_values(shop: Path, tmp_path: Path) -> None:
    sp = pyspark_savepoint.open(shop)
    where = {
        "accounts.recent_amounts": "list_value > 100.0",
        "accounts.spent_by_currency": "map_key = 'EUR'",
        "accounts.total": "total < 5000",
        "currency-converter.rates": "key = 'USD'",
        "orders-per-minute.window-contents": "`window-contents`.f0 = 1",
    }
    report = sp.erase(where=where, to=tmp_path / "new", below=tmp_path)
    new = pyspark_savepoint.open(tmp_path / "new")
    old_rows = {row["key"]: row for row in sp.keyed_state("accounts").rows()}
    new_rows = {row["key"]: row for row in new.keyed_state("accounts").rows()}
    assert old_rows.keys() == new_rows.keys()
    for key, row in old_rows.items():
        assert new_rows[key]["recent_amounts"] == ([x for x in row["recent_amounts"] if x <= 100] or None)
        left = [pair for pair in row["spent_by_currency"] if pair[0] != "EUR"]
        assert sorted(new_rows[key]["spent_by_currency"] or []) == sorted(left)
        assert new_rows[key]["total"] == (row["total"] if row["total"] >= 5000 else None)
        assert new_rows[key]["profile"] == row["profile"]
    assert {row["key"] for row in new.operator_state("currency-converter", "rates").rows()} == {
        row["key"] for row in sp.operator_state("currency-converter", "rates").rows()
    } - {"USD"}
    amounts = [amount for row in old_rows.values() for amount in row["recent_amounts"]]
    assert removed(report)["accounts", "elements of recent_amounts"] == sum(amount > 100 for amount in amounts)
    assert errors(new.verify_erasure(report, where=where)) == set()
    # What the conditions name is put back.
    again = new.with_state("accounts", "spent_by_currency", sp.keyed_state("accounts", state="spent_by_currency"))
    assert {"rows"} <= errors(again.write(tmp_path / "again").verify_erasure(report, where=where))


def test_elements_of_a_state_with_a_time_to_live_keep_their_times(shop: Path, tmp_path: Path) -> None:
    sp = pyspark_savepoint.open(shop)
    old = {row["key"]: row for row in sp.keyed_state("accounts", state="coupon", include_ttl=True).rows()}
    gone = next(row["coupon"] for row in old.values())
    where = {"accounts.coupon": f"coupon = '{gone}'"}
    report = sp.erase(where=where, to=tmp_path / "new", below=tmp_path)
    new = pyspark_savepoint.open(tmp_path / "new")
    left = {row["key"]: row for row in new.keyed_state("accounts", state="coupon", include_ttl=True).rows()}
    assert left == {key: row for key, row in old.items() if row["coupon"] != gone}
    assert 0 < len(left) < len(old)
    assert removed(report) == {("accounts", "elements of coupon"): len(old) - len(left)}
    assert errors(new.verify_erasure(report, where=where)) == set()


def test_rows_of_which_conditions_leave_nothing_are_no_difference(alike: LocalSavepoint, tmp_path: Path) -> None:
    where = {"numbers.note": "note = 'of 10'"}
    report = alike.erase(where=where, to=tmp_path / "new", below=tmp_path / "alike")
    new = pyspark_savepoint.open(tmp_path / "new")
    assert keys_of(new, "numbers") == ["1", "100"]
    assert errors(new.verify_erasure(report, where=where)) == set()
    less = new.remove_keys("numbers", [1]).write(tmp_path / "less")
    assert any("rows differ" in one["evidence"] for one in less.verify_erasure(report, where=where))


def test_a_second_condition_on_the_same_state_is_refused(shop: Path) -> None:
    sp = pyspark_savepoint.open(shop)
    uid_hash = next(row["operator_uid_hash"] for row in sp.states().rows() if row["operator_uid"] == "accounts")
    for state in ("", ".total"):
        where = {f"accounts{state}": "key = 1042", f"{uid_hash}{state}": "key = 1043"}
        with pytest.raises(OptionError, match="second condition on the same state"):
            sp.erase(where=where, dry_run=True)


def test_a_place_that_is_accepted_must_be_one(shop: Path, tmp_path: Path, person: int) -> None:
    new, report = erased(shop, tmp_path, person)
    with pytest.raises(OptionError, match=r"(?s)not a place in the snapshot.*value\.accountId"):
        new.verify_erasure(
            report, [person], where={ORDERS: f"value.accountId = {person}"}, accept=[f"{ORDERS}.acountId"]
        )


KRYO_KEYS = "migration/cases/key-kryo-uuid"


@pytest.mark.parametrize("name", ["1.20.5-hashmap", "1.20.5-rocksdb", "2.3.0-hashmap"])
def test_keys_that_can_be_read_and_not_written(corpus: Path, tmp_path: Path, name: str) -> None:
    folder = corpus / KRYO_KEYS / name
    sp = pyspark_savepoint.open(folder, allow_outside=True)
    (uid,) = (row["operator_uid_hash"] for row in sp.states().rows() if row["key_type"] == "KRYO<java.util.UUID>")
    old = {row["key"]: row["v"] for row in sp.keyed_state(uid).rows()}
    gone = "00000000-0000-0000-0000-000000000001"
    for number, arguments in enumerate(
        ({"keys": [gone]}, {"keys": [UUID(gone)]}, {"where": {uid: f"v = {old[gone]}"}}), start=1
    ):
        report = sp.erase(**arguments, to=tmp_path / f"{number}", below=tmp_path)
        new = pyspark_savepoint.open(tmp_path / f"{number}")
        assert {row["key"]: row["v"] for row in new.keyed_state(uid).rows()} == {
            key: value for key, value in old.items() if key != gone
        }
        assert errors(new.verify_erasure(report, **arguments)) == set()
        # An older file in place of the new one.
        again = pyspark_savepoint.open(tmp_path / f"{number}").with_operator(
            "other", pa.table({"key": ["x"], "who": [gone]}), types={"key": "STRING", "who": "STRING"}
        )
        if "keys" in arguments:
            again.write(tmp_path / f"again-{number}")
            found = pyspark_savepoint.open(tmp_path / f"again-{number}").verify_erasure(report, **arguments)
            assert {"standing", "after"} <= errors(found)


def rows_of(sp: LocalSavepoint, table: str, uid: str) -> list[dict[str, Any]]:
    """Rows of a table of one operator."""
    return list(sp.table(table, uid).rows())


@pytest.mark.parametrize(
    ("name", "uid", "table", "column", "chosen"),
    [
        ("1.20.5-kafka-v3.4.0", None, "splits", "topic", "clicks"),
        ("2.3.0-files", "source", "splits", "path", None),
        ("2.3.0-files", "source", "source_coordinator", "path", None),
        ("1.20.5-files", None, "source_coordinator", "path", None),
        ("1.20.5-filesink", None, "splits", "split_id", "2"),
        ("1.20.5-filesink", "5abb6f104479fbc38acf37f2d04fd907", "committables", "bucket", "even"),
    ],
)
def test_splits_and_committables_are_erased(
    corpus: Path, tmp_path: Path, name: str, uid: str | None, table: str, column: str, chosen: str | None
) -> None:
    (folder,) = (corpus / "connectors" / name).glob("savepoint-*")
    sp = pyspark_savepoint.open(folder)
    uid = uid or next(row["operator_uid_hash"] for row in sp.table(table).rows())
    before = rows_of(sp, table, uid)
    chosen = chosen or before[0][column]
    where = {f"{uid}.{table}": f"{column} = '{chosen}'"}

    report = sp.erase(where=where, to=tmp_path / "new", below=folder)

    new = pyspark_savepoint.open(tmp_path / "new")
    left = rows_of(new, table, uid)
    # Committers count again what is left.
    counted = dict.fromkeys(("position", "expected"))
    kept = [{**row, **counted} for row in before if row[column] != chosen]
    assert [{**row, **counted} for row in left] == kept
    assert report.removed == len(before) - len(left) > 0
    assert errors(new.verify_erasure(report, where=where)) == set()
    if column in ("path", "topic"):
        assert not any(chosen.encode() in path.read_bytes() for path in (tmp_path / "new").iterdir())
    # The older state in place of the new one.
    assert "rows" in errors(sp.verify_erasure(report, where=where))


def test_rows_of_sinks_that_cannot_be_removed_are_refused(corpus: Path, tmp_path: Path) -> None:
    (folder,) = (corpus / "connectors" / "1.20.5-filesink").glob("savepoint-*")
    sp = pyspark_savepoint.open(folder)
    uid = "2e588ce1c86a9d46e2e85186773ce4fd"  # of the writer
    (target, *_) = (row["target"] for row in sp.table("committables", uid).rows())
    with pytest.raises(UnsupportedStateError, match="can be read, but not removed"):
        sp.erase(where={f"{uid}.committables": f"target = '{target}'"}, to=tmp_path / "new", below=folder)
    people = pa.table({"key": [target], "n": [1]})
    both = sp.with_operator("people", people, types={"key": "STRING"}).write(tmp_path / "both")
    dry = both.erase([target], dry_run=True, below=tmp_path / "both")
    assert {one["table"] for one in dry.content["standing"] if not one["removable"]} == {"committables"}
    with pytest.raises(UnsupportedStateError, match="keys stand in state from which they cannot be removed"):
        both.erase([target], to=tmp_path / "strict", strict=True, below=tmp_path / "both")
    assert not (tmp_path / "strict").exists()


IN_FLIGHT = Path(__file__).parents[2] / "oracle" / "savepoints" / "in-flight" / "2.2.1.tar.xz"
#: Parts of the job, and the types of their records that the snapshot does not have.
PARTS = {"match.input 1": "LONG", "match.output 0": "STRING", "ask.input 1": None, "windows.input 0": None}


def in_flight(sp: LocalSavepoint, part: str) -> Counter[tuple[Any, ...]]:
    """Elements in flight of a part: channel, kind, value and bytes."""
    uid, _, state = part.partition(".")
    kind = PARTS.get(part)
    rows = sp.table("in_flight", uid, state=state, **({"record_types": {state: kind}} if kind else {})).rows()
    return Counter((row["subtask"], row["channel"], row["kind"], row["value"], row["bytes"]) for row in rows)


def test_records_in_flight_are_erased(tmp_path: Path) -> None:
    unpack(IN_FLIGHT, tmp_path / "old")
    old = pyspark_savepoint.open(tmp_path / "old")
    before = {part: in_flight(old, part) for part in PARTS}
    # The last element of an input lies in buffers of its sender, too.
    last = list(before["ask.input 1"])[-1][3]
    chosen = {part: [list(rows)[5][3]] for part, rows in before.items()}
    chosen["ask.input 1"] = [last]
    where = {part: f"value = {values[0]!r}" for part, values in chosen.items() if part != "ask.input 1"}
    where["ask.in_flight"] = f"value = '{last}' OR value = 'click 185'"
    types = {part: kind for part, kind in PARTS.items() if kind is not None}

    report = old.erase(where=where, record_types=types, to=tmp_path / "new", below=tmp_path / "old")

    new = pyspark_savepoint.open(tmp_path / "new")
    for part, rows in before.items():
        gone = rows - in_flight(new, part)
        assert {value for *_, value, _ in gone} == set(chosen[part]), part
        assert not in_flight(new, part) - rows
    assert in_flight(old, "ask._async_wait_operator_state_") - in_flight(new, "ask._async_wait_operator_state_")
    for part in ("clicks.output 0", "order-texts.output 0", "payment-numbers.output 0", "match.input 0"):
        assert in_flight(new, part) == in_flight(old, part)
    # Its sender has the rest of it no more, and no file either.
    assert in_flight(old, "windows.output 0") - in_flight(new, "windows.output 0")
    assert not any(last.encode() in path.read_bytes() for path in (tmp_path / "new").iterdir())
    assert any(b"6click 360"[1:] in path.read_bytes() for path in (tmp_path / "old").iterdir())
    assert errors(new.verify_erasure(report, where=where)) == set()
    # Only records: a watermark is not of anybody.
    assert removed(old.erase(where={"ask.input 1": "length > 0"}, dry_run=True, below=tmp_path / "old")) == {
        ("ask", "input 1"): sum(count for row, count in before["ask.input 1"].items() if row[2] == "record")
    }


@pytest.fixture
def alike(tmp_path: Path) -> LocalSavepoint:
    """Operators whose keys look alike, each with a value that names another person too."""
    sp = pyspark_savepoint.create()
    for uid, kind, keys in (
        ("texts", "STRING", ["1", "10", "a", "ab", "alice@shop", "alice@shop2"]),
        ("numbers", "LONG", [1, 10, 100]),
        ("small", "INT", [1, 10]),
    ):
        column = pa.array(keys) if kind != "INT" else pa.array(keys, pa.int32())
        rows = pa.table({"key": column, "note": [f"of {key}" for key in keys]})
        sp = sp.with_operator(uid, rows, types={"key": kind, "note": "STRING"})
    pair = pa.struct([("f0", pa.string()), ("f1", pa.int64())])
    rows = pa.table({"key": pa.array([("x", 1), ("y", 1), ("x", 10)], pair), "n": [1, 2, 3]})
    rows = rows.set_column(0, "key", pa.array([{"f0": a, "f1": b} for a, b in (("x", 1), ("y", 1), ("x", 10))], pair))
    sp = sp.with_operator("pairs", rows, types={"key": "TUPLE<STRING, LONG>"})
    return sp.write(tmp_path / "alike")


def keys_of(sp: LocalSavepoint, uid: str) -> list[Any]:
    return sorted(map(str, sp.keyed_state(uid).to_arrow().column("key").to_pylist()))


def test_keys_that_look_alike_are_not_confused(alike: LocalSavepoint, tmp_path: Path) -> None:
    report = alike.erase([1, "a", "alice@shop"], to=tmp_path / "new", below=tmp_path / "alike")
    new = pyspark_savepoint.open(tmp_path / "new")
    assert keys_of(new, "texts") == ["1", "10", "ab", "alice@shop2"]
    assert keys_of(new, "numbers") == ["10", "100"]
    assert keys_of(new, "small") == ["10"]
    assert len(keys_of(new, "pairs")) == 3
    held = {one["operator_uid"]: (one["can_hold"], one["cannot_hold"]) for one in report.content["operators"]}
    assert held == {"texts": (2, 1), "numbers": (1, 2), "small": (1, 2), "pairs": (0, 3)}
    findings = new.verify_erasure(report, [1, "a", "alice@shop"])
    assert errors(findings) == {"standing"}  # the number in keys of pairs
    assert {one["evidence"].partition(":")[0] for one in findings if one["severity"] == "error"} == {
        "pairs.key.f1",
        "pairs.n",
    }


def test_keys_given_as_columns_and_fields_of_composite_keys(alike: LocalSavepoint, tmp_path: Path) -> None:
    keys = pa.table({"id": pa.array([10], pa.int64()), "mail": ["alice@shop"]})
    by: dict[str, Any] = {"numbers": "id", "small": "id", "texts": "mail", "pairs": {"f1": "id"}}
    report = alike.erase(keys, by=by, to=tmp_path / "new", below=tmp_path / "alike")
    new = pyspark_savepoint.open(tmp_path / "new")
    assert keys_of(new, "texts") == ["1", "10", "a", "ab", "alice@shop2"]
    assert keys_of(new, "numbers") == ["1", "100"]
    assert len(keys_of(new, "pairs")) == 2
    assert errors(new.verify_erasure(report, keys)) == set()
    whole = alike.erase([("x", 1), {"f0": "x", "f1": 10}], to=tmp_path / "whole", below=tmp_path / "alike")
    assert removed(whole) == {("pairs", "n"): 2}
    with pytest.raises(OptionError, match="several columns"):
        alike.erase(keys, dry_run=True)
    with pytest.raises(OptionError, match="no field 'f7'"):
        alike.erase(keys, by={**by, "pairs": {"f7": "id"}}, dry_run=True)


MOMENTS = [datetime(2026, 1, 1, 0, 0, 0, micros) for micros in (0, 1, 1000, 999_999)]
HERE = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("LOCAL_DATE_TIME", MOMENTS),
        ("INSTANT", [one.replace(tzinfo=UTC) for one in MOMENTS]),
        ("LOCAL_DATE", [date(2026, 1, 1), date(2026, 1, 10), date(2025, 12, 31)]),
        ("ROWDATA<TIMESTAMP(6), STRING>", [(one, "a") for one in MOMENTS]),
        ("ROWDATA<DECIMAL(10, 2)>", [(Decimal(text),) for text in ("1.00", "10.00", "0.10", "0.01", "-1.00")]),
        ("BIG_DEC", ["1", "1.0", "1.00", "10", "0.1"]),
    ],
)
def test_keys_are_given_as_tables_show_them(tmp_path: Path, kind: str, keys: list[Any]) -> None:
    """Times as such, and not as the numbers by which the snapshot has them; one of another precision is another key."""
    numbers = pa.array(range(10**7, 10**7 + len(keys)))
    column = pa.array([dict(zip(("f0", "f1"), one, strict=False)) if isinstance(one, tuple) else one for one in keys])
    old = pyspark_savepoint.create().with_operator(
        "op", pa.table({"key": column, "n": numbers}), types={"key": kind, "n": "LONG"}
    )
    base = old.write(tmp_path / "old")
    for place, key in enumerate(keys):
        given = key.astimezone(HERE) if kind == "INSTANT" else key
        report = base.erase([given], to=tmp_path / f"{place}", below=tmp_path / "old")
        new = pyspark_savepoint.open(tmp_path / f"{place}")
        left = set(new.keyed_state("op").to_arrow().column("n").to_pylist())
        assert left == set(numbers.to_pylist()) - {10**7 + place}
        assert errors(new.verify_erasure(report, [key])) == set()


def test_keys_of_other_libraries_are_those_of_python(alike: LocalSavepoint, tmp_path: Path) -> None:
    given = [np.int64(1), pa.scalar("a"), np.str_("ab"), bytearray(b"x")]
    report = alike.erase(given, dry_run=True, below=tmp_path / "alike", salt="s")
    assert removed(report) == {("texts", "note"): 2, ("numbers", "note"): 1, ("small", "note"): 1}
    same = alike.erase([1, "a", "ab", b"x"], dry_run=True, below=tmp_path / "alike", salt="s")
    assert report.content["arguments"] == same.content["arguments"]


def test_a_moment_is_no_day_and_has_a_zone_or_none() -> None:
    moment = datetime(2026, 1, 1)
    assert fitting(moment, pa.date32()) is NONE
    assert fitting(moment, pa.timestamp("us", "UTC")) is NONE
    assert fitting(moment.replace(tzinfo=UTC), pa.timestamp("us")) is NONE


def test_a_report_that_holds_its_salt_is_read(shop: Path, tmp_path: Path, person: int) -> None:
    """As those of the first version did, in hexadecimal digits."""
    report = pyspark_savepoint.open(shop).erase([person], to=tmp_path / "new", salt="secret", below=tmp_path)
    content = json.loads(report.to_json())
    content["arguments"]["salt"] = b"secret".hex()
    del content["below"], content["arguments"]["record_types"]
    for one in content["standing"]:
        del one["removable"]
    new, old = pyspark_savepoint.open(tmp_path / "new"), json.dumps(content)
    accept = [f"{ORDERS}.value.accountId"]
    assert errors(new.verify_erasure(old, [person], accept=accept)) == set()
    assert "keys" in errors(new.verify_erasure(old, [person + 1], accept=accept))
    assert errors(new.verify_erasure(old, [person], salt="secret", accept=accept)) == set()
    assert "Erasure from the state" in ErasureReport.read(old).to_markdown()


@pytest.mark.parametrize(
    "name",
    [
        "datastream/udf-hashmap-checkpoint-2.3",
        "datastream/udf-rocksdb-checkpoint-1.20",
        "datastream/udf-rocksdb-native-2.3",
        "datastream/udf-changelog-checkpoint-1.20",
        "datastream/custom-rocksdb-checkpoint-2.3",
        "datastream/udf-rocksdb_heap_timers-savepoint-1.10",
    ],
)
def test_backends_and_formats(corpus: Path, name: str, tmp_path: Path) -> None:
    (path,) = {metadata.parent for metadata in (corpus / name).rglob("_metadata")}
    sp = pyspark_savepoint.open(path, allow_outside=True)
    uids = {row["operator_uid_hash"] for row in sp.states().rows() if row["table"] == "keyed_state"}
    keys = [next(sp.keyed_state(uid).rows())["key"] for uid in sorted(uids)]
    report = sp.erase(keys, to=tmp_path / "new", below=tmp_path)
    new = pyspark_savepoint.open(tmp_path / "new")
    assert report.removed >= len(keys)
    for uid, key in zip(sorted(uids), keys, strict=True):
        assert key not in new.keyed_state(uid).to_arrow().column("key").to_pylist()
    found = new.verify_erasure(report, keys)
    assert errors(found) <= {"standing", "files"}
    assert not any(one["check"] == "differences" for one in found)


@pytest.mark.thorough("keys of every backend and format")
def test_entries_with_equal_keys_stay_as_flink_wrote_them(tmp_path: Path) -> None:
    """On the heap, pickled keys of PyFlink's maps are byte arrays, which Java does not compare by their content."""
    unpack(IN_FLIGHT.parents[1] / "pyflink" / "1.20.3-thread.tar.xz", tmp_path)
    (path,) = tmp_path.glob("savepoint-*")
    sp = pyspark_savepoint.open(path)
    uids = dict.fromkeys(row["operator_uid_hash"] for row in sp.states().rows() if row["state"] == "map_row")
    for number, uid in enumerate(uids):
        old = {str(row["key"]): row for row in sp.keyed_state(uid).rows()}
        gone = next(iter(old))
        report = sp.erase([old[gone]["key"]], to=tmp_path / f"{number}", below=path)
        new = {str(row["key"]): row for row in pyspark_savepoint.open(tmp_path / f"{number}").keyed_state(uid).rows()}
        assert new.keys() == old.keys() - {gone}
        assert all(sorted(map(repr, new[key]["map_row"])) == sorted(map(repr, old[key]["map_row"])) for key in new)
        assert (
            errors(pyspark_savepoint.open(tmp_path / f"{number}").verify_erasure(report, [old[gone]["key"]])) == set()
        )


def test_opaque_state_is_listed_with_size_and_hits(shop: Path, tmp_path: Path) -> None:
    sp = pyspark_savepoint.open(shop).with_coordinator_state("orders-source", b"\xff secret of alice@example.org \xff")
    people = pa.table({"key": ["alice@example.org", "bob@example.org"], "n": [1, 2]})
    base = sp.with_operator("people", people).write(tmp_path / "base")

    report = base.erase(["alice@example.org"], dry_run=True, below=tmp_path / "base")

    unknown = {(row["operator_uid"], row["table"]): row for row in report.content["not_looked_into"]}
    # The shop's own sources have splits of the job's classes.
    assert unknown.keys() == {
        (uid, table) for uid in ("orders-source", "rates-source") for table in ("operator_state", "coordinator_state")
    }
    one = unknown["orders-source", "coordinator_state"]
    assert (one["bytes"], one["why"][:23]) == (31, "it is not the state of ")
    assert not any(row["hits"] for row in unknown.values() if row is not one)
    assert [(hit["encoding"], hit["certain"]) for hit in one["hits"]] == [("UTF-8", True)]
    with pytest.raises(UnsupportedStateError, match=r"source\.coordinator_state"):
        base.erase(["alice@example.org"], to=tmp_path / "strict", strict=True, below=tmp_path / "base")
    assert not (tmp_path / "strict").exists()
    report = base.erase(["alice@example.org"], to=tmp_path / "new", below=tmp_path / "base")
    new = pyspark_savepoint.open(tmp_path / "new")
    assert errors(new.verify_erasure(report, ["alice@example.org"])) == {"files", "standing"}


def test_other_snapshots_that_have_the_key_are_named(shop: Path, tmp_path: Path, person: int) -> None:
    for name in ("one", "two"):
        shutil.copytree(shop, tmp_path / "job" / name)
    pyspark_savepoint.open(shop).remove_keys("accounts", [person]).write(tmp_path / "job" / "three")

    report = pyspark_savepoint.open(tmp_path / "job" / "one").erase([person], dry_run=True)

    assert report.content["below"] == str(tmp_path / "job")
    others = {Path(one["path"]).name: one for one in report.content["others"]}
    assert (others["two"]["keys"], others["two"]["elements"]) == (6, 0)
    # Its pending orders are still there.
    assert (others["three"]["keys"], others["three"]["standing"] > 0) == (0, True)
    assert f"searched below: {tmp_path / 'job'}" in report.to_markdown()

    where = {ORDERS: f"value.accountId = {person}"}
    report = pyspark_savepoint.open(tmp_path / "job" / "one").erase([person], where=where, dry_run=True)
    others = {Path(one["path"]).name: one for one in report.content["others"]}
    assert (others["three"]["elements"] > 0, others["three"]["standing"]) == (True, 0)


def test_other_snapshots_that_are_damaged_or_of_another_job_are_named(
    shop: Path, corpus: Path, tmp_path: Path, person: int
) -> None:
    job = tmp_path / "job"
    for name in ("one", "broken", "half"):
        shutil.copytree(shop, job / name)
    (job / "broken" / "_metadata").write_bytes(b"\x4e\x12\x60\x67\0\0\0\3")
    for path in (job / "half").iterdir():
        if path.name != "_metadata":
            path.unlink()
    shutil.copytree(corpus / "datastream" / "udf-hashmap-savepoint-2.3", job / "another")

    where, by = {ORDERS: f"value.accountId = {person}"}, {"accounts": "key"}
    report = pyspark_savepoint.open(job / "one").erase([person], where=where, by=by, dry_run=True)

    others = {Path(one["path"]).name: one["note"] for one in report.content["others"] if one["note"]}
    assert others.keys() == {"broken", "half"}
    assert all(others.values())
    with pytest.raises(StateNotFoundError):  # what a snapshot itself does not have stays an error
        pyspark_savepoint.open(job / "one").erase([person], where={"gone": "key = 1"}, dry_run=True)


@pytest.mark.spark
@pytest.mark.slow  # every kind of snapshot is erased twice
def test_spark_erases_the_same(spark: SparkSession, shop: Path, tmp_path: Path, person: int) -> None:
    where = {ORDERS: f"value.accountId = {person}", "accounts.spent_by_currency": "map_key = 'EUR'"}
    keys = spark.createDataFrame([(person,)], "id long")
    report = Savepoint.load(spark, str(shop)).erase(keys, where=where, to=str(tmp_path / "spark"), below=tmp_path)
    here = pyspark_savepoint.open(shop).erase([person], where=where, to=tmp_path / "here", below=tmp_path)

    assert removed(report) == removed(here)
    new = Savepoint.load(spark, str(tmp_path / "spark"))
    assert errors(new.verify_erasure(report.to_json(), keys, where=where, salt=report.salt)) == set()
    with pytest.raises(OptionError, match=r"(?s)column of Spark.*a text"):
        new.erase(where={ORDERS: functions.abs("value.accountId") == person}, dry_run=True)
    both = pyspark_savepoint.open(tmp_path / "spark").diff(tmp_path / "here").rows()
    assert not any(row["added"] or row["removed"] or row["changed"] or row["note"] for row in both)


@pytest.mark.spark
def test_columns_of_spark_are_conditions(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    sp, col = Savepoint.load(spark, str(shop)), functions.col
    for column, text in (
        (
            (col("profile.tier") == "GOLD") & ~(col("total") < 5000),
            "((`profile`.`tier` = 'GOLD') AND (NOT (`total` < 5000)))",
        ),
        (col("profile")["tier"].isin("GOLD", "x'y"), "(`profile`.`tier` IN ('GOLD', 'x''y'))"),
        (col("coupon").isNull() | col("a.b").like("G%"), "((`coupon` IS NULL) OR (`a`.`b` LIKE 'G%'))"),
        (col("`order id`").isNotNull(), "(`order id` IS NOT NULL)"),
        (col("key").between(-1, 2.5), "((`key` >= -1) AND (`key` <= 2.5))"),
        (col("ok") & (col("price") == Decimal("1.50")), "(`ok` AND (`price` = 1.50))"),
        (col("data") != b"\xc0\xff", "(NOT (`data` = X'c0ff'))"),
        (functions.expr("total >= 7000"), "(total >= 7000)"),
    ):
        assert sp._engine.worded(column) == text
    for column in (
        functions.upper("tier") == "GOLD",
        col("total") + 1 > 7,
        col("total").eqNullSafe(1),
        col("x") == float("nan"),
        col("t") < datetime(2026, 1, 1),
        col("x").cast("int") == 1,
    ):
        assert sp._engine.worded(column) is column

    given = {"accounts": col("key") == 1042, ORDERS: col("value.accountId") == 1042}
    report = sp.erase(where=given, to=str(tmp_path / "new"), below=tmp_path)
    new = Savepoint.load(spark, str(tmp_path / "new"))
    assert removed(report)["accounts", "total"] == 1
    assert errors(new.verify_erasure(report, where=given)) == set()


@pytest.mark.spark
def test_expressions_on_the_columns_of_keys_with_spark(
    spark: SparkSession, alike: LocalSavepoint, tmp_path: Path
) -> None:
    sp = Savepoint.load(spark, str(tmp_path / "alike"))
    keys = spark.createDataFrame(
        [(9, "alice", b"a", datetime(2026, 1, 1))], "id int, name string, b binary, t timestamp"
    )
    given = functions.concat("name", functions.lit("@shop"))
    number = functions.col("id") + 1
    by = {"texts": given, "numbers": number, "small": pc.field("id") + 1, "pairs": {"f1": number}}
    report = sp.erase(keys, by=by, dry_run=True, below=tmp_path / "alike")
    assert removed(report) == {("texts", "note"): 1, ("numbers", "note"): 1, ("small", "note"): 1, ("pairs", "n"): 1}


def test_expressions_on_the_columns_of_keys(alike: LocalSavepoint, tmp_path: Path) -> None:
    keys = pa.table({"id": pa.array([9], pa.int64()), "name": ["alice"]})
    text, number = pc.binary_join_element_wise(pc.field("name"), pc.scalar("shop"), "@"), pc.field("id") + 1
    by = {"texts": text, "numbers": number, "small": number, "pairs": {"f1": number}}
    report = alike.erase(keys, by=by, to=tmp_path / "new", below=tmp_path / "alike")
    new = pyspark_savepoint.open(tmp_path / "new")
    assert keys_of(new, "texts") == ["1", "10", "a", "ab", "alice@shop2"]
    assert keys_of(new, "numbers") == ["1", "100"]
    assert len(keys_of(new, "pairs")) == 2
    assert report.content["arguments"]["by"]["pairs"] == {"f1": "expression of pairs: f1"}
    assert errors(new.verify_erasure(report, keys, by=by)) == set()
    with pytest.raises(OptionError, match="no column 'expression of texts'"):
        new.verify_erasure(report, keys)
    assert "by" in errors(new.verify_erasure(report, keys, by={**by, "numbers": "id"}))
    for wrong in (7, "id + 1", functions.lit):
        with pytest.raises(OptionError, match=r"neither a name nor an expression|no column 'id \+ 1'"):
            alike.erase(keys, by={**by, "numbers": wrong}, dry_run=True)
    with pytest.raises(OptionError, match="expression of numbers cannot be evaluated"):
        alike.erase(keys, by={"numbers": pc.field("idd") + 1}, dry_run=True)


@pytest.mark.parametrize(
    "condition",
    [
        {ORDERS: "value.acountId = 1061"},
        {ORDERS: pc.field("acountId") == 1061},
        {"accounts.total": "totl = 1"},
        {"accounts.spent_by_currency": "map_kee = 'EUR'"},
        {"accounts.spent_by_currency": pc.field("map_key") == 7},
        {"accounts": "kee = 1061"},
        {"currency-converter.rates": "ky = 'EUR'"},
        {"orders-source.splits": "splitt = 'a'"},
    ],
    ids=str,
)
def test_a_condition_that_does_not_fit_is_an_error_before_anything_is_written(shop: Path, condition: Any) -> None:
    """Such a state is none that cannot be looked into: the condition would be left out in silence."""
    with pytest.raises(OptionError, match=r"where={|cannot be evaluated"):
        pyspark_savepoint.open(shop).erase(where=condition, dry_run=True)


@pytest.mark.parametrize("uid", ["acounts", "orders-source"])
def test_an_operator_that_by_names_must_have_keys(shop: Path, uid: str) -> None:
    """A misspelt one would keep the keys of the person."""
    with pytest.raises(StateNotFoundError, match=rf"by names '{uid}', which is not an operator with keyed state"):
        pyspark_savepoint.open(shop).erase([1042], by={uid: "key"}, dry_run=True)


def test_the_repr_of_a_report_says_what_was_removed(shop: Path, tmp_path: Path) -> None:
    report = pyspark_savepoint.open(shop).erase([1042], dry_run=True, below=tmp_path)
    assert repr(report) == "<ErasureReport: 6 rows would be removed, 4 states not looked into>"


@pytest.mark.parametrize("name", ["pojo-map-null-key/2.3.0-hashmap", "pojo-set-pojo/1.20.5-hashmap"])
def test_values_that_columns_cannot_have_are_compared_as_bytes(corpus: Path, tmp_path: Path, name: str) -> None:
    sp = pyspark_savepoint.open(corpus / "migration" / "cases" / name, allow_outside=True)
    uid = next(row["operator_uid_hash"] for row in sp.states().rows() if row["table"] == "keyed_state")
    keys = [row["key"] for row in sp.table("keyed_state", uid).select("key").rows()]
    for number, key in enumerate(keys[:3]):
        report = sp.erase([key], to=tmp_path / f"{number}", below=tmp_path)
        new = pyspark_savepoint.open(tmp_path / f"{number}")
        left = [row["key"] for row in new.table("keyed_state", uid).select("key").rows()]
        assert sorted(left) == sorted(set(keys) - {key})
        assert errors(new.verify_erasure(report, [key])) <= {"standing"}
        for other in [one for one in keys if one != key][:1]:
            less = new.remove_keys(uid, [other]).write(tmp_path / f"less-{number}")
            assert any("have none of the keys" in one["evidence"] for one in less.verify_erasure(report, [key]))


AVRO = (
    '{"type": "record", "name": "Order", "namespace": "com.shop", "fields": [{"name": "id", "type": "long"}, '
    '{"name": "mails", "type": {"type": "array", "items": "string"}}]}'
)


def test_keys_inside_of_values_of_avro_are_found_and_erased(tmp_path: Path) -> None:
    mail = "anna@example.org"
    orders = [{"id": 1, "mails": [mail]}, {"id": 104_729_313, "mails": []}, {"id": 3, "mails": ["zoe"]}]
    schema = pa.struct([("id", pa.int64()), ("mails", pa.list_(pa.string()))])
    rows = pa.table({"key": ["a", "b", "c"], "order": pa.array(orders, schema), "orders": [[one] for one in orders]})
    rows = rows.set_column(2, "orders", pa.array([[one] for one in orders], pa.list_(schema)))
    kind = f"AVRO<com.shop.Order>('{AVRO}')"
    old = pyspark_savepoint.create().with_operator(
        "op", rows, types={"order": kind, "orders": f"LIST<{kind}>"}, states={"orders": "list"}
    )
    base = old.write(tmp_path / "old")
    assert {row["value_type"] for row in base.states().rows()} == {"AVRO<com.shop.Order>", "LIST<AVRO<com.shop.Order>>"}
    given = [mail, 104_729_313]
    dry = base.erase(given, dry_run=True, below=tmp_path / "old")
    assert {place_of(one): one["equal"] for one in dry.content["standing"]} == {
        "op.order.id": 1,
        "op.order.mails[]": 1,
        "op.orders[].id": 1,
        "op.orders[].mails[]": 1,
    }
    has_mail = pc.match_substring(pc.binary_join(pc.field("list_value", "mails"), "|"), mail)
    where = {
        "op.order": "key IN ('a', 'b')",
        "op.orders": (pc.field("list_value", "id") == 104_729_313) | has_mail,
    }
    report = base.erase(given, where=where, to=tmp_path / "new", below=tmp_path / "old")
    new = pyspark_savepoint.open(tmp_path / "new")
    assert removed(report) == {("op", "elements of order"): 2, ("op", "elements of orders"): 2}
    left = {row["key"]: row for row in new.keyed_state("op").rows()}
    assert left == {"c": {"key": "c", "order": orders[2], "orders": [orders[2]]}}
    assert errors(new.verify_erasure(report, given, where=where)) == set()
    again = new.with_state("op", "order", base.keyed_state("op", state="order")).write(tmp_path / "again")
    assert {"rows", "files", "after"} <= errors(again.verify_erasure(report, given, where=where))


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_values_and_keys_of_a_serializer_of_the_job_are_listed(tmp_path: Path, version: str) -> None:
    """Keys are removed as bytes, and beside such values; what is in them is not known, and their bytes are searched."""
    sp = pyspark_savepoint.open(IN_FLIGHT.parents[1] / "own-serializer" / version, uids="keyed,listed,by-money,numbers")
    money = next(row["key"] for row in sp.keyed_state("by-money").rows())
    report = sp.erase([1, money], to=tmp_path / "new", below=tmp_path)
    unknown = {(one["operator_uid"], one["state"]) for one in report.content["not_looked_into"]}
    states = {("keyed", state) for state in ("named", "last", "every", "pair")}
    assert states | {("listed", "list"), ("by-money", "key")} <= unknown
    assert {row[0] for row in removed(report)} == {"keyed", "by-money"}
    new = pyspark_savepoint.open(tmp_path / "new", uids="keyed,listed,by-money,numbers")
    assert money not in {row["key"] for row in new.keyed_state("by-money").rows()}
    assert not {"rows", "differences", "after", "before"} & errors(new.verify_erasure(report, [1, money]))
    with pytest.raises(UnsupportedStateError, match="looked into"):
        sp.erase([1], to=tmp_path / "strict", strict=True, below=tmp_path)
