"""Snapshots of one version of Flink and jobs of another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_savepoint.formats.metadata import CheckpointMetadata
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.compatibility import (
    Compatibility,
    Flink,
    flink_of,
    metadata_problem,
    resolve_version,
)
from pyspark_savepoint.statebackends.jobs.restore.job_reader import describe_job
from pyspark_savepoint.statebackends.jobs.restore.restore_check import check_restore
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import Verdict

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
KRYO = KryoSerializer("org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot", 2, "a.B", ())


@pytest.mark.parametrize(
    ("version", "flink", "newest"),
    [
        (6, (2, 3), None),
        (6, (2, 1), None),
        (6, (2, 0), 5),
        (6, (1, 20), 4),
        (5, (2, 0), None),
        (5, (1, 16), 4),
        (4, (1, 16), None),
    ],
)
def test_newer_metadata_is_not_read(version: int, flink: Flink, newest: int | None) -> None:
    problem = metadata_problem(CheckpointMetadata(version, 1), flink)
    assert problem is None if newest is None else str(problem).endswith(f"reads versions up to {newest}")


@pytest.mark.parametrize(("version", "flink"), [(2, (1, 20)), (4, (1, 20)), (5, (2, 0)), (6, (2, 3))])
def test_a_job_without_version_has_the_snapshots(version: int, flink: Flink) -> None:
    assert flink_of(CheckpointMetadata(version, 1)) == flink


@pytest.mark.parametrize(
    ("serializer", "expected"),
    [
        (parse_type("LONG"), Compatibility.AS_IS),
        (KRYO, Compatibility.UNKNOWN),
        (ListSerializer.of(KRYO), Compatibility.UNKNOWN),
        (parse_type("OPTION<LONG>", (1, 16)), Compatibility.INCOMPATIBLE),
        (parse_type("OPTION<LONG>", (2, 0)), Compatibility.AS_IS),
    ],
)
def test_what_flink_2_makes_of_types_of_flink_1(serializer: TypeSerializer, expected: Compatibility) -> None:
    older, newer = CheckpointMetadata(4, 1), CheckpointMetadata(6, 1)
    assert resolve_version([serializer], older, (2, 3)).verdict is expected
    assert resolve_version([serializer], older, (1, 20)).verdict is Compatibility.AS_IS
    assert resolve_version([serializer], newer, (2, 3)).verdict is Compatibility.AS_IS


def test_the_restore_check_says_it_of_the_whole_snapshot() -> None:
    shop = Snapshot.open(str(SHOP))
    job = {"operators": [{"uid": operator.uid} for operator in shop.operators]}
    check = check_restore(shop, describe_job({**job, "flinkVersion": "1.20"}))
    (row,) = [row for row in check.operators if row.verdict is Verdict.FAILS]
    assert (row.operator, row.match) == (None, None)
    assert row.reasons == ("metadata version 6; Flink 1.20 reads versions up to 4",)
    assert check.to_arrow().num_rows == len(shop.operators) + 1
    assert check_restore(shop, describe_job(job)).verdict is Verdict.RESTORES
    # The same as if Flink 1 had written it: every head is read then, and nothing there is of Kryo's.
    older = replace(shop, metadata=replace(shop.metadata, version=4))
    assert check_restore(older, describe_job({**job, "flinkVersion": "2.3"})).verdict is Verdict.RESTORES
