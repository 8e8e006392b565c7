"""Written operator state: elements at the offsets of the handle, plain and compressed, and read back."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import DecodeOptions, distinct
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.io import snappy
from pyspark_savepoint.formats.io.byte_source import InlineByteSource
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, OperatorBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.keyed.operator_streams import OperatorStream, OperatorStreamWriter
from pyspark_savepoint.formats.metadata.operator_handles import Mode
from pyspark_savepoint.formats.serializers.basic.primitives import NumberSerializer

LONG = NumberSerializer.of("org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot")


def registered(name: str, mode: str) -> StateMetaInfoSnapshot:
    kind = BackendStateType.BROADCAST if mode == "BROADCAST" else BackendStateType.OPERATOR
    serializers: dict[str, Any] = {"VALUE_SERIALIZER": LONG}
    if mode == "BROADCAST":
        serializers["KEY_SERIALIZER"] = LONG
    return StateMetaInfoSnapshot(name, kind, {"OPERATOR_STATE_DISTRIBUTION_MODE": mode}, serializers)


LISTS = (registered("list", "SPLIT_DISTRIBUTE"), registered("union", "UNION"))
BROADCASTS = (registered("rules", "BROADCAST"), registered("none", "BROADCAST"))
FORMS = pytest.mark.parametrize(("version", "compressed"), [(5, False), (6, False), (6, True)])


def joined(elements: list[bytes]) -> tuple[Any, Any]:
    """Elements behind something else, and where they are."""
    offsets = np.cumsum([3, *map(len, elements)])
    return np.frombuffer(b"abc" + b"".join(elements) + b"xyz", np.uint8), offsets


def read(data: bytes, states: dict[str, Any], name: str) -> list[bytes]:
    """The elements of a state, as the reader finds them."""
    header = OperatorBackendHeader.read(DataInputView(data))
    offsets = distinct(np.array([offset for state in states.values() for offset in state.offsets], np.int64))
    stream = OperatorStream(InlineByteSource("a stream", data), header, offsets)
    found = []
    for buffer, pieces, _ in stream.windows(np.array(states[name].offsets, np.int64), 1 << 20):
        found += [buffer[start:end].tobytes() for start, end in zip(pieces.start, pieces.end, strict=True)]
    return found


elements = st.lists(st.binary(min_size=1, max_size=30) | st.just(bytes(70_000)), max_size=6)


@FORMS
@given(lists=elements, unions=elements, entries=st.binary(max_size=40), cut=st.integers(0, 6))
def test_elements_are_where_the_handle_says(
    version: int, compressed: bool, lists: list[bytes], unions: list[bytes], entries: bytes, cut: int
) -> None:
    file = io.BytesIO()
    header = OperatorBackendHeader(version, compressed, LISTS, BROADCASTS)
    writer = OperatorStreamWriter(file, header)
    writer.add_list("union", *joined(unions[:cut]))
    writer.add_broadcast("rules", 7, np.frombuffer(entries, np.uint8))
    writer.add_list("list", *joined(lists))
    writer.add_list("union", *joined(unions[cut:]))
    states = writer.finish()
    data = file.getvalue()

    assert {name: state.mode for name, state in states.items()} == {
        "list": Mode.SPLIT_DISTRIBUTE,
        "union": Mode.UNION,
        "rules": Mode.BROADCAST,
        "none": Mode.BROADCAST,
    }
    assert [state.name for state in states.values()] == list(states)
    assert read(data, states, "list") == lists
    assert read(data, states, "union") == unions
    assert read(data, states, "rules") == [(7).to_bytes(4, "big") + entries]
    assert read(data, states, "none") == [bytes(4)]


def test_plain_elements_are_the_bytes_themselves() -> None:
    file = io.BytesIO()
    writer = OperatorStreamWriter(file, OperatorBackendHeader(5, False, LISTS, ()))
    head = len(file.getvalue())
    writer.add_list("list", *joined([b"one", b"", b"three"]))
    states = writer.finish()

    assert file.getvalue()[head:] == b"onethree"
    assert states["list"].offsets == (head, head + 3, head + 3)
    assert states["union"].offsets == ()


def test_every_compressed_element_begins_with_a_chunk() -> None:
    file = io.BytesIO()
    writer = OperatorStreamWriter(file, OperatorBackendHeader(6, True, LISTS, ()))
    head = len(file.getvalue())
    many = [bytes([i]) * 100 for i in range(20)]
    writer.add_list("list", *joined(many))
    states = writer.finish()
    data = file.getvalue()

    chunks = [head + start for start, _, _ in snappy.scan_chunks(memoryview(data)[head:], None, 0)]
    assert data[head:].startswith(snappy.IDENTIFIER)
    assert states["list"].offsets == tuple(chunks)
    assert chunks[0] == head + 10
    header, offsets = OperatorBackendHeader(6, True, (), (), head), np.array(chunks)
    found = OperatorStream(InlineByteSource("a stream", data), header, offsets)
    buffer, pieces, base = next(found.windows(offsets, 1 << 20))
    at = found.cursors(buffer, pieces, base, "list", DecodeOptions())
    assert [at.buffer[a:b].tobytes() for a, b in zip(at.position, at.end, strict=True)] == many
    assert pieces.count.tolist() == [1] * 20


def test_states_are_those_of_the_head() -> None:
    writer = OperatorStreamWriter(io.BytesIO(), OperatorBackendHeader(5, False, LISTS, BROADCASTS))
    with pytest.raises(ValueError, match="not among the list states"):
        writer.add_list("rules", *joined([b"x"]))
    with pytest.raises(ValueError, match="not among the broadcast states"):
        writer.add_broadcast("list", 0, np.zeros(0, np.uint8))
    writer.add_broadcast("rules", 0, np.zeros(0, np.uint8))
    with pytest.raises(ValueError, match="already"):
        writer.add_broadcast("rules", 0, np.zeros(0, np.uint8))
