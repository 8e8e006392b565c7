"""Serializers of flink-scala-api in a savepoint of real Flink 2.3.0 (see its README), and their other versions."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.composite.flinkx import (
    COPRODUCT,
    FLINKX,
    MUTABLE_MAP,
    FlinkxCaseClassSerializer,
    FlinkxCollectionSerializer,
    FlinkxCoproductSerializer,
    FlinkxMutableMapSerializer,
)
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer, read_serializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.migration.migration_plan import Knowledge, OperatorMigration, plan_migration
from pyspark_savepoint.statebackends.migration.value_scan import entries_of
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease
from tests.formats.serializers.codec_checks import base, check_value, decode, encode

FLINKX_SAVEPOINT = Path(__file__).parents[3] / "oracle" / "savepoints" / "flinkx" / "savepoint"
SCALA = "74465f2ac40367e2bd0fa8fbbc306682"
LONG, STRING = base("Long"), base("String")


@pytest.fixture(scope="module")
def operator() -> OperatorMigration:
    """The operator of most states."""
    plans = plan_migration(Snapshot.open(str(FLINKX_SAVEPOINT)), Knowledge(ExtractionRelease.parse("2.3")))
    return next(plan for plan in plans if str(plan.operator.operator_id) == SCALA)


def snapshot(serializer: TypeSerializer) -> bytes:
    view = DataOutputView()
    write_enveloped(serializer, view)
    return view.getvalue()


def addr(street: str, number: int) -> dict[str, Any]:
    return {"_1": street, "_2": number}


def test_values_of_real_flink() -> None:
    rows = pyspark_savepoint.open(str(FLINKX_SAVEPOINT)).table("keyed_state", uid_hash=SCALA).to_arrow().to_pylist()
    assert sorted(row["plain"] for row in rows) == [160, 161, 162]
    for row in rows:
        i = row["plain"]
        even, own = i % 2 == 0, addr(f"s{i}", i)
        assert row["key"] == {"_1": f"s{i % 5}", "_2": i % 40}
        assert row["opt"] == (f"o{i}" if even else None)
        assert row["seq"] == [own, addr("z", 1)]
        assert row["either"] == {"left": f"L{i}" if even else None, "right": None if even else own}
        assert row["tup"] == {"_1": i, "_2": f"t{i}", "_3": i / 2}
        assert row["t2"] == {"_1": i, "_2": i}
        assert row["smap"] == [(f"x{i}", own)]
        held = {j % 3: addr(f"s{j}", j) if j % 2 == 0 else None for j in range(i % 40, i + 1, 40)}
        assert {key["_2"]: value for key, value in row["map"]} == held
        kinds = ("Circle", "Point", "Square", "Line")
        shape = dict.fromkeys(kinds) | {kinds[i % 4]: ({"_1": 1.5}, True, {"_1": float(i)}, True)[i % 4]}
        assert row["shapes"][-1] == shape
        assert row["more"] == {
            "_1": f"{i // 100}.{i % 100:02}",
            "_2": Decimal(i * 10**19),
            "_3": [f"a{i}", "b"],
            "_4": [i],
            "_5": [own, addr("z", 1)],
            "_6": shape,
            "_7": [{"_1": "a", "_2": 1.5}, {"_1": "b", "_2": None}] if even else None,
            "_8": [(i, [1, i])],
            "_9": None,
            "_10": [i, -i],
        }


def test_what_real_flink_wrote_is_written_byte_for_byte(operator: OperatorMigration) -> None:
    plans = {name: plan for (name, timers), plan in operator.keyed_plans.items() if not timers}
    for plan in plans.values():
        for serializer in plan.meta.serializers.values():
            assert read_serializer(snapshot(serializer)) == serializer
    for name in ("opt", "seq", "either", "tup", "t2", "smap", "more"):
        serializer = plans[name].meta.value_serializer
        values = [value for _, value in entries_of(operator, (name, False))]
        assert len(values) == 3
        assert encode(serializer, decode(serializer, *values)) == values


def case_class(*fields: TypeSerializer, version: int = 3) -> FlinkxCaseClassSerializer:
    return FlinkxCaseClassSerializer(f"{FLINKX}ScalaCaseClassSerializerSnapshot", 3, version, fields, "shop.Order")


def test_a_case_class_with_fields_that_came_later() -> None:
    serializer = case_class(LONG, STRING)
    check_value(serializer, bytes([0, 0, 0, 2, *bytes(7), 5, 2, 97]), {"_1": 5, "_2": "a"})
    assert decode(serializer, bytes([0, 0, 0, 1, *bytes(7), 5])).to_pylist() == [{"_1": 5, "_2": None}]
    check_value(case_class(), b"", {})
    for count in (0, 3, 255):
        with pytest.raises(CorruptStateError, match="do not match"):
            decode(serializer, bytes([0, 0, 0, count, *bytes(7), 5, 2, 97]))


def test_versions_of_snapshots() -> None:
    for serializer in (
        replace(case_class(LONG, version=2), is_immutable=False),
        replace(case_class(LONG), is_immutable=True),
        FlinkxCoproductSerializer(COPRODUCT, 2, 2, (LONG, STRING), ("a.B$C", "a.D$")),
        FlinkxCoproductSerializer(COPRODUCT, 3, 3, (LONG, STRING), ("a.B$C", "a.D$")),
    ):
        assert read_serializer(snapshot(serializer)) == serializer
    assert FlinkxCoproductSerializer(COPRODUCT, 3, 3, (LONG, LONG), ("a.B$C", "b.C")).names == ("a.B$C", "b.C")


def test_a_mutable_collection_may_be_null() -> None:
    name = f"{FLINKX}CollectionSerializerSnapshot"
    queue = FlinkxCollectionSerializer(name, 2, f"{FLINKX}MutableQueueSerializer", "java.lang.Long", LONG)
    null, two = b"\x80\0\0\0", b"\0\0\0\2" + bytes(7) + b"\1" + bytes(7) + b"\2"
    assert encode(queue, decode(queue, null, two)) == [null, two]
    assert decode(queue, null, two) == pa.array([None, [1, 2]], queue.arrow_type(None))  # type: ignore[arg-type]
    table = FlinkxMutableMapSerializer(MUTABLE_MAP, 1, (STRING, LONG))
    one = b"\0\0\0\1\2a" + bytes(7) + b"\3"
    assert decode(table, one, null).to_pylist() == [[("a", 3)], None]


def test_an_unknown_collection_is_bytes() -> None:
    name = f"{FLINKX}CollectionSerializerSnapshot"
    known = FlinkxCollectionSerializer(name, 2, f"{FLINKX}ListSerializer", "java.lang.Long", LONG)
    data = snapshot(known).replace(b"ListSerializer", b"BestSerializer")
    unknown = read_serializer(data)
    assert isinstance(unknown, OpaqueSerializer)
    assert snapshot(unknown) == data
