"""Objects of inner classes, which Kryo 2 writes with their outer objects, or without: it depends on flink-scala."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import VariantVal

import pyspark_savepoint
from pyspark_savepoint.command_line.warming import unpack
from pyspark_savepoint.engines.migrating import migration_of
from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.errors import UndecodableStateError, UnsupportedStateError
from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.migration.migration_work import Planned
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationVerdict
from pyspark_savepoint.statebackends.migration.value_scan import entries_of
from pyspark_savepoint.statebackends.rows.state_column import decode_either, decode_whole
from tests.data import unpacked
from tests.statebackends.migration.test_value_scan import migration

ARCHIVE = Path(__file__).parents[2] / "oracle" / "savepoints" / "inner-classes" / "1.20.5.tar.xz"
MIGRATION = unpacked() / "migration"
CLASSES = MIGRATION / "classes"
#: What 1.20.5 wrote with flink-scala: the class, b, this$0.
WRITTEN = bytes.fromhex("570104") + b"\x01\x00miglab.Model$KInne\xf2\x01\x02"
INNER = b"\x01\x00miglab.Model$KInner$I\xee\x01"
OUTER = b"\x01\x01miglab.Model$KInne\xf2\x01\x02"
KRYO = "KRYO<miglab.Model$KInner$In>"
POJO = "POJO<miglab.Around>(inner KRYO<miglab.Model$KInner$In>, text STRING)"


def around(inner: bytes, text: bytes) -> bytes:
    """A POJO with an object of an inner class before a string."""
    return b"\x02\0" + inner + b"\0" + bytes([len(text) + 1]) + text


def values(path: str) -> list[Any]:
    table = pyspark_savepoint.open(path, classes=[CLASSES]).keyed_state("late", raw="key")
    return sorted(table.to_arrow().column("v").to_pylist(), key=repr)


def rewritten(path: Path) -> list[bytes]:
    (plan,) = [plan for plan in migration_of(Snapshot.open(str(path)), "2.3")._planned().plans if plan.keyed_plans]
    return sorted(value for _, value in entries_of(plan, ("v", False)))


def test_the_savepoint_of_a_job_with_flink_scala_has_outer_objects() -> None:
    of_inner = Snapshot.open(str(MIGRATION / "cases" / "kryo-u-inner" / "1.20.5-hashmap"))
    (plan,) = [plan for plan in migration_of(of_inner, "2.3")._planned().plans if plan.keyed_plans]
    assert WRITTEN in [value for _, value in entries_of(plan, ("v", False))]


def test_objects_are_the_same_with_and_without_their_outer_objects(tmp_path: Path) -> None:
    made = []
    for name, outer in (("with", OUTER), ("without", b"")):
        old = migration(tmp_path / name, [INNER + b"\4" + outer, INNER + b"\x06" + outer], KRYO, classes=[CLASSES])
        (part,) = [part for part in old.check().parts if part.ref.state == "v"]
        assert part.verdict is MigrationVerdict.IS_LOST
        assert (part.values, "outer object" in str(part.reason)) == (2, True)
        assert values(str(tmp_path / name)) == [{"b": 2}, {"b": 3}]
        old.write(str(tmp_path / f"{name}-new"))
        made.append(rewritten(tmp_path / f"{name}-new"))
    assert made[0] == made[1]


@pytest.mark.parametrize("outer", [OUTER, b""])
def test_other_values_show_the_form_of_one_that_can_be_read_in_two_ways(outer: bytes, tmp_path: Path) -> None:
    written = [around(INNER + b"\4" + outer, text) for text in (b"", b"ab")]
    old = migration(tmp_path / "old", written, POJO, classes=[CLASSES])
    (part,) = [part for part in old.check().parts if part.ref.state == "v"]
    assert (part.verdict, part.values) == (MigrationVerdict.IS_LOST, 2)
    assert [each["text"] for each in values(str(tmp_path / "old"))] == ["", "ab"]
    old.write(str(tmp_path / "new"))
    found = pyspark_savepoint.open(tmp_path / "new", classes=[CLASSES]).keyed_state("late", raw="key").to_arrow()
    assert sorted(each["text"] for each in found.column("v").to_pylist()) == ["", "ab"]


def test_processes_that_write_know_the_form_that_others_have_found(tmp_path: Path) -> None:
    written = [around(INNER + b"\4", text) for text in (b"", b"ab")]
    old = migration(tmp_path / "old", written, POJO, classes=[CLASSES])
    planned = Planned(old.source, old.knowledge)
    known = planned.knowing(old._scanned(planned, lambda work: {n: work.run(n) for n in range(len(work.pieces))}))
    (plan,) = [plan for plan in known.unopened().plans if plan.keyed_plans]
    assert plan.change is not None
    assert plan.change.synthetic.proven is False


def test_a_value_that_can_be_read_in_two_ways_is_refused(tmp_path: Path) -> None:
    old = migration(tmp_path / "old", [around(INNER + b"\4", b"")], POJO, classes=[CLASSES])
    (part,) = [part for part in old.check().parts if part.ref.state == "v"]
    assert part.verdict is MigrationVerdict.NEEDS
    assert "can be read in both ways" in str(part.reason)
    with pytest.raises(UnsupportedStateError, match="both ways"):
        old.write(str(tmp_path / "new"))
    with pytest.raises(UndecodableStateError, match="both readings are possible"):
        values(str(tmp_path / "old"))


@pytest.mark.parametrize(
    ("values", "times"),
    [
        ([INNER + b"\4" + OUTER] * 3, 1),
        ([INNER + b"\4"] * 3, 1),
        ([INNER + b"\4\0"] * 3, 2),  # without an outer object, although there is a field for it
    ],
)
def test_values_are_decoded_in_the_other_form_only_if_none_of_them_shows_its_own(
    values: list[bytes], times: int
) -> None:
    job = JobClasses.of((str(CLASSES),))
    assert job is not None
    serializer = job.described(KryoSerializer.of("miglab.Model$KInner$In"))
    ends = np.cumsum([0, *map(len, values)])
    at = Cursors(
        np.frombuffer(b"".join(values), np.uint8), ends[:-1].copy(), ends[1:].copy(), options=DecodeOptions(kryo=2)
    )
    forms = []

    def decode(here: Cursors) -> pa.Array:
        forms.append(here.options.synthetic)
        return decode_whole(serializer, here)

    assert decode_either(serializer, at, decode).to_pylist() == [{"b": 2}] * 3
    assert forms == [True, False][:times]


NUMBERED = [{"n": n, "text": f"t{n}", "texts": ["a"]} for n in (1, 300)]
SEVENTH = {"n": 7, "text": "t7", "texts": ["a"]}
#: The values of cases of which real Flink has written savepoints without flink-scala, by name.
REAL = {
    "anonymous": [{"held": 1, "text": "x1"}, {"held": 300, "text": "x300"}],
    "inner": [NUMBERED[0], {"n": 200, "text": "t200", "texts": ["a"]}],
    "inner-in-list": [[NUMBERED[0], {"n": 2, "text": "t2", "texts": ["a"]}, None]],
    "inner-in-list-state": [NUMBERED],
    "inner-in-map-state": [list(enumerate(NUMBERED))],
    "inner-in-operator-list": NUMBERED,
    "inner-in-pojo": [
        {"inner": SEVENTH, "size": "SMALL", "text": ""},
        {"inner": SEVENTH, "size": "LARGE", "text": "abc"},
    ],
    "inner-in-pojo-empty": [{"inner": SEVENTH, "size": None, "text": ""}],
}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The savepoints and classes of the archive, which real Flink wrote."""
    folder = tmp_path_factory.mktemp("inner-classes")
    unpack(ARCHIVE, folder)
    return folder


def state_of(path: Path, classes: Path, case: str) -> list[Any]:
    opened = pyspark_savepoint.open(path, classes=[classes], variants="variant")
    if case == "inner-in-operator-list":
        column = opened.operator_state("state", "v").to_arrow().column("value")
    else:
        column = opened.keyed_state("state").to_arrow().sort_by("key").column("v")
    return [
        VariantVal(**each).toPython() if isinstance(each, dict) and "metadata" in each else each
        for each in column.to_pylist()
    ]


@pytest.mark.parametrize("form", ["canonical", "native"])
@pytest.mark.parametrize("case", REAL)
def test_real_values_without_outer_objects_are_read_and_migrated(
    real: Path, case: str, form: str, tmp_path: Path
) -> None:
    old = real / form / case
    assert state_of(old, real / "classes", case) == REAL[case]
    made = migration_of(Snapshot.open(str(old)), "2.3", classes=[real / "classes"]).write(str(tmp_path / "new"))
    lost = [part for part in made.parts if part.verdict is MigrationVerdict.IS_LOST]
    assert ["outer object" in str(part.reason) for part in lost] == [True]
    assert state_of(tmp_path / "new", real / "classes", case) == REAL[case]
