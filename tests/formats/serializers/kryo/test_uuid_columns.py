"""UUIDs of a column that are read together: as those that are read one by one, damaged bytes too."""

from __future__ import annotations

import random
import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import KryoObject
from pyspark_savepoint.formats.serializers.kryo.described.serializer import MANY, UUID, KryoSerializer
from pyspark_savepoint.formats.serializers.kryo.objects import uuid_columns
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import object_format, write_object
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import Version

LONGS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-300, 300)
IDS = st.none() | st.tuples(LONGS, LONGS)


def written(halves: tuple[int, int] | None, version: Version) -> bytes:
    return b"\0" if halves is None else write_object(KryoObject(UUID, halves), object_format(version))


def read(values: list[bytes], version: Version) -> tuple[object, ...]:
    """Return the column and the positions after its values, or the error and where it was met."""
    at = Cursors.over(values, options=DecodeOptions(kryo=version))
    try:
        column = KryoSerializer.of(UUID).decode(at)
    except SavepointError as error:
        return type(error), str(error), error.facts
    column.validate(full=True)
    return column.to_pylist(), at.position.tolist()


def both(values: list[bytes], version: Version) -> tuple[object, ...]:
    """Return what is read together, which is equal to what is read one by one."""
    values = values * (-(-MANY // len(values)))
    together = read(values, version)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyspark_savepoint.formats.serializers.kryo.described.serializer.MANY", len(values) + 1)
        assert together == read(values, version)
    return together


@given(st.lists(IDS, min_size=1, max_size=6), st.sampled_from([2, 5]))
def test_any_uuids(ids: list[tuple[int, int] | None], version: Version) -> None:
    both([written(each, version) for each in ids], version)


@given(
    st.lists(IDS, min_size=1, max_size=6),
    st.sampled_from([2, 5]),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 19), st.integers(0, 255), st.booleans()), max_size=3),
)
def test_damaged_uuids(
    ids: list[tuple[int, int] | None], version: Version, damages: list[tuple[int, int, int, bool]]
) -> None:
    values = [bytearray(written(each, version)) for each in ids]
    for row, place, byte, is_cut in damages:
        value = values[row % len(values)]
        if is_cut:
            del value[place:]
        elif place < len(value):
            value[place] = byte
    both([bytes(value) for value in values], version)


@pytest.mark.parametrize("version", [2, 5])
def test_as_python_writes_them(version: Version) -> None:
    ids = [uuid.UUID(int=random.Random(row).getrandbits(128)) for row in range(MANY)]
    halves = [struct.unpack(">qq", each.bytes) for each in ids]
    values = [written((high, low), version) for high, low in halves]
    at = Cursors.over(values, options=DecodeOptions(kryo=version))
    rows, texts, _ = uuid_columns.read_uuids(at, 0x54)
    assert rows.all()
    assert texts.to_pylist() == [str(each) for each in ids]
    at.expect_end()


def test_another_form_of_the_class_is_read_one_by_one() -> None:
    """The id of the class in two bytes, as Kryo does not write it but reads it."""
    at = Cursors.over([written((1, 2), 5), b"\xd4\0" + written((3, 4), 5)[1:], b"\0"], options=DecodeOptions(kryo=5))
    rows, texts, nulls = uuid_columns.read_uuids(at, 0x54)
    assert (rows.tolist(), nulls.tolist()) == ([True, False, False], [False, False, True])
    assert texts.to_pylist() == ["00000000-0000-0001-0000-000000000002"]
    both([written((1, 2), 5), b"\xd4\0" + written((3, 4), 5)[1:], b"\0"], 5)
