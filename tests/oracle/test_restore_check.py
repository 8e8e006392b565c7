"""Verdicts about changed jobs, against real restores of the same jobs from the savepoints that Flink wrote."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_savepoint import Savepoint as FluentSavepoint
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import generated_ids
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph, StreamGraphHasher
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import ChainingStrategy
from pyspark_savepoint.statebackends.jobs.restore.job_reader import describe_job, from_graph
from pyspark_savepoint.statebackends.jobs.restore.restore_check import check_restore
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import RestoreCheck, Verdict
from tests.oracle.conftest import failing_in_one_line
from tests.oracle.evolution import ORDER, PLAIN, Job, described, evolve

pytestmark = pytest.mark.flink

WITH_NOTE = "POJO<evolve.Order>(id LONG, name STRING, note STRING, total DOUBLE)"
WITHOUT_TOTAL = "POJO<evolve.Order>(id LONG, name STRING)"
OTHER_TOTAL = "POJO<evolve.Order>(id LONG, name STRING, total LONG)"

KEYED: Job = {
    "uid": "keyed",
    "key": "LONG",
    "states": {
        "count": "LONG",
        "order": ORDER,
        "color": "ENUM<evolve.Color>(RED, GREEN, BLUE)",
        "recent": {"kind": "LIST", "type": "INT"},
        "spent": {"kind": "MAP", "key": "STRING", "type": "DOUBLE"},
        "sum": {"kind": "REDUCING", "type": "LONG"},
        "timed": {"type": "STRING", "ttl": True},
        "history": {"kind": "LIST", "type": ORDER},
        "latest": {"kind": "MAP", "key": "STRING", "type": ORDER},
        "pair": "TUPLE<INT, STRING>",
    },
}
BASE: Job = {"parallelism": 2, "operators": [KEYED, PLAIN]}
#: State whose keys, or whose map's keys, are POJOs.
KEYS: Job = {
    "operators": [
        {"uid": "by order", "key": ORDER, "states": {"n": "LONG"}},
        {"uid": "maps", "key": "LONG", "states": {"by_order": {"kind": "MAP", "key": ORDER, "type": "INT"}}},
    ]
}


def changed(which: str = "", base: Job = BASE, **changes: Any) -> Job:
    """The job with one operator changed; states are replaced one by one, None removes."""
    job = copy.deepcopy(base)
    for operator in job["operators"]:
        for name, value in changes.items() if operator["uid"] == which else ():
            if name in ("states", "operatorStates"):
                operator[name].update(value)
                operator[name] = {state: spec for state, spec in operator[name].items() if spec is not None}
            else:
                operator[name] = value
    return job


def everywhere(old: str, new: str, base: Job = BASE) -> Job:
    """Return the job with a type replaced in all places."""
    job = copy.deepcopy(base)
    for operator in job["operators"]:
        operator["key"] = new if operator.get("key") == old else operator.get("key")
        for states in (operator.get("states", {}), operator.get("operatorStates", {})):
            for name, state in states.items():
                if isinstance(state, str):
                    states[name] = new if state == old else state
                else:
                    state.update({part: new for part in ("key", "type") if state.get(part) == old})
    return job


ADDED: Job = {"uid": "added", "key": "LONG", "states": {"x": "LONG"}}

CHANGES: dict[str, Job] = {
    "none": BASE,
    "operator removed": {**BASE, "operators": [PLAIN]},
    "operator removed, and that is allowed": {**BASE, "operators": [PLAIN], "allowNonRestoredState": True},
    "operator added": {**BASE, "operators": [KEYED, PLAIN, ADDED]},
    "uid renamed": changed("keyed", uid="renamed"),
    "parallelism": {**BASE, "parallelism": 3},
    "max parallelism set to the same": {**BASE, "maxParallelism": 128},
    "max parallelism set to another": {**BASE, "maxParallelism": 256},
    "parallelism above max parallelism": {**BASE, "parallelism": 130},
    "LONG to STRING": changed("keyed", states={"count": "STRING"}),
    "LONG to INT": changed("keyed", states={"count": "INT"}),
    "key": changed("keyed", key="STRING"),
    "state removed": changed("keyed", states={"count": None}),
    "state added": changed("keyed", states={"more": "LONG"}),
    "VALUE to LIST": changed("keyed", states={"count": {"kind": "LIST", "type": "LONG"}}),
    "REDUCING to VALUE": changed("keyed", states={"sum": "LONG"}),
    "list to union": changed("plain", operatorStates={"list": {"kind": "UNION", "type": "STRING"}}),
    "list to broadcast": changed(
        "plain", operatorStates={"list": {"kind": "BROADCAST", "key": "STRING", "type": "STRING"}}
    ),
    "list of another type": changed("plain", operatorStates={"list": {"kind": "LIST", "type": "LONG"}}),
    "broadcast by another key": changed(
        "plain", operatorStates={"rates": {"kind": "BROADCAST", "key": "LONG", "type": "DOUBLE"}}
    ),
    "enum constant added": changed("keyed", states={"color": "ENUM<evolve.Color>(RED, GREEN, BLUE, PINK)"}),
    "enum constants in another order": changed("keyed", states={"color": "ENUM<evolve.Color>(BLUE, GREEN, RED)"}),
    "enum constant removed": changed("keyed", states={"color": "ENUM<evolve.Color>(RED, GREEN)"}),
    "POJO field added": everywhere(ORDER, WITH_NOTE),
    "POJO field removed": everywhere(ORDER, WITHOUT_TOTAL),
    "POJO field of another type": everywhere(ORDER, OTHER_TOTAL),
    "map of another key": changed("keyed", states={"spent": {"kind": "MAP", "key": "LONG", "type": "DOUBLE"}}),
    "map of another value": changed("keyed", states={"spent": {"kind": "MAP", "key": "STRING", "type": "LONG"}}),
    "tuple with one field more": changed("keyed", states={"pair": "TUPLE<INT, STRING, INT>"}),
    "tuple to either": changed("keyed", states={"pair": "EITHER<INT, STRING>"}),
    "time to live switched on": changed("keyed", states={"count": {"type": "LONG", "ttl": True}}),
    "time to live switched off": changed("keyed", states={"timed": "STRING"}),
    "not keyed any more": {**BASE, "operators": [{"uid": "keyed", "states": {}}, PLAIN]},
}
#: All states of the class are gone; and the class too, or not: the harness compiles what the types name.
WITHOUT_ORDERS = changed(
    "plain", changed("keyed", states={"order": None, "history": None, "latest": None}), operatorStates={"orders": None}
)
CHANGES["states and their class removed"] = WITHOUT_ORDERS
CHANGES["states removed, and their class is still there"] = {
    **WITHOUT_ORDERS,
    "operators": [*WITHOUT_ORDERS["operators"], {"uid": "other", "operatorStates": {"orders": ORDER}}],
}
#: Cases that differ on RocksDB, or use other code there.
ON_ROCKSDB = (
    *("none", "LONG to STRING", "key", "VALUE to LIST", "enum constant removed", "POJO field added", "parallelism"),
    *("POJO field of another type", "tuple to either", "time to live switched on", "map of another key"),
)
KEY_CHANGES: dict[str, Job] = {
    "POJO as key of a map, field added": changed(
        "maps", KEYS, states={"by_order": {"kind": "MAP", "key": WITH_NOTE, "type": "INT"}}
    ),
    "POJO as key, field added": changed("by order", KEYS, key=WITH_NOTE),
}
del KEY_CHANGES["POJO as key of a map, field added"]["operators"][0]
KEY_CHANGES["POJO as key of a map, field added"]["allowNonRestoredState"] = True
del KEY_CHANGES["POJO as key, field added"]["operators"][1]
KEY_CHANGES["POJO as key, field added"]["allowNonRestoredState"] = True


# -- jobs that are described by their graphs -------------------------------------------------------------------

WITHOUT_UIDS: Job = {"operators": [{"name": "count", "key": "LONG", "states": {"n": "LONG"}, "behind": 2}]}
WIDE: Job = {"maxParallelism": 256, "operators": [{"uid": "wide", "key": "LONG", "states": {"n": "LONG"}}]}
WITH_ONE_BEHIND, WITH_THREE_BEHIND = ({"operators": [{**WIDE["operators"][0], "behind": count}]} for count in (1, 3))
INLINED: Job = {"operators": [{"uid": "plain", "operatorStates": {"n": "LONG"}}], "inlined": True}
GRAPH_CHANGES: dict[str, tuple[Job, Job]] = {
    "without uids, nothing changed": (WITHOUT_UIDS, WITHOUT_UIDS),
    "without uids, chaining switched off": (WITHOUT_UIDS, {**WITHOUT_UIDS, "chaining": False}),
    "without uids, one operator more behind": (
        WITHOUT_UIDS,
        {"operators": [{**WITHOUT_UIDS["operators"][0], "behind": 3}]},
    ),
    "without uids, a uid given": (WITHOUT_UIDS, {"operators": [{**WITHOUT_UIDS["operators"][0], "uid": "count"}]}),
    "sources inside an operator": (INLINED, INLINED),
    "sources inside an operator no more": (INLINED, {**INLINED, "chaining": False}),
    "operators in the task of another max parallelism": (WIDE, WITH_THREE_BEHIND),
    "an operator in the task of another max parallelism": (WIDE, WITH_ONE_BEHIND),
}


def graph_of(job: Job) -> StreamGraph:
    """What the harness builds of a job."""
    graph = StreamGraph(job.get("parallelism", 1), job.get("maxParallelism"), chaining=job.get("chaining", True))
    numbers = graph.source("numbers", uid="numbers")
    for operator in job["operators"]:
        names = {"uid": operator.get("uid"), "uid_hash": operator.get("uidHash")}
        made = graph.operator(
            operator.get("name", "operator"), numbers.key_by() if "key" in operator else numbers, **names
        )
        for number in range(operator.get("behind", 0)):
            made = graph.operator(f"behind {number}", made)
    if job.get("inlined"):
        inputs = [graph.source(name, uid=name) for name in ("first", "second")]
        graph.operator("many", *inputs, uid="many", chaining=ChainingStrategy.HEAD_WITH_SOURCES)
    return graph


def with_remedy(job: Job) -> Job:
    """Return the job without chaining, with the old id as uid hash: the remedy in the code of the job."""
    graph = graph_of(job)
    before = generated_ids(graph)[graph.node("count").id]
    return {**job, "chaining": False, "operators": [{**job["operators"][0], "uidHash": str(before)}]}


GRAPH_CHANGES["without uids, chaining switched off, uid hash given"] = (WITHOUT_UIDS, with_remedy(WITHOUT_UIDS))


# -- Flink ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A job that Flink restored from a savepoint, or failed to."""

    name: str
    job: Job
    snapshot: Path
    answer: dict[str, Any]

    @property
    def failed(self) -> bool:
        return "error" in self.answer


