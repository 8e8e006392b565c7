"""Jobs and savepoints through Spark: the restore check as a table, operators by their place, uids for those without."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_savepoint import OperatorIdentifier, Savepoint, StreamGraph, from_execution_plan
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import generated_ids
from tests.connector.comparing import assert_same_rows

pytestmark = pytest.mark.spark

#: The part of the shop's execution plan with its accounts.
PLAN: dict[str, Any] = {
    "nodes": [
        {"id": 1, "type": "Source: orders", "pact": "Data Source", "parallelism": 1},
        {"id": 3, "type": "accounts", "parallelism": 2, "predecessors": [{"id": 1, "ship_strategy": "HASH"}]},
    ]
}


def graph(uid: str | None = None) -> StreamGraph:
    """The same graph, built."""
    made = StreamGraph()
    made.operator("accounts", made.source("orders").key_by(), parallelism=2, uid=uid)
    return made


@pytest.fixture(scope="module")
def without_uid(spark: SparkSession, shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shop's savepoint, as if its accounts had no uid."""
    path = tmp_path_factory.mktemp("identify") / "savepoint"
    generated = OperatorIdentifier(generated_ids(graph())[2])
    Savepoint.load(spark, str(shop)).change_operator_identifier("accounts", generated).write(str(path))
    return path


def test_the_restore_check_is_a_table(spark: SparkSession, shop: Path) -> None:
    savepoint = Savepoint.load(spark, str(shop))
    rows = (
        savepoint.job({"operators": [{"uid": "accounts", "key": "LONG", "states": {"total": "INT"}}]})
        .check_restore()
        .collect()
    )
    assert {row.verdict for row in rows} == {"fails", "nothing to restore"}
    accounts = next(row for row in rows if row.operator_uid == "accounts")
    assert accounts.reasons == ["state total: LONG versus INT"]
    assert ("total", "incompatible") in {(state.state, state.verdict) for state in accounts.states}
    dropped = savepoint.job({"operators": [{"uid": "accounts"}]}).check_restore(allow_non_restored_state=True)
    assert {row.verdict for row in dropped.collect()} == {"restores", "is dropped", "nothing to restore"}


def test_classes_of_a_graphs_job_are_given(spark: SparkSession, shop: Path) -> None:
    savepoint = Savepoint.load(spark, str(shop))
    types = {"accounts": {"key": "LONG", "states": {"total": "LONG"}}}

    def verdict(classes: list[str] | None) -> str:
        rows = savepoint.job(graph("accounts")).check_restore(types=types, java_classes=classes).collect()
        (row,) = (row for row in rows if row.operator_uid == "accounts")
        return str(row.verdict)

    assert verdict(None) == "unknown"
    assert verdict(["oracle.Shop$Profile", "oracle.Shop$Tier"]) == "restores"


def test_another_savepoint_can_be_the_job(spark: SparkSession, shop: Path, without_uid: Path) -> None:
    before, after = Savepoint.load(spark, str(shop)), Savepoint.load(spark, str(without_uid))
    with pytest.warns(UserWarning, match="does not set max parallelism"):
        assert {row.verdict for row in before.job(before).check_restore().collect()} == {"restores"}
    with pytest.warns(UserWarning, match="assumed about the job"):
        verdicts = [row.verdict for row in before.job(after).check_restore().collect()]
    assert verdicts.count("fails") == verdicts.count("begins empty") == 1


def test_a_graph_names_operators_without_uid(spark: SparkSession, shop: Path, without_uid: Path) -> None:
    savepoint = Savepoint.load(spark, str(without_uid))
    operator = savepoint.job(graph()).operator_at("accounts")
    expected = Savepoint.load(spark, str(shop)).keyed_state("accounts")
    assert_same_rows(savepoint.keyed_state(operator), expected, "key")
    types = {"accounts": {"key": "LONG", "states": {"total": "LONG"}}}
    rows = savepoint.job(graph()).check_restore(types=types, flink_version="2.3", state_backend="rocksdb").collect()
    (accounts,) = [row for row in rows if row.matched_by == "v2"]
    # Flink reads the serializers of dropped states too, so their classes must exist.
    assert accounts.verdict == "unknown"
    assert any("must still have" in reason and "Profile" in reason for reason in accounts.reasons), accounts.reasons


@pytest.mark.parametrize("node", ["accounts", "3"])
@pytest.mark.parametrize("hasher", ["v2", "v3"])
def test_the_option_node_reads_it(spark: SparkSession, without_uid: Path, node: str, hasher: str) -> None:
    reader = spark.read.format("savepoint").option("node", node).option("executionPlan", json.dumps(PLAN))
    table = reader.option("streamGraphHasher", hasher).load(str(without_uid))
    assert table.count() > 0
    assert {"key", "total", "profile"} <= set(table.columns)


def test_uids_are_assigned(spark: SparkSession, without_uid: Path, tmp_path: Path) -> None:
    savepoint = Savepoint.load(spark, str(without_uid))
    by_graph = savepoint.assign_uids(graph("accounts")).write(str(tmp_path / "by graph"))
    by_hash = savepoint.assign_uid(str(generated_ids(graph())[2]), "accounts").write(str(tmp_path / "by hash"))
    for written in (by_graph, by_hash):
        operator = written.metadata().where("operator_uid = 'accounts'").collect()
        assert [row.operator_uid_hash for row in operator] == [str(OperatorID.from_uid("accounts"))]
        assert written.keyed_state("accounts").count() > 0
    # Nothing is left to assign.
    assert by_graph.assign_uids(graph("accounts")).plan == by_graph.plan


def test_the_restore_plan_is_a_table(spark: SparkSession, shop: Path) -> None:
    plan = Savepoint.load(spark, str(shop)).job({"operators": [{"uid": "accounts", "parallelism": 4}]}).restore_plan()
    assert [row.last_key_group for row in plan.orderBy("subtask").collect()] == [31, 63, 95, 127]


def test_assumptions_about_the_job_are_warned_of(spark: SparkSession, shop: Path) -> None:
    savepoint = Savepoint.load(spark, str(shop))
    with pytest.warns(UserWarning, match="assumed about the job") as told:
        savepoint.job(from_execution_plan(PLAN)).check_restore()
    assert len(told) == 3
    assert any("disableChaining and startNewChain are not used" in str(one.message) for one in told)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        savepoint.job(graph()).check_restore()


def test_what_cannot_be_is_said(spark: SparkSession, shop: Path) -> None:
    savepoint = Savepoint.load(spark, str(shop))
    with pytest.raises(OptionError, match="unknown version of the stream graph hasher"):
        savepoint.job(graph(), stream_graph_hasher="v4").check_restore()
    with pytest.raises(OptionError, match="is not written yet"):
        savepoint.remove_operator("accounts").job(graph()).check_restore()
