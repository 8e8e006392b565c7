"""Assertions about savepoints: they pass if they hold, else fail with the differences."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyspark_savepoint
from pyspark_savepoint.api.schemas import differences, schema_of, schema_text
from pyspark_savepoint.errors import OptionError
from pyspark_savepoint.testing import assert_restores, assert_schema, assert_state, assert_verdict

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
ACCOUNTS = {
    "operators": [{"uid": "accounts", "key": "LONG", "states": {"total": "LONG"}}],
    "javaClasses": ["oracle.Shop$Profile", "oracle.Shop$Tier"],
}

TOTAL = '{"table": "keyed_state", "state": "total", "kind": "VALUE", "key": "LONG", "value": "LONG"}'


@pytest.fixture(scope="module")
def shop() -> pyspark_savepoint.LocalSavepoint:
    return pyspark_savepoint.open(SHOP)


def test_states(shop: pyspark_savepoint.LocalSavepoint) -> None:
    assert_state(shop, "accounts", "total", {1042: 68520, 1043: 27006, 7: None})
    assert_state(SHOP, "accounts", "spent_by_currency", {1039: {"USD": 73062}})
    with pytest.raises(AssertionError) as caught:
        assert_state(shop, "accounts", "total", {1042: 297, 7: 1, 1043: None})
    assert str(caught.value).splitlines() == [
        "state 'total' of 'accounts' differs:",
        "  key 1042: expected 297, found 68520",
        "  key 7: expected 1, found None",
        "  key 1043: expected None, found 27006",
    ]


def test_all_of_a_state(shop: pyspark_savepoint.LocalSavepoint) -> None:
    everything = shop.keyed_state("accounts", state="total").to_arrow().to_pylist()
    assert_state(shop, "accounts", "total", {row["key"]: row["total"] for row in everything}, exact=True)
    with pytest.raises(AssertionError, match="and 179 more"):
        assert_state(shop, "accounts", "total", {1042: 68520}, exact=True)


def test_states_are_expected_by_key(shop: pyspark_savepoint.LocalSavepoint) -> None:
    with pytest.raises(OptionError, match="must be a mapping of keys to values"):
        assert_state(shop, "accounts", "total", [297])  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["1042", (1042, 1)])
@pytest.mark.parametrize("exact", [True, False])
def test_keys_of_another_type_are_an_error(shop: pyspark_savepoint.LocalSavepoint, key: object, exact: bool) -> None:
    """A missing expected value is an error too."""
    with pytest.raises(OptionError, match="expected: int64"):
        assert_state(shop, "accounts", "total", {key: 68520}, exact=exact)


def test_schemas(shop: pyspark_savepoint.LocalSavepoint, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(schema_text(schema_of(shop)))
    assert_schema(shop, path)
    text = path.read_text()
    assert f"    {TOTAL},\n" in text or f"    {TOTAL}\n" in text
    path.write_text(
        text.replace(TOTAL, TOTAL.replace('"value": "LONG"', '"value": "INT"')).replace("coupon", "voucher")
    )
    with pytest.raises(AssertionError) as caught:
        assert_schema(shop, path)
    message = str(caught.value)
    assert "accounts, keyed_state 'total': value was INT, is LONG" in message
    assert "accounts, keyed_state 'coupon' is new" in message
    assert "accounts, keyed_state 'voucher' is gone" in message
    assert message.splitlines()[-1] == f"to accept the new schema: pyspark-savepoint schema {SHOP} --file {path}"
    with pytest.raises(OptionError, match="there is no schema at this path"):
        assert_schema(shop, tmp_path / "none.json")
    path.write_text("[]")
    with pytest.raises(OptionError, match="the file is not the schema"):
        assert_schema(shop, path)


def test_the_backend_makes_no_difference(corpus: Path) -> None:
    """Timers are states, entries of RocksDB, or raw keyed state: the schema is that of the job."""
    lab = corpus / "lab"
    names = ("2.2.1-rocksdb-native", "2.2.1-forst-native", "2.2.1-hashmap-canonical")
    schemas = [schema_of(pyspark_savepoint.open(next((lab / name).rglob("_metadata")).parent)) for name in names]
    assert len(schemas[0]["operators"]) > 5
    assert schemas[0] == schemas[1]
    # A serializer on the heap has not met the subclass that one of RocksDB has registered.
    (other,) = differences(schemas[0], schemas[2])
    assert other.startswith(
        "kv-tuple, keyed_state 'shape': value was POJO<flinklab.Model$Shape>(label STRING) SUBCLASSES"
    )


def test_restores(shop: pyspark_savepoint.LocalSavepoint) -> None:
    assert_restores(shop, shop)
    assert_restores(shop, ACCOUNTS, allow_non_restored_state=True, flink_version="2.3")
    assert_verdict(shop, ACCOUNTS, "accounts", "restores", allow_non_restored_state=True)
    with pytest.raises(AssertionError, match="rates-source: fails, the job has no operator of this id"):
        assert_restores(shop, ACCOUNTS)
    with pytest.raises(AssertionError, match="'accounts': the description of the job has no types for it"):
        assert_restores(shop, {"operators": [{"uid": "accounts"}]}, allow_non_restored_state=True)
    assert_restores(shop, {"operators": [{"uid": "accounts"}]}, allow_non_restored_state=True, ids_only=True)
    with pytest.raises(AssertionError, match="is 'restores', expected 'fails'"):
        assert_verdict(shop, ACCOUNTS, "accounts", "fails", allow_non_restored_state=True)
    with pytest.raises(AssertionError, match="there is no verdict about 'acounts'"):
        assert_verdict(shop, ACCOUNTS, "acounts", "fails")
