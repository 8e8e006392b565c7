"""Serializers of views of aggregates are those that Flink writes, byte for byte."""

from __future__ import annotations

import pytest

from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.serializers.sql.external import COUNTS, external_serializer
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.data import unpacked
from tests.statebackends.evolution.verdicts import changes


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_set_of_distinct_values(version: str) -> None:
    path = unpacked() / "sql-changes" / version / "distinct-sum-added" / "golden"
    snapshot = Snapshot.open(str(path))
    metas = [
        meta
        for operator in snapshot.operators
        for header in OpenOperator(snapshot, operator).keyed.headers
        for meta in header.states
        if meta.name == "distinctAcc_0"
    ]
    assert metas
    for meta in metas:
        value, number = meta.value_serializer.children
        assert value == external_serializer(LogicalType("INTEGER"))
        assert number == external_serializer(LogicalType("BIGINT", nullable=False))


def test_counts_of_several_calls_of_distinct() -> None:
    snapshot = Snapshot.open(str(changes() / "1.20.5" / "log-distinct-turned" / "before"))
    metas = [
        meta
        for operator in snapshot.operators
        for header in OpenOperator(snapshot, operator).keyed.headers
        for meta in header.states
        if meta.name.startswith("distinctAcc_0")
    ]
    assert {meta.name for meta in metas} == {"distinctAcc_0", "distinctAcc_0_null_state"}
    for meta in metas:
        counts = meta.value_serializer
        assert (counts.children[1] if meta.name == "distinctAcc_0" else counts) == external_serializer(COUNTS)


def test_types_with_parts_are_refused() -> None:
    with pytest.raises(UnsupportedStateError, match="cannot be created"):
        external_serializer(LogicalType("ARRAY", children=(LogicalType("INTEGER"),)))
