"""Operators get other keys: entries move to them and to their key groups, and keep all else byte for byte.

The bases are checkpoints of real Flink on each state backend, and tables whose namespaces vary in length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint
from pyspark_savepoint.command_line.warming import unpack
from pyspark_savepoint.errors import (
    DuplicateKeyError,
    OptionError,
    SavepointError,
    StateNotFoundError,
    UndecodableStateError,
    UnsupportedStateError,
    ValueRangeError,
)
from tests.connector.api.test_update_state import CHANGELOG, HISTORY, ORACLE, entries_of, snapshot_of
from tests.data import unpacked

TABLES = ("keyed_state", "window_state", "timers")
SHOP_KEYS = range(1001, 1201)


def keys_of(savepoint: LocalSavepoint, uid: Any) -> pa.Array | None:
    """All keys of an operator, once; None if it has none."""
    found: dict[str, Any] = {}
    kind = None
    for table in TABLES:
        try:
            column = savepoint.table(table, uid).select("key").to_arrow().column("key")  # type: ignore[arg-type]
        except StateNotFoundError:
            continue
        kind = column.type
        found |= {repr(key): key for key in column.to_pylist()}
    return pa.array(list(found.values()), kind) if found else None


def digests(savepoint: LocalSavepoint, uid: Any) -> set[str]:
    """The digests of the files of one operator, in its own folder."""
    rows = [row for row in savepoint.table("files", uid).rows() if row["path"]]
    return {hashlib.sha256(Path(row["path"].removeprefix("file:")).read_bytes()).hexdigest() for row in rows}


@pytest.mark.parametrize("backend", ["shop", *HISTORY, CHANGELOG])
def test_entries_come_back_byte_for_byte(backend: str, tmp_path: Path) -> None:
    """Keys become texts, and what they were: all entries, windows and timers are those of before."""
    base = snapshot_of(backend, tmp_path)
    tried = 0
    for number, operator in enumerate(base.plan.operators):
        uid = operator.identifier
        old = keys_of(base, uid)
        if old is None:
            continue
        new = pa.array([f"key {place}" * (place % 40 + 1) for place in range(len(old))])
        there = base.rekey(uid, pa.table({"key": old, "new_key": new}), types={"key": "STRING"})
        written = there.write(tmp_path / f"there-{number}")
        assert {row["status"] for row in written.inspect.verify().rows()} == {"ok"}
        assert keys_of(written, uid).to_pylist() != old.to_pylist()  # type: ignore[union-attr]
        same = f"{base.path}#{uid.operator_id}"
        back = written.rekey(uid, pa.table({"key": new, "new_key": old}), types_from=same, allow_outside=True)
        assert entries_of(back.write(tmp_path / f"back-{number}"), uid) == entries_of(base, uid)
        tried += 1
    assert tried


@pytest.mark.parametrize(
    ("keys", "types", "new"),
    [
        (None, {"key": "STRING"}, str),
        (None, {"key": "INT"}, int),
        (lambda batch: pc.negate(batch["key"]), {}, lambda key: -key),
        (
            lambda batch: pa.StructArray.from_arrays([batch["key"].cast("string"), batch["key"]], ["id", "number"]),
            {"key": "TUPLE<STRING, LONG>"},
            lambda key: {"f0": str(key), "f1": key},
        ),
    ],
)
def test_values_times_and_timers_are_those_of_the_old_keys(
    keys: Any, types: dict[str, str], new: Callable[[int], Any], shop: Path, tmp_path: Path
) -> None:
    base = pyspark_savepoint.open(shop)
    moved = base.rekey("accounts", keys, types=types).write(tmp_path / "new")

    def rows(savepoint: LocalSavepoint, table: Any, **options: Any) -> list[dict[str, Any]]:
        return list(savepoint.table(table, "accounts", **options).rows())

    for table, options in (("keyed_state", {"include_ttl": True}), ("timers", {})):
        expected = [{**row, "key": new(row["key"])} for row in rows(base, table, **options)]
        assert sorted(map(repr, rows(moved, table, **options))) == sorted(map(repr, expected))
    groups = {row["key_group"] for row in rows(moved, "keyed_state", include_key_group=True)}
    assert len(groups) > 60
    one = new(1042)
    assert next(iter(moved.keyed_state("accounts", keys=[one]).rows()))["key"] == one  # found in its key group
    for other in ("orders-per-minute", "warehouse-export", "currency-converter"):
        assert digests(moved, other) == digests(base, other)


def test_keys_of_a_few_rows(shop: Path, tmp_path: Path) -> None:
    """Keys without a row stay; two keys can change places."""
    base = pyspark_savepoint.open(shop)
    pairs = pa.table({"key": [1042, 1043], "new_key": [1043, 1042]})
    new = base.rekey("accounts", pairs).write(tmp_path / "new")
    before, after = (
        {row["key"]: row["total"] for row in one.keyed_state("accounts", state="total").rows()} for one in (base, new)
    )
    assert after == before | {1042: before[1043], 1043: before[1042]}


@pytest.mark.parametrize("kind", ["STRING", "TUPLE<STRING, LONG>", "LONG"])
def test_namespaces_that_vary_in_length(kind: str, tmp_path: Path) -> None:
    """Lengths between key and namespace come and go with the type of the key."""
    long = pa.array([f"window {n}" * (n * 40 + 1) for n in range(12)])
    rows = pa.table(
        {
            "key": pa.array([n // 2 for n in range(12)], pa.int64()),
            "window": long,
            "count": pa.array(range(12)),
            "spent": pa.array([[("a" * n, n), ("b", 1)] for n in range(12)], pa.map_(pa.string(), pa.int64())),
        }
    )
    timers = pa.table(
        {
            "key": rows["key"],
            "namespace": long,
            "timestamp": list(range(12)),
            "domain": ["event"] * 12,
            "service": ["t"] * 12,
        }
    )
    base = pyspark_savepoint.create().with_operator("op").with_window_state("op", rows, types={"window": "STRING"})
    base = base.with_timers("op", timers, state="t", types={"namespace": "STRING"}).write(tmp_path / "base")
    old = pa.array(range(6), pa.int64())
    values = {
        "STRING": pa.array(["k" * (n * 150) for n in range(6)]),
        "TUPLE<STRING, LONG>": pa.array([{"f0": "k" * (n * 150), "f1": n} for n in range(6)]),
        "LONG": pa.array([n * 7919 for n in range(6)]),
    }[kind]
    there = base.rekey("op", pa.table({"key": old, "new_key": values}), types={"key": kind}).write(tmp_path / "there")
    names = dict(zip(range(6), values.to_pylist(), strict=True))
    expected = [{**row, "key": names[row["key"]]} for row in base.window_state("op").rows()]
    assert sorted(map(repr, there.window_state("op").rows())) == sorted(map(repr, expected))
    back = there.rekey("op", pa.table({"key": values, "new_key": old}), types={"key": "LONG"}).write(tmp_path / "back")
    assert entries_of(back, "op") == entries_of(base, "op")


def test_edits_before_and_after(shop: Path, tmp_path: Path) -> None:
    base = pyspark_savepoint.open(shop)
    totals = pa.table({"key": ["1042"], "total": pa.array([7], pa.int64())})
    changed = (
        base.remove_keys("accounts", [1043])
        .remove_state("accounts", "profile")
        .rekey("accounts", types={"key": "STRING"})
        .rename_state("accounts", "coupon", "voucher")
        .remove_keys("accounts", ["1044"])
        .update_state("accounts", "total", totals)
    )
    new = changed.write(tmp_path / "new")
    rows = {row["key"]: row for row in new.keyed_state("accounts").rows()}
    assert rows.keys() == {str(key) for key in SHOP_KEYS if key not in (1043, 1044)}
    assert rows["1042"]["total"] == 7
    assert "profile" not in rows["1042"]
    assert "voucher" in rows["1042"]
    numbers = changed.rekey("accounts", types={"key": "LONG"}).write(tmp_path / "again")
    assert {row["key"] for row in numbers.keyed_state("accounts").rows()} == set(map(int, rows))


def test_both_sides_of_a_merge_are_checked(shop: Path, tmp_path: Path) -> None:
    base = pyspark_savepoint.open(shop)
    one = base.rekey("accounts", lambda batch: pc.divide(batch["key"], 2))
    two = base.copy_operator("accounts", "two").remove_keys("accounts", list(SHOP_KEYS))
    clash = two.rekey("two", lambda batch: pc.divide(batch["key"], 2)).merge_operator("two", into="accounts")
    for savepoint in (one, clash):
        with pytest.raises(DuplicateKeyError, match="two keys of the operator would become one"):
            savepoint.write(tmp_path / "new")
    assert not (tmp_path / "new" / "_metadata").exists()


def halves(batch: pa.RecordBatch) -> pa.Array:
    return pc.divide(batch["key"], 2)


def nothing_of_1042(batch: pa.RecordBatch) -> pa.Array:
    return pc.if_else(pc.equal(batch["key"], 1042), None, batch["key"])


@pytest.mark.parametrize(
    ("edit", "error", "texts"),
    [
        (lambda sp: sp.rekey("accounts", halves), DuplicateKeyError, ["key 1140 and key 1141 become key 570"]),
        (lambda sp: sp.rekey("accounts", types={"key": "BYTE"}), ValueRangeError, ["key: 1158", "tinyint"]),
        (lambda sp: sp.rekey("accounts", nothing_of_1042), ValueRangeError, ["key: 1042", "found: NULL"]),
        (lambda sp: sp.rekey("accounts"), OptionError, ["neither new keys nor their type", "types={'key': 'LONG'}"]),
        (lambda sp: sp.rekey("accounts", types={"total": "INT"}), OptionError, ["only the key gets another type"]),
        (lambda sp: sp.rekey("accounts", "key + 1"), OptionError, ["needs Spark"]),
        (lambda sp: sp.rekey("accounts", types={"key": "BOOLEAN"}), OptionError, ["boolean"]),
        (lambda sp: sp.rekey("accounts", types={"key": "POJO<a.B>(id LONG)"}), SavepointError, []),
        (lambda sp: sp.rekey("accounts", ttl=True), OptionError, ["option 'ttl' does not apply"]),
        (lambda sp: sp.rekey("warehouse-export", types={"key": "INT"}), StateNotFoundError, ["no keyed state"]),
        (
            lambda sp: sp.rekey("orders-per-minute", types={"key": "LONG"}),
            ValueRangeError,
            ["key: 'bicycle'", "orders-per-minute"],
        ),
        (lambda sp: sp.rekey("accounts", pa.table({"key": [1]})), OptionError, ["need column 'new_key'"]),
        (
            lambda sp: sp.rekey("accounts", pa.table({"key": [1042, 1042], "new_key": [1, 2]})),
            DuplicateKeyError,
            ["say twice", "key 1042"],
        ),
        (
            lambda sp: sp.rekey("accounts", pa.table({"key": [1042], "new_key": [1043]})),
            DuplicateKeyError,
            ["key 1042 and key 1043 become key 1043"],
        ),
        (
            lambda sp: sp.rekey("accounts", pa.table({"key": [1042], "new_key": ["a"]}), types={"key": "STRING"}),
            ValueRangeError,
            ["do not say what a key", "found: key 1158"],
        ),
        (
            lambda sp: sp.rekey("accounts", pa.table({"key": [1042], "new_key": ["a"]})),
            OptionError,
            ["cannot be written as LONG"],
        ),
    ],
)
def test_what_is_refused(
    edit: Callable[[LocalSavepoint], LocalSavepoint],
    error: type[Exception],
    texts: list[str],
    shop: Path,
    tmp_path: Path,
) -> None:
    with pytest.raises(error) as raised:
        edit(pyspark_savepoint.open(shop)).write(tmp_path / "new")
    for text in texts:
        assert text in str(raised.value)
    assert not (tmp_path / "new").exists()


def test_texts_are_numbers_only_as_they_are_written(tmp_path: Path) -> None:
    rows = pa.table({"key": ["1", "01"], "n": [1, 2]})
    base = pyspark_savepoint.create().with_operator("op", rows).write(tmp_path / "base")
    with pytest.raises(ValueRangeError, match="key: '01'"):
        base.rekey("op", types={"key": "LONG"}).write(tmp_path / "new")


def test_keys_that_only_the_job_hashes(tmp_path: Path) -> None:
    own = pyspark_savepoint.open(ORACLE / "flinkx" / "savepoint")
    pairs = pa.table({"key": ["a"], "new_key": [{"_1": "b", "_2": 1}]})
    with pytest.raises(UndecodableStateError, match="its hashCode is defined by the job's own code") as raised:
        own.rekey("opt-key", pairs, types_from=f"{own.path}#scala")
    assert "keyGroup" not in str(raised.value)


def test_operators_of_pyflink_are_refused(tmp_path: Path) -> None:
    unpack(ORACLE / "pyflink" / "2.2.1.tar.xz", tmp_path)
    base = pyspark_savepoint.open(tmp_path)
    uid = next(one.identifier for one in base.plan.operators if keys_of(base, one.identifier) is not None)
    with pytest.raises(UnsupportedStateError, match="one of PyFlink"):
        base.rekey(uid, types={"key": "STRING"})


def test_many_keys_are_sorted_in_files(tmp_path: Path) -> None:
    """Two keys far apart become one: they are found among runs on disk."""
    count = 200_000
    rows = pa.table({"key": pa.array(range(count)), "n": pa.array(range(count))})
    base = pyspark_savepoint.create().with_operator("op", rows).write(tmp_path / "base")

    def folded(batch: pa.RecordBatch) -> pa.Array:
        return pc.if_else(pc.equal(batch["key"], count - 1), 3, batch["key"])

    with pytest.raises(DuplicateKeyError, match=r"key 3 and key 199999|key 199999 and key 3"):
        base.rekey("op", folded, sort_memory="1m").write(tmp_path / "new")
    moved = base.rekey("op", types={"key": "STRING"}, sort_memory="1m").write(tmp_path / "moved")
    assert sum(len(batch) for batch in moved.keyed_state("op").batches()) == count


@pytest.fixture(scope="module")
def join() -> LocalSavepoint:
    """A join in SQL: rows of its left side are keys of a map, a row of its right side is a value."""
    return pyspark_savepoint.open(unpacked() / "sql" / "join-inner-2.3")


def field_of(column: str, name: str) -> Callable[[pa.RecordBatch], pa.Array]:
    return lambda batch: pc.struct_field(batch[column], name)


def test_keys_that_rows_have(join: LocalSavepoint, tmp_path: Path) -> None:
    (uid,) = (one.identifier for one in join.plan.operators if keys_of(join, one.identifier) is not None)
    same = join.rekey(uid, {"left-records": field_of("map_key", "f1"), "right-records": field_of("value", "f0")})
    assert entries_of(same.write(tmp_path / "same"), uid) == entries_of(join, uid)
    keys = {"left-records": field_of("map_key", "f0"), "right-records": field_of("value", "f1")}
    new = join.rekey(uid, keys, types={"key": "ROWDATA<BIGINT>"}).write(tmp_path / "new")

    def rows(savepoint: LocalSavepoint, key: Callable[[Any, Any], Any]) -> list[str]:
        found = []
        for row in savepoint.keyed_state(uid).rows():
            found += [repr((key("left", one[0]), one)) for one in row["left-records"] or ()]
            found += [repr((key("right", row["right-records"]), row["right-records"]))] if row["right-records"] else []
        return sorted(found)

    def of_row(side: str, row: Any) -> Any:
        return row["f0"] if side == "left" else row["f1"]

    assert rows(new, of_row) == rows(join, of_row)
    for row in new.keyed_state(uid).rows():
        assert {of_row("left", one[0]) for one in row["left-records"] or ()} <= {row["key"]["f0"]}
        assert row["right-records"] is None or row["right-records"]["f1"] == row["key"]["f0"]
    assert {row["status"] for row in new.inspect.verify().rows()} == {"ok"}


def all_one(batch: pa.RecordBatch) -> pa.Array:
    return pa.array(["a"] * len(batch), pa.string())


@pytest.mark.parametrize(
    ("keys", "error", "text"),
    [
        ({"left-records": field_of("map_key", "f1")}, ValueRangeError, r"nothing says which key(.|\n)*right-records"),
        ({"left": field_of("map_key", "f1")}, StateNotFoundError, "did you mean 'left-records'"),
        ({}, StateNotFoundError, "no state is named"),
        (
            {"left-records": all_one, "right-records": all_one},
            DuplicateKeyError,
            "more than one entry",
        ),
    ],
)
def test_rows_that_make_no_keys(
    keys: Any, error: type[SavepointError], text: str, join: LocalSavepoint, tmp_path: Path
) -> None:
    (uid,) = (one.identifier for one in join.plan.operators if keys_of(join, one.identifier) is not None)
    with pytest.raises(error, match=text):
        join.rekey(uid, keys).write(tmp_path / "new")


def test_lists_have_no_rows(shop: Path) -> None:
    with pytest.raises(OptionError, match="a list is one entry"):
        pyspark_savepoint.open(shop).rekey("accounts", {"recent_amounts": lambda batch: batch["key"]})


def test_max_parallelism_and_keys_change_in_either_order(shop: Path, tmp_path: Path) -> None:
    """Entries, timers and their key groups are the same; so are those of operators that were merged before."""
    base = pyspark_savepoint.open(shop)

    def rekeyed(savepoint: LocalSavepoint) -> LocalSavepoint:
        return savepoint.rekey("accounts", types={"key": "STRING"})

    written = [
        rekeyed(base.with_max_parallelism(512)).write(tmp_path / "before"),
        rekeyed(base).with_max_parallelism(512).write(tmp_path / "after"),
        rekeyed(base).with_max_parallelism(256).with_max_parallelism(512).write(tmp_path / "twice"),
    ]
    for table in ("keyed_state", "timers"):
        one, *others = (
            sorted(map(repr, savepoint.table(table, "accounts", include_key_group=True).rows()))  # type: ignore[arg-type]
            for savepoint in written
        )
        assert others == [one, one]
    assert {operator.max_parallelism for operator in written[1].plan.operators} == {512}
    assert {row["status"] for row in written[1].inspect.verify().rows()} == {"ok"}