@pytest.fixture(scope="module")
def cases(flink_version: str, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """All restores, in one cluster."""
    folder = tmp_path_factory.mktemp("evolve")
    planned = list(_planned(folder))
    with failing_in_one_line():
        answers = evolve(flink_version, folder / "work", [job for _, job in planned])
    found = []
    for (name, job), answer in zip(planned, answers, strict=True):
        if "restore" in job:
            found.append(Case(name, job, Path(job["restore"]), answer))
        else:
            assert answer == {"ok": True}, f"{job['name']} was not written"
    return found


def _planned(folder: Path) -> Iterator[tuple[str, Job]]:
    """Jobs that write savepoints, each before those that restore them."""
    groups: list[tuple[str, Job, dict[str, Job]]] = [("hashmap", BASE, CHANGES)]
    groups.append(("rocksdb", BASE, {name: CHANGES[name] for name in ON_ROCKSDB}))
    groups += [(backend, KEYS, KEY_CHANGES) for backend in ("hashmap", "rocksdb")]
    for name, (base, job) in GRAPH_CHANGES.items():
        groups.append(("hashmap", base, {name: job}))
    number = 0
    for backend, base, changes in groups:
        path = str(folder / f"savepoint {number}")
        for name, job in [("", base), *changes.items()]:
            number += 1
            where = {"restore": path} if name else {"savepoint": path}
            yield f"{name} ({backend})", {**job, "name": f"job {number}", "stateBackend": backend, **where}


def verdict_of(case: Case, flink_version: str) -> RestoreCheck:
    """Our verdict, of the graph where operators have no uids."""
    allowed = case.job.get("allowNonRestoredState", False)
    version = ".".join(flink_version.split(".")[:2])
    if any("behind" in operator for operator in case.job["operators"]) or "inlined" in case.job:
        operator = case.job["operators"][0]
        known = {name: operator[name] for name in ("key", "states", "operatorStates") if name in operator}
        types = {operator.get("uid", operator.get("name")): known}
        job = from_graph(graph_of(case.job), types, flink_version=version, state_backend=case.job["stateBackend"])
    else:
        job = describe_job({**described(case.job), "flinkVersion": version})
    return check_restore(Snapshot.open(str(case.snapshot)), job, allow_non_restored_state=allowed)


def test_verdicts_are_those_of_real_restores(cases: list[Case], flink_version: str) -> None:
    differences = []
    for case in cases:
        check = verdict_of(case, flink_version)
        # A description of types does not show whether a class still exists.
        known = check.verdict is not Verdict.UNKNOWN or case.name.startswith("states and their class removed")
        fails = check.verdict in (Verdict.FAILS, Verdict.UNKNOWN)
        if fails != case.failed or not known:
            said = [row.reasons for row in check.operators if row.verdict is check.verdict]
            differences.append(f"{case.name}: {check.verdict} {said}, Flink: {case.answer}")
    assert not differences, "\n".join(differences)


def test_what_is_said_of_restores_that_succeed(cases: list[Case], flink_version: str) -> None:
    said = {case.name: verdict_of(case, flink_version).verdict for case in cases if not case.failed}
    assert said["none (hashmap)"] is Verdict.RESTORES
    assert said["operator removed, and that is allowed (hashmap)"] is Verdict.IS_DROPPED
    assert said["operator added (hashmap)"] is Verdict.BEGINS_EMPTY
    assert said["POJO field added (rocksdb)"] is Verdict.MIGRATES
    assert said["enum constant added (hashmap)"] is Verdict.RESTORES
    assert said["not keyed any more (hashmap)"] is Verdict.IS_DROPPED
    if flink_version.startswith("1.16"):
        assert "tuple to either (hashmap)" not in said
    else:
        assert said["tuple to either (hashmap)"] is Verdict.IS_MISREAD


def test_reasons_of_failures_name_the_state(cases: list[Case], flink_version: str) -> None:
    by_name = {case.name: case for case in cases}
    check = verdict_of(by_name["LONG to STRING (hashmap)"], flink_version)
    (row,) = [row for row in check.operators if row.verdict is Verdict.FAILS]
    assert row.reasons == ("state count: LONG versus STRING",)
    assert {state.state: state.verdict for state in row.states}["count"] == "incompatible"
    check = verdict_of(by_name["uid renamed (hashmap)"], flink_version)
    (row,) = [row for row in check.operators if row.verdict is Verdict.FAILS]
    assert row.operator is None
    assert row.reasons == ("the job has no operator of this id",)


def test_version_3_keeps_state_when_chaining_changes(cases: list[Case]) -> None:
    by_name = {case.name: case for case in cases}
    case = by_name["without uids, chaining switched off (hashmap)"]
    savepoint = Snapshot.open(str(case.snapshot))
    graph, before = graph_of(case.job), graph_of(WITHOUT_UIDS)
    assert generated_ids(graph, StreamGraphHasher.V3) == generated_ids(before, StreamGraphHasher.V3)
    assert generated_ids(before)[2] in {operator.operator_id for operator in savepoint.operators}
    # Flink wrote ids of version 2, which a job with version 3 has as alternatives while chaining is the same.
    same = check_restore(savepoint, from_graph(before, hasher=StreamGraphHasher.V3))
    assert same.verdict is Verdict.RESTORES
    assert {row.match.by for row in same.operators if row.match} == {"uid", "v2"}


@pytest.mark.spark
def test_uids_that_are_assigned_restore(
    spark: SparkSession, cases: list[Case], flink_version: str, tmp_path: Path
) -> None:
    """The remedy in the savepoint: the job gives its operator a uid, and so does who takes the savepoint along."""
    case = next(case for case in cases if case.name.startswith("without uids, a uid given"))
    graph = graph_of(case.job)
    written = FluentSavepoint.load(spark, str(case.snapshot)).assign_uids(graph).write(str(tmp_path / "savepoint"))
    assert {row.verdict for row in written.job(graph).check_restore().collect()} == {"restores"}
    job = {**case.job, "restore": str(tmp_path / "savepoint")}
    assert evolve(flink_version, tmp_path / "work", [job]) == [{"ok": True}]
