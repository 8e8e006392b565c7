"""Real Flink restores savepoints that were changed: what was edited as it is now, all else as it was."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint, OperatorIdentifier, Savepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.options.write_options import SavepointWriteOptions
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from pyspark_savepoint.write.in_place import plan_write
from tests.oracle import person
from tests.oracle.compare import differences
from tests.oracle.flink import SavepointOf, restore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.flink]

#: Elements of the user's, compressed: where they end, this release does not say.
WITHOUT_ENDS = ("1.18.1",)
KEPT = ("strings", "numbers", "namespaces", "collections", "rows", "operator-states")


def changed(spark: SparkSession, base: Savepoint, folder: Path, without_animals: bool) -> Savepoint:
    """Rename and rename back, replace states by themselves, remove one, delete keys, and assign new key groups."""
    loaded = base
    # Flink 1 records no uids.
    kept = {OperatorIdentifier.for_uid(uid).operator_id for uid in KEPT}
    for operator in base.plan.operators:
        if operator.identifier.operator_id not in kept:
            base = base.remove_operator(operator.identifier)
    first = base.change_operator_identifier("numbers", "0123456789abcdef0123456789abcdef")
    first = first.rename_state("strings", "map", "atlas").rename_state("namespaces", "text-timers", "other-timers")
    # Split by keys, and a state of another type: both are put right again by what is written second.
    keys = loaded.keyed_state("rows", state="kinds").selectExpr("key", "key % 2 = 1 AS odd")
    first = first.copy_operator("rows", "odd-rows").remove_keys("rows", keys.where("odd").select("key"))
    first = first.remove_keys("odd-rows", keys.where("NOT odd").select("key"))
    texts = loaded.keyed_state("numbers", state="long").selectExpr("key", "CAST(long AS STRING) AS long")
    first = first.with_state(_here("numbers"), "long", texts, types={"long": "STRING"})
    beasts = first.rename_state("operator-states", "animals", "beasts")
    if without_animals:
        with pytest.raises(UndecodableStateError, match=r"before 1\.18\.2 compresses.*animals"):
            beasts.write(str(folder / "refused"))
        beasts = first.remove_state("operator-states", "animals")
    first = beasts.write(str(folder / "first"))

    second = first.change_operator_identifier("0123456789abcdef0123456789abcdef", "numbers")
    second = second.rename_state("strings", "atlas", "map").rename_state("namespaces", "other-timers", "text-timers")
    second = second.merge_operator("odd-rows", into="rows").remove_state("rows", "wide")
    if not without_animals:
        second = second.rename_state("operator-states", "beasts", "animals")
    for uid, state in (("strings", "list"), ("collections", "list-state-of-maps"), ("numbers", "long")):
        types = {"types": {"long": "LONG"}} if uid == "numbers" else {}
        rows = first.keyed_state(_here(uid), state=state)
        rows = rows.withColumn("long", rows["long"].cast("long")) if uid == "numbers" else rows
        second = second.with_state(uid, state, rows, **types)
    names = first.broadcast_state("operator-states", "names")
    second = second.with_state("operator-states", "names", names)
    second = second.remove_keys("namespaces", spark.createDataFrame([(1,), (3,)], "key int"))
    # What was put in has its key groups: they change in a step of their own.
    return second.write(str(folder / "second")).with_max_parallelism(512).write(str(folder / "third"))


def _here(uid: str) -> str:
    """What an operator is called in the savepoint that was written first."""
    return "0123456789abcdef0123456789abcdef" if uid == "numbers" else uid


def expected_after(expected: dict[str, Any], without_animals: bool) -> dict[str, Any]:
    """What the job must find."""
    after = copy.deepcopy(expected)
    after["operators"] = [operator for operator in after["operators"] if operator["uid"] in KEPT]
    for operator in after["operators"]:
        tables = [(state, "entries") for state in operator["states"]]
        tables += [(timers, domain) for timers in operator.get("timers", ()) for domain in DOMAINS]
        for table, name in tables:
            if operator["uid"] == "namespaces":
                table[name] = [entry for entry in table[name] if entry[0] not in (1, 3)]
            name_of = operator["uid"], table.get("name")
            if name_of == ("rows", "wide") or (without_animals and name_of == ("operator-states", "animals")):
                table[name] = []
    return after


DOMAINS = ("eventTime", "processingTime")


@pytest.mark.spark
def test_flink_restores_what_was_changed(
    flink_version: str, savepoint_of: SavepointOf, spark: SparkSession, tmp_path: Path
) -> None:
    generated = savepoint_of(flink_version, "types", format="native", compressed=True)
    base = Savepoint.load(spark, str(generated.path), timestamps="raw")
    without_animals = flink_version in WITHOUT_ENDS
    written = changed(spark, base, tmp_path, without_animals)
    after = expected_after(generated.expected, without_animals)
    assert sum(len(state["entries"]) for operator in after["operators"] for state in operator["states"]) > 100
    for backend, parallelism in (("hashmap", 2), ("rocksdb", 3)):
        found = restore(
            flink_version, "types", Path(written.path or ""), tmp_path, backend=backend, parallelism=parallelism
        )
        assert differences(after, {uid: found[uid] for uid in KEPT}) == []
        assert not found["rows"].get("wide")


def by_command_line(base: Path, folder: Path, version: str) -> Path:
    """Edit a savepoint by commands alone: rename and rename back, take states out to files and put them in again."""

    def run(name: str, *words: object) -> None:
        assert main([name, *map(str, words)]) == 0, name

    kept = {OperatorIdentifier.for_uid(uid).operator_id for uid in KEPT}
    operators = [operator.identifier.operator_id for operator in pyspark_savepoint.open(base).plan.operators]
    run("remove", base, folder / "a", *(operator.hex for operator in operators if operator not in kept))
    run("rename", folder / "a", folder / "b", "numbers=digits", "strings.map=atlas")
    run("rename", folder / "b", folder / "c", "digits=numbers", "strings.atlas=map")
    previous = folder / "c"
    for form, suffix, uid, state in (
        ("json", "jsonl", "numbers", "long"),
        ("csv", "csv", "strings", "list"),
        ("arrow", "arrow", "collections", "list-state-of-maps"),
    ):
        run("export", previous, uid, state, "--format", form, "--file", folder / f"{state}.{suffix}")
        run("put", previous, folder / state, uid, folder / f"{state}.{suffix}", state)
        previous = folder / state
    run("remove-keys", previous, folder / "d", "namespaces", "--where", "key IN (1, 3)", "--table", "timers")
    run("split", folder / "d", "--to", folder / "one", "numbers", "--rest", folder / "others")
    # Another savepoint of the same state, as a test of a job makes it.
    run("export", folder / "one", "numbers", "--file", folder / "numbers.parquet", "-o", "decimals=string")
    types = ["-o", f"typesFrom={folder / 'one'}#numbers", "--flink", version, "--max-parallelism", 128]
    run("create", folder / "new", "numbers", folder / "numbers.parquet", *types)
    run("merge", folder / "new", folder / "others", folder / "merged")
    run("set-max-parallelism", folder / "merged", folder / "wide", 512)
    return folder / "wide"


def test_flink_restores_what_the_command_line_changed(
    flink_version: str, savepoint_of: SavepointOf, tmp_path: Path
) -> None:
    generated = savepoint_of(flink_version, "types", format="canonical")
    written = by_command_line(generated.path, tmp_path, flink_version)
    after = copy.deepcopy(generated.expected)
    after["operators"] = [operator for operator in after["operators"] if operator["uid"] in KEPT]
    for operator in after["operators"]:
        if operator["uid"] == "namespaces":
            for table in operator["states"]:
                table["entries"] = [entry for entry in table["entries"] if entry[0] not in (1, 3)]
            for timers in operator["timers"]:
                for domain in DOMAINS:
                    timers[domain] = [entry for entry in timers[domain] if entry[0] not in (1, 3)]
    for backend, parallelism in (("hashmap", 2), ("rocksdb", 3)):
        found = restore(flink_version, "types", written, tmp_path, backend=backend, parallelism=parallelism)
        assert differences(after, {uid: found[uid] for uid in KEPT}) == []


#: States of which every other key is updated, twice: with the values of other keys, then with its own again.
UPDATED = (
    ("strings", "list"), ("strings", "map"), ("numbers", "long"), ("collections", "list-state-of-maps"),
)  # fmt: skip


def updated(base: LocalSavepoint, folder: Path) -> Path:
    """Update some keys by the verb, and put their values back: by the verb, the command, and an append."""
    first = base
    own: dict[str, pa.Table] = {}
    for uid, state in UPDATED:
        rows = base.keyed_state(uid, state=state).to_arrow()
        rows = own[f"{uid}.{state}"] = rows.take(pa.array(range(0, len(rows), 2)))
        assert len(rows) > 1, state
        others = rows.column(state).take(pa.array([*range(1, len(rows)), 0]))
        first = first.update_state(uid, state, rows.set_column(rows.column_names.index(state), state, others))
    names = base.broadcast_state("operator-states", "names").to_arrow()
    swapped = names.slice(0, 2).set_column(1, "value", names.column("value").slice(0, 2).take(pa.array([1, 0])))
    second = first.update_state("operator-states", "names", swapped).write(folder / "first")
    assert (
        second.keyed_state("numbers", state="long").to_arrow() != base.keyed_state("numbers", state="long").to_arrow()
    )
    second = second.update_state("operator-states", "names", names.slice(0, 2))
    for uid, state in UPDATED[:2]:
        second = second.update_state(uid, state, own[f"{uid}.{state}"])
    second.write(folder / "second")
    parquet.write_table(own["numbers.long"], folder / "long.parquet")
    words = [folder / "second", folder / "third", "numbers", folder / "long.parquet", "long", "--upsert"]
    assert main(["put", *map(str, words)]) == 0
    rows = own["collections.list-state-of-maps"]
    given = {"path": str(folder / "third"), "uid": "collections", "state": "list-state-of-maps"}
    plan = plan_write(SavepointWriteOptions.parse(given).request(False), rows.schema)
    commit(plan, [write_rows(plan, 0, rows.to_batches())])
    return folder / "third"


def test_flink_restores_what_was_updated(flink_version: str, savepoint_of: SavepointOf, tmp_path: Path) -> None:
    """Keys with and without a row are as they were, in every state; what is not updated stays native."""
    for kind, backends in (("native", {"hashmap": 2}), ("canonical", {"hashmap": 2, "rocksdb": 3})):
        generated = savepoint_of(flink_version, "types", format=kind)
        (tmp_path / kind).mkdir()
        written = updated(pyspark_savepoint.open(generated.path, timestamps="raw"), tmp_path / kind)
        for backend, parallelism in backends.items():
            found = restore(flink_version, "types", written, tmp_path, backend=backend, parallelism=parallelism)
            assert differences(generated.expected, found) == []


def test_flink_restores_what_was_erased(flink_version: str, savepoint_of: SavepointOf, tmp_path: Path) -> None:
    """Keys of several types are gone, with their timers; all else is as it was."""
    generated = savepoint_of(flink_version, "types", format="canonical")
    base = pyspark_savepoint.open(generated.path, timestamps="raw")
    words = {entry[0] for state in states_of(generated.expected, "strings") for entry in state["entries"]}
    erased = [1, 3, min(words)]
    report = base.erase(keys=erased, to=tmp_path / "erased")
    findings = pyspark_savepoint.open(tmp_path / "erased").verify_erasure(report, keys=erased)
    # 1 and 3 stand in many values, too; namespaces of several types are compared one by one.
    assert {finding["check"] for finding in findings if finding["severity"] == "error"} == {"standing"}

    after = copy.deepcopy(generated.expected)
    removed = 0
    for operator in after["operators"]:
        for table, name in (
            *((state, "entries") for state in operator["states"] if operator["uid"] != "operator-states"),
            *((timers, domain) for timers in operator.get("timers", ()) for domain in DOMAINS),
        ):
            stays = [entry for entry in table[name] if entry[0] not in erased]
            removed += len(table[name]) - len(stays)
            table[name] = stays
    assert removed > 10
    for backend, parallelism in (("hashmap", 2), ("rocksdb", 3)):
        found = restore(flink_version, "types", tmp_path / "erased", tmp_path, backend=backend, parallelism=parallelism)
        assert differences(after, found) == []


def test_flink_restores_a_job_without_a_person(flink_version: str, savepoint_of: SavepointOf, tmp_path: Path) -> None:
    """A person in 49 places of 12 operators is gone from all of them, and nothing else is."""
    generated = savepoint_of(flink_version, **person.CASE)
    base = pyspark_savepoint.open(generated.path, uids=person.UIDS)
    report = base.erase(
        person.keys(), by=person.BY, where=person.WHERE, record_types=person.RECORD_TYPES, to=tmp_path / "erased"
    )
    new = pyspark_savepoint.open(tmp_path / "erased", uids=person.UIDS)
    findings = new.verify_erasure(report, person.keys(), where=person.WHERE)
    assert [finding for finding in findings if finding["severity"] == "error"] == []

    found = restore(flink_version, "person", tmp_path / "erased", tmp_path, backend="rocksdb-incremental")
    records = [tuple(record) for record in found["ask"].pop("records")]
    assert differences(person.without(generated.expected), found) == []
    # What was in flight has arrived, and what the source sends after it.
    clicks = [record for record in records if int(record[1].split()[1]) < person.CLICKS]
    flying = [row["value"] for uid in ("ask", "click-texts") for row in in_flight(base, uid)]
    flying = [(value["f0"], value["f1"]) for value in flying if value is not None]
    mine = [row for row in flying if row[0] == person.ID or row[1].endswith(f"of {person.MAIL}")]
    assert mine
    assert sorted(clicks) == sorted(set(flying) - set(mine))
    assert len(records) > len(clicks)


def in_flight(sp: LocalSavepoint, uid: str) -> list[dict[str, Any]]:
    """Records in flight of an operator."""
    types = {"record_types": {"output 0": person.RECORD_TYPES["click-texts.output 0"]}} if uid == "click-texts" else {}
    return list(sp.table("in_flight", uid, **types).rows())


def states_of(expected: dict[str, Any], uid: str) -> list[dict[str, Any]]:
    """The states of an operator as the job made them."""
    return next(operator["states"] for operator in expected["operators"] if operator["uid"] == uid)
