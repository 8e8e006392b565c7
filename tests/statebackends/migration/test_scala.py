"""Savepoint of a job in Scala on Flink 1.17, migrated to flink-scala-api: against what Flink 2.3 wrote of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.engines.migrating import Migration, migration_of
from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.errors import SavepointError, UnsupportedStateError
from pyspark_savepoint.formats.metadata.key_groups import key_groups_for_hashes
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.fields import CaseClassSerializer, TupleSerializer
from pyspark_savepoint.formats.serializers.composite.flinkx import (
    FLINKX,
    FlinkxCaseClassSerializer,
    FlinkxCollectionSerializer,
)
from pyspark_savepoint.formats.serializers.composite.wrappers import SCALA, TraversableSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.merging.entry_chunk import EntryChunk
from pyspark_savepoint.statebackends.migration.migration_plan import Knowledge, plan_migration
from pyspark_savepoint.statebackends.migration.rewriting.kryo_values import PartError
from pyspark_savepoint.statebackends.migration.rewriting.scala_keys import (
    ScalaKeyGroups,
    expect_hashes,
    scala_hash,
    string_hash,
)
from pyspark_savepoint.statebackends.migration.rewriting.state_programs import RoleProgram
from pyspark_savepoint.statebackends.migration.rewriting.target_types import TargetTypes
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationVerdict, Outcome
from pyspark_savepoint.statebackends.migration.value_scan import entries_of
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease
from tests.data import unpacked
from tests.formats.serializers.codec_checks import base

OLD = unpacked() / "real" / "scala-117" / "sp" / "savepoint-3ad733-cba679086401"
NEW = Path(__file__).parents[2] / "oracle" / "savepoints" / "flinkx" / "savepoint"
KEYED = ("74465f2ac40367e2bd0fa8fbbc306682", "974d7935b19050341dbeb1575c1cb099")
#: States of Try, Enumeration and, in Kryo, of a sealed trait.
DROPPED = ("day", "tr", "order", "list", "shape", "deep")
#: States of the new job alone.
ADDED = ("more", "shapes")
LONG, STRING, INT = base("Long"), base("String"), base("Int")


def migration(**more: Any) -> Migration:
    return migration_of(Snapshot.open(str(OLD)), "2.3", **{"drop": DROPPED, **more})


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The savepoint of Flink 1.17 after its migration."""
    path = tmp_path_factory.mktemp("scala") / "new"
    migration(types_from=Snapshot.open(str(NEW))).write(str(path))
    return path


def rows_of(path: Path, operator: str, **options: Any) -> dict[str, dict[str, Any]]:
    """The rows of an operator by key, with key groups."""
    table = pyspark_savepoint.open(str(path)).table("keyed_state", uid_hash=operator, include_key_group=True, **options)
    return {str(row.pop("key")): row for row in table.to_arrow().to_pylist()}


def entries(path: Path, operator: str) -> dict[Any, Any]:
    """Registrations and entries by state."""
    plans = plan_migration(Snapshot.open(str(path)), Knowledge(ExtractionRelease.parse("2.3")))
    (plan,) = (each for each in plans if str(each.operator.operator_id) == operator)
    return {state: (each.meta, dict(entries_of(plan, state))) for state, each in plan.keyed_plans.items()}


def test_bytes_are_those_that_flink_2_wrote(migrated: Path) -> None:
    """Of keys that both jobs have: snapshots, keys, values, and the key groups, which Scala 2.13 changed."""
    operator = KEYED[0]
    ours, theirs = entries(migrated, operator), entries(NEW, operator)
    assert ours.keys() == {state for state in theirs if state[0] not in ADDED}
    for state, (meta, found) in ours.items():
        assert meta == theirs[state][0]
        assert {key: found.get(key) for key in theirs[state][1]} == theirs[state][1]
    ours, theirs = rows_of(migrated, operator), rows_of(NEW, operator)
    assert {key: ours[key]["key_group"] for key in theirs} == {key: theirs[key]["key_group"] for key in theirs}
    before = rows_of(OLD, operator, state="plain")
    assert sum(before[key]["key_group"] != ours[key]["key_group"] for key in ours) > 30


