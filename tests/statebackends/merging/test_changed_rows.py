"""Two snapshots' entries, compared by bytes: checked against the decoded rows of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyspark_savepoint.statebackends.merging.change_feed import EntryFeed
from pyspark_savepoint.statebackends.merging.changed_rows import changed_rows
from pyspark_savepoint.statebackends.merging.comparison import compare as compare_chunks
from pyspark_savepoint.statebackends.merging.entry_chunk import EntryChunk, concat
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import EntriesRequest, TableRequest
from pyspark_savepoint.statebackends.rows.state_column import has_ttl
from pyspark_savepoint.statebackends.tables.entry_diff import EntryDiff
from pyspark_savepoint.statebackends.tables.keyed_table import KeyedTable

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"


def entries(path: Path, states: list[str], **options: Any) -> pa.Table:
    wanted = EntriesRequest(tuple((name, False) for name in states), keys=True)
    table = open_table(TableRequest(str(path), entries=wanted, **options))
    return pa.Table.from_batches([b for p in table.partitions(2) for b in p.batches()], schema=table.schema)


def opened(path: Path, **options: Any) -> KeyedTable:
    table = open_table(TableRequest(str(path), **options))
    assert isinstance(table, KeyedTable)
    return table


def rows(table: KeyedTable) -> dict[str, dict[str, Any]]:
    found = [row for part in table.partitions(2) for batch in part.batches() for row in batch.to_pylist()]
    return {repr((row["key"], row.get("window"))): row for row in found}


def compare(
    diff: EntryDiff, before: pa.Table | None, after: pa.Table | None, batch: int = 10_000
) -> dict[str, dict[str, Any]]:
    """Compare edited entries as a task does; ``batch`` is the number of keys to decode at a time."""
    chunks = [
        concat([EntryChunk.of_batch(each) for each in table.to_batches()] if table is not None else [])
        for table in (before, after)
    ]
    metas = [meta for side in diff.sides if side is not None for _, header in side.headers for meta in header.states]
    maps = [diff.states.index(m.name) for m in metas if m.name in diff.states and m.state_type == "MAP"]
    found = [
        row
        for out in changed_rows(compare_chunks(chunks[0], chunks[1], 128, maps), diff, batch)
        for row in out.to_pylist()
    ]
    keyed = {repr((row["key"], row.get("window"))): row for row in found}
    assert len(keyed) == len(found)
    return keyed


def shop(edit: Callable[[pa.Table], pa.Table], batch: int = 10_000) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """What the accounts differ by when their entries are edited, and their rows."""
    table = opened(SHOP, uid="accounts", table="keyed_state")
    states = list(table.spec.states)
    both = entries(SHOP, states, uid="accounts")
    return compare(EntryDiff.of(table, table, states), both, edit(both), batch), rows(table), states


@pytest.mark.parametrize("batch", [1, 7, 10_000])
def test_equal_snapshots_do_not_differ(batch: int) -> None:
    assert shop(lambda both: both, batch)[0] == {}


@pytest.mark.parametrize("batch", [1, 7, 10_000])
def test_a_state_that_is_gone(batch: int) -> None:
    found, known, states = shop(lambda both: both.filter(pc.not_equal(both["state"], 3)), batch)
    state = states[3]
    assert set(found) == {key for key, row in known.items() if row[state] is not None}
    for key, row in found.items():
        assert (row["change"], row["changed_states"]) == ("changed", [state])
        assert row[f"{state}_before"] == known[key][state]
        assert row[f"{state}_after"] is None
        assert all(
            row[f"{name}_before"] == row[f"{name}_after"] == known[key][name] for name in states if name != state
        )


def test_keys_that_are_added_and_removed() -> None:
    table = opened(SHOP, uid="accounts", table="keyed_state")
    states = list(table.spec.states)
    both = entries(SHOP, states, uid="accounts")
    keys = pc.unique(both["serialized_key"])
    some, others = keys[:10], keys[5:30]
    diff = EntryDiff.of(table, table, states)
    found = compare(diff, *(both.filter(pc.is_in(both["serialized_key"], value_set=each)) for each in (some, others)))
    known = rows(table)
    assert sorted(row["change"] for row in found.values()) == ["added"] * 20 + ["removed"] * 5
    for key, row in found.items():
        side, other = ("after", "before") if row["change"] == "added" else ("before", "after")
        assert all(row[f"{name}_{side}"] == known[key][name] for name in states)
        assert all(row[f"{name}_{other}"] is None for name in states)
        assert row["changed_states"] == [name for name in states if known[key][name] is not None]


def test_values_that_changed_are_shown_before_and_after() -> None:
    def swap(both: pa.Table) -> pa.Table:
        rows = np.flatnonzero(np.asarray(both["state"]) == 0)
        order = np.arange(len(both))
        order[rows] = np.roll(rows, 1)
        return both.set_column(both.schema.get_field_index("value"), "value", both["value"].take(pa.array(order)))

    found, known, states = shop(swap)
    state = states[0]
    assert 0 < len(found) <= len(known)
    for key, row in found.items():
        assert row[f"{state}_before"] == known[key][state] != row[f"{state}_after"]


@pytest.mark.parametrize("changed", [0, 1])
def test_one_entry_of_a_map_suffices(changed: int) -> None:
    table = opened(SHOP, uid="accounts", table="keyed_state")
    states = list(table.spec.states)
    both = entries(SHOP, states, uid="accounts")
    maps = both.filter(pc.equal(both["state"], states.index("spent_by_currency")))
    name = maps.schema.get_field_index("key")
    # Another currency, sorted after the existing one.
    other = [key[:-1] + bytes([key[-1] + 1]) for key in maps["key"].to_pylist()]
    entry = [maps, maps.set_column(name, "key", pa.array(other, both.schema.field("key").type))]
    before = pa.concat_tables([both, entry[1]])
    at, kind = maps.schema.get_field_index("value"), both.schema.field("value").type
    edited = [value[:-1] + bytes([value[-1] ^ 1]) for value in maps["value"].to_pylist()]
    entry[changed] = entry[changed].set_column(at, "value", pa.array(edited, kind))
    kept = both.filter(pc.not_equal(both["state"], states.index("spent_by_currency")))
    found = compare(EntryDiff.of(table, table, states), before, pa.concat_tables([kept, *entry]))
    assert set(found) == set(rows(table))
    for row in found.values():
        assert (row["change"], row["changed_states"]) == ("changed", ["spent_by_currency"])
        assert len(row["spent_by_currency_after"]) == 2


def test_windows_are_rows_of_their_own() -> None:
    table = opened(SHOP, uid="orders-per-minute", table="window_state")
    states = list(table.spec.states)
    both = entries(SHOP, states, uid="orders-per-minute")
    found = compare(EntryDiff.of(table, table, states), both, both.slice(1))
    assert len(found) == 1
    (key, row), known = next(iter(found.items())), rows(table)
    assert row["change"] == "removed"
    assert row["window-contents_before"] == known[key]["window-contents"]


def test_a_side_without_the_operator() -> None:
    table = opened(SHOP, uid="accounts", table="keyed_state")
    states = list(table.spec.states)
    found = compare(EntryDiff.of(None, table, states), None, entries(SHOP, states, uid="accounts"))
    assert {row["change"] for row in found.values()} == {"added"}
    assert {key: row["total_after"] for key, row in found.items()} == {k: r["total"] for k, r in rows(table).items()}


def test_backends_compare_by_what_they_hold(corpus: Path) -> None:
    """Two runs of one job, on the heap and on RocksDB: times to live are taken from the clock, and differ.

    On RocksDB only, the job puts a null into a map of longs, too.
    """
    cases = ("2.2.1-hashmap-canonical", "2.2.1-rocksdb-native")
    paths = [next((corpus / "lab" / case).rglob("_metadata")).parent for case in cases]
    tables = [opened(path, uid="kv-long", table="keyed_state") for path in paths]
    states = list(tables[0].spec.states)
    found = compare(
        EntryDiff.of(tables[0], tables[1], states), *(entries(path, states, uid="kv-long") for path in paths)
    )
    changed = {state for row in found.values() for state in row["changed_states"]}
    assert changed == {"ttl-long", "ttl-list", "ttl-map", "map-sl"}
    nulls = [row for row in found.values() if "map-sl" in row["changed_states"]]
    assert {pair for row in nulls for pair in set(row["map-sl_after"]) ^ set(row["map-sl_before"] or [])} == {
        ("null-value", None)
    }
    known = [rows(table) for table in tables]
    for key, row in found.items():
        for state in states:
            assert in_order(row[f"{state}_before"]) == in_order(known[0][key][state])
            assert in_order(row[f"{state}_after"]) == in_order(known[1][key][state])


def in_order(value: Any) -> str:
    """As text, for NaN is not NaN; a map's entries come in any order."""
    is_map = isinstance(value, list) and value and isinstance(value[0], tuple)
    return repr(sorted(value, key=repr)) if is_map else repr(value)


