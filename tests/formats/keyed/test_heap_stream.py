"""The heap format: damage is refused wherever it is, in whole key groups and in windows of them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import DecodeOptions, Origin
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError
from pyspark_savepoint.formats.io.byte_source import InlineByteSource
from pyspark_savepoint.formats.keyed.heap_stream import HeapKeyedStream
from pyspark_savepoint.formats.keyed.key_group_reader import Extent, Extents
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer, snapshot_reader

BASE = "org.apache.flink.api.common.typeutils.base."
WHOLE, WINDOW = 1 << 20, 16
WINDOWS = pytest.mark.parametrize("window", [WHOLE, WINDOW], ids=["whole", "windows"])
OWN = OpaqueSerializer("com.example.Own$Snapshot", 3)


def basic(stem: str) -> TypeSerializer:
    view = DataOutputView()
    view.write_utf(f"{BASE}{stem}Serializer${stem}SerializerSnapshot")
    view.write_i32(3)
    return snapshot_reader(DataInputView(view.getvalue())).versioned()


LONG, STRING = basic("Long"), basic("String")


def state(name: str, value: TypeSerializer) -> StateMetaInfoSnapshot:
    serializers = {"VALUE_SERIALIZER": value, "NAMESPACE_SERIALIZER": basic("Byte")}
    return StateMetaInfoSnapshot(name, BackendStateType.KEY_VALUE, {"KEYED_STATE_TYPE": "VALUE"}, serializers)


TWO = (state("numbers", LONG), state("names", STRING))


def table(number: int, *entries: bytes) -> bytes:
    return struct.pack(">hi", number, len(entries)) + b"".join(entries)


def entry(key: int, value: bytes) -> bytes:
    return b"\7" + struct.pack(">q", key) + value


def number(value: int) -> bytes:
    return struct.pack(">q", value)


GROUP = table(0, *(entry(i, number(i * i)) for i in range(5))) + table(1, *(entry(i, b"\3ab") for i in range(3)))


def read(
    content: bytes, selected: set[int], window: int, states: tuple[StateMetaInfoSnapshot, ...] = TWO
) -> list[tuple[int, int, bytes]]:
    """State, key and value of every selected entry of key group 9."""
    header = KeyedBackendHeader(False, LONG, states)
    data = struct.pack(">i", 9) + content
    extents = Extents.of([Extent(9, 0, len(data))])
    stream = HeapKeyedStream(InlineByteSource("a stream", data), header, extents, Origin("a stream"), DecodeOptions())
    found = []
    for block in stream.blocks({9}, selected, False, window):
        assert block.complete == (window == WHOLE)
        assert block.runs.key_group.tolist() == [9]
        for i in block.runs.entries():
            (key,) = struct.unpack(">q", block.buffer[block.key_start[i] : block.key_end[i]].tobytes())
            value = block.buffer[block.value_start[i] : block.value_end[i]].tobytes()
            assert block.buffer[block.namespace_start[i] : block.namespace_end[i]].tobytes() == b"\7"
            found.append((int(block.state[i]), key, value))
    return found


@WINDOWS
def test_entries_of_the_selected_states(window: int) -> None:
    numbers = [(0, i, number(i * i)) for i in range(5)]
    names = [(1, i, b"\3ab") for i in range(3)]

    assert read(GROUP, {0, 1}, window) == numbers + names
    assert read(GROUP, {1}, window) == names
    assert read(GROUP, {0}, window) == numbers


@pytest.mark.parametrize("window", [5, 6, 7, 17, 40, 64])
def test_windows_of_any_size(window: int) -> None:
    assert read(GROUP, {0, 1}, window) == read(GROUP, {0, 1}, WHOLE)


@WINDOWS
def test_a_value_larger_than_a_window(window: int) -> None:
    value = bytes([200 + 1 - 128 | 128, 1]) + b"x" * 200
    content = table(1, entry(1, value), entry(2, b"\2y")) + table(0)

    assert read(content, {1}, window) == [(1, 1, value), (1, 2, b"\2y")]


@WINDOWS
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (GROUP + b"\0", "the end"),
        (table(2) + table(0), "a state id below 2"),
        (struct.pack(">hi", -1, 0), "a state id below 2"),
        (table(0) + table(0), "every state once in a key group"),
        (struct.pack(">hi", 0, -1), "a number of entries"),
        (struct.pack(">hi", 0, 2**31 - 1), ""),
        (table(0), ""),
        (b"", ""),
    ],
    ids=["rest", "state", "negative state", "twice", "negative", "too many", "missing state", "nothing"],
)
def test_damage_is_refused(content: bytes, expected: str, window: int) -> None:
    with pytest.raises(CorruptStateError) as raised:
        # Key groups smaller than the window are read whole.
        read(content, {0, 1}, min(window, max(1, len(content) - 1)))
    assert expected in str(raised.value)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, len(GROUP) - 1), st.sampled_from([WHOLE, WINDOW]))
def test_every_prefix_is_refused(length: int, window: int) -> None:
    with pytest.raises(CorruptStateError):
        read(GROUP[:length], {0, 1}, window)


@WINDOWS
def test_what_cannot_be_delimited_hides_only_itself(window: int) -> None:
    states = (state("numbers", LONG), state("own", OWN), state("names", STRING))
    first, hidden, last = table(0, entry(1, number(2))), table(1, entry(1, b"???")), table(2, entry(1, b"\2a"))

    assert read(first + hidden + last, {0}, window, states) == [(0, 1, number(2))]
    assert read(first + hidden + last, {0, 2}, window, states) == [(0, 1, number(2)), (2, 1, b"\2a")]
    with pytest.raises(UndecodableStateError, match="state 'own' has values") as raised:
        read(first + hidden + last, {1}, window, states)
    assert "take a canonical savepoint" in raised.value.facts["remedy"]
    # The value may end with a head of a table, whose text is all that follows: there are two places.
    ambiguous = table(1, entry(1, b"?" + table(2, entry(1, bytes([1 + len(last)])))))
    with pytest.raises(UndecodableStateError, match="where the states behind them begin cannot be told, here names"):
        read(first + ambiguous + last, {2}, window, states)
    # If it is empty, all state after it can be read.
    assert read(first + table(1) + last, {2}, window, states) == [(2, 1, b"\2a")]