def test_all_values_are_those_of_the_old_savepoint(migrated: Path) -> None:
    for operator in KEYED:
        new = rows_of(migrated, operator)
        names = [name for name in next(iter(new.values())) if name not in ("key_group", "subtask")]
        old = rows_of(OLD, operator, state=",".join(names))
        assert new.keys() == old.keys()
        for key, row in new.items():
            for name in names:
                expected = old[key][name]
                if name == "smap":
                    expected = [(pair["_1"], pair["_2"]) for pair in expected]
                elif name == "map":
                    expected = sorted(map(str, expected))
                found = row[name]
                assert (sorted(map(str, found)) if name == "map" else found) == expected, name
    timers = [
        pyspark_savepoint.open(str(path)).table("timers", uid_hash=KEYED[0]).to_arrow().to_pylist()
        for path in (OLD, migrated)
    ]
    by_time = [sorted(map(str, found)) for found in timers]
    assert len(by_time[0]) == 200
    assert by_time[0] == by_time[1]
    assert migration_of(Snapshot.open(str(migrated)), "2.3").check().restores


def test_the_check_says_what_flink_2_lacks() -> None:
    parts = {(part.ref.state, part.part): part for part in migration().check().parts}
    seq = parts["seq", ""]
    assert (seq.verdict, seq.outcome) == (MigrationVerdict.NEEDS, Outcome.FAILS)
    assert seq.row()["rocksdb"] == "fails when restoring"
    assert "types_from" in str(seq.remedy)
    for state, part in (("day", ""), ("order", "f6"), ("order", "f17")):
        assert parts[state, part].verdict is MigrationVerdict.IMPOSSIBLE
    told = {
        (part.ref.state, part.part): part
        for part in migration(types_from=Snapshot.open(str(NEW))).check().parts
        if part.ref.state not in DROPPED
    }
    assert {part.verdict for part in told.values()} == {MigrationVerdict.REWRITTEN, MigrationVerdict.AS_IS}
    assert (told["tup", ""].values, told["tup", ""].changed, told["tup", ""].outcome) == (40, 40, Outcome.FAILS)
    assert "other key groups" in str(told["key", ""].reason)


