"""Raw entries: the canonical bytes of keyed state, whatever backend wrote it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import Cursors
from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash, key_groups_for_hashes
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.requests.request import EntriesRequest, TableRequest
from pyspark_savepoint.statebackends.rows.descriptors import TimerQueue
from pyspark_savepoint.statebackends.rows.entry_bytes import ENTRIES, KEYED_ENTRIES, length_column
from pyspark_savepoint.statebackends.sources.keyed_plan import KeyedSplit
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.entries_table import EntriesPartition, EntriesTable, timer_entries
from pyspark_savepoint.statebackends.writing.planning.edited_header import KeyedStates
from tests.statebackends.keyed_models import LONG, RAW, STATES, VOID, Model, Written, longs, models, write

ALL = tuple((meta.name, False) for meta in STATES)
Entry = tuple[str, int, bytes, bytes]


def entries_of(written: Written, request: EntriesRequest, memory: int = 1 << 20) -> set[Entry]:
    """The entries of a stream of a model."""
    split = KeyedSplit((written.source,), tuple(written.source.key_group_range))
    table = TableRequest("", entries=request, decode=RAW, batch_rows=3, memory=memory)
    schema = KEYED_ENTRIES if request.keys else ENTRIES
    found: list[Entry] = []
    for batch in EntriesPartition(split, (), request, schema, table).batches():
        batch.validate(full=True)
        assert 0 < batch.num_rows <= 3 or "by_name" in {s[0] for s in request.states if s}
        for row in batch.to_pylist():
            state = request.states[row["state"]]
            assert state is not None
            if request.keys:
                assert row["key"].startswith(row["serialized_key"])
                assert len(row["serialized_key"]) == 8
            found.append((state[0], row["key_group"], row["key"], row["value"]))
    assert len(set(found)) == len(found)
    return set(found)


@given(models, st.booleans(), st.randoms(use_true_random=False), st.sampled_from([1 << 12, 1 << 20]))
@settings(max_examples=60)
def test_both_formats_have_the_same_entries(
    model: Model, compressed: bool, shuffle: random.Random, memory: int
) -> None:
    heap = write(model, heap=True, compressed=compressed, shuffle=shuffle)
    full = write(model, heap=False, compressed=compressed)
    for request in (EntriesRequest(ALL), EntriesRequest(ALL, keys=True, max_parallelism=1000)):
        assert entries_of(heap, request, memory) == entries_of(full, request, memory)


def test_states_that_are_not_wanted_stay_away_and_numbers_are_places() -> None:
    model: Model = {1: {"total": 5, "items": [1, 2]}, 2: {"total": 6, "by_name": {"a": None}}}
    for heap in (False, True):
        written = write(model, heap=heap)
        found = entries_of(written, EntriesRequest((None, ("items", False), ("by_name", False))))
        assert {name for name, *_ in found} == {"items", "by_name"}
        assert {value for name, _, _, value in found if name == "by_name"} == {b"\x01"}
        assert {value for name, _, _, value in found if name == "items"} == {b"\0\0\0\1,\0\0\0\2"}


def test_key_groups_are_those_of_another_max_parallelism() -> None:
    model: Model = {key: {"total": key} for key in range(50)}
    found = entries_of(write(model, heap=True), EntriesRequest((("total", False),), max_parallelism=4096))
    hashes = LONG.java_hash(pa.array(range(50), pa.int64())).tolist()
    expected = {key: key_group_for_hash(code, 4096) for key, code in enumerate(hashes)}
    assert {int.from_bytes(value, "big"): group for _, group, _, value in found} == expected


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20), st.integers(1, 32768))
def test_key_groups_of_columns_are_those_of_numbers(hashes: list[int], max_parallelism: int) -> None:
    found = key_groups_for_hashes(np.array(hashes, np.int32), max_parallelism).tolist()
    assert found == [key_group_for_hash(code, max_parallelism) for code in hashes]


def test_lengths_behind_variable_parts() -> None:
    lengths = [0, 1, 255, 256, 65535, 65536, 1 << 24]
    expected = [n.to_bytes(max(1, (n.bit_length() + 7) // 8), "little") for n in lengths]
    assert length_column(np.array(lengths)).to_pylist() == expected


# -- what Flink wrote ---------------------------------------------------------------------------------------

#: Written at each run: times of last access. Kryo's and some POJOs' bytes differ between releases and registrations.
NEVER_EQUAL = {"ttl-long", "ttl-list", "ttl-map"}
#: A null in a map is a flag, behind which some writers leave the serializer's own null. The hashmap job writes no null.
NULLS = {"map-sl", "map-ss", "map-void"}


def all_entries(path: Path, **wanted: Any) -> dict[tuple[str, str], dict[tuple[int, bytes], bytes]]:
    """The entries of every state of every operator that can be read whole."""
    savepoint = Snapshot.open(str(path), allow_outside=True)
    found: dict[tuple[str, str], dict[tuple[int, bytes], bytes]] = {}
    for operator in savepoint.operators:
        states = KeyedStates.of(OpenOperator(savepoint, operator))
        if states.key_serializer is None:
            continue
        request = EntriesRequest(tuple(states.metas), raw_timers=states.raw_timers, **wanted)
        read = TableRequest(str(path), entries=request, decode=RAW).of_version(savepoint.metadata.version)
        table = EntriesTable(OpenOperator(savepoint, operator), read)
        names = list(states.metas)
        try:
            rows = [row for part in table.partitions(3) for batch in part.batches() for row in batch.to_pylist()]
        except UndecodableStateError:
            continue
        for row in rows:
            place = found.setdefault((operator.operator_id.hex, names[row["state"]][0]), {})
            assert (row["key_group"], row["key"]) not in place
            place[row["key_group"], row["key"]] = row["value"]
    return found


CANONICAL = "2.2.1-hashmap-canonical"


@pytest.mark.parametrize(
    ("case", "other", "states", "wanted"),
    [
        ("1.20.5-hashmap-native", CANONICAL, 46, {}),
        ("2.2.1-rocksdb-native", "2.2.1-rocksdb-canonical-maxp1000", 60, {"max_parallelism": 1000}),
        ("2.2.1-forst-native", "2.2.1-rocksdb-native", 60, {}),
        ("2.3.0-hashmap-canonical-compressed", CANONICAL, 60, {}),
    ],
)
def test_every_backend_has_the_entries_of_flinks_canonical_savepoint(
    corpus: Path, case: str, other: str, states: int, wanted: dict[str, int]
) -> None:
    found = all_entries(corpus / "lab" / case / "savepoint", **wanted)
    expected = all_entries(corpus / "lab" / other / "savepoint")
    common = [state for state in found if state in expected and state[1] not in NEVER_EQUAL | NULLS]
    assert len(common) >= states
    assert [state for state in common if found[state] != expected[state]] == []


def test_a_changelog_has_the_entries_of_the_savepoint_of_the_same_job() -> None:
    savepoints = Path(__file__).parents[2] / "oracle" / "savepoints"
    (checkpoint,) = (savepoints / "changelog").rglob("_metadata")
    expected = all_entries(savepoints / "shop" / "savepoint")
    for wanted in ({}, {"keys": True}):
        found = all_entries(checkpoint.parent, **wanted)
        assert found.keys() == expected.keys()
        assert [state for state in found if found[state] != expected[state] and state[1] != "coupon"] == []


def test_keys_whose_hash_only_the_job_knows_have_no_other_key_group(corpus: Path) -> None:
    lab = corpus / "lab" / CANONICAL / "savepoint"
    pojo_keys = "310bd4ec7a3652772ed1da3e063e29ce"
    assert pojo_keys in {operator for operator, _ in all_entries(lab)}
    assert pojo_keys not in {operator for operator, _ in all_entries(lab, max_parallelism=512)}


# -- timers -------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(longs, longs), max_size=8))
def test_timers_of_raw_keyed_state_are_entries_that_begin_with_their_time(timers: list[tuple[int, int]]) -> None:
    raw = [key.to_bytes(8, "big", signed=True) + b"\0" + time.to_bytes(8, "big", signed=True) for key, time in timers]
    queue = TimerQueue("event", "user-timers", LONG, VOID)
    batch = timer_entries(queue, Cursors.over(raw), 7, 3)
    batch.validate(full=True)
    rows = batch.to_pylist()
    assert [(row["state"], row["key_group"], row["value"]) for row in rows] == [(3, 7, b"")] * len(timers)
    for row, (key, time) in zip(rows, timers, strict=True):
        assert row["serialized_key"] == key.to_bytes(8, "big", signed=True)
        # With its sign flipped, so that unsigned bytes are in the order of time.
        assert row["key"] == (time + (1 << 63)).to_bytes(8, "big") + row["serialized_key"] + b"\0"
