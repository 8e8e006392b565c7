"""Changes replayed over materialized state give the result of applying them to the model."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import CorruptStateError, SavepointError, UnsupportedStateError
from pyspark_savepoint.formats.io.byte_source import InlineLocation
from pyspark_savepoint.formats.keyed.changelog import FileChanges, registrations
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.fields import TupleSerializer
from pyspark_savepoint.statebackends.sources.changelog_source import UNKNOWN_KEY, ChangelogSource
from pyspark_savepoint.statebackends.sources.keyed_sources import candidates, with_keys
from tests.statebackends.keyed_models import KEYED, LONG, STATES, STRING, Model, Written, basic, by_key, expected, one
from tests.statebackends.sources.changelog_models import (
    ADD_ELEMENT,
    MERGE,
    REMOVE,
    SET,
    SET_INTERNAL,
    Change,
    applied,
    bases,
    change_set,
    changed,
    changelog_file,
    changes,
    group_of,
    logged,
    possible,
    registration,
)

KINDS = st.sampled_from(["plain", "compressed", "inline"])
WINDOWS = st.sampled_from([200, 1 << 12, 1 << 20])


def assert_is(written: Written, model: Model, window: int) -> None:
    assert by_key(written.rows(KEYED, window)) == expected(model, KEYED)
    assert by_key(written.rows(("sums",), window)) == expected(model, ("sums",))


@given(
    model=st.none() | bases,
    parts=st.lists(changes, min_size=1, max_size=3),
    heap=st.booleans(),
    how=KINDS,
    window=WINDOWS,
)
@example(model={1: {"items": [7]}}, parts=[[Change(1, "items", ADD_ELEMENT, 8)]], heap=True, how="plain", window=200)
def test_changes_are_replayed_in_their_order(
    model: Model | None, parts: list[list[Change]], heap: bool, how: str, window: int
) -> None:
    log = possible(model or {}, [change for part in parts for change in part])
    half = len(log) // 2
    after = applied(model or {}, log)

    written = changed(model, [log[:half], log[half:]], heap=heap, how=how)

    assert_is(written, after, window)


def test_a_window_smaller_than_a_key_group_gives_the_same() -> None:
    model = {key: {"items": list(range(key % 50 + 1)), "by_name": {str(i): i for i in range(9)}} for key in range(300)}
    log = [Change(key, "items", ADD_ELEMENT, -key) for key in range(0, 600, 2)]
    log += [Change(key, "by_name", REMOVE, "3") for key in range(300)]

    for heap in (False, True):
        written = changed(model, [log], heap=heap)
        assert by_key(written.rows(("items", "by_name"), 1 << 10)) == expected(
            applied(model, log), ("items", "by_name")
        )


def test_values_that_only_the_job_can_merge_are_refused_unless_they_are_replaced() -> None:
    model: Model = {1: {"sums": {(0, 10): 1, (10, 20): 2}}}
    merge = Change(1, "sums", MERGE, ((0, 10), (10, 20)))
    written = changed(model, [[merge]])

    with pytest.raises(UnsupportedStateError, match="only the job's own function can merge") as raised:
        written.rows(("sums",), 1 << 20)

    assert raised.value.facts["state"] == "sums"
    assert raised.value.facts["operator"] == "the operator"
    assert "canonical" in raised.value.facts["remedy"]
    written = changed(model, [[merge, Change(1, "sums", SET_INTERNAL, ((0, 10), 3))]])
    assert written.rows(("sums",), 1 << 20) == [{"key": 1, "window": {"start": 0, "end": 10}, "sums": 3}]


def test_a_state_that_changed_its_type_is_refused_and_the_others_read() -> None:
    other = replace(STATES[0], serializers={**STATES[0].serializers, "VALUE_SERIALIZER": STRING})
    log = [(-1, registration(other, 0)), *logged([Change(1, "name", SET, "x")], 4, first_id=5)]
    source = changed({1: {"total": 1}}, [[]]).source
    assert isinstance(source, ChangelogSource)
    written = Written(replace(source, changes=changelog_file([change_set(log)], False)), 4)

    with pytest.raises(UnsupportedStateError, match="'total' changed its type"):
        written.rows(("total",), 1 << 20)

    assert written.rows(("name",), 1 << 20) == [{"key": 1, "name": "x"}]


def test_timers_are_added_and_removed() -> None:
    timer = basic("Long")  # the content of a timer does not matter here
    queue = StateMetaInfoSnapshot(
        "_timer_state/event_a", BackendStateType.PRIORITY_QUEUE, {}, {"VALUE_SERIALIZER": timer}
    )
    added = bytes([ADD_ELEMENT, 0, 3]) + (2).to_bytes(4, "big") + one(LONG, 5) + one(LONG, 6)
    removed = bytes([REMOVE, 0, 3]) + one(LONG, 5)
    log = [(-1, registration(queue, 3)), (0, added), (0, added), (0, removed)]
    source = replace(changed({}, [[]]).source, changes=changelog_file([change_set(log)], True))

    with source.open(DecodeOptions()) as stream:
        state = next(i for i, meta in enumerate(stream.header.states) if meta.name == queue.name)
        (block,) = stream.blocks({0, 1}, {state}, False, 1 << 20)

    assert [block.buffer[a:b].tobytes() for a, b in zip(block.key_start, block.key_end, strict=True)] == [one(LONG, 6)]


# -- keys whose type nobody recorded -----------------------------------------------------------------------------------


def bare(rows: list[tuple[bytes, int]]) -> ChangelogSource:
    """A source of changes of a value state, (key, its hash) each, without a part that records the type of keys."""
    log = [(-1, registration(STATES[1], 0))]
    for data, code in rows:
        log.append((key_group_for_hash(code, 128), bytes([SET, 0, 0]) + data + b"\0" + one(STRING, "v")))
    source = changed(None, [[]], max_parallelism=128).source
    assert isinstance(source, ChangelogSource)
    return replace(source, changes=changelog_file([change_set(log)], False), key=None)


@pytest.mark.parametrize("number", range(6 + 9))
def test_a_type_of_keys_is_found_by_their_key_groups(number: int) -> None:
    key = list(candidates())[number]
    if key.flink_type in ("BOOLEAN", "BYTE"):
        values: list[object] = [False, True] if key.flink_type == "BOOLEAN" else [*range(-9, 9)]
    elif isinstance(key, TupleSerializer):
        fields = [["x", "yy", ""] if f.flink_type == "STRING" else [1, -5, 70_000] for f in key.children]
        values = [{"f0": a, "f1": b} for a in fields[0] for b in fields[1]]
    else:
        values = ["a", "bc", "def", ""] if key.flink_type == "STRING" else [3, 500, -7, 12_345]
    rows = [(one(key, value), int(key.java_hash(_column(key, [value]))[0])) for value in values]

    (source,) = with_keys([bare(rows)], None)

    if key.flink_type == "BOOLEAN":  # two keys are too few to prove anything
        assert source.key in (key, UNKNOWN_KEY)
    else:
        assert source.key == key
        assert source.note is not None
        assert key.flink_type in source.note


def _column(key: TypeSerializer, values: list[object]) -> pa.Array:
    return pa.array(values, key.arrow_type(DecodeOptions()))


def test_keys_of_no_known_type_are_binary_where_they_can_be_told_apart() -> None:
    log = [(-1, registration(STATES[0], 0))]
    log += [(group, bytes([SET, 0, 0]) + b"key%d" % group + b"\0" + one(LONG, group)) for group in range(9)]
    source = changed(None, [[]], max_parallelism=128).source
    assert isinstance(source, ChangelogSource)
    (found,) = with_keys([replace(source, changes=changelog_file([change_set(log)], False), key=None)], None)

    assert found.key is UNKNOWN_KEY
    assert found.note is not None
    with found.open(DecodeOptions()) as stream:
        (block,) = stream.blocks(set(range(128)), {0}, False, 1 << 20)
    keys = {block.buffer[a:b].tobytes() for a, b in zip(block.key_start, block.key_end, strict=True)}
    assert keys == {b"key%d" % group for group in range(9)}


# -- damage ------------------------------------------------------------------------------------------------------------


LOG = [
    Change(1, "total", SET, 5),
    Change(2, "name", SET, "abc"),
    Change(1, "items", ADD_ELEMENT, 8),
    Change(1, "by_name", ADD_ELEMENT, ("a", 1)),
    Change(3, "sums", SET_INTERNAL, ((0, 10), 3)),
    Change(3, "sums", MERGE, ((10, 20), (0, 10))),
]


@pytest.mark.parametrize("compressed", [False, True])
def test_every_damaged_byte_is_an_error_or_another_value(compressed: bool) -> None:
    model: Model = {1: {"total": 1}, 9: {"items": [4]}}
    source = changed(model, [LOG], how="compressed" if compressed else "plain").source
    assert isinstance(source, ChangelogSource)
    (file,) = source.changes
    assert isinstance(file, FileChanges)
    assert isinstance(file.location, InlineLocation)
    data = file.location.data
    noticed = 0
    for position in range(0, len(data), 1 if compressed else 3):
        for bits in (1, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[position] ^= bits
            broken = replace(file, location=InlineLocation("the changelog", bytes(damaged)))
            written = Written(replace(source, changes=(broken,)), 4)
            try:
                written.rows(KEYED, 1 << 12)
                written.rows(("sums",), 1 << 12)
            except SavepointError:
                noticed += 1
    assert noticed > len(data) // 2
    for cut in range(0, len(data), 7):
        broken = replace(file, location=InlineLocation("the changelog", data[:cut]))
        with pytest.raises(CorruptStateError):
            Written(replace(source, changes=(broken,)), 4).rows(KEYED, 1 << 12)


def test_a_change_set_outside_of_its_file_is_an_error() -> None:
    for compressed in (False, True):
        (file,) = changelog_file([change_set(logged(LOG, 4))], compressed)
        for offset in (-1, 1 << 20, 1 << 60):
            with pytest.raises(CorruptStateError, match="changelog does not match the format"):
                list(registrations([replace(file, offset=offset)], "the operator"))


def test_a_later_change_set_of_a_large_compressed_file() -> None:
    first = change_set([(group, bytes(9000)) for group in range(40)])
    second = change_set([(group_of(1, 4), b"xyz")])
    _, file = changelog_file([first, second], True)

    (found,) = file.read(1 << 16, "the operator")

    assert found.buffer[found.start[0] : found.end[0]].tobytes() == b"xyz"