@pytest.mark.parametrize("equal", [False, True])
def test_a_change_of_bytes_alone_is_shown_on_demand(equal: bool) -> None:
    table = opened(SHOP, uid="accounts", table="keyed_state")
    states = list(table.spec.states)
    both = entries(SHOP, states, uid="accounts")
    ttl = next(i for i, state in enumerate(states) if has_ttl(table.headers.choose(False, None)[state][0]))
    at = both.schema.get_field_index("value")
    accessed = [
        value[:7] + bytes([value[7] ^ 1]) + value[8:] if state == ttl else value
        for state, value in zip(both["state"].to_pylist(), both["value"].to_pylist(), strict=True)
    ]
    after = both.set_column(at, "value", pa.array(accessed, both.schema.field(at).type))
    chunks = [concat([EntryChunk.of_batch(each) for each in side.to_batches()]) for side in (both, after)]
    found = compare_chunks(chunks[0], chunks[1], 128, [])
    rows_of = [batch.to_pylist() for batch in changed_rows(found, EntryFeed.between(table, table, equal), 7)]
    shown = [row for part in rows_of for row in part]
    assert len(shown) == (2 * len(after.filter(pc.equal(after["state"], ttl))) if equal else 0)
    for before, later in zip(shown[::2], shown[1::2], strict=True):
        assert [before.pop("_change_type"), later.pop("_change_type")] == ["update_preimage", "update_postimage"]
        assert before == later
