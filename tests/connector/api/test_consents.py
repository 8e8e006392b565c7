"""Rows that replace a state drop no key without a word of consent."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint import Savepoint
from pyspark_savepoint.errors import CorruptStateError, OptionError
from pyspark_savepoint.plan.consents import KeysStay
from tests.data import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
#: Operator, state, how its table is read, and what is said of two of its rows.
STATES = {
    "value": ("accounts", "total", "198 of 200 keys of state"),
    "list": ("accounts", "recent_amounts", " keys of state"),
    "map": ("accounts", "spent_by_currency", "entries of state"),
    "window": ("orders-per-minute", "window-contents", "22 of 24 windows"),
    "elements": ("warehouse-export", "pending_orders", "elements of state"),
    "broadcast": ("currency-converter", "rates", "3 of 5 keys"),
}


def rows_of(savepoint: Any, operator: str, state: str) -> Any:
    if state == "window-contents":
        return savepoint.window_state(operator)
    if state in ("rates", "pending_orders"):
        return savepoint.operator_state(operator, state=state)
    return savepoint.keyed_state(operator, state=state)


@pytest.mark.parametrize("kind", STATES)
def test_keys_that_would_go_are_counted(kind: str, tmp_path: Path) -> None:
    base, (operator, state, loss) = pyspark_savepoint.open(SHOP), STATES[kind]
    rows = rows_of(base, operator, state).to_arrow()
    two = base.with_state(operator, state, rows.slice(0, 2))
    with pytest.raises(OptionError, match=f"of state '{state}' would go: no row has them") as caught:
        two.write(tmp_path / "refused")
    assert loss in str(caught.value)
    assert ("update_state" in str(caught.value)) == (kind != "elements")
    assert "replace=True" in str(caught.value)
    assert not (tmp_path / "refused" / "_metadata").exists()
    written = base.with_state(operator, state, rows.slice(0, 2), replace=True).write(tmp_path / "replaced")
    found = rows_of(written, operator, state).to_arrow()
    assert found.num_rows - found.column(state if state in found.column_names else "value").null_count == 2
    whole = base.with_state(operator, state, rows).write(tmp_path / "whole")
    again = rows_of(whole, operator, state).to_arrow()
    assert sorted(map(repr, again.to_pylist())) == sorted(map(repr, rows.to_pylist()))


@pytest.mark.parametrize("kind", ["value", "list", "map", "window"])
def test_rows_with_the_same_keys_are_found_by_hashes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry of a map has the place of its key, and a base with many entries has as many places as rows."""
    monkeypatch.setattr(KeysStay, "_count", lambda *_: pytest.fail("keys were compared one by one"))
    base, (operator, state, _) = pyspark_savepoint.open(SHOP), STATES[kind]
    rows = rows_of(base, operator, state).to_arrow()
    base.with_state(operator, state, rows.take(list(reversed(range(len(rows)))))).write(tmp_path / "turned")
    base.with_max_parallelism(512).with_state(operator, state, rows).write(tmp_path / "more-key-groups")


def test_keys_that_are_removed_need_no_consent(tmp_path: Path) -> None:
    base = pyspark_savepoint.open(SHOP)
    rows = base.keyed_state("accounts", state="total").to_arrow()
    gone = rows.column("key").slice(0, 3).to_pylist()
    kept = base.with_state("accounts", "total", rows.slice(3))
    with pytest.raises(OptionError, match="3 of 200 keys of state 'total' would go"):
        kept.write(tmp_path / "refused")
    written = kept.remove_keys("accounts", gone).write(tmp_path / "removed")
    assert written.keyed_state("accounts", state="total").to_arrow().num_rows == 197


def test_only_what_is_written_is_asked_for(tmp_path: Path) -> None:
    base = pyspark_savepoint.open(SHOP)
    rows = base.keyed_state("accounts", state="total,coupon").to_arrow()
    some = base.with_state("accounts", ["total", "coupon"], rows.slice(0, 50))
    with pytest.raises(OptionError, match="150 of 200 keys of state 'total'"):
        some.write(tmp_path / "refused")
    removed = some.remove_state("accounts", "total").remove_state("accounts", "coupon")
    assert removed.write(tmp_path / "removed").keyed_state("accounts").to_arrow().num_rows == 200
    again = some.with_state("accounts", ["total", "coupon"], rows)
    assert again.write(tmp_path / "again").keyed_state("accounts", state="total").to_arrow().num_rows == 200
    new = base.with_state("accounts", "fresh", rows.slice(0, 2).select(["key", "total"]))
    assert new.write(tmp_path / "new").keyed_state("accounts", state="fresh").to_arrow().num_rows == 2


