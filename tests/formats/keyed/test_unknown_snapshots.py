"""Serializer snapshots of unknown classes and any size: where they end follows from what is around them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.io.byte_source import InlineByteSource
from pyspark_savepoint.formats.keyed.meta_info import (
    BackendStateType,
    KeyedBackendHeader,
    OperatorBackendHeader,
    StateMetaInfoSnapshot,
    read_header,
    write_state_meta,
)
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_versioned
from pyspark_savepoint.formats.serializers.composite.collections import MapSerializer
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer
from tests.formats.keyed.test_headers import BASE, DATA, basic, keyed, of_user, read_keyed, written
from tests.processor_time import processor_seconds

#: A Java object stream: java.lang.Long 3.
OBJECT = bytes.fromhex(
    "aced00057372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c75657872"
    "00106a6176612e6c616e672e4e756d62657286ac951d0b94e08b02000078700000000000000003"
)
OPERATOR = {"OPERATOR_STATE_DISTRIBUTION_MODE": "SPLIT_DISTRIBUTE"}


def i32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def noise(size: int, seed: int = 5) -> bytes:
    return random.Random(seed).randbytes(size)


def with_snapshots_inside(size: int) -> bytes:
    """Return a payload as a snapshot of a class with fields may write it: names, and snapshots of Flink's."""
    view = DataOutputView()
    while len(view.getvalue()) < size:
        view.write_utf(f"field{len(view.getvalue())}")
        write_versioned(basic("Long"), view)
        view.write_i32(3)
    return view.getvalue()


ADAPTER = OpaqueSerializer("com.example.Coder$LegacySnapshot", 0x7A53C4F0, i32(1) + i32(len(OBJECT)) + OBJECT + i32(1))
LENGTH = OpaqueSerializer("com.example.Coder$LegacySnapshot", 2, i32(len(OBJECT)) + OBJECT)
VERSION_AND_LENGTH = OpaqueSerializer("com.example.Snapshot", 1, i32(1) + i32(len(OBJECT)) + OBJECT)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.binary(max_size=2000) | st.integers(0, 3).map(lambda seed: noise(100_000, seed)), max_size=4),
    st.sampled_from([0, 1, 2, 3, 4, 1000]),
)
def test_payloads_of_any_size_beside_others(payloads: list[bytes], version: int) -> None:
    unknown = [of_user(payload, version) for payload in payloads]
    header = keyed(basic("Long"), *unknown, basic("String"))

    found = read_keyed(header)

    assert written(found) == written(header)
    assert [state.value_serializer for state in found.states[1:-1]] == unknown or version == 2
    assert found.states[-1].value_serializer == basic("String")


@pytest.mark.parametrize("serializer", [ADAPTER, LENGTH, VERSION_AND_LENGTH])
def test_a_java_object_behind_its_length(serializer: TypeSerializer) -> None:
    header = keyed(serializer, basic("Long"), MapSerializer(f"{BASE}MapSerializerSnapshot", 3, 1, (serializer,) * 2))

    assert read_keyed(header).states == header.states


@pytest.mark.parametrize("payload", [noise(600), noise(100_000), with_snapshots_inside(100_000)])
@pytest.mark.parametrize("version", [1, 3])
def test_snapshots_of_unknown_classes_within_a_map(payload: bytes, version: int) -> None:
    unknown = of_user(payload, version)
    maps = [
        MapSerializer(f"{BASE}MapSerializerSnapshot", 3, 1, pair)
        for pair in ((basic("String"), unknown), (unknown, basic("Long")), (unknown, unknown))
    ]
    header = keyed(*maps, basic("Long"))

    found = read_keyed(header)

    assert written(found) == written(header)
    assert [len(state.value_serializer.opaque_parts()) for state in found.states] == [1, 1, 2, 0]


@pytest.mark.parametrize("payload", [b"", noise(600), noise(100_000)])
def test_the_serializer_of_keys(payload: bytes) -> None:
    header = KeyedBackendHeader(False, of_user(payload), keyed(basic("Long"), of_user(payload)).states)

    found = read_keyed(header)

    assert found.key_serializer == of_user(payload)
    assert found.states == header.states


@pytest.mark.parametrize("payload", [noise(600), with_snapshots_inside(100_000)])
def test_lists_and_broadcast_states_of_an_operator(payload: bytes) -> None:
    def state(name: str, value: TypeSerializer, key: TypeSerializer | None = None) -> StateMetaInfoSnapshot:
        kind = BackendStateType.OPERATOR if key is None else BackendStateType.BROADCAST
        serializers = {"VALUE_SERIALIZER": value} if key is None else {"VALUE_SERIALIZER": value, "KEY_SERIALIZER": key}
        return StateMetaInfoSnapshot(name, kind, OPERATOR, serializers)

    unknown, long = of_user(payload), basic("Long")
    for lists, broadcasts in (
        ((state("a", unknown), state("b", long)), (state("c", unknown, long), state("d", long, unknown))),
        ((state("a", unknown),), ()),
        ((), (state("c", unknown, unknown),)),
    ):
        header = OperatorBackendHeader(6, False, lists, broadcasts)
        data = written(header)
        found = read_header(OperatorBackendHeader, InlineByteSource("a stream", data + DATA), len(data))
        assert (found.list_states, found.broadcast_states) == (lists, broadcasts)


def test_a_header_that_can_be_read_in_two_ways_is_refused() -> None:
    """The payload has the start of a state, whose own payload could be the rest of the header."""
    view = DataOutputView()
    write_state_meta(
        StateMetaInfoSnapshot(
            "forged",
            BackendStateType.KEY_VALUE,
            {"KEYED_STATE_TYPE": "VALUE"},
            {"NAMESPACE_SERIALIZER": basic("Long"), "VALUE_SERIALIZER": of_user(b"")},
        ),
        view,
    )
    order = {"NAMESPACE_SERIALIZER": basic("Long"), "VALUE_SERIALIZER": of_user(noise(20) + view.getvalue())}
    first = StateMetaInfoSnapshot("first", BackendStateType.KEY_VALUE, {"KEYED_STATE_TYPE": "VALUE"}, order)
    header = KeyedBackendHeader(False, basic("Int"), (first, *keyed(basic("Long")).states))

    with pytest.raises(UndecodableStateError, match="can be read in two ways") as raised:
        read_keyed(header)

    assert raised.value.facts["found"] == "com.example.OwnSerializer$Snapshot"


def many_starts(size: int) -> bytes:
    """Return a header with as many places at which an unknown snapshot may end, and none that fits."""
    states = keyed(*[of_user(b"")] * 2).states
    view = DataOutputView()
    write_state_meta(states[0], view)
    data = bytearray(written(KeyedBackendHeader(False, basic("Int"), states)))
    return bytes(data + view.getvalue() * (size // len(view.getvalue())) + b"\1")


def many_states(count: int) -> bytes:
    """Return a header of known states with an unknown one at their end that cannot be read."""
    header = written(keyed(*[basic("Long")] * count, of_user(noise(2000))))
    return header[:-40]


@pytest.mark.parametrize("forged", [many_starts, lambda size: many_states(size // 200)])
def test_what_never_fits_takes_time_in_proportion_to_its_bytes(forged: object) -> None:
    assert callable(forged)

    def seconds(size: int) -> float:
        data = forged(size)

        def read() -> None:
            with pytest.raises(UndecodableStateError):
                read_header(KeyedBackendHeader, InlineByteSource("a stream", data), len(data))

        return processor_seconds(read, 1)

    small = seconds(1 << 17)
    assert seconds(1 << 20) < 1 + 16 * small
    assert small < 5
