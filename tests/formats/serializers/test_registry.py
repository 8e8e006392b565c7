"""Snapshots of unknown classes: delimited where that is possible, in time that does not explode."""

from __future__ import annotations

import pytest

from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.serializers.base import COMPOSITE_MAGIC, MAX_NESTING
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer, read_serializer
from tests.processor_time import processor_seconds

NESTED = bytes.fromhex("001457fd00000001")
LONG = b"org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot"


def versioned(name: bytes, payload: bytes = b"") -> bytes:
    return len(name).to_bytes(2, "big") + name + (3).to_bytes(4, "big") + payload


def composite(outer: bytes, *nested: bytes) -> bytes:
    """Return a snapshot of an unknown class, with the layout of Flink's composite serializers."""
    head = COMPOSITE_MAGIC.to_bytes(4, "big") + (1).to_bytes(4, "big") + outer
    return versioned(b"com.example.MySnapshot", head + NESTED + len(nested).to_bytes(4, "big") + b"".join(nested))


def enveloped(snapshot: bytes) -> bytes:
    return (2).to_bytes(4, "big") + snapshot


def test_an_unknown_composite_ends_behind_its_nested_serializers() -> None:
    data = composite(b"\1\2\3 whatever the class writes", versioned(LONG), versioned(LONG))
    serializer = read_serializer(enveloped(data))
    assert isinstance(serializer, OpaqueSerializer)
    assert serializer.payload == data[len(versioned(b"com.example.MySnapshot")) :]


def test_unknown_composites_within_unknown_composites() -> None:
    data = versioned(LONG)
    for _ in range(MAX_NESTING - 1):
        data = composite(b"outer", data)
    assert read_serializer(enveloped(data)).opaque


def test_what_never_fits_is_given_up_soon() -> None:
    # Every magic number may begin the nested part of every composite before it: without memory 2 to the 40th tries.
    data = versioned(b"com.example.Last", b"")[:-1] + b"\x09"
    for _ in range(40):
        data = composite(NESTED + b"\0\0\0\1", data)

    def read() -> None:
        with pytest.raises(UndecodableStateError):
            read_serializer(enveloped(data))

    assert processor_seconds(read) < 2
