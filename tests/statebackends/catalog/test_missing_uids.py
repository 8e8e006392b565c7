"""Listings show why an operator has no uid, and how to give it one."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.errors import SavepointWarning

#: Metadata of version 4, whose operators have uids in the job; and of version 6, where some have none.
FLINK_1 = "lab/1.20.5-hashmap-native/savepoint"
SOME_WITHOUT = "lab/2.2.1-forst-native/savepoint"


@pytest.mark.parametrize("table", ["states", "metadata"])
def test_metadata_of_flink_1_has_hashes_alone(corpus: Path, table: str) -> None:
    savepoint = pyspark_savepoint.open(corpus / FLINK_1)
    with pytest.warns(
        SavepointWarning, match=r"metadata of version 4 \(Flink 1.16 to 1.20\) has hashes of uids alone"
    ) as said:
        rows = list(savepoint.table(table).rows())
    assert rows
    assert "20 of 20 operators have no uid here" in str(said[0].message)
    with pytest.warns(SavepointWarning, match="19 of 20 operators have no uid here"):
        told = list(savepoint.table(table, uids=["kv-string"]).rows())
    assert {row["operator_uid"] for row in told} == {"kv-string", None}


def test_operators_that_the_job_gave_no_uid(corpus: Path) -> None:
    savepoint = pyspark_savepoint.open(corpus / SOME_WITHOUT)
    with pytest.warns(SavepointWarning, match="3 of 20 operators have no uid here: the job sets none"):
        savepoint.metadata()


def test_all_uids_are_known() -> None:
    shop = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(row["operator_uid"] for row in pyspark_savepoint.open(shop).metadata().rows())
