"""Edits without Spark: what is changed is changed, all else is what it was, and nothing needs PySpark."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint, OperatorIdentifier
from pyspark_savepoint.errors import OptionError, SavepointError, StateExistsError
from pyspark_savepoint.formats.errors import SavepointWarning, UnsupportedStateError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.connector.test_engines import content
from tests.data import unpacked


def rows_of(savepoint: LocalSavepoint, uid: str) -> dict[Any, dict[str, Any]]:
    """The keyed state of an operator by key."""
    return {row["key"]: row for row in savepoint.keyed_state(uid).rows()}


@pytest.mark.parametrize("compression", ["snappy", "none"])
def test_compression_is_that_of_the_operator_whatever_call_gives_it(
    shop: Path, tmp_path: Path, compression: str
) -> None:
    table = pyspark_savepoint.open(shop).keyed_state("accounts").select("key", "total", "coupon").to_arrow()
    first, second = table.select(["key", "total"]), table.select(["key", "coupon"])
    other = "none" if compression == "snappy" else "snappy"
    sp = pyspark_savepoint.create(max_parallelism=16)
    written = [
        sp.with_operator("accounts", table, compression=compression),
        sp.with_operator("accounts", first, compression=compression).with_state("accounts", "coupon", second),
        sp.with_operator("accounts", first, compression=other).with_state(
            "accounts", "coupon", second, compression=compression
        ),
        pyspark_savepoint.open(
            sp.with_operator("accounts", table, compression=other).write(tmp_path / "other").path
        ).with_state("accounts", "total", first, compression=compression),
    ]
    for number, changed in enumerate(written):
        snapshot = Snapshot.open(str(changed.write(tmp_path / str(number)).path))
        headers = OpenOperator(snapshot, snapshot.operator(uid="accounts")).keyed.headers
        assert {header.compressed for header in headers} == {compression == "snappy"}, number
        assert len(rows_of(pyspark_savepoint.open(snapshot.path), "accounts")) == len(table)


def test_states_keys_and_operators_are_changed(shop: Path, tmp_path: Path) -> None:
    base = pyspark_savepoint.open(shop)
    before = rows_of(base, "accounts")
    table = base.keyed_state("accounts").select("key", "total").to_arrow()
    doubled = table.set_column(1, "total", pc.multiply(table["total"], 2))
    gone = sorted(before)[:3]
    edited = (
        base.with_state("accounts", "total", doubled)
        .remove_keys("accounts", gone)
        .rename_state("accounts", "coupon", "voucher")
        .change_operator_identifier("currency-converter", "converter")
        .remove_operator("rates-source")
        .copy_operator("orders-per-minute", "copied")
        .write(tmp_path / "new")
    )
    after = rows_of(edited, "accounts")
    assert after.keys() == before.keys() - set(gone)
    for key, row in after.items():
        old = before[key]
        expected = {**old, "total": None if old["total"] is None else old["total"] * 2, "voucher": old["coupon"]}
        del expected["coupon"]
        assert row == expected
    assert content(edited)["copied"] == content(base)["orders-per-minute"]
    assert content(edited)["converter"] == content(base)["currency-converter"]
    assert "rates-source" not in content(edited)
    assert {row["status"] for row in edited.table("verification").rows()} == {"ok"}


def test_keys_go_to_other_key_groups(shop: Path, tmp_path: Path) -> None:
    base = pyspark_savepoint.open(shop)
    wide = base.with_max_parallelism(512).write(tmp_path / "wide")
    assert rows_of(wide, "accounts") == rows_of(base, "accounts")
    assert {row["operator_max_parallelism"] for row in wide.metadata().rows()} == {512}
    assert {row["status"] for row in wide.table("verification").rows()} == {"ok"}


@pytest.mark.parametrize("number", [1, 3])
def test_subtasks_are_no_more_than_key_groups(number: int, tmp_path: Path) -> None:
    """An operator with four subtasks, whose state then lies in fewer."""
    uid = "3ffbd17d44a5df52af31dfcc7200cd35"
    base = pyspark_savepoint.open(unpacked() / "datastream" / "udf-hashmap-checkpoint-1.17" / "chk-2")
    new = base.with_max_parallelism(number, operators=[uid]).write(tmp_path / "new")
    (operator,) = [one for one in Snapshot.open(str(tmp_path / "new")).operators if str(one.operator_id) == uid]
    assert (operator.parallelism, sorted(operator.subtasks)) == (number, [*range(number)])
    assert {row["status"] for row in new.table("verification").rows()} == {"ok"}


GIVEN: list[Callable[[pa.Table], Any]] = [
    lambda table: table,
    lambda table: table.to_reader(),
    lambda table: table.to_batches()[0],
    lambda table: table.to_pandas(),
]


@pytest.mark.parametrize("number", range(len(GIVEN)))
def test_rows_are_given_in_any_form_of_arrow(number: int, tmp_path: Path) -> None:
    if number == 3:
        pytest.importorskip("pandas")
    table = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"], "numbers": [[1], [2, 3], []]})
    created = pyspark_savepoint.create(max_parallelism=64).with_operator(
        "totals", GIVEN[number](table), key="id", types={"name": "STRING"}, states={"numbers": "list"}, parallelism=2
    )
    found = rows_of(created.write(tmp_path / "new"), "totals")
    assert {key: row["name"] for key, row in found.items()} == {1: "a", 2: None, 3: "c"}
    assert found[2]["numbers"] == [2, 3]


def test_types_that_only_arrow_has_become_those_of_state(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.uint16()),
            "text": pa.array(["x", "y"], pa.large_string()),
            "place": pa.array(["x", "x"]).dictionary_encode(),
        }
    )
    made = pyspark_savepoint.create().with_operator("totals", table, key="id").write(tmp_path / "new")
    assert rows_of(made, "totals") == {
        1: {"key": 1, "text": "x", "place": "x"},
        2: {"key": 2, "text": "y", "place": "x"},
    }
    with pytest.raises(OptionError, match="big uint64"):
        pyspark_savepoint.create().with_operator("a", pa.table({"key": [1], "big": pa.array([1], pa.uint64())}))


def test_a_reader_is_read_once(tmp_path: Path) -> None:
    reader = pa.table({"key": [1], "n": [2]}).to_reader()
    planned = pyspark_savepoint.create().with_operator("a", reader)
    planned.write(tmp_path / "first")
    with pytest.raises(OptionError, match="were read already"):
        planned.write(tmp_path / "second")
    assert not (tmp_path / "second").exists()


REFUSED: list[tuple[Callable[[LocalSavepoint, Path], object], type[SavepointError], str]] = [
    (lambda sp, new: sp.with_state("accounts", "total", [1]), OptionError, "must be given as rows of Arrow"),
    (lambda sp, new: sp.remove_keys("accounts", 5), OptionError, "or a list"),
    (lambda sp, new: sp.copy_operator("accounts", "rates-source"), StateExistsError, "this operator already"),
    (lambda sp, new: sp.remove_state("accounts", "total").states(), OptionError, "not written yet"),
    (lambda sp, new: pyspark_savepoint.create().write(new), OptionError, "no operators"),
    (lambda sp, new: sp.write(sp.path or ""), StateExistsError, "exists at this path"),
    (
        lambda sp, new: (
            pyspark_savepoint.create().with_operator("a", pa.table({"key": [1, 1], "n": [1, 2]})).write(new)
        ),
        SavepointError,
        "key",
    ),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_mistakes_are_refused_and_leave_nothing(number: int, shop: Path, tmp_path: Path) -> None:
    call, kind, words = REFUSED[number]
    with pytest.raises(kind, match=words):
        call(pyspark_savepoint.open(shop), tmp_path / "new")
    assert not (tmp_path / "new").exists()


UUIDS = Path("migration", "cases", "key-kryo-uuid", "1.20.5-hashmap")
UUID = "9d4c8b0e-2f5e-4a55-8a3c-0b8f6f0c1d2e"
#: The operator whose keys are UUIDs that Kryo wrote.
OF_UUIDS = "0dccc6d845eac8e1b962e0ff56612b4e"


def one_row(name: str) -> pa.Table:
    return pa.table({"key": [UUID], name: [1]})


def one_timer() -> pa.Table:
    return pa.table({"key": [UUID], "timestamp": pa.array([5], pa.int64()), "domain": ["event"], "service": ["late"]})


def with_timers_alone(savepoint: LocalSavepoint) -> LocalSavepoint:
    return savepoint.with_timers(OF_UUIDS, one_timer(), state="late").remove_state(OF_UUIDS, "v")


STRINGS: dict[str, Any] = {"types": {"key": "STRING"}}
KEPT, GIVEN_TYPE = "KRYO<java.util.UUID>", "STRING"
#: All keyed state is removed, and other state added: before or after, of each kind, with and without a type of the key.
REPLACED: list[tuple[Callable[[LocalSavepoint], LocalSavepoint], str]] = [
    (
        lambda sp: (
            with_timers_alone(sp).remove_state(OF_UUIDS, "late").with_timers(OF_UUIDS, one_timer(), state="late")
        ),
        KEPT,
    ),
    (lambda sp: sp.remove_state(OF_UUIDS, "v").with_state(OF_UUIDS, "x", one_row("x")), KEPT),
    (lambda sp: sp.with_state(OF_UUIDS, "x", one_row("x")).remove_state(OF_UUIDS, "v"), KEPT),
    (lambda sp: sp.remove_state(OF_UUIDS, "v").with_state(OF_UUIDS, "x", one_row("x"), **STRINGS), GIVEN_TYPE),
    (
        lambda sp: (
            sp.remove_state(OF_UUIDS, "v")
            .with_state(OF_UUIDS, "x", one_row("x"), **STRINGS)
            .with_state(OF_UUIDS, "y", one_row("y"))
        ),
        GIVEN_TYPE,
    ),
]


@pytest.mark.parametrize("number", range(len(REPLACED)))
def test_an_operator_keeps_the_type_of_its_keys(number: int, corpus: Path, tmp_path: Path) -> None:
    """The job compares it with its own when it restores the savepoint, whatever state is left."""
    change, expected = REPLACED[number]
    written = change(pyspark_savepoint.open(corpus / UUIDS)).write(tmp_path / "new")
    states = [row for row in written.states().rows() if row["table"] in ("keyed_state", "timers")]
    assert {row["key_type"] for row in states} == {expected}
    table = "timers" if states[0]["table"] == "timers" else "keyed_state"
    assert {row["key"] for row in written.table(table, OF_UUIDS).rows()} == {UUID}
    assert {row["status"] for row in written.table("verification").rows()} == {"ok"}


def test_keys_of_another_type_are_refused_beside_those_that_are_there(corpus: Path) -> None:
    base = pyspark_savepoint.open(corpus / UUIDS)
    with pytest.raises(UnsupportedStateError, match="differs from the operator's key type"):
        base.with_state(OF_UUIDS, "x", one_row("x"), **STRINGS)


def test_the_doctor_and_the_restore_check_give_tables(shop: Path) -> None:
    base = pyspark_savepoint.open(shop)
    findings = base.inspect.doctor("size=1KB").to_arrow()
    assert findings.column_names == ["check", "severity", "evidence", "remedy", "operator", "state"]
    assert findings.num_rows
    assert set(base.job(base).check_restore().to_arrow().column("verdict").to_pylist()) == {"restores"}
    assert base.job(base).restore_plan().to_arrow().num_rows


def test_operators_of_a_plan_get_uids(shop: Path, tmp_path: Path) -> None:
    uid_hash = OperatorIdentifier.for_uid("nameless").operator_id.hex
    nameless = pyspark_savepoint.open(shop).change_operator_identifier("rates-source", uid_hash)
    named = nameless.assign_uid(uid_hash, "nameless").write(tmp_path / "new")
    assert "nameless" in {row["operator_uid"] for row in named.metadata().rows()}


def test_sources_are_rewound(corpus: Path, tmp_path: Path) -> None:
    base = pyspark_savepoint.open(find_snapshots(str(corpus / "connectors" / "2.3.0-kafka-v5.0.0"))[0].path)

    def offsets(savepoint: LocalSavepoint) -> dict[Any, Any]:
        return {(row["topic"], row["partition"]): row["offset"] for row in savepoint.table("splits").rows()}

    with pytest.warns(SavepointWarning, match="records are read again"):
        rewound = base.sources.with_offsets("source", {("orders", 1): 10}).write(tmp_path / "new")
    assert offsets(rewound) == offsets(base) | {("orders", 1): 10}


def test_a_new_source_continues_at_given_positions(tmp_path: Path) -> None:
    numbers = [{"split_id": "1", "next": 5, "to": 99}, {"split_id": "2", "next": 105, "to": 199}]
    new = (
        pyspark_savepoint.create()
        .sources.with_source("orders", {("orders", 0): 1200, ("orders", 10): "earliest"}, connector_version="5.0.0")
        .sources.with_source("numbers", numbers, connector="number_sequence")
    )
    written = new.sources.with_offsets("orders", {("orders", 0): 1300}).write(tmp_path / "new")
    positions = {(row["stream"], row["partition"]): row["position"] for row in written.sources.offsets().rows()}
    assert positions == {
        ("orders", "0"): "1300", ("orders", "10"): "earliest",
        ("number_sequence", "1"): "5", ("number_sequence", "2"): "105",
    }  # fmt: skip
    again = written.sources.with_source("clicks", pa.table({"topic": ["c"], "partition": [3], "offset": [7]}))
    assert len(list(again.write(tmp_path / "again").sources.offsets().rows())) == 5
    with pytest.raises(StateExistsError):
        written.sources.with_source("orders", {})
    for wrong in ({"orders": 5}, {("orders", 0): None}, {("orders", 0): -7}, [{"topic": "a", "offset": 1}]):
        with pytest.raises(OptionError):
            pyspark_savepoint.create().sources.with_source("orders", wrong)


def test_nothing_needs_pyspark(shop: Path, tmp_path: Path) -> None:
    script = (
        "import sys, pyarrow as pa\nsys.modules['pyspark'] = None\nimport pyspark_savepoint\n"
        f"sp = pyspark_savepoint.open({str(shop)!r})\n"
        "sp.remove_keys('accounts', [1042]).with_state('currency-converter', 'rates', "
        "sp.operator_state('currency-converter', 'rates'))"
        f".write({str(tmp_path / 'new')!r})\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_keys_that_are_not_there_are_told(shop: Path) -> None:
    base = pyspark_savepoint.open(shop)
    known = base.keyed_state("accounts").to_arrow()["key"].to_pylist()[:2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        base.remove_keys("accounts", known)
    with pytest.warns(SavepointWarning, match=r"accounts: 2 of 4 keys have no state: 999999, 999998$"):
        base.remove_keys("accounts", [*known, 999_999, 999_998])
    with pytest.warns(SavepointWarning, match=r"orders-per-minute: 1 of 1 key has no state: none$"):
        base.remove_keys("orders-per-minute", ["none"])


def test_a_dry_run_checks_and_writes_nothing(shop: Path, tmp_path: Path) -> None:
    renamed = pyspark_savepoint.open(shop).rename_state("accounts", "total", "sum")
    assert renamed.write(tmp_path / "new", flink_version="1.20", dry_run=True) is renamed
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StateExistsError):
        renamed.write(shop, dry_run=True)
    with pytest.raises(OptionError, match=r"1\.2"):
        renamed.write(tmp_path / "new", flink_version="1.2", dry_run=True)
