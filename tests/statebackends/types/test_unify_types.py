"""One type for a column whose files disagree a little."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import Origin
from pyspark_savepoint.formats.errors import CorruptStateError, UnsupportedStateError
from pyspark_savepoint.statebackends.types.unify import conform, unify

SHAPE = pa.struct([("label", pa.string()), ("__class", pa.string())])
CIRCLE = pa.struct([("label", pa.string()), ("radius", pa.float64()), ("__class", pa.string())])
SQUARE = pa.struct([("label", pa.string()), ("side", pa.int32()), ("__class", pa.string())])


def test_the_fields_of_all_files_with_the_class_last() -> None:
    kind = unify([SHAPE, CIRCLE, SQUARE], "shape")

    assert [field.name for field in kind] == ["label", "radius", "side", "__class"]


def test_types_inside_of_lists_and_maps_are_unified() -> None:
    kind = unify(
        [pa.map_(pa.string(), pa.list_(pa.field("element", part))) for part in (SHAPE, CIRCLE)],
        "shapes",
    )

    assert kind.item_type.value_type == CIRCLE
    assert kind.item_type.value_field.name == "element"


def test_types_that_really_differ_are_refused_with_a_remedy() -> None:
    with pytest.raises(UnsupportedStateError, match="different types") as raised:
        unify([pa.int64(), pa.string()], "total")
    assert raised.value.facts["remedy"] == "option('raw', 'total') reads it as BINARY"
    with pytest.raises(UnsupportedStateError):
        unify([pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int32())])], "total")


@pytest.mark.parametrize("low", [0, 1, 2])
def test_values_are_brought_to_the_union(low: int) -> None:
    kind = pa.map_(pa.string(), pa.list_(pa.field("element", SHAPE)))
    rows: list[Any] = [
        [("a", [{"label": "x", "__class": "Shape"}, None])],
        None,
        [],
        [("b", None), ("c", [])],
        [("d", [{"label": None, "__class": None}])],
    ]
    target = unify([kind, pa.map_(pa.string(), pa.list_(pa.field("element", CIRCLE)))], "shapes")

    found = conform(pa.array(rows, kind)[low:], target, Origin())

    found.validate(full=True)
    expected = pa.array(rows, kind)[low:].to_pylist()
    for row in expected:
        for _, shapes in row or ():
            for shape in shapes or ():
                if shape is not None:
                    shape["radius"] = None
    assert found.type == target
    assert found.to_pylist() == pa.array(expected, target).to_pylist()


def test_what_needs_nothing_is_not_copied() -> None:
    array = pa.array([1, 2])

    assert conform(array, pa.int64(), Origin()) is array


def test_another_type_than_the_header_has_is_damage() -> None:
    with pytest.raises(CorruptStateError, match="another type") as raised:
        conform(pa.array([1]), pa.string(), Origin("a-file", operator="accounts"))
    assert raised.value.facts["path"] == "a-file"
    assert raised.value.facts["operator"] == "accounts"


def test_fields_of_one_name_are_never_mixed_up() -> None:
    twice = pa.struct([("a", pa.int64()), ("a", pa.string())])
    assert unify([twice, twice], "state") == twice
    with pytest.raises(UnsupportedStateError, match="different types"):
        unify([twice, pa.struct([("a", pa.int64())])], "state")
