"""State handles: each kind survives writing and reading; cuts keep what they should; hostile ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets
from pyspark_savepoint.formats.metadata.keyed_handles import (
    KEYED_HANDLES,
    ChangelogStateBackendHandle,
    KeyedStateHandle,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    read_keyed_handle,
    write_keyed_handle,
)
from pyspark_savepoint.formats.metadata.operator_handles import (
    INPUT,
    OPERATOR_HANDLES,
    OUTPUT,
    read_channel_handles,
    read_operator_handle,
    write_channel_handles,
    write_operator_handle,
)
from pyspark_savepoint.formats.metadata.stream_handles import (
    STREAM_HANDLES,
    ByteStreamStateHandle,
    read_stream_handle,
    write_stream_handle,
)
from tests.formats.metadata.metadata_strategies import (
    key_group_ranges,
    keyed_handles,
    merged_channel_handles,
    operator_handles,
    single_channel_handles,
    stream_handles,
    tuples_of,
)


def written(write: Callable[..., None], *arguments: Any) -> bytes:
    out = DataOutputView()
    write(*arguments, out)
    return out.getvalue()


def check_round_trip(handle: Any, write: Callable[..., None], read: Callable[..., Any]) -> None:
    data = written(write, handle)
    view = DataInputView(data)
    assert read(view) == handle
    view.expect_end("a handle")
    for end in range(len(data)):
        with pytest.raises(CorruptStateError):
            read(DataInputView(data[:end]))


@given(stream_handles)
def test_stream_handles_round_trip(handle: Any) -> None:
    check_round_trip(handle, write_stream_handle, read_stream_handle)
    assert written(write_stream_handle, handle)[0] == handle.type_byte
    assert handle.type_byte in STREAM_HANDLES


@given(keyed_handles)
def test_keyed_handles_round_trip(handle: KeyedStateHandle) -> None:
    check_round_trip(handle, write_keyed_handle, read_keyed_handle)
    assert handle.type_byte in KEYED_HANDLES


@given(operator_handles)
def test_operator_handles_round_trip(handle: Any) -> None:
    check_round_trip(handle, write_operator_handle, read_operator_handle)
    assert handle.type_byte in OPERATOR_HANDLES


@pytest.mark.parametrize("direction", [INPUT, OUTPUT])
@given(handles=tuples_of(single_channel_handles | merged_channel_handles))
def test_channel_handles_round_trip(direction: int, handles: Any) -> None:
    data = written(write_channel_handles, handles, direction, True)
    view = DataInputView(data)
    assert read_channel_handles(view, direction, typed=True, owner=0) == handles
    view.expect_end("channel handles")
    if handles:
        with pytest.raises(CorruptStateError):
            read_channel_handles(DataInputView(data), INPUT + OUTPUT - direction, typed=True, owner=0)


def test_none_is_a_handle_only_where_flink_writes_none() -> None:
    assert read_stream_handle(DataInputView(b"\0")) is None
    assert read_keyed_handle(DataInputView(b"\0")) is None
    assert read_operator_handle(DataInputView(b"\0")) is None
    no_delegate = b"\x07" + bytes(8) + b"\0"
    with pytest.raises(CorruptStateError, match="a stream handle"):
        read_keyed_handle(DataInputView(no_delegate))


@pytest.mark.parametrize("read", [read_stream_handle, read_keyed_handle, read_operator_handle])
def test_unknown_types_are_refused_with_those_that_are_known(read: Callable[..., Any]) -> None:
    with pytest.raises(CorruptStateError, match=r"one of \["):
        read(DataInputView(b"\x63" + bytes(64)))


def test_nesting_has_a_limit() -> None:
    nested_streams = (b"\x03" + bytes(8)) * 100_000 + b"\x10"
    with pytest.raises(CorruptStateError, match="nested"):
        read_stream_handle(DataInputView(nested_streams))
    changelog_of_one = b"\x0e" + bytes(16) + b"\0\0\0\1"
    with pytest.raises(CorruptStateError, match="nested"):
        read_keyed_handle(DataInputView(changelog_of_one * 100_000))


def test_hostile_counts_are_refused_before_anything_is_allocated() -> None:
    huge = b"\x7f\xff\xff\xff"
    for data in (b"\x03" + bytes(4) + huge, b"\x09" + bytes(24) + huge, b"\x0b" + bytes(26) + b"\x10" + huge):
        with pytest.raises(CorruptStateError):
            read_keyed_handle(DataInputView(data + bytes(100)))
    with pytest.raises(CorruptStateError):
        read_operator_handle(DataInputView(b"\x04" + huge + bytes(100)))


def test_a_state_twice_in_one_handle_is_refused() -> None:
    state = b"\0\1s\0\0\0\0\0"
    with pytest.raises(CorruptStateError, match="once"):
        read_operator_handle(DataInputView(b"\x04\0\0\0\2" + state + state + b"\x10"))


@given(keyed_handles, key_group_ranges())
def test_a_cut_handle_has_the_key_groups_of_both(handle: KeyedStateHandle, cut: KeyGroupRange) -> None:
    narrowed = handle.intersection(cut)
    assert set(narrowed.key_group_range) == set(handle.key_group_range) & set(cut)
    if isinstance(handle, KeyGroupsStateHandle | KeyGroupsSavepointStateHandle):
        assert dict(narrowed.offsets) == {g: offset for g, offset in handle.offsets if g in cut}
        assert narrowed.delegate is handle.delegate


def test_a_changelog_is_cut_in_all_its_parts() -> None:
    def part(start: int, end: int) -> KeyGroupsSavepointStateHandle:
        offsets = KeyGroupRangeOffsets(KeyGroupRange(start, end), tuple(range(start, end + 1)))
        return KeyGroupsSavepointStateHandle(offsets, ByteStreamStateHandle("x", b"abc"))

    whole = ChangelogStateBackendHandle(KeyGroupRange(0, 9), -1, (part(0, 4), part(5, 9)), (part(0, 9),), 1, 1, "id")
    assert whole.state_size == 9
    narrowed = whole.intersection(KeyGroupRange(6, 7))
    assert narrowed.materialized == (part(6, 7),)
    assert narrowed.non_materialized == (part(6, 7),)
