"""Headers of streams: read in steps, also with serializer snapshots of users; refused if they are damaged."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import SavepointError, UndecodableStateError
from pyspark_savepoint.formats.io.byte_source import InlineByteSource
from pyspark_savepoint.formats.io.snappy import IDENTIFIER
from pyspark_savepoint.formats.keyed import meta_info
from pyspark_savepoint.formats.keyed.meta_info import (
    BackendStateType,
    KeyedBackendHeader,
    OperatorBackendHeader,
    StateMetaInfoSnapshot,
    read_header,
)
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer, snapshot_reader
from tests.processor_time import processor_seconds

BASE = "org.apache.flink.api.common.typeutils.base."
DATA = b"\x00\x00data of key groups"


def basic(stem: str) -> TypeSerializer:
    view = DataOutputView()
    view.write_utf(f"{BASE}{stem}Serializer${stem}SerializerSnapshot")
    view.write_i32(3)
    return snapshot_reader(DataInputView(view.getvalue())).versioned()


def of_user(payload: bytes, version: int = 1) -> TypeSerializer:
    """Return an unknown serializer, whose snapshot has a payload without length."""
    return OpaqueSerializer("com.example.OwnSerializer$Snapshot", version, payload)


def keyed(*values: TypeSerializer) -> KeyedBackendHeader:
    states = tuple(
        StateMetaInfoSnapshot(
            f"state-{i}",
            BackendStateType.KEY_VALUE,
            {"KEYED_STATE_TYPE": "VALUE"},
            {"VALUE_SERIALIZER": value, "NAMESPACE_SERIALIZER": basic("Long")},
        )
        for i, value in enumerate(values)
    )
    return KeyedBackendHeader(False, basic("Int"), states)


def written(header: KeyedBackendHeader | OperatorBackendHeader) -> bytes:
    view = DataOutputView()
    header.write(view)
    return view.getvalue()


def read_keyed(header: KeyedBackendHeader) -> KeyedBackendHeader:
    data = written(header)
    return read_header(KeyedBackendHeader, InlineByteSource("a stream", data + DATA), len(data))


def test_damage_of_a_serializer_names_the_state_and_what_was_found() -> None:
    data = written(keyed(basic("Long"), basic("String")))
    place = data.rindex(b"org.apache") - 2
    size = int.from_bytes(data[place : place + 2], "big")
    damaged = data[: place + 2] + b"\xff" + data[place + 3 :]
    with pytest.raises(SavepointError, match="a serializer snapshot class in modified UTF-8") as caught:
        read_header(KeyedBackendHeader, InlineByteSource("a stream", damaged + DATA), len(damaged))
    facts = {name: caught.value.facts[name] for name in ("path", "offset", "state", "found")}
    found = f"{size} bytes that begin with {damaged[place + 2 : place + 18].hex()}"
    assert facts == {"path": "a stream", "offset": place, "state": "state-1", "found": found}


payloads = st.binary(max_size=40) | st.just(b"\0\x0dconfigPayload")


@settings(deadline=None, max_examples=40)
@given(payloads, payloads, st.sampled_from([0, 1, 4, 1000]))
def test_a_users_own_snapshot_is_passed(first: bytes, second: bytes, version: int) -> None:
    header = keyed(of_user(first, version), basic("Long"), of_user(second, version))

    found = read_keyed(header)

    assert written(found) == written(header)
    assert [meta.name for meta in found.states] == ["state-0", "state-1", "state-2"]
    assert found.states[0].value_serializer.opaque
    assert found.states[1].value_serializer == basic("Long")


def test_a_users_own_snapshot_inside_of_another() -> None:
    inner = of_user(b"\0\x03abc")
    header = keyed(ListSerializer(BASE + "ListSerializerSnapshot", 3, 1, (inner,)))

    assert read_keyed(header).states[0].value_serializer.opaque_parts() == [inner]


@pytest.mark.parametrize("compressed", [False, True])
def test_operator_streams_too(compressed: bool) -> None:
    meta = StateMetaInfoSnapshot(
        "own",
        BackendStateType.OPERATOR,
        {"OPERATOR_STATE_DISTRIBUTION_MODE": "SPLIT_DISTRIBUTE"},
        {"VALUE_SERIALIZER": of_user(b"\1\2\3")},
    )
    header = OperatorBackendHeader(6, compressed, (meta,), ())
    data = written(header) + (IDENTIFIER if compressed else b"")

    found = read_header(OperatorBackendHeader, InlineByteSource("a stream", data + DATA), len(data))

    assert written(found) == written(header)


def test_large_headers_are_read_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meta_info, "FIRST_READ", 16)
    header = keyed(basic("Long"), basic("Int"))

    assert written(read_keyed(header)) == written(header)


def test_an_end_that_no_length_reaches_is_refused() -> None:
    data = written(keyed(of_user(b"\1\2\3")))
    for cut in (1, 20):
        with pytest.raises(SavepointError):
            read_header(KeyedBackendHeader, InlineByteSource("a stream", data), len(data) - cut)


def test_the_error_names_the_class_and_what_to_do() -> None:
    data = written(keyed(of_user(b"\1\2\3")))

    with pytest.raises(UndecodableStateError, match="of an unknown class") as raised:
        read_header(KeyedBackendHeader, InlineByteSource("a stream", data[:-30]), len(data) - 30)

    assert raised.value.facts["found"] == "com.example.OwnSerializer$Snapshot"
    assert "pyspark_savepoint.serializers" in raised.value.facts["remedy"]


def nested_unknown(size: int) -> bytes:
    """Return nested unknown composite serializers, none of which has a known end."""
    composite = b"\0\1U\0\0\0\3\0\x0d\xe6\xfc\0\0\0\1\0\x14\x57\xfd\0\0\0\1\0\0\0\1"
    return b"\0\0\0\6\0\0\0\0\2" + composite * (size // len(composite))


def seconds_of(data: bytes) -> float:
    def read() -> None:
        with pytest.raises(SavepointError):
            read_header(KeyedBackendHeader, InlineByteSource("a stream", data), len(data))

    return processor_seconds(read)


def test_unknown_serializers_in_one_another_take_time_in_proportion() -> None:
    assert seconds_of(nested_unknown(1 << 16)) < 0.2 + 6 * seconds_of(nested_unknown(1 << 14))