def test_other_key_groups_and_backends(tmp_path: Path) -> None:
    found = (unpacked() / "history" / "1.20.5-rocksdb-incr" / "checkpoints").glob("*/chk-*")
    base = pyspark_savepoint.open(max(found, key=lambda one: int(one.name[4:])))
    rows = base.keyed_state("names", state="count").to_arrow().drop_null()
    some = base.with_state("names", "count", rows.slice(1)).with_max_parallelism(512)
    with pytest.raises(OptionError, match=f"1 of {rows.num_rows} keys of state 'count' would go"):
        some.write(tmp_path / "refused")
    base.with_state("names", "count", rows).with_max_parallelism(512).write(tmp_path / "whole")


def test_other_keys_and_operators_that_are_merged(tmp_path: Path) -> None:
    base = pyspark_savepoint.open(SHOP)
    rows = base.keyed_state("accounts", "total").to_arrow()
    few, whole = (base.with_state("accounts", "total", one) for one in (rows.slice(0, 2), rows))
    copied = whole.copy_operator("accounts", "copied").remove_keys("copied", rows.column("key").to_pylist())
    merged = copied.merge_operator("copied", into="accounts").write(tmp_path / "merged")
    assert merged.keyed_state("accounts", "total").to_arrow().num_rows == 200
    rekeyed = whole.rekey("accounts", types={"key": "STRING"}).write(tmp_path / "rekeyed")
    assert rekeyed.keyed_state("accounts", "total").to_arrow().num_rows == 200
    for one in (few.rekey("accounts", types={"key": "STRING"}), few):
        with pytest.raises(OptionError, match="198 of 200 keys of state 'total' would go"):
            one.write(tmp_path / "refused")
    updated = few.update_state("accounts", "total", rows.slice(2)).write(tmp_path / "updated")
    assert updated.keyed_state("accounts", "total").to_arrow().num_rows == 200


def test_rows_that_can_be_read_once(tmp_path: Path) -> None:
    base = pyspark_savepoint.open(SHOP)
    rows = base.keyed_state("accounts", "total").to_arrow()
    once = [pa.RecordBatchReader.from_batches(rows.schema, iter(rows.to_batches())) for _ in range(2)]
    with pytest.raises(OptionError, match="reads them twice unless replace=True"):
        base.with_state("accounts", "total", once[0]).write(tmp_path / "refused")
    written = base.with_state("accounts", "total", once[1], replace=True).write(tmp_path / "replaced")
    assert written.keyed_state("accounts", "total").to_arrow().num_rows == 200


def test_a_damaged_state_is_replaced_without_reading_it(tmp_path: Path) -> None:
    rows = pyspark_savepoint.open(SHOP).operator_state("currency-converter", "rates").to_arrow()
    metadata = shutil.copytree(SHOP, tmp_path / "damaged") / "_metadata"
    metadata.write_bytes(metadata.read_bytes().replace(b"\x04CHF", b"\xffCHF", 1))
    base = pyspark_savepoint.open(tmp_path / "damaged")
    with pytest.raises(CorruptStateError, match=r"replace=True\) replaces the state without reading it"):
        base.with_state("currency-converter", "rates", rows).write(tmp_path / "refused")
    written = base.with_state("currency-converter", "rates", rows, replace=True).write(tmp_path / "mended")
    assert written.operator_state("currency-converter", "rates").to_arrow().equals(rows)


def test_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    base = Savepoint.load(spark, SHOP)
    rows = base.keyed_state("accounts").select("key", "total")
    with pytest.raises(OptionError, match="would go: no row has them"):
        base.with_state("accounts", "total", rows.where("key > 1100")).write(tmp_path / "refused")
    # As many rows, of which one has the key of another.
    twice = rows.selectExpr("if(key = 1042, 1043, key) AS key", "total")
    with pytest.raises(OptionError, match=r"1 of .* would go: no row has them"):
        base.with_state("accounts", "total", twice).write(tmp_path / "refused")
    base.with_state("accounts", "total", rows.selectExpr("key", "total + 1 AS total")).write(tmp_path / "whole")
    more = rows.union(rows.selectExpr("key + 1000000", "total"))
    base.with_state("accounts", "total", more).write(tmp_path / "more")
    few = base.with_state("accounts", "total", rows.limit(3), replace=True).write(tmp_path / "few")
    assert few.keyed_state("accounts").where("total IS NOT NULL").count() == 3
