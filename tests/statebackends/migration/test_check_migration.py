"""Predictions of the check, compared with how real Flink 2.2.1 restored 194 savepoints that 1.20.5 wrote."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.engines.migrating import migration_of
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.sql.rowdata import RAW_VALUE
from pyspark_savepoint.formats.serializers.sql.table_data import RawValueDataSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.migration.migration_plan import Knowledge
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import (
    MigrationCheck,
    MigrationVerdict,
    Outcome,
    Stage,
)
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease
from tests.data import unpacked

MIGRATION = unpacked() / "migration"
CASES: dict[str, Any] = json.loads((MIGRATION / "outcomes.json").read_text())["cases"]
REAL = {"equal": Outcome.RESTORES, "DIFFERENT": Outcome.WRONG_VALUES, "FAILED": Outcome.FAILS}


def checked(case: str, backend: str = "hashmap", *, told: bool = True, classes: bool = True) -> MigrationCheck:
    folder = MIGRATION / "cases" / case
    new = folder / "2.3.0-hashmap"
    migration = migration_of(
        Snapshot.open(str(folder / f"1.20.5-{backend}")),
        "2.3",
        classes=[MIGRATION / "classes"] if classes else None,
        types_from=Snapshot.open(str(new)) if told and new.exists() else None,
    )
    return migration.check()


def predicted(check: MigrationCheck) -> Outcome:
    return max((part.outcome for part in check.parts), key=lambda outcome: outcome.severity)


def test_the_check_foretells_what_flink_does() -> None:
    """The check never predicts a restore for state on which Flink fails, or that it restores with other values."""
    found = Counter(
        (predicted(checked(case)), REAL[real["asIs"]["2.2.1 hashmap"]["outcome"]]) for case, real in CASES.items()
    )
    assert not [pair for pair in found if pair[0] is Outcome.RESTORES and pair[1] is not Outcome.RESTORES]
    assert sum(count for (said, real), count in found.items() if said is real) >= 189, found
    assert all(said in (real, Outcome.UNKNOWN) for said, real in found), found


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_check_foretells_when_flink_fails(backend: str) -> None:
    """Flink compares serializers when a state is registered; RocksDB has decoded nothing by then."""
    wrong, stages = [], Counter[Stage]()
    for case, real in CASES.items():
        outcome = real["asIs"][f"2.2.1 {backend}"]
        parts = [part for part in checked(case).parts if part.outcome is Outcome.FAILS]
        if outcome["outcome"] != "FAILED" or not parts:
            continue
        decodes_late = backend == "rocksdb" and all(part.ref.keyed for part in parts)
        stage = Stage.ACCESS if decodes_late else Stage.RESTORING
        if outcome["message"].startswith("StateMigrationException"):
            stage = Stage.REGISTRATION
        stages[stage] += 1
        wrong += [case for part in parts if part.row()[backend] != stage]
    # A null for an int, and what stands between the elements of a list, are not predicted; the map without its content
    # is restored, and fails where the job uses it.
    allowed = {"pojo-all", "liststate-pojo-list", "mapstate-list-key", "kryo-unmodifiable-map"}
    assert set(wrong) <= (allowed if backend == "hashmap" else set())
    later = Stage.ACCESS if backend == "rocksdb" else Stage.RESTORING
    assert stages[Stage.REGISTRATION] >= 31, stages
    assert stages[later] >= 42, stages


@pytest.mark.parametrize("case", ["pojo-all", "mapstate-uuid-key", "union-uuid", "ttl-pojo-list", "kryo-u-objects"])
def test_the_backend_that_wrote_a_savepoint_changes_no_verdict(case: str) -> None:
    hashmap, rocksdb = (
        sorted((part.ref.state, part.part, part.verdict, part.outcome) for part in checked(case, backend).parts)
        for backend in ("hashmap", "rocksdb")
    )
    assert hashmap == rocksdb


def test_parts_of_a_type_have_verdicts_of_their_own() -> None:
    parts = {part.part: part for part in checked("pojo-all", told=False).parts if part.ref.state == "v"}
    assert parts["tags"].new_type == "NULLABLE<LIST<NULLABLE<STRING>>>"
    assert (parts["tags"].verdict, parts["tags"].outcome) == (MigrationVerdict.REWRITTEN, Outcome.FAILS)
    assert (parts["byCity"].verdict, parts["byCity"].outcome) == (MigrationVerdict.REWRITTEN, Outcome.FAILS)
    assert parts["seen"].verdict is MigrationVerdict.IS_LOST
    assert "java.util.LinkedHashSet" in str(parts["seen"].reason)


def test_without_class_files_the_check_says_what_it_needs() -> None:
    parts = {part.part: part for part in checked("pojo-all", told=False, classes=False).parts if part.ref.state == "v"}
    assert (parts["tags"].verdict, parts["tags"].outcome) == (MigrationVerdict.NEEDS, Outcome.UNKNOWN)
    assert "classes" in str(parts["tags"].remedy)


def test_a_serializer_that_only_the_new_job_registers_is_an_obstacle() -> None:
    """2.3 wrote the objects by their fields; the job that restores them has its own Kryo serializer for them."""
    case = MIGRATION / "cases" / "kryo-default-serializer-dropped"
    told = Snapshot.open(str(case / "1.20.5-hashmap"))
    check = migration_of(
        Snapshot.open(str(case / "2.3.0-hashmap")), "1.20", classes=[MIGRATION / "classes"], types_from=told
    ).check()
    (part,) = [part for part in check.parts if part.verdict is MigrationVerdict.IMPOSSIBLE]
    assert part.reason == (
        "the new job registers a Kryo serializer of its own for miglab.Model$KCustom, which would misread the object"
    )


def test_a_class_that_was_moved_is_rewritten(tmp_path: Path) -> None:
    source = Snapshot.open(str(MIGRATION / "flows" / "two-phase-sink" / "1.20.5-hashmap"))
    parts = [part for part in migration_of(source, "2.3").check().parts if part.verdict is not MigrationVerdict.AS_IS]
    assert [(part.verdict, part.outcome) for part in parts] == [(MigrationVerdict.REWRITTEN, Outcome.FAILS)]
    assert "TwoPhaseCommitSinkFunction" in str(parts[0].reason)


def test_kryo_in_raw_types_of_sql_is_no_silent_as_is() -> None:
    """Rows contain it as bytes, which nothing rewrites: so it is listed, inside a row and as the value itself."""
    raw = RawValueDataSerializer(RAW_VALUE, 2, 0, (KryoSerializer.of("java.util.ArrayList"),))
    row = parse_type("ROWDATA<n INT, m INT>")
    targets = Knowledge(ExtractionRelease.parse("2.3")).targets
    for serializer in (raw, replace(row, nested=(row.children[0], raw))):
        (part,) = targets.of(serializer).parts
        assert part.obstacle is not None
        assert (part.obstacle.verdict, part.path) == (MigrationVerdict.NEEDS, ())
    assert not targets.of(row).parts


def test_a_savepoint_of_flink_2_needs_nothing() -> None:
    check = migration_of(Snapshot.open(str(MIGRATION / "cases" / "pojo-all" / "2.3.0-hashmap")), "2.3").check()
    assert check.restores


@pytest.mark.parametrize(
    ("case", "reason"),
    [("kryo-zoned-overlap", "clocks are set back"), ("kryo-u-inner", "KInner"), ("pojo-set-string", "LinkedHashSet")],
)
def test_what_flink_itself_cannot_keep_is_named(case: str, reason: str) -> None:
    parts = [part for part in checked(case).parts if part.verdict is MigrationVerdict.IS_LOST]
    assert [reason in str(part.reason) for part in parts] == [True]
    assert not [part for part in checked("kryo-zoned-date-time").parts if part.verdict is MigrationVerdict.IS_LOST]
