"""Sizes, heaviest keys and ages: compared with every entry's bytes, and with the times that the tables show."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.errors import OperatorNotFoundError, UndecodableStateError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import EntriesRequest, TableRequest
from pyspark_savepoint.statebackends.rows.json_values import from_json, to_json
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.surveys.ttl_ages import BOUNDS
from tests.benchmarks.data import write_savepoint

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
FULL = ("2.2.1-hashmap-canonical", "2.2.1-rocksdb-canonical-maxp1000", "2.2.1-rocksdb-incr-checkpoint")
HEAP = "1.20.5-hashmap-native"
UID = "kv-long"


def rows(path: Path, parts: int = 3, **options: Any) -> list[dict[str, Any]]:
    table = open_table(TableRequest(str(path), **options))
    return [row for part in table.partitions(parts) for batch in part.batches() for row in batch.to_pylist()]


def snapshot(corpus: Path, case: str) -> Path:
    return next((corpus / "lab" / case).rglob("_metadata")).parent


def entries(path: Path, uid: str = UID) -> tuple[list[str], list[dict[str, Any]]]:
    """The names of the states, and every entry as bytes of the canonical format."""
    savepoint = Snapshot.open(str(path))
    metas = OpenOperator(savepoint, savepoint.operator(uid=uid)).keyed.metas()
    states = tuple(metas)
    found = rows(path, uid=uid, entries=EntriesRequest(states, keys=True))
    return [name for name, _ in states], found


@pytest.mark.parametrize("case", FULL)
def test_sizes_are_those_of_all_entries(corpus: Path, case: str) -> None:
    path = snapshot(corpus, case)
    names, found = entries(path)
    counts, sizes, largest = Counter[Any](), Counter[Any](), defaultdict[Any, int](int)
    for entry in found:
        at = names[entry["state"]], entry["key_group"]
        size = len(entry["key"]) + len(entry["value"])
        counts[at] += 1
        sizes[at] += size
        largest[at] = max(largest[at], size)
    shown = rows(path, table="sizes", uid=UID)
    assert {(r["state"], r["key_group"]): (r["entries"], r["bytes"], r["largest"]) for r in shown} == {
        at: (counts[at], sizes[at], largest[at]) for at in counts
    }
    assert len(shown) == len(counts)
    assert {r["operator_uid"] for r in shown} == {UID}


@pytest.mark.parametrize("memory", [64 << 20, 1 << 20], ids=["whole", "windows"])
def test_sizes_of_large_key_groups(tmp_path: Path, memory: int) -> None:
    path = write_savepoint(tmp_path / "savepoint", "long", 20_000, max_parallelism=2, ordered=False)
    shown = rows(path, table="sizes", memory=memory)
    # A LONG key and one byte for the namespace, and a LONG or an INT.
    widths = {"total": 17, "count": 13}
    assert [(r["state"], r["largest"]) for r in shown] == [(r["state"], widths[r["state"]]) for r in shown]
    assert [r["bytes"] for r in shown] == [r["entries"] * r["largest"] for r in shown]
    assert {state: sum(r["entries"] for r in shown if r["state"] == state) for state in widths} == {
        "total": 20_000,
        "count": 20_000,
    }
    assert len(shown) == 4


def test_maps_on_the_heap_count_their_entries(corpus: Path) -> None:
    path = snapshot(corpus, HEAP)
    names, found = entries(path)
    counts = Counter((names[entry["state"]], entry["key_group"]) for entry in found)
    shown = rows(path, table="sizes", uid=UID)
    assert Counter({(r["state"], r["key_group"]): r["entries"] for r in shown}) == counts
    assert max(r["entries"] for r in shown if r["state"] == "map-sl") > 3


@pytest.mark.parametrize("case", [*FULL, HEAP])
@pytest.mark.parametrize("table", ["sizes", "ttl_ages"])
def test_rows_do_not_depend_on_parts_and_memory(corpus: Path, case: str, table: str) -> None:
    path = snapshot(corpus, case)

    def found(parts: int, **options: Any) -> list[str]:
        return sorted(repr(row) for row in rows(path, parts, uid=UID, table=table, **options))

    whole = found(1)
    assert len(whole) > 100
    assert found(7) == whole
    assert found(2, memory=1 << 10) == whole


def test_operator_state_is_measured_by_offsets() -> None:
    shown = {
        (r["operator_uid"], r["state"] or r["table"], r["subtask"]): (r["kind"], r["entries"], r["bytes"])
        for r in rows(SHOP, table="sizes")
        if r["key_group"] is None
    }
    assert shown["currency-converter", "rates", 0] == ("BROADCAST", 5, 64)
    assert shown["warehouse-export", "exported_until", 1] == ("UNION", 1, 20)
    assert shown["orders-source", "coordinator_state", None] == ("COORDINATOR", 1, 13)
    rates = rows(SHOP, uid="currency-converter", state="rates")
    assert len(rates) == 5


def test_one_state_and_some_key_groups() -> None:
    shown = rows(SHOP, table="sizes", uid="accounts", state="profile", key_groups=((0, 9),))
    assert {r["state"] for r in shown} == {"profile"}
    assert {r["key_group"] for r in shown} <= set(range(10))
    whole = [r for r in rows(SHOP, table="sizes", uid="accounts") if r["state"] == "profile" and r["key_group"] < 10]
    assert sorted(map(repr, shown)) == sorted(map(repr, whole))


@pytest.mark.parametrize("memory", [32 << 20, 1 << 10])
@pytest.mark.parametrize("case", FULL)
def test_heaviest_keys_are_those_of_all_entries(corpus: Path, case: str, memory: int) -> None:
    path = snapshot(corpus, case)
    names, found = entries(path)
    sizes = defaultdict[str, Counter[bytes]](Counter)
    for entry in found:
        sizes[names[entry["state"]]][entry["serialized_key"]] += len(entry["key"]) + len(entry["value"])
    shown = rows(path, 1, table="heaviest_keys", uid=UID, top=5, memory=memory)
    for state in {r["state"] for r in shown}:
        mine = [r["bytes"] for r in shown if r["state"] == state]
        # Each subtask's file has its own heaviest.
        assert sorted(mine)[-5:] == sorted(size for _, size in sizes[state].most_common(5))
    assert {r["state"] for r in shown} == {name for name in sizes if not name.startswith("_timer_state")}


def test_a_heavy_key_can_be_asked_for() -> None:
    top = max(rows(SHOP, table="heaviest_keys", uid="accounts", state="spent_by_currency"), key=lambda r: r["bytes"])
    (row,) = rows(SHOP, uid="accounts", keys=f"[{top['key']}]")
    assert len(row["spent_by_currency"]) == top["entries"]
    windows = rows(SHOP, table="heaviest_keys", uid="orders-per-minute", top=1000)
    assert len(windows) == 24
    assert set(json.loads(windows[0]["window"])) == {"start", "end"}


def test_keys_of_every_kind_are_json_that_reads_back(corpus: Path) -> None:
    path = snapshot(corpus, FULL[0])
    for uid in ("kv-long", "kv-string", "kv-pojo", "kv-tuple"):
        kind = open_table(TableRequest(str(path), uid=uid)).schema.field("key").type
        for row in rows(path, table="heaviest_keys", uid=uid, top=3):
            value = json.loads(row["key"])
            assert to_json(from_json(value, kind, "key")) == value or uid == "kv-pojo"


def test_ages_are_those_of_the_times_that_tables_show(corpus: Path) -> None:
    path = snapshot(corpus, FULL[0])
    shown = rows(path, table="ttl_ages", uid=UID)
    now = shown[0]["snapshot_time"]
    expected: Counter[tuple[str, int, Any]] = Counter()
    for row in rows(path, uid=UID, include_ttl=True, include_key_group=True):
        for state in ("ttl-long", "ttl-list", "ttl-map"):
            times = row[f"{state}__last_access"]
            units = [] if times is None else [t for _, t in times] if state == "ttl-map" else times
            for time in units if isinstance(units, list) else [units]:
                age = (now - time).total_seconds()
                expected[state, row["key_group"], max((b for b in BOUNDS if b <= age), default=None)] += 1
    assert Counter({(r["state"], r["key_group"], r["from_seconds"]): r["units"] for r in shown}) == expected
    assert all(r["oldest"] <= r["newest"] for r in shown)


def test_an_operator_that_cannot_be_read_does_not_hide_the_others(corpus: Path) -> None:
    path = snapshot(corpus, HEAP)
    notes = [r for r in rows(path, table="sizes") if r["note"]]
    assert {r["operator_uid_hash"] for r in notes}
    assert all("only the job's own serializer can delimit" in r["note"] for r in notes)
    assert any(r["state"] == "v-long" for r in rows(path, table="sizes"))
    with pytest.raises(UndecodableStateError):
        rows(path, table="sizes", uid_hash=notes[0]["operator_uid_hash"])
    with pytest.raises(OperatorNotFoundError):
        rows(path, table="sizes", uid="nobody")
