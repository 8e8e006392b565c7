"""A scan reads all values: an obstacle in the last value also stops a migration before it writes; all are listed."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.engines.migrating import Migration, migration_of
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.metadata import write_metadata
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_versioned
from pyspark_savepoint.formats.snapshot.changes import target_version
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.migration.findings import from_json, to_json
from pyspark_savepoint.statebackends.migration.migration_work import Planned, ScanWork
from pyspark_savepoint.statebackends.migration.rewriting.state_programs import VALUE
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationVerdict, Outcome
from pyspark_savepoint.statebackends.migration.value_scan import SAMPLE, entries_of
from pyspark_savepoint.statebackends.rows.descriptors import NO_NAMESPACE, TimerQueue
from pyspark_savepoint.statebackends.rows.entry_bytes import ENTRIES
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.sources.raw_timers import MAGIC, VERSION
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease
from pyspark_savepoint.statebackends.type_extraction.words import TypeInference
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.planning.edited_header import timer_meta
from pyspark_savepoint.statebackends.writing.planning.planned_write import PartOfWrite
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from tests.data import unpacked
from tests.oracle.fleet import unpacked as unpacked_fleet

#: A savepoint of 1.20.5 with a state that Kryo writes, of type Object.
OBJECTS = str(unpacked() / "migration" / "cases" / "kryo-object" / "1.20.5-hashmap")
UID_HASH = "0dccc6d845eac8e1b962e0ff56612b4e"
TEXT = bytes.fromhex("03018261")
SHORT = bytes.fromhex("070102")
LIST_OF_TEXT = b"\x01\0java.util.ArrayLis\xf4\x01\x01\x03\x01\x82a"


def of_class(name: str) -> bytes:
    """An object without fields, as Kryo 2 writes it."""
    return b"\x01\x00" + name[:-1].encode() + bytes([ord(name[-1]) | 0x80, 1])


def of_type(text: str) -> TypeSerializer:
    return TypeInference(ExtractionRelease.parse("1.20"), ()).parse(text, container=False, kryo=True)


def migration(
    path: Path,
    values: list[bytes],
    value_type: str | None = None,
    *,
    keys: tuple[str, list[bytes]] | None = None,
    is_timer: bool = False,
    **known: Any,
) -> Migration:
    """A migration of a state ``v``; ``keys`` are their type and bytes, if they are not numbers."""
    objects = Snapshot.open(OBJECTS)
    (header,) = OpenOperator(objects, objects.operator(uid_hash=UID_HASH)).keyed.headers[:1]
    if value_type is not None:
        own = {VALUE: of_type(value_type)}
        states = tuple(
            replace(meta, serializers={**meta.serializers, **own}) if meta.name == "v" else meta
            for meta in header.states
        )
        header = replace(header, states=states)
    of_keys = [struct.pack(">q", key) + b"\0" for key in range(len(values))]
    if keys is not None:
        header = replace(header, key_serializer=of_type(keys[0]))
        of_keys = [key + b"\0" for key in keys[1]]
    if is_timer:
        namespace = next(meta.namespace_serializer for meta in header.states if meta.name == "v")
        timers = timer_meta(TimerQueue("event", "late", header.key_serializer, namespace))
        header = replace(header, states=(timers,))
        of_keys = [struct.pack(">Q", 1 << 63 | time) + key for time, key in enumerate(of_keys)]
    groups = [key * 128 // len(values) for key in range(len(values))]
    columns = [
        pa.array([0] * len(values), pa.int32()),
        pa.array(groups, pa.int32()),
        pa.array(of_keys),
        pa.array(values),
    ]
    table = pa.table(columns, ENTRIES)
    spec = WriteSpec(uid="late", table="entries", flink_version=(1, 20), max_parallelism=128)
    part = PartOfWrite(Staging.at(str(path)), str(path), spec, None, target_version([], (1, 20)), header)
    plan = replace(part.plan(table.schema, None), existed=False)
    commit(plan, [write_rows(plan, 0, table.to_batches())])
    return migration_of(Snapshot.open(str(path)), "2.3", **known)


def test_classes_that_come_late_are_known_before_anything_is_written(tmp_path: Path) -> None:
    late = migration(tmp_path / "old", [TEXT] * (SAMPLE + 10) + [of_class("com.shop.A"), TEXT, of_class("com.shop.B")])
    (part,) = [part for part in late.check().parts if part.ref.state == "v"]
    assert (part.verdict, part.outcome, part.values) == (MigrationVerdict.NEEDS, Outcome.UNKNOWN, SAMPLE + 11)
    assert all(name in str(part.reason) for name in ("com.shop.A", "com.shop.B"))
    with pytest.raises(UnsupportedStateError, match="nothing was written"):
        late.write(str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


PAGE = "POJO<com.shop.Page>(id INT)"


def page(number: int, subclass: str | None = None) -> bytes:
    """A page as Flink writes it; one of a subclass has a field more, a list that Kryo 2 wrote."""
    own = b"\0" + struct.pack(">i", number)
    if subclass is None:
        return b"\x02" + own
    name = subclass.encode()
    return b"\x04" + struct.pack(">H", len(name)) + name + b"\x02" + own + b"\0" + LIST_OF_TEXT


@pytest.mark.parametrize(("value_type", "before"), [(PAGE, b""), (f"TUPLE<INT, {PAGE}>", bytes(4))])
def test_a_subclass_that_the_snapshot_does_not_list_may_have_parts_of_kryo(
    tmp_path: Path, value_type: str, before: bytes
) -> None:
    """The type has no part that changes; bytes of a number that look like the flag of a subclass are not one."""
    alike = int.from_bytes(b"\x04\0\x01a", "big")
    pages = [before + page(number) for number in (1, alike, 3)]
    listed = migration(tmp_path / "listed", pages, value_type)
    (part,) = [part for part in listed.check().parts if part.ref.state == "v"]
    assert (part.verdict, part.outcome) == (MigrationVerdict.AS_IS, Outcome.RESTORES)
    listed.write(str(tmp_path / "listed-new"))
    hidden = migration(tmp_path / "hidden", [*pages, before + page(4, "com.shop.Archived")], value_type)
    (part,) = [part for part in hidden.check().parts if part.ref.state == "v"]
    assert (part.verdict, part.outcome) == (MigrationVerdict.NEEDS, Outcome.UNKNOWN)
    assert "com.shop.Archived" in str(part.reason)
    with pytest.raises(UnsupportedStateError, match="nothing was written"):
        hidden.write(str(tmp_path / "hidden-new"))
    assert not (tmp_path / "hidden-new").exists()


VEHICLE = "POJO<oracle.Fleet$Vehicle>(id LONG, load POJO<oracle.Fleet$Load>(weight LONG), plate STRING)"


def vehicle(number: int, *, is_trailer: bool) -> bytes:
    """A vehicle, or a trailer, which has a list."""
    same = struct.pack(">bqbb", 0, number, 1, 1)  # id, no load, no plate
    if not is_trailer:
        return b"\x02" + same
    name = b"oracle.Fleet$Trailer"
    axles, stops = struct.pack(">bi", 0, 2), b"\0\x01\0java.util.ArrayLis\xf4\x01\x01\x09\x0e"
    return b"\x04" + struct.pack(">H", len(name)) + name + b"\x02" + axles + same + stops


@pytest.mark.parametrize("where", ["value", "tuple", "key", "timer"])
def test_parts_of_subclasses_that_class_files_show_are_rewritten_and_back(tmp_path: Path, where: str) -> None:
    classes = str(unpacked_fleet("1.20.5-hashmap-native", tmp_path) / "classes")
    alike = int.from_bytes(b"\x04\0\x01abcde", "big")
    objects = [vehicle(number, is_trailer=number % 3 == 0) for number in (1, alike, 3, 5, 6, 7, 8, 9)]
    if where in ("key", "timer"):
        values = [b""] * 8 if where == "timer" else [TEXT] * 8
        made = migration(tmp_path / "old", values, keys=(VEHICLE, objects), is_timer=where == "timer", classes=classes)
    else:
        is_plain = where == "value"
        values, type_text = (
            (objects, VEHICLE) if is_plain else ([bytes(4) + v for v in objects], f"TUPLE<INT, {VEHICLE}>")
        )
        made = migration(tmp_path / "old", values, type_text, classes=classes)
    parts = [part for part in made.check().parts if part.part == "oracle.Fleet$Trailer.stops"]
    assert [(part.verdict, part.values, part.changed) for part in parts] == [(MigrationVerdict.REWRITTEN, 3, 3)]
    made.write(str(tmp_path / "new"))
    new = migration_of(Snapshot.open(str(tmp_path / "new")), "1.20", classes=classes)
    assert migration_of(new.source, "2.3", classes=classes).check().restores
    new.write(str(tmp_path / "back"))

    def entries(path: str) -> list[Any]:
        of = migration_of(Snapshot.open(str(tmp_path / path)), "1.20", classes=classes)._planned().plans
        return [sorted(entries_of(plan, state)) for plan in of for state in plan.keyed_plans if plan.keyed]

    old, changed, back = entries("old"), entries("new"), entries("back")
    assert back == old != changed


RAW = "POJO<com.shop.Raw>(all KRYO<java.lang.Object>, id INT)"
RAW_VALUE = b"\x02\0\x01\0java.util.ArrayLis\xf4\x01\x03\x03\x01\x82a\x03\x01\x82b\x03\x01\x82c\0" + bytes(4)


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ("", Outcome.WRONG_OR_FAILS),
        ("com.shop.Raw(all Object, id INT)", Outcome.FAILS),
    ],
)
def test_a_null_in_a_primitive_field_fails(tmp_path: Path, fields: str, outcome: Outcome) -> None:
    """Kryo 5 leaves bytes of the list, which Flink takes for the flag of a null."""
    (part,) = [p for p in migration(tmp_path / "old", [RAW_VALUE], RAW, kryo_types=fields).check().parts if p.part]
    assert (part.verdict, part.outcome) == (MigrationVerdict.REWRITTEN, outcome)


@pytest.mark.parametrize("is_timer", [False, True])
def test_subclasses_of_pojos_are_looked_for_in_keys(tmp_path: Path, is_timer: bool) -> None:
    values = [b""] * 2 if is_timer else [TEXT] * 2
    plain = migration(tmp_path / "plain", values, keys=(PAGE, [page(1), page(2)]), is_timer=is_timer)
    assert all(part.outcome is Outcome.RESTORES for part in plain.check().parts)
    keys = (PAGE, [page(1), page(2, "com.shop.Archived")])
    hidden = migration(tmp_path / "hidden", values, keys=keys, is_timer=is_timer)
    (part,) = [part for part in hidden.check().parts if part.ref.state == "key"]
    assert (part.verdict, part.outcome) == (MigrationVerdict.NEEDS, Outcome.UNKNOWN)
    with pytest.raises(UnsupportedStateError, match=r"com\.shop\.Archived"):
        hidden.write(str(tmp_path / "new"))


@pytest.mark.parametrize("known", [True, False])
def test_timers_of_keys_that_kryo_wrote_are_rewritten(tmp_path: Path, known: bool) -> None:
    kryo_types = "com.shop.Code(price DOUBLE)" if known else ""
    keys = ("KRYO<com.shop.Code>", [b"\x01\0com.shop.Cod\xe5\x01" + struct.pack(">d", 1.5)])
    made = migration(tmp_path / "old", [b""], keys=keys, is_timer=True, kryo_types=kryo_types)
    if known:
        made.write(str(tmp_path / "new"))
        again = migration_of(Snapshot.open(str(tmp_path / "new")), "2.3").check()
        assert again.restores
    else:
        with pytest.raises(UnsupportedStateError, match=r"com\.shop\.Code"):
            made.write(str(tmp_path / "new"))


CODE = b"\x01\0com.shop.Cod\xe5\x01" + struct.pack(">d", 1.5)


def with_raw_timer(path: Path, key_type: str, key: bytes) -> Migration:
    """A migration of a savepoint of values by numbers, to which raw keyed state with one timer is added."""
    migration(path, [SHORT] * 2)
    out = DataOutputView()
    out.write(MAGIC + struct.pack(">ii", VERSION, 1))
    out.write_utf("late")
    write_versioned(of_type(key_type), out)
    write_versioned(NO_NAMESPACE, out)
    out.write(struct.pack(">i", 1) + key + b"\0" + struct.pack(">qi", 77, 0))
    savepoint = Snapshot.open(str(path))
    (operator,) = savepoint.operators
    offsets = KeyGroupRangeOffsets(KeyGroupRange(0, 127), (0, *[-1] * 127))
    raw = KeyGroupsStateHandle(offsets, ByteStreamStateHandle("raw", out.getvalue()), None)
    subtasks = {0: replace(operator.subtasks[0], raw_keyed_state=raw)}
    changed = replace(savepoint.metadata, operators=(replace(operator, subtasks=subtasks),))
    (path / "_metadata").write_bytes(write_metadata(changed))
    return migration_of(Snapshot.open(str(path)), "2.3")


def raw_state(path: Path) -> list[bool]:
    return [
        subtask.raw_keyed_state is not None
        for operator in Snapshot.open(str(path)).operators
        for subtask in operator.subtasks.values()
    ]


def test_timers_in_raw_state_whose_keys_are_not_known_have_a_verdict(tmp_path: Path) -> None:
    """All else is listed; they can be left out, kept, or described."""
    made = with_raw_timer(tmp_path / "old", "KRYO<com.shop.Code>", CODE)
    rows = {row["state"]: row for row in made.check().to_arrow().to_pylist()}
    assert rows.keys() == {"timers", "v", "key"}
    assert (rows["timers"]["verdict"], rows["timers"]["hashmap"], rows["timers"]["kind"]) == (
        "needs",
        "unknown",
        "TIMER",
    )
    assert "KRYO<com.shop.Code>" in rows["timers"]["reason"]
    assert "'classes'" in rows["timers"]["remedy"]
    assert (rows["v"]["verdict"], rows["v"]["values"]) == ("rewritten", 2)
    source = made.source
    with pytest.raises(UnsupportedStateError, match="nothing was written"):
        made.write(str(tmp_path / "refused"))
    migration_of(source, "2.3", drop=["late.timers"]).write(str(tmp_path / "without"))
    assert raw_state(tmp_path / "without") == [False]
    migration_of(source, "2.3", as_is=["late.timers"]).write(str(tmp_path / "kept"))
    assert raw_state(tmp_path / "kept") == [True]
    same = migration_of(source, "1.19").check()
    assert same.restores


def test_timers_in_raw_state_can_be_left_out(tmp_path: Path) -> None:
    source = with_raw_timer(tmp_path / "old", "LONG", struct.pack(">q", 7)).source
    migration_of(source, "2.3", drop=["_timer_state/event_late"]).write(str(tmp_path / "new"))
    assert raw_state(tmp_path / "new") == [False]
    states = {part.ref.state for part in migration_of(Snapshot.open(str(tmp_path / "new")), "2.3").check().parts}
    assert states == {"_timer_state/processing_late", "v", "key"}


@pytest.mark.parametrize(
    ("value", "package", "has"),
    [
        (b"\x01\0java.io.Fil\xe5\x01\x01a\xe2", "java.io", True),
        (b"\x01\0java.math.MathContex\xf4\x01\x0e\x01\x05", "java.math", False),
    ],
)
def test_classes_of_java_whose_fields_kryo_sets_need_opened_packages(
    tmp_path: Path, value: bytes, package: str, has: bool
) -> None:
    check = migration(tmp_path / "old", [value]).check()
    (row,) = [row for row in check.to_arrow().to_pylist() if row["state"] == "v"]
    (needed,) = check.opening
    assert f"--add-opens=java.base/{package}=ALL-UNNAMED" in needed
    assert ("as its own config.yaml has it" in needed) is has
    assert (row["verdict"], row["hashmap"], row["reason"]) == ("as is", "restores", needed)


def test_classes_of_java_that_flink_takes_for_pojos_need_opened_packages(tmp_path: Path) -> None:
    """Flink sets the private ``ID`` of a ``TimeZone``; without one no package must be opened."""
    zoned = "POJO<com.shop.Zoned>(name STRING, zone POJO<java.util.TimeZone>(ID STRING))"
    value = b"\x02\0\x02n\0" + b"\x02\0\x04UTC"
    check = migration(tmp_path / "old", [value], zoned).check()
    (row,) = [row for row in check.to_arrow().to_pylist() if row["state"] == "v"]
    (needed,) = check.opening
    assert "--add-opens=java.base/java.util=ALL-UNNAMED" in needed
    assert "java.util.TimeZone" in needed
    assert (row["verdict"], row["reason"]) == ("as is", needed)
    migration_of(Snapshot.open(str(tmp_path / "old")), "2.3").write(str(tmp_path / "new"))
    back = migration_of(Snapshot.open(str(tmp_path / "new")), "1.20").check()
    (row,) = [row for row in back.to_arrow().to_pylist() if row["state"] == "v"]
    assert (row["verdict"], row["hashmap"]) == ("as is", "unknown")
    assert row["reason"].endswith("objects of Java's own subclasses of java.util.TimeZone")
    other = value.replace(b"\x02\0\x04UTC", b"\x02\0\0\0\0\x01")
    assert not migration(tmp_path / "other", [other], f"POJO<com.shop.Zoned>(name STRING, zone {PAGE})").check().opening


@pytest.mark.parametrize(
    ("value", "verdict", "outcome"),
    [
        (
            b"\x01\0java.util.KeyValueHolde\xf2\x01\x03\x01\x82a\x02\x02",
            MigrationVerdict.AS_IS,
            Outcome.RESTORES,
        ),
        (
            b"\x01\0java.util.concurrent.PriorityBlockingQueu\xe5\x01\x02\x02\x02\x02\x04",
            MigrationVerdict.REWRITTEN,
            Outcome.WRONG_VALUES,
        ),
        (
            b"\x01\0java.util.ArrayList$SubLis\xf4\x01\x02\x02\x02\x02\x04",
            MigrationVerdict.IMPOSSIBLE,
            Outcome.FAILS,
        ),
        (
            b"\x01\0com.shop.Order$$Lambda$642/0x00007fbc5953983\xb0\x01",
            MigrationVerdict.IMPOSSIBLE,
            Outcome.FAILS,
        ),
    ],
)
def test_classes_that_java_makes_are_known(
    tmp_path: Path, value: bytes, verdict: MigrationVerdict, outcome: Outcome
) -> None:
    (part,) = [part for part in migration(tmp_path / "old", [value]).check().parts if part.ref.state == "v"]
    assert (part.verdict, part.outcome) == (verdict, outcome), part.reason


def test_pieces_find_together_what_one_scan_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of pieces changes no verdict, and results pass between processes as JSON."""
    one = migration(tmp_path / "old", [TEXT, SHORT] * 50)
    work = ScanWork(Planned(one.source, one.knowledge))
    (whole,) = (work.run(number) for number in range(len(work.pieces)))
    monkeypatch.setattr("pyspark_savepoint.statebackends.migration.value_scan.PIECE", 100)
    several = ScanWork(Planned(one.source, one.knowledge))
    found = several.findings({number: several.run(number) for number in range(len(several.pieces))})
    assert len(several.pieces) > 4
    assert found == {0: from_json(whole)}
    assert from_json(to_json(found[0])) == found[0]
    (part,) = found[0]["keyed v"].parts.values()
    assert (part.values, part.changed, found[0]["keyed v"].outcome) == (100, 50, Outcome.WRONG_VALUES)


def test_primitive_fields_of_pojos_in_lists_go_back(tmp_path: Path) -> None:
    """A POJO in a list that Flink 2 wrote is an object of Kryo's in Flink 1."""
    order = "POJO<com.shop.Order>(lines {})"
    value = b"\x02\0\x01\0java.util.ArrayLis\xf4\x01\x01\x01\x01com.shop.Lin\xe5\x01\x0e"
    types = {"v": order.format("LIST<POJO<com.shop.Line>(id INT)>")}
    known = {"kryo_types": "com.shop.Line(id INT)"}
    made = migration(tmp_path / "old", [value], order.format("KRYO<java.util.List>"), types=types, **known)
    made.write(str(tmp_path / "new"))
    back = {"v": order.format("KRYO<java.util.List>")}
    migration_of(Snapshot.open(str(tmp_path / "new")), "1.20", types=back, **known).write(str(tmp_path / "back"))
    (plan,) = [
        plan for plan in migration_of(Snapshot.open(str(tmp_path / "back")), "1.20")._planned().plans if plan.keyed
    ]
    assert [each for _, each in entries_of(plan, ("v", False))] == [value]
