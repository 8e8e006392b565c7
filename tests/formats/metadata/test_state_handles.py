"""State handles: each kind survives writing and reading; cuts keep what they should; hostile ones are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.encodings import Encoding
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets
from pyspark_savepoint.formats.metadata.keyed_handles import (
    KEYED_HANDLE,
    ChangelogStateBackendHandle,
    KeyedStateHandle,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
)
from pyspark_savepoint.formats.metadata.operator_handles import INPUT_CHANNELS, OPERATOR_HANDLE, OUTPUT_CHANNELS
from pyspark_savepoint.formats.metadata.stream_handles import STREAM_HANDLE, ByteStreamStateHandle
from tests.formats.metadata.metadata_strategies import (
    key_group_ranges,
    keyed_handles,
    merged_channel_handles,
    operator_handles,
    single_channel_handles,
    stream_handles,
    tuples_of,
)


def check_round_trip(handle: Any, encoding: Encoding[Any]) -> None:
    data = encoding.bytes(handle)
    assert data[0] == handle.type_byte
    view = DataInputView(data)
    assert encoding.read(view, "") == handle
    view.expect_end("a handle")
    for end in range(len(data)):
        with pytest.raises(CorruptStateError):
            encoding.read(DataInputView(data[:end]), "")


@given(stream_handles)
def test_stream_handles_round_trip(handle: Any) -> None:
    check_round_trip(handle, STREAM_HANDLE)


@given(keyed_handles)
def test_keyed_handles_round_trip(handle: KeyedStateHandle) -> None:
    check_round_trip(handle, KEYED_HANDLE)


@given(operator_handles)
def test_operator_handles_round_trip(handle: Any) -> None:
    check_round_trip(handle, OPERATOR_HANDLE)


@pytest.mark.parametrize(("channels", "others"), [(INPUT_CHANNELS, OUTPUT_CHANNELS), (OUTPUT_CHANNELS, INPUT_CHANNELS)])
@given(handles=tuples_of(single_channel_handles | merged_channel_handles))
def test_channel_handles_round_trip(channels: Encoding[Any], others: Encoding[Any], handles: Any) -> None:
    data = channels.at(6).bytes(handles)
    view = DataInputView(data)
    assert channels.at(6).read(view, "channel handles") == handles
    view.expect_end("channel handles")
    if handles:
        with pytest.raises(CorruptStateError):
            others.at(6).read(DataInputView(data), "channel handles")


def test_none_is_a_handle_only_where_flink_writes_none() -> None:
    assert STREAM_HANDLE.optional.read(DataInputView(b"\0"), "") is None
    assert KEYED_HANDLE.optional.read(DataInputView(b"\0"), "") is None
    assert OPERATOR_HANDLE.optional.read(DataInputView(b"\0"), "") is None
    no_delegate = b"\x07" + bytes(8) + b"\0"
    with pytest.raises(CorruptStateError, match="a stream handle"):
        KEYED_HANDLE.read(DataInputView(no_delegate), "")


@pytest.mark.parametrize("encoding", [STREAM_HANDLE, KEYED_HANDLE, OPERATOR_HANDLE])
def test_unknown_types_are_refused_with_those_that_are_known(encoding: Encoding[Any]) -> None:
    with pytest.raises(CorruptStateError, match=r"one of \["):
        encoding.read(DataInputView(b"\x63" + bytes(64)), "")


def test_nesting_has_a_limit() -> None:
    nested_streams = (b"\x03" + bytes(8)) * 100_000 + b"\x10"
    with pytest.raises(CorruptStateError, match="nested"):
        STREAM_HANDLE.read(DataInputView(nested_streams), "")
    changelog_of_one = b"\x0e" + bytes(16) + b"\0\0\0\1"
    with pytest.raises(CorruptStateError, match="nested"):
        KEYED_HANDLE.read(DataInputView(changelog_of_one * 100_000), "")


def test_hostile_counts_are_refused_before_anything_is_allocated() -> None:
    huge = b"\x7f\xff\xff\xff"
    for data in (b"\x03" + bytes(4) + huge, b"\x09" + bytes(24) + huge, b"\x0b" + bytes(26) + b"\x10" + huge):
        with pytest.raises(CorruptStateError):
            KEYED_HANDLE.read(DataInputView(data + bytes(100)), "")
    with pytest.raises(CorruptStateError):
        OPERATOR_HANDLE.read(DataInputView(b"\x04" + huge + bytes(100)), "")


def test_a_state_twice_in_one_handle_is_refused() -> None:
    state = b"\0\1s\0\0\0\0\0"
    with pytest.raises(CorruptStateError, match="once"):
        OPERATOR_HANDLE.read(DataInputView(b"\x04\0\0\0\2" + state + state + b"\x10"), "")


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