def test_without_the_new_job_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedStateError, match="nothing was written"):
        migration().write(str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def traversable(element: TypeSerializer) -> TraversableSerializer:
    return TraversableSerializer(f"{SCALA[0]}TraversableSerializerSnapshot", 3, 2, (element,), "a builder")


def collection(element: TypeSerializer, name: str = "List") -> FlinkxCollectionSerializer:
    return FlinkxCollectionSerializer(
        f"{FLINKX}CollectionSerializerSnapshot", 2, f"{FLINKX}{name}Serializer", "java.lang.Object", element
    )


def case_class(*fields: TypeSerializer) -> FlinkxCaseClassSerializer:
    return FlinkxCaseClassSerializer(f"{FLINKX}ScalaCaseClassSerializerSnapshot", 3, 3, fields, "shop.Order")


def rewritten(old: TypeSerializer, new: TypeSerializer, value: bytes) -> bytes:
    (plan, *_) = plan_migration(Snapshot.open(str(OLD)), Knowledge(ExtractionRelease.parse("2.3")))
    target = plan.knowledge.targets.of(old, new)
    assert target.serializer.flink_type == new.flink_type
    return RoleProgram.of(target, plan.change).program(old).whole(value)


def test_values_inside_others() -> None:
    """A case class in a tuple of Flink's, an array, and a type that the new job has otherwise."""
    order = parse_type("CASE_CLASS<shop.Order>(_1 INT, _2 STRING)")
    value, five = b"\0\0\0\5\2a", b"\0\0\0\5"
    old, new = TupleSerializer.of(INT, order, INT), TupleSerializer.of(INT, case_class(INT, STRING), INT)
    assert rewritten(old, new, five + value + five) == five + b"\0\0\0\2" + value + five
    array = parse_type("OBJECT_ARRAY<shop.Order>(CASE_CLASS<shop.Order>(_1 INT, _2 STRING))")
    found = rewritten(array, collection(case_class(INT, STRING), "Array"), b"\0\0\0\2\1" + value + b"\1" + value)
    assert found == b"\0\0\0\2" + (b"\0\0\0\2" + value) * 2
    knowledge = Knowledge(ExtractionRelease.parse("2.3"))
    types = TargetTypes(knowledge.release, knowledge.class_path)
    for other in (case_class(INT), case_class(STRING, STRING), collection(INT)):
        obstacles = [part.obstacle for part in types.of(order, other).parts if part.obstacle is not None]
        assert [each.verdict for each in obstacles] == [MigrationVerdict.IMPOSSIBLE]


def values(path: Path, state: str) -> tuple[TypeSerializer, list[bytes]]:
    """The serializer and the values of a state."""
    for plan in plan_migration(Snapshot.open(str(path)), Knowledge(ExtractionRelease.parse("2.3"))):
        if str(plan.operator.operator_id) == KEYED[0]:
            found = plan.keyed_plans[state, False]
            return found.meta.value_serializer, [value for _, value in entries_of(plan, (state, False))]
    raise AssertionError(state)


def fields(serializer: TypeSerializer, data: bytes, start: int, count: int) -> dict[int, bytes]:
    """The bytes of the first fields of a case class."""
    found = {}
    for place, part in enumerate(serializer.children[:count]):
        at = Cursors(
            np.frombuffer(data, np.uint8), np.array([start]), np.array([len(data)]), options=DecodeOptions(kryo=2)
        )
        part.decode(at)
        end = int(at.position[0])
        found[place], start = data[start:end], end
    return found


def test_numbers_that_kryo_wrote() -> None:
    """BigDecimal and BigInt of Flink 1.17 become the bytes that Flink 2.3 wrote of the same numbers."""
    old, orders = values(OLD, "order")
    new, others = values(NEW, "more")
    before = {int.from_bytes(value[:8], "big"): fields(old, value, 0, 11) for value in orders}
    for value in others:
        after = fields(new, value, 4, 2)
        held = before[int.from_bytes(after[0][4:-4], "big")]  # the digits of a BigDecimal of scale 2
        for place, target in ((2, 0), (10, 1)):
            parts = old.children[0], old.children[place]
            pair = CaseClassSerializer(old.snapshot_class, 3, 2, parts, "shop.Order")
            found = rewritten(pair, case_class(LONG, new.children[target]), held[0] + held[place])
            assert found == b"\0\0\0\2" + held[0] + after[target]
            with pytest.raises(PartError):
                rewritten(pair, case_class(LONG, new.children[target]), held[0] + b"\0")


def test_null_elements_and_damage_are_refused() -> None:
    old, new = traversable(LONG), collection(LONG)
    assert rewritten(old, new, b"\0\0\0\1\1" + bytes(8)) == b"\0\0\0\1" + bytes(8)
    with pytest.raises(PartError) as null:
        rewritten(old, new, b"\0\0\0\2\1" + bytes(8) + b"\0")
    assert isinstance(null.value.error, UnsupportedStateError)
    for damaged in (b"\0\0\0\2\1" + bytes(8), b"\x7f\xff\xff\xff\1", b"\xff\0\0\0", b"\0\0\0\1\1" + bytes(9), b""):
        with pytest.raises(SavepointError):
            rewritten(old, new, damaged)


def test_hashes_of_keys() -> None:
    assert string_hash("hello") == 99162322
    for kind, value, expected in (
        ("LONG", -5, -5), ("LONG", 1 << 40, 256), ("DOUBLE", 3.0, 3), ("DOUBLE", 2.0**40, 256),
        ("DOUBLE", 1.5, 1069547520), ("DOUBLE", 0.1, -1507852285), ("FLOAT", 1.5, 1069547520), ("BOOLEAN", True, 1231),
    ):  # fmt: skip
        serializer = parse_type(kind)
        column = pa.array([value], serializer.arrow_type(None))  # type: ignore[arg-type]
        assert scala_hash(serializer, column, names=True).tolist() == [expected], kind
    for key in (traversable(LONG), TupleSerializer.of(parse_type("OPTION<LONG>"))):
        with pytest.raises(SavepointError):
            expect_hashes(key)


def test_keys_with_a_hash_of_the_jobs_own_are_refused() -> None:
    key = parse_type("CASE_CLASS<shop.Order>(_1 INT)")
    data, zero, four = np.zeros(4, np.uint8), np.zeros(1, np.int64), np.full(1, 4, np.int64)
    hashes = scala_hash(key, pa.array([{"_1": 0}]), names=False)
    groups = ScalaKeyGroups(key, 128, frozenset())
    for group, fits in ((int(key_groups_for_hashes(hashes, 128)[0]), True), (3, False)):
        state, place = np.zeros(1, np.int32), np.full(1, group, np.int32)
        chunk = EntryChunk(data, data, state, place, zero, four, zero, zero, zero, zero)
        if fits:
            assert groups.of(chunk).tolist() != [group]
        else:
            with pytest.raises(UnsupportedStateError, match=r"Scala 2\.12"):
                groups.of(chunk)
